"""Which cells share a panel: those that play the same problem."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from jaxvar.analysis.sample import environment_name, settings_text
from jaxvar.study.result import CellResult, StudyResult


def by_problem(
    cells: Sequence[CellResult], name: Callable[[CellResult], str] = environment_name
) -> dict[str, list[CellResult]]:
    """Cells by the name of their problem, in order."""
    found: dict[str, list[CellResult]] = {}
    for cell in cells:
        found.setdefault(name(cell), []).append(cell)
    return found


def titles(groups: dict[str, list[CellResult]]) -> list[str]:
    """Names of the problems, without the environment's label where it is the same in all of them."""
    firsts = [cells[0] for cells in groups.values()]
    if len(firsts) > 1 and len({cell.environment for cell in firsts}) == 1:
        return [settings_text(cell.environment_settings) for cell in firsts]
    return list(groups)


def pages(result: StudyResult, most: int = 12) -> Iterator[StudyResult]:
    """The study with at most ``most`` problems at a time, as many as are readable on a page."""
    groups = list(by_problem(result.cells).values())
    for first in range(0, len(groups), most):
        cells = tuple(cell for group in groups[first : first + most] for cell in group)
        yield dataclasses.replace(result, cells=cells)
