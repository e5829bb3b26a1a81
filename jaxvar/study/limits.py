"""The size of a study, by shapes alone, before anything is compiled or written."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh

from jaxvar import engine, memory
from jaxvar.study.definition import Study
from jaxvar.study.factories import StudyError, error_at

_MANY_BYTES = 2**27  # of records: a smaller study is not looked at closely


def check_sizes(study: Study, folder: Path, devices: Sequence[jax.Device]) -> None:
    """Refuse a study of which a seed does not fit into memory, or whose records fit neither into it nor on the disk."""
    mesh = Mesh(np.array(devices), ("runs",))
    free, num_records = memory.free_memory(mesh), len(study.recorded)
    per_seed = [8 * num_records * len(cell.record) for cell in study.cells]  # bytes of records, at least
    is_large = study.seeds * sum(per_seed) > _MANY_BYTES
    calls = 0
    for i, cell in enumerate(study.cells):
        if is_large or not (memory.is_small(cell.algorithm) and memory.is_small(cell.environment)):
            with error_at(what=cell.title):
                size = memory.held(cell.algorithm, cell.environment, cell.recorders, 1, free)
            per_seed[i] = num_records * size.record
        chunk = study.chunk or engine.chosen_chunk(cell.environment, study.seeds, study.length, mesh)
        calls += -(-study.seeds // chunk)
    kept = study.seeds * sum(per_seed)
    what = f"the records of {study.seeds:,} seeds of {len(study.cells):,} cells at {num_records:,} {study.unit}s need"
    remedy = "record fewer rounds (records), or run fewer seeds"
    with error_at():
        memory.check_calls(calls, study.seeds * len(study.cells), "seeds", "shards")
        memory.refuse_above(memory.free_memory(), kept, what, remedy)
    place = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    left = shutil.disk_usage(place).free
    if kept > left and not (folder / "run.json").exists():
        sizes = memory.human_bytes(kept), memory.human_bytes(left)
        raise StudyError(f"{what} {sizes[0]} on the disk, and {sizes[1]} are free at {place}; {remedy}")
