"""The values a study is written in (text, numbers, true and false, lists and tables of them), and errors about them.

They are what TOML and JSON have in common, so that a study means the same from Python, from a file and from the
configuration stored beside its results.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

Array = np.ndarray[Any, Any]
Table = Mapping[str, object]

_MAX_MESSAGE = 1000  # characters; a wrong value may be a whole array
_MAX_TEXT = 200  # characters of a label
_MAX_DEPTH = 8  # of lists and tables; features [S, A, S, d] of a model need four
_MAX_INT = 2**63 - 1
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of characters, separators of lines


class StudyError(ValueError):
    """A study that cannot be run as it is written.

    ``where`` is the path of the wrong key in the study's configuration, ``("algorithm", 1, "delta")`` for the key
    ``delta`` of the second algorithm; a reader of files turns it into a line.
    """

    def __init__(self, message: str, where: tuple[str | int, ...] = ()) -> None:
        super().__init__(message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}...")
        self.where = where


class RunError(RuntimeError):
    """A study that could not be run, stored or read; the message is a sentence or a few, for the user."""


@contextlib.contextmanager
def error_at(*where: str | int, what: str = "") -> Iterator[None]:
    """Turn errors raised within into errors at the path ``where`` of the study, with ``what`` before their messages."""
    try:
        yield
    except ValueError as error:
        inner = error.where if isinstance(error, StudyError) else ()
        raise StudyError(f"{what}: {error}" if what else str(error), (*where, *inner)) from None


def plain_value(name: str, value: object, depth: int = 0) -> Any:
    """Return a copy of ``value`` in the types above: lists and arrays as tuples, NumPy's numbers as Python's."""
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        value = value.tolist()
    if depth > _MAX_DEPTH:
        raise StudyError(f"{name} must not be nested more than {_MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise StudyError(f"{name} must have text as keys, got {short(key)}")
        return {key: plain_value(f"{name}.{key}", part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = tuple(plain_value(name, part, depth + 1) for part in value)
        if len({_kind(part) for part in parts}) > 1:
            raise StudyError(f"{name} must be a list of one kind of value, got {short(value)}")
        return parts
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if abs(value) > _MAX_INT:
            raise StudyError(
                f"{name} must be an integer of at most 2^63 - 1 in size, got one of {len(f'{value:x}')} hex digits"
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise StudyError(f"{name} must be finite, got {value!r}")
        return float(value)
    raise StudyError(f"{name} must be text, a number, true or false, a list or a table, got {short(value)}")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "flag"
    return "number" if isinstance(value, int | float) else type(value).__name__


def jsonable(value: object, leaf: Callable[[object], object] = lambda x: x) -> Any:
    """Return ``value`` as it is after a way through JSON: tuples as lists. Everything else becomes ``leaf`` of it."""
    if isinstance(value, Mapping):
        return {key: jsonable(part, leaf) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(part, leaf) for part in value]
    return leaf(value)


def canonical(value: object) -> str:
    """Return one text for all ways to write a value: keys sorted, floats by ``repr``, whole floats as integers."""

    def leaf(x: object) -> object:
        return int(x) if isinstance(x, float) and x.is_integer() and abs(x) <= 2**53 else x

    return json.dumps(jsonable(value, leaf), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: object) -> str:
    """Return 20 hexadecimal digits that identify a value: the head of the SHA-256 of its canonical text."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:20]


def check_text(name: str, value: object, *, most: int = _MAX_TEXT, lines: bool = False) -> str:
    """Return ``value``, printable text of 1 to ``most`` characters, with line breaks only where ``lines`` is true."""
    if not isinstance(value, str):
        raise StudyError(f"{name} must be text, got {short(value)}")
    if not value.strip():
        raise StudyError(f"{name} must not be empty, got {value!r}")
    if len(value) > most:
        raise StudyError(f"{name} must have at most {most} characters, got {len(value)}: {short(value)}")
    for character in value:
        if unicodedata.category(character) in _UNPRINTABLE and not (lines and character in "\n\t"):
            raise StudyError(f"{name} must not hold control characters, got {character!a} in {short(value)}")
    return value


def short(value: object) -> str:
    """Return ``value`` as text for an error message, cut where it is long."""
    shown = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return shown if len(shown) <= 80 else f"{shown[:60]}... ({len(shown)} characters)"
