"""Tables of final regret: a row for each algorithm, a column for each value of what was swept, and exponents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxvar.analysis import Interval, mean_interval, sample
from jaxvar.analysis.captions import named, value_text
from jaxvar.analysis.slopes import swept_value
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

Name = tuple[str, str]  # of an environment and of an algorithm, each with the settings that the rows do not share


def rows(result: StudyResult, parameter: str) -> dict[Name, dict[Any, CellResult]]:
    """Return the cells by name, and by the value of the parameter."""
    found: dict[Name, dict[Any, CellResult]] = {}
    for cell in result.cells:
        found.setdefault(name_without(cell, parameter), {})[swept_value(cell, parameter)] = cell
    return found


def name_without(cell: CellResult, parameter: str) -> Name:
    """Name the line that the cell is a point of, as :func:`jaxvar.analysis.slopes_in` does."""
    settings = (cell.environment_settings, cell.algorithm_settings)
    environment, algorithm = ({k: v for k, v in s.items() if k != parameter} for s in settings)
    return named(cell.environment, environment), named(cell.algorithm, algorithm)


def regret_table(result: StudyResult, parameter: str, caption: str, title: str) -> Table:
    """Show mean final regret with t intervals; ``title`` names the parameter in the columns."""
    found = rows(result, parameter)
    values = list(dict.fromkeys(value for cells in found.values() for value in cells))
    columns = [Column("problem"), Column("algorithm"), *(Column(f"{title} {value_text(v)}", "half") for v in values)]
    lines = [
        (*name, *(mean_interval(sample(cells[v]).final) if v in cells else None for v in values))
        for name, cells in found.items()
    ]
    return Table(caption, tuple(columns), tuple(lines))


def regret_by_horizon(studies: Iterable[StudyResult]) -> Table:
    """Show mean final regret, a row for each environment and algorithm, a column for each horizon."""
    found: dict[tuple[str, str, int], dict[int, CellResult]] = {}
    for study in studies:
        for cell in study.cells:
            others = {k: v for k, v in cell.environment_settings.items() if k != "horizon"}
            row = found.setdefault((named(cell.environment, others), cell.algorithm, cell.num_rounds), {})
            row[cell.environment_settings["horizon"]] = cell
    horizons = sorted({h for row in found.values() for h in row})
    columns = [Column("environment"), Column("algorithm"), Column("episodes", "number")]
    columns += [Column(f"H = {h}", "half") for h in horizons]
    body = [
        (*who, *(mean_interval(sample(row[h]).final) if h in row else None for h in horizons))
        for who, row in sorted(found.items(), key=lambda item: item[0][0])
    ]
    seeds = len(next(iter(next(iter(found.values())).values())).seeds)
    caption = f"Regret at each horizon: mean ± half width of the 95 % t interval over {seeds} seeds."
    return Table(caption, tuple(columns), tuple(body))


def exponent_table(found: Mapping[str, Mapping[Name, Interval | None]], caption: str) -> Table:
    """Show exponents of several ranges, by the ranges' titles; all have the same rows."""
    names: Sequence[Name] = list(dict.fromkeys(name for exponents in found.values() for name in exponents))
    lines = [(*name, *(exponents.get(name) for exponents in found.values())) for name in names]
    columns = (Column("problem"), Column("algorithm"), *(Column(title, "ends") for title in found))
    return Table(caption, columns, tuple(lines))
