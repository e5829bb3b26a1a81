"""``python -m experiments speed kernels``: what a round is on an accelerator, read off the compiled program.

Nothing is run and no accelerator is needed, so nothing here is a time or a speed. Printed per round are

- **graphs**: what the host starts. A graph holds many kernels, its nodes; on a GPU what is in no graph is started one
  by one. :mod:`experiments.speed.graphs` says where this is read;
- **the longest chain** of kernels of which each needs the one before it;
- **bytes**: what the kernels read and write, beside what a round must move: what a seed carries read and written once,
  what it only looks at (the arms, where they are fixed) read once, what it records written once. Arms drawn in the
  round need not leave the chip and count nothing.

The memory gives the only bound on the speed, and only where what a round touches does not fit into the chip's cache:
what exceeds the cache must come from the memory, and be written back, in each round.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

import jaxvar as jv
from experiments.speed import hlo
from experiments.speed.comparison import ALGORITHMS, BANDITS, Comparison, bandit_game, episodic_game
from experiments.speed.graphs import CONCURRENT, Cost, compile_and_read, measure_lowered
from jaxvar import engine, game, random, records
from jaxvar.simulate import _unpack

_FACTS = Path(__file__).with_name("h100_sxm.txtpb")
CUDA = "12.9.0"
"""The version of CUDA, and of its driver, that programs for a GPU are compiled for: the last one of CUDA 12."""


@dataclasses.dataclass(frozen=True)
class Kernels:
    """Compile for a device that need not be there; print graphs and kernels per round, memory, and bytes moved."""

    device: Literal["h100", "tpu_v5e", "cpu"] = "h100"
    """What to compile for. An H100 needs the extra cuda12, a TPU the extra tpu; neither needs the hardware."""
    algorithms: tuple[str, ...] = ("save", "ave_ucb", "oful", "ucrl_ave")
    """Which of oful, save, ave_ucb and ucrl_ave."""
    seeds: tuple[int, ...] = (4096, 65536)
    """Numbers of seeds of one call, each a program."""
    precision: Literal["float32", "float64"] = "float32"
    """The float type of the run."""
    fresh: bool = True
    """Bandits with arms drawn anew in each round."""
    fixed: bool = True
    """Bandits with arms fixed for a seed."""
    concurrent: bool = False
    """Let nodes of a graph wait only for what they need; XLA's default runs them one after another."""
    show: bool = False
    """Print every kernel with its bytes per seed and its line of source."""
    dim: int = Comparison.dim
    """Dimension of the arms."""
    arms: int = Comparison.arms
    """Arms per decision set."""
    rounds: int = Comparison.rounds
    """Rounds per seed."""
    states: int = Comparison.states
    """States of the model that ucrl_ave plays."""
    actions: int = Comparison.actions
    """Its actions."""
    features: int = Comparison.features
    """Its dimension."""
    horizon: int = Comparison.horizon
    """Steps per episode."""
    episodes: int = Comparison.episodes
    """Episodes per seed."""


def memory_bound(found: Cost, device: Device) -> float | None:
    """Seeds times rounds (or episodes) per second that the memory allows at most; None where it gives no bound.

    Of all bytes that a round reads, or changes, at most as many as the cache holds can be there already, or stay there.
    """
    if device.bandwidth is None:
        return None
    state, _, read = found.carried
    forced = max(state + read - device.cache, 0) + max(state - device.cache, 0)
    return found.num_seeds / found.blocks * device.bandwidth / forced if forced else None


def complaints(found: Cost, device: Device, float_type: str) -> list[str]:
    """What a program for an accelerator must not have."""
    said = []
    if float_type == "float32" and found.wide:
        said.append(f"{found.wide} float64 operations in a float32 program")
    if device.platform != "cpu" and found.on_data:
        said.append(f"{found.on_data:g} data-dependent loops or branches per round")
    if found.collectives:
        said.append(f"{found.collectives} collectives")
    return said


