"""Sizes before anything is allocated: what runs will hold, by shapes alone, against the memory that is free.

JAX finds the shapes of a problem, of a decision set, of an algorithm's state and of what is recorded without any
number in them (``jax.eval_shape``). The problem comes first: tracing an algorithm may write down constants of its size.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from chex import ArrayTree
from jax.sharding import Mesh

from jaxvar import game, random
from jaxvar.algorithms.interface import Algorithm, EpisodicAlgorithm
from jaxvar.blocks import over_seeds
from jaxvar.engine import as_pytree, game_of, is_accelerator, unwrap
from jaxvar.environments.interface import Environment, EpisodicEnvironment
from jaxvar.records import Recorder

_SMALL = 128  # a size up to which no table of a factory is worth an estimate
_MANY_RECORDS = 2**24  # numbers
MAX_CALLS = 100_000  # calls of a program, and shards of a study
_STATUS_BYTES = 24  # of a seed: its number, status and status_round, and a copy
SHARE = 0.8  # of the free memory that may be taken: other processes need some too


class Held(NamedTuple):
    """Sizes in bytes."""

    playing: int  # what is held of the seeds that are played side by side
    record: int  # one recorded round of one seed


def check(
    algorithm: Algorithm | EpisodicAlgorithm,
    environment: Environment | EpisodicEnvironment,
    recorders: tuple[Recorder, ...],
    *,
    side_by_side: int,
    num_seeds: int,
    num_records: int,
    mesh: Mesh | None = None,
) -> bool:
    """Refuse runs that do not fit into the memory: those side by side while they play, and the records of all.

    Returns:
      Whether they are so large that the compiled program should be asked as well.
    """
    if is_small(algorithm) and is_small(environment) and num_seeds * num_records * len(recorders) < _MANY_RECORDS:
        return False
    free = free_memory(mesh)
    size = held(algorithm, environment, recorders, side_by_side, free)
    what = f"the records of {num_seeds:,} seeds at {num_records:,} rounds need"
    kept = num_seeds * (num_records * size.record + _STATUS_BYTES)
    refuse_above(
        free_memory(), kept, what, "record fewer rounds (record_at), or fewer seeds at a time (first_seed, chunk)"
    )
    return free is not None and size.playing > free / 16


def check_calls(num_calls: int, num_runs: int, unit: str = "runs", calls: str = "calls of the program") -> None:
    """Refuse runs that are cut into too many chunks."""
    if num_calls > MAX_CALLS:
        raise ValueError(
            f"chunk must be at least {-(-num_runs // MAX_CALLS):,} for {num_runs:,} {unit}: they would take "
            f"{num_calls:,} {calls}, and at most {MAX_CALLS:,} are allowed; choose a larger chunk or fewer seeds"
        )


def is_small(target: object) -> bool:
    """Return whether no table that an object declares can be large: all its sizes are small, and so are its arrays."""
    if isinstance(target, bool | str | float | type | None):
        return True
    if isinstance(target, int):
        return target <= _SMALL
    if isinstance(target, jax.Array | np.ndarray | np.generic):
        return target.size <= _SMALL**2
    if not dataclasses.is_dataclass(target):  # nobody knows
        return False
    return all(is_small(target.__dict__.get(field.name)) for field in dataclasses.fields(target))


def held(
    algorithm: Algorithm | EpisodicAlgorithm,
    environment: Environment | EpisodicEnvironment,
    recorders: tuple[Recorder, ...],
    num_seeds: int = 1,
    free: int | None = None,
) -> Held:
    """Return what ``num_seeds`` seeds side by side hold at least; refuse it where that does not fit into ``free``."""
    problem = check_problem(environment, num_seeds, free)
    parts = (as_pytree(algorithm), as_pytree(environment), tuple(as_pytree(r) for r in recorders))
    facts, state, readings = _state.eval_shape((type(algorithm), type(environment)), *parts)
    sizes = {name: num_seeds * num_bytes(x) for name, x in state.items()}
    sizes |= problem | {name: num_bytes(x) for name, x in facts.items()}
    _refuse(sizes, num_seeds, free)
    return Held(sum(sizes.values()), num_bytes(readings))


def check_problem(
    environment: Environment | EpisodicEnvironment, num_seeds: int = 1, free: int | None = None
) -> dict[str, int]:
    """Return the bytes of each array of the problems of some seeds; refuse them where they do not fit into ``free``."""
    shapes = _problem.eval_shape(type(environment), num_seeds, as_pytree(environment))
    sizes = {name: num_bytes(x) for name, x in shapes.items()}
    _refuse(sizes, num_seeds, free)
    return sizes


def refuse_above(free: int | None, needed: int, what: str, remedy: str) -> None:
    """Refuse what needs more bytes than may be taken of ``free``; ``what`` has verb and object."""
    if free is not None and needed > SHARE * free:
        raise ValueError(
            f"{what} {human_bytes(needed)} of memory, and the limit is {human_bytes(SHARE * free)}, "
            f"{SHARE:.0%} of what is free; {remedy}"
        )


def num_bytes(tree: ArrayTree) -> int:
    """Return the bytes of all arrays of a tree, which may be shapes only."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(tree))


