"""The definition of a study: frozen dataclasses that refuse, when they are made, whatever could not be run.

:class:`Study` and :class:`Entry` are the same from Python, from TOML (:mod:`jaxvar.study.toml`) and from the
configuration stored with results: all three end in these constructors, and so meet the same checks.
"""

from __future__ import annotations

import dataclasses
import functools
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxvar import memory, parameters
from jaxvar.parameters import Array
from jaxvar.records import MAX_RECORDS, linear_spaced, log_spaced, record_rounds
from jaxvar.study.cells import Cell, cells, check_sweep, jsonable, plain_value
from jaxvar.study.factories import (
    PRECISIONS,
    RECORDERS,
    Role,
    StudyError,
    Table,
    check_name,
    error_at,
    find_factory,
    short,
)
from jaxvar.study.own import class_name, described, with_arrays

_DEFAULT_RECORD = ("regret", "variance")
_ENTRY_KEYS = ("name", "label", "record", "sweep")
_ROLES: dict[Role, str] = {"algorithm": "algorithms", "environment": "environments"}  # TOML's key -> Study's field
_KINDS = {"bandit": "bandits, in rounds", "episodes": "Markov decision processes, in episodes"}
_SPACINGS = {"linear": linear_spaced, "log": log_spaced}
_MAX_INT32 = 2**31 - 1  # rounds and seeds are int32
MAX_QUESTION = 2000  # characters
_MAX_TEXT = 200  # characters of a label
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of characters, separators of lines


