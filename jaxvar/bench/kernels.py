"""``jaxvar kernels``: what a round costs on an accelerator, read off the compiled program.

Nothing is run and no accelerator is needed, so nothing here is a time. A round cannot be faster than two things allow:

- **launches**: each kernel takes at least some time to start, whatever the number of seeds;
- **memory**: what a seed carries must be read and written once per round, and what it only looks at (the arms, where
  they are fixed) read once. Arms drawn in the round need not leave the chip and count nothing. What fits into the
  chip's cache may never be moved: then memory gives no bound.

Speeds that follow are upper bounds, and say so.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import Any, Literal, NamedTuple

import jax

import jaxvar as jv
from jaxvar.bench import hlo
from jaxvar.bench.program import Device, MissingCompiler, devices, precision, target, traced
from jaxvar.bench.report import ALGORITHMS, BANDITS, Bench, bandit_game, episodic_game


@dataclasses.dataclass(frozen=True)
class Kernels:
    """Compile for a device that need not be there; print kernels per round, memory, and upper bounds on the speed."""

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
    launch_us: float | None = None
    """Microseconds that starting a kernel takes at the least; an assumption, 2 on the H100."""
    show: bool = False
    """Print every kernel with its bytes per seed and its line of source."""
    dim: int = Bench.dim
    """Dimension of the arms."""
    arms: int = Bench.arms
    """Arms per decision set."""
    rounds: int = Bench.rounds
    """Rounds per seed."""
    states: int = Bench.states
    """States of the model that ucrl_ave plays."""
    actions: int = Bench.actions
    """Its actions."""
    features: int = Bench.features
    """Its dimension."""
    horizon: int = Bench.horizon
    """Steps per episode."""
    episodes: int = Bench.episodes
    """Episodes per seed."""


class Cost(NamedTuple):
    """What the compiled program says of one round, or of one episode, of all seeds."""

    launches: float  # kernels, those of inner loops in all their turns
    host_trips: float  # loops and branches that depend on data
    scratch: int  # bytes that the program allocates beside arguments and results: the state is in them
    state: int  # bytes carried from round to round and changed
    read: int  # bytes carried and only read
    moved: int  # bytes that the kernels read and write, each for itself
    wide: int  # instructions in float64
    collectives: int
    custom_calls: dict[str, int]

    @property
    def must_move(self) -> int:
        """Bytes between chip and memory in a round that keeps its state there."""
        return 2 * self.state + self.read


class Bounds(NamedTuple):
    """Upper bounds on seeds times rounds (or episodes) per second; None where there is none."""

    memory: float | None
    launches: float | None

    @property
    def least(self) -> float | None:
        """The one that binds."""
        return min((b for b in self if b is not None), default=None)


def cost(compiled: Any, num_turns: int) -> tuple[Cost, hlo.Program, hlo.Loop]:
    """Read a compiled program whose scan makes ``num_turns`` turns."""
    program = hlo.Program(compiled.as_text())
    loop = program.scan(num_turns)
    state, read = program.carried(loop)
    memory = compiled.memory_analysis()
    found = Cost(
        launches=loop.turn.launches,
        host_trips=loop.turn.host_trips,
        scratch=int(memory.temp_size_in_bytes),
        state=state,
        read=read,
        moved=program.moved(loop.turn),
        wide=len(hlo.wide_floats(program)),
        collectives=len(hlo.collectives(program)),
        custom_calls=hlo.custom_calls(program),
    )
    return found, program, loop


def bounds(found: Cost, device: Device, num_seeds: int) -> Bounds:
    """What the device's memory and launches allow."""
    memory = launches = None
    if device.bandwidth is not None and found.state + found.read > device.cache:
        memory = num_seeds * device.bandwidth / found.must_move
    if device.launch is not None:
        launches = num_seeds / (device.launch * found.launches)
    return Bounds(memory, launches)


def complaints(found: Cost, device: Device, float_type: str) -> list[str]:
    """What a program for an accelerator must not have."""
    said = []
    if float_type == "float32" and found.wide:
        said.append(f"{found.wide} float64 operations in a float32 program")
    if device.platform != "cpu" and found.host_trips:
        said.append(f"{found.host_trips:g} data-dependent loops or branches per round")
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
    if options.launch_us is not None:
        device = device._replace(launch=1e-6 * options.launch_us)
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
        f"{'':16}{'':>9}{'kernels':>9}{'host':>7}{'scratch':>10}{'state':>9}{'must move':>11}{'moves':>9}"
        f"{'UPPER BOUND by':>17}{'UPPER BOUND by':>17}"
    )
    print(
        f"{'program':16}{'seeds':>9}{'':>9}{'trips':>7}{'MB':>10}{'MB':>9}{'B/seed':>11}{'B/seed':>9}"
        f"{'memory, M/s':>17}{'launches, M/s':>17}"
    )
    failed = False
    for label, algorithm, environment, turns in _games(options):
        for seeds in options.seeds:
            compiled = traced(algorithm, environment, seeds, turns, chip).lower().compile()
            found, program, loop = cost(compiled, turns)
            print(_row(label, seeds, found, bounds(found, device, seeds), device), flush=True)
            said = complaints(found, device, options.precision)
            failed = failed or bool(said)
            for line in said:
                print(f"{'':16}MUST NOT BE: {line}")
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
    names = [field.name for field in dataclasses.fields(Bench) if hasattr(options, field.name)]
    sizes = {name: getattr(options, name) for name in names if name not in ("seeds", "algorithms")}
    game = Bench(**sizes)
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
    facts += [f"a launch assumed to take {1e6 * device.launch:g} us at least"] if device.launch else []
    return (
        f"jaxvar {jv.__version__}, jax {jax.__version__}: compiled for {', '.join([device.name, *facts])}; "
        f"{options.precision}\n"
        f"bandits: d={options.dim}, {options.arms} arms, K={options.rounds}; episodes: S={options.states}, "
        f"A={options.actions}, d={options.features}, H={options.horizon}, K={options.episodes}\n"
        "Per round (ucrl_ave: per episode) of all seeds. Nothing was run: speeds are upper bounds, not measurements,\n"
        "in million seed-rounds (seed-episodes) per second. must move: state read and written once, fixed arms read\n"
        "once, arms drawn in the round not counted; 'in cache' where all of it fits on the chip. moves: what the\n"
        "kernels, each for itself, read and write.\n"
    )


def _row(label: str, seeds: int, found: Cost, bound: Bounds, device: Device) -> str:
    sizes = f"{found.scratch / 1e6:10.1f}{found.state / 1e6:9.1f}{found.must_move / seeds:11,.0f}"
    unbound = "-" if device.bandwidth is None else "in cache"
    memory = unbound if bound.memory is None else f"{bound.memory / 1e6:,.0f}"
    launches = "-" if bound.launches is None else f"{bound.launches / 1e6:,.0f}"
    return (
        f"{label:16}{seeds:9,}{found.launches:9g}{found.host_trips:7g}{sizes}{found.moved / seeds:9,.0f}"
        f"{memory:>17}{launches:>17}"
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
