"""Regret against rounds: a panel for each problem, a curve with its band for each algorithm."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.bands import Band, Kind, band
from jaxvar.analysis.captions import constants_text, seeds_text
from jaxvar.analysis.sample import algorithm_name
from jaxvar.figures.problems import by_problem, titles
from jaxvar.figures.style import Drawing, Look, Width, finish, looks, panels, plain, style
from jaxvar.study.result import StudyResult

AxisScale = Literal["log", "linear"]
AXIS_NAMES = {"regret": "cumulative pseudo-regret", "variance": "total variance"}


def regret_curves(
    result: StudyResult,
    *,
    record: str = "regret",
    width: Width = "neurips",
    scale: AxisScale = "log",
    kind: Kind = "simultaneous",
    level: float = 0.95,
    seed: int = 0,
) -> Drawing:
    """Draw mean curves with bands.

    Args:
      result: the study.
      record: what is drawn, one number per seed and round.
      width: of which venue.
      scale: of both axes.
      kind: of the bands.
      level: of the bands.
      seed: of the resampling behind simultaneous bands.
    """
    parameters.check_choice("scale", scale, ("log", "linear"))
    groups = by_problem(result.cells)
    bands = {id(c): band(c, record, kind=kind, level=level, seed=seed) for c in result.cells}
    look = looks([algorithm_name(cell) for cell in result.cells])
    handles: dict[str, Any] = {}
    hidden = []
    with style():
        grid = panels(len(groups), width, sharex=True, sharey=scale == "log")
        for i, (axis, title, cells) in enumerate(zip(grid.axes, titles(groups), groups.values(), strict=True)):
            for cell in cells:
                name = algorithm_name(cell)
                handles[name] = _draw(axis, bands[id(cell)], look[name], scale, list(look).index(name))
            axis.set(xscale=scale, yscale=scale)
            grid.title(axis, title)
            if i + grid.columns >= len(groups):
                axis.set_xlabel(plain(result.unit))
                axis.tick_params(labelbottom=True)
            if scale == "log":
                hidden += _zeros(axis, title, {algorithm_name(c): bands[id(c)] for c in cells})
        _limits(grid.axes, list(bands.values()), scale)
        caption, ylabel = _caption(result, record, bands, hidden), AXIS_NAMES.get(record, record)
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel=ylabel)


def _draw(axis: Any, curve: Band, look: Look, scale: AxisScale, shift: int) -> Any:
    """One curve; markers are few, and shifted so that those of neighbours do not hide each other."""
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


def _zeros(axis: Any, title: str, bands: dict[str, Band]) -> list[str]:
    """What has no place on a logarithmic axis, by name; an empty panel says so itself."""
    zeros = {name: int(np.sum(b.mean <= 0)) for name, b in bands.items()}
    if all(np.all(b.mean <= 0) for b in bands.values()):
        axis.text(0.5, 0.5, "all means are zero", ha="center", va="center", transform=axis.transAxes)
        return [f"all of {title}"]
    found = ", ".join(f"{name} ({number} points)" for name, number in zeros.items() if number)
    return [f"{title}: {found}"] if found else []


def _limits(axes: list[Any], bands: list[Band], scale: AxisScale) -> None:
    """Around the means: a band that reaches down to zero must not stretch a logarithmic axis."""
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
            axis.set_ylim(0.1, 1.0)  # there is nothing to see


def _caption(result: StudyResult, record: str, bands: dict[int, Band], hidden: list[str]) -> str:
    every = list(bands.values())
    seeds = seeds_text([b.seeds for b in every], sum(b.left_out for b in every))
    text = f"Mean {record} over {seeds}; {every[0].describe()}. {constants_text(result.cells)}"
    if hidden:
        text += f" Means of zero are not on the logarithmic axis: {'; '.join(hidden)}."
    return text
