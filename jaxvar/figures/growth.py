"""Figures of growth: final regret against a swept parameter with fitted slopes, and a fitted law beside its points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jaxvar.analysis.captions import constants_text, parameter_word, percent, record_word, seeds_text, value_text
from jaxvar.analysis.growth import GrowthFit
from jaxvar.analysis.intervals import Array, mean_interval
from jaxvar.analysis.panels import grouped, titles
from jaxvar.analysis.slopes import Slope, slopes_in, without
from jaxvar.analysis.summaries import sample
from jaxvar.figures.ends import MOST_IN_LEGEND
from jaxvar.figures.look import BLUE, SMALL, WIDTHS, Look, Width, ink, looks, plain, points, style
from jaxvar.figures.style import Drawing, finish, panels
from jaxvar.study.result import StudyResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer


def against_parameter(
    result: StudyResult,
    parameter: str,
    *,
    record: str = "regret",
    width: Width = "neurips",
    level: float = 0.95,
    seed: int = 0,
) -> Drawing:
    """Draw the final means with t intervals over the parameter's values, and a fitted line for each algorithm.

    Args:
      result: the study.
      parameter: name of a swept parameter.
      record: name of the record to draw, at the last round.
      width: venue that sets the figure's width.
      level: level of the intervals.
      seed: seed of the resampling for the slopes' intervals.
    """
    found = slopes_in(result, parameter, record, level=level, seed=seed)
    look = looks([s.algorithm for s in found])
    groups = grouped(found, lambda slope: slope.environment)
    handles: dict[str, ErrorbarContainer] = {}
    notes: dict[Axes, dict[str, str]] = {}
    many = len(look) > MOST_IN_LEGEND  # slopes are below the names then, which are at the ends of the curves
    with style():
        if many:
            grid = panels(len(groups), width, least=9.9, height=2.4, sharex=True, sharey=True)
        else:
            height = 1.6 if len(groups) == 3 and WIDTHS[width] > 4 else 2.2  # three wide panels below each other
            grid = panels(len(groups), width, least=2.7, height=height, sharex=True, sharey=True, squeeze=1.0)
        names = titles({name: [without(slopes[0].cells[0], parameter)] for name, slopes in groups.items()})
        for axis, title, slopes in zip(grid.axes, names, groups.values(), strict=True):
            axis.set(xscale="log", yscale="log")
            for slope in slopes:
                handles[slope.algorithm] = _draw(axis, slope, look[slope.algorithm], level)
            _tick(axis, np.concatenate([s.x for s in found]))
            notes[axis] = {s.algorithm: _slope_text(s) for s in slopes}
            if not many:
                axis.legend(
                    [handles[s.algorithm] for s in slopes],
                    list(map(_slope_text, slopes)),
                    title="slope",
                    loc="center left",
                    bbox_to_anchor=(1.0, 0.5),  # on the right of the panel, outside the axes
                    borderaxespad=0.2,
                    fontsize=points(SMALL),
                    title_fontsize=points(SMALL),
                    handlelength=1.0,
                )
            grid.title(axis, title, beside=1.6)
        grid.xlabel(parameter_word(parameter))
        caption, ylabel = _caption(result, found, level), record_word(record)
        if many:
            caption += " Numbers below the names are slopes."
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel=ylabel, notes=notes)


def _draw(axis: Axes, slope: Slope, look: Look, level: float) -> ErrorbarContainer:
    """Draw the points with intervals and the fitted line; return the points."""
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


def _tick(axis: Axes, values: Array) -> None:
    """Put ticks at the swept values if there are at most eight."""
    from matplotlib.ticker import NullLocator

    positive = np.unique(values[values > 0])
    if 1 < len(positive) <= 8:
        axis.set_xticks(positive, [value_text(float(x)) for x in positive])
        axis.xaxis.set_minor_locator(NullLocator())


def _slope_text(slope: Slope) -> str:
    found = slope.slope
    return "none" if found is None else f"{found.estimate:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _caption(result: StudyResult, found: tuple[Slope, ...], level: float) -> str:
    """Return the caption, with the points that the lines leave out."""
    first = found[0]
    final = max(int(cell.rounds[-1]) for s in found for cell in s.cells)
    seeds = seeds_text([n for s in found for n in s.seeds], sum(s.left_out for s in found))
    text = (
        f"Mean {first.record} after {final:,} {result.unit}s over {seeds} with {percent(level)} t intervals; lines by "
        f"least squares of logarithms, slopes with {percent(level)} bootstrap percentile intervals. "
        f"{constants_text([cell for s in found for cell in s.cells])}"
    )
    reasons = grouped([(reason, s) for s in found for reason in s.excluded], lambda pair: pair[0])
    excluded = []
    for reason, pairs in reasons.items():
        who = "all" if len(pairs) == len(found) else ", ".join(f"{s.algorithm} in {s.environment}" for _, s in pairs)
        excluded.append(f"{reason} ({who})")
    return f"{text} Not in the lines: {'; '.join(excluded)}." if excluded else text


def growth_fit(fit: GrowthFit, *, width: Width = "icml") -> Drawing:
    """Draw observed means against fitted means, and their ratio below."""
    with style():
        grid = panels(1, width, height=min(3.0, 0.8 * WIDTHS[width]))
        (axis,) = grid.axes
        axis.remove()
        upper, lower = grid.figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        ends = np.array([fit.fitted.min(), fit.fitted.max()])
        upper.plot(ends, ends, color=ink(), linewidth=0.8)
        upper.plot(fit.fitted, fit.observed, "o", color=BLUE, markerfacecolor="none")
        upper.set(xscale="log", yscale="log")
        upper.set_ylabel(plain(f"observed {fit.record}"))
        lower.axhline(1.0, color=ink(), linewidth=0.8)
        lower.plot(fit.fitted, fit.observed / fit.fitted, "o", color=BLUE, markerfacecolor="none")
        lower.set_ylabel("ratio")
        lower.set_xlabel(plain(f"fitted {fit.record}"))
        intervals = ", ".join(
            f"{name} [{low:.3g}, {high:.3g}]"
            for name, low, high in zip(fit.law.parameters, fit.low, fit.high, strict=True)
        )
        failed = f" ({fit.failed} more did not converge)" if fit.failed else ""
        seeds = seeds_text(fit.seeds, fit.left_out)
        caption = (
            f"{fit.describe()}, over {fit.resamples} resamples{failed} of {seeds}: {intervals}. "
            f"Root mean square of log(observed / fitted): {fit.spread:.2g}. {constants_text(fit.cells)}"
        )
        return finish(grid.figure, (), (), caption)
