"""What the studies beside this file say about printed and tuned constants in linear MDPs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from experiments import tuning
from experiments.experiment import Conclusions
from jaxvar.analysis import mean_interval, sample
from jaxvar.figures import regret_curves
from jaxvar.study.result import StudyResult
from jaxvar.tables import Column, Table


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Make tables and figure of the studies ``episodes`` and ``tune``."""
    episodes, tune = results["episodes"], results["tune"]
    if tuning.at_own_size(tune, Path(__file__).with_name("tune.toml")):
        tuning.check(tuning.chosen(tune), (episodes,))
    tables = {"regret": regret(episodes), "tuned": tuning.table(tune)}
    return Conclusions(tables, {"episodes": regret_curves(episodes)})


def regret(episodes: StudyResult) -> Table:
    """Show regret at a tenth of the run and at its end."""
    last = int(episodes.cells[0].rounds[-1])
    columns = (Column("algorithm"), *(Column(f"regret at {k:,}", "half") for k in (last // 10, last)))
    caption = f"Regret over {len(episodes.cells[0].seeds):,} seeds: means with 95 % t intervals."
    rows = []
    for cell in episodes.cells:
        curves, first = sample(cell).values, int(np.searchsorted(cell.rounds, last // 10))
        rows.append((cell.algorithm, mean_interval(curves[:, first]), mean_interval(curves[:, -1])))
    return Table(caption, columns, tuple(rows))
