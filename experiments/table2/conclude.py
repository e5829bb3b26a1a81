"""What is concluded: exponents in K and in H beside the claimed ones, and how far from learning each constant is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments import tuning
from experiments.by_value import regret_by_horizon
from experiments.experiment import Conclusions
from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.analysis import Interval, sample, slope_in_rounds, slopes_in
from jaxvar.figures import against_parameter, regret_curves
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table
from jaxvar.tables.of_study import final_regret

Array = np.ndarray[Any, Any]
UNIFORM = "Uniform play"
NOISY, CERTAIN = 0.3, 0.0  # values of mix
HORIZON = 10  # of the study of episodes

# Exponents of the claimed bounds where the total reward is at most 1: bounds for a total of H are divided by H, which
# leaves d sqrt(H K) of UCRL-VTR and sqrt(d^2 H + d H^2) sqrt(K) of UCRL-VTR+, where H is above d here.
CLAIMED_K = {"UCRL-AVE": "1/2; 0 without noise"}
CLAIMED_H = {"UCRL-VTR": "1/2", "UCRL-VTR+": "1"}


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Make tables and figures of the studies ``episodes``, ``horizons``, ``nets`` and ``tune``."""
    episodes, horizons, nets, tune = (results[name] for name in ("episodes", "horizons", "nets", "tune"))
    if tuning.at_own_size(tune, Path(__file__).with_name("tune.toml")):
        tuning.check(tuning.chosen(tune), (episodes, horizons))
    tables = {
        "table2": exponents(episodes, horizons, nets),
        "regret": final_regret(episodes),
        "learned": learned(episodes, nets),
        "horizons": regret_by_horizon((horizons, nets)),
        "tuned": tuning.table(tune),
        "needed": needed(tune, horizons),
    }
    one_horizon = [cell for cell in nets.cells if cell.environment_settings["horizon"] == HORIZON]
    figures = {
        "episodes": regret_curves(episodes),
        "horizons": against_parameter(horizons, "horizon"),
        "nets": regret_curves(dataclasses.replace(nets, cells=tuple(one_horizon))),
    }
    return Conclusions(tables, figures)


