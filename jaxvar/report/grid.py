"""A study as the page shows it: environment settings, each with one curve per algorithm and its settings."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxvar.analysis.sample import algorithm_name, environment_name
from jaxvar.figures.problems import by_problem, titles
from jaxvar.study.result import CellResult, StudyResult

_FEWEST = 2  # seeds that an interval needs


@dataclasses.dataclass(frozen=True)
class Place:
    """A cell, and where it stands in the grid."""

    cell: CellResult
    setting: int  # into Grid.settings
    curve: int  # into Grid.curves

    @property
    def well(self) -> int:
        """How many seeds went well."""
        return int(np.sum(np.asarray(self.cell.status) == 0))

    def has(self, record: str) -> bool:
        """Whether there is enough of the record for an interval."""
        return record in self.cell.records and self.well >= _FEWEST


@dataclasses.dataclass(frozen=True)
class Grid:
    """All cells of a study."""

    result: StudyResult
    settings: tuple[str, ...]  # names of the environments with what was swept
    curves: tuple[str, ...]  # names of the algorithms, likewise
    places: tuple[Place, ...]

    def recorded(self, record: str) -> list[Place]:
        """The cells with enough of the record for an interval."""
        return [place for place in self.places if place.has(record)]


def grid(result: StudyResult) -> Grid:
    """Find settings and curves, in the study's order."""
    problems = by_problem(result.cells)
    settings = {name: i for i, name in enumerate(problems)}
    curves = {name: i for i, name in enumerate(dict.fromkeys(map(algorithm_name, result.cells)))}
    places = [Place(c, settings[environment_name(c)], curves[algorithm_name(c)]) for c in result.cells]
    return Grid(result, tuple(titles(problems)), tuple(curves), tuple(places))
