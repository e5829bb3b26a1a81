"""Parameters: declared once, checked where they enter, stored as static fields or as leaves of a pytree.

A class states each of its parameters with its range, its default and its meaning::

    @pytree
    class Oful:
        dim: int = count(kw_only=False, doc="d, the length of an arm.")
        noise_bound: Number = number(above=0, default=1.0, doc="R, with |noise| <= R.")

    oful = factory(Oful)

:func:`factory` makes the checked, documented function that users call. Sweeps, study files and tests read the same
declarations. ``number`` declares a leaf: traced, sweepable, never a reason to compile again. ``count``, ``choice``
and ``flag`` declare static fields, which set shapes or the program.

A parameter may default to a ``rule``, such as a theorem's value: ``alpha=None`` then means ``rule(self)``, so that it
follows the other parameters when they are swept. Traced values pass every check: they have no number to look at yet.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, dataclass_transform

import jax
import numpy as np

from jaxvar.checks import MAX_COUNT as MAX_COUNT
from jaxvar.checks import MAX_HORIZON as MAX_HORIZON
from jaxvar.checks import check_array as check_array
from jaxvar.checks import check_choice as check_choice
from jaxvar.checks import check_count as check_count
from jaxvar.checks import check_devices as check_devices
from jaxvar.checks import check_key as check_key
from jaxvar.checks import check_number as check_number
from jaxvar.checks import check_positive as check_positive
from jaxvar.checks import check_table as check_table
from jaxvar.checks import float_dtype as float_dtype
from jaxvar.checks import is_traced as is_traced
from jaxvar.checks import kind_of as kind_of
from jaxvar.checks import leaf as leaf
from jaxvar.checks import rank as rank
from jaxvar.checks import shown as shown

T = TypeVar("T")
P = ParamSpec("P")
Rule = Callable[[Any], Any]  # from an object to what one of its fields is where None was given
Structure = tuple[type, tuple[object, ...]]  # class and static fields of a pytree
Number = jax.Array | float  # one number, traced or not
Array = np.ndarray[tuple[int, ...], np.dtype[Any]]  # of NumPy, of any shape and type


@dataclasses.dataclass(frozen=True)
class Parameter:
    """The declaration of one field: its check, its meaning and its default."""

    check: Callable[[str, object], Any]  # name, value -> the value as it is stored
    doc: str
    rule: Rule | None = None  # the value where None is given
    options: tuple[str, ...] = ()  # of a choice
    range: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # arguments of check_number or check_count
    checks_none: bool = False  # whether None is a value like others, where it is the default


def _field(parameter: Parameter, static: bool, default: object, kw_only: bool) -> Any:
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"parameter": parameter, "static": static})


def number(
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    squared: bool = False,
    is_static: bool = False,
    default: object = dataclasses.MISSING,
    rule: Rule | None = None,
    kw_only: bool = True,
    doc: str = "",
) -> Any:
    """Declare a leaf: one real number in a range; ``squared`` where the mathematics squares it.

    With ``is_static`` it is no leaf: a number that sets shapes cannot be swept within one program, or traced.
    """
    low, high = above if at_least is None else at_least, below if at_most is None else at_most
    allowed: dict[str, Any] = {
        "low": -np.inf if low is None else low,
        "high": np.inf if high is None else high,
        "low_open": at_least is None,
        "high_open": at_most is None,
        "squared": squared,
    }

    def check(name: str, value: Any) -> Any:
        if is_static and is_traced(value):
            raise ValueError(f"{name} must be a plain number, since it sets shapes, got {shown(value)}")
        checked = check_number(name, value, **allowed)
        return float(checked) if is_static else leaf(checked)

    return _field(Parameter(check, doc, rule, range=allowed), is_static, default, kw_only)


def count(
    *,
    low: int = 1,
    high: int | None = None,
    default: object = dataclasses.MISSING,
    rule: Rule | None = None,
    kw_only: bool = True,
    doc: str = "",
) -> Any:
    """Declare a static integer of at least ``low`` and at most ``high``."""
    check = functools.partial(check_count, low=low, high=high)
    return _field(Parameter(check, doc, rule, range=check.keywords), True, default, kw_only)


def choice(*options: str, default: object = dataclasses.MISSING, doc: str = "") -> Any:
    """Declare a static field that is one of a few words."""
    check = functools.partial(check_choice, allowed=options)
    return _field(Parameter(check, doc, options=options), True, default, True)


def flag(*, default: bool, doc: str = "") -> Any:
    """Declare a static field that is True or False."""

    def check(name: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {shown(value)}")
        return value

    return _field(Parameter(check, doc), True, default, True)


def part(
    check: Callable[[str, Any], object], *, default: object = dataclasses.MISSING, kw_only: bool = True, doc: str = ""
) -> Any:
    """Declare a field of another kind (constants, a noise, an array) with its own ``check(name, value) -> stored``."""
    return _field(Parameter(check, doc, checks_none=True), False, default, kw_only)


def static(**kwargs: Any) -> Any:
    """Declare a static field without a check, for classes that no user builds."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


