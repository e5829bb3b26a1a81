"""Cells grouped by environment setting: a panel of a figure, a section of a page, a page of panels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from jaxvar.analysis.captions import algorithm_name, environment_name, settings_text
from jaxvar.study.result import CellResult, StudyResult

T = TypeVar("T")
K = TypeVar("K")
_FEWEST_SEEDS = 2  # that an interval needs


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group items by key, in order of first appearance."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def by_problem(cells: Sequence[CellResult]) -> dict[str, list[CellResult]]:
    """Group cells by the name of their environment setting."""
    return grouped(cells, environment_name)


def titles(groups: dict[str, list[CellResult]]) -> list[str]:
    """Return the groups' names, without the environment's label if all groups share it."""
    firsts = [cells[0] for cells in groups.values()]
    if len(firsts) > 1 and len({cell.environment for cell in firsts}) == 1:
        return [settings_text(cell.environment_settings) for cell in firsts]
    return list(groups)


def pages(result: StudyResult, most: int = 12) -> Iterator[StudyResult]:
    """Split the study into parts of at most ``most`` environment settings, so that a page stays readable."""
    groups = list(by_problem(result.cells).values())
    for first in range(0, len(groups), most):
        cells = tuple(cell for group in groups[first : first + most] for cell in group)
        yield dataclasses.replace(result, cells=cells)


@dataclasses.dataclass(frozen=True)
class Place:
    """A cell and its position in the grid."""

    cell: CellResult
    setting: int  # index into Grid.settings
    curve: int  # index into Grid.curves

    @property
    def well(self) -> int:
        """Number of seeds that did not fail."""
        return int(np.sum(np.asarray(self.cell.status) == 0))


@dataclasses.dataclass(frozen=True)
class Grid:
    """All cells of a study, by environment setting and by curve: an algorithm with its settings."""

    result: StudyResult
    settings: tuple[str, ...]  # names of the environments with their swept values
    curves: tuple[str, ...]  # names of the algorithms with their swept values
    places: tuple[Place, ...]

    @staticmethod
    def of(result: StudyResult) -> Grid:
        """Find the environment settings and the curves, in the study's order."""
        problems = by_problem(result.cells)
        settings = {name: i for i, name in enumerate(problems)}
        curves = {name: i for i, name in enumerate(dict.fromkeys(map(algorithm_name, result.cells)))}
        places = [Place(c, settings[environment_name(c)], curves[algorithm_name(c)]) for c in result.cells]
        return Grid(result, tuple(titles(problems)), tuple(curves), tuple(places))

    def recorded(self, record: str) -> list[Place]:
        """Return the cells that have the record for enough seeds to compute an interval."""
        return [p for p in self.places if record in p.cell.records and p.well >= _FEWEST_SEEDS]
