"""The maps: who has the least mean regret in each cell, and which differences the paired intervals separate."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments.atlas.studies import BANDITS, EPISODES, KINDS, MIXES, MODES, SHAPES, Entry, entries, ratios
from jaxvar.analysis import Interval, coverage, mean_interval
from jaxvar.analysis.intervals import Array
from jaxvar.study.result import CellResult, StudyResult

LEVEL = 0.95
ENOUGH = 200  # seeds of a cell that claims an order
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


@dataclasses.dataclass(frozen=True, eq=False)
class Panel:
    """One map: R / sigma or the mixture of a problem against rounds."""

    study: str
    hash: str
    title: str
    unit: str
    axis: str  # name of the horizontal axis
    x: tuple[float, ...]
    notes: tuple[str, ...]  # one for each x; Var* of an episode where it was recorded
    rounds: tuple[int, ...]
    seeds: int
    entries: tuple[Entry, ...]
    mean: Array  # [entries, x, rounds]   NaN where a seed failed
    half: Array  # [entries, x, rounds]   half widths of 95 % t intervals
    covered: tuple[Interval | None, ...]  # of each entry, where the confidence event held least often
    verdicts: Mapping[tuple[str, str], tuple[tuple[Verdict, ...], ...]]  # by constants and scope, [x][rounds]

    def players(self, mode: str, scope: str) -> list[int]:
        """Return the entries that a position of the switches shows."""
        return [i for i, e in enumerate(self.entries) if mode in e.modes and (scope == "all" or not e.player.told)]

    @property
    def scopes(self) -> tuple[str, ...]:
        """The positions of the second switch that differ."""
        return tuple(SCOPES) if any(e.player.told for e in self.entries) else ("R",)

    def cell(self, x: int, k: int) -> str:
        """Return the name of a cell."""
        return f"{self.title}, {self.axis} = {self.x[x]:g}, K = {self.rounds[k]:,}"


@dataclasses.dataclass(frozen=True, eq=False)
class Atlas:
    """All maps of a size."""

    size: str
    panels: tuple[Panel, ...]

    @staticmethod
    def of(results: Mapping[str, StudyResult], tuned: Mapping[str, float], size: str) -> Atlas:
        """Read the maps of some studies, in their order."""
        return Atlas(size, tuple(p for name, result in results.items() for p in _panels(name, result, tuned)))


def _panels(name: str, result: StudyResult, tuned: Mapping[str, float]) -> list[Panel]:
    is_bandit = result.unit == "round"
    players = tuple(entries(BANDITS if is_bandit else EPISODES, tuned))
    found = []
    for environment in result.environments:
        columns: dict[str, dict[str, CellResult]] = {}
        for cell in result.cells:
            if cell.environment == environment:
                columns.setdefault(str(cell.environment_settings), {})[cell.algorithm] = cell
        if is_bandit:
            kind, _, shape = name.partition("_")
            title, axis = f"{KINDS[kind][0]}, {environment}, {SHAPES[shape]}", "R/σ"
            x, notes = tuple(map(float, ratios(shape))), tuple[str, ...]()
        else:
            title, axis, x = f"graded MDP, {environment}", "mix", tuple(MIXES)
            notes = tuple(f"Var* {_variance(column):.2g} an episode" for column in columns.values())
        identity = (name, str(result.config.get("study_hash", "")), title, result.unit, axis, x, notes)
        found.append(panel(identity, players, list(columns.values())))
    return found


def _variance(column: Mapping[str, CellResult]) -> float:
    """Return the mean variance of V* along the paths of an episode, over all algorithms."""
    return float(np.mean([c.records["variance"][:, -1].mean() / c.num_rounds for c in column.values()]))


def panel(
    identity: tuple[str, str, str, str, str, tuple[float, ...], tuple[str, ...]],
    players: tuple[Entry, ...],
    columns: Sequence[Mapping[str, CellResult]],
) -> Panel:
    """Return the map of columns that hold a cell for each algorithm; one whose seeds failed is left out there."""
    first = columns[0][players[0].label]
    regret = np.full((len(players), len(columns), len(first.seeds), len(first.rounds)), np.nan)
    shares: list[list[Interval]] = [[] for _ in players]
    for i, entry in enumerate(players):
        for j, column in enumerate(columns):
            cell = column[entry.label]
            if not np.any(cell.status):
                regret[i, j] = cell.records["regret"]
            if "confidence" in cell.records:
                shares[i].append(coverage(cell).share)
    made = Panel(
        *identity,
        rounds=tuple(map(int, first.rounds)),
        seeds=len(first.seeds),
        entries=players,
        mean=regret.mean(2),
        half=np.asarray(mean_interval(np.moveaxis(regret, 2, 0), LEVEL).half),
        covered=tuple(min(some, key=lambda share: share.low) if some else None for some in shares),
        verdicts={},
    )
    found = {
        (mode, scope): tuple(
            _column(regret[:, j], made.players(mode, scope), len(columns)) for j in range(len(columns))
        )
        for mode in MODES
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
