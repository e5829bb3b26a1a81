"""A study's result for other programs: one file of CSV, netCDF or npz."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import IO, Literal

import numpy as np

from jaxvar import files, parameters, tidy
from jaxvar.parameters import Array
from jaxvar.study.definition import check_study_name
from jaxvar.study.result import StudyResult, blocks

Format = Literal["csv", "netcdf", "npz"]
_ENDINGS = {"csv": "csv", "netcdf": "nc", "npz": "npz"}


def export(result: StudyResult, to: Format, path: str | Path | None = None) -> Path:
    """Write a study's result to one file, whole or not at all.

    Args:
      result: from :func:`jaxvar.load`.
      to: ``csv`` is tidy, one row for each cell, seed and recorded round, with the records that are one number;
        a label that a spreadsheet would run as a formula has an apostrophe before it.
        ``netcdf`` is :meth:`jaxvar.StudyResult.to_xarray`. ``npz`` has an array ``cell_0.regret`` for each cell and
        record, and the text ``study``: JSON that says which cell is which.
      path: the file; if not given, the study's name in the current folder.
    """
    parameters.check_choice("to", to, tuple(_ENDINGS))
    path = Path(path) if path is not None else Path(f"{check_study_name(result.name)}.{_ENDINGS[to]}")
    with files.writing(path) as file:
        if to == "csv":
            _write_csv(result, file)
        elif to == "netcdf":
            result.to_xarray().to_netcdf(file, engine="h5netcdf")
        else:
            _write_npz(result, file)
    return path


def _write_csv(result: StudyResult, file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    cells = [
        cell._replace(labels={name: files.csv_entry(label) for name, label in cell.labels.items()})
        for cell in blocks(result)
    ]
    for i, columns in enumerate(tidy.columns(cells, result.unit, "")):
        if i == 0:
            writer.writerow(map(files.csv_entry, columns))
        writer.writerows(zip(*(x if isinstance(x, list) else x.tolist() for x in columns.values()), strict=True))
    text.flush()
    text.detach()


def _write_npz(result: StudyResult, file: IO[bytes]) -> None:
    arrays: dict[str, Array] = {}
    cells = []
    for i, cell in enumerate(blocks(result)):
        cells.append({name: label for name, label in cell.labels.items() if name != "constants"})
        parts = {"rounds": cell.rounds, "seeds": cell.seeds, "status": cell.status, "status_round": cell.status_round}
        arrays |= {f"cell_{i}.{name}": x for name, x in {**parts, **cell.records}.items()}
    about = {"name": result.name, "unit": result.unit, "cells": cells, "config": result.config}
    arrays = {"study": np.array(json.dumps(about)), **arrays}
    np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle
