"""The values a study is written in: text, numbers, true and false, lists and tables of them.

They are what TOML and JSON have in common, so that a study means the same from Python, from a file and from the
configuration stored beside its results.
"""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxvar.study.errors import StudyError

MAX_TEXT = 200  # characters of a label
_MAX_QUESTION = 2000
_MAX_DEPTH = 8  # of lists and tables; features [S, A, S, d] of a model need four
_MAX_INT = 2**63 - 1
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of characters, separators of lines


def plain(name: str, value: Any, depth: int = 0) -> Any:
    """An own copy of ``value`` in the types above: lists and arrays as tuples, NumPy's numbers as Python's."""
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        value = value.tolist()
    if depth > _MAX_DEPTH:
        raise StudyError(f"{name} must not be nested more than {_MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise StudyError(f"{name} must have text as keys, got {short(key)}")
        return {key: plain(f"{name}.{key}", part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = tuple(plain(name, part, depth + 1) for part in value)
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


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "flag"
    return "number" if isinstance(value, int | float) else type(value).__name__


def jsonable(value: Any) -> Any:
    """``value`` with tuples as lists: what it is after a way through JSON."""
    if isinstance(value, Mapping):
        return {key: jsonable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(part) for part in value]
    return value


def canonical(value: Any) -> str:
    """One text for all ways to write the same value: keys sorted, floats by ``repr``, whole floats as integers."""
    return json.dumps(_whole(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _whole(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _whole(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(part) for part in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return value


def digest(value: Any) -> str:
    """20 hexadecimal digits that identify a value: the head of the SHA-256 of its canonical text."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:20]


def text(name: str, value: Any, *, most: int = MAX_TEXT, lines: bool = False) -> str:
    """Printable text of 1 to ``most`` characters; line breaks only where ``lines`` says so."""
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


def question(value: Any) -> str:
    """The study's question: may be empty, and have several lines."""
    return value if value == "" else text("question", value, most=_MAX_QUESTION, lines=True)


def short(value: Any) -> str:
    """The value for an error message, cut where it is long."""
    shown = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return shown if len(shown) <= 80 else f"{shown[:60]}... ({len(shown)} characters)"
