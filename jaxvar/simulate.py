"""Many seeds and many settings at once: sweeps in, arrays out.

``simulate`` checks its arguments, plays chunk after chunk with a :class:`jaxvar.engine.Program`, and returns NumPy
arrays with seeds before records.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from chex import ArrayTree
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike
from tqdm import tqdm

from jaxvar import engine, memory, parameters, random, tidy
from jaxvar.algorithms.interface import Algorithm, EpisodicAlgorithm
from jaxvar.environments.interface import Environment, EpisodicEnvironment
from jaxvar.game import DEFAULT_RECORDERS, check_call, grid_of, renamed_arguments
from jaxvar.parameters import Array
from jaxvar.records import Recorder, join_chunks, record_rounds
from jaxvar.status import describe

T = TypeVar("T")


class SimulationError(RuntimeError):
    """Some seeds of a simulation failed."""


@dataclasses.dataclass(frozen=True, repr=False)
class SimulationResult:
    """All seeds of a simulation; leading axes are those of the sweeps (algorithm, then environment)."""

    rounds: Array  # [records]
    records: Mapping[str, Array]  # name -> [..., seeds, records, ...]
    status: Array  # [..., seeds]   int32, 0 where all went well
    status_round: Array  # [..., seeds]   int32, the first round with a status
    seeds: Array  # [seeds]   their numbers
    points: tuple[tuple[Mapping[str, object], ...], ...]  # one tuple of settings per leading axis
    chunk: int  # seeds per call of the compiled program
    capacity: int | None  # layers stored in the end

    @property
    def episodes(self) -> Array:
        """``rounds``, under the name they have where a round is an episode, [records]."""
        return self.rounds

    @property
    def regret(self) -> Array:
        """Cumulative pseudo-regret, [..., seeds, records]."""
        return self.records["regret"]

    def __getattr__(self, name: str) -> Array:
        """Return a record by its name, [..., seeds, records, ...]."""
        records = self.__dict__.get("records", {})
        if name in records:
            return np.asarray(records[name])
        raise AttributeError(f"{name!r} was not recorded; the records are: {', '.join(records)}")

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``: one row for each setting, seed and recorded round (or episode).

        Columns are the swept values, ``seed``, ``round``, the records that are one number and the ``status``.
        """
        return tidy.to_pandas(self._blocks, "round")

    def to_xarray(self) -> Any:
        """Return an ``xarray.Dataset``: records by ``cell`` (a setting, with its values), ``seed`` and ``round``."""
        return tidy.to_xarray(self._blocks, "round", {"chunk": self.chunk})

    @property
    def _blocks(self) -> list[tidy.Block]:
        found = []
        for where in np.ndindex(*(len(axis) for axis in self.points)):
            setting = {k: v for axis, i in zip(self.points, where, strict=True) for k, v in axis[i].items()}
            labels = {k: np.asarray(v).tolist() for k, v in setting.items()}
            records = {name: x[where] for name, x in self.records.items()}
            status = (self.status[where], self.status_round[where])
            found.append(tidy.Block(labels, self.rounds, self.seeds, records, *status))
        return found

    def __repr__(self) -> str:
        return tidy.as_text("Simulation", self._blocks, "round")

    def _repr_html_(self) -> str:
        return tidy.as_html("Simulation", self._blocks, "round")

    def raise_if_failed(self) -> None:
        """Raise a :class:`SimulationError` that names the failed seeds with round and cause, if there are any."""
        failed = np.argwhere(self.status != 0)
        if len(failed) == 0:
            return
        lines = []
        for where in map(tuple, failed[:10]):
            setting = {k: v for axis, i in zip(self.points, where[:-1], strict=True) for k, v in axis[i].items()}
            cause = describe(int(self.status[where]))
            at = f" at {setting}" if setting else ""
            lines.append(f"  seed {self.seeds[where[-1]]}{at}: round {self.status_round[where]}, {cause}")
        more = f"\n  and {len(failed) - 10} more" if len(failed) > 10 else ""
        raise SimulationError(f"{len(failed)} of {self.status.size} runs failed:\n" + "\n".join(lines) + more)


@dataclasses.dataclass(frozen=True)
class Grid:
    """The values that a swept object was made of."""

    base: object  # the object that was swept
    values: Mapping[int, Array]  # leaf number -> [points, ...]
    points: tuple[Mapping[str, object], ...]  # the values of each point, by name


