"""Many settings of one algorithm or environment as one object.

``sweep(algo, delta=[0.01, 0.1], beta_scale=[0.1, 1.0])`` has the type of ``algo`` and a leading axis on every leaf,
one entry per setting of the grid, the last name varying fastest. ``simulate`` runs all of them in one compiled
program; ``jax.vmap`` maps over them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import numpy as np

from jaxvar import checks

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Grid:
    """How a swept object was made."""

    base: Any  # the object that was swept
    values: Mapping[int, np.ndarray[Any, Any]]  # leaf number -> [points, ...]
    points: tuple[Mapping[str, Any], ...]  # the values of each point, by name


def sweep(target: T, **values: Any) -> T:
    """All combinations of some leaves' values.

    Args:
      target: an algorithm or environment.
      **values: leaf name -> a list of values. A leaf of a part (``beta_scale`` of the constants, ``std`` of a noise
        schedule) is found by its own name; where two parts have the same, say ``part__name``.

    Returns:
      The same kind of object; each leaf has a leading axis of length the product of the lists' lengths.
    """
    if not values:
        raise ValueError("sweep needs at least one list of values, as in sweep(algo, delta=[0.01, 0.1])")
    if grid_of(target) is not None:
        raise ValueError("sweep takes an object that is not swept yet; name all its lists in one call")
    leaves, structure = jax.tree.flatten(target)
    where = _leaf_numbers(target)
    names = {name: _find(name, where) for name in values}
    lists = {name: _values(name, v, leaves[names[name]]) for name, v in values.items()}
    points = tuple(dict(zip(lists, combo, strict=True)) for combo in itertools.product(*lists.values()))
    columns = {
        number: np.stack([np.asarray(p[name], np.asarray(leaves[number]).dtype) for p in points])
        for name, number in names.items()
    }
    swept = [
        columns[i] if i in columns else np.broadcast_to(np.asarray(x), (len(points), *np.shape(x)))
        for i, x in enumerate(leaves)
    ]
    result = jax.tree.unflatten(structure, swept)
    object.__setattr__(result, "_grid", Grid(target, columns, points))
    return result


def grid_of(target: Any) -> Grid | None:
    """How ``target`` was swept, or None."""
    return getattr(target, "_grid", None)


def _leaf_numbers(target: Any) -> dict[str, int]:
    paths = jax.tree_util.tree_flatten_with_path(target)[0]
    return {"__".join(_step(p) for p in path): i for i, (path, _) in enumerate(paths)}


def _step(entry: Any) -> str:
    return str(getattr(entry, "name", getattr(entry, "key", getattr(entry, "idx", entry))))


def _find(name: str, where: dict[str, int]) -> int:
    matches = [path for path in where if path == name or path.endswith("__" + name)]
    exact = [path for path in matches if path == name]
    if len(exact or matches) != 1:
        known = ", ".join(sorted(where))
        problem = "is the name of several leaves" if matches else "is not a leaf"
        raise ValueError(f"{name!r} {problem}; the leaves are: {known}")
    return where[(exact or matches)[0]]


def _values(name: str, values: Any, current: Any) -> list[np.ndarray[Any, Any]]:
    shape, dtype = np.shape(current), np.asarray(current).dtype
    if checks.rank(name, values) != len(shape) + 1 or np.shape(values)[1:] != shape or len(values) == 0:
        raise ValueError(f"{name} must be a non-empty list of values of shape {list(shape)}, got {values!r}")
    checks.array(name, values, np.shape(values))
    column = np.asarray(values).astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(column, values):
        raise ValueError(f"{name} must be a list of integers, got {values!r}")
    for value in column.ravel():
        checks.parameter(name.rpartition("__")[2], value)
    return list(column)
