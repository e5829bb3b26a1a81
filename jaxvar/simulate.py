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
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxvar import blocks, checks, random, runner, status
from jaxvar.batching import form_for, on_accelerator
from jaxvar.pytrees import float_dtype
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
    devices = list(jax.devices() if devices is None else devices)
    if not devices:
        raise ValueError("devices must name at least one device, got none")
    mesh = Mesh(np.array(devices), ("runs",))
    accelerator = on_accelerator(devices[0].platform)

    settings = (max(len(algorithm_points), 1), max(len(environment_points), 1))
    total = math.prod(settings) * num_seeds
    block, chunk = sizes(total, steps(base_environment, num), chunk, devices, widest_block())
    which = np.stack(np.unravel_index(np.arange(total), (*settings, num_seeds))).astype(np.int32)
    which[2] += first_seed
    words = random.key_words(key)
    if mesh.is_multi_process:
        numbers = (base_algorithm, algorithm_values, base_environment, environment_values, words, rounds, which, chunk)
        _check_same_everywhere((*numbers, num), mesh)

    def play(algorithm: Any, ids: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
        out = _program(
            blocks.closed(algorithm),
            algorithm_values,
            blocks.closed(base_environment),
            environment_values,
            words,
            ids,
            rounds,
            tuple(blocks.closed(r) for r in record),
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
            while np.any(part["status"] & status.CAPACITY) and can_grow(base_algorithm):
                base_algorithm = base_algorithm.grow()
                part = play(base_algorithm, ids)
            kept = min(chunk, total - start)
            parts.append({name: x[:kept] for name, x in part.items()})
            bar.update(kept * num)

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
    record = tuple(blocks.opened(r) for r in record)

    def play_share(
        algorithm: Any,
        algorithm_values: Any,
        environment: Any,
        environment_values: Any,
        words: Any,
        ids: Any,
        rounds: Any,
    ) -> dict[str, jax.Array]:
        def play_block(ids: jax.Array) -> dict[str, jax.Array]:
            runs = blocks.begin(algorithm, algorithm_values, environment, environment_values, words, ids, record)
            carry, store = runner.play(runs.step, runs.read, runs.carry, rounds, num_rounds)
            return {**store, "status": carry.status, "status_round": carry.status_round}

        out = jax.lax.map(play_block, ids.reshape(3, -1, *block).swapaxes(0, 1))
        return {name: blocks.runs_first(x, block) for name, x in out.items()}

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


def _unpack(target: Any) -> tuple[Any, dict[int, Any], tuple[Any, ...]]:
    grid: Grid | None = grid_of(target)
    return (target, {}, ()) if grid is None else (grid.base, dict(grid.values), grid.points)


def steps(environment: Any, num: int) -> int:
    """``num`` rounds or episodes in terms of work: about how many rounds of a bandit take as long."""
    return num * (_EPISODE_WORK * environment.horizon if runner.is_episodic(environment) else 1)


def widest_block() -> int:
    """Runs side by side that fill a CPU's vector."""
    return _CPU_VECTOR // float_dtype().itemsize


def sizes(total: int, num_rounds: int, chunk: Any, devices: list[jax.Device], largest_block: int) -> tuple[int, int]:
    """Runs per block and per chunk, which is chosen where it is None."""
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


def can_grow(algorithm: Any) -> bool:
    """Whether there is one with more capacity."""
    return hasattr(algorithm, "grow") and algorithm.grow().capacity > algorithm.capacity


def join_chunks(parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Concatenate chunks; those played with fewer layers are padded: no rounds there, and no failure."""
    shape = np.max([part.shape[1:] for part in parts], axis=0)
    padded = []
    for part in parts:
        missing = [(0, 0)] + [(0, n - m) for n, m in zip(shape, part.shape[1:], strict=True)]
        padded.append(np.pad(part, missing, constant_values=part.dtype == bool) if np.any(missing) else part)
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
