"""Choosing among arms: the best one, by a rule that rounding cannot change.

Candidates are all arms within ``tolerance * max(unit, |best|)`` of the best. An exact comparison would let the last bit
of a sum decide, and with it the compiler, the batch size and the device. The ``unit`` is the size of the terms that a
value is made of, in the units of the problem: a difference may cancel far below it, its rounding does not. Where a
whole problem is measured in other units, the unit changes with it, and no choice does.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxvar import lowering, parameters, random

RULES = ("lowest", "random")


def default_tolerance(dtype: DTypeLike) -> float:
    """Return how near is a tie: far above rounding, far below any gap that matters."""
    return 1e-9 if np.dtype(dtype).itemsize == 8 else 1e-5


def tolerance() -> Any:
    """Declare the parameter ``tie_tolerance``, the same for all algorithms."""
    return parameters.number(
        at_least=0,
        default=None,
        rule=lambda self: np.asarray(default_tolerance(self.dtype), self.dtype),
        doc="relative to the size of what is compared; 1e-9 in float64 and 1e-5 in float32 if not given.",
    )


def rule(what: str = "index") -> Any:
    """Declare the parameter ``ties``, the same for all algorithms."""
    return parameters.choice(
        *RULES,
        default="random",
        doc=f"``random`` or ``lowest`` {what}, among those within ``tie_tolerance`` of the best.",
    )


@jax.custom_jvp
def best(values: jax.Array, allowed: jax.Array, tolerance: parameters.Number, unit: parameters.Number) -> jax.Array:
    """Return which of the ``allowed [N, ...]`` have a value within the tolerance of the best, bool [N, ...]."""
    top = lowering.largest(jnp.where(allowed, values, -jnp.inf))
    return allowed & (values >= (top - tolerance * jnp.maximum(unit, jnp.abs(top)))[None])


best.defjvp(lowering.not_differentiable)


def pick(candidates: jax.Array, key_data: jax.Array, rule: str) -> jax.Array:
    """Return one of the candidates ``[N]`` by a rule of :data:`RULES`, with the ``key_data [2]`` of a key."""
    if rule == "lowest":
        return lowering.lowest(candidates)
    return by_rank(candidates, random.uniform(random.bits(key_data, ()), jnp.float32))


def by_rank(candidates: jax.Array, u: jax.Array) -> jax.Array:
    """Return of n ``candidates [N, ...]`` the one of rank floor(u n), counted from 0, for ``u [...]`` in (0, 1)."""
    num = jnp.sum(candidates.astype(jnp.int32), axis=0, dtype=jnp.int32)
    rank = jnp.minimum((u * num.astype(jnp.float32)).astype(jnp.int32), num - 1)  # the product may round up to n
    return lowering.of_rank(candidates, rank)
