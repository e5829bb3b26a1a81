"""The cells of a study: every algorithm in every environment, each with every setting of its sweep.

A sweep is a table of lists of values, one for each dotted path into an entry's options; all combinations are run.
Values are what TOML and JSON have in common (text, numbers, true and false, lists and tables of them), so that a study
means the same from Python, from a file and from the configuration stored beside its results.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxvar.algorithms.interface import Algorithm, EpisodicAlgorithm
from jaxvar.environments.interface import Environment, EpisodicEnvironment
from jaxvar.environments.replay import ReplayBandit
from jaxvar.game import check_methods, is_episodic
from jaxvar.records import Recorder
from jaxvar.study.factories import (
    RECORDERS,
    Built,
    Factory,
    Role,
    StudyError,
    Table,
    build,
    check_name,
    check_options,
    constants_of,
    constants_table,
    error_at,
    find_factory,
    in_precision,
    short,
)

if TYPE_CHECKING:
    from jaxvar.study.definition import Entry, Study

Sweep = Mapping[str, Sequence[object]]  # dotted path -> values
_MAX_CELLS = 100_000
_MAX_DEPTH = 8  # of lists and tables; features [S, A, S, d] of a model need four
_MAX_INT = 2**63 - 1
_TOLD_BY_ENVIRONMENT = ("dim", "horizon", "num_arms", "num_states", "num_actions", "norm_bound")
_MUST_AGREE = ("dim", "horizon")


@dataclasses.dataclass(frozen=True, eq=False)
class Cell:
    """One algorithm in one environment, each with one setting."""

    hash: str  # identifies the cell's numbers, whatever its labels and the number of rounds; names its folders
    algorithm_label: str
    environment_label: str
    algorithm_settings: Table  # swept values only, by dotted path
    environment_settings: Table
    constants: str  # "paper", "practical, beta_scale 0.3", "theorem", "scaled x0.3", "fixed radius 1", "none"
    algorithm: Algorithm | EpisodicAlgorithm  # built in the study's precision
    environment: Environment | EpisodicEnvironment
    record: tuple[str, ...]  # names of recorders
    config: Mapping[str, Table]  # {"algorithm": {"name": ..., every argument}, "environment": ...}, JSON-able

    @property
    def recorders(self) -> tuple[Recorder, ...]:
        """The recorders that ``record`` names."""
        return tuple(RECORDERS[name].call() for name in self.record)

    @property
    def is_own(self) -> bool:
        """Whether a class of a user's own plays a part."""
        return any(":" in str(self.config[role]["name"]) for role in ("algorithm", "environment"))

    @property
    def title(self) -> str:
        """Labels and settings, for messages."""
        players = titled(self.algorithm_label, self.algorithm_settings)
        return f"{players} on {titled(self.environment_label, self.environment_settings)}"


def titled(label: str, setting: Table) -> str:
    """Return a label with its setting, ``'SAVE' with delta = 0.1``."""
    swept = ", ".join(f"{path} = {short(value)}" for path, value in setting.items())
    return f"{label!r} with {swept}" if swept else repr(label)


def cells(study: Study) -> tuple[Cell, ...]:
    """Build all cells: environments and their settings outermost, then algorithms, then the algorithms' settings."""
    num = math.prod(
        sum(math.prod(len(values) for values in entry.sweep.values()) for entry in entries)
        for entries in (study.algorithms, study.environments)
    )
    if num > _MAX_CELLS:
        raise StudyError(f"a study must have at most {_MAX_CELLS:,} cells, got {num:,}; sweep over fewer values")
    with in_precision(study.precision):
        found = tuple(_cells(study))
    first = dict[str, Cell]()
    for cell in found:
        twin = first.setdefault(canonical(cell.config), cell)
        if twin is not cell:
            raise StudyError(
                f"cells must differ, got the same algorithm and environment as {twin.title} and {cell.title}"
            )
    return found


