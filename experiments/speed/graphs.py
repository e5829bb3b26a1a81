"""What one turn of a loop is on a CUDA device: graphs, their nodes, the longest chain among them, and bytes.

XLA records runs of kernels as CUDA graphs: the host then starts a graph, not each kernel. Nothing of it is in the
optimised program. It is in what the compiler writes to a folder if asked to (``xla_dump_to``), and is read from there:

- ``*.thunk_sequence_after_thunk_passes.txt``: the steps of the host (XLA calls them thunks), nested. A graph is a
  ``kCommandBuffer``, and what is indented below it are its nodes. Where no graph was made, the compiler writes only
  ``*.thunk_sequence.txt``. Each step shows the nearest earlier step that it must wait for (``prev=``), not all of them.
- ``*.thunk_metadata.txt``: which instruction of the program each numbered step is.
- ``*buffer-assignment.txt``: the piece of memory of every value.
- the optimised program (``compiled.as_text()``): operands, hence what a step reads and writes; how many turns a loop
  makes; bytes.

Two nodes depend on each other if one writes memory that the other reads or writes. This is XLA's own rule; the tests
check that the nearest dependencies found by it are the ones that the compiler prints (but for copies of slices,
``kDynamicSliceFusion``, where it prints some that the graph does not have). The longest chain is the longest path along
the dependencies.

**XLA's default does not use them.** Within a graph it puts each node after the one before it, so that all nodes are one
chain (jax 0.10.2; option ``xla_gpu_command_buffer_scheduling_mode``, default ``LHS``). With the value ``CONCURRENT``
nodes that do not depend on each other may run at the same time, and the longest chain is what remains.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.speed import hlo

CONCURRENT = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
"""Option of the compiler with which nodes of a graph wait only for the nodes that they depend on."""

_STEP = re.compile(r"( *)(\d+): (k\w+) *\[(?:prev=(\d+)|source)?")
_PART = re.compile(r" *(\w+):\s*$")
_METADATA = re.compile(r"thunk_info \{([^}]*)\}")
_ALLOCATION = re.compile(r"allocation (\d+): ")
_VALUE = re.compile(r" value: <\d+ ([\w.\-]+)(?:\{([\d,]*)\})?.*> \(size=(\d+),offset=(\d+)\)")

Piece = tuple[Any, int, int]  # of memory: allocation, first byte, number of bytes


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of the host (a thunk), with the steps inside of it by part: of a loop its condition and its body."""

    number: int
    kind: str
    before: int | None  # the nearest earlier step in the same list that it waits for, as printed
    parts: dict[str, list[Step]] = dataclasses.field(default_factory=dict)

    def inside(self) -> Iterator[Step]:
        """The steps directly inside of it."""
        for steps in self.parts.values():
            yield from steps


class Counts(NamedTuple):
    """One turn of a loop: all kernels of all its inner loops, in all their turns."""

    graphs: int  # started by the host
    nodes: int  # kernels and copies in these graphs
    outside: int  # kernels and copies that the host starts one by one
    chain: int  # of these the most that must run one after another; between graphs everything does


