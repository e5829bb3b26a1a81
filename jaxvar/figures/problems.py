"""Figures with a panel for each environment setting: regret curves with bands, and the share of rounds per layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.captions import algorithm_name, constants_text, environment_name, record_word, seeds_text
from jaxvar.analysis.panels import by_problem, recorded
from jaxvar.analysis.summaries import Band, BandKind, band, occupancy
from jaxvar.figures.ends import MOST_IN_LEGEND
from jaxvar.figures.look import SMALL, Look, Width, looks, points, style
from jaxvar.figures.style import Drawing, finish, problem_panels, row_panels
from jaxvar.study.result import StudyResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D

AxisScale = Literal["log", "linear"]
Colour = str | tuple[float, float, float, float]
_EDGED = 2.5  # points of thickness from which on the edges of a band are drawn
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx")


def regret_curves(
    result: StudyResult,
    *,
    record: str = "regret",
    width: Width = "neurips",
    scale: AxisScale = "log",
    kind: BandKind = "simultaneous",
    level: float = 0.95,
    seed: int = 0,
) -> Drawing:
    """Draw the mean curve of each algorithm with its band.

    Args:
      result: the study.
      record: name of the record to draw, with one number per seed and round.
      width: venue that sets the figure's width.
      scale: scale of both axes.
      kind: kind of the bands.
      level: level of the bands.
      seed: seed of the resampling for simultaneous bands.
    """
    parameters.check_choice("scale", scale, ("log", "linear"))
    groups = by_problem(result.cells)
    bands = {id(c): band(c, record, kind=kind, level=level, seed=seed) for c in result.cells}
    look = looks([algorithm_name(cell) for cell in result.cells])
    handles: dict[str, Line2D] = {}
    hidden, thin = [], 0
    with style():
        height = 1.7 if len(groups) > 3 else 1.9 if len(look) <= MOST_IN_LEGEND else 2.3
        share = scale == "log"
        grid = problem_panels(groups, width, height=height, sharey=share, names=len(look))
        drawn: list[tuple[Axes, Band, FillBetweenPolyCollection]] = []
        for axis, cells in zip(grid.axes, groups.values(), strict=True):
            axis.set(xscale=scale, yscale=scale)
            for cell in cells:
                name, curve = algorithm_name(cell), bands[id(cell)]
                handles[name], area = _draw(axis, curve, look[name], scale, list(look).index(name))
                drawn.append((axis, curve, area))
            if scale == "log":
                title = environment_name(cells[0])
                hidden += _zeros(axis, title, {algorithm_name(c): bands[id(c)] for c in cells})
        grid.xlabel(result.unit)
        _limits(grid.axes, list(bands.values()), scale)
        for axis, curve, area in drawn:
            thickness = _thickness(axis, curve, 0.62 * height)
            if thickness < next(iter(handles.values())).get_linewidth():
                thin += 1
            elif thickness > _EDGED:
                area.set_linewidth(0.4)
        caption, ylabel = _caption(result, record, bands, hidden, thin), record_word(record)
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel=ylabel)


def _draw(
    axis: Axes, curve: Band, look: Look, scale: AxisScale, shift: int
) -> tuple[Line2D, FillBetweenPolyCollection]:
    """Draw one curve with about five markers, shifted so that markers of different curves do not overlap."""
    from matplotlib.colors import to_rgba

    positive = curve.mean > 0
    mean = np.where(positive | (scale == "linear"), curve.mean, np.nan)
    low = np.maximum(curve.low, 1e-3 * curve.mean) if scale == "log" else curve.low
    area = axis.fill_between(curve.rounds, low, curve.high, where=np.isfinite(mean), linewidth=0)
    area.set(facecolor=to_rgba(look.colour, 0.22), edgecolor=to_rgba(look.colour, 0.8))
    every = max(1, len(mean) // 5)
    (line,) = axis.plot(
        curve.rounds,
        mean,
        color=look.colour,
        linestyle=look.dash,
        marker=look.marker,
        markevery=slice((shift * every // 4) % every, None, every),
    )
    return line, area


def _thickness(axis: Axes, curve: Band, inches: float) -> float:
    """Return the largest thickness of a band, in points, if the axes are ``inches`` high."""
    shown = (curve.low > 0) & (curve.mean > 0) if axis.get_yscale() == "log" else np.full(len(curve.mean), True)
    if not np.any(shown):
        return np.inf
    in_axes = axis.transScale + axis.transLimits
    low, high = (in_axes.transform(np.stack([curve.rounds, ends], 1)[shown])[:, 1] for ends in (curve.low, curve.high))
    return float(72 * inches * np.max(high - low))


def _zeros(axis: Axes, title: str, bands: dict[str, Band]) -> list[str]:
    """List the curves with means of zero, which a logarithmic axis cannot show; write so in an empty panel."""
    zeros = {name: int(np.sum(b.mean <= 0)) for name, b in bands.items()}
    if all(np.all(b.mean <= 0) for b in bands.values()):
        axis.text(0.5, 0.5, "all means are zero", ha="center", va="center", transform=axis.transAxes)
        return [f"all of {title}"]
    found = ", ".join(f"{name} ({number} points)" for name, number in zeros.items() if number)
    return [f"{title}: {found}"] if found else []


def _limits(axes: list[Axes], bands: list[Band], scale: AxisScale) -> None:
    """Set the limits by the means: a band that reaches down to zero must not stretch a logarithmic axis."""
    rounds = np.concatenate([b.rounds for b in bands])
    means = np.concatenate([b.mean for b in bands])
    for axis in axes:
        if scale == "linear":
            axis.set_xlim(0, 1.04 * rounds.max())
            axis.set_ylim(bottom=min(0.0, means.min()))
            continue
        axis.set_xlim(rounds.min() / 1.25, 1.25 * rounds.max())
        if np.any(means > 0):
            axis.set_ylim(bottom=0.7 * means[means > 0].min())
        else:
            axis.set_ylim(0.1, 1.0)  # the panel is empty


def _caption(result: StudyResult, record: str, bands: dict[int, Band], hidden: list[str], thin: int) -> str:
    """Return the caption of regret curves, with the bands and the means that cannot be seen."""
    every = list(bands.values())
    seeds = seeds_text([b.seeds for b in every], sum(b.left_out for b in every))
    text = f"Mean {record} over {seeds}; {every[0].describe()}"
    if thin:
        text += f", {'' if thin == len(every) else f'{thin} of {len(every)} '}thinner than the lines"
    text += f". {constants_text(result.cells)}"
    if hidden:
        text += f" Means of zero are not on the logarithmic axis: {'; '.join(hidden)}."
    return text


def layer_occupancy(result: StudyResult, *, width: Width = "neurips") -> Drawing:
    """Draw the mean share of rounds per layer, one bar for each cell that recorded ``layer_rounds``."""
    cells = recorded(result.cells, "layer_rounds")
    found = {id(cell): occupancy(cell) for cell in cells}
    colours = _colours(max(o.deepest for o in found.values()))
    handles: dict[int, BarContainer] = {}
    with style():
        grid, rows = row_panels(cells, width)
        for axis, row, cell in rows:
            left = 0.0
            for layer, share in enumerate(found[id(cell)].final.estimate):
                if share == 0:
                    continue
                colour, hatch = colours[layer], HATCHES[layer % len(HATCHES)]
                handles[layer] = axis.barh(
                    row, share, left=left, height=0.7, color=colour, hatch=hatch, edgecolor="white", linewidth=0.4
                )
                if share > 0.08:
                    text = axis.text(left + share / 2, row, str(layer), ha="center", va="center")
                    text.set(fontsize=points(SMALL), color="black")
                    text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85})
                left += float(share)
        for axis in grid.axes:
            axis.set_xlim(0, 1)
            axis.grid(False)
        counted = "rounds" if result.unit == "round" else "steps"
        grid.xlabel(f"share of {counted}")
        seeds = seeds_text([o.seeds for o in found.values()], sum(o.left_out for o in found.values()))
        caption = (
            f"Share of {counted} that ended in each layer, mean over {seeds}, without intervals. "
            f"{constants_text(cells)}"
        )
        layers = sorted(handles)
        if len(layers) > MOST_IN_LEGEND:  # from dark to light: some are enough to read the others
            layers = [layers[i] for i in np.linspace(0, len(layers) - 1, MOST_IN_LEGEND).round().astype(int)]
            caption += " The legend leaves layers out; their colours and hatches are in order."
        labels = [f"layer {layer}" if layer else "nothing learned" for layer in layers]
        return finish(grid.figure, [handles[layer] for layer in layers], labels, caption)


def _colours(deepest: int) -> list[Colour]:
    """Return a colour per layer, from dark to light in a map for colour-blind readers; grey for nothing learned."""
    from matplotlib import colormaps

    return ["#bbbbbb", *(colormaps["cividis"](i / max(1, deepest - 1)) for i in range(max(1, deepest)))]