def _cells(study: Study) -> Iterator[Cell]:
    made = dict[tuple[object, ...], list[tuple[Table, Built]]]()
    length: Table = {f"num_{study.unit}s": study.length}
    for i, entry in enumerate(study.environments):
        for setting, environment in _built("environment", i, entry, length):
            with error_at("environment", i, what=f"environment {titled(entry.label, setting)}"):
                if is_episodic(environment.target) != (study.kind == "episodes"):  # of one's own: known only now
                    unit = "rounds" if study.kind == "episodes" else "episodes"
                    raise StudyError(f"{type(environment.target).__name__} is played in {unit}, got num_{study.unit}s")
                most = getattr(environment.target, "max_rounds", None)
                if most is not None and study.length > most:
                    raise StudyError(f"it is given for {most} rounds, fewer than the {study.length} of the study")
            told = {name: getattr(environment.target, name, None) for name in _TOLD_BY_ENVIRONMENT}
            if told["norm_bound"] is not None:
                told["norm_bound"] = float(told["norm_bound"])
            known = {**length, **{name: value for name, value in told.items() if isinstance(value, int | float)}}
            for j, player in enumerate(study.algorithms):
                facts = (j, *known.items())
                if facts not in made:
                    made[facts] = list(_built("algorithm", j, player, known))
                for own, algorithm in made[facts]:
                    with error_at("algorithm", j, what=f"algorithm {titled(player.label, own)}"):
                        if ":" in player.name or ":" in entry.name:
                            check_methods(algorithm.target, environment.target)
                        _check_agreement(player, algorithm, environment, titled(entry.label, setting))
                        record = _checked_record(study, player, algorithm, environment)
                    config = jsonable({"algorithm": algorithm.config, "environment": environment.config})
                    numbers = {"config": config, "key": study.key, "precision": study.precision, "record": record}
                    yield Cell(
                        hash=digest(numbers),
                        algorithm_label=player.label,
                        environment_label=entry.label,
                        algorithm_settings=jsonable(own),
                        environment_settings=jsonable(setting),
                        constants=algorithm.constants,
                        algorithm=algorithm.target,
                        environment=environment.target,
                        record=record,
                        config=config,
                    )


def _built(role: Role, number: int, entry: Entry, known: Table) -> Iterator[tuple[Table, Built]]:
    """Yield every setting of an entry, with the object it gives."""
    if entry.target is not None:
        yield {}, Built(entry.target, {"name": entry.name, **entry.options}, constants_of(entry.target))
        return
    factory = find_factory(entry.name, role)
    for setting in settings(entry.sweep):
        what = f"{role} {titled(entry.label, setting)}"
        with error_at(role, number, what=what), error_at_option(entry.options, entry.sweep):
            made = build(factory, with_setting(entry.options, setting), known)
        yield setting, made


def _check_agreement(player: Entry, algorithm: Built, environment: Built, title: str) -> None:
    for name in _MUST_AGREE:
        mine, theirs = getattr(algorithm.target, name, None), getattr(environment.target, name, None)
        if mine is not None and theirs is not None and mine != theirs:
            with error_at_option(player.options, player.sweep):
                raise StudyError(f"{name} {mine} contradicts the {name} {theirs} of the environment {title}", (name,))


def _checked_record(study: Study, player: Entry, algorithm: Built, environment: Built) -> tuple[str, ...]:
    record = tuple(player.record or study.record)
    for name in record:
        if reason := unsupported(name, algorithm.target, environment.target):
            hint = "" if player.record else "; give this algorithm a record of its own"
            where = ("record",) if player.record else ()
            raise StudyError(f"record: {name!r} cannot be recorded, since {reason}{hint}", where)
    return record


def unsupported(recorder: str, algorithm: object, environment: object) -> str | None:
    """Return the reason why a recorder cannot be used here; None where it can."""
    if recorder == "confidence":
        if not hasattr(algorithm, "confidence"):
            return "the algorithm has no confidence sets of that form"
        if isinstance(environment, ReplayBandit) and environment.theta_star is None:
            return "the environment was given no theta_star"
    if recorder == "layer_rounds" and not hasattr(algorithm, "capacity"):
        return "the algorithm has no layers"
    if recorder == "simple_regret" and not hasattr(algorithm, "recommend"):
        if is_episodic(environment):
            return "it belongs to bandits and duels"
        return "the algorithm has no method `recommend` that names an arm"
    if recorder in ("optimism", "value_variance"):
        if not is_episodic(environment) or not hasattr(algorithm, "plan"):
            return "it belongs to episodes"
        plan = None
        with contextlib.suppress(NameError):
            plan = inspect.signature(algorithm.plan, eval_str=True).return_annotation
        if "value" not in getattr(plan, "_fields", ("value",)):  # an own class may not say: then it is tried
            return "the algorithm plans without values"
    return None


