"""What the studies beside this file say about regret without noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from experiments import tuning
from experiments.deterministic.crossing import against_table
from experiments.deterministic.flattening import median_gap, rounds_until_flat
from experiments.experiment import FOLDER, Conclusions
from jaxvar import constants
from jaxvar.analysis import mean_interval, proportion_interval, sample, slope_in_rounds
from jaxvar.analysis.captions import environment_name
from jaxvar.figures import regret_curves
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

TUNED = "SAVE (tuned x"
EPISODE_RIVALS = {
    "UCRL-AVE (paper)": "UCRL-VTR (paper)",
    "UCRL-AVE (practical)": "UCRL-VTR (same multiplier x0.0464)",
}


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Make tables and figures; the tuned multipliers are those of the experiment on variance."""
    chosen = tuning.found_in(FOLDER / "variance" / "found.json")
    tuning.check(chosen, results.values())
    tables = {name: _last_decade(result) for name, result in results.items()}
    tables["flattening"] = _flattening(results["bandits"], chosen["SAVE"])
    tables["bandits_against"] = against_table(results["bandits"], _rivals(results["bandits"]))
    tables["episodes_against"] = against_table(results["episodes"], EPISODE_RIVALS)
    return Conclusions(tables, {name: regret_curves(result) for name, result in results.items()})


def _rivals(bandits: StudyResult) -> dict[str, str]:
    """Return the rival of each algorithm: OFUL, tuned for tuned ones, with the theorem's constants for all others."""
    ofuls = {"tuned" in a: a for a in bandits.algorithms if a.startswith("OFUL (")}
    return {a: ofuls["(tuned" in a] for a in bandits.algorithms if a not in ofuls.values()}


def _last_decade(result: StudyResult) -> Table:
    """Show how much regret the last nine tenths of the run add."""
    last = int(result.cells[0].rounds[-1])
    start = last // 10
    columns = (
        Column("problem"),
        Column("algorithm"),
        Column(f"regret at {start:,}", "half"),
        Column(f"regret at {last:,}", "half"),
        Column("growth", "half"),
        Column("exponent", "ends"),
        Column("seeds without growth", "ends"),
        Column("median end", "number"),
    )
    caption = (
        f"Regret in the last decade, from {result.unit} {start:,} to {last:,}, over {len(result.cells[0].seeds):,} "
        "seeds: means and growth with 95 % t intervals, the exponent of the curve with a 95 % bootstrap interval, and "
        "the share of the seeds whose regret grew by less than one thousandth, with a Clopper-Pearson interval. The "
        f"median end is the median over the seeds of the {result.unit} by which all but a thousandth of a seed's "
        "regret was there."
    )
    return Table(caption, columns, tuple(_growth(cell, start) for cell in result.cells))


def _growth(cell: CellResult, start: int) -> tuple[object, ...]:
    curves = sample(cell).values
    first = int(np.searchsorted(cell.rounds, start))
    growth = curves[:, -1] - curves[:, first]
    flat = int(np.sum(growth <= 1e-3 * np.maximum(curves[:, first], 1e-9)))
    return (
        environment_name(cell),
        cell.algorithm,
        mean_interval(curves[:, first]),
        mean_interval(curves[:, -1]),
        mean_interval(growth),
        slope_in_rounds(cell, burn_in=int(cell.rounds[first])).slope,
        proportion_interval(flat, len(growth), "share of seeds without growth"),
        int(np.median(cell.rounds[np.argmax(curves >= 0.999 * curves[:, -1:], axis=1)])),
    )


def _flattening(bandits: StudyResult, multiplier: float) -> Table:
    """Predict the rounds until SAVE has dropped all arms but the best, in the problem with the median gap."""
    presets = {
        "SAVE (paper)": constants.paper(),
        "SAVE (practical)": constants.practical(),
        f"{TUNED}{multiplier:g})": constants.practical(multiplier),
    }
    environment = bandits.config["study"]["environment"][0]
    lines = []
    for dim in environment["sweep"]["dim"]:
        gap = median_gap(dim, environment["num_arms"])
        for label, preset in presets.items():
            layer, rounds = rounds_until_flat(preset, dim, gap)
            lines.append((dim, gap, label, layer, rounds))
    kinds = (Column("d", "number"), Column("median gap", "number"), Column("algorithm"), Column("layer", "number"))
    caption = (
        "Where SAVE would stop to grow: the first layer that, once full, drops an arm of the median gap "
        "(2 · 2^-l beta below the gap, no noise), and about the rounds that fill all layers up to it."
    )
    return Table(caption, (*kinds, Column("rounds", "number")), tuple(lines))
