"""A study's result for other programs: one file of CSV, netCDF or npz."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Literal

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
    cells = blocks(result)
    with files.writing(path) as file:
        if to == "csv":
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            writer = csv.writer(text)
            shown = [b._replace(labels={name: files.csv_entry(x) for name, x in b.labels.items()}) for b in cells]
            for i, columns in enumerate(tidy.columns(shown, result.unit, "")):
                if i == 0:
                    writer.writerow(map(files.csv_entry, columns))
                values = (x if isinstance(x, list) else x.tolist() for x in columns.values())
                writer.writerows(zip(*values, strict=True))
            text.flush()
            text.detach()
        elif to == "netcdf":
            result.to_xarray().to_netcdf(file, engine="h5netcdf")
        else:
            labels = [{name: x for name, x in b.labels.items() if name != "constants"} for b in cells]
            about = {"name": result.name, "unit": result.unit, "cells": labels, "config": result.config}
            arrays: dict[str, Array] = {"study": np.array(json.dumps(about))}
            for i, b in enumerate(cells):
                parts = {"rounds": b.rounds, "seeds": b.seeds, "status": b.status, "status_round": b.status_round}
                arrays |= {f"cell_{i}.{name}": x for name, x in {**parts, **b.records}.items()}
            np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle
    return path
