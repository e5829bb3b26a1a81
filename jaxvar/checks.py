"""Checks of what users give: the value comes back as it is, or a ``ValueError`` says in a sentence what is allowed.

Traced values pass every check: they have no number to look at yet.
"""

from __future__ import annotations

import difflib
import math
import numbers
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

MAX_COUNT = 2**31 - 2  # what is counted in int32, where one more than the last must be there too
MAX_HORIZON = 100_000  # steps of an episode
MAX_TABLE = 2**28  # numbers of a table that a factory writes down: 2 GB in float64
_SHOWN = 80  # characters of a wrong value in a message


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
    is_number = rank(name, value) == 0 and kind_of(value) in ("f", "i", "u", "O")
    if not is_number or (kind_of(value) == "O" and not isinstance(value, numbers.Real)):
        raise ValueError(f"{name} must be one number in {interval}, got {shown(value)}")
    try:
        x = float(value)
    except OverflowError:  # an integer of more than 308 digits
        x = math.inf
    inside = (x > low if low_open else x >= low) and (x < high if high_open else x <= high)
    if not np.isfinite(x) or not inside:
        raise ValueError(f"{name} must be a finite number in {interval}, got {shown(value)}")
    facts = np.finfo(float_dtype())
    smallest, largest = float(facts.tiny), float(facts.max)
    if squared:
        smallest, largest = smallest**0.5, _largest_square(facts.dtype)
    if abs(x) > largest or 0 < abs(x) < smallest:
        raise ValueError(
            f"{name} must be between {smallest:.1e} and {largest:.1e} in {facts.dtype}, got {shown(value)}; "
            "measure rewards in other units"
        )
    return value if kind_of(value) in ("f", "i", "u") else x


def _largest_square(dtype: np.dtype[Any]) -> float:
    """Return the largest number whose square the float type holds, with eleven digits to spare."""
    return float((float(np.finfo(dtype).max) * 1e-11) ** 0.5)


def rank(name: str, value: Any) -> int:
    """Return the number of axes of a number or (nested) list."""
    try:
        return 0 if isinstance(value, type) else int(np.ndim(value))
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of different lengths") from None


def kind_of(value: object) -> str:
    """Return the letter of the type of a number or array as NumPy has it; ``O`` where NumPy has no number for it."""
    if isinstance(value, jax.Array):
        return "O" if jnp.issubdtype(value.dtype, jax.dtypes.extended) else str(value.dtype.kind)
    return "O" if isinstance(value, type) else str(np.asarray(value).dtype.kind)


def shown(value: object) -> str:
    """Return ``value`` as text for a message, cut where it is long."""
    try:
        text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"an integer of {int(value).bit_length()} bits" if isinstance(value, int) else str(type(value))
    return text if len(text) <= _SHOWN else f"{text[:60]}... ({len(text)} characters)"


def check_positive(name: str, value: Any) -> Any:
    """Return ``value``, a finite number above zero."""
    return check_number(name, value, low=0.0, low_open=True)


def check_count(name: str, value: Any, *, low: int = 1, high: int | None = None) -> int:
    """Return ``value``, an integer of at least ``low`` and at most ``high``, or 2^31 - 2 if it is not given."""
    allowed = f"an integer of at least {low}" + ("" if high is None else f" and at most {high}")
    try:
        n = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be {allowed}, got {shown(value)}") from None
    if high is None and n > MAX_COUNT:
        raise ValueError(f"{name} must be {allowed} and at most 2^31 - 2, got {shown(value)}")
    if isinstance(value, bool) or n < low or (high is not None and n > high):
        raise ValueError(f"{name} must be {allowed}, got {shown(value)}")
    return n


def check_table(name: str, value: object, shape: Sequence[int]) -> None:
    """Refuse ``value``, a size that makes a table of this shape too large to be written down."""
    if math.prod(shape) > MAX_TABLE:
        raise ValueError(
            f"{name} must be smaller: it makes a table {list(shape)} of {math.prod(shape):.2g} numbers, and at most "
            f"{MAX_TABLE:.2g} are allowed; got {shown(value)}"
        )


def check_choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """Return ``value``, one of a few words."""
    if not isinstance(value, str) or value not in allowed:
        near = difflib.get_close_matches(value, allowed, n=1) if isinstance(value, str) else []
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}{hint}")
    return value


def check_array(
    name: str, value: Any, shape: Sequence[int | None], *, max_norm: Any = None, squared: bool = False
) -> Any:
    """Return ``value``, a finite real array of a shape (None: any length), rows no longer than ``max_norm``.

    With ``squared`` the float type must hold the squares too.
    """
    if is_traced(value):
        return value
    wanted = "[" + ", ".join("any" if n is None else str(n) for n in shape) + "]"
    rank(name, value)
    if kind_of(value) not in ("f", "i", "u"):
        raise ValueError(f"{name} must hold real numbers, got {shown(value)}")
    x = np.asarray(value)
    if x.ndim != len(shape) or any(n != m for n, m in zip(x.shape, shape, strict=True) if m is not None):
        raise ValueError(f"{name} must have shape {wanted}, got {list(x.shape)}")
    if 0 in x.shape:
        raise ValueError(f"{name} must not be empty, got shape {list(x.shape)}")
    largest = _largest_square(float_dtype()) if squared else float(np.finfo(float_dtype()).max)
    inside = np.abs(x) <= np.float64(largest)  # said of what is right, so that NaN is wrong
    if not np.all(inside):
        where = tuple(int(i) for i in np.argwhere(~inside)[0])
        allowed = f"at most {largest:.1e} in size" if np.isfinite(x[where]) else "finite"
        raise ValueError(f"{name} must be {allowed}, got {x[where]} at index {where}")
    if max_norm is not None and not is_traced(max_norm):
        norms = np.linalg.norm(x, axis=-1)
        if norms.max() > float(max_norm) * (1 + 1e-6):
            where = tuple(int(i) for i in np.unravel_index(norms.argmax(), norms.shape))
            raise ValueError(f"{name} must have rows of norm at most {max_norm}, got {norms.max():g} at index {where}")
    return value


def check_key(name: str, value: object) -> jax.Array:
    """Return ``value``, one typed JAX random key."""
    if not isinstance(value, jax.Array) or not jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        hint = "; jax.random.wrap_key_data makes one of its words" if isinstance(value, jax.Array | np.ndarray) else ""
        raise ValueError(f"{name} must be a key as made by jax.random.key(0), got {shown(value)}{hint}")
    if value.shape != ():
        raise ValueError(f"{name} must be one key, got an array of keys of shape {list(value.shape)}")
    return value


def check_devices(devices: object) -> list[jax.Device]:
    """Return the devices to use; all of the default backend where None is given."""
    if devices is None:
        return list(jax.devices())
    given = devices.tolist() if isinstance(devices, np.ndarray) else devices
    if not isinstance(given, list | tuple) or not given:
        raise ValueError(f"devices must be a list of one JAX device or more, got {shown(devices)}")
    if not all(isinstance(device, jax.Device) for device in given):
        raise ValueError(f"devices must hold JAX devices, as jax.devices() does, got {shown(devices)}")
    return list(given)
