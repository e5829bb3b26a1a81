"""The shards of a study: what is right about one, and which are there."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxvar.study import store
from jaxvar.study.manifest import Manifest, StoredCell, shard_path

Array = np.ndarray[Any, Any]


class Shard(NamedTuple):
    """A chunk of a cell's seeds."""

    arrays: dict[str, Array]  # seeds, rounds, status, status_round, and every record [chunk, records, ...]
    sha256: str


class Shorter(store.Damaged):
    """A right shard of fewer rounds than the study has by now."""


def identity(cell: StoredCell, first: int) -> dict[str, Any]:
    """Whose numbers they are."""
    return {"cell": cell.hash, "first": first, "last": first + cell.chunk - 1}


def read_shard(folder: Path, manifest: Manifest, cell: StoredCell, first: int) -> Shard:
    """A shard that was found right; raises ``FileNotFoundError``, :class:`Shorter` or :class:`store.Damaged`."""
    data = store.read(shard_path(folder, cell, first))
    found, arrays = store.decode(data)
    wanted = {**identity(cell, first), "kind": "shard"}
    if {name: found.get(name) for name in wanted} != wanted:
        raise store.Damaged("it belongs to another study, or to other seeds")
    num_rounds = found.get("num_rounds")
    if isinstance(num_rounds, int) and num_rounds < manifest.num_rounds:
        raise Shorter(f"it holds {num_rounds} of {manifest.num_rounds} rounds")
    rounds, num = np.asarray(manifest.rounds), len(manifest.rounds)
    seeds = np.arange(first, first + cell.chunk)
    for name, values in (("rounds", rounds), ("seeds", seeds)):
        if name not in arrays or not np.array_equal(arrays[name], values):
            raise store.Damaged(f"it holds other {name} than the study has")
    for name in ("status", "status_round"):
        if name not in arrays or arrays[name].shape != (cell.chunk,) or arrays[name].dtype != np.int32:
            raise store.Damaged(f"it has no {name} of its seeds")
    for name in records_of(arrays):
        if arrays[name].shape[:2] != (cell.chunk, num):
            raise store.Damaged(f"{name} has shape {list(arrays[name].shape)}, not [{cell.chunk}, {num}, ...]")
    if num_rounds != manifest.num_rounds or "regret" not in arrays:
        raise store.Damaged("it holds other rounds or records than the study has")
    return Shard(arrays, hashlib.sha256(data).hexdigest())


def records_of(arrays: dict[str, Array]) -> list[str]:
    """Names of the records among a shard's arrays."""
    return sorted(set(arrays) - {"seeds", "rounds", "status", "status_round"})


def mine(cell_number: int, chunk_number: int, shard: tuple[int, int]) -> bool:
    """Whether a chunk is played by run ``i`` of ``n``, counted from 1: they are dealt in turn, as cards are."""
    number, total = shard
    return (cell_number + chunk_number) % total == number - 1