def exponents(episodes: StudyResult, horizons: StudyResult, nets: StudyResult) -> Table:
    """Show the paper's table with a row for each set of constants: what is claimed, and what was measured."""
    in_rounds = {
        (cell.algorithm, cell.environment_settings["mix"]): slope_in_rounds(cell, burn_in=max(1, cell.num_rounds // 10))
        for study in (episodes, nets)
        for cell in study.cells
        if cell.environment_settings.get("horizon", HORIZON) == HORIZON
    }
    in_horizon = {
        (s.algorithm, s.cells[0].environment_settings["mix"]): s
        for study in (horizons, nets)
        for s in slopes_in(study, "horizon")
    }
    claims = {claim.name: claim for claim in CLAIMS if claim.table == 2}
    labels = sorted(dict.fromkeys(who for who, _ in in_rounds), key=lambda label: _place(label, list(claims)))
    rows = []
    for label in labels:
        name, constants = _parts(label)
        claim = claims.get(name)
        measured = [found[label, mix].slope for found in (in_rounds, in_horizon) for mix in (NOISY, CERTAIN)]
        rows.append(
            (
                name,
                constants,
                claim.regret if claim else "",
                CLAIMED_K.get(name, "1/2") if claim else "1",
                *measured[:2],
                CLAIMED_H.get(name, "0") if claim else "",
                *measured[2:],
            )
        )
    columns = (
        Column("algorithm"),
        Column("constants"),
        Column("claimed regret"),
        Column("K, claimed"),
        Column("K, noisy", "ends"),
        Column("K, no noise", "ends"),
        Column("H, claimed"),
        Column("H, noisy", "ends"),
        Column("H, no noise", "ends"),
    )
    last, short = episodes.cells[0].num_rounds, nets.cells[0].num_rounds
    caption = (
        "Table 2, claimed and measured. Claimed exponents are for a total reward of at most 1. Measured: in K over the "
        f"last decade up to {last:,} episodes ({short:,} for VarLin and VarLin2) at H = {HORIZON}, in H after "
        f"{horizons.cells[0].num_rounds:,} episodes ({short:,}); least squares of logarithms with 95 % bootstrap "
        f"percentile intervals over {len(episodes.cells[0].seeds)} seeds."
    )
    return Table(caption, columns, tuple(rows))


def learned(episodes: StudyResult, nets: StudyResult) -> Table:
    """Show final regret at one horizon as a share of that of uniform play in as many episodes."""
    uniform = {c.environment_settings["mix"]: c for c in episodes.cells if c.algorithm == UNIFORM}
    found: dict[str, dict[float, Interval]] = {}
    for cell in (*episodes.cells, *nets.cells):
        if cell.algorithm != UNIFORM and cell.environment_settings.get("horizon", HORIZON) == HORIZON:
            mix = cell.environment_settings["mix"]
            found.setdefault(cell.algorithm, {})[mix] = share(cell, uniform[mix])
    rows = [(*_parts(label), found[label][NOISY], found[label][CERTAIN]) for label in found]
    columns = (Column("algorithm"), Column("constants"), Column("noisy", "ends"), Column("no noise", "ends"))
    caption = (
        f"Regret per episode as a share of uniform play's at H = {HORIZON}, over all episodes "
        f"({episodes.cells[0].num_rounds:,}; {nets.cells[0].num_rounds:,} for VarLin and VarLin2), with 95 % bootstrap "
        "percentile intervals: seeds are resampled together."
    )
    return Table(caption, columns, tuple(rows))


def share(cell: CellResult, reference: CellResult, *, resamples: int = 2000, seed: int = 0) -> Interval:
    """Return regret per episode relative to that of another cell, whose seeds are the same and drawn together."""
    mine, theirs = sample(cell), sample(reference)
    common, i, j = np.intersect1d(mine.seeds, theirs.seeds, return_indices=True)
    values = np.stack([mine.final[i] / cell.num_rounds, theirs.final[j] / reference.num_rounds])  # [2, seeds]
    draws = np.random.default_rng(seed).integers(len(common), size=(resamples, len(common)))
    over, under = values[:, draws].mean(axis=2)
    low, high = np.quantile(over / under, [0.025, 0.975])
    estimate = values[0].mean() / values[1].mean()
    return Interval(float(estimate), float(low), float(high), 0.95, "bootstrap percentile", "share", len(common))


def needed(tune: StudyResult, horizons: StudyResult) -> Table:
    """Show the multiplier that leaves half of uniform play's regret, and the episodes that 1 would need for that."""
    uniform = [
        sample(c).final / c.num_rounds
        for c in horizons.cells
        if c.algorithm == UNIFORM and c.environment_settings["horizon"] == HORIZON
    ]
    length = tune.cells[0].num_rounds
    half = 0.5 * length * float(np.mean(uniform))
    rows = []
    for name, tried in tuning.tried(tune).items():
        at = multiplier_at(tried.regret, half)
        rows.append((name, at, None if at is None else _episodes(at, length)))
    columns = (Column("algorithm"), Column("multiplier", "ends"), Column("episodes at multiplier 1", "ends"))
    caption = (
        f"The multiplier at which {length:,} episodes leave half of uniform play's regret, by interpolation in the "
        "tuning grid with 95 % bootstrap percentile intervals, and the episodes after which the multiplier 1 would, if "
        "they grow with the square of the multiplier (intervals are for the seeds, not for that law). Empty "
        "where every multiplier of the grid leaves less than half. UCRL-AVE in the practical form; the printed "
        "constants are larger."
    )
    return Table(caption, columns, tuple(rows))


def multiplier_at(
    grid: Mapping[float, Array], level: float, *, resamples: int = 2000, seed: int = 0
) -> Interval | None:
    """Return where the mean regret crosses ``level``, between positive neighbours of the grid on logarithmic axes.

    None where it does not: not between the grid's ends, or not in every resample of the seeds.
    """
    positive = sorted(x for x in grid if x > 0)
    multipliers = np.log(positive)
    values = np.stack([grid[x] for x in positive], axis=1)  # [seeds, multipliers]
    draws = np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))
    curves = np.vstack([values.mean(0), *(values[index].mean(0)[None] for index in draws)])
    above = curves >= level
    if not np.all(above[:, -1]) or np.any(above[:, 0]):
        return None
    last_below = curves.shape[1] - 1 - np.argmax(~above[:, ::-1], axis=1)
    rows, logs = np.arange(len(curves)), np.log(curves)
    low, high = logs[rows, last_below], logs[rows, last_below + 1]
    share = (np.log(level) - low) / (high - low)
    at = np.exp(multipliers[last_below] + share * (multipliers[last_below + 1] - multipliers[last_below]))
    first, last = np.quantile(at[1:], [0.025, 0.975])
    return Interval(float(at[0]), float(first), float(last), 0.95, "bootstrap percentile", "multiplier", len(values))


def _episodes(at: Interval, length: int) -> Interval:
    estimate, high, low = (length / x**2 for x in (at.estimate, at.low, at.high))
    return dataclasses.replace(at, estimate=estimate, low=low, high=high, of="episodes")


def _parts(label: str) -> tuple[str, str]:
    """Split ``"UCRL-AVE (tuned x0.01)"`` into name and constants."""
    name, _, constants = label.partition(" (")
    return name, constants.rstrip(")")


def _place(label: str, names: list[str]) -> int:
    name = _parts(label)[0]
    return names.index(name) if name in names else len(names)