def sweep(target: T, **values: ArrayLike | Sequence[object]) -> T:
    """Return ``target`` with all combinations of some leaves' values.

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
    found, structure = jax.tree_util.tree_flatten_with_path(target)
    leaves = [x for _, x in found]
    where = {jax.tree_util.keystr(path, simple=True, separator="__"): i for i, (path, _) in enumerate(found)}
    names = {name: _find(name, where) for name in values}
    paths = list(where)
    lists = {n: _values(n, v, leaves[names[n]], _declared(target, paths[names[n]])) for n, v in values.items()}
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


def _declared(target: Any, path: str) -> parameters.Parameter | None:
    """Return what the class that owns a leaf declares of it, or None."""
    *parts, name = path.split("__")
    for step in parts:
        target = getattr(target, step, None)
    return parameters.parameters(target).get(name) if dataclasses.is_dataclass(target) else None


def _find(name: str, where: dict[str, int]) -> int:
    matches = [path for path in where if path == name or path.endswith("__" + name)]
    exact = [path for path in matches if path == name]
    if len(exact or matches) != 1:
        known = ", ".join(sorted(where))
        problem = "is the name of several leaves" if matches else "is not a leaf"
        raise ValueError(f"{name!r} {problem}; the leaves are: {known}")
    return where[(exact or matches)[0]]


def _values(name: str, values: Any, current: ArrayLike, declared: parameters.Parameter | None) -> list[Array]:
    shape, dtype = np.shape(current), np.asarray(current).dtype
    if parameters.rank(name, values) != len(shape) + 1 or np.shape(values)[1:] != shape or len(values) == 0:
        raise ValueError(
            f"{name} must be a non-empty list of values of shape {list(shape)}, got {parameters.shown(values)}"
        )
    parameters.check_array(name, values, np.shape(values))
    column = np.asarray(values).astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(column, values):
        raise ValueError(f"{name} must be a list of integers, got {parameters.shown(values)}")
    if declared is not None:
        for value in column:
            declared.check(name.rpartition("__")[2], value)
    return list(column)


def simulate(
    algorithm: Algorithm | EpisodicAlgorithm,
    environment: Environment | EpisodicEnvironment,
    *,
    key: jax.Array,
    num_seeds: int,
    num_rounds: int | None = None,
    num_episodes: int | None = None,
    first_seed: int = 0,
    record_at: int | Sequence[int] | None = None,
    recorders: tuple[Recorder, ...] = DEFAULT_RECORDERS,
    chunk: int | None = None,
    devices: Sequence[jax.Device] | None = None,
    progress: bool = False,
    records: int | Sequence[int] | None = None,
    record: tuple[Recorder, ...] | None = None,
) -> SimulationResult:
    """Play ``num_seeds`` seeds of every setting.

    Args:
      algorithm: an algorithm, or a sweep of one.
      environment: an environment, or a sweep of one.
      key: the root key. Seed s of any simulation with this key meets the same problem and noise.
      num_seeds: seeds per setting, numbered from ``first_seed``.
      num_rounds: rounds per seed, where the environment is a bandit.
      num_episodes: episodes per seed, where it is episodic.
      first_seed: number of the first seed.
      record_at: how many evenly spaced rounds (or episodes) to record, or which; 100 if not given.
      recorders: what to record, from :mod:`jaxvar.record`.
      chunk: runs per call of the compiled program, a whole number of blocks per device; chosen if not given. Results
        agree for any chunk; to the last bit for equal chunks.
      devices: devices to use; all of the default backend if not given. Under ``jax.distributed`` these are the devices
        of all processes: every process then makes the same call and gets all results. With ``jax.local_devices()`` a
        process simulates by itself.
      progress: show a progress bar.
      records: the old name of ``record_at``; to be removed.
      record: the old name of ``recorders``; to be removed.

    Returns:
      NumPy arrays with axes [algorithm settings, environment settings, seeds, records], the first two only where swept.
    """
    record_at, recorders = renamed_arguments(record_at, recorders, records, record)
    if not isinstance(progress, bool):
        raise ValueError(f"progress must be True or False, got {parameters.shown(progress)}")
    num_seeds = parameters.check_count("num_seeds", num_seeds)
    first_seed = parameters.check_count("first_seed", first_seed, low=0, high=2**31 - 1 - num_seeds)
    base_algorithm, algorithm_values, algorithm_points = _unpack(algorithm)
    base_environment, environment_values, environment_points = _unpack(environment)
    num = check_call(algorithm, environment, key, num_rounds, num_episodes, recorders, sweeps=True)
    rounds = record_rounds(record_at, num)
    settings = (max(len(algorithm_points), 1), max(len(environment_points), 1))
    total = math.prod(settings) * num_seeds
    mesh = Mesh(np.array(parameters.check_devices(devices)), ("runs",))
    if chunk is None and total < mesh.size and not mesh.is_multi_process:
        mesh = Mesh(mesh.devices[:total], ("runs",))  # no device plays what nobody asked for
    if chunk is None:
        chunk = engine.chosen_chunk(base_environment, total, num, mesh)
    chunk = parameters.check_count("chunk", chunk)
    memory.check_calls(-(-total // chunk), total)
    block = engine.block_shape(chunk, mesh, base_algorithm, base_environment)
    is_large = memory.check(
        base_algorithm,
        base_environment,
        recorders,
        side_by_side=math.prod(block) * (1 if engine.is_accelerator(mesh) else mesh.size),
        num_seeds=max(total, chunk),
        num_records=len(rounds),
        mesh=mesh,
    )
    key_data = np.asarray(random.key_words(key))
    program = engine.Program(
        algorithm=base_algorithm,
        environment=base_environment,
        key_data=key_data,
        rounds=rounds,
        recorders=tuple(recorders),
        chunk=chunk,
        mesh=mesh,
        block=block,
        algorithm_values=algorithm_values,
        environment_values=environment_values,
    )
    if mesh.is_multi_process:
        numbers = (base_algorithm, algorithm_values, base_environment, environment_values, key_data, rounds)
        _check_same_everywhere((*numbers, num_seeds, first_seed, chunk, num), mesh)
    if is_large:
        needed = program.memory(num, is_whole=True) * (1 if engine.is_accelerator(mesh) else mesh.size)
        remedy = "make the problem smaller, or play fewer seeds at once (chunk)"
        memory.refuse_above(memory.free_memory(mesh), needed, f"{chunk} seeds at once need", remedy)

    parts: list[dict[str, Array]] = []
    unit = "seed-episode" if num_rounds is None else "seed-round"
    shown = {"total": total * num, "unit": unit, "unit_scale": True, "smoothing": 0.1}
    with tqdm(**shown) if progress else contextlib.nullcontext() as bar:
        for start in range(0, total, chunk):
            # The last chunk is filled up with runs that are dropped again: one shape, one program.
            runs = np.minimum(np.arange(start, start + chunk), total - 1)
            here = np.stack(np.unravel_index(runs, (*settings, num_seeds))).astype(np.int32)
            here[2] += first_seed
            part = program.play(here, num)
            while engine.needs_capacity(part["status"], program.algorithm):
                program = program.grown() or program
                part = program.play(here, num)
            num_here = min(chunk, total - start)
            parts.append({name: x[:num_here] for name, x in part.items()})
            if bar is not None:
                bar.update(num_here * num)

    axes = tuple(p for p in (algorithm_points, environment_points) if p)
    shape = (*(len(p) for p in axes), num_seeds)
    joined = {name: join_chunks([p[name] for p in parts]) for name in parts[0]}
    joined = {name: x.reshape(*shape, *x.shape[1:]) for name, x in joined.items()}
    return SimulationResult(
        rounds=rounds,
        status=joined.pop("status"),
        status_round=joined.pop("status_round"),
        records=joined,
        seeds=np.arange(first_seed, first_seed + num_seeds),
        points=axes,
        chunk=chunk,
        capacity=getattr(program.algorithm, "capacity", None),
    )


def _check_same_everywhere(numbers: ArrayTree, mesh: Mesh) -> None:
    """Refuse to mix the runs of processes that were asked for different things."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(numbers) if isinstance(x, int | np.ndarray | jax.Array)]
    digest = np.array([zlib.crc32(b"".join(x.tobytes() for x in leaves))], np.uint32)
    shape, sharding = (mesh.size,), NamedSharding(mesh, PartitionSpec("runs"))
    digests = jax.make_array_from_callback(shape, sharding, lambda _: digest)
    if np.any(multihost_utils.process_allgather(digests, tiled=True) != digest):
        raise ValueError(
            "simulate must be called with the same arguments in every process whose devices it uses; "
            "devices=jax.local_devices() makes a simulation a process's own"
        )


def _unpack(target: Any) -> tuple[Any, dict[int, Array], tuple[Mapping[str, object], ...]]:
    grid = grid_of(target)
    return (target, {}, ()) if grid is None else (grid.base, dict(grid.values), grid.points)
