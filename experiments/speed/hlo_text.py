"""The text of compiled programs: instructions, shapes, operands and the tables of source lines.

XLA prints an optimised program as text: computations, each a list of instructions ``%name = shape opcode(operands),
attributes``. :mod:`experiments.speed.hlo` reads whole programs with this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BYTES = {"pred": 1, "token": 0, "opaque": 0, "bf16": 2, "c64": 8, "c128": 16}
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,<=]*)\]")


class Instruction(NamedTuple):
    """One line of a computation."""

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]  # names; of a constant its value, of a parameter its number
    attributes: str

    def calls(self, attribute: str) -> tuple[str, ...]:
        """Names of the computations in an attribute such as ``body=%b`` or ``branch_computations={%t, %f}``."""
        found = re.search(rf"\b{attribute}=(\{{[^}}]*\}}|%?[\w.\-]+)", self.attributes)
        return tuple(re.findall(r"[\w.\-]+", found[1])) if found else ()

    @property
    def source(self) -> str:
        """Where in the traced program it comes from."""
        found = re.search(r'op_name="([^"]*)"', self.attributes)
        return found[1] if found else ""

    @property
    def target(self) -> str:
        """What a custom call calls."""
        found = re.search(r'custom_call_target="([^"]*)"', self.attributes)
        return found[1] if found else ""


class Computation(NamedTuple):
    """Instructions by name, in order; the last one is not always the root."""

    instructions: dict[str, Instruction]
    root: str


def nbytes(shape: str) -> int:
    """Bytes of a shape such as ``f32[20,10]{1,0}``, or of all elements of a tuple."""
    total = 0
    for kind, sizes in _ARRAY.findall(shape):
        number = 1
        for size in re.findall(r"\d+", sizes):
            number *= int(size)
        bits = re.match(r"[a-z]+(\d+)", kind)
        total += number * (_BYTES[kind] if kind in _BYTES else max(int(bits[1]) // 8, 1) if bits else 0)
    return total


def parameter_number(i: Instruction) -> int:
    """The number of a parameter; -1 for any other instruction."""
    return int(i.operands[0]) if i.opcode == "parameter" else -1


def parse_instruction(name: str, rest: str) -> Instruction:
    """Of ``shape opcode(operands), attributes``."""
    end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    shape, rest = rest[:end], rest[end:].lstrip()
    opening = rest.index("(")
    closing = _closing(rest, opening)
    opcode, inside = rest[:opening], rest[opening + 1 : closing]
    operands = (inside,) if opcode in ("constant", "parameter") else tuple(_operands(inside))
    return Instruction(name, shape, opcode, operands, rest[closing + 1 :])


def _operands(inside: str) -> Iterator[str]:
    """Names among the operands, which may come with their shapes."""
    for part in elements(f"({inside})"):
        words = part.split()
        if words:
            yield words[-1].lstrip("%")


def elements(shape: str) -> list[str]:
    """The parts of a tuple's shape; a list of one for an array."""
    shape = re.sub(r"/\*.*?\*/", "", shape)
    if not shape.startswith("("):
        return [shape]
    parts, depth, start = [], 0, 1
    for at, c in enumerate(shape):
        depth += (c in "([{") - (c in ")]}")
        if (c == "," and depth == 1) or (depth == 0 and at > start):
            parts.append(shape[start:at].strip())
            start = at + 1
    return parts


def _closing(text: str, opening: int) -> int:
    """Where the bracket at ``opening`` is closed."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    raise ValueError(f"unbalanced brackets in {text[:80]!r}")


def tuple_index(i: Instruction) -> int:
    """Which element a ``get-tuple-element`` takes."""
    found = re.search(r"index=(\d+)", i.attributes)
    return int(found[1]) if found else -1


def origin(home: Computation, name: str) -> Instruction:
    """The instruction of ``home`` that ``name`` stands for, copies left aside."""
    i = home.instructions[name]
    while i.opcode in ("bitcast", "copy"):
        i = home.instructions[i.operands[0]]
    return i


def number(i: Instruction) -> int | None:
    is_number = i.opcode == "constant" and re.fullmatch(r"-?\d+", i.operands[0])
    return int(i.operands[0]) if is_number else None


def source_tables(text: str) -> dict[str, dict[int, str]]:
    """The tables of files, functions, places and frames that precede the computations."""
    tables: dict[str, dict[int, str]] = {}
    for name in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
        found = re.search(rf"^{name}\n((?:\d+ .*\n)+)", text, flags=re.MULTILINE)
        if not found:
            return {}
        rows = (line.split(" ", 1) for line in found[1].splitlines())
        tables[name] = {int(number): rest for number, rest in rows}
    return tables


def field(entry: str, name: str) -> int:
    found = re.search(rf"\b{name}=(\d+)", entry)
    return int(found[1]) if found else 0
