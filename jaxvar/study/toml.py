"""Studies in TOML.

A study is a file such as this one::

    name = "noise"                             # if not given, the file's name without its ending
    question = "Who notices how little noise there is?"
    seeds = 256
    rounds = 20_000                            # or: episodes = 1000
    records = { spacing = "log", number = 60 } # or a number (evenly spaced), or a list of rounds; default: 100, evenly
    record = ["regret", "variance"]            # names from jaxvar.record; this is the default
    key = 0                                    # the root key is jax.random.key(0)
    precision = "float64"                      # or "float32"
    chunk = 1024                               # seeds per shard; chosen if not given
    reference = "OFUL (theorem)"               # label of the algorithm that others are compared with
    first_seed = 0

    [[algorithm]]
    name = "save"                              # a public factory: jaxvar.save
    label = "SAVE (practical)"                 # if not given, the name
    constants = "practical"                    # a preset of jaxvar.constants, or { preset = "paper", beta_scale = 0.3 }
    explore = "optimistic"                     # any argument of the factory
    record = ["regret", "layer_rounds"]        # for this algorithm, instead of the study's
    [algorithm.sweep]                          # lists; the product of all of them is run
    noise_bound = [0.5, 1.0]
    "constants.beta_scale" = [0.1, 0.3]        # a dotted path into a table

    [[algorithm]]
    name = "oful"
    label = "OFUL (theorem)"

    [[environment]]
    name = "linear_bandit"
    dim = 5
    num_arms = 20
    noise = { name = "two_point", std = 0.1 }  # jaxvar.noise; std may be { name = "bursts", ... } of jaxvar.schedules
    [environment.sweep]
    "noise.std" = [0.0, 0.1, 0.3, 1.0]
    dim = [2, 4, 8]                            # sizes too: the algorithms follow

Arguments that the study or the environment knows (``num_rounds``, ``num_episodes``, ``dim``, ``horizon``,
``norm_bound``) are filled in where a factory takes them and they are not given. Given ones are used as they are, but a
``dim`` or ``horizon`` other than the environment's is refused. ``noise_bound`` is never filled in: what an algorithm is
told of the noise is part of the question. Arrays (``arms``, ``phi``, ...) are lists of lists. Every ``record`` must
have the regret in it, and a recorder that an algorithm cannot serve is an error; give that algorithm a ``record`` of
its own.

Everything is checked when the file is read, and an error says the line of the key it is about. Python's own reader does
not say lines: :class:`KeyLines` finds them. It is no second reader: it finds keys and skips values, and it stops at
what it does not understand; ``tomllib`` decides what is right and what a value means.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import difflib
import re
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

from jaxvar.study.definition import Study
from jaxvar.study.factories import RunError, StudyError
from jaxvar.study.store import read_manifest

Where = tuple[str | int, ...]
_NAMED = Path(__file__).with_name("named")
_MAX_BYTES = 1_000_000
_MAX_KEY_PARTS = 20  # ``tomllib`` takes quadratic time in the parts of a dotted key
_MAX_DEPTH = 50  # of lists and tables within each other
_BLANK = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")  # between statements, and anywhere in a list
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_DOTTED_KEY = re.compile(rf"(?:{_KEY.pattern})(?:[ \t]*\.[ \t]*(?:{_KEY.pattern}))*")
_STRING = re.compile(r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''', re.DOTALL)
_FLAT_LIST = re.compile(r"""\[[^\[\]"'{}#]*\]""")  # of numbers: nothing in it has a name
_OTHER = re.compile(r"[^,\[\]{}\n#]+")  # numbers, dates, true and false


def named_studies() -> dict[str, Path]:
    """Return the files of the studies that come with jaxvar, by name."""
    return {path.stem: path for path in sorted(_NAMED.glob("*.toml"))}


def read_study(path: str | Path) -> Study:
    """Read a study from a TOML file, or one of those that come with jaxvar by its name: ``read_study("headline")``.

    A path that ends in ``.json`` is the ``run.json`` of a study that was run: the same study is returned.

    Raises:
      StudyError: a ``ValueError`` with file, line and what is wrong there.
    """
    path = named_studies().get(str(path), Path(path))
    if path.suffix == ".json" and path.exists():
        return _stored_study(path)
    text = _text(path)
    lines = KeyLines(text)
    if lines.long_key is not None:
        raise StudyError(f"{path}:{lines.long_key}: a key must have at most {_MAX_KEY_PARTS} parts")
    config = {"name": path.stem, **_parsed(path, text)}
    try:
        return Study.from_config(config)
    except StudyError as error:
        raise StudyError(f"{_place(path, lines.line(error.where))}: {error}", error.where) from None


def _stored_study(path: Path) -> Study:
    """Return the study that a ``run.json`` holds, with the chunk that it was played in: sums may depend on it."""
    try:
        manifest = read_manifest(path.parent, path.name)
        study = Study.from_config(manifest.study)
    except StudyError as error:
        raise StudyError(f"{path}: {error}", error.where) from None
    except RunError as error:
        raise StudyError(str(error)) from None
    chunks = {cell.chunk for cell in manifest.cells}
    return dataclasses.replace(study, chunk=chunks.pop()) if study.chunk is None and len(chunks) == 1 else study


def _text(path: Path) -> str:
    """Return the file's text, its lines ending in a line feed; a file that is too large is not read."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise StudyError(f"{path}: a study must be a file")
        if found.st_size > _MAX_BYTES:
            raise StudyError(f"{path}: a study must have at most {_MAX_BYTES:,} bytes, got {found.st_size:,}")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        near = difflib.get_close_matches(str(path), named_studies(), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(named_studies())}"
        raise StudyError(f"{path}: there is no such file, and no study of that name; {hint}") from None
    except (OSError, ValueError) as error:
        if isinstance(error, StudyError):
            raise
        raise StudyError(f"{str(path)!r}: the study cannot be read: {error}") from None
    if len(content) > _MAX_BYTES:
        raise StudyError(f"{path}: a study must have at most {_MAX_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise StudyError(f"{path}:{line}: a study must be UTF-8, got the byte {content[error.start]:#04x}") from None


def _parsed(path: Path, text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise StudyError(f"{path}: lists and tables are nested too deep") from None
    except ValueError as error:  # not only TOMLDecodeError: an integer may have too many digits for Python
        reason = re.sub(r" \(at .*\)$", "", str(error))
        at = re.search(r"\(at line (\d+), column \d+\)$", str(error))
        ended = text.count("\n") + 1 if str(error).endswith("(at end of document)") else None
        place = _place(path, int(at[1]) if at else ended)
        raise StudyError(f"{place}: this is not TOML: {reason}") from None


def _place(path: Path, line: int | None) -> str:
    return f"{path}" if line is None else f"{path}:{line}"


class _NotUnderstood(Exception):
    """The text is not as TOML should be."""


class KeyLines:
    """The lines of all keys, tables and entries of lists in ``text``, whose lines end in a line feed."""

    def __init__(self, text: str) -> None:
        self.found: dict[Where, int] = {}  # the first line of each
        self.long_key: int | None = None  # the line of a key with too many parts, where reading stopped
        self._text, self._at = text, 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._tables: dict[Where, int] = {}  # how many tables each list of tables has so far
        with contextlib.suppress(_NotUnderstood):
            self._document()

    def line(self, where: Where) -> int | None:
        """Return the line of the key at the path ``where``, or of the nearest table around it that has one.

        A key ``"noise.std"`` at the end of the path may have been written with or without its quotes.
        """
        *outer, last = where or ("",)
        paths = (where, (*outer, *str(last).split(".")), *(where[:n] for n in range(len(where), 0, -1)))
        return next((self.found[path] for path in paths if path in self.found), None)

    def _document(self) -> None:
        table: Where = ()
        while self._skip(_GAP) and self._at < len(self._text):
            start = self._at
            if self._skip(r"\[\["):
                *outer, last = self._key()
                self._expect(r"\]\]")
                tables = (*self._inside((), outer), last)
                table = (*tables, self._tables.get(tables, 0))
                self._tables[tables] = self._tables.get(tables, 0) + 1
                self._remember(tables, start)
                self._remember(table, start)
            elif self._skip(r"\["):
                table = self._inside((), self._key())
                self._expect(r"\]")
                self._remember(table, start)
            else:
                self._pair(table, 0)

    def _inside(self, where: Where, parts: list[str]) -> Where:
        """Return the path that ``parts`` lead to; within a list of tables they mean its latest one."""
        for part in parts:
            where = (*where, part)
            if where in self._tables:
                where = (*where, self._tables[where] - 1)
        return where

    def _pair(self, table: Where, depth: int) -> None:
        start, where = self._at, table
        for part in self._key():
            where = (*where, part)
            self._remember(where, start)
        self._expect("=")
        self._value(where, depth)

    def _value(self, where: Where, depth: int) -> None:
        self._remember(where, self._at)  # an entry of a list; a key was found before
        self._skip(_BLANK)
        if depth > _MAX_DEPTH:
            raise _NotUnderstood
        if self._skip(_STRING) or self._skip(_FLAT_LIST):
            return
        if self._skip(r"\["):
            self._comma_separated(r"\]", lambda i: self._value((*where, i), depth + 1))
        elif self._skip("{"):
            self._comma_separated("}", lambda _: self._pair(where, depth + 1))
        else:
            self._expect(_OTHER)

    def _comma_separated(self, end: str, one: Callable[[int], None]) -> None:
        """Read what stands between commas, up to ``end``, with ``one`` (number of the part)."""
        number = 0
        while self._skip(_GAP) and not self._skip(end):
            one(number)
            number += 1
            self._skip(_GAP)
            if not self._skip(","):
                self._expect(end)
                return

    def _key(self) -> list[str]:
        """Read a dotted key; returns its parts without their quotes."""
        self._skip(_BLANK)
        start = self._at
        self._expect(_DOTTED_KEY)
        parts = _KEY.findall(self._text, start, self._at)
        if len(parts) > _MAX_KEY_PARTS:
            self.long_key = self._line(start)
            raise _NotUnderstood
        self._skip(_BLANK)
        return list(map(_unquoted, parts))

    def _skip(self, pattern: re.Pattern[str] | str) -> bool:
        match = re.compile(pattern).match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match is not None

    def _expect(self, pattern: re.Pattern[str] | str) -> None:
        if not self._skip(pattern):
            raise _NotUnderstood

    def _remember(self, where: Where, at: int) -> None:
        self.found.setdefault(where, self._line(at))

    def _line(self, at: int) -> int:
        return bisect.bisect_left(self._ends, at) + 1


def _unquoted(part: str) -> str:
    if part[0] not in "\"'":
        return part
    try:
        return str(tomllib.loads(f"key = {part}")["key"])
    except ValueError:
        raise _NotUnderstood from None
