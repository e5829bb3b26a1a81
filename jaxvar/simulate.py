"""Many seeds and many settings: chunks of a fixed size, over all devices, as one compiled program.

Every (setting, seed) pair is one run. A program call plays ``chunk`` of them; each device plays its share in blocks
of ``block`` runs at a time. A block is what is vectorised over: small on a CPU, so that its state stays in the cache
while all rounds are played, and the whole share on an accelerator. The runs are independent, so nothing is
communicated while they are played; where the devices belong to several processes, each chunk's results are gathered.

On a CPU a block has a second axis, of length one. LLVM unrolls the innermost loop of a kernel before it looks for
vectors; with that axis innermost, the loop over the block's runs stays whole and becomes vector instructions.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxvar import checks, random, runner, status
from jaxvar.batching import differs, form_for, on_accelerator
from jaxvar.pytrees import float_dtype, pytree, static
from jaxvar.records import record_rounds
from jaxvar.result import SimulationResult
from jaxvar.sweep import Grid, grid_of

_CPU_VECTOR = 64  # bytes; a block has as many runs as numbers fit into a vector of the widest registers
_CPU_SEED_ROUNDS = 2**22  # per call: seconds, so that a progress bar moves and Ctrl-C is answered
_CPU_CHUNKS = (128, 4096)  # but at least and at most
_ACCELERATOR_CHUNK = 16384
_EPISODE_WORK = 8  # a step of an episode, with its share of the plan, takes about as long as this many rounds


def simulate(
    algorithm: Any,
    environment: Any,
    *,
    key: jax.Array,
    num_seeds: int,
    num_rounds: int | None = None,
    num_episodes: int | None = None,
    first_seed: int = 0,
    records: int | Sequence[int] | None = None,
    record: tuple[Any, ...] = runner.DEFAULT_RECORDERS,
    chunk: int | None = None,
    devices: Sequence[jax.Device] | None = None,
    progress: bool = False,
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
      records: how many evenly spaced rounds (or episodes) to record, or which; 100 if not given.
      record: recorders, from :mod:`jaxvar.record`.
      chunk: runs per call of the compiled program, a whole number of blocks per device; chosen if not given. Results
        agree for any chunk; to the last bit for equal chunks.
      devices: devices to use; all of the default backend if not given. Under ``jax.distributed`` these are the devices
        of all processes: every process then makes the same call and gets all results. With ``jax.local_devices()`` a
        process simulates by itself.
      progress: show a progress bar.

    Returns:
      NumPy arrays with axes [algorithm settings, environment settings, seeds, records], the first two only where swept.
    """
    num_seeds = checks.count("num_seeds", num_seeds)
    first_seed = checks.count("first_seed", first_seed, low=0, high=2**31 - 1 - num_seeds)
    base_algorithm, algorithm_values, algorithm_points = _unpack(algorithm)
    base_environment, environment_values, environment_points = _unpack(environment)
    num = runner.check_call(base_algorithm, base_environment, key, num_rounds, num_episodes, record)
    rounds = record_rounds(records, num)
    episodic = runner.is_episodic(base_environment)
    steps = num * (_EPISODE_WORK * base_environment.horizon if episodic else 1)
    devices = list(jax.devices() if devices is None else devices)
    if not devices:
        raise ValueError("devices must name at least one device, got none")
    mesh = Mesh(np.array(devices), ("runs",))
    accelerator = on_accelerator(devices[0].platform)

    settings = (max(len(algorithm_points), 1), max(len(environment_points), 1))
    total = math.prod(settings) * num_seeds
    most = _CPU_VECTOR // float_dtype().itemsize
    block, chunk = _sizes(total, steps, chunk, devices, most)
    which = np.stack(np.unravel_index(np.arange(total), (*settings, num_seeds))).astype(np.int32)
    which[2] += first_seed
    words = random.key_words(key)
    if mesh.is_multi_process:
        numbers = (base_algorithm, algorithm_values, base_environment, environment_values, words, rounds, which, chunk)
        _check_same_everywhere((*numbers, num), mesh)

    def play(algorithm: Any, ids: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
        out = _program(
            _closed(algorithm),
            algorithm_values,
            _closed(base_environment),
            environment_values,
            words,
            ids,
            rounds,
            tuple(_closed(r) for r in record),
            num_rounds=num,
            kinds=(type(base_algorithm), type(base_environment)),
            block=(block,) if accelerator else (block, 1),
            mesh=mesh,
            accelerator=accelerator,
        )
        return multihost_utils.process_allgather(out, tiled=True) if mesh.is_multi_process else jax.device_get(out)

    parts: list[dict[str, np.ndarray[Any, Any]]] = []
    with _progress_bar(progress, total * num, "seed-episode" if episodic else "seed-round") as bar:
        for start in range(0, total, chunk):
            # The last chunk is filled up with runs that are dropped again: one shape, one program.
            ids = which[:, np.minimum(np.arange(start, start + chunk), total - 1)]
            part = play(base_algorithm, ids)
            while np.any(part["status"] & status.CAPACITY) and _can_grow(base_algorithm):
                base_algorithm = base_algorithm.grow()
                part = play(base_algorithm, ids)
            kept = min(chunk, total - start)
            parts.append({name: x[:kept] for name, x in part.items()})
            bar.update(kept * num)

    axes = tuple(p for p in (algorithm_points, environment_points) if p)
    shape = (*(len(p) for p in axes), num_seeds)
    joined = {name: _join([p[name] for p in parts]).reshape(*shape, *parts[-1][name].shape[1:]) for name in parts[0]}
    return SimulationResult(
        rounds=rounds,
        status=joined.pop("status"),
        status_round=joined.pop("status_round"),
        records=joined,
        seeds=np.arange(first_seed, first_seed + num_seeds),
        points=axes,
        chunk=chunk,
        capacity=getattr(base_algorithm, "capacity", None),
    )


@functools.partial(jax.jit, static_argnames=("num_rounds", "kinds", "block", "mesh", "accelerator"))
def _program(
    algorithm: Any,
    algorithm_values: dict[int, jax.Array],
    environment: Any,
    environment_values: dict[int, jax.Array],
    words: jax.Array,
    ids: jax.Array,  # [3, chunk]   algorithm setting, environment setting, seed
    rounds: jax.Array,
    record: tuple[Any, ...],
    *,
    num_rounds: int,
    kinds: tuple[type, type],  # JAX may take two registered dataclasses for one where their fields agree
    block: tuple[int, ...],
    mesh: Mesh,
    accelerator: bool,
) -> dict[str, jax.Array]:
    """Play the runs ``ids``; every output has a leading axis [chunk]."""
    record = tuple(_opened(r) for r in record)

    def play_share(
        algorithm: Any,
        algorithm_values: Any,
        environment: Any,
        environment_values: Any,
        words: Any,
        ids: Any,
        rounds: Any,
    ) -> dict[str, jax.Array]:
        share = ids.shape[1]

        def play_block(ids: jax.Array) -> dict[str, jax.Array]:
            mine, theirs = (
                {i: jnp.moveaxis(v[ids[j]], range(len(block)), range(-len(block), 0)) for i, v in values.items()}
                for j, values in enumerate((algorithm_values, environment_values))
            )
            own = (mine, theirs, ids[2])

            def begin(mine: Any, theirs: Any, seed: jax.Array) -> Any:
                return runner.begin(_with(algorithm, mine), _with(environment, theirs), words, seed, record)

            # What is the same for all seeds of the block, such as a given model, is held once.
            flat = jax.tree.map(lambda x: x.reshape(*x.shape[: x.ndim - len(block)], -1), own)
            fixed_differs, _ = differs(begin, *flat)
            axes = jax.tree.map(lambda d: -1 if d else None, fixed_differs)
            fixed, carry = _over_runs(begin, len(block), -1, (axes, -1))(*own)

            def each(function: Any, *carried: Any, shared: tuple[Any, ...] = ()) -> Any:
                def one(mine: Any, theirs: Any, fixed: Any, carried: Any) -> Any:
                    return function(_with(algorithm, mine), _with(environment, theirs), fixed, *carried, *shared)

                return _over_runs(one, len(block), (-1, -1, axes, -1), -1)(mine, theirs, fixed, carried)

            def step(carry: Any, round: jax.Array) -> Any:
                return runner.advance(each, _opened(environment), record, carry, round)[0]

            read_all = _over_runs(functools.partial(runner.read, record), len(block), -1, -1)
            carry, store = runner.play(step, read_all, carry, rounds, num_rounds)
            return {**store, "status": carry.status, "status_round": carry.status_round}

        out = jax.lax.map(play_block, ids.reshape(3, -1, *block).swapaxes(0, 1))
        first = range(1, 1 + len(block))
        moved = {name: jnp.moveaxis(x, range(-len(block), 0), first) for name, x in out.items()}
        return {name: x.reshape(share, *x.shape[1 + len(block) :]) for name, x in moved.items()}

    here, everywhere = PartitionSpec("runs"), PartitionSpec()
    play_all = jax.shard_map(
        play_share,
        mesh=mesh,
        in_specs=(*(everywhere,) * 5, PartitionSpec(None, "runs"), everywhere),
        out_specs=here,
        check_vma=False,
    )
    with form_for(accelerator):
        return play_all(algorithm, algorithm_values, environment, environment_values, words, ids, rounds)


def _over_runs(function: Any, num_axes: int, in_axes: Any, out_axes: Any) -> Any:
    """``jax.vmap`` of ``function`` over each of the block's axes, which come last."""
    for _ in range(num_axes):
        function = jax.vmap(function, in_axes=in_axes, out_axes=out_axes)
    return function


def _check_same_everywhere(numbers: Any, mesh: Mesh) -> None:
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


@pytree
class _Closed:
    """An object that is not a pytree, as part of the program."""

    value: Any = static()


def _closed(target: Any) -> Any:
    """``target`` as a pytree: one that is none already is compiled into the program, numbers and all."""
    leaves = jax.tree.leaves(target)
    return _Closed(value=target) if len(leaves) == 1 and leaves[0] is target else target


def _opened(target: Any) -> Any:
    return target.value if isinstance(target, _Closed) else target


def _with(base: Any, values: dict[int, jax.Array]) -> Any:
    """``base`` with some of its leaves replaced."""
    leaves, structure = jax.tree.flatten(base)
    return _opened(jax.tree.unflatten(structure, [values.get(i, x) for i, x in enumerate(leaves)]))


def _unpack(target: Any) -> tuple[Any, dict[int, Any], tuple[Any, ...]]:
    grid: Grid | None = grid_of(target)
    return (target, {}, ()) if grid is None else (grid.base, dict(grid.values), grid.points)


def _sizes(total: int, num_rounds: int, chunk: Any, devices: list[jax.Device], largest_block: int) -> tuple[int, int]:
    """Runs per block and per chunk."""
    on_cpu = not on_accelerator(devices[0].platform)
    while largest_block > 1 and len(devices) * largest_block >= 2 * total:
        largest_block //= 2  # few runs: do not fill their blocks up with runs that nobody asked for
    if chunk is None:
        most = (
            min(max(_CPU_SEED_ROUNDS // num_rounds, _CPU_CHUNKS[0]), _CPU_CHUNKS[1]) if on_cpu else _ACCELERATOR_CHUNK
        )
        unit = len(devices) * (largest_block if on_cpu else 1)
        chunk = max(min(-(-total // unit), most // unit), 1) * unit
    chunk = checks.count("chunk", chunk)
    if chunk % len(devices):
        raise ValueError(f"chunk must be a multiple of the {len(devices)} devices, got {chunk}")
    share = chunk // len(devices)
    if not on_cpu:
        return share, chunk
    return math.gcd(share, largest_block), chunk


def _can_grow(algorithm: Any) -> bool:
    return hasattr(algorithm, "grow") and algorithm.grow().capacity > algorithm.capacity


def _join(parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Concatenate chunks; those played with fewer layers are padded: no rounds there, and no failure."""
    shape = parts[-1].shape[1:]
    padded = []
    for part in parts:
        missing = [(0, 0)] + [(0, n - m) for n, m in zip(shape, part.shape[1:], strict=True)]
        padded.append(np.pad(part, missing, constant_values=part.dtype == bool) if part.shape[1:] != shape else part)
    return np.concatenate(padded)


class _Silent:
    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, n: int) -> None:
        """Nothing to show."""


def _progress_bar(show: bool, total: int, unit: str) -> Any:
    if not show:
        return _Silent()
    from tqdm import tqdm

    return tqdm(total=total, unit=unit, unit_scale=True, smoothing=0.1)
