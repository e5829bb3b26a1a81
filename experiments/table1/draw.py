"""The figures: regret against noise, dimension and multiplier, a panel for each kind of constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.table1 import labels
from experiments.table1.measured import NOISY, QUIET
from experiments.tuning import Tried
from jaxvar.analysis import Interval, mean_interval, sample
from jaxvar.analysis.captions import seeds_text
from jaxvar.figures.look import looks, style
from jaxvar.figures.style import Drawing, finish, panels
from jaxvar.study.result import CellResult, StudyResult

Points = dict[str, list[tuple[float, Interval]]]  # of an algorithm: where, and mean with interval
_GROUPS = {"paper": ("paper",), "calibrated": ("calibrated", "practical"), "tuned": ("tuned",)}


def against_noise(result: StudyResult) -> Drawing:
    """Draw final regret against the noise level, at d = 2."""
    shown = {f"{name} constants": _points(result.cells, kinds, "noise.std") for name, kinds in _GROUPS.items()}
    caption = (
        f"{_caption(result)} d = 2. An algorithm that is missing among the calibrated has no smaller multiplier that "
        f"keeps the confidence event, or does not record it."
    )
    return _drawn(shown, "noise (standard deviation)", caption)


def against_dimension(result: StudyResult) -> Drawing:
    """Draw final regret against the dimension, in both regimes."""
    shown = {
        f"{kind}, {'no noise' if level == QUIET else f'noise {level:g}'}": _points(
            labels.at_noise(result, level).cells, (kind,), "dim"
        )
        for kind in ("paper", "tuned")
        for level in (NOISY, QUIET)
    }
    return _drawn(shown, "dimension", _caption(result))


def against_multiplier(tried: Mapping[str, Tried]) -> Drawing:
    """Draw regret on held-out seeds, averaged over the environments, against the multiplier."""
    points = {name: [(x, mean_interval(regret)) for x, regret in one.regret.items()] for name, one in tried.items()}
    caption = (
        "Mean regret over the environments and held-out seeds with 95 % t intervals. No mark where a confidence set "
        "became empty. The mark furthest left is at 0."
    )
    return _drawn({"": points}, "multiplier", caption, height=2.6)


def _points(cells: Sequence[CellResult], kinds: Sequence[str], parameter: str) -> Points:
    found: Points = {}
    for cell in cells:
        label = labels.of(cell)
        if label.kind in kinds:
            where = float(cell.environment_settings[parameter])
            found.setdefault(label.name, []).append((where, mean_interval(sample(cell).final)))
    return found


def _caption(result: StudyResult) -> str:
    seeds = seeds_text([len(cell.seeds) for cell in result.cells], 0)
    return f"Mean regret after {result.cells[0].num_rounds:,} rounds over {seeds} with 95 % t intervals."


def _drawn(shown: Mapping[str, Points], xlabel: str, caption: str, height: float = 2.1) -> Drawing:
    look = looks([name for points in shown.values() for name in points])
    every = [x for points in shown.values() for curve in points.values() for x, _ in curve]
    zero = min((x for x in every if x > 0), default=1.0) / 4  # the place of no noise at all
    handles: dict[str, Any] = {}
    with style():
        grid = panels(len(shown), "icml_wide", height=height, sharex=True, sharey=True)
        for axis, (title, points) in zip(grid.axes, shown.items(), strict=True):
            axis.set(xscale="log", yscale="log", xlabel=xlabel)
            axis.tick_params(labelbottom=True)
            for name, curve in points.items():
                x = np.array([where or zero for where, _ in curve])
                mean, low, high = (np.array([getattr(i, end) for _, i in curve]) for end in ("estimate", "low", "high"))
                handles[name] = axis.errorbar(
                    x,
                    mean,
                    yerr=[np.minimum(mean - low, 0.999 * mean), high - mean],
                    color=look[name].colour,
                    linestyle=look[name].dash,
                    marker=look[name].marker,
                    elinewidth=0.8,
                    linewidth=0.9,
                )
            _tick(axis, sorted(set(every)), zero)
            grid.title(axis, title)
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel="regret")


def _tick(axis: Any, values: Sequence[float], zero: float) -> None:
    from matplotlib.ticker import NullLocator

    axis.set_xticks([value or zero for value in values], [f"{value:g}" for value in values])
    axis.xaxis.set_minor_locator(NullLocator())
