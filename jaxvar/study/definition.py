"""What a study is: frozen dataclasses that refuse, when they are made, whatever could not be run.

:class:`Study` and :class:`Entry` are the same from Python, from TOML (:mod:`jaxvar.study.toml_file`) and from the
configuration stored with results: all three end in these constructors, and so meet the same checks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxvar import parameters
from jaxvar.study import fields, names
from jaxvar.study.building import check_options
from jaxvar.study.cells import MAX_CELLS, cells, num_cells
from jaxvar.study.errors import StudyError, inside
from jaxvar.study.plain import jsonable, plain, short, text
from jaxvar.study.settings import check_paths, plain_sweep, settings, with_setting, written

DEFAULT_RECORD = ("regret", "variance")
_ENTRY_KEYS = ("name", "label", "record", "sweep")
_ROLES: tuple[tuple[names.Role, str], ...] = (("algorithm", "algorithms"), ("environment", "environments"))


@dataclasses.dataclass(frozen=True)
class Entry:
    """One algorithm or one environment of a study, with all the settings it is swept over.

    Args:
      name: of a public factory, ``"save"`` for :func:`jaxvar.save`.
      label: how figures and tables call it; the name if not given.
      options: arguments of the factory. ``noise`` is a table such as ``{"name": "two_point", "std": 0.1}`` (its ``std``
        may be a table of a schedule), ``constants`` the name of a preset or a table such as
        ``{"preset": "paper", "beta_scale": 0.3}``, arrays are lists of lists.
      sweep: dotted path of an option -> list of values; the product of all lists is run.
      record: names of recorders for this algorithm, instead of the study's.
    """

    name: str
    label: str = None  # type: ignore[assignment]  # becomes the name
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sweep: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    record: Sequence[str] | None = None

    def __post_init__(self) -> None:
        with inside("name"):
            factory = names.factories()[names.known("algorithm or environment", self.name, names.factories())]
        with inside("label"):
            label = self.name if self.label is None else text("label", self.label)
        if not isinstance(self.options, Mapping):
            raise StudyError(f"options must be a mapping, got {short(self.options)}")
        with inside(what=f"{factory.role} {label!r}"):
            options = {}
            for name, value in self.options.items():
                with inside(name):
                    options[name] = plain(str(name), value)
            with inside("sweep"):
                sweep = plain_sweep(self.sweep)
            check_paths(factory, options, sweep)
            with written(options, sweep):
                check_options(factory, with_setting(options, next(settings(sweep))))
            with inside("record"):
                record = self.record if self.record is None else fields.record(self.record)
                if record is not None and factory.role == "environment":
                    raise StudyError("record belongs to the study or to an algorithm, not to an environment")
        _set(self, label=label, options=options, sweep=sweep, record=record)

    def to_config(self) -> dict[str, Any]:
        """The entry as its table in TOML has it."""
        config = {"name": self.name, "label": self.label, **self.options}
        if self.sweep:
            config["sweep"] = self.sweep
        if self.record is not None:
            config["record"] = self.record
        return dict(jsonable(config))

    @staticmethod
    def from_config(config: Any, role: names.Role) -> Entry:
        """From such a table."""
        if not isinstance(config, Mapping):
            raise StudyError(f"{role} must be a table, got {short(config)}")
        if "name" not in config:
            raise StudyError(f"name must be given to every {role}")
        with inside("name"):
            _of_role(config["name"], role)
        named = {key: config[key] for key in _ENTRY_KEYS if key in config}
        factory = names.factories()[config["name"]]
        for key in config:
            with inside(key):
                names.known(
                    f"key in the table of {role} {factory.name} named", key, (*_ENTRY_KEYS, *factory.parameters)
                )
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
      key: the root key is ``jax.random.key(key)``.
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
    record: Sequence[str] = DEFAULT_RECORD
    key: int = 0
    precision: str = "float64"
    chunk: int | None = None
    reference: str | None = None
    first_seed: int = 0

    def __post_init__(self) -> None:
        _check_fields(self)
        _set(self, algorithms=_entries(self, "algorithm"), environments=_entries(self, "environment"))
        with inside("reference"):
            if self.reference is not None:
                names.known(
                    "algorithm to be the reference with the label", self.reference, [e.label for e in self.algorithms]
                )
        if num_cells(self) > MAX_CELLS:
            raise StudyError(
                f"a study must have at most {MAX_CELLS:,} cells, got {num_cells(self):,}; sweep over fewer values"
            )
        cells(self)  # every value of every setting meets its factory now, and not in the middle of a run

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
    def recorded(self) -> np.ndarray[Any, Any]:
        """The recorded rounds (or episodes), [records] int32."""
        return fields.recorded(self.records, self.length)

    def to_config(self) -> dict[str, Any]:
        """Everything as JSON can hold it; :meth:`from_config` makes the same study of it again."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        config = {name: value for name, value in values.items() if value is not None}
        for role, field in _ROLES:
            config[role] = [entry.to_config() for entry in config.pop(field)]
        return dict(jsonable(config))

    @staticmethod
    def from_config(config: Any) -> Study:
        """From what TOML holds: ``algorithm`` and ``environment`` are lists of tables."""
        if not isinstance(config, Mapping):
            raise StudyError(f"a study must be a table, got {short(config)}")
        plural = {field for _, field in _ROLES}
        own = {f.name: f.default for f in dataclasses.fields(Study) if f.name not in plural}
        for key in config:
            with inside(key):
                names.known("key of a study named", key, (*own, *dict(_ROLES)))
        for name, default in own.items():
            if default is dataclasses.MISSING and name not in config:
                raise StudyError(f"{name} must be given")
        given = {name: config[name] for name in config if name in own}
        for role, field in _ROLES:
            given[field] = [_entry(config[role], role, i) for i in range(_length(config, role))]
        return Study(**given)


