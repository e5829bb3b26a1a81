"""Shards: chunks of a cell's seeds, played from where they stand to the last round, stored and read.

The rounds are played in stretches, one call of a compiled program each. Checkpoints are written between stretches.
Neither the lengths of the stretches nor any interruption changes a number.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from jaxvar import __version__, engine, files
from jaxvar.engine import Program, RunState, is_accelerator, needs_capacity, widest_block
from jaxvar.files import Damaged
from jaxvar.parameters import Array
from jaxvar.study.factories import RunError
from jaxvar.study.store import Manifest, Part, StoredCell, read_seconds, write_seconds

T = TypeVar("T")
_STRETCH_SECONDS = 1.0  # per call of a program: how long Ctrl-C may have to wait
_FIRST_STRETCH = 2**18  # seed-rounds of the first call, whose speed is not known yet
_MAX_SPEEDUP = 8  # a stretch is at most this many times as long as the one before
_ACCELERATOR_STRETCH = 4096  # rounds per call, at most
_LAYERED = {"layer_rounds", "confidence"}  # records that have a number for each layer
_MOST_LAYERS = 1024  # of a shard that is read; no algorithm of this package has more than 200


class Shard(NamedTuple):
    """The stored readings of a chunk of a cell's seeds."""

    arrays: dict[str, Array]  # seeds, rounds, status, status_round, and every record [chunk, records, ...]
    sha256: str


class Shorter(Damaged):
    """A right shard of fewer rounds than the study has by now."""


def identity(cell: StoredCell, first: int) -> dict[str, object]:
    """Return what identifies the chunk of a cell's seeds from ``first``."""
    return {"cell": cell.hash, "first": first, "last": first + cell.chunk - 1}


def read_shard(folder: Path, manifest: Manifest, cell: StoredCell, first: int) -> Shard:
    """Read and check a shard; raises ``FileNotFoundError``, :class:`Shorter` or :class:`~jaxvar.files.Damaged`."""
    path = cell.path(folder, "shards", first)
    data = files.read(path, _most_bytes(manifest, cell))
    found, arrays = files.decode_arrays(data)
    sha256 = hashlib.sha256(data).hexdigest()
    if manifest.shards.get(str(path.relative_to(folder)), sha256) != sha256:  # a run that was killed did not list it
        raise Damaged("its checksum is not the one that run.json has")
    wanted = {**identity(cell, first), "kind": "shard"}
    if {name: found.get(name) for name in wanted} != wanted:
        raise Damaged("it belongs to another study, or to other seeds")
    num_rounds = found.get("num_rounds")
    if isinstance(num_rounds, int) and num_rounds < manifest.num_rounds:
        raise Shorter(f"it holds {num_rounds} of {manifest.num_rounds} rounds")
    rounds, num = np.asarray(manifest.rounds), len(manifest.rounds)
    seeds = np.arange(first, first + cell.chunk)
    for name, values in (("rounds", rounds), ("seeds", seeds)):
        if name not in arrays or not np.array_equal(arrays[name], values):
            raise Damaged(f"it holds other {name} than the study has")
    for name in ("status", "status_round"):
        if name not in arrays or arrays[name].shape != (cell.chunk,) or arrays[name].dtype != np.int32:
            raise Damaged(f"it has no {name} of its seeds")
    for name in record_names(arrays):
        if arrays[name].shape[:2] != (cell.chunk, num):
            raise Damaged(f"{name} has shape {list(arrays[name].shape)}, not [{cell.chunk}, {num}, ...]")
    if num_rounds != manifest.num_rounds or "regret" not in arrays:
        raise Damaged("it holds other rounds or records than the study has")
    is_right = arrays["status"] == 0
    for name in record_names(arrays):
        # An environment of one's own may not know its variances; NaN anywhere else is a failure, and has a status.
        may_be_nan = name == "variance" and cell.has_own_environment
        if not may_be_nan and not np.all(np.isfinite(arrays[name][is_right])):
            raise Damaged(f"{name} holds NaN or infinite numbers of seeds that did not fail")
    return Shard(arrays, sha256)


