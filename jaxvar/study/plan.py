"""How many seeds at a time, on which devices, and whether there is room for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxvar import engine
from jaxvar.engine import is_accelerator, widest_block
from jaxvar.study.errors import RunError

SHARE = 0.8  # of the free memory: others live here too
_COPIES = 3  # of what a chunk holds, on the host while it is written


def chosen_chunk(environment: Any, seeds: int, length: int, devices: Sequence[jax.Device]) -> int:
    """Return the seeds per shard where no memory is short."""
    return engine.chosen_chunk(environment, seeds, length, Mesh(np.array(list(devices)), ("runs",)))


def mesh_for(chunk: int, devices: Sequence[jax.Device]) -> Mesh:
    """As many of the devices as can play whole blocks of a chunk, so that its numbers do not depend on how many."""
    widest = widest_block()
    for num in range(len(devices), 0, -1):
        share = chunk // num
        if chunk % num == 0 and math.gcd(share, widest) == math.gcd(chunk, widest):
            break
    processes = {d.process_index for d in devices}
    if len(processes) > 1 and num < len(devices):
        raise RunError(
            f"chunk must be {len(devices) * widest} or a multiple of it, so that the {len(devices)} devices of "
            f"{len(processes)} processes play whole blocks, got {chunk}"
        )
    return Mesh(np.array(list(devices)[:num]), ("runs",))


def needed_memory(program: Any, num_rounds: int) -> int:
    """Bytes that a chunk needs where the memory is: all of it on a CPU, one device's share on an accelerator."""
    held = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(program.shapes))
    share = int(program.memory(num_rounds))
    return share * program.mesh.size + _COPIES * held if not is_accelerator(program.mesh) else share


def free_memory(mesh: Mesh) -> int | None:
    """Bytes that are free there; None where nobody knows."""
    if not is_accelerator(mesh):
        found = [_available(), _left_in_group()]
        return min((x for x in found if x is not None), default=None)
    stats = [d.memory_stats() or {} for d in mesh.local_devices]
    free = [s["bytes_limit"] - s["bytes_in_use"] for s in stats if "bytes_limit" in s and "bytes_in_use" in s]
    return min(free, default=None)


def fitting_chunk(chunk: int, needed: int, free: int, unit: int) -> int:
    """The largest multiple of ``unit`` that would fit where ``chunk`` needs more than there is; 0 if none."""
    return min(int(chunk * SHARE * free / needed), chunk - 1) // unit * unit


def in_words(size: float) -> str:
    """``1.5 GiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, {"bytes": "KiB", "KiB": "MiB", "MiB": "GiB", "GiB": "TiB"}[unit]
    return f"{size:.3g} {unit}"


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable:")), None)


def _left_in_group() -> int | None:
    """What the limit of a container or a batch job leaves."""
    folder = Path("/sys/fs/cgroup")
    try:
        return int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())
    except (OSError, ValueError):  # there is none, or its limit is "max"
        return None
