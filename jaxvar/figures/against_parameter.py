"""Final regret against a swept parameter, on logarithmic axes, with fitted slopes."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvar.analysis.captions import constants_text, seeds_text
from jaxvar.analysis.intervals import mean_interval
from jaxvar.analysis.sample import percent, sample, value_text
from jaxvar.analysis.slopes import Slope, slopes_in
from jaxvar.figures.regret_curves import AXIS_NAMES
from jaxvar.figures.style import SMALL, Drawing, Look, Width, finish, looks, panels, plain, style
from jaxvar.study.result import StudyResult


def against_parameter(
    result: StudyResult,
    parameter: str,
    *,
    record: str = "regret",
    width: Width = "neurips",
    level: float = 0.95,
    seed: int = 0,
) -> Drawing:
    """Draw means with t intervals over the parameter's values, and the line through each algorithm's.

    Args:
      result: the study.
      parameter: name of a swept parameter.
      record: what is drawn, at the last round.
      width: of which venue.
      level: of the intervals.
      seed: of the resampling behind the slopes' intervals.
    """
    found = slopes_in(result, parameter, record, level=level, seed=seed)
    look = looks([s.algorithm for s in found])
    groups: dict[str, list[Slope]] = {}
    for slope in found:
        groups.setdefault(slope.environment, []).append(slope)
    handles: dict[str, Any] = {}
    with style():
        grid = panels(len(groups), width, least=2.7, height=2.2, sharex=True, sharey=True)
        for i, (axis, (title, slopes)) in enumerate(zip(grid.axes, groups.items(), strict=True)):
            axis.set(xscale="log", yscale="log")
            for slope in slopes:
                handles[slope.algorithm] = _draw(axis, slope, look[slope.algorithm], level)
            _tick(axis, np.concatenate([s.x for s in found]))
            _list_slopes(axis, [handles[s.algorithm] for s in slopes], slopes)
            grid.title(axis, title, beside=1.6)
            if i + grid.columns >= len(groups):
                axis.set_xlabel(plain(parameter))
                axis.tick_params(labelbottom=True)
        caption, ylabel = _caption(result, found, level), AXIS_NAMES.get(record, record)
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel=ylabel)


def _draw(axis: Any, slope: Slope, look: Look, level: float) -> Any:
    shown = (slope.x > 0) & (slope.mean > 0)
    half = np.array([mean_interval(sample(c, slope.record).final, level).half for c in slope.cells])
    below = np.minimum(half, 0.999 * slope.mean)  # an interval that reaches zero ends at the axis
    points = axis.errorbar(
        slope.x[shown],
        slope.mean[shown],
        yerr=[below[shown], half[shown]],
        color=look.colour,
        marker=look.marker,
        linestyle="none",
        elinewidth=0.8,
        capsize=1.5,
    )
    if slope.slope is not None:
        ends = np.array([slope.x[slope.used].min(), slope.x[slope.used].max()])
        axis.plot(ends, slope.line(ends), color=look.colour, linestyle=look.dash, linewidth=0.8)
    return points


def _tick(axis: Any, values: Any) -> None:
    """Ticks at the swept values, where they are few."""
    from matplotlib.ticker import NullLocator

    positive = np.unique(values[values > 0])
    if 1 < len(positive) <= 8:
        axis.set_xticks(positive, [value_text(float(x)) for x in positive])
        axis.xaxis.set_minor_locator(NullLocator())


def _list_slopes(axis: Any, handles: list[Any], slopes: list[Slope]) -> None:
    """On the right of the panel, where they hide nothing."""
    place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "borderaxespad": 0.2}
    sizes = {"fontsize": SMALL, "title_fontsize": SMALL, "handlelength": 1.0}
    axis.legend(handles, list(map(_text, slopes)), title="slope", **place, **sizes)


def _text(slope: Slope) -> str:
    if slope.slope is None:
        return "none"
    return f"{slope.slope.estimate:.2f} [{slope.slope.low:.2f}, {slope.slope.high:.2f}]"


def _caption(result: StudyResult, found: tuple[Slope, ...], level: float) -> str:
    first = found[0]
    final = max(int(cell.rounds[-1]) for s in found for cell in s.cells)
    seeds = seeds_text([n for s in found for n in s.seeds], sum(s.left_out for s in found))
    text = (
        f"Mean {first.record} after {final:,} {result.unit}s over {seeds} with {percent(level)} t intervals; lines by "
        f"least squares of logarithms, slopes with {percent(level)} bootstrap percentile intervals. "
        f"{constants_text([cell for s in found for cell in s.cells])}"
    )
    reasons: dict[str, list[str]] = {}
    for slope in found:
        for reason in slope.excluded:
            reasons.setdefault(reason, []).append(f"{slope.algorithm} in {slope.environment}")
    excluded = [f"{r} ({'all' if len(who) == len(found) else ', '.join(who)})" for r, who in reasons.items()]
    return f"{text} Not in the lines: {'; '.join(excluded)}." if excluded else text
