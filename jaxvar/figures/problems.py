"""Figures with a panel for each environment setting: regret curves with bands, and the share of rounds per layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.captions import algorithm_name, constants_text, seeds_text
from jaxvar.analysis.panels import by_problem, titles
from jaxvar.analysis.summaries import Band, BandKind, Occupancy, band, occupancy
from jaxvar.figures.style import AXIS_NAMES, SMALL, Drawing, Look, Width, finish, looks, panels, style, wrap
from jaxvar.study.result import StudyResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D

AxisScale = Literal["log", "linear"]
Colour = str | tuple[float, float, float, float]
_NAME_WIDTH = 1.3  # inches for the names of algorithms
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
    hidden = []
    with style():
        grid = panels(len(groups), width, sharex=True, sharey=scale == "log")
        for axis, title, cells in zip(grid.axes, titles(groups), groups.values(), strict=True):
            for cell in cells:
                name = algorithm_name(cell)
                handles[name] = _draw(axis, bands[id(cell)], look[name], scale, list(look).index(name))
            axis.set(xscale=scale, yscale=scale)
            grid.title(axis, title)
            if scale == "log":
                hidden += _zeros(axis, title, {algorithm_name(c): bands[id(c)] for c in cells})
        grid.xlabel(result.unit)
        _limits(grid.axes, list(bands.values()), scale)
        caption, ylabel = _caption(result, record, bands, hidden), AXIS_NAMES.get(record, record)
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel=ylabel)


def _draw(axis: Axes, curve: Band, look: Look, scale: AxisScale, shift: int) -> Line2D:
    """Draw one curve with about five markers, shifted so that markers of different curves do not overlap."""
    positive = curve.mean > 0
    mean = np.where(positive | (scale == "linear"), curve.mean, np.nan)
    low = np.maximum(curve.low, 1e-3 * curve.mean) if scale == "log" else curve.low
    axis.fill_between(curve.rounds, low, curve.high, where=np.isfinite(mean), color=look.colour, alpha=0.2, linewidth=0)
    every = max(1, len(mean) // 5)
    (line,) = axis.plot(
        curve.rounds,
        mean,
        color=look.colour,
        linestyle=look.dash,
        marker=look.marker,
        markevery=slice((shift * every // 4) % every, None, every),
    )
    return line


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


def _caption(result: StudyResult, record: str, bands: dict[int, Band], hidden: list[str]) -> str:
    """Return the caption of regret curves, with the means that the axis cannot show."""
    every = list(bands.values())
    seeds = seeds_text([b.seeds for b in every], sum(b.left_out for b in every))
    text = f"Mean {record} over {seeds}; {every[0].describe()}. {constants_text(result.cells)}"
    if hidden:
        text += f" Means of zero are not on the logarithmic axis: {'; '.join(hidden)}."
    return text


def layer_occupancy(result: StudyResult, *, width: Width = "neurips") -> Drawing:
    """Draw the mean share of rounds per layer, one bar for each cell that recorded ``layer_rounds``."""
    cells = [cell for cell in result.cells if "layer_rounds" in cell.records]
    if not cells:
        raise ValueError("layer_rounds was recorded in no cell of the study")
    found = {id(cell): occupancy(cell) for cell in cells}
    groups = by_problem(cells)
    colours = _colours(max(o.deepest for o in found.values()))
    rows = max(map(len, groups.values()))
    handles: dict[int, BarContainer] = {}
    with style():
        same = len({tuple(map(algorithm_name, mine)) for mine in groups.values()}) == 1  # names only in the left panels
        height = 0.75 + 0.22 * rows
        grid = panels(len(groups), width, least=1.8 if same else 2.6, height=height, sharex=True, sharey=same)
        for axis, title, mine in zip(grid.axes, titles(groups), groups.values(), strict=True):
            for row, cell in enumerate(mine):
                handles |= _bar(axis, row, found[id(cell)], colours)
            names = ["\n".join(wrap(grid.figure, algorithm_name(cell), _NAME_WIDTH, SMALL, most=2)) for cell in mine]
            axis.set_yticks(range(len(mine)), names)
            axis.set(xlim=(0, 1), ylim=(len(mine) - 0.4, -0.6))
            axis.grid(False)
            grid.title(axis, title, beside=0.25 + _NAME_WIDTH / (grid.columns if same else 1))
        counted = "rounds" if result.unit == "round" else "steps"
        grid.xlabel(f"share of {counted}")
        seeds = seeds_text([o.seeds for o in found.values()], sum(o.left_out for o in found.values()))
        caption = (
            f"Share of {counted} that ended in each layer, mean over {seeds}, without intervals. "
            f"{constants_text(cells)}"
        )
        layers = sorted(handles)
        labels = [f"layer {layer}" if layer else "nothing learned" for layer in layers]
        return finish(grid.figure, [handles[layer] for layer in layers], labels, caption)


def _bar(axis: Axes, row: int, one: Occupancy, colours: list[Colour]) -> dict[int, BarContainer]:
    """Draw the layers of one algorithm side by side; return the part of each layer."""
    left = 0.0
    parts: dict[int, BarContainer] = {}
    for layer, share in enumerate(one.final.estimate):
        if share == 0:
            continue
        colour = colours[layer]
        hatch = HATCHES[layer % len(HATCHES)]
        part = axis.barh(row, share, left=left, height=0.7, color=colour, hatch=hatch, edgecolor="white", linewidth=0.4)
        parts[layer] = part
        if share > 0.08:
            text = axis.text(left + share / 2, row, str(layer), ha="center", va="center", fontsize=SMALL)
            text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85})
        left += float(share)
    return parts


def _colours(deepest: int) -> list[Colour]:
    """Return a colour per layer, from dark to light in a map for colour-blind readers; grey for nothing learned."""
    from matplotlib import colormaps

    return ["#bbbbbb", *(colormaps["cividis"](i / max(1, deepest - 1)) for i in range(max(1, deepest)))]
