"""Values are checked where they enter: each message names the argument, its value and what is allowed.

Traced values pass: under a caller's ``jit`` there is no number to look at yet.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def is_traced(value: Any) -> bool:
    """Whether ``value`` has no concrete number."""
    return isinstance(value, jax.core.Tracer)


def number(
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> Any:
    """A finite real scalar inside an interval, returned unchanged."""
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
    return value


def rank(name: str, value: Any) -> int:
    """Number of axes of a number or (nested) list."""
    try:
        return int(np.ndim(value))
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of different lengths") from None


def positive(name: str, value: Any) -> Any:
    """A finite number above zero."""
    return number(name, value, low=0.0, low_open=True)


def count(name: str, value: Any, *, low: int = 1, high: int | None = None) -> int:
    """An integer of at least ``low`` (and at most ``high``)."""
    allowed = f"an integer of at least {low}" + ("" if high is None else f" and at most {high}")
    try:
        n = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be {allowed}, got {value!r}") from None
    if isinstance(value, bool) or n < low or (high is not None and n > high):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return n


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of a few words."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return str(value)


def array(name: str, value: Any, shape: Sequence[int | None], *, max_norm: float | None = None) -> Any:
    """A finite real array of the given shape (``None`` is any positive length), rows no longer than ``max_norm``."""
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


def key(name: str, value: Any) -> jax.Array:
    """One typed JAX random key."""
    if not isinstance(value, jax.Array) or not jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        raise ValueError(f"{name} must be a key as made by jax.random.key(0), got {value!r}")
    if value.shape != ():
        raise ValueError(f"{name} must be one key, got an array of keys of shape {list(value.shape)}")
    return value


_ABOVE_ZERO: dict[str, Any] = {"low": 0.0, "low_open": True}
_NOT_NEGATIVE: dict[str, Any] = {"low": 0.0}
_NORMAL_FLOAT32: dict[str, Any] = {"low": 1e-30}  # gamma draws of a smaller shape are NaN
_SHARE: dict[str, Any] = {"low": 0.0, "high": 1.0}
_AT_LEAST_ONE: dict[str, Any] = {"low": 1.0}
_RANGES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("noise_bound", "lam", "theta_bound", "norm_bound", "cap", "bound", "scale", "level"), _ABOVE_ZERO),
    **dict.fromkeys(("alpha", "gap", "sigma_min", "threshold", "value_bound", "variance_scale"), _ABOVE_ZERO),
    **dict.fromkeys(("concentration", "weight_concentration"), _NORMAL_FLOAT32),
    **dict.fromkeys(("beta_scale", "tie_tolerance", "fixed_radius", "std", "low", "high", "power"), _NOT_NEGATIVE),
    **dict.fromkeys(("feel_good", "gamma", "variance_bound"), _NOT_NEGATIVE),
    "delta": {"low": 0.0, "high": 1.0, "low_open": True, "high_open": True},
    **dict.fromkeys(("prob_high", "mix"), _SHARE),
    **dict.fromkeys(("num_rounds", "num_episodes"), _AT_LEAST_ONE),
}


def parameter(name: str, value: Any) -> Any:
    """A number in the range that every parameter of this name has; factories and sweeps ask here."""
    return number(name, value, **_RANGES.get(name, {}))
