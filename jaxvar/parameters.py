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
import difflib
import inspect
import operator
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

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
            raise ValueError(f"{name} must be a plain number, since it sets shapes, got {value!r}")
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

    def check(name: str, value: object) -> int:
        return check_count(name, value, low=low, high=high)

    return _field(Parameter(check, doc, rule, range={"low": low, "high": high}), True, default, kw_only)


def choice(*options: str, default: object = dataclasses.MISSING, doc: str = "") -> Any:
    """Declare a static field that is one of a few words."""

    def check(name: str, value: object) -> str:
        return check_choice(name, value, options)

    return _field(Parameter(check, doc, options=options), True, default, True)


def flag(*, default: bool, doc: str = "") -> Any:
    """Declare a static field that is True or False."""

    def check(name: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}")
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

    def make(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = dict(bound.arguments)
        for name, parameter in declared.items():
            may_be_none = signature.parameters[name].default is None and not parameter.checks_none
            if values[name] is not None or not may_be_none:
                values[name] = parameter.check(name, values[name])
        made: Any = cls(**values)  # type: ignore[call-arg]
        for field in dataclasses.fields(made):
            ruled = declared.get(field.name)
            if ruled and ruled.rule and field.metadata["static"] and made.__dict__[field.name] is None:
                made.__dict__[field.name] = ruled.check(field.name, ruled.rule(made))
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


def _documentation(cls: Any, declared: dict[str, Parameter], names: Sequence[str]) -> str:
    """Return the docstring of a class, with its parameters before its references."""
    head, mark, tail = inspect.cleandoc(cls.__doc__).partition("\nReferences:")
    lines = ["", "Args:"]
    for name in names:
        lines += textwrap.wrap(f"{name}: {declared[name].doc}", 112, initial_indent="  ", subsequent_indent="    ")
    return "\n".join([head.rstrip(), *lines, "", "Returns:", f"  The {cls.__name__}, a pytree.", mark + tail])


def float_dtype() -> np.dtype[Any]:
    """Return the float type of this session: float64 where ``jax_enable_x64`` is on, else float32."""
    return np.dtype(jnp.result_type(float))


def leaf(value: Any) -> Any:
    """Return a number or array in the session's float type, so that equal objects have equal types."""
    if isinstance(value, jax.Array):
        return value.astype(float_dtype())
    return np.asarray(value, dtype=float_dtype())


def is_traced(value: object) -> bool:
    """Return whether ``value`` has no concrete number."""
    return isinstance(value, jax.core.Tracer)


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    low_open: bool = False,
    high_open: bool = False,
    squared: bool = False,
) -> Any:
    """Return ``value``, a real scalar inside an interval that the session's float type can hold.

    With ``squared`` the float type must hold the square too, with eleven digits to spare for what multiplies it.
    """
    if is_traced(value):
        return value
    interval = (
        f"{'(' if low_open or low == -np.inf else '['}{low:g}, {high:g}{')' if high_open or high == np.inf else ']'}"
    )
    if isinstance(value, bool | str | bytes) or (not np.isscalar(value) and rank(name, value) != 0):
        raise ValueError(f"{name} must be one number in {interval}, got {value!r}")
    try:
        x = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be one number in {interval}, got {value!r}") from None
    inside = (x > low if low_open else x >= low) and (x < high if high_open else x <= high)
    if not np.isfinite(x) or not inside:
        raise ValueError(f"{name} must be a finite number in {interval}, got {value!r}")
    facts = np.finfo(float_dtype())
    smallest, largest = float(facts.tiny), float(facts.max)
    if squared:
        smallest, largest = smallest**0.5, (largest * 1e-11) ** 0.5
    if abs(x) > largest or 0 < abs(x) < smallest:
        raise ValueError(
            f"{name} must be between {smallest:.1e} and {largest:.1e} in {facts.dtype}, got {value!r}; "
            "measure rewards in other units"
        )
    return value


def rank(name: str, value: Any) -> int:
    """Return the number of axes of a number or (nested) list."""
    try:
        return int(np.ndim(value))
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of different lengths") from None


def check_positive(name: str, value: Any) -> Any:
    """Return ``value``, a finite number above zero."""
    return check_number(name, value, low=0.0, low_open=True)


def check_count(name: str, value: Any, *, low: int = 1, high: int | None = None) -> int:
    """Return ``value``, an integer of at least ``low`` (and at most ``high``)."""
    allowed = f"an integer of at least {low}" + ("" if high is None else f" and at most {high}")
    try:
        n = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be {allowed}, got {value!r}") from None
    if isinstance(value, bool) or n < low or (high is not None and n > high):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return n


def check_choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """Return ``value``, one of a few words."""
    if value not in allowed:
        near = difflib.get_close_matches(str(value), allowed, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}{hint}")
    return str(value)


def check_array(name: str, value: Any, shape: Sequence[int | None], *, max_norm: float | None = None) -> Any:
    """Return ``value``, a finite real array of a shape (None: any length), rows no longer than ``max_norm``."""
    if is_traced(value):
        return value
    wanted = "[" + ", ".join("any" if n is None else str(n) for n in shape) + "]"
    rank(name, value)
    x = np.asarray(value)
    if x.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got dtype {x.dtype}")
    if x.ndim != len(shape) or any(n != m for n, m in zip(x.shape, shape, strict=True) if m is not None):
        raise ValueError(f"{name} must have shape {wanted}, got {list(x.shape)}")
    if 0 in x.shape:
        raise ValueError(f"{name} must not be empty, got shape {list(x.shape)}")
    if not np.all(np.isfinite(x)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
        raise ValueError(f"{name} must be finite, got {x[where]} at index {where}")
    if max_norm is not None and not is_traced(max_norm):
        norms = np.linalg.norm(x, axis=-1)
        if norms.max() > float(max_norm) * (1 + 1e-6):
            where = tuple(int(i) for i in np.unravel_index(norms.argmax(), norms.shape))
            raise ValueError(f"{name} must have rows of norm at most {max_norm}, got {norms.max():g} at index {where}")
    return value


def check_key(name: str, value: object) -> jax.Array:
    """Return ``value``, one typed JAX random key."""
    if not isinstance(value, jax.Array) or not jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        raise ValueError(f"{name} must be a key as made by jax.random.key(0), got {value!r}")
    if value.shape != ():
        raise ValueError(f"{name} must be one key, got an array of keys of shape {list(value.shape)}")
    return value
