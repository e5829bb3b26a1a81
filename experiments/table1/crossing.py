"""After how many rounds an algorithm would have less regret than OFUL without noise, if both went on as they end."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.table1 import labels
from experiments.table1.measured import QUIET, order, rival
from jaxvar.analysis import Interval, sample
from jaxvar.analysis.intervals import RESAMPLES, resampled_cells
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

Array = np.ndarray[Any, Any]
LEVEL = 0.95


def table(result: StudyResult) -> Table:
    """Show a row for each algorithm and its constants, but OFUL."""
    cells = {labels.of(cell): cell for cell in labels.at_noise(result, QUIET).cells}
    rows = []
    for label, cell in cells.items():
        if label.name != "OFUL":
            state, after = _crossing(cell, rival(label, cells))
            rows.append((label.name, label.constants, state, after))
    rounds = result.cells[0].num_rounds
    caption = (
        f"Regret without noise beside that of OFUL with constants of the same kind (of the paper where there is "
        f"none), after {rounds:,} rounds at d = 2, and the round in which the two lines through the last "
        f"tenfold of the rounds meet, on logarithmic axes, with its 95 % bootstrap percentile "
        f"interval: an extrapolation, which holds only if both go on as they end."
    )
    columns = (Column("algorithm"), Column("constants"), Column("regret"), Column("meets OFUL in round", "ends"))
    return Table(caption, columns, tuple(sorted(rows, key=order)))


def _crossing(cell: CellResult, oful: CellResult) -> tuple[str, Interval | None]:
    """Compare two cells, and return where the first comes below the second if it does."""
    mine, theirs = sample(cell), sample(oful)
    late = cell.rounds >= max(1, cell.num_rounds // 10)
    logs = np.log(cell.rounds[late].astype(np.float64))
    values = [s.values[:, late] for s in (mine, theirs)]
    drawn, _ = resampled_cells(values, [mine.seeds, theirs.seeds], RESAMPLES, 0)
    means = [np.vstack([v.mean(0), d]) for v, d in zip(values, drawn, strict=True)]
    if means[0][0, -1] <= means[1][0, -1]:
        return "below", None
    meets = _meeting(logs, np.log(means[0]), np.log(means[1]))
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(meets[1:], [tail, 1 - tail], method="inverted_cdf")
    if not np.isfinite([meets[0], high]).all():
        return "above, and not surely growing slower", None
    kind = ("bootstrap percentile", "round in which two lines meet")
    return "above, and grows slower", Interval(meets[0], low, high, LEVEL, *kind, len(mine.seeds))


def _meeting(logs: Array, upper: Array, lower: Array) -> Array:
    """Return where lines through ``upper [lines, records]`` come down to ``lower``; infinite where they do not."""
    gap = upper - lower
    centred = logs - logs.mean()
    slope = gap @ centred / np.sum(centred**2)
    where = np.where(slope < 0, logs.mean() - gap.mean(1) / np.where(slope < 0, slope, -1), np.inf)
    return np.exp(np.minimum(where, 700.0)) + np.where(where > 700, np.inf, 0.0)
