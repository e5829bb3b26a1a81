"""Which layers the rounds ended in: one bar per algorithm, a panel for each problem."""

from __future__ import annotations

from typing import Any

from jaxvar.analysis.captions import constants_text, seeds_text
from jaxvar.analysis.occupancy import Occupancy, occupancy
from jaxvar.analysis.sample import algorithm_name
from jaxvar.figures.problems import by_problem, titles
from jaxvar.figures.style import SMALL, Drawing, Width, finish, panels, style, wrap
from jaxvar.study.result import StudyResult

_ROOM = 1.3  # inches for the names of algorithms
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx")


def layer_occupancy(result: StudyResult, *, width: Width = "neurips") -> Drawing:
    """Draw the mean share of rounds per layer for all cells that recorded ``layer_rounds``."""
    cells = [cell for cell in result.cells if "layer_rounds" in cell.records]
    if not cells:
        raise ValueError("layer_rounds was recorded in no cell of the study")
    found = {id(cell): occupancy(cell) for cell in cells}
    groups = by_problem(cells)
    colours = _colours(max(o.deepest for o in found.values()))
    rows = max(map(len, groups.values()))
    handles: dict[int, Any] = {}
    with style():
        same = len({tuple(map(algorithm_name, mine)) for mine in groups.values()}) == 1  # then names stand on the left
        height = 0.75 + 0.22 * rows
        grid = panels(len(groups), width, least=1.8 if same else 2.6, height=height, sharex=True, sharey=same)
        for i, (axis, title, mine) in enumerate(zip(grid.axes, titles(groups), groups.values(), strict=True)):
            for row, cell in enumerate(mine):
                handles |= _bar(axis, row, found[id(cell)], colours)
            names = ["\n".join(wrap(grid.figure, algorithm_name(cell), _ROOM, SMALL, most=2)) for cell in mine]
            axis.set_yticks(range(len(mine)), names)
            axis.set(xlim=(0, 1), ylim=(len(mine) - 0.4, -0.6))
            axis.grid(False)
            grid.title(axis, title, beside=0.25 + _ROOM / (grid.columns if same else 1))
            if i + grid.columns >= len(groups):
                axis.set_xlabel("share of rounds" if result.unit == "round" else "share of steps")
                axis.tick_params(labelbottom=True)
        seeds = seeds_text([o.seeds for o in found.values()], sum(o.left_out for o in found.values()))
        caption = (
            f"Share of {'rounds' if result.unit == 'round' else 'steps'} that ended in each layer, mean over {seeds}, "
            f"without intervals. {constants_text(cells)}"
        )
        layers = sorted(handles)
        labels = [f"layer {layer}" if layer else "nothing learned" for layer in layers]
        return finish(grid.figure, [handles[layer] for layer in layers], labels, caption)


def _bar(axis: Any, row: int, one: Occupancy, colours: list[Any]) -> dict[int, Any]:
    """One algorithm's layers, side by side; returns what was drawn of each."""
    left, parts = 0.0, {}
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


def _colours(deepest: int) -> list[Any]:
    """From dark to light by depth, in a map made for colour-blind readers; grey where nothing was learned."""
    from matplotlib import colormaps

    return ["#bbbbbb", *(colormaps["cividis"](i / max(1, deepest - 1)) for i in range(max(1, deepest)))]
