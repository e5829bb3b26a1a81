"""The cells of a study: every algorithm in every environment, each with every one of its settings."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jaxvar.study import names, support
from jaxvar.study.building import Built, build
from jaxvar.study.errors import StudyError, inside
from jaxvar.study.plain import canonical, digest, jsonable, short
from jaxvar.study.precision import in_precision
from jaxvar.study.settings import count, settings, with_setting, written

if TYPE_CHECKING:
    from jaxvar.study.definition import Entry, Study

MAX_CELLS = 100_000
_OF_ENVIRONMENT = ("dim", "horizon", "num_arms", "num_states", "num_actions", "norm_bound")
_MUST_AGREE = ("dim", "horizon")


@dataclasses.dataclass(frozen=True, eq=False)
class Cell:
    """One algorithm in one environment, each with one setting."""

    algorithm_label: str
    environment_label: str
    algorithm_settings: Mapping[str, Any]  # swept values only, by dotted path
    environment_settings: Mapping[str, Any]
    constants: str  # "paper", "practical, beta_scale 0.3", "theorem", "scaled x0.3", "fixed radius 1", "none"
    algorithm: Any  # built in the study's precision
    environment: Any
    record: tuple[str, ...]  # names of recorders
    config: Mapping[str, Any]  # {"algorithm": {"name": ..., every argument}, "environment": ...}, JSON-able

    @functools.cached_property
    def digest(self) -> str:
        """Identifies the config, whatever the labels are."""
        return digest(self.config)

    @property
    def recorders(self) -> tuple[Any, ...]:
        """What ``record`` names."""
        return tuple(names.RECORDERS[name].call() for name in self.record)

    @property
    def title(self) -> str:
        """Labels and settings, for messages."""
        parts = ((self.algorithm_label, self.algorithm_settings), (self.environment_label, self.environment_settings))
        return " on ".join(titled(label, setting) for label, setting in parts)


def titled(label: str, setting: Mapping[str, Any]) -> str:
    """``'SAVE' with delta = 0.1``."""
    swept = ", ".join(f"{path} = {short(value)}" for path, value in setting.items())
    return f"{label!r} with {swept}" if swept else repr(label)


def num_cells(study: Study) -> int:
    """How many cells there are, without making them."""
    algorithms, environments = (
        sum(count(entry.sweep) for entry in entries) for entries in (study.algorithms, study.environments)
    )
    return algorithms * environments


def cells(study: Study) -> tuple[Cell, ...]:
    """Environments and their settings outermost, then algorithms in the study's order, then their settings."""
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
    made = dict[tuple[Any, ...], list[tuple[dict[str, Any], Built]]]()
    for i, entry in enumerate(study.environments):
        for setting, environment in _built("environment", i, entry, _of_study(study)):
            with inside("environment", i, what=f"environment {titled(entry.label, setting)}"):
                _check_length(study, environment.target)
                known = {**_of_study(study), **_of(environment.target)}
            for j, player in enumerate(study.algorithms):
                facts = (j, *known.items())
                if facts not in made:
                    made[facts] = list(_built("algorithm", j, player, known))
                for own, algorithm in made[facts]:
                    yield _cell(study, (j, player, own, algorithm), (entry, setting, environment))


def _built(role: str, number: int, entry: Entry, known: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Built]]:
    """Every setting of an entry, with the object it gives."""
    factory = names.factories()[entry.name]
    for setting in settings(entry.sweep):
        what = f"{role} {titled(entry.label, setting)}"
        with inside(role, number, what=what), written(entry.options, entry.sweep):
            made = build(factory, with_setting(entry.options, setting), known)
        yield setting, made


def _cell(study: Study, playing: tuple[int, Entry, Any, Built], played: tuple[Entry, Any, Built]) -> Cell:
    number, player, own, algorithm = playing
    entry, setting, environment = played
    with inside("algorithm", number, what=f"algorithm {titled(player.label, own)}"):
        for name in _MUST_AGREE:
            mine, theirs = getattr(algorithm.target, name, None), getattr(environment.target, name, None)
            if mine is not None and theirs is not None and mine != theirs:
                against = f"the {name} {theirs} of the environment {titled(entry.label, setting)}"
                with written(player.options, player.sweep):
                    raise StudyError(f"{name} {mine} contradicts {against}", (name,))
        record = tuple(player.record or study.record)
        for name in record:
            if reason := support.unsupported(name, algorithm.target, environment.target):
                hint = "" if player.record else "; give this algorithm a record of its own"
                where = ("record",) if player.record else ()
                raise StudyError(f"record: {name!r} cannot be recorded, since {reason}{hint}", where)
    return Cell(
        algorithm_label=player.label,
        environment_label=entry.label,
        algorithm_settings=jsonable(own),
        environment_settings=jsonable(setting),
        constants=algorithm.constants,
        algorithm=algorithm.target,
        environment=environment.target,
        record=record,
        config=jsonable({"algorithm": algorithm.config, "environment": environment.config}),
    )


def _of_study(study: Study) -> dict[str, Any]:
    return {"num_rounds": study.rounds} if study.episodes is None else {"num_episodes": study.episodes}


def _of(environment: Any) -> dict[str, Any]:
    """What an environment tells the algorithms that ask: sizes, and how long an arm or a parameter may be."""
    found = {name: getattr(environment, name, None) for name in _OF_ENVIRONMENT}
    if found["norm_bound"] is not None:
        found["norm_bound"] = float(found["norm_bound"])
    return {name: value for name, value in found.items() if value is not None}


def _check_length(study: Study, environment: Any) -> None:
    most = getattr(environment, "max_rounds", None)
    if most is not None and study.length > most:
        raise StudyError(f"it is given for {most} rounds, fewer than the {study.length} of the study")