def _most_bytes(manifest: Manifest, cell: StoredCell) -> int:
    """Return the bytes that a shard of a cell can have at most."""
    numbers = len(cell.record) + _MOST_LAYERS * len(_LAYERED & set(cell.record))  # of a seed at a recorded round
    return min(2**16 + 8 * (cell.chunk + 1) * (len(manifest.rounds) * numbers + 4), files.MAX_FILE)


def record_names(arrays: dict[str, Array]) -> list[str]:
    """Return the names of the records among a shard's arrays."""
    return sorted(set(arrays) - {"seeds", "rounds", "status", "status_round"})


class Processes:
    """All processes of ``jax.distributed``, or this one alone: one writes, and all take the same decisions."""

    def __init__(self, devices: Sequence[jax.Device]) -> None:
        self.are_many = len({d.process_index for d in devices}) > 1
        self.is_writer = not self.are_many or jax.process_index() == 0

    def agree(self, values: T) -> T:
        """Return a tree of numbers and arrays as the writer has it; the others give one of the same shapes."""
        if not self.are_many:
            return values
        agreed: T = jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(values))
        return agreed

    def agree_on_number(self, value: int) -> int:
        """Return one number, as the writer has it."""
        return int(self.agree(np.int32(value)))

    def write(self, action: Callable[[], None]) -> None:
        """Let the writer do something that may fail; if it does, all processes end."""
        failed: Exception | None = None
        if self.is_writer:
            try:
                action()
            except (OSError, RunError) as error:
                failed = error
        if self.agree_on_number(failed is not None):
            raise failed or RunError("the process that writes the results could not go on")

    def fetch(self, tree: T) -> T:
        """Return arrays that are spread over devices as NumPy arrays."""
        fetched: T = multihost_utils.process_allgather(tree, tiled=True) if self.are_many else jax.device_get(tree)
        return fetched


def mesh_for(chunk: int, devices: Sequence[jax.Device]) -> Mesh:
    """Return as many devices as can play whole blocks of a chunk, so that its numbers do not depend on how many."""
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


class Stretch:
    """The number of rounds to play in one call: long enough to cost nothing, short enough to be interrupted.

    With ``seconds`` it follows the speed seen so far, so that a call takes about this long. Without, it stays as it is.
    """

    def __init__(self, rounds: int, seconds: float | None = None) -> None:
        self._rounds, self._seconds = rounds, seconds

    def next(self, left: int) -> int:
        """Return the rounds of the next stretch, where ``left`` are left."""
        return min(self._rounds, left)

    def took(self, num_rounds: int, seconds: float) -> None:
        """Learn from a stretch."""
        if self._seconds is not None:
            wanted = num_rounds * self._seconds / max(seconds, 1e-6)
            self._rounds = int(min(max(wanted, 1), num_rounds * _MAX_SPEEDUP, 2**31 - 1))


