"""Figures of seeds: paired differences from a reference, and the spread of the final record over the seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jaxvar.analysis.captions import (
    algorithm_name,
    constants_text,
    environment_name,
    label_word,
    parameter_word,
    percent,
    record_word,
    seeds_text,
    span,
    value_text,
)
from jaxvar.analysis.paired import Paired, paired, reference_of
from jaxvar.analysis.panels import grouped
from jaxvar.analysis.slopes import swept, swept_value, without
from jaxvar.analysis.summaries import Sample, sample
from jaxvar.figures.look import SMALL, Look, Width, ink, looks, points, style
from jaxvar.figures.style import Drawing, finish, problem_panels, row_panels
from jaxvar.study.result import StudyResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer

_MOST_DOTS = 100  # seeds that are drawn one by one
_MOST_TICKS = 8
_WIDE = 30.0  # largest difference over the median one, from which on a linear axis would hide most of them


def paired_differences(
    result: StudyResult,
    parameter: str | None = None,
    *,
    reference: str | None = None,
    record: str = "regret",
    width: Width = "neurips",
    level: float = 0.95,
) -> Drawing:
    """Draw mean differences from the reference on the same seeds, with t intervals and a line at zero.

    Args:
      result: the study.
      parameter: swept number along the x axis; None draws a row for each algorithm instead.
      reference: label of the algorithm to compare with; None takes the study's reference.
      record: name of the record to compare, at the last round.
      width: venue that sets the figure's width.
      level: level of the intervals.
    """
    label = result.reference if reference is None else reference
    if label is None or label not in result.algorithms:
        raise ValueError(f"reference must be one of {', '.join(map(repr, result.algorithms))}, got {label!r}")
    if parameter is not None and parameter not in swept(result):
        known = ", ".join(swept(result)) or "none was swept"
        raise ValueError(f"parameter must be a swept number ({known}), got {parameter!r}")
    pairs, missing = list[Paired](), list[str]()
    for cell in result.cells:
        if cell.algorithm != label and (parameter is None or swept_value(cell, parameter) is not None):
            try:
                pairs.append(paired(cell, reference_of(result, cell, label), record, level=level))
            except ValueError as reason:
                missing.append(str(reason))
    if not pairs:
        raise ValueError(f"no cell can be compared with {label!r}: {'; '.join(missing) or 'there is no other'}")
    name = label_word(label)
    caption = (
        f"Mean {record} minus that of {name} after {span(int(p.cell.rounds[-1]) for p in pairs)} {result.unit}s, on "
        f"the same {seeds_text([p.seeds for p in pairs], sum(p.left_out for p in pairs))}, with {percent(level)} t "
        "intervals; below zero is less than the reference."
    )
    if unmatched := sum(p.unmatched for p in pairs):
        caption += f" Seeds that only one of both has are left out ({unmatched:,} in all cells)."
    if missing:
        caption += f" Not compared: {'; '.join(missing)}."
    caption += f" {constants_text([*(p.cell for p in pairs), *(p.reference for p in pairs)])}"
    axis_name = f"{record_word(record)} minus {name}"
    with style():
        if parameter is None:
            return _difference_rows(pairs, caption, axis_name, width)
        return _differences_along(pairs, parameter, caption, axis_name, width)


def _differences_along(pairs: list[Paired], parameter: str, caption: str, axis_name: str, width: Width) -> Drawing:
    """Draw the differences against a swept number, whose values are evenly spaced; a curve for each algorithm."""

    def value(pair: Paired) -> float:
        return float(str(swept_value(pair.cell, parameter)))

    look = looks([algorithm_name(without(p.cell, parameter)) for p in pairs])
    problems = grouped(pairs, lambda p: environment_name(without(p.cell, parameter)))
    groups = {name: [without(p.cell, parameter) for p in mine] for name, mine in problems.items()}
    values = sorted({value(p) for p in pairs})
    step = min(0.12, 0.6 / len(look))  # between the curves of one value
    handles: dict[str, ErrorbarContainer] = {}
    grid = problem_panels(groups, width, least=1.8, height=2.0, sharey=True, names=len(look))
    for axis, mine in zip(grid.axes, problems.values(), strict=True):
        axis.axhline(0.0, color=ink(), linewidth=0.9, zorder=1.5)
        for name, some in grouped(mine, lambda p: algorithm_name(without(p.cell, parameter))).items():
            shift = (list(look).index(name) - (len(look) - 1) / 2) * step
            places = [values.index(value(p)) + shift for p in some]
            handles[name] = _whiskers(axis, places, some, look[name], is_upright=True)
        every = -(-len(values) // _MOST_TICKS)
        axis.set_xticks(range(0, len(values), every), [value_text(v) for v in values[::every]])
        axis.set_xlim(-0.5, len(values) - 0.5)
    grid.xlabel(parameter_word(parameter))
    caption += f" Values on the x axis are evenly spaced.{_bend(grid.axes, pairs, 'y')}"
    names = [name for name in look if name in handles]
    return finish(grid.figure, [handles[name] for name in names], names, caption, ylabel=axis_name)


def _difference_rows(pairs: list[Paired], caption: str, axis_name: str, width: Width) -> Drawing:
    """Draw a row for each algorithm, a panel for each environment setting."""
    by_cell = {id(p.cell): p for p in pairs}
    look = looks([algorithm_name(p.cell) for p in pairs])
    grid, rows = row_panels([p.cell for p in pairs], width)
    for axis in grid.axes:
        axis.axvline(0.0, color=ink(), linewidth=0.9, zorder=1.5)
    for axis, row, cell in rows:
        _whiskers(axis, [row], [by_cell[id(cell)]], look[algorithm_name(cell)], is_upright=False)
    grid.xlabel(axis_name)
    return finish(grid.figure, (), (), caption + _bend(grid.axes, pairs, "x"))


def _whiskers(
    axis: Axes, places: Sequence[float], pairs: Sequence[Paired], look: Look, is_upright: bool
) -> ErrorbarContainer:
    """Draw differences with their intervals; upright ones are joined by a thin line."""
    mean, half = (np.array([getattr(p.difference, field) for p in pairs]) for field in ("estimate", "half"))
    drawn = (places, mean, half, None) if is_upright else (mean, places, None, half)
    return axis.errorbar(
        *drawn,
        color=look.colour,
        marker=look.marker,
        linestyle=look.dash if is_upright else "none",
        linewidth=0.6,
        elinewidth=0.9,
        capsize=2,
    )


def _bend(axes: Sequence[Axes], pairs: Sequence[Paired], which: str) -> str:
    """Make the axis of differences logarithmic away from zero, if they differ much in size; return a sentence on it."""
    sizes = np.array([abs(float(p.difference.estimate)) for p in pairs])
    sizes = sizes[sizes > 0]
    if len(sizes) < 2 or sizes.max() <= _WIDE * np.median(sizes):
        return ""
    bound = 10.0 ** np.floor(np.log10(max(sizes.min(), sizes.max() / 1e4)))
    for axis in axes:
        scale = axis.set_yscale if which == "y" else axis.set_xscale
        scale("symlog", linthresh=bound)
    return f" The axis is linear between −{bound:g} and {bound:g}, and logarithmic outside."


def spread(result: StudyResult, *, record: str = "regret", width: Width = "neurips") -> Drawing:
    """Draw the distribution of the final record over the seeds, a row for each algorithm.

    A thick line spans the middle half of the seeds, a thin one 90 % of them; a bar is the median and a marker the mean.
    Up to 100 seeds are also drawn one by one; of more, the least and the largest. Failed seeds are counted in each row.

    Args:
      result: the study.
      record: name of the record to draw, at the last round.
      width: venue that sets the figure's width.
    """
    samples = {id(cell): sample(cell, record, at_least=0) for cell in result.cells}
    used = [s for s in samples.values() if len(s.seeds)]
    if not used:
        raise ValueError(f"{record!r} has no seed that did not fail")
    look = looks([algorithm_name(cell) for cell in result.cells])
    final = np.concatenate([s.curves[:, -1] for s in used])
    with style():
        grid, rows = row_panels(result.cells, width)
        for axis, row, cell in rows:
            one = samples[id(cell)]
            if len(one.seeds):
                _strip(axis, row, one, look[algorithm_name(cell)])
            if one.left_out:
                text = axis.text(0.99, row - 0.3, f"{one.left_out:,} failed", transform=axis.get_yaxis_transform())
                text.set(ha="right", va="center", fontsize=points(SMALL))
        if final.min() > 0 and final.max() > 10 * final.min():
            for axis in grid.axes:
                axis.set_xscale("log")
        last = span(int(cell.rounds[-1]) for cell in result.cells)
        grid.xlabel(record_word(record))
        are_dots = [len(s.seeds) <= _MOST_DOTS for s in used]
        dots = "every seed" if all(are_dots) else "least and largest" if not any(are_dots) else "seeds"
        caption = (
            f"Final {record} of each of {seeds_text([len(s.seeds) for s in used], sum(s.left_out for s in used))} "
            f"after {last} {result.unit}s: middle half (thick line), 5 % to 95 % quantile (thin line), median (bar), "
            f"mean (marker), {dots} (dots); no intervals. {constants_text(result.cells)}"
        )
        return finish(grid.figure, (), (), caption)


def _strip(axis: Axes, row: int, one: Sample, look: Look) -> None:
    """Draw the quantiles of one cell, and its seeds as dots."""
    values = np.sort(one.curves[:, -1])
    outer_low, low, median, high, outer_high = np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95))
    axis.plot([outer_low, outer_high], [row, row], color=look.colour, linewidth=0.8)
    axis.plot([low, high], [row, row], color=look.colour, linewidth=4, alpha=0.45, solid_capstyle="butt")
    axis.plot([median], [row], color=ink(), marker="|", markersize=6, markeredgewidth=1.2)
    axis.plot([values.mean()], [row], color=look.colour, marker=look.marker, markeredgecolor=ink(), markeredgewidth=0.3)
    if len(values) > _MOST_DOTS:
        axis.plot(values[[0, -1]], [row, row], color=look.colour, marker=".", linestyle="none", markersize=2)
    else:
        heights = row + 0.22 + 0.16 * ((np.arange(len(values)) * 0.618034) % 1)  # neighbours at different heights
        axis.plot(values, heights, color=look.colour, marker=".", linestyle="none", markersize=1.6, alpha=0.7)
