"""A study's result for other programs: as an ``xarray.Dataset``, and as one file of CSV, netCDF or npz."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

from jaxvar import files, parameters
from jaxvar.study.values import Array, RunError

if TYPE_CHECKING:
    from jaxvar.study.result import CellResult, StudyResult

Format = Literal["csv", "netcdf", "npz"]
_ENDINGS = {"csv": "csv", "netcdf": "nc", "npz": "npz"}


def export(result: StudyResult, to: Format, path: str | Path | None = None) -> Path:
    """Write a study's result to one file, whole or not at all.

    Args:
      result: from :func:`jaxvar.load`.
      to: ``csv`` is tidy, one row for each cell, seed and recorded round, with the records that are one number.
        ``netcdf`` is :func:`jaxvar.study.export.to_xarray`. ``npz`` has an array ``cell_0.regret`` for each cell and
        record, and the text ``study``: JSON that says which cell is which.
      path: the file; if not given, the study's name in the current folder.
    """
    parameters.check_choice("to", to, tuple(_ENDINGS))
    path = Path(path) if path is not None else Path(f"{result.name}.{_ENDINGS[to]}")
    with files.writing(path) as file:
        if to == "csv":
            _write_csv(result, file)
        elif to == "netcdf":
            to_xarray(result).to_netcdf(file, engine="h5netcdf")
        else:
            _write_npz(result, file)
    return path


def _write_csv(result: StudyResult, file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    names = sorted({n for cell in result.cells for n, x in cell.records.items() if x.ndim == 2})
    swept = list(dict.fromkeys(name for cell in result.cells for name in _settings(cell)))
    writer = csv.writer(text)
    writer.writerow(["algorithm", "environment", "constants", *swept, "seed", result.unit, *names, "status"])
    for cell in result.cells:
        own = _settings(cell)
        head = [cell.algorithm, cell.environment, cell.constants, *(own.get(name, "") for name in swept)]
        rounds = cell.rounds.tolist()
        for i, seed in enumerate(cell.seeds.tolist()):
            readings = [cell.records[name][i].tolist() if name in cell.records else None for name in names]
            status = int(cell.status[i])
            for j, round in enumerate(rounds):
                writer.writerow([*head, seed, round, *("" if r is None else r[j] for r in readings), status])
    text.flush()
    text.detach()


def _write_npz(result: StudyResult, file: IO[bytes]) -> None:
    arrays: dict[str, Array] = {}
    cells = []
    for i, cell in enumerate(result.cells):
        cells.append({"algorithm": cell.algorithm, "environment": cell.environment, **_settings(cell)})
        parts = {"rounds": cell.rounds, "seeds": cell.seeds, "status": cell.status, "status_round": cell.status_round}
        arrays |= {f"cell_{i}.{name}": x for name, x in {**parts, **cell.records}.items()}
    about = {"name": result.name, "unit": result.unit, "cells": cells, "config": result.config}
    arrays = {"study": np.array(json.dumps(about)), **arrays}
    np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle


def to_xarray(result: StudyResult) -> Any:
    """Return all cells of a study as one ``xarray.Dataset``.

    Records have dimensions ``cell``, ``seed``, ``round`` (or ``episode``), and one more where a reading is an array.
    Labels, constants and settings are coordinates of ``cell``, settings under the names ``algorithm.delta``,
    ``environment.noise.std``. What a cell does not have (another cell's record, a layer that it did not store, a seed
    that is missing) is NaN, and such a record is in float64.
    """
    try:
        import xarray
    except ImportError:
        raise RunError("xarray is needed for this: pip install 'jaxvar[xarray]'") from None
    if not result.cells:
        raise RunError("there are no results yet")
    seeds = np.unique(np.concatenate([cell.seeds for cell in result.cells]))
    axes = ("cell", "seed", result.unit)
    variables: dict[str, object] = {}
    for name in sorted({name for cell in result.cells for name in cell.records}):
        values = _stacked([_of_seeds(cell, cell.records.get(name), seeds) for cell in result.cells])
        variables[name] = ((*axes, *(f"{name}_{i}" for i in range(values.ndim - 3))), values)
    for name in ("status", "status_round"):
        variables[name] = (axes[:2], _stacked([_of_seeds(c, getattr(c, name), seeds) for c in result.cells]))
    variables["seconds"] = ("cell", np.array([cell.seconds for cell in result.cells]))
    coordinates: dict[str, object] = {
        name: ("cell", [getattr(cell, name) for cell in result.cells])
        for name in ("algorithm", "environment", "constants")
    }
    rows = [_settings(cell) for cell in result.cells]
    for name in dict.fromkeys(name for row in rows for name in row):
        coordinates[name] = ("cell", _column([row.get(name) for row in rows]))
    coordinates |= {"seed": seeds, result.unit: result.cells[0].rounds}
    attributes = {"name": result.name, "question": result.question, "config": json.dumps(result.config)}
    return xarray.Dataset(variables, coordinates, attributes)


def _settings(cell: CellResult) -> dict[str, object]:
    """Return the swept values of both sides, by names such as ``algorithm.delta``."""
    both = (("algorithm", cell.algorithm_settings), ("environment", cell.environment_settings))
    return {f"{side}.{name}": value for side, swept in both for name, value in swept.items()}


def _column(values: list[object]) -> Array:
    """Return numbers, with NaN where a cell has none; else text."""
    if all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in values):
        return np.array([np.nan if v is None else v for v in values])
    return np.array(["" if v is None else v if isinstance(v, str) else json.dumps(v) for v in values])


def _of_seeds(cell: CellResult, values: Array | None, seeds: Array) -> Array | None:
    """Return ``values [cell's seeds, ...]`` as ``[seeds, ...]``."""
    if values is None or np.array_equal(cell.seeds, seeds):
        return values
    out = np.full((len(seeds), *values.shape[1:]), np.nan)
    out[np.searchsorted(seeds, cell.seeds)] = values
    return out


def _stacked(parts: list[Array | None]) -> Array:
    """Return the parts as ``[cells, ...]``; parts may be missing, or have fewer entries on their last axes."""
    there = [part for part in parts if part is not None]
    shape = tuple(np.max([part.shape for part in there], axis=0))
    if all(part is not None and part.shape == shape for part in parts):
        return np.stack(there)
    out = np.full((len(parts), *shape), np.nan)
    for i, part in enumerate(parts):
        if part is not None:
            out[i][tuple(slice(n) for n in part.shape)] = part
    return out