class Dump:
    """What the compiler wrote down about one program.

    Args:
      steps: text of the steps of the host.
      metadata: text that says which instruction each of them is.
      assignment: text that says where in memory each value is.
      program: the optimised program.
    """

    def __init__(self, steps: str, metadata: str, assignment: str, program: hlo.Program) -> None:
        self.steps = parse_steps(steps)
        self.program = program
        self._names = _instruction_names(metadata)
        self._pieces = _memory(assignment)
        self._homes = {name: home for home in program.computations.values() for name in home.instructions}
        self._callers = {
            called: i
            for i in program.all()
            for attribute in ("body", "condition", "to_apply", "calls")
            for called in i.calls(attribute)
            if i.opcode in ("while", "call")
        }
        self._computations = {name: key for key, home in program.computations.items() for name in home.instructions}

    @classmethod
    def read(cls, folder: Path, program: hlo.Program) -> Dump:
        """Read the files of the only program in ``folder`` that was compiled for a GPU."""
        sequence = sorted(folder.glob("*.thunk_sequence_after_thunk_passes.txt"))
        sequence = sequence or sorted(folder.glob("*.thunk_sequence.txt"))
        if len(sequence) != 1:
            raise ValueError(f"the compiler must have written the steps of one program, got {len(sequence)}")
        stem = sequence[0].name.split(".thunk_sequence")[0]
        (metadata,) = folder.glob(f"{stem}.thunk_metadata.txt")
        (assignment,) = folder.glob(f"{stem}.*buffer-assignment.txt")
        return cls(sequence[0].read_text(), metadata.read_text(), assignment.read_text(), program)

    def turn(self, loop: hlo.Loop) -> Counts:
        """One turn of a loop of the program."""
        for step, in_graph in _all(self.steps, False):
            if step.kind == "kWhile" and self._names.get(step.number) == loop.instruction.name:
                return self._turn(step, in_graph)
        raise ValueError(f"the steps must have the loop {loop.instruction.name}, got none")

    def nearest(self, steps: Sequence[Step]) -> list[int | None]:
        """For each step of a list the nearest earlier one that it depends on; to be compared with ``Step.before``."""
        uses = [self._uses(step) for step in steps]
        found = []
        for at, mine in enumerate(uses):
            earlier = [n for n in range(at) if _depend(uses[n], mine)]
            found.append(steps[earlier[-1]].number if earlier else None)
        return found

    def _turn(self, loop: Step, in_graph: bool) -> Counts:
        counts = self._sequence(loop.parts.get("body", []), in_graph)
        if in_graph or self._trips(loop) is None:  # if their number is known, the host just makes that many turns
            counts = _sum([counts, self._sequence(loop.parts.get("condition", []), in_graph)])
        return counts

    def _trips(self, loop: Step) -> int | None:
        name = self._names.get(loop.number, "")
        home = self._homes.get(name)
        return None if home is None else self.program.trips(home.instructions[name], home)

    def _sequence(self, steps: Sequence[Step], in_graph: bool) -> Counts:
        """Steps one after another; in a graph they wait for what they depend on only."""
        counts = [self._count(step, in_graph) for step in steps]
        total = _sum(counts)
        if not in_graph:
            return total
        uses, longest = [self._uses(step) for step in steps], [0] * len(steps)
        for at, mine in enumerate(uses):
            earlier = (longest[n] for n in range(at) if _depend(uses[n], mine))
            longest[at] = counts[at].chain + max(earlier, default=0)
        return total._replace(chain=max(longest, default=0))

    def _count(self, step: Step, in_graph: bool) -> Counts:
        if step.kind == "kCommandBuffer":
            inside = self._sequence(list(step.inside()), True)
            return inside._replace(graphs=inside.graphs + 1)
        if step.kind == "kWhile":
            trips = self._trips(step)
            return Counts(*((1 if trips is None else trips) * n for n in self._turn(step, in_graph)))
        if step.kind == "kConditional":
            branches = [self._sequence(branch, in_graph) for branch in step.parts.values()]
            return max(branches, key=lambda c: (c.nodes + c.outside, c), default=Counts(0, 0, 0, 0))
        if step.parts:  # a group, or a copy of a slice
            return self._sequence(list(step.inside()), in_graph)
        if step.kind.endswith("Done"):  # waits for what has started
            return Counts(0, 0, 0, 0)
        return Counts(0, int(in_graph), int(not in_graph), 1)

    def _uses(self, step: Step) -> tuple[set[Piece], set[Piece]]:
        """The memory that a step reads, and that it writes."""
        name = self._names.get(step.number, "")
        if step.kind in ("kCommandBuffer", "kWhile", "kConditional", "kSequential") or name not in self._homes:
            inside = [self._uses(s) for s in step.inside()]
            return set().union(*(r for r, _ in inside)), set().union(*(w for _, w in inside))
        home = self._homes[name]
        instruction = home.instructions[name]
        operands = [] if instruction.opcode in ("constant", "parameter") else list(instruction.operands)
        written = {self._piece(name, index) for index in _indices(instruction.shape)}
        if step.kind == "kDynamicSliceFusion":  # the host knows the place; the numbers that say it are not read
            operands = [o for o in operands if re.search(r"\[\d", home.instructions[o].shape)]
        read = {self._piece(o, index) for o in operands for index in _indices(home.instructions[o].shape)}
        return read, written

    def _piece(self, name: str, index: tuple[int, ...]) -> Piece:
        """Where a value is; one that has no place of its own conflicts with itself only.

        A value has its place by the instruction that makes it, so names and groups of values are left aside. What a
        loop only carries along has it by what comes into the loop.
        """
        while (name, index) not in self._pieces:
            i = self._homes[name].instructions[name]
            if i.opcode == "get-tuple-element":
                name, index = i.operands[0], (hlo.tuple_index(i), *index)
            elif i.opcode == "tuple" and index:
                name, index = i.operands[index[0]], index[1:]
            elif i.opcode in ("bitcast", "opt-barrier", "while"):
                name = i.operands[0]
            elif i.opcode == "parameter" and self._computations[name] in self._callers:
                name = self._callers[self._computations[name]].operands[int(i.operands[0])]
            else:
                return (name, index), 0, 1
        return self._pieces[name, index]


