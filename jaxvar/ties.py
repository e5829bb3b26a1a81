"""Choosing among arms: the best one, by a rule that rounding cannot change.

Candidates are all arms within ``tolerance * max(1, |best|)`` of the best. An exact comparison would let the last bit
of a sum decide, and with it the compiler, the batch size and the device.

Values over arms are an array ``[N]`` or a list of N arrays ``[]``, see :func:`platform_rows` and :func:`each`.
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


def platform_rows(function: Any, *values: Any) -> Any:
    """``function(*values)`` with arrays ``[N]`` on a CPU, and with lists of N arrays ``[]`` on an accelerator.

    A reduction over arms whose result meets the arms again ends a kernel there. Over a list it is plain arithmetic,
    and a whole choice becomes one kernel. A CPU, where kernels cost nothing to start, keeps the short loops.
    """

    def apart(*values: Any) -> Any:
        # The barrier keeps what follows from computing the choice again.
        return jax.lax.optimization_barrier(function(*jax.tree.map(list, values)))

    if max(v.shape[0] for v in jax.tree.leaves(values)) > _UNROLL:
        return function(*values)
    return jax.lax.platform_dependent(*values, cpu=function, default=apart)


def each(function: Any, *values: Any, given: tuple[jax.Array, ...] = ()) -> Any:
    """``function`` of each arm's ``values [N]`` and of what is ``given []`` for all arms."""
    if isinstance(values[0], list):
        return [function(*of_arm, *given) for of_arm in zip(*values, strict=True)]
    return function(*values, *(g[None] for g in given))


def largest(values: Any) -> jax.Array:
    """The largest of ``values [N]``."""
    if isinstance(values, list):
        return functools.reduce(jnp.maximum, values)
    if values.shape[0] > _FEW:
        return jnp.max(values, axis=0)
    return functools.reduce(jnp.maximum, list(values))


def lowest(candidates: Any) -> jax.Array:
    """The lowest index where ``candidates [N]`` holds (0 where none does)."""
    num = len(candidates)
    if num <= _FEW or isinstance(candidates, list):
        rows = list(candidates)
        first = jnp.zeros_like(rows[0], jnp.int32)
        for i in reversed(range(1, num)):
            first = jnp.where(rows[i], i, first)
        return jnp.where(rows[0], 0, first)
    index = np.arange(num, dtype=np.int32).reshape(num, *(1,) * (candidates.ndim - 1))
    first = jnp.min(jnp.where(candidates, index, num), axis=0)
    return jnp.where(first == num, 0, first).astype(jnp.int32)


def uniform(candidates: Any, words: jax.Array) -> jax.Array:
    """An index drawn uniformly among ``candidates [N]`` with the words ``[2]`` of a key."""
    return by_rank(candidates, random.uniform(random.bits(words, ()), jnp.float32))


def by_rank(candidates: Any, u: jax.Array) -> jax.Array:
    """Of n ``candidates [N, ...]`` the one of rank floor(u n), counted from 0, for ``u [...]`` in (0, 1)."""
    num_arms = len(candidates)
    ones = each(lambda c: c.astype(jnp.int32), candidates)
    num = sum(ones) if isinstance(ones, list) else jnp.sum(ones, axis=0, dtype=jnp.int32)
    rank = jnp.minimum((u * num.astype(jnp.float32)).astype(jnp.int32), num - 1)  # the product may round up to n
    if num_arms > _UNROLL:
        before = jnp.cumsum(ones, axis=0, dtype=jnp.int32) - ones
        return lowest(candidates & (before == rank[None]))
    action, before = jnp.zeros_like(rank), jnp.zeros_like(rank)
    for i, (candidate, one) in enumerate(zip(list(candidates), list(ones), strict=True)):
        action = jnp.where(candidate & (before == rank), i, action)
        before = before + one
    return action


def best(values: Any, allowed: Any, tolerance: Any) -> Any:
    """Which of the ``allowed [N]`` have a value within the tolerance of the best."""
    top = largest(each(lambda a, v: jnp.where(a, v, -jnp.inf), allowed, values))
    least = top - tolerance * jnp.maximum(1, jnp.abs(top))
    return each(lambda a, v, least: a & (v >= least), allowed, values, given=(least,))


def pick(candidates: Any, words: jax.Array, rule: str) -> jax.Array:
    """One of the candidates ``[N]`` by a rule of :data:`RULES`."""
    return lowest(candidates) if rule == "lowest" else uniform(candidates, words)


def take(values: Any, action: jax.Array) -> jax.Array:
    """``values[action]`` of ``[N, ...]`` for the index ``action []``, as a masked sum (a gather per seed is slow)."""
    if isinstance(values, list):
        return sum(jnp.where(action == i, v, 0) for i, v in enumerate(values))  # type: ignore[return-value]
    num = values.shape[0]
    index = np.arange(num, dtype=np.int32).reshape(num, *(1,) * action.ndim)
    chosen = (index == action[None]).reshape(num, *(1,) * (values.ndim - 1 - action.ndim), *action.shape)
    return jnp.sum(jnp.where(chosen, values, 0), axis=0, dtype=values.dtype)
