"""Regret at several horizons, as a table."""

from __future__ import annotations

from collections.abc import Iterable

from jaxvar.analysis import mean_interval, sample
from jaxvar.analysis.captions import named
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table


def regret_by_horizon(studies: Iterable[StudyResult]) -> Table:
    """Mean final regret, a row for each environment and algorithm, a column for each horizon."""
    rows: dict[tuple[str, str, int], dict[int, CellResult]] = {}
    for study in studies:
        for cell in study.cells:
            others = {k: v for k, v in cell.environment_settings.items() if k != "horizon"}
            row = rows.setdefault((named(cell.environment, others), cell.algorithm, cell.num_rounds), {})
            row[cell.environment_settings["horizon"]] = cell
    horizons = sorted({h for row in rows.values() for h in row})
    columns = [Column("environment"), Column("algorithm"), Column("episodes", "number")]
    columns += [Column(f"H = {h}", "half") for h in horizons]
    body = [
        (*who, *(mean_interval(sample(row[h]).final) if h in row else None for h in horizons))
        for who, row in sorted(rows.items(), key=lambda item: item[0][0])
    ]
    seeds = len(next(iter(next(iter(rows.values())).values())).seeds)
    caption = f"Regret at each horizon: mean ± half width of the 95 % t interval over {seeds} seeds."
    return Table(caption, tuple(columns), tuple(body))