def kernels(options: Kernels) -> int:
    """Print the table; returns the exit code: 1 if a program has what it must not have, 2 for bad usage."""
    unknown = sorted(set(options.algorithms) - set(ALGORITHMS))
    if unknown:
        print(f"algorithms must be among {', '.join(ALGORITHMS)}, got {', '.join(unknown)}", file=sys.stderr)
        return 2
    device = devices()[options.device]
    try:
        chip = target(device)
    except MissingCompiler as error:
        print(error, file=sys.stderr)
        return 2
    with precision(options.precision):
        return _table(options, device, chip)


def _table(options: Kernels, device: Device, chip: jax.Device) -> int:
    print(_heading(options, device))
    print(
        f"{'':16}{'':>9}{'':>8}{'in':>8}{'':>9}{'longest':>9}{'on':>6}{'scratch':>10}{'state':>8}{'must move':>11}"
        f"{'moves':>9}{'memory allows':>15}{'compiled':>10}"
    )
    print(
        f"{'program':16}{'seeds':>9}{'graphs':>8}{'graphs':>8}{'outside':>9}{'chain':>9}{'data':>6}{'MB':>10}{'MB':>8}"
        f"{'B/seed':>11}{'B/seed':>9}{'at most, M/s':>15}{'s':>10}"
    )
    failed = False
    for label, algorithm, environment, turns in _games(options):
        for seeds in options.seeds:
            lowered = traced(algorithm, environment, seeds, turns, chip).lower()
            found, program, loop, _ = compile_and_read(
                lowered,
                seeds,
                turns,
                graphs=device.platform == "cuda",
                options=CONCURRENT if options.concurrent and device.platform == "cuda" else None,
            )
            print(_row(label, found, device), flush=True)
            said = complaints(found, device, options.precision)
            failed = failed or bool(said)
            for line in said:
                print(f"{'':16}MUST NOT BE: {line}")
            if found.blocks > 1:
                print(f"{'':16}{found.blocks:,} blocks of seeds, one after another; the numbers are those of one block")
            if found.custom_calls:
                calls = ", ".join(f"{name} ({count})" for name, count in sorted(found.custom_calls.items()))
                print(f"{'':16}custom calls: {calls}")
            if loop.turn.loops:
                print(f"{'':16}{_parts(program, loop)}")
            if options.show:
                _show(program, loop.turn, seeds, " " * 16)
    if not failed:
        rest = "" if device.platform == "cpu" else ", no data-dependent loop or branch in a round"
        wide = "no float64 operation, " if options.precision == "float32" else ""
        print(f"\nIn all programs: {wide}no collective{rest}.")
    return int(failed)


def _games(options: Kernels) -> list[tuple[str, Any, Any, int]]:
    """Label, algorithm, environment and number of turns of each line."""
    names = [field.name for field in dataclasses.fields(Comparison) if hasattr(options, field.name)]
    sizes = {name: getattr(options, name) for name in names if name not in ("seeds", "algorithms")}
    game = Comparison(**sizes)
    lines: list[tuple[str, Any, Any, int]] = []
    for name in options.algorithms:
        if name in BANDITS:
            for fresh in [False] * options.fixed + [True] * options.fresh:
                lines.append((f"{name} {'fresh' if fresh else 'fixed'}", *bandit_game(game, name, fresh), game.rounds))
        else:
            lines.append((name, *episodic_game(game), game.episodes))
    return lines


def _heading(options: Kernels, device: Device) -> str:
    facts = [f"{device.bandwidth / 1e12:.3g} TB/s"] if device.bandwidth else []
    facts += [f"{device.cache / 2**20:g} MB on the chip"] if device.cache else []
    facts += [f"CUDA {CUDA}"] if device.platform == "cuda" else []
    order = "wait only for what they need" if options.concurrent else "run one after another, as is XLA's default"
    graphs = f"In a graph, nodes {order}.\n" if device.platform == "cuda" else ""
    return (
        f"jaxvar {jv.__version__}, jax {jax.__version__}: compiled for {', '.join([device.name, *facts])}; "
        f"{options.precision}\n"
        f"bandits: d={options.dim}, {options.arms} arms, K={options.rounds}; episodes: S={options.states}, "
        f"A={options.actions}, d={options.features}, H={options.horizon}, K={options.episodes}\n"
        "Per round (ucrl_ave: per episode) of all seeds. Nothing was run: nothing here is a measured speed.\n"
        "graphs: started by the host; in graphs: kernels in them; outside: kernels started one by one. longest chain:\n"
        "kernels of which each needs the one before it. "
        f"{graphs}"
        "on data: loops and branches that depend on data. must move: state read and written once, fixed arms read\n"
        "once, records written once, arms drawn in the round not counted. moves: what the kernels, each for itself,\n"
        "read and write. memory allows: an upper bound, in million seed-rounds (seed-episodes) per second, from what\n"
        "does not fit on the chip; '-' where all fits. compiled: seconds on this machine.\n"
    )