class _Ruled:
    """A field whose None stands for ``rule(self)``."""

    def __init__(self, name: str, rule: Rule) -> None:
        self.name, self.rule = name, rule

    def __get__(self, target: object, owner: type | None = None) -> object:
        if target is None:
            return self
        value = target.__dict__[self.name]
        return self.rule(target) if value is None else value

    def __set__(self, target: object, value: object) -> None:
        target.__dict__[self.name] = value


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(number, count, choice, flag, part, static, dataclasses.field),
)
def pytree(cls: type[T]) -> type[T]:
    """Make ``cls`` a frozen dataclass that is also a JAX pytree.

    Its class is part of its structure. With ``jax.tree_util.register_dataclass`` two classes whose fields agree have
    equal structures, and a compiled program of the one may be run for the other.
    """
    cls = dataclasses.dataclass(frozen=True, eq=False, kw_only=True)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    fixed = tuple(f.name for f in fields if f.metadata.get("static"))
    data = tuple(f.name for f in fields if not f.metadata.get("static"))
    for name, parameter in parameters(cls).items():
        if parameter.rule is not None and name in data:
            setattr(cls, name, _Ruled(name, parameter.rule))

    def flatten(target: object) -> tuple[list[object], Structure]:
        values = target.__dict__
        return [values[name] for name in data], (cls, tuple(values[name] for name in fixed))

    def flatten_with_keys(target: object) -> tuple[list[tuple[object, object]], Structure]:
        leaves, structure = flatten(target)
        return [(jax.tree_util.GetAttrKey(name), x) for name, x in zip(data, leaves, strict=True)], structure

    def unflatten(structure: Structure, leaves: Iterable[object]) -> T:
        target = object.__new__(cls)  # not cls(...): leaves may be anything while JAX moves trees about
        target.__dict__.update(zip(fixed, structure[1], strict=True))
        target.__dict__.update(zip(data, leaves, strict=True))
        return target

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def parameters(cls: Any) -> dict[str, Parameter]:
    """Return what a class (or an object of it) declares of its fields, by name."""
    return {f.name: f.metadata["parameter"] for f in dataclasses.fields(cls) if "parameter" in f.metadata}


def replace(target: T, **changes: object) -> T:
    """Return ``target`` with some fields changed; fields that follow a rule go on doing so."""
    new = object.__new__(type(target))
    new.__dict__.update(target.__dict__)
    new.__dict__.update(changes)
    return new


def factory(cls: Callable[P, T]) -> Callable[P, T]:
    """Return the function that builds a ``cls`` from checked arguments: its name in lower case, its docs and signature.

    Where the class has a method ``check``, it is called last: for what only several parameters together can break.
    """
    declared = parameters(cls)
    hints = typing.get_type_hints(cls)
    given = [p for p in inspect.signature(cls).parameters.values() if p.name in declared]
    given = [p.replace(annotation=hints[p.name]) for p in given]
    signature = inspect.Signature(given, return_annotation=cls)
    ruled = [name for name, parameter in declared.items() if parameter.rule is not None]
    is_static = {field.name: bool(field.metadata.get("static")) for field in dataclasses.fields(cls)}  # type: ignore[arg-type]

    def make(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = dict(bound.arguments)
        for name, parameter in declared.items():
            may_be_none = signature.parameters[name].default is None and not parameter.checks_none
            if values[name] is not None or not may_be_none:
                values[name] = parameter.check(name, values[name])
        made: Any = cls(**values)  # type: ignore[call-arg]
        for name in sorted(ruled, key=lambda name: is_static[name]):  # what is static may follow from what is not
            if made.__dict__[name] is None:
                value = _by_rule(name, declared[name], made)
                made.__dict__[name] = value if is_static[name] else None
        if hasattr(made, "check"):
            made.check()
        return typing.cast(T, made)

    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
    described = make  # a function, whatever its type is taken to be
    described.__name__ = described.__qualname__ = name
    described.__module__ = cls.__module__
    described.__doc__ = _documentation(cls, declared, list(signature.parameters))
    described.__annotations__ = {**{p.name: p.annotation for p in given}, "return": cls}
    described.__signature__ = signature  # type: ignore[attr-defined]
    return described


def _by_rule(name: str, parameter: Parameter, made: object) -> object:
    """Return what a field is where None was given, checked as if it had been given."""
    assert parameter.rule is not None
    value = None
    try:
        with np.errstate(all="ignore"):
            value = parameter.rule(made)
            return parameter.check(name, value)
    except (ValueError, OverflowError) as error:
        hint = "" if value is None else f"; this follows from the other parameters: give {name}, or change them"
        raise ValueError(f"{error}{hint}") from None


def _documentation(cls: Any, declared: dict[str, Parameter], names: Sequence[str]) -> str:
    """Return the docstring of a class, with its parameters before its references."""
    head, mark, tail = inspect.cleandoc(cls.__doc__).partition("\nReferences:")
    lines = ["", "Args:"]
    for name in names:
        lines += textwrap.wrap(f"{name}: {declared[name].doc}", 112, initial_indent="  ", subsequent_indent="    ")
    return "\n".join([head.rstrip(), *lines, "", "Returns:", f"  The {cls.__name__}, a pytree.", mark + tail])
