"""One shard: a chunk of a cell's seeds from where it stands to its last round."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxvar.engine import Program, RunState, needs_capacity
from jaxvar.engine import grown as grown_algorithm
from jaxvar.study import store
from jaxvar.study.company import Company
from jaxvar.study.pace import Pace

Array = np.ndarray[Any, Any]


class Stopped(Exception):
    """The user asked for an end; all that was played is on disk."""


@dataclasses.dataclass(frozen=True)
class Task:
    """What is to be played, and where it is kept."""

    program: Program  # with as few layers as the cell has
    seeds: Array  # [chunk]
    num_rounds: int
    shard: Path
    checkpoint: Path
    timing: Path
    identity: dict[str, Any]  # of the cell and the seeds
    keep: bool  # whether what the seeds hold at the end is kept: more rounds would go on from there


class Standing(NamedTuple):
    """How far a chunk has come."""

    capacity: int  # layers stored; 0 where the algorithm has no such number
    round: int  # the last one played
    held: RunState | None  # NumPy arrays, or on devices


class Watch(NamedTuple):
    """What goes on around the playing."""

    company: Company
    pace: Pace
    advanced: Callable[[int], None]  # told of rounds played, fewer than none where they are played again
    save_due: Callable[[], bool]  # whether it is time for a checkpoint
    stop_asked: Callable[[], bool]


def play(task: Task, watch: Watch) -> str:
    """Play to the last round and write the shard; returns its SHA-256.

    Where the algorithm asks for more layers than are stored, the chunk is played again from its start with more: what
    is stored in the end does not depend on when that was noticed, nor on any interruption.
    """
    standing = _resumed(task, watch.company)
    watch.advanced(standing.round)
    clock = _Clock(task.timing, standing.round > 0)
    while True:
        program = grown(task.program, standing.capacity)
        standing, is_enough = _play_on(task, program, standing, watch, clock)
        if is_enough:
            break
        watch.advanced(-standing.round)
        standing = Standing(_capacity(grown_algorithm(program.algorithm)), 0, None)
    standing = standing._replace(held=watch.company.fetched(standing.held))
    identity = {**task.identity, "kind": "shard", "num_rounds": task.num_rounds, "capacity": standing.capacity}
    data = store.encode(identity, _readings(task, standing.held))

    def finish() -> None:
        if task.keep:
            _save(task, standing, clock)
        else:
            clock.write()
        store.make_folder(task.shard.parent)
        store.write(task.shard, data)
        if not task.keep:
            task.checkpoint.unlink(missing_ok=True)

    watch.company.writes(finish)
    return hashlib.sha256(data).hexdigest()


def _play_on(task: Task, program: Program, standing: Standing, watch: Watch, clock: _Clock) -> tuple[Standing, bool]:
    """Play until the last round, or until more layers are needed: then the second is false.

    Raises :class:`Stopped` when a stop was asked for, and a checkpoint written.
    """
    company = watch.company
    while standing.round < task.num_rounds:
        num = company.agreed_number(watch.pace.next(task.num_rounds - standing.round))
        program.compile(num)
        ids = np.stack([np.zeros_like(task.seeds), np.zeros_like(task.seeds), task.seeds]).astype(np.int32)
        start = time.perf_counter()
        held = jax.block_until_ready(program.advance(standing.held, ids, standing.round + 1, num))
        watch.pace.took(num, clock.add(time.perf_counter() - start))
        watch.advanced(num)
        standing = Standing(_capacity(program.algorithm), standing.round + num, held)
        if needs_capacity(company.fetched(held.carry.status), program.algorithm):
            return standing, False
        stop = company.agreed_number(watch.stop_asked())
        if stop or company.agreed_number(watch.save_due()):
            host = standing._replace(held=company.fetched(held))
            company.writes(functools.partial(_save, task, host, clock))
        if stop:
            raise Stopped
    return standing, True


class _Clock:
    """Seconds spent playing a chunk, kept apart from its numbers, which must not depend on them."""

    def __init__(self, path: Path, is_resumed: bool) -> None:
        self._path = path
        self.seconds = read_seconds(path) if is_resumed else 0.0

    def add(self, seconds: float) -> float:
        """Some more seconds; returns them."""
        self.seconds += seconds
        return seconds

    def write(self) -> None:
        """Before what was played in that time is written, so that no shard is without."""
        store.make_folder(self._path.parent)
        store.write(self._path, json.dumps({"seconds": round(self.seconds, 6)}).encode() + b"\n")


def read_seconds(path: Path) -> float:
    """What a :class:`_Clock` wrote; 0 where nothing can be read."""
    try:
        seconds = json.loads(store.read(path, 1000))["seconds"]
    except (FileNotFoundError, store.Damaged, ValueError, TypeError, KeyError):
        return 0.0
    return float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e12 else 0.0


def grown(program: Program, capacity: int) -> Program:
    """Return the program with as many layers as ``capacity`` says, or as many as there are."""
    if _capacity(program.algorithm) >= capacity:
        return program
    return program.grown(capacity) or program


def _capacity(algorithm: Any) -> int:
    return int(getattr(algorithm, "capacity", 0))


def _readings(task: Task, held: Any) -> dict[str, Array]:
    num = len(task.program.rounds)
    records = {name: np.asarray(x)[:, :num] for name, x in sorted(held.store.items())}
    ending = {"status": np.asarray(held.carry.status), "status_round": np.asarray(held.carry.status_round)}
    return {"seeds": task.seeds.astype(np.int64), "rounds": task.program.rounds, **ending, **records}


def _save(task: Task, standing: Standing, clock: _Clock) -> None:
    """Write a checkpoint."""
    clock.write()
    assert standing.held is not None
    num = len(task.program.rounds)
    carry = {f"carry.{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(standing.held.carry))}
    readings = {f"store.{name}": np.asarray(x)[:, :num] for name, x in sorted(standing.held.store.items())}
    identity = {**_checkpoint_identity(task), "capacity": standing.capacity, "round": standing.round}
    store.make_folder(task.checkpoint.parent)
    store.write(task.checkpoint, store.encode(identity, {"rounds": task.program.rounds, **carry, **readings}))


def _checkpoint_identity(task: Task) -> dict[str, Any]:
    from jaxvar import __version__

    return {**task.identity, "kind": "checkpoint", "jaxvar": __version__}  # another version may hold other things


def _resumed(task: Task, company: Company) -> Standing:
    """Where the checkpoint says the chunk stands; before round 1 where there is none that fits."""
    nothing = Standing(_capacity(task.program.algorithm), 0, None)
    found = (_read_checkpoint(task) if company.is_writer else None) or nothing
    if not company.is_many:
        return found
    capacity, round = (company.agreed_number(x) for x in (found.capacity, found.round))
    if round == 0:
        return nothing
    empty = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), grown(task.program, capacity).shapes)
    return Standing(capacity, round, company.agreed(found.held if company.is_writer else empty))


def _read_checkpoint(task: Task) -> Standing | None:
    try:
        identity, arrays = store.decode(store.read(task.checkpoint))
    except (FileNotFoundError, store.Damaged):
        return None  # the shard is played from its start
    wanted = _checkpoint_identity(task)
    capacity, round = identity.get("capacity"), identity.get("round")
    if {k: identity.get(k) for k in wanted} != wanted or not isinstance(capacity, int) or not isinstance(round, int):
        return None
    program = grown(task.program, capacity)
    if _capacity(program.algorithm) != capacity or not 0 < round <= task.num_rounds:
        return None
    held = _held(program, arrays, round)
    return None if held is None else Standing(capacity, round, held)


def _held(program: Program, arrays: dict[str, Array], round: int) -> RunState | None:
    """What a checkpoint holds, in the shape of ``program``; None where it does not fit or lacks a reading.

    The rounds recorded may have changed since, as they do where a study gets longer: it is enough that those up to
    ``round`` are among the ones that were recorded.
    """
    leaves, structure = jax.tree.flatten(program.shapes.carry)
    carry = [arrays.get(f"carry.{i}") for i in range(len(leaves))]
    past = program.rounds[program.rounds <= round]
    before = arrays.get("rounds")
    if before is None or not np.all(np.isin(past, before)) or not all(map(_fits, carry, leaves)):
        return None
    where = np.searchsorted(before, past)
    readings: dict[str, Any] = {}
    for name, shape in program.shapes.store.items():
        found = arrays.get(f"store.{name}")
        if (
            found is None
            or found.dtype != shape.dtype
            or found.shape != (shape.shape[0], len(before), *shape.shape[2:])
        ):
            return None
        readings[name] = np.zeros(shape.shape, shape.dtype)
        readings[name][:, : len(past)] = found[:, where]
    return RunState(jax.tree.unflatten(structure, carry), readings)


def _fits(array: Array | None, shape: Any) -> bool:
    return array is not None and array.shape == shape.shape and array.dtype == shape.dtype