def _row(label: str, found: Cost, device: Device) -> str:
    bound = memory_bound(found, device)
    if found.counts is None:
        counts = f"{'-':>8}{'-':>8}{found.kernels:9,}{'-':>9}"
    else:
        counts = "{:8,}{:8,}{:9,}{:9,}".format(*found.counts)
    sizes = f"{found.scratch / 1e6:10.1f}{found.carried.state / 1e6:8.1f}"
    moved = f"{found.must_move_per_seed:11,.0f}{found.moved_per_seed:9,.0f}"
    most = "-" if bound is None else f"{bound / 1e6:,.0f}"
    return (
        f"{label:16}{found.num_seeds:9,}{counts}{found.on_data:6g}{sizes}{moved}{most:>15}{found.compile_seconds:10.1f}"
    )


def _parts(program: hlo.Program, loop: hlo.Loop) -> str:
    """The kernels of a turn by inner loop."""
    parts = [f"{len(loop.turn.kernels)} outside of loops"]
    for inner in loop.turn.loops:
        turns = "some" if inner.trips is None else str(inner.trips)
        place = program.where(inner.instruction) or inner.instruction.source
        parts.append(f"{turns} x {inner.turn.launches} in {place}")
    return " + ".join(parts)


def _show(program: hlo.Program, turn: hlo.Turn, seeds: int, indent: str) -> None:
    for kernel in turn.kernels:
        shape = re.sub(r"\{[^}]*\}|/\*.*?\*/", "", kernel.shape)
        where = program.where(kernel) or "-"
        print(f"{indent}{kernel.name:36}{program.traffic(kernel) / seeds:9,.0f} B  {where:44}{shape}")
    for loop in turn.loops:
        print(f"{indent}{'some' if loop.trips is None else loop.trips} turns of")
        _show(program, loop.turn, seeds, indent + "  ")


def measure_graph(
    algorithm: Any,
    environment: Any,
    num_seeds: int,
    num_turns: int,
    *,
    device: str = "h100",
    options: Mapping[str, Any] | None = None,
) -> Cost:
    """The cost of one round, or of one episode, of ``simulate`` on a CUDA device that need not be there.

    Args:
      algorithm: as for ``simulate``; built in the precision that is to be measured.
      environment: as for ``simulate``.
      num_seeds: seeds of the call.
      num_turns: rounds, or episodes where the environment is episodic.
      device: a name of :func:`experiments.speed.kernels.devices`.
      options: further options of the compiler, such as :data:`CONCURRENT`.

    Returns:
      ``counts`` has graphs, nodes, kernels outside and the longest chain; bytes are ``moved_per_seed`` and
      ``must_move_per_seed``.

    Raises:
      MissingCompiler: if the compiler for the device is not installed.
    """
    program = traced(algorithm, environment, num_seeds, num_turns, target(devices()[device]))
    return measure_lowered(program.lower(), num_seeds, num_turns, options=options)


class Device(NamedTuple):
    """What a program is compiled for, and the facts that bound its speed; None where there is no such bound."""

    name: str
    platform: str
    bandwidth: float | None  # bytes per second between the chip and its memory
    cache: int  # bytes on the chip; what fits may never be moved at all


