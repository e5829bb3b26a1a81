"""``python -m experiments sharp``: how often the radius ``sharp`` holds, by how much, and what its steps gain."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tyro

import jaxvar as jv
from experiments.experiment import COMMAND, Conclusions, publish
from experiments.sharp.coverage import DELTA, Covered, cover
from experiments.sharp.steps import steps_table
from jaxvar.analysis.intervals import proportion_interval
from jaxvar.figures.look import SMALL, VERMILION, looks, style, wrap
from jaxvar.figures.style import Drawing, finish, panels
from jaxvar.tables import Column, Table

SEEDS = 100_000
QUANTILES = (0.5, 0.99, 0.9999, 1.0)
FIGURES = {"bandit": ("SAVE, optimistic", "AVE-UCB"), "episodes": ("UCRL-AVE",), "streams": ("one layer",)}
_ROOM = 1.5  # inches for the names of instances


@dataclasses.dataclass(frozen=True)
class Options:
    """Play the bank and the audit's streams with the radius sharp, then write tables and figures."""

    seeds: int = SEEDS
    """Seeds of every case."""
    longer: float = 1.0
    """Factor of all rounds and episodes."""
    out: str = "results/sharp"
    """Folder of the cases that were played; a run that was interrupted plays what is missing there."""
    publish: bool = False
    """Put tables and figures into the experiment's own folder. Only at the sizes that are the default."""

    def __post_init__(self) -> None:
        if self.publish and (self.seeds, self.longer) != (SEEDS, 1.0):
            raise ValueError("publish is for the experiment as it is, without seeds and longer")


def conclude(cases: Sequence[Covered]) -> Conclusions:
    """Make the tables of coverage, of slack by layer and of steps, and the figures of slack."""
    tables = {"coverage": coverage_table(cases), "slack": slack_table(cases), "steps": steps_table()}
    return Conclusions(tables, {name: slack_figure(cases, players) for name, players in FIGURES.items()})


def quantiles(ratio: np.ndarray) -> list[float]:
    """Return the quantiles over seeds that tables and figures show; they are values that occurred."""
    return [float(x) for x in np.quantile(ratio, QUANTILES, method="higher")]


def coverage_table(cases: Sequence[Covered]) -> Table:
    """Return a line per case: in how many seeds all radii held, and the largest ratio of a seed."""
    rows = []
    for case in cases:
        about, seeds = case.about, len(case.ratio)
        held = proportion_interval(case.held, seeds, "share of seeds in which all radii held")
        layers = int(np.max(np.flatnonzero(case.ratio.any(axis=0)))) + 1
        told = (about["player"], about["instance"], about["length"], layers, seeds, seeds - case.held, held)
        rows.append((*told, *quantiles(case.ratio.max(axis=1))))
    columns = (
        Column("algorithm"),
        Column("instance"),
        Column("K", "number"),
        Column("deepest layer", "number"),
        Column("seeds", "number"),
        Column("failed", "number"),
        Column("held", "ends"),
        *_quantile_columns(),
    )
    caption = (
        f"Seeds in which the radius sharp held in all layers and rounds, with the 95 % Clopper-Pearson interval; "
        f"{1 - DELTA:g} is promised (delta = {DELTA:g}). K: rounds, or episodes of UCRL-AVE. Then quantiles over seeds "
        "of the largest error / radius."
    )
    return Table(caption, columns, tuple(rows))


def slack_table(cases: Sequence[Covered]) -> Table:
    """Return a line per case and layer that learned in some seed."""
    rows = []
    for case in cases:
        for layer, ratio in enumerate(case.ratio.T, start=1):
            if (ratio > 0).any():
                seen = ratio[ratio > 0]
                rows.append((case.about["player"], case.about["instance"], layer, len(seen), *quantiles(seen)))
    columns = (Column("algorithm"), Column("instance"), Column("layer", "number"), Column("seeds", "number"))
    caption = "The largest error / radius of each layer over all rounds: quantiles over the seeds in which it learned."
    return Table(caption, (*columns, *_quantile_columns()), tuple(rows))


def _quantile_columns() -> list[Column]:
    names = ("median" if q == 0.5 else "largest" if q == 1 else f"{100 * q:g} %" for q in QUANTILES)
    return [Column(name, "number") for name in names]


def slack_figure(cases: Sequence[Covered], players: Sequence[str]) -> Drawing:
    """Draw the quantiles of every layer: a panel per algorithm, a row per instance, a colour per layer."""
    shown = [case for case in cases if case.about["player"] in players]
    instances = list(dict.fromkeys(case.about["instance"] for case in shown))
    deepest = max(case.ratio.shape[1] for case in shown)
    largest = max(float(case.ratio.max()) for case in shown)
    names = [f"layer {number}" for number in range(1, deepest + 1)]
    look, handles = looks(names), {}
    with style():
        grid = panels(len(players), "neurips", least=1.7, height=0.6 + 0.2 * len(instances), sharey=True)
        for axis, player in zip(grid.axes, players, strict=True):
            for case in (case for case in shown if case.about["player"] == player):
                learned = [i for i in range(case.ratio.shape[1]) if (case.ratio[:, i] > 0).any()]
                for place, i in enumerate(learned):
                    at = instances.index(case.about["instance"]) + 0.7 * ((place + 0.5) / len(learned) - 0.5)
                    low, near, _, high = quantiles(case.ratio[case.ratio[:, i] > 0, i])
                    mine = look[names[i]]
                    axis.plot([low, high], [at, at], color=mine.colour, linewidth=1.0)
                    axis.plot([low], [at], color=mine.colour, marker="|", markersize=3)
                    point = axis.plot(
                        [near], [at], color=mine.colour, marker=mine.marker, markersize=3, linestyle="none"
                    )
                    handles[names[i]] = point[0]
            axis.axvline(1, color=VERMILION, linewidth=0.9, linestyle=(0, (4, 2)))
            axis.set(xlim=(0, max(1.1, 1.05 * largest)), ylim=(len(instances) - 0.4, -0.6), xlabel="error / radius")
            if len(players) > 1:
                grid.title(axis, player)
        labels = ["\n".join(wrap(grid.figure, name, _ROOM, SMALL, most=2)) for name in instances]
        grid.axes[0].set_yticks(range(len(instances)), labels)
        seeds = len(shown[0].ratio)
        caption = (
            f"{', '.join(players)}: the largest error / radius of each layer over all rounds, from its median over "
            f"{seeds:,} seeds (bar) to its maximum (end), with the 99 % quantile (symbol). Right of the dashed line "
            f"the radius fails; {DELTA:g} of the seeds may. Layers are drawn where some seed has learned in them."
        )
        order = [name for name in names if name in handles]
        return finish(grid.figure, [handles[name] for name in order], order, caption)


def main() -> int:
    """Return the exit code: 1 where the radius fails more often than promised in some case, 2 for bad usage."""
    try:
        options = tyro.cli(Options, prog=f"{COMMAND} sharp")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    jv.keep_programs()
    cases = cover(Path(options.out), options.seeds, options.longer)
    conclusions = conclude(cases)
    print(conclusions.tables["coverage"].text())
    if options.publish:
        for path in publish("sharp", conclusions):
            print(f"  {path}")
    broken = [row for row in conclusions.tables["coverage"].rows if row[6].high < 1 - DELTA]
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
