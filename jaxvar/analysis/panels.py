"""Cells grouped by environment setting: a panel of a figure, a section of a page, a page of panels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from jaxvar.analysis.captions import algorithm_name, environment_name, label_word, settings_text
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


class Facets(NamedTuple):
    """Environment settings as a table: a row for each value of one thing that varies, a column for each of another."""

    rows: tuple[str, ...]  # names of the rows
    columns: tuple[str, ...]  # names of the columns
    places: tuple[tuple[int, int], ...]  # row and column of each group; no two are the same

    def turned(self) -> Facets:
        """Return the table with rows and columns exchanged."""
        return Facets(self.columns, self.rows, tuple((column, row) for row, column in self.places))


def facets(groups: Mapping[str, Sequence[CellResult]]) -> Facets | None:
    """Return the groups as a table, if exactly two things vary: two swept parameters, or one and the environment."""
    firsts = [cells[0] for cells in groups.values()]
    varying: list[list[str]] = []  # for each thing that varies, its value in each group
    labels = [label_word(cell.environment) for cell in firsts]
    if len(set(labels)) > 1:
        varying.append(labels)
    names = dict.fromkeys(name for cell in firsts for name in cell.environment_settings)
    for name in names:
        if any(name not in cell.environment_settings for cell in firsts):
            return None
        values = [settings_text({name: cell.environment_settings[name]}) for cell in firsts]
        if len(set(values)) > 1:
            varying.append(values)
    if len(varying) != 2:
        return None
    rows, columns = (tuple(dict.fromkeys(values)) for values in varying)
    places = tuple((rows.index(r), columns.index(c)) for r, c in zip(*varying, strict=True))
    is_table = len(set(places)) == len(places) and len(places) > max(len(rows), len(columns))
    return Facets(rows, columns, places) if is_table else None


def pages(result: StudyResult, most: int = 12) -> Iterator[StudyResult]:
    """Split the study into parts of at most ``most`` environment settings, so that a page stays readable.

    Settings that make a table are split between its rows, unless a row is longer than a page.
    """
    groups = by_problem(result.cells)
    found, listed = facets(groups), list(groups.values())
    if found is not None and len(found.columns) <= most:
        ordered = sorted(zip(found.places, listed, strict=True), key=lambda pair: pair[0])
        per_page = most // len(found.columns)  # rows
        parts = grouped(ordered, lambda pair: pair[0][0] // per_page)
        split = [[cells for _, cells in part] for part in parts.values()]
    else:
        split = [listed[first : first + most] for first in range(0, len(listed), most)]
    for part in split:
        yield dataclasses.replace(result, cells=tuple(cell for cells in part for cell in cells))


def recorded(cells: Sequence[CellResult], record: str) -> list[CellResult]:
    """Return the cells that have the record; an error if there are none."""
    found = [cell for cell in cells if record in cell.records]
    if not found:
        raise ValueError(f"{record} was recorded in no cell of the study")
    return found


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
