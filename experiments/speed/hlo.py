"""Reading compiled programs: what one turn of a loop launches, moves and asks of the host.

XLA prints an optimised program as text: computations, each a list of instructions ``%name = shape opcode(operands),
attributes``. On an accelerator every instruction outside of a fusion is a kernel (or a copy), but for those that only
name or group values. Which kernels a GPU starts together, the text does not say: see :mod:`experiments.speed.graphs`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from experiments.speed.hlo_text import (
    Computation,
    Instruction,
    elements,
    field,
    nbytes,
    number,
    origin,
    parameter_number,
    parse_instruction,
    source_tables,
    tuple_index,
)

COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "recv",
    "reduce-scatter",
    "send",
)
# What launches nothing: names and groups of values, control flow (what it calls is counted), ends of what has started.
_FREE = frozenset(
    {
        *(
            "parameter",
            "constant",
            "tuple",
            "get-tuple-element",
            "bitcast",
            "after-all",
            "add-dependency",
            "opt-barrier",
        ),
        *("domain", "call", "while", "conditional", "async-start", "async-update"),
    }
)
_FREE_TARGETS = frozenset({"AllocateBuffer", "AssumeGatherIndicesInBound", "Sharding"})  # custom calls that are no code


_HEADER = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


class Turn(NamedTuple):
    """One turn of a loop, without the loops inside of it."""

    kernels: tuple[Instruction, ...]
    loops: tuple[Loop, ...]
    branches: int  # conditionals: like a loop whose turns depend on data, each asks the host which way to go

    @property
    def launches(self) -> int:
        """Kernels of one turn with all turns of the loops inside; a loop of unknown length counts once."""
        return len(self.kernels) + sum((loop.trips or 1) * loop.turn.launches for loop in self.loops)

    @property
    def host_trips(self) -> int:
        """How often the host must wait for a number, at least: loops of unknown length and branches."""
        inside = sum((loop.trips or 1) * loop.turn.host_trips + (loop.trips is None) for loop in self.loops)
        return self.branches + inside


class Loop(NamedTuple):
    """A ``while`` of the program."""

    instruction: Instruction
    trips: int | None
    turn: Turn


class Carried(NamedTuple):
    """Bytes of what a loop carries, by what one turn does with them."""

    state: int  # changed, and needed by the next turn
    outputs: int  # only written, such as rows of a store of records
    read: int  # only read, such as arms that stay the same

    @property
    def once(self) -> int:
        """Bytes of a turn that reads and writes each of them once."""
        return 2 * self.state + self.outputs + self.read


class Program:
    """A compiled program."""

    def __init__(self, text: str) -> None:
        self.computations: dict[str, Computation] = {}
        self.entry = ""
        self._tables = source_tables(text)
        instructions: dict[str, Instruction] = {}
        for line in text.splitlines():
            header = None if line.startswith((" ", "}")) else _HEADER.match(line)
            if header:
                instructions, name = {}, header[2]
                self.computations[name] = Computation(instructions, "")
                self.entry = name if header[1] else self.entry
                continue
            found = _INSTRUCTION.match(line)
            if found and self.computations:
                instructions[found[2]] = parse_instruction(found[2], found[3])
                if found[1]:
                    self.computations[name] = Computation(instructions, found[2])
        if not self.entry:
            raise ValueError("text must be an HLO module with an ENTRY computation, got none")

    def where(self, i: Instruction) -> str:
        """File, line and function of the source that an instruction comes from; empty where the text does not say."""
        found = re.search(r"stack_frame_id=(\d+)", i.attributes)
        if not found or not self._tables:
            return ""
        frame = self._tables["StackFrames"][int(found[1])]
        place = self._tables["FileLocations"][field(frame, "file_location_id")]
        file = self._tables["FileNames"][field(place, "file_name_id")].strip('"').rsplit("/", 1)[-1]
        function = self._tables["FunctionNames"][field(place, "function_name_id")].strip('"').rsplit(".", 1)[-1]
        return f"{file}:{field(place, 'line')} {function}"

    def all(self) -> Iterator[Instruction]:
        """Every instruction, those inside of fusions included."""
        for computation in self.computations.values():
            yield from computation.instructions.values()

    def size(self, computation: str) -> int:
        """Instructions of a computation and of all that it calls, loops and fusions included."""
        seen, waiting = set(), [computation]
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self.computations:
                continue
            seen.add(name)
            for i in self.computations[name].instructions.values():
                for attribute in ("calls", "to_apply", "body", "condition", "branch_computations"):
                    waiting.extend(i.calls(attribute))
        return sum(len(self.computations[name].instructions) for name in seen)

    def trips(self, loop: Instruction, home: Computation) -> int | None:
        """Turns of the ``while`` instruction ``loop`` of ``home``; None where they depend on data.

        The compilers for CPUs and GPUs write them down; that for TPUs does not, and a counter is then looked for: a
        number that starts at a constant, grows by a constant in each turn and is compared with a constant.
        """
        found = _TRIPS.search(loop.attributes)
        if found:
            return int(found[1])
        condition, body = (self.computations[loop.calls(name)[0]] for name in ("condition", "body"))
        test = condition.instructions[condition.root]
        if test.opcode != "compare" or "direction=LT" not in test.attributes:
            return None
        counter, limit = (condition.instructions[o] for o in test.operands)
        index = tuple_index(counter)
        carried, start = body.instructions[body.root], home.instructions[loop.operands[0]]
        if counter.opcode != "get-tuple-element" or carried.opcode != "tuple" or start.opcode != "tuple":
            return None
        first, new = origin(home, start.operands[index]), origin(body, carried.operands[index])
        if new.opcode != "add":
            return None
        terms = [origin(body, o) for o in new.operands]
        own = [t for t in terms if t.opcode == "get-tuple-element" and tuple_index(t) == index]
        steps = [number(t) for t in terms if t.opcode == "constant"]
        begin, end = number(first), number(limit)
        if not own or not steps or begin is None or end is None or not steps[0]:
            return None
        return max(-(-(end - begin) // steps[0]), 0)

    def turn(self, computation: str) -> Turn:
        """What running ``computation`` once launches."""
        kernels: list[Instruction] = []
        loops: list[Loop] = []
        branches = 0
        home = self.computations[computation]
        for i in home.instructions.values():
            if i.opcode == "while":
                trips, turn = self.trips(i, home), self.turn(i.calls("body")[0])
                if trips is None:  # the condition runs on the device too
                    turn = _both(turn, self.turn(i.calls("condition")[0]))
                loops.append(Loop(i, trips, turn))
            elif i.opcode == "conditional":
                names = i.calls("branch_computations") or i.calls("true_computation") + i.calls("false_computation")
                longest = max((self.turn(name) for name in names), key=lambda t: t.launches)
                kernels += longest.kernels
                loops += longest.loops
                branches += 1 + longest.branches
            elif i.opcode in ("call", "async-start"):
                inner = self.turn((i.calls("to_apply") or i.calls("calls"))[0])
                kernels += inner.kernels
                loops += inner.loops
                branches += inner.branches
            elif _launches(i):
                kernels.append(i)
        return Turn(tuple(kernels), tuple(loops), branches)

    def scan(self, length: int) -> Loop:
        """The loop over ``length`` rounds: of several such loops the one that launches most."""
        found = [loop for loop in _nested(self.turn(self.entry)) if loop.trips == length]
        if not found:
            raise ValueError(f"the program must have a loop of {length} turns, got none")
        return max(found, key=lambda loop: loop.turn.launches)

    def times(self, loop: Loop) -> int:
        """How often the program comes to a loop: 1, or the turns of the loops around it."""
        return next(times for found, times in _counted(self.turn(self.entry), 1) if found == loop)

    def carried(self, loop: Loop) -> Carried:
        """What the loop carries.

        Of an array that is changed in one slice only, or in a row of each seed, that part counts as state; what else a
        kernel reads of an array counts as read.
        """
        body = self.computations[loop.instruction.calls("body")[0]]
        root = body.instructions[body.root]
        state = outputs = read = 0
        for index, shape in enumerate(elements(loop.instruction.shape)):
            producer = origin(body, root.operands[index]) if root.opcode == "tuple" else root
            needed = self._needed(body, index, shape)
            if self._is_carried(body, producer, index):
                read += needed
                continue
            written = min(self._written(body, producer), nbytes(shape))
            if needed:
                state += written
                read += max(needed - written, 0)
            else:
                outputs += written
        return Carried(state, outputs, read)

    def _is_carried(self, body: Computation, i: Instruction, index: int) -> bool:
        """Whether it is the element ``index`` of what the loop carries, unchanged."""
        if i.opcode != "get-tuple-element" or tuple_index(i) != index:
            return False
        return body.instructions[i.operands[0]].opcode == "parameter"

    def _needed(self, body: Computation, index: int, shape: str) -> int:
        """Bytes that a turn reads of the element ``index``: what the kernel reads that reads most of it."""
        names = {i.name for i in body.instructions.values() if self._is_carried(body, i, index)}
        most = 0
        for i in body.instructions.values():
            places = [n for n, operand in enumerate(i.operands) if operand in names]
            if not places or i.name == body.root:
                continue
            if i.opcode == "bitcast":
                names.add(i.name)
                continue
            fused = self._fused(i)
            if fused is not None:
                found = sum(_read_of(fused, p) for p in fused.instructions.values() if parameter_number(p) in places)
            elif i.opcode == "dynamic-update-slice" and places == [0]:
                found = 0
            elif i.opcode in ("dynamic-slice", "slice", "gather") and places == [0]:
                found = nbytes(i.shape)
            else:
                found = nbytes(shape)
            most = max(most, min(found, nbytes(shape)))
        return most

    def moved(self, turn: Turn) -> int:
        """Bytes that the kernels of a turn read and write, each kernel for itself, with all turns of inner loops."""
        own = sum(self.traffic(i) for i in turn.kernels)
        return own + sum((loop.trips or 1) * self.moved(loop.turn) for loop in turn.loops)

    def home(self, instruction: Instruction) -> Computation:
        """The computation that an instruction is in."""
        return next(c for c in self.computations.values() if c.instructions.get(instruction.name) is instruction)

    def traffic(self, kernel: Instruction) -> int:
        """Bytes that one kernel reads and writes."""
        home = self.home(kernel)
        fused = self._fused(kernel)
        if fused is None:
            if kernel.opcode in ("dynamic-slice", "slice", "gather"):
                return 2 * nbytes(kernel.shape)
            if kernel.opcode == "dynamic-update-slice":
                return 2 * nbytes(home.instructions[kernel.operands[1]].shape)
            return nbytes(kernel.shape) + sum(nbytes(home.instructions[o].shape) for o in kernel.operands)
        return self._read(fused) + self._outputs(fused, fused.instructions[fused.root])

    def _fused(self, kernel: Instruction) -> Computation | None:
        names = kernel.calls("calls") if kernel.opcode == "fusion" else ()
        return self.computations[names[0]] if names else None

    def _read(self, fused: Computation) -> int:
        return sum(_read_of(fused, p) for p in fused.instructions.values() if p.opcode == "parameter")

    def _outputs(self, home: Computation, root: Instruction) -> int:
        if root.opcode == "tuple":
            return sum(self._outputs(home, home.instructions[o]) for o in root.operands)
        while root.opcode == "bitcast":
            root = home.instructions[root.operands[0]]
        if root.opcode in ("dynamic-update-slice", "scatter"):
            update = root.operands[1 if root.opcode == "dynamic-update-slice" else 2]
            return nbytes(home.instructions[update].shape)
        return nbytes(root.shape)

    def _written(self, home: Computation, producer: Instruction) -> int:
        """Bytes of ``producer`` that are new."""
        element = None
        if producer.opcode == "get-tuple-element":
            element, producer = tuple_index(producer), home.instructions[producer.operands[0]]
        fused = self._fused(producer)
        if fused is None:
            if element is not None:
                return nbytes(elements(producer.shape)[element])
            return self._outputs(home, producer) if producer.opcode != "tuple" else nbytes(producer.shape)
        root = fused.instructions[fused.root]
        if element is not None and root.opcode == "tuple":
            root = fused.instructions[root.operands[element]]
        return self._outputs(fused, root)


def wide_floats(program: Program) -> list[Instruction]:
    """Instructions in float64 (or of complex numbers made of it)."""
    return [i for i in program.all() if re.search(r"\b(f64|c128)\[", i.shape)]


def collectives(program: Program) -> list[Instruction]:
    """Instructions with which devices communicate."""
    return [i for i in program.all() if i.opcode.removesuffix("-start") in COLLECTIVES]


def custom_calls(program: Program) -> dict[str, int]:
    """What the program calls that XLA did not compile, and in how many places."""
    targets = (i.target for i in program.all() if i.opcode == "custom-call")
    return dict(Counter(t for t in targets if t not in _FREE_TARGETS))


def _read_of(fused: Computation, parameter: Instruction) -> int:
    """Bytes that a fusion reads of a parameter: if it is only sliced the slices, if it is only updated nothing."""
    names, parts = {parameter.name}, 0
    for i in fused.instructions.values():
        if not names.intersection(i.operands) or i.opcode in ("parameter", "constant"):
            continue
        if i.opcode == "bitcast":
            names.add(i.name)
        elif i.opcode in ("dynamic-slice", "slice", "gather") and i.operands[0] in names:
            parts += nbytes(i.shape)
        elif i.opcode == "dynamic-update-slice" and names.intersection(i.operands) == {i.operands[0]}:
            continue
        elif i.opcode == "scatter" and names.intersection(i.operands) == {i.operands[0]}:  # what it adds to is read
            parts += nbytes(fused.instructions[i.operands[2]].shape)
        else:
            return nbytes(parameter.shape)
    return min(parts, nbytes(parameter.shape))


def _nested(turn: Turn) -> Iterator[Loop]:
    for loop in turn.loops:
        yield loop
        yield from _nested(loop.turn)


def _counted(turn: Turn, times: int) -> Iterator[tuple[Loop, int]]:
    for loop in turn.loops:
        yield loop, times
        yield from _counted(loop.turn, times * (loop.trips or 1))


def _both(one: Turn, other: Turn) -> Turn:
    return Turn(one.kernels + other.kernels, one.loops + other.loops, one.branches + other.branches)


def _launches(i: Instruction) -> bool:
    if i.opcode in _FREE or i.opcode.endswith("-done"):
        return False
    return i.opcode != "custom-call" or i.target not in _FREE_TARGETS
