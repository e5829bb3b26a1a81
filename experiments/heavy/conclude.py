"""What the studies beside this file say about heavy tails: regret, and how often theta* stays in the ellipsoid."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from experiments.experiment import Conclusions
from jaxvar.analysis import coverage, mean_interval, proportion_interval, sample
from jaxvar.analysis.captions import environment_name
from jaxvar.figures import regret_curves
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Make the tables and the figure of the studies ``tails``, ``scaled`` and ``coverage``."""
    tables = {name: regret(results[name]) for name in ("tails", "scaled")} | {"coverage": held(results["coverage"])}
    return Conclusions(tables, {"tails": regret_curves(results["tails"])})


def regret(result: StudyResult) -> Table:
    """Show regret at a tenth of the run and at its end, and the share of seeds in which theta* was never lost."""
    last = int(result.cells[0].rounds[-1])
    columns = (
        Column("problem"),
        Column("algorithm"),
        Column("multiplier", "number"),
        Column(f"regret at {last // 10:,}", "half"),
        Column(f"regret at {last:,}", "half"),
        Column("theta* always in the ellipsoid", "ends"),
    )
    caption = (
        f"Regret over {len(result.cells[0].seeds):,} seeds: means with 95 % t intervals; and the share of the seeds in "
        "which theta* was in the ellipsoid after every round, with 95 % Clopper-Pearson intervals. It is promised in "
        "99 % of them where the theorem holds, with the multiplier 1."
    )
    return Table(caption, columns, tuple(_line(cell, last // 10) for cell in result.cells))


def _line(cell: CellResult, early: int) -> tuple[object, ...]:
    curves, first = sample(cell).values, int(np.searchsorted(cell.rounds, early))
    share = coverage(cell).share if "confidence" in cell.records else None
    multiplier = None if share is None else float(cell.algorithm_settings.get("beta_scale", 1.0))
    ends = (mean_interval(curves[:, first]), mean_interval(curves[:, -1]))
    return environment_name(cell), cell.algorithm, multiplier, *ends, share


def held(result: StudyResult) -> Table:
    """Show in how many seeds theta* had left the ellipsoid by each recorded round."""
    rounds = [int(k) for k in result.cells[0].rounds]
    columns = (Column("problem"), Column("algorithm"), *(Column(f"left by round {k:,}", "ends") for k in rounds))
    seeds = len(result.cells[0].seeds)
    caption = (
        f"Share of {seeds:,} seeds in which theta* has left the ellipsoid by a round, with 95 % Clopper-Pearson "
        "intervals. At most 0.01 is promised, where the theorem holds."
    )
    lines = []
    for cell in result.cells:
        left = np.sum(~np.all(sample(cell, "confidence", at_least=1).values == 1, axis=2), axis=0)
        shares = [proportion_interval(int(number), seeds, "share of seeds") for number in left]
        lines.append((environment_name(cell), cell.algorithm, *shares))
    return Table(caption, columns, tuple(lines))