@dataclasses.dataclass(frozen=True)
class Entry:
    """One algorithm or one environment of a study, with all the settings it is swept over.

    Args:
      name: of a public factory, ``"save"`` for :func:`jaxvar.save`, or of a class or function of one's own,
        ``"package.module:Name"``, where the working folder or Python's path has the package.
      label: how figures and tables call it; the name if not given.
      options: arguments of the factory. ``noise`` is a table such as ``{"name": "two_point", "std": 0.1}`` (its ``std``
        may be a table of a schedule), ``constants`` the name of a preset or a table such as
        ``{"preset": "paper", "beta_scale": 0.3}``, arrays are lists of lists.
      sweep: dotted path of an option -> list of values; the product of all lists is run.
      record: names of recorders for this algorithm, instead of the study's.
      target: an object that is there already, which :func:`jaxvar.compare` gives instead of options and a sweep; the
        name becomes that of its class.
    """

    name: str
    label: str = None  # type: ignore[assignment]  # becomes the name
    options: Table = dataclasses.field(default_factory=dict)
    sweep: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    record: Sequence[str] | None = None
    target: object = dataclasses.field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.target is not None:
            _set(self, label=check_text("label", self.label), name=class_name(self.target))
            _set(self, options=described(self.target), target=with_arrays(self.target))
            return
        with error_at("name"):
            factory = find_factory(self.name)
        with error_at("label"):
            label = self.name if self.label is None else check_text("label", self.label)
        if not isinstance(self.options, Mapping):
            raise StudyError(f"options must be a mapping, got {short(self.options)}")
        with error_at(what=f"{factory.role or 'entry'} {label!r}"):
            options = {}
            for name, value in self.options.items():
                with error_at(name):
                    if name in _ENTRY_KEYS:
                        raise StudyError(f"{name} is a key of every entry, and cannot be an argument of {self.name}")
                    options[name] = plain_value(str(name), value)
            sweep = check_sweep(factory, options, self.sweep)
            with error_at("record"):
                record = self.record if self.record is None else _check_record(self.record)
                if record is not None and factory.role == "environment":
                    raise StudyError("record belongs to the study or to an algorithm, not to an environment")
        _set(self, label=label, options=options, sweep=sweep, record=record)

    def to_config(self) -> dict[str, object]:
        """Return the entry as its table in TOML has it."""
        config = {"name": self.name, "label": self.label, **self.options}
        if self.sweep:
            config["sweep"] = self.sweep
        if self.record is not None:
            config["record"] = self.record
        return dict(jsonable(config))

    @staticmethod
    def from_config(config: object, role: Role) -> Entry:
        """Return the entry of such a table."""
        if not isinstance(config, Mapping):
            raise StudyError(f"{role} must be a table, got {short(config)}")
        if "name" not in config:
            raise StudyError(f"name must be given to every {role}")
        with error_at("name"):
            if "object" in config:
                raise StudyError(
                    f"{config['name']!r} was an object in Python, which its description cannot build again"
                )
            factory = find_factory(config["name"], role)
        named = {key: config[key] for key in _ENTRY_KEYS if key in config}
        for key in config:
            with error_at(key):
                allowed = (*_ENTRY_KEYS, "wrap", *factory.parameters)
                check_name(f"key in the table of {role} {factory.name} named", key, allowed)
        return Entry(**named, options={key: value for key, value in config.items() if key not in named})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """Algorithms, environments, and how long and how often the ones play the others.

    Args:
      name: a word or a few.
      question: what the study is to answer.
      seeds: seeds per cell, numbered from ``first_seed``.
      rounds: rounds per seed, where the environments are bandits.
      episodes: episodes per seed, where they are Markov decision processes.
      algorithms: at least one.
      environments: at least one.
      records: how many evenly spaced rounds (or episodes) to record, or which, or
        ``{"spacing": "log", "number": 60}``; 100 evenly spaced ones if not given.
      record: names of recorders, for every algorithm without a ``record`` of its own.
      key: the root key is ``jax.random.key(key)``; from 2^32 on, its two words are those of the number.
      precision: ``float64`` or ``float32``.
      chunk: seeds per shard; chosen if not given.
      reference: label of the algorithm that others are compared with.
      first_seed: number of the first seed.
    """

    name: str
    seeds: int
    algorithms: Sequence[Entry]
    environments: Sequence[Entry]
    question: str = ""
    rounds: int | None = None
    episodes: int | None = None
    records: int | Sequence[int] | Mapping[str, Any] | None = None
    record: Sequence[str] = _DEFAULT_RECORD
    key: int = 0
    precision: str = "float64"
    chunk: int | None = None
    reference: str | None = None
    first_seed: int = 0

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            with error_at(name):
                _set(self, **{name: check(getattr(self, name))})
        if (self.rounds is None) == (self.episodes is None):
            got = "both" if self.rounds is not None else "neither"
            raise StudyError(
                f"give rounds (for bandits) or episodes (for Markov decision processes), got {got}", ("episodes",)
            )
        with error_at("first_seed"):
            parameters.check_count("first_seed", self.first_seed, low=0, high=_MAX_INT32 - self.seeds)
        with error_at("records"):
            num = len(self.recorded)
            if self.seeds * num > _MAX_INT32:
                raise StudyError(f"seeds times records must be at most 2^31 - 1, got {self.seeds} times {num}")
        _set(self, **{field: _check_entries(self, role) for role, field in _ROLES.items()})
        with error_at("reference"):
            if self.reference is not None:
                labels = [e.label for e in self.algorithms]
                check_name("algorithm to be the reference with the label", self.reference, labels)
        num = len(self.cells)  # every value of every setting meets its factory now, and not in the middle of a run
        if self.chunk is not None:
            with error_at("chunk"):
                memory.check_calls(num * -(-self.seeds // self.chunk), num * self.seeds, "seeds", "shards")

    @functools.cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every algorithm in every environment, each with every one of its settings."""
        return cells(self)

    @property
    def kind(self) -> str:
        """``bandit`` or ``episodes``."""
        return "bandit" if self.episodes is None else "episodes"

    @property
    def unit(self) -> str:
        """``round`` or ``episode``."""
        return "round" if self.episodes is None else "episode"

    @property
    def length(self) -> int:
        """Rounds or episodes per seed."""
        length = self.rounds if self.episodes is None else self.episodes
        assert length is not None  # one of the two was given
        return length

    @property
    def recorded(self) -> Array:
        """The recorded rounds (or episodes), [records] int32."""
        return recorded_rounds(self.records, self.length)

    def to_config(self) -> dict[str, object]:
        """Return everything as JSON can hold it; :meth:`from_config` makes the same study of it again."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        config = {name: value for name, value in values.items() if value is not None}
        for role, field in _ROLES.items():
            config[role] = [entry.to_config() for entry in config.pop(field)]
        return dict(jsonable(config))

    @staticmethod
    def from_config(config: object) -> Study:
        """Return the study that TOML or JSON holds: ``algorithm`` and ``environment`` are lists of tables."""
        if not isinstance(config, Mapping):
            raise StudyError(f"a study must be a table, got {short(config)}")
        own = {f.name: f.default for f in dataclasses.fields(Study) if f.name not in _ROLES.values()}
        for key in config:
            with error_at(key):
                check_name("key of a study named", key, (*own, *_ROLES))
        for name, default in own.items():
            if default is dataclasses.MISSING and name not in config:
                raise StudyError(f"{name} must be given")
        given = {name: config[name] for name in config if name in own}
        for role, field in _ROLES.items():
            tables = config.get(role)
            if not isinstance(tables, list | tuple) or not tables:
                raise StudyError(f"a study must have one [[{role}]] or more, got {short(tables)}", (role,))
            given[field] = []
            for i, table in enumerate(tables):
                with error_at(role, i):
                    given[field].append(Entry.from_config(table, role))
        return Study(**given)


def _set(of: Entry | Study, /, **values: object) -> None:
    """Put checked values in the place of what was given to a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(of, name, value)


def _check_entries(study: Study, role: Role) -> tuple[Entry, ...]:
    """Return the entries of a role, all of them of the study's kind and with different labels."""
    given = getattr(study, _ROLES[role])
    if not isinstance(given, list | tuple) or not given:
        raise StudyError(f"{role}s must be one {role} or more, got {short(given)}", (role,))
    labels = set[str]()
    for i, entry in enumerate(given):
        with error_at(role, i):
            if not isinstance(entry, Entry):
                raise StudyError(f"{role}s must be a list of jaxvar.Entry, got {short(entry)}")
            with error_at("name"):
                factory = find_factory(entry.name, role) if entry.target is None else None
                if factory is not None and study.kind not in factory.kinds:
                    kinds = " or ".join(_KINDS[kind] for kind in factory.kinds) or "neither rounds nor episodes"
                    wrong = f"{entry.name} is for {kinds}, but the study for {_KINDS[study.kind]}"
                    raise StudyError(f"{role} {entry.label!r}: {wrong}")
            if entry.label in labels:
                raise StudyError(f"labels of {role}s must differ, got {entry.label!r} twice", ("label",))
            labels.add(entry.label)
    return tuple(given)


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


def check_study_name(value: object) -> str:
    """Return ``value``, a text that can name a file or a folder and never leads out of the one it is put in."""
    name = check_text("name", value)
    if name.startswith(".") or any(c in name for c in "/\\"):  # it may become a folder's name
        raise StudyError(f"name must not start with a dot nor hold slashes, got {short(name)}")
    return name


def _check_record(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise StudyError(f"record must be a list of recorders' names, got {short(value)}")
    for i, name in enumerate(value):
        with error_at(i):
            check_name("recorder", name, RECORDERS)
    if len(set(value)) < len(value):
        raise StudyError(f"record must not name a recorder twice, got {short(list(value))}")
    if "regret" not in value:
        raise StudyError(f"record must have 'regret' among its names, got {short(list(value))}")
    return tuple(value)


def _check_records(value: object) -> object:
    """Check the form only; :func:`recorded_rounds` checks the numbers, once the number of rounds is known."""
    if value is None or isinstance(value, bool):
        return value if value is None else parameters.check_count("records", value)
    value = plain_value("records", value)
    if isinstance(value, Mapping):
        for key in value:
            with error_at(key):
                check_name("key of records named", key, ("spacing", "number"))
        if set(value) != {"spacing", "number"}:
            raise StudyError(f"records must have a spacing and a number, got {short(value)}")
        with error_at("spacing"):
            check_name("spacing of records", value["spacing"], _SPACINGS)
        with error_at("number"):
            parameters.check_count("records.number", value["number"])
    return value


def recorded_rounds(records: int | Sequence[int] | Mapping[str, Any] | None, length: int) -> Array:
    """Return the rounds that ``records`` stands for, [records] int32."""
    if not isinstance(records, Mapping):
        return record_rounds(records, length, "records")
    low = 2 if records["spacing"] == "log" and length > 1 else 1  # from the first round to the last
    most = min(length, MAX_RECORDS)
    number = parameters.check_count("records.number", records["number"], low=low, high=most)
    return _SPACINGS[records["spacing"]](length, number)


def _count(
    name: str, *, low: int = 1, high: int = _MAX_INT32, optional: bool = False
) -> Callable[[object], int | None]:
    def check(value: object) -> int | None:
        return None if optional and value is None else parameters.check_count(name, value, low=low, high=high)

    return check


_CHECKS: dict[str, Callable[[object], object]] = {
    "name": check_study_name,
    "question": lambda v: v if v == "" else check_text("question", v, most=MAX_QUESTION, lines=True),
    "seeds": _count("seeds"),
    "rounds": _count("rounds", high=parameters.MAX_COUNT, optional=True),
    "episodes": _count("episodes", high=parameters.MAX_COUNT, optional=True),
    "records": _check_records,
    "record": _check_record,
    "key": lambda v: parameters.check_count("key", v, low=0, high=2**64 - 1),
    "precision": lambda v: check_name("precision", v, PRECISIONS),
    "chunk": _count("chunk", optional=True),
    "first_seed": _count("first_seed", low=0),
}
