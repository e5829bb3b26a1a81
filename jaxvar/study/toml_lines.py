"""On which line of a TOML text each key stands; Python's own reader does not say.

This is no second reader: it finds keys and skips values, and it stops at what it does not understand. What is right and
what a value means is for ``tomllib`` to say.
"""

from __future__ import annotations

import bisect
import contextlib
import re
import tomllib
from typing import Any

MAX_KEY_PARTS = 20  # ``tomllib`` takes quadratic time in the parts of a dotted key
_MAX_DEPTH = 50  # of lists and tables within each other
_BLANK = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")  # between statements, and anywhere in a list
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_STRING = re.compile(r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''', re.DOTALL)
_FLAT_LIST = re.compile(r"""\[[^\[\]"'{}#]*\]""")  # of numbers: nothing in it has a name
_OTHER = re.compile(r"[^,\[\]{}\n#]+")  # numbers, dates, true and false

Where = tuple[str | int, ...]


class _Lost(Exception):
    """The text is not as TOML should be."""


class KeyLines:
    """The lines of all keys, tables and entries of lists in ``text``, whose lines end in a line feed."""

    def __init__(self, text: str) -> None:
        self.found: dict[Where, int] = {}  # the first line of each
        self.long_key: int | None = None  # the line of a key with too many parts, where reading stopped
        self._text, self._at = text, 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._tables: dict[Where, int] = {}  # how many tables each list of tables has so far
        with contextlib.suppress(_Lost):
            self._document()

    def line(self, where: Where) -> int | None:
        """The line of the key at the path ``where``, or of the nearest table around it that has one.

        A key ``"noise.std"`` at the end of the path may have been written with or without its quotes.
        """
        *outer, last = where or ("",)
        for path in (where, (*outer, *str(last).split("."))):
            if path in self.found:
                return self.found[path]
        return next((self.found[where[:n]] for n in range(len(where), 0, -1) if where[:n] in self.found), None)

    def _document(self) -> None:
        table: Where = ()
        while self._skip(_GAP) and self._at < len(self._text):
            start = self._at
            if self._take("[["):
                *outer, last = self._key()
                self._expect("]]")
                tables = (*self._inside((), outer), last)
                table = (*tables, self._tables.get(tables, 0))
                self._tables[tables] = self._tables.get(tables, 0) + 1
                self._note(tables, start)
                self._note(table, start)
            elif self._take("["):
                table = self._inside((), self._key())
                self._expect("]")
                self._note(table, start)
            else:
                self._pair(table, 0)

    def _inside(self, where: Where, parts: list[str]) -> Where:
        """The path that ``parts`` lead to; within a list of tables they mean its latest one."""
        for part in parts:
            where = (*where, part)
            if where in self._tables:
                where = (*where, self._tables[where] - 1)
        return where

    def _pair(self, table: Where, depth: int) -> None:
        start, where = self._at, table
        for part in self._key():
            where = (*where, part)
            self._note(where, start)
        self._expect("=")
        self._value(where, depth)

    def _value(self, where: Where, depth: int) -> None:
        self._skip(_BLANK)
        if depth > _MAX_DEPTH:
            raise _Lost
        if self._skip(_STRING) or self._skip(_FLAT_LIST):
            return
        if self._take("["):
            self._several("]", lambda i: self._entry((*where, i), depth + 1))
        elif self._take("{"):
            self._several("}", lambda _: self._pair(where, depth + 1))
        elif not self._skip(_OTHER):
            raise _Lost

    def _entry(self, where: Where, depth: int) -> None:
        self._note(where, self._at)
        self._value(where, depth)

    def _several(self, end: str, one: Any) -> None:
        """What stands between commas, up to ``end``."""
        number = 0
        while self._skip(_GAP) and not self._take(end):
            one(number)
            number += 1
            self._skip(_GAP)
            if not self._take(","):
                self._expect(end)
                return

    def _key(self) -> list[str]:
        """The parts of a dotted key, without their quotes."""
        parts = list[str]()
        start = self._at
        while True:
            self._skip(_BLANK)
            found = _KEY.match(self._text, self._at)
            if found is None:
                raise _Lost
            self._at = found.end()
            parts.append(_unquoted(found[0]))
            if len(parts) > MAX_KEY_PARTS:
                self.long_key = self._line(start)
                raise _Lost
            self._skip(_BLANK)
            if not self._take("."):
                return parts

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match is not None

    def _take(self, word: str) -> bool:
        taken = self._text.startswith(word, self._at)
        self._at += len(word) if taken else 0
        return taken

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise _Lost

    def _note(self, where: Where, at: int) -> None:
        self.found.setdefault(where, self._line(at))

    def _line(self, at: int) -> int:
        return bisect.bisect_left(self._ends, at) + 1


def _unquoted(part: str) -> str:
    if part[0] not in "\"'":
        return part
    try:
        return str(tomllib.loads(f"key = {part}")["key"])
    except ValueError:
        raise _Lost from None
