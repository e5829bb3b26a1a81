"""A study's result for other programs: CSV, netCDF or one npz."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from jaxvar import files, parameters
from jaxvar.study.labelled import dataset, settings
from jaxvar.study.result import StudyResult

Format = Literal["csv", "netcdf", "npz"]
_ENDINGS = {"csv": "csv", "netcdf": "nc", "npz": "npz"}


def export(result: StudyResult, to: Format, path: str | Path | None = None) -> Path:
    """Write a study's result to one file, whole or not at all.

    Args:
      result: from :func:`jaxvar.load`.
      to: ``csv`` is tidy, one row for each cell, seed and recorded round, with the records that are one number.
        ``netcdf`` is :func:`jaxvar.study.labelled.dataset`. ``npz`` has an array ``cell_0.regret`` for each cell and
        record, and the text ``study``: JSON that says which cell is which.
      path: the file; if not given, the study's name in the current folder.
    """
    parameters.check_choice("to", to, tuple(_ENDINGS))
    path = Path(path) if path is not None else Path(f"{result.name}.{_ENDINGS[to]}")
    with files.writing(path) as file:
        {"csv": _csv, "netcdf": _netcdf, "npz": _npz}[to](result, file)
    return path


def _csv(result: StudyResult, file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    names = sorted({n for cell in result.cells for n, x in cell.records.items() if x.ndim == 2})
    swept = list(dict.fromkeys(name for cell in result.cells for name in settings(cell)))
    writer = csv.writer(text)
    writer.writerow(["algorithm", "environment", "constants", *swept, "seed", result.unit, *names, "status"])
    writer.writerows(_rows(result, names, swept))
    text.flush()
    text.detach()


def _rows(result: StudyResult, names: list[str], swept: list[str]) -> Iterator[list[Any]]:
    for cell in result.cells:
        own = settings(cell)
        head = [cell.algorithm, cell.environment, cell.constants, *(own.get(name, "") for name in swept)]
        rounds = cell.rounds.tolist()
        for i, seed in enumerate(cell.seeds.tolist()):
            readings = [cell.records[name][i].tolist() if name in cell.records else None for name in names]
            status = int(cell.status[i])
            for j, round in enumerate(rounds):
                yield [*head, seed, round, *("" if r is None else r[j] for r in readings), status]


def _netcdf(result: StudyResult, file: IO[bytes]) -> None:
    dataset(result).to_netcdf(file, engine="h5netcdf")


def _npz(result: StudyResult, file: IO[bytes]) -> None:
    arrays: dict[str, Any] = {}
    cells = []
    for i, cell in enumerate(result.cells):
        cells.append({"algorithm": cell.algorithm, "environment": cell.environment, **settings(cell)})
        parts = {"rounds": cell.rounds, "seeds": cell.seeds, "status": cell.status, "status_round": cell.status_round}
        arrays |= {f"cell_{i}.{name}": x for name, x in {**parts, **cell.records}.items()}
    about = {"name": result.name, "unit": result.unit, "cells": cells, "config": result.config}
    np.savez(file, study=np.array(json.dumps(about)), **arrays)