def plain_value(name: str, value: object, depth: int = 0) -> Any:
    """Return a copy of ``value`` in the types above: lists and arrays as tuples, NumPy's numbers as Python's."""
    if isinstance(value, np.ndarray | np.generic | jax.Array) and hasattr(value, "tolist"):  # a key has none
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


def check_sweep(factory: Factory, options: Table, given: object) -> dict[str, tuple[object, ...]]:
    """Return a sweep as dotted path -> values; refuse a wrong one, and options that are wrong in its first setting."""
    with error_at("sweep"):
        sweep = _flat_sweep(given)
    for path in sweep:
        with error_at("sweep", path):
            _check_path(factory, options, path)
    with error_at_option(options, sweep):
        check_options(factory, with_setting(options, next(settings(sweep))))
    return sweep


def _flat_sweep(sweep: object, prefix: str = "") -> dict[str, tuple[object, ...]]:
    """Return dotted path -> values. A table within the sweep continues the path: ``noise.std`` needs no quotes."""
    if not isinstance(sweep, Mapping):
        raise StudyError(f"sweep must be a table of lists, got {short(sweep)}")
    found: dict[str, tuple[object, ...]] = {}
    for name, values in sweep.items():
        if not isinstance(name, str):
            raise StudyError(f"sweep must have text as keys, got {short(name)}")
        path = f"{prefix}{name}"
        with error_at(name):
            if isinstance(values, Mapping):
                lists = _flat_sweep(values, f"{path}.")
            else:
                lists = {path: _check_values(path, values)}
        for new in lists:
            for old in found:
                if f"{new}.".startswith(f"{old}.") or f"{old}.".startswith(f"{new}."):
                    raise StudyError(f"sweep: {new!r} and {old!r} both set {min(new, old, key=len)!r}", (name,))
        found.update(lists)
    return found


def _check_values(path: str, values: object) -> tuple[object, ...]:
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, list | tuple) or not values:
        raise StudyError(f"sweep: {path} must be a list of one value or more, got {short(values)}")
    listed = tuple(plain_value(f"sweep: {path}", value) for value in values)
    seen = set[str]()
    for value in listed:
        if canonical(value) in seen:
            raise StudyError(f"sweep: {path} must not hold the same value twice, got {short(value)} twice")
        seen.add(canonical(value))
    return listed


def _check_path(factory: Factory, options: Table, path: str) -> None:
    """Refuse a path that starts at no argument of the factory or leads through what is no table."""
    first, *rest = path.split(".")
    check_name(f"argument of {factory.name} to sweep named", first, {*factory.parameters, "wrap"})
    inner = options.get(first)
    for depth, step in enumerate(rest):
        through = ".".join(path.split(".")[: depth + 1])
        if not step:
            raise StudyError(f"sweep: {path!r} has an empty part")
        if inner is not None and not isinstance(inner, Mapping) and through != "constants":
            raise StudyError(f"sweep: {path} needs {through} to be a table, got {short(inner)}")
        inner = inner.get(step) if isinstance(inner, Mapping) else None


def settings(sweep: Sweep) -> Iterator[dict[str, object]]:
    """Yield every combination, the last path varying fastest; one empty setting where nothing is swept."""
    for values in itertools.product(*sweep.values()):
        yield dict(zip(sweep, values, strict=True))


def with_setting(options: Table, setting: Table) -> dict[str, object]:
    """Return ``options`` with the swept values in their places."""
    changed = dict(options)
    for path, value in setting.items():
        *outer, last = path.split(".")
        table = changed
        for step in outer:
            inner = table.get(step)
            if step == "constants" and table is changed:
                inner = constants_table(inner)
            copy: dict[str, object] = dict(inner) if isinstance(inner, Mapping) else {}
            table[step] = copy
            table = copy
        table[last] = value
    return changed


@contextlib.contextmanager
def error_at_option(options: Table, sweep: Sweep) -> Iterator[None]:
    """Move errors about an option to the place where its value was written: in the sweep, or among the options."""
    try:
        yield
    except StudyError as error:
        path = ".".join(map(str, error.where))
        given = [swept for swept in sweep if f"{path}.".startswith(f"{swept}.")]
        if path and path.split(".")[0] not in options:
            given += [swept for swept in sweep if swept.startswith(f"{path}.")]
        raise StudyError(str(error), ("sweep", given[0]) if given else error.where) from None
