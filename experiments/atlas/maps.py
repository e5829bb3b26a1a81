"""The maps: who has the least mean regret in each cell, and which differences the paired intervals separate."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

import jaxvar as jv
from experiments.atlas.players import BANDITS, EPISODES, MODES, Entry
from experiments.atlas.studies import KINDS, SHAPES, SIZES, TASKS, ratio_of, shown
from jaxvar.analysis import Interval, coverage, mean_interval
from jaxvar.analysis.intervals import Array
from jaxvar.study.result import CellResult, StudyResult

LEVEL = 0.95
ENOUGH = 200  # seeds of a cell that claims an order
GROUPS = {"bandits": "Linear bandits", "data": "Tasks made of data", "episodes": "Episodes"}
SCOPES = {"R": "told R only", "all": "told R, or the variances too"}


class Verdict(NamedTuple):
    """The order in one cell of a map; algorithms are indices of the panel's entries."""

    first: int
    second: int
    difference: float  # mean regret of the second minus that of the first, paired by seed
    low: float
    high: float
    open: tuple[int, ...]  # rivals that the intervals do not separate from the first

    @property
    def is_decided(self) -> bool:
        """True if the first is separated from all others."""
        return not self.open


class Held(NamedTuple):
    """How often a confidence event held in all rounds, in the column where it held least often."""

    share: Interval
    x: int


class Problem(NamedTuple):
    """The words of a map: what it is called, what a reader chooses it by, and what is to be known of it."""

    title: str
    group: str
    facets: Mapping[str, str]  # arms, noise and d
    axis: str  # name of the horizontal axis
    remark: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Panel:
    """One map: R / sigma or the mixture of a problem against rounds."""

    study: str
    hash: str
    problem: Problem
    unit: str
    x: tuple[float, ...]
    notes: tuple[str, ...]  # one for each x; Var* of an episode where it was recorded
    rounds: tuple[int, ...]
    seeds: int
    entries: tuple[Entry, ...]
    mean: Array  # [entries, x, rounds]   NaN where a seed failed
    half: Array  # [entries, x, rounds]   half widths of 95 % t intervals
    covered: tuple[Held | None, ...]  # of each entry
    verdicts: Mapping[tuple[str, str], tuple[tuple[Verdict, ...], ...]]  # by constants and scope, [x][rounds]

    @property
    def title(self) -> str:
        """The name of the map."""
        return self.problem.title

    @property
    def axis(self) -> str:
        """The name of the horizontal axis."""
        return self.problem.axis

    @property
    def modes(self) -> tuple[str, ...]:
        """The positions of the first switch in which somebody plays."""
        return tuple(mode for mode in MODES if any(mode in entry.modes for entry in self.entries))

    def players(self, mode: str, scope: str) -> list[int]:
        """Return the entries that a position of the switches shows."""
        return [i for i, e in enumerate(self.entries) if mode in e.modes and (scope == "all" or not e.player.told)]

    @property
    def scopes(self) -> tuple[str, ...]:
        """The positions of the second switch that differ."""
        return tuple(SCOPES) if any(e.player.told for e in self.entries) else ("R",)

    def column(self, x: int) -> str:
        """Return the name of a column."""
        return f"{self.title}, {self.axis} = {self.x[x]:g}"

    def cell(self, x: int, k: int) -> str:
        """Return the name of a cell."""
        return f"{self.column(x)}, K = {self.rounds[k]:,}"


@dataclasses.dataclass(frozen=True, eq=False)
class Atlas:
    """All maps of a size."""

    size: str
    panels: tuple[Panel, ...]

    @property
    def modes(self) -> dict[str, str]:
        """The positions of the first switch, with their meaning."""
        return {mode: words for mode, words in MODES.items() if any(mode in panel.modes for panel in self.panels)}

    @staticmethod
    def of(results: Mapping[str, StudyResult], tuned: Mapping[str, float], size: str) -> Atlas:
        """Read the maps of some studies, in their order."""
        return Atlas(size, tuple(p for name, result in results.items() for p in _panels(name, result, tuned, size)))


def _panels(name: str, result: StudyResult, tuned: Mapping[str, float], size: str) -> list[Panel]:
    some = shown(BANDITS if result.unit == "round" else EPISODES, tuned, SIZES[size])
    players = tuple(entry for entry in some if entry.label in result.algorithms)
    found = []
    for environment in result.environments:
        columns: dict[str, dict[str, CellResult]] = {}
        for cell in result.cells:
            if cell.environment == environment:
                columns.setdefault(str(cell.environment_settings), {})[cell.algorithm] = cell
        settings = [next(iter(column.values())).environment_settings for column in columns.values()]
        problem = describe(name, environment, result.cells[0].num_rounds)
        if problem.group == "episodes":
            x = tuple(float(str(setting["mix"])) for setting in settings)
            notes = tuple(f"Var* {_variance(column):.2g} an episode" for column in columns.values())
        else:
            x, notes = tuple(ratio_of(setting, name.partition("_")[2]) for setting in settings), ()
        identity = (name, str(result.config.get("study_hash", "")), problem, result.unit, x, notes)
        found.append(panel(identity, players, list(columns.values())))
    return found