def _set(target: Any, **values: Any) -> None:
    """Put checked values in the place of what was given to a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(target, name, value)


def _check_fields(study: Study) -> None:
    for name, check in fields.CHECKS.items():
        with inside(name):
            _set(study, **{name: check(getattr(study, name))})
    if (study.rounds is None) == (study.episodes is None):
        got = "both" if study.rounds is not None else "neither"
        raise StudyError(
            f"give rounds (for bandits) or episodes (for Markov decision processes), got {got}", ("episodes",)
        )
    with inside("first_seed"):
        parameters.check_count("first_seed", study.first_seed, low=0, high=fields.MAX_INT32 - study.seeds)
    with inside("records"):
        num = len(study.recorded)
        if study.seeds * num > fields.MAX_INT32:
            raise StudyError(f"seeds times records must be at most 2^31 - 1, got {study.seeds} times {num}")


def _entries(study: Study, role: names.Role) -> tuple[Entry, ...]:
    """The checked entries of a role: all of it, all of the study's kind, all labels different."""
    given = getattr(study, dict(_ROLES)[role])
    if not isinstance(given, list | tuple) or not given:
        raise StudyError(f"{role}s must be one {role} or more, got {short(given)}", (role,))
    labels = set[str]()
    for i, entry in enumerate(given):
        with inside(role, i):
            if not isinstance(entry, Entry):
                raise StudyError(f"{role}s must be a list of jaxvar.Entry, got {short(entry)}")
            with inside("name"):
                factory = names.factories()[_of_role(entry.name, role)]
                if study.kind not in factory.kinds:
                    (kind,) = factory.kinds
                    wrong = f"{entry.name} is for {_KINDS[kind]}, but the study for {_KINDS[study.kind]}"
                    raise StudyError(f"{role} {entry.label!r}: {wrong}")
            if entry.label in labels:
                raise StudyError(f"labels of {role}s must differ, got {entry.label!r} twice", ("label",))
            labels.add(entry.label)
    return tuple(given)


_KINDS = {"bandit": "bandits, in rounds", "episodes": "Markov decision processes, in episodes"}


def _of_role(name: Any, role: names.Role) -> str:
    factory = names.factories().get(name) if isinstance(name, str) else None
    if factory is not None and factory.role != role:
        raise StudyError(f"{name!r} is an {factory.role}, not an {role}")
    return names.known(role, name, names.of_role(role))


def _length(config: Mapping[str, Any], role: str) -> int:
    tables = config.get(role)
    if not isinstance(tables, list | tuple) or not tables:
        raise StudyError(f"a study must have one [[{role}]] or more, got {short(tables)}", (role,))
    return len(tables)


def _entry(tables: Any, role: names.Role, number: int) -> Entry:
    with inside(role, number):
        return Entry.from_config(tables[number], role)
