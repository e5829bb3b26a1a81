"""Multipliers chosen on held-out seeds: which they are, out of what, and whether the studies use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import jaxvar as jv
from jaxvar.analysis import Interval, mean_interval, sample
from jaxvar.study.result import StudyResult
from jaxvar.tables import Column, Table

Array = np.ndarray[Any, Any]
TUNED = " (tuned"  # what labels of tuned algorithms go on with


def tried(tune: StudyResult) -> dict[str, dict[float, Array]]:
    """Final regret per seed, averaged over the environments: by algorithm and multiplier."""
    found: dict[str, dict[float, list[Array]]] = {}
    for cell in tune.cells:
        (multiplier,) = cell.algorithm_settings.values()
        final = sample(cell, at_least=len(cell.seeds)).final  # a failed seed would be missing in one environment
        found.setdefault(cell.algorithm, {}).setdefault(multiplier, []).append(final)
    return {name: {x: np.mean(values, axis=0) for x, values in grid.items()} for name, grid in found.items()}


def chosen(tune: StudyResult) -> dict[str, float]:
    """The multiplier with the least mean regret, by algorithm."""
    return {name: min(grid, key=lambda x: float(grid[x].mean())) for name, grid in tried(tune).items()}


def check_tuned(folder: Path, tune: StudyResult, others: Iterable[StudyResult]) -> None:
    """Refuse studies that were not given the multipliers that tuning found.

    Tuning of another size than its file's is not held against them.

    Raises:
      ValueError: that names the algorithm, what it was given and what was found.
    """
    asked = jv.read_study(folder / "tune.toml").to_config()
    if any(tune.config["study"][key] != asked[key] for key in ("seeds", "episodes")):
        return
    best = chosen(tune)
    for study in others:
        for name, given in _given(study).items():
            if given != best[name]:
                raise ValueError(
                    f"study {study.name!r} has {name} with the multiplier {given:g}, but tuning found {best[name]:g}: "
                    "write that into its file"
                )


def tuning_table(tune: StudyResult) -> Table:
    """Mean regret for every multiplier, and the one that was chosen."""
    grids = tried(tune)
    multipliers = list(next(iter(grids.values())))
    best = chosen(tune)
    rows = [[name, *(mean_interval(grid[x]) for x in multipliers), best[name]] for name, grid in grids.items()]
    columns = [Column("algorithm"), *(Column(f"x{x:g}", "half") for x in multipliers), Column("chosen", "number")]
    caption = (
        f"Tuning: regret after {tune.cells[0].num_rounds:,} episodes, averaged over the environments, by multiplier of "
        "the radius's stochastic part: mean ± half width of the 95 % t interval over "
        f"{len(tune.cells[0].seeds)} held-out seeds. UCRL-AVE's multiplies the practical form of the radius."
    )
    return Table(caption, tuple(columns), tuple(map(tuple, rows)))


def multiplier_at(
    grid: Mapping[float, Array], level: float, *, resamples: int = 2000, seed: int = 0
) -> Interval | None:
    """Where the mean regret crosses ``level``, between neighbours of the grid on logarithmic axes.

    None where it does not: not between the grid's ends, or not in every resample of the seeds.
    """
    multipliers = np.log(sorted(grid))
    values = np.stack([grid[x] for x in sorted(grid)], axis=1)  # [seeds, multipliers]
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


def _given(study: StudyResult) -> dict[str, float]:
    """The multipliers of the tuned algorithms, by the names that tuning calls them."""
    found = {}
    for entry in study.config["study"]["algorithm"]:
        if TUNED in entry["label"]:
            scale = entry["constants"]["beta_scale"] if "constants" in entry else entry["beta_scale"]
            found[entry["label"].split(TUNED)[0]] = scale
    return found
