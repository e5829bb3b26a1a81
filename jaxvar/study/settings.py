"""Sweeps: lists of values for dotted paths into an entry's options, and the product of them all."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from jaxvar.study import names
from jaxvar.study.building import constants_table
from jaxvar.study.errors import StudyError, inside
from jaxvar.study.plain import canonical, plain, short


def plain_sweep(sweep: Any, prefix: str = "") -> dict[str, tuple[Any, ...]]:
    """Dotted path -> values. A table within the sweep continues the path: ``noise.std`` needs no quotes."""
    if not isinstance(sweep, Mapping):
        raise StudyError(f"sweep must be a table of lists, got {short(sweep)}")
    found: dict[str, tuple[Any, ...]] = {}
    for name, values in sweep.items():
        if not isinstance(name, str):
            raise StudyError(f"sweep must have text as keys, got {short(name)}")
        path = f"{prefix}{name}"
        with inside(name):
            if isinstance(values, Mapping):
                lists = plain_sweep(values, f"{path}.")
            else:
                lists = {path: _values(path, values)}
        for new in lists:
            for old in found:
                if f"{new}.".startswith(f"{old}.") or f"{old}.".startswith(f"{new}."):
                    raise StudyError(f"sweep: {new!r} and {old!r} both set {min(new, old, key=len)!r}", (name,))
        found.update(lists)
    return found


def _values(path: str, values: Any) -> tuple[Any, ...]:
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, list | tuple) or not values:
        raise StudyError(f"sweep: {path} must be a list of one value or more, got {short(values)}")
    listed = tuple(plain(f"sweep: {path}", value) for value in values)
    seen = set[str]()
    for value in listed:
        if canonical(value) in seen:
            raise StudyError(f"sweep: {path} must not hold the same value twice, got {short(value)} twice")
        seen.add(canonical(value))
    return listed


def check_paths(factory: names.Factory, options: Mapping[str, Any], sweep: Mapping[str, Any]) -> None:
    """Refuse paths that start at no argument of the factory or lead through what is no table."""
    for path in sweep:
        first, *rest = path.split(".")
        with inside("sweep", path):
            names.known(f"argument of {factory.name} to sweep named", first, factory.parameters)
            inner = options.get(first)
            for depth, step in enumerate(rest):
                through = ".".join(path.split(".")[: depth + 1])
                if not step:
                    raise StudyError(f"sweep: {path!r} has an empty part")
                if inner is not None and not isinstance(inner, Mapping) and through != "constants":
                    raise StudyError(f"sweep: {path} needs {through} to be a table, got {short(inner)}")
                inner = inner.get(step) if isinstance(inner, Mapping) else None


def count(sweep: Mapping[str, tuple[Any, ...]]) -> int:
    """How many settings there are."""
    product = 1
    for values in sweep.values():
        product *= len(values)
    return product


def settings(sweep: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Every combination, the last path varying fastest; one empty setting where nothing is swept."""
    for values in itertools.product(*sweep.values()):
        yield dict(zip(sweep, values, strict=True))


def with_setting(options: Mapping[str, Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` with the swept values in their places."""
    changed = dict(options)
    for path, value in setting.items():
        *outer, last = path.split(".")
        table = changed
        for step in outer:
            inner = table.get(step)
            if step == "constants" and table is changed:
                inner = constants_table(inner)
            table[step] = dict(inner) if inner is not None else {}
            table = table[step]
        table[last] = value
    return changed


@contextlib.contextmanager
def written(options: Mapping[str, Any], sweep: Mapping[str, Any]) -> Iterator[None]:
    """Errors about an option are moved to where its value was written: in the sweep, or among the options."""
    try:
        yield
    except StudyError as error:
        raise StudyError(str(error), _written(options, sweep, ".".join(map(str, error.where))) or error.where) from None


def _written(options: Mapping[str, Any], sweep: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """The sweep that gave the option at ``path``, or some of it where no option did; nothing if none has."""
    given = [swept for swept in sweep if f"{path}.".startswith(f"{swept}.")]
    if path and path.split(".")[0] not in options:
        given += [swept for swept in sweep if swept.startswith(f"{path}.")]
    return ("sweep", given[0]) if given else ()
