"""Regret against the total variance, a panel for each problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.by_value import rows
from jaxvar.analysis import mean_interval, sample
from jaxvar.analysis.captions import constants_text
from jaxvar.figures.style import GREY, Drawing, finish, looks, panels, style
from jaxvar.study.result import StudyResult


def against_total_variance(levels: StudyResult) -> Drawing:
    """Draw means with t intervals over K std^2 on logarithmic axes, and a line of the bound's exponent."""
    found = rows(levels, "noise.std")
    look = looks([algorithm for _, algorithm in found])
    handles: dict[str, Any] = {}
    with style():
        grid = panels(len(levels.environments), "a4", least=2.7, height=2.9, sharex=True, sharey=True)
        for axis, environment in zip(grid.axes, levels.environments, strict=True):
            mine = {algorithm: cells for (where, algorithm), cells in found.items() if where == environment}
            for algorithm, cells in mine.items():
                total = np.array([cell.num_rounds * std**2 for std, cell in cells.items()])
                final = [mean_interval(sample(cell).final) for cell in cells.values()]
                mean, half = (np.array([getattr(one, name) for one in final]) for name in ("estimate", "half"))
                handles[algorithm] = axis.errorbar(
                    total,
                    mean,
                    yerr=half,
                    color=look[algorithm].colour,
                    linestyle=look[algorithm].dash,
                    marker=look[algorithm].marker,
                    elinewidth=0.8,
                    capsize=1.5,
                )
            (handles["exponent 1/2, as in the bound"],) = axis.plot(
                total, np.sqrt(total), color=GREY, alpha=0.4, linewidth=4
            )
            axis.set(xscale="log", yscale="log", xlabel="total variance")
            grid.title(axis, environment)
        first = levels.cells[0]
        caption = (
            f"Mean regret after {first.num_rounds:,} rounds over {len(first.seeds):,} seeds with 95 % t intervals; "
            f"everyone is told R = 1. {constants_text(levels.cells)}"
        )
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel="cumulative pseudo-regret")
