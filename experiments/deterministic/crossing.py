"""Who is ahead at the end, and when the one behind would be, if both curves went on as in their last decade."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.measures import ratio
from jaxvar.analysis import Interval, paired, sample
from jaxvar.analysis.captions import environment_name
from jaxvar.analysis.intervals import RESAMPLES, resampled_cells
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

Array = np.ndarray[Any, Any]
LONGEST = 1e9  # rounds: what lies beyond is no prediction
NEVER = "no end of it in sight"


def against_table(result: StudyResult, rivals: dict[str, str]) -> Table:
    """Compare algorithms with their rivals, in every problem."""
    found = {(environment_name(cell), cell.algorithm): cell for cell in result.cells}
    lines = []
    for problem in dict.fromkeys(name for name, _ in found):
        for algorithm, rival in rivals.items():
            cell, other = found[problem, algorithm], found[problem, rival]
            difference, meeting = paired(cell, other).difference, crossing(cell, other)
            note = _note(difference, meeting)
            lines.append((problem, algorithm, rival, difference, ratio(cell, other), meeting, note))
    columns = (
        Column("problem"),
        Column("algorithm"),
        Column("against"),
        Column("difference", "half"),
        Column("ratio", "ends"),
        Column(f"{result.unit}s until it is ahead", "ends"),
        Column("note"),
    )
    caption = (
        "Regret at the end against a rival with constants of a like kind: the difference, paired by seed, with a 95 % "
        f"t interval, the ratio with a 95 % bootstrap interval, and the {result.unit}s after which the algorithm would "
        "be ahead if both curves went on with the exponents of their last decade (95 % bootstrap interval)."
    )
    return Table(caption, columns, tuple(lines))


def _note(difference: Interval, meeting: Interval | None) -> str:
    if difference.high < 0:
        return "ahead"
    if difference.low <= 0:
        return "level with it"
    return NEVER if meeting is None else ""


def crossing(cell: CellResult, other: CellResult, *, level: float = 0.95) -> Interval | None:
    """Return when two power laws, with the exponents of the last decade and through the last points, are equal.

    None where ``cell`` is ahead already, and where its interval does not end before :data:`LONGEST`.
    """
    if not np.array_equal(cell.rounds, other.rounds):
        raise ValueError(f"{cell.algorithm} and {other.algorithm} must be recorded in the same rounds")
    late = cell.rounds >= cell.rounds[-1] // 10
    samples = [sample(c) for c in (cell, other)]
    values = [s.values[:, late] for s in samples]
    mine, theirs = (v.mean(0) for v in values)
    if mine[-1] <= theirs[-1]:
        return None
    rounds = cell.rounds[late].astype(np.float64)
    drawn, _ = resampled_cells(values, [s.seeds for s in samples], RESAMPLES, 0)
    estimate = _equal(rounds, mine[None], theirs[None])[0]
    low, high = np.quantile(_equal(rounds, *drawn), [(1 - level) / 2, (1 + level) / 2], method="nearest")
    if high > LONGEST:
        return None
    kind, of = "bootstrap percentile", "round at which two extrapolated curves meet"
    return Interval(estimate, low, high, level, kind, of, min(len(s.seeds) for s in samples))


def _equal(rounds: Array, mine: Array, theirs: Array) -> Array:
    """Return when curves meet, [resamples]: the last round if ``mine`` is not above, infinity if it grows no slower."""
    where = np.log(rounds) - np.log(rounds).mean()
    slopes = [np.log(v) @ where / np.sum(where**2) for v in (mine, theirs)]
    slower = slopes[1] - slopes[0]
    behind = np.maximum(np.log(mine[:, -1] / theirs[:, -1]), 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(slower > 0, rounds[-1] * np.exp(behind / np.where(slower > 0, slower, 1.0)), np.inf)