def devices() -> dict[str, Device]:
    """Every device by the name the command knows it by."""
    facts = dict(re.findall(r"(memory_bandwidth|l2_cache_size): (\d+)", _FACTS.read_text()))
    return {
        "h100": Device("H100 SXM", "cuda", float(facts["memory_bandwidth"]), int(facts["l2_cache_size"])),
        "tpu_v5e": Device("TPU v5e", "tpu", 819e9, 128 * 2**20),
        "cpu": Device("this CPU", "cpu", None, 0),
    }


def _gpu_facts() -> str:
    """The facts of the GPU with versions of CUDA, without which the compiler makes graphs for the oldest one."""
    names = ("driver_version", "runtime_version", "compile_time_toolkit_version")
    versions = "".join(f'\n  {name}: "{CUDA}"' for name in names)
    return _FACTS.read_text().replace("gpu_device_info {", "gpu_device_info {" + versions, 1)


class MissingCompiler(RuntimeError):
    """The compiler for a device is not installed, or does not start."""


def target(device: Device) -> jax.Device:
    """A JAX device to compile for.

    Raises:
      MissingCompiler: if its plugin is not installed or does not start.
    """
    if device.platform == "cpu":
        return jax.local_devices(backend="cpu")[0]
    from jax.experimental import topologies

    try:
        if device.platform == "cuda":
            found = topologies.get_topology_desc(
                platform="cuda", topology_name="", topology="1x1x1", target_config=_gpu_facts()
            )
        else:
            # Without these libtpu looks for the machine it runs on, which is none of its kind.
            os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
            os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
            os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-1")
            found = topologies.get_topology_desc("v5e:1x1", platform="tpu")
    except (RuntimeError, ValueError, NotImplementedError, ImportError) as error:
        extra = {"cuda": "cuda12", "tpu": "tpu"}[device.platform]
        raise MissingCompiler(
            f"no compiler for {device.name}; where it is not installed, pip install 'jaxvar[{extra}]' ({error})"
        ) from error
    return found.devices[0]


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Make ``float32`` or ``float64`` the float type of what is built inside."""
    before = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    jax.config.update("jax_enable_x64", name == "float64")
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def traced(algorithm: Any, environment: Any, num_seeds: int, num_turns: int, device: jax.Device) -> Any:
    """Return the traced program of ``simulate`` for one call that plays all of ``num_seeds`` seeds, not yet compiled.

    Args:
      algorithm: as for ``simulate``, in one setting or in several.
      environment: as for ``simulate``.
      num_seeds: seeds of the call.
      num_turns: rounds, or episodes where the environment is episodic.
      device: from :func:`target`.

    Returns:
      A ``jax.stages.Traced``: it has a ``jaxpr``, and ``lower().compile()`` makes the program.
    """
    algorithm, algorithm_values, _ = _unpack(algorithm)
    environment, environment_values, _ = _unpack(environment)
    program = engine.Program(
        algorithm=algorithm,
        environment=environment,
        algorithm_values=algorithm_values,
        environment_values=environment_values,
        key_data=np.asarray(random.key_words(jax.random.key(0))),
        rounds=records.record_rounds(1, num_turns),
        recorders=game.DEFAULT_RECORDERS,
        chunk=num_seeds,
        mesh=Mesh(np.array([device]), ("runs",)),
    )
    return program.traced(num_turns)


def equations(jaxpr: Any, length: int) -> int:
    """Equations in the body of the scan over ``length`` rounds, with those of all it calls; of several the most.

    A measure of the traced program: it hardly changes with the version of the compiler.
    """
    bodies = [
        e.params["jaxpr"].jaxpr for e in _walk(jaxpr) if e.primitive.name == "scan" and e.params["length"] == length
    ]
    if not bodies:
        raise ValueError(f"the program must have a scan of length {length}, got none")
    return max(sum(1 for _ in _walk(body)) for body in bodies)


def _walk(jaxpr: Any) -> Iterator[Any]:
    """Every equation, those of called programs included."""
    for equation in jaxpr.eqns:
        inner = [x for x in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr) if _is_jaxpr(x)]
        yield equation
        for x in inner:
            yield from _walk(getattr(x, "jaxpr", x))


def _is_jaxpr(x: Any) -> bool:
    return hasattr(x, "eqns") or hasattr(getattr(x, "jaxpr", None), "eqns")
