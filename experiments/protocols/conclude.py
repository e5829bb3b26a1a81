"""The tables and the figure of what late, batched and corrupted rewards cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments.experiment import Conclusions
from jaxvar.analysis import mean_interval
from jaxvar.analysis.intervals import interval
from jaxvar.figures import Drawing
from jaxvar.figures.look import looks, style
from jaxvar.figures.style import finish, panels
from jaxvar.tables import Column, Table

PROBLEM = "d = 5, 20 arms fixed on the sphere, noise ±0.3, and all are told R = 0.3."


class Part(NamedTuple):
    """One of the two questions, as it was played."""

    title: str
    axis: str  # the name of what is changed, in a table
    about: str  # the same below a figure
    values: tuple[float, ...]  # those that were played, in order
    regret: Mapping[str, np.ndarray]  # label -> [values, seeds], after the last round


class Weights(NamedTuple):
    """The first layer of SAVE in one seed."""

    delay: int
    count: int  # observations it learned from
    squares: float  # the sum of their squared weights


def conclude(parts: Mapping[str, Part], weights: Sequence[Weights], num_rounds: int) -> Conclusions:
    """Make a table of final regret for each part, one of weights, and one figure with a panel for each part."""
    tables = {name: _table(part, num_rounds) for name, part in parts.items()}
    titles = ("delay", "observations", "mean squared weight")
    tables["weights"] = Table(
        "The first layer of SAVE (practical), delayed, in seed 0: the observations it learned from until it was "
        "passed, and the mean of their squared weights, which are at most 1 where nothing is late.",
        tuple(Column(title, "number") for title in titles),
        tuple((one.delay, one.count, one.squares / one.count) for one in weights),
    )
    return Conclusions(tables, {"protocols": _figure(parts, num_rounds)})


def _table(part: Part, num_rounds: int) -> Table:
    """Show mean final regret by value, and how much more the last value costs than the first."""
    titles = [f"{part.axis} {value:,g}" for value in part.values]
    rows = []
    for label, regret in part.regret.items():
        first, last = regret[0].mean(), regret[-1].mean()
        growth = float(last / first), float((last - first) / part.values[-1])
        rows.append((label, *(mean_interval(one) for one in regret), *growth))
    seeds = len(next(iter(part.regret.values()))[0])
    caption = (
        f"{part.title}: regret after {num_rounds:,} rounds over {seeds:,} seeds, mean ± half width of the 95 % t "
        f"interval; the last of them over the first, and their difference by {part.axis} {part.values[-1]:,g}. "
        f"{PROBLEM}"
    )
    columns = (
        Column("algorithm"),
        *(Column(title, "half") for title in titles),
        Column("factor", "number"),
        Column("more per unit", "number"),
    )
    return Table(caption, columns, tuple(rows))


def _figure(parts: Mapping[str, Part], num_rounds: int) -> Drawing:
    """Draw final regret against what is changed, at evenly spaced places, a panel for each part."""
    labels = [label for part in parts.values() for label in part.regret]
    look, handles = looks(labels), {}
    with style():
        grid = panels(len(parts), "a4", height=2.6)
        for axis, part in zip(grid.axes, parts.values(), strict=True):
            places = np.arange(len(part.values))
            for label, regret in part.regret.items():
                mean, half = interval(regret.T)
                colour, dash, marker = look[label]
                handles[label] = axis.errorbar(
                    places, mean, half, color=colour, linestyle=dash, marker=marker, capsize=2
                )
            axis.set(yscale="log", xlabel=part.about, xticks=places)
            axis.set_xticklabels([f"{value:,g}" for value in part.values])
            grid.title(axis, part.title)
        seeds = len(next(iter(next(iter(parts.values())).regret.values()))[0])
        caption = (
            f"Mean regret after {num_rounds:,} rounds over {seeds:,} seeds, with 95 % t intervals. {PROBLEM} "
            "Values on the x axes are evenly spaced."
        )
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel="cumulative pseudo-regret")