def human_bytes(size: float) -> str:
    """Return a number of bytes as text, ``1.5 GiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


def free_memory(mesh: Mesh | None = None) -> int | None:
    """Return the bytes that are free where the devices keep their arrays (else on the host); None if nobody knows."""
    found: list[int] = []
    if mesh is not None and is_accelerator(mesh):
        stats = [d.memory_stats() or {} for d in mesh.local_devices]
        found = [s["bytes_limit"] - s["bytes_in_use"] for s in stats if "bytes_limit" in s and "bytes_in_use" in s]
        return min(found, default=None)
    with contextlib.suppress(OSError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable:")]
    with contextlib.suppress(OSError, ValueError):  # there is no limit, or it is "max"
        limit, used = (Path("/sys/fs/cgroup", name).read_text() for name in ("memory.max", "memory.current"))
        found.append(int(limit) - int(used))
    return min(found, default=None)


def _refuse(sizes: Mapping[str, int], num_seeds: int, free: int | None) -> None:
    """Refuse arrays of these sizes, by name, where all of them together do not fit."""
    name = max(sizes, key=lambda name: sizes[name], default="")
    if name:
        what = f"{num_seeds} seeds side by side need" if num_seeds > 1 else "one seed needs"
        remedy = f"{name} alone has {human_bytes(sizes[name])}: choose smaller sizes"
        remedy += ", or play fewer seeds at once (chunk)" if num_seeds > 1 else ""
        refuse_above(free, sum(sizes.values()), what, remedy)


def _named(tree: ArrayTree) -> dict[str, jax.Array]:
    """Return the arrays of a tree by their paths, each once, random keys left out."""
    found: dict[int, tuple[str, jax.Array]] = {}
    for path, x in jax.tree_util.tree_leaves_with_path(tree):
        if isinstance(x, jax.Array) and not jnp.issubdtype(x.dtype, jax.dtypes.extended):
            found[id(x)] = (jax.tree_util.keystr(path, simple=True, separator="."), x)
    return dict(found.values())


@functools.partial(jax.jit, static_argnums=(0, 1))
def _problem(kind: type, num_seeds: int, environment: ArrayTree) -> dict[str, jax.Array]:
    """Return the arrays of the problems of some seeds and of their first decision sets, by name.

    What is the same for all seeds, such as a given model, is there once.
    """
    environment = unwrap(environment)

    def begin(keys: jax.Array) -> dict[str, jax.Array]:
        instance = environment.init(random.of_words(keys[0]))
        if game.is_episodic(environment):
            return _named({"problem": instance})
        key = random.of_words(keys[1])
        return _named({"problem": instance, "observation": environment.observe(instance, jnp.int32(1), key)})

    keys = game.seed_keys(np.zeros(2, np.uint32), np.arange(num_seeds))
    return over_seeds(begin, (num_seeds,), (keys,), (True,))[0]


@functools.partial(jax.jit, static_argnums=0)
def _state(
    kinds: tuple[type, type], algorithm: ArrayTree, environment: ArrayTree, recorders: tuple[ArrayTree, ...]
) -> tuple[dict[str, jax.Array], dict[str, jax.Array], dict[str, jax.Array]]:
    """Return the arrays of one seed: facts of its problem, what it carries from round to round, and readings."""
    algorithm, environment = unwrap(algorithm), unwrap(environment)
    own = tuple(unwrap(r) for r in recorders)
    keys = game.seed_keys(np.zeros(2, np.uint32), np.int32(0))
    fixed, carry = game_of(environment).begin(algorithm, environment, keys, own)
    return (
        _named({"facts": fixed.facts}),
        _named({"state": carry.state, "memory": carry.memories}),
        game.read(own, carry),
    )
