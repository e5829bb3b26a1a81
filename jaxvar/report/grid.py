"""A study as the page shows it: environment settings, each with one curve per algorithm and its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvar.analysis.sample import algorithm_name, environment_name
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

    def by_setting(self, places: list[Place]) -> list[tuple[int, list[Place]]]:
        """``places`` by their environment setting, in the study's order."""
        found: dict[int, list[Place]] = {}
        for place in places:
            found.setdefault(place.setting, []).append(place)
        return sorted(found.items())


def grid(result: StudyResult) -> Grid:
    """Find settings and curves, in the study's order."""
    settings: dict[Any, tuple[int, str]] = {}
    curves: dict[Any, tuple[int, str]] = {}
    places = []
    for cell in result.cells:
        setting, _ = settings.setdefault(
            (cell.environment, _key(cell.environment_settings)), (len(settings), environment_name(cell))
        )
        curve, _ = curves.setdefault(
            (cell.algorithm, _key(cell.algorithm_settings)), (len(curves), algorithm_name(cell))
        )
        places.append(Place(cell, setting, curve))
    return Grid(result, tuple(n for _, n in settings.values()), tuple(n for _, n in curves.values()), tuple(places))


def _key(settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, repr(value)) for name, value in settings.items())
