"""Arguments for any factory that declares its parameters: tests and benchmarks build by them what they know nothing of.

A value is taken from a table of sizes by the parameter's name, else from the declared range.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxvar import constants
from jaxvar.parameters import Parameter, parameters


def declared(make: Callable[..., object]) -> dict[str, Parameter]:
    """Return the arguments of a factory that are parameters of the class it returns, in the order of its signature."""
    signature = inspect.signature(make, eval_str=True)
    own = parameters(signature.return_annotation)
    return {name: own[name] for name in signature.parameters if name in own}


def kind(parameter: Parameter) -> str:
    """Return how it was declared: ``number``, ``count``, ``choice``, ``flag`` or ``part``."""
    if parameter.checks_none:
        return "part"
    if parameter.range:
        return "number" if "low_open" in parameter.range else "count"
    return "choice" if parameter.options else "flag"


def inside(parameter: Parameter) -> Any:
    """Return a value that its declaration allows; None of a part, which only its own check knows."""
    if kind(parameter) == "count":
        return parameter.range["low"]
    if kind(parameter) == "number":
        low, high = parameter.range["low"], parameter.range["high"]
        low = (high - 1 if np.isfinite(high) else 0.0) if low == -np.inf else low
        return (low + min(high, low + 1)) / 2
    return {"choice": parameter.options[0] if parameter.options else None, "flag": True}.get(kind(parameter))


def arguments(make: Callable[..., object], known: Mapping[str, object]) -> dict[str, Any]:
    """Return what of ``known`` the factory takes, and a value of its range for whatever else it requires."""
    signature, own = inspect.signature(make, eval_str=True), declared(make)
    required = [n for n, p in signature.parameters.items() if p.default is inspect.Parameter.empty]
    given = {name: known[name] for name in signature.parameters if name in known}
    return {**{n: inside(own[n]) for n in required if n in own and n not in given}, **given}


def optional(make: Callable[..., object]) -> dict[str, Any]:
    """Return a value for each number and count whose default is None: a theorem's value, or nothing."""
    defaults = inspect.signature(make, eval_str=True).parameters
    own = declared(make).items()
    return {n: inside(p) for n, p in own if p.range and defaults[n].default is None}


def numbers(make: Callable[..., object], made: object) -> dict[str, Any]:
    """Return the parameters of what a factory made as Python has them, rules followed, constants by their names."""

    def plain(value: Any) -> Any:
        if isinstance(value, constants.RadiusConstants):
            return {name: float(getattr(value, name)) for name in constants.number_names()}
        return value if value is None or isinstance(value, str | bool | int) else float(value)

    return {name: plain(getattr(made, name)) for name in declared(make)}


def taken(call: Callable[..., object], given: Mapping[str, object]) -> dict[str, Any]:
    """Return what of ``given`` a function or class takes by its name."""
    asked = inspect.signature(call).parameters
    if any(p.kind is p.VAR_KEYWORD for p in asked.values()):
        return dict(given)
    return {name: value for name, value in given.items() if name in asked}