def stretch_for(program: Program, length: int, checkpoint_seconds: float) -> Stretch:
    """Return the stretches in which to play ``length`` rounds."""
    if is_accelerator(program.mesh):  # every length is compiled by itself: one, and a shorter one at the end
        return Stretch(-(-length // -(-length // _ACCELERATOR_STRETCH)))
    return Stretch(max(_FIRST_STRETCH // program.chunk, 1), min(_STRETCH_SECONDS, checkpoint_seconds / 2))


@dataclasses.dataclass(frozen=True)
class Task:
    """A chunk of seeds to play, and the files that hold it."""

    program: Program  # with as few layers as the cell has
    folder: Path
    cell: StoredCell
    first: int  # seed
    num_rounds: int
    keep: bool  # whether the last checkpoint stays, for a study with more rounds to go on from

    def path(self, part: Part) -> Path:
        """Return the file of the chunk's shard, checkpoint or timing."""
        return self.cell.path(self.folder, part, self.first)

    @property
    def seeds(self) -> Array:
        """Numbers of the seeds, [chunk]."""
        return np.arange(self.first, self.first + self.cell.chunk)


class Progress(NamedTuple):
    """The point that a chunk has come to."""

    capacity: int  # layers stored; 0 where the algorithm has no such number
    round: int  # the last one played
    state: RunState | None  # NumPy arrays, or on devices; None before round 1
    seconds: float  # spent playing; kept apart from the numbers, which must not depend on it


class Hooks(NamedTuple):
    """The objects and functions that playing calls on its way."""

    processes: Processes
    stretch: Stretch
    advanced: Callable[[int], None]  # told of rounds played, a negative number where they are played again
    save_due: Callable[[], bool]  # whether it is time for a checkpoint
    stop_asked: Callable[[], bool]


def play(task: Task, hooks: Hooks) -> str:
    """Play to the last round and write the shard; returns its SHA-256.

    Where the algorithm asks for more layers than are stored, the chunk is played again from its start with more. What
    is stored in the end does not depend on when that was noticed, nor on any interruption.
    """
    progress = _resumed(task, hooks.processes)
    hooks.advanced(progress.round)
    while True:
        program = _grown(task.program, progress.capacity)
        progress, is_enough = _play_on(task, program, progress, hooks)
        if is_enough:
            break
        hooks.advanced(-progress.round)
        progress = Progress(_capacity(engine.grown(program.algorithm)), 0, None, progress.seconds)
    state = hooks.processes.fetch(progress.state)
    assert state is not None  # there is at least one round
    num = len(task.program.rounds)
    name = {**identity(task.cell, task.first), "kind": "shard"}
    arrays = {
        "seeds": task.seeds.astype(np.int64),
        "rounds": task.program.rounds,
        "status": np.asarray(state.carry.status),
        "status_round": np.asarray(state.carry.status_round),
        **{name: np.asarray(x)[:, :num] for name, x in sorted(state.store.items())},
    }
    data = files.encode_arrays({**name, "num_rounds": task.num_rounds, "capacity": progress.capacity}, arrays)

    def finish() -> None:
        if task.keep:
            _save(task, progress._replace(state=state))
        else:
            write_seconds(task.path("timings"), progress.seconds)
        files.write(task.path("shards"), data)
        if not task.keep:
            task.path("checkpoints").unlink(missing_ok=True)

    hooks.processes.write(finish)
    return hashlib.sha256(data).hexdigest()


def _play_on(task: Task, program: Program, progress: Progress, hooks: Hooks) -> tuple[Progress, bool]:
    """Play until the last round, or until more layers are needed: then the second value is false.

    Raises ``KeyboardInterrupt`` when a stop was asked for, after a checkpoint was written.
    """
    processes = hooks.processes
    seeds = task.seeds
    ids = np.stack([np.zeros_like(seeds), np.zeros_like(seeds), seeds]).astype(np.int32)
    while progress.round < task.num_rounds:
        num = processes.agree_on_number(hooks.stretch.next(task.num_rounds - progress.round))
        program.compile(num)
        start = time.perf_counter()
        state = jax.block_until_ready(program.advance(progress.state, ids, progress.round + 1, num))
        seconds = time.perf_counter() - start
        hooks.stretch.took(num, seconds)
        hooks.advanced(num)
        progress = Progress(_capacity(program.algorithm), progress.round + num, state, progress.seconds + seconds)
        if needs_capacity(processes.fetch(state.carry.status), program.algorithm):
            return progress, False
        stop = processes.agree_on_number(hooks.stop_asked())
        if stop or processes.agree_on_number(hooks.save_due()):
            processes.write(functools.partial(_save, task, progress._replace(state=processes.fetch(state))))
        if stop:
            raise KeyboardInterrupt
    return progress, True


def _grown(program: Program, capacity: int) -> Program:
    """Return the program with as many layers as ``capacity`` says, or as many as there are."""
    if _capacity(program.algorithm) >= capacity:
        return program
    return program.grown(capacity) or program


def _capacity(algorithm: object) -> int:
    return int(getattr(algorithm, "capacity", 0))


def _save(task: Task, progress: Progress) -> None:
    """Write the time so far, and then a checkpoint: neither it nor a shard is ever without a time."""
    write_seconds(task.path("timings"), progress.seconds)
    assert progress.state is not None
    num = len(task.program.rounds)
    carry = {f"carry.{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(progress.state.carry))}
    readings = {f"store.{name}": np.asarray(x)[:, :num] for name, x in sorted(progress.state.store.items())}
    name = {**_checkpoint_identity(task), "capacity": progress.capacity, "round": progress.round}
    arrays = {"rounds": task.program.rounds, **carry, **readings}
    files.write(task.path("checkpoints"), files.encode_arrays(name, arrays))


def _checkpoint_identity(task: Task) -> dict[str, object]:
    # Another version of jaxvar may hold other arrays.
    return {**identity(task.cell, task.first), "kind": "checkpoint", "jaxvar": __version__}


def _resumed(task: Task, processes: Processes) -> Progress:
    """Return the progress that the checkpoint has; none where there is no checkpoint that fits."""
    nothing = Progress(_capacity(task.program.algorithm), 0, None, 0.0)
    found = (_read_checkpoint(task) if processes.is_writer else None) or nothing
    if not processes.are_many:
        return found
    capacity, round = (processes.agree_on_number(x) for x in (found.capacity, found.round))
    if round == 0:
        return nothing
    empty = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), _grown(task.program, capacity).shapes)
    return Progress(capacity, round, processes.agree(found.state if processes.is_writer else empty), found.seconds)


def _read_checkpoint(task: Task) -> Progress | None:
    path, wanted = task.path("checkpoints"), _checkpoint_identity(task)
    try:
        files.check_sum(path)  # before memory is taken for all of it
        identity, arrays = files.decode_arrays(files.read(path))
        capacity, round = identity.get("capacity"), identity.get("round")
        is_mine = {name: identity.get(name) for name in wanted} == wanted
        if not is_mine or not isinstance(capacity, int) or not isinstance(round, int):
            raise Damaged("it belongs to other seeds or to another version of jaxvar")
    except FileNotFoundError:
        return None
    except Damaged as error:
        seeds = f"seeds {task.first} to {task.first + task.cell.chunk - 1}"
        print(f"{path} cannot be used: {error}; {seeds} are played from the start", file=sys.stderr)
        return None
    program = _grown(task.program, capacity)
    if _capacity(program.algorithm) != capacity or not 0 < round <= task.num_rounds:
        return None
    state = _restored(program, arrays, round)
    if state is None:
        return None
    try:
        seconds = read_seconds(task.path("timings"))
    except RunError as error:  # of one process among several, which must not end alone
        print(f"{error}; the time before this run is not counted", file=sys.stderr)
        seconds = 0.0
    return Progress(capacity, round, state, seconds)


def _restored(program: Program, arrays: dict[str, Array], round: int) -> RunState | None:
    """Return a checkpoint's arrays in the shape of ``program``; None where they do not fit or a reading is missing.

    The rounds recorded may have changed since, as they do where a study gets longer: it is enough that those up to
    ``round`` are among the ones that were recorded.
    """
    leaves, structure = jax.tree.flatten(program.shapes.carry)
    carry = [arrays.get(f"carry.{i}") for i in range(len(leaves))]
    past = program.rounds[program.rounds <= round]
    before = arrays.get("rounds")
    if before is None or not np.all(np.isin(past, before)):
        return None
    if any(x is None or x.shape != y.shape or x.dtype != y.dtype for x, y in zip(carry, leaves, strict=True)):
        return None
    where = np.searchsorted(before, past)
    readings = {}
    for name, shape in program.shapes.store.items():
        found = arrays.get(f"store.{name}")
        wanted = (shape.shape[0], len(before), *shape.shape[2:])
        if found is None or found.dtype != shape.dtype or found.shape != wanted:
            return None
        readings[name] = np.zeros(shape.shape, shape.dtype)
        readings[name][:, : len(past)] = found[:, where]
    return RunState(jax.tree.unflatten(structure, carry), readings)  # type: ignore[arg-type]  # NumPy's, until placed
