"""A study's result with names on its axes, as an ``xarray.Dataset``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from jaxvar.study.errors import RunError
from jaxvar.study.result import CellResult, StudyResult

Array = np.ndarray[Any, Any]


def dataset(result: StudyResult) -> Any:
    """All cells of a study in one dataset.

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
    rounds = result.cells[0].rounds
    names = sorted({name for cell in result.cells for name in cell.records})
    axes = ("cell", "seed", result.unit)
    variables: dict[str, Any] = {}
    for name in names:
        values = _stacked([_of_seeds(cell, cell.records.get(name), seeds) for cell in result.cells])
        variables[name] = ((*axes, *(f"{name}_{i}" for i in range(values.ndim - 3))), values)
    for name in ("status", "status_round"):
        variables[name] = (axes[:2], _stacked([_of_seeds(c, getattr(c, name), seeds) for c in result.cells]))
    variables["seconds"] = ("cell", np.array([cell.seconds for cell in result.cells]))
    attributes = {"name": result.name, "question": result.question, "config": json.dumps(result.config)}
    coordinates = {**_coordinates(result.cells), "seed": seeds, result.unit: rounds}
    return xarray.Dataset(variables, coordinates, attributes)


def _coordinates(cells: tuple[CellResult, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: ("cell", [getattr(cell, name) for cell in cells]) for name in ("algorithm", "environment", "constants")
    }
    rows = [settings(cell) for cell in cells]
    for name in dict.fromkeys(name for row in rows for name in row):
        found[name] = ("cell", _column([row.get(name) for row in rows]))
    return found


def settings(cell: CellResult) -> dict[str, Any]:
    """Swept values of both sides, ``algorithm.delta`` and the like."""
    both = (("algorithm", cell.algorithm_settings), ("environment", cell.environment_settings))
    return {f"{side}.{name}": value for side, swept in both for name, value in swept.items()}


def _column(values: list[Any]) -> Array:
    """Numbers, with NaN where a cell has none; else text."""
    if all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in values):
        return np.array([np.nan if v is None else v for v in values])
    return np.array(["" if v is None else v if isinstance(v, str) else json.dumps(v) for v in values])


def _of_seeds(cell: CellResult, values: Array | None, seeds: Array) -> Array | None:
    """``values [cell's seeds, ...]`` as ``[seeds, ...]``."""
    if values is None or np.array_equal(cell.seeds, seeds):
        return values
    out = np.full((len(seeds), *values.shape[1:]), np.nan)
    out[np.searchsorted(seeds, cell.seeds)] = values
    return out


def _stacked(parts: list[Array | None]) -> Array:
    """``[cells, ...]``; parts may be missing, or have fewer entries on their last axes."""
    there = [part for part in parts if part is not None]
    shape = tuple(np.max([part.shape for part in there], axis=0))
    if all(part is not None and part.shape == shape for part in parts):
        return np.stack(there)
    out = np.full((len(parts), *shape), np.nan)
    for i, part in enumerate(parts):
        if part is not None:
            out[i][tuple(slice(n) for n in part.shape)] = part
    return out