class Cost(NamedTuple):
    """What the compiled program says of one round, or of one episode, of all seeds that are played at a time."""

    num_seeds: int
    blocks: int  # equal parts of the seeds, played one after another: a turn is one of such a part
    counts: Counts | None  # None where the device has no graphs
    kernels: int  # instructions that are kernels, those of inner loops in all their turns
    on_data: int  # loops and branches that depend on data: each asks the host
    scratch: int  # bytes that the program allocates beside arguments and results: the state is in them
    carried: hlo.Carried  # bytes carried from turn to turn
    moved: int  # bytes that the kernels read and write, each for itself
    wide: int  # instructions in float64
    collectives: int
    custom_calls: dict[str, int]
    compile_seconds: float  # on this machine

    @property
    def moved_per_seed(self) -> float:
        """Bytes that the kernels read and write for one seed."""
        return self.moved * self.blocks / self.num_seeds

    @property
    def must_move_per_seed(self) -> float:
        """Bytes for one seed if what changes is read once and written once, and the rest is written or read once."""
        return self.carried.once * self.blocks / self.num_seeds


class Compiled(NamedTuple):
    """A program that was compiled and read."""

    cost: Cost
    program: hlo.Program
    loop: hlo.Loop
    dump: Dump | None


def compile_and_read(
    lowered: Any, num_seeds: int, num_turns: int, *, graphs: bool = True, options: Mapping[str, Any] | None = None
) -> Compiled:
    """Compile a lowered program and read what one turn of its loop over ``num_turns`` turns is.

    Args:
      lowered: a ``jax.stages.Lowered``: of any program, traced by anybody.
      num_seeds: what bytes per seed are divided by.
      num_turns: turns of the loop to look at; of several such loops the one with most kernels.
      graphs: whether the program is for a CUDA device.
      options: further options of the compiler, such as :data:`CONCURRENT`.

    Returns:
      What was found, and where.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked = {"xla_dump_to": folder} if graphs else {}
        start = time.perf_counter()
        compiled = lowered.compile(compiler_options={**(options or {}), **asked} or None)
        seconds = time.perf_counter() - start
        program = hlo.Program(compiled.as_text())
        dump = Dump.read(Path(folder), program) if graphs else None
    loop = program.scan(num_turns)
    cost = Cost(
        num_seeds=num_seeds,
        blocks=program.times(loop),
        counts=None if dump is None else dump.turn(loop),
        kernels=loop.turn.launches,
        on_data=loop.turn.host_trips,
        scratch=int(compiled.memory_analysis().temp_size_in_bytes),
        carried=program.carried(loop),
        moved=program.moved(loop.turn),
        wide=len(hlo.wide_floats(program)),
        collectives=len(hlo.collectives(program)),
        custom_calls=hlo.custom_calls(program),
        compile_seconds=seconds,
    )
    return Compiled(cost, program, loop, dump)


def measure_lowered(lowered: Any, num_seeds: int, num_turns: int, *, options: Mapping[str, Any] | None = None) -> Cost:
    """The cost of one turn of a program that is lowered for a CUDA device; see :func:`compile_and_read`."""
    return compile_and_read(lowered, num_seeds, num_turns, options=options).cost


def parse_steps(text: str) -> list[Step]:
    """The steps of the host; what is indented more is inside of the step above it."""
    top: list[Step] = []
    open_steps: list[tuple[int, Step]] = []
    part = ""
    for line in text.splitlines():
        found = _STEP.match(line)
        if not found:
            label = _PART.match(line)
            part = label[1] if label else part
            continue
        indent = len(found[1])
        step = Step(int(found[2]), found[3], None if found[4] is None else int(found[4]))
        while open_steps and open_steps[-1][0] >= indent:
            open_steps.pop()
        if open_steps:
            parts = open_steps[-1][1].parts
            parts.setdefault(part or next(reversed(parts), "inside"), []).append(step)
        else:
            top.append(step)
        part = ""
        open_steps.append((indent, step))
    if not top:
        raise ValueError("text must be a sequence of thunks, got none")
    return top


def _all(steps: Sequence[Step], in_graph: bool) -> Iterator[tuple[Step, bool]]:
    """Every step, and whether it is in a graph."""
    for step in steps:
        yield step, in_graph
        yield from _all(list(step.inside()), in_graph or step.kind == "kCommandBuffer")


def _sum(counts: Sequence[Counts]) -> Counts:
    return Counts(*(sum(column) for column in zip(*counts, strict=True))) if counts else Counts(0, 0, 0, 0)


def _depend(one: tuple[set[Piece], set[Piece]], other: tuple[set[Piece], set[Piece]]) -> bool:
    """Whether one writes what the other reads or writes."""
    (reads, writes), (other_reads, other_writes) = one, other
    return _overlap(writes, other_reads | other_writes) or _overlap(reads, other_writes)


def _overlap(some: set[Piece], others: set[Piece]) -> bool:
    return any(a[0] == b[0] and a[1] < b[1] + b[2] and b[1] < a[1] + a[2] for a in some for b in others)


def _instruction_names(metadata: str) -> dict[int, str]:
    """Names of instructions by the number of the step; steps without a number are graphs."""
    names = {}
    for entry in _METADATA.findall(metadata):
        name, number = re.search(r'profile_annotation: "([^"]*)"', entry), re.search(r"thunk_id: (\d+)", entry)
        if name and number:
            names[int(number[1])] = name[1]
    return names


def _memory(assignment: str) -> dict[tuple[str, tuple[int, ...]], Piece]:
    """Where values are, by the instruction that makes them and the place in its result."""
    pieces: dict[tuple[str, tuple[int, ...]], Piece] = {}
    allocation = -1
    for line in assignment.splitlines():
        header = _ALLOCATION.match(line)
        allocation = int(header[1]) if header else allocation
        value = _VALUE.match(line)
        if value:
            index = tuple(int(n) for n in (value[2] or "").split(",") if n)
            pieces[value[1], index] = (allocation, int(value[4]), int(value[3]))
    return pieces


def _indices(shape: str) -> list[tuple[int, ...]]:
    """The places of the arrays in a value: one, or those in a tuple."""
    if not shape.startswith("("):
        return [()]
    return [(n, *rest) for n, part in enumerate(hlo.elements(shape)) for rest in _indices(part)]
