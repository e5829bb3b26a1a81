"""Choosing among arms: the best one, by a rule that rounding cannot change.

Candidates are all arms within ``tolerance * max(1, |best|)`` of the best. An exact comparison would let the last bit
of a sum decide, and with it the compiler, the batch size and the device.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random

RULES = ("lowest", "random")
_UNROLL = 32  # up to this many arms, running counts are written out
_FEW = 8  # up to this many, so are maxima: short reductions are vectorised over what is reduced, not over seeds


def default_tolerance(dtype: Any) -> float:
    """How near is a tie: far above rounding, far below any gap that matters."""
    return 1e-9 if np.dtype(dtype).itemsize == 8 else 1e-5


def largest(values: jax.Array) -> jax.Array:
    """The largest of ``values [N]``."""
    if values.shape[0] > _FEW:
        return jnp.max(values, axis=0)
    return functools.reduce(jnp.maximum, list(values))


def lowest(candidates: jax.Array) -> jax.Array:
    """The lowest index where ``candidates [N]`` holds (0 where none does)."""
    num = candidates.shape[0]
    if num <= _FEW:
        first = jnp.zeros(candidates.shape[1:], jnp.int32)
        for i in reversed(range(1, num)):
            first = jnp.where(candidates[i], i, first)
        return jnp.where(candidates[0], 0, first)
    index = np.arange(num, dtype=np.int32).reshape(num, *(1,) * (candidates.ndim - 1))
    first = jnp.min(jnp.where(candidates, index, num), axis=0)
    return jnp.where(first == num, 0, first).astype(jnp.int32)


def uniform(candidates: jax.Array, words: jax.Array) -> jax.Array:
    """An index drawn uniformly among ``candidates [N]`` with the words ``[2]`` of a key."""
    return by_rank(candidates, random.uniform(random.bits(words, ()), jnp.float32))


def by_rank(candidates: jax.Array, u: jax.Array) -> jax.Array:
    """Of n ``candidates [N, ...]`` the one of rank floor(u n), counted from 0, for ``u [...]`` in (0, 1)."""
    num_arms = candidates.shape[0]
    ones = candidates.astype(jnp.int32)
    num = jnp.sum(ones, axis=0, dtype=jnp.int32)
    rank = jnp.minimum((u * num.astype(jnp.float32)).astype(jnp.int32), num - 1)  # the product may round up to n
    if num_arms > _UNROLL:
        before = jnp.cumsum(ones, axis=0, dtype=jnp.int32) - ones
        return lowest(candidates & (before == rank[None]))
    action, before = jnp.zeros_like(rank), jnp.zeros_like(rank)
    for i in range(num_arms):
        action = jnp.where(candidates[i] & (before == rank), i, action)
        before = before + ones[i]
    return action


def best(values: jax.Array, allowed: jax.Array, tolerance: Any) -> jax.Array:
    """Which of the ``allowed [N]`` have a value within the tolerance of the best."""
    top = largest(jnp.where(allowed, values, -jnp.inf))
    return allowed & (values >= (top - tolerance * jnp.maximum(1, jnp.abs(top)))[None])


def pick(candidates: jax.Array, words: jax.Array, rule: str) -> jax.Array:
    """One of the candidates ``[N]`` by a rule of :data:`RULES`."""
    return lowest(candidates) if rule == "lowest" else uniform(candidates, words)


def take(values: jax.Array, action: jax.Array) -> jax.Array:
    """``values[action]`` of ``[N, ...]`` for the index ``action []``, as a masked sum (a gather per seed is slow)."""
    num = values.shape[0]
    index = np.arange(num, dtype=np.int32).reshape(num, *(1,) * action.ndim)
    chosen = (index == action[None]).reshape(num, *(1,) * (values.ndim - 1 - action.ndim), *action.shape)
    return jnp.sum(jnp.where(chosen, values, 0), axis=0, dtype=values.dtype)