def describe(name: str, environment: str, last: int) -> Problem:
    """Return the words of the map of one environment of a study that is ``last`` rounds long."""
    kind, _, shape = name.partition("_")
    if kind == "episodes":
        return Problem(f"graded MDP, {environment}", "episodes", {}, "mix")
    if kind == "data":
        task, facts = TASKS[shape], jv.data_bandit(shape).summary()
        told = f"All are told R = {task.noise_bound:g} and B = {task.theta_bound:g}"
        linear = "The means are linear."
        if facts.misspecification > 1e-6:
            linear = (
                "The means are not linear, so that no theorem holds here: the best linear fit misses them by "
                f"{facts.misspecification:.2g} (root mean square) and, when played, costs {facts.linear_regret:.2g} a "
                "round."
            )
        return Problem(f"data, {task.title}, {environment}", "data", {}, "R/σ", f"{told}. {linear}")
    is_long = shape.endswith("_long")
    words = KINDS[kind][0], SHAPES[shape.removesuffix("_long")]
    facets = {"arms": words[0], "noise": words[1], "d": environment.removeprefix("d = ")}
    title = f"{words[0]}, {environment}, {words[1]}" + (f", to K = {last:,}" if is_long else "")
    return Problem(title, "bandits", facets, "R/σ")


def _variance(column: Mapping[str, CellResult]) -> float:
    """Return the mean variance of V* along the paths of an episode, over all algorithms."""
    return float(np.mean([c.records["variance"][:, -1].mean() / c.num_rounds for c in column.values()]))


def panel(
    identity: tuple[str, str, Problem, str, tuple[float, ...], tuple[str, ...]],
    players: tuple[Entry, ...],
    columns: Sequence[Mapping[str, CellResult]],
) -> Panel:
    """Return the map of columns that hold a cell for each algorithm; one whose seeds failed is left out there."""
    first = columns[0][players[0].label]
    regret = np.full((len(players), len(columns), len(first.seeds), len(first.rounds)), np.nan)
    shares: list[list[Held]] = [[] for _ in players]
    for i, entry in enumerate(players):
        for j, column in enumerate(columns):
            cell = column[entry.label]
            if not np.any(cell.status):
                regret[i, j] = cell.records["regret"]
            if "confidence" in cell.records:
                shares[i].append(Held(coverage(cell).share, j))
    made = Panel(
        *identity,
        rounds=tuple(map(int, first.rounds)),
        seeds=len(first.seeds),
        entries=players,
        mean=regret.mean(2),
        half=np.asarray(mean_interval(np.moveaxis(regret, 2, 0), LEVEL).half),
        covered=tuple(min(some, key=lambda held: held.share.low) if some else None for some in shares),
        verdicts={},
    )
    found = {
        (mode, scope): tuple(
            _column(regret[:, j], made.players(mode, scope), len(columns)) for j in range(len(columns))
        )
        for mode in made.modes
        for scope in made.scopes
    }
    return dataclasses.replace(made, verdicts=found)


def each_level(players: int, columns: int, rounds: int) -> float:
    """Return the level of each interval, such that all orders of a map hold together with probability 0.95."""
    return 1 - (1 - LEVEL) / (max(1, players - 1) * columns * rounds)


def _column(regret: Array, players: list[int], columns: int) -> tuple[Verdict, ...]:
    """Return the order at every recorded round from ``regret [entries, seeds, rounds]``."""
    alive = [i for i in players if np.all(np.isfinite(regret[i]))]
    level = each_level(len(players), columns, regret.shape[2])
    found = []
    for k in range(regret.shape[2]):
        first, *others = sorted(alive, key=lambda i: float(regret[i, :, k].mean()))
        gaps = mean_interval(np.stack([regret[i, :, k] - regret[first, :, k] for i in others], axis=1), level)
        low, high = np.asarray(gaps.low), np.asarray(gaps.high)
        is_open = (low <= 0) | (regret.shape[1] < ENOUGH)
        unseparated = tuple(i for i, one in zip(others, is_open, strict=True) if one)
        gap = float(np.asarray(gaps.estimate)[0])
        found.append(Verdict(first, others[0], gap, float(low[0]), float(high[0]), unseparated))
    return tuple(found)
