"""Exact quantities of a finite-horizon Markov decision process, by backward induction: no Monte Carlo anywhere.

``transition [S, A, S]`` has the probability of the next state on its last axis, ``reward [S, A]`` is known. Stages are
counted from 0: ``value[h]`` is the value with ``H - h`` steps to go, and ``value[H]`` is zero.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import ridge, ties
from jaxvar.batching import seeds_last


class Optimum(NamedTuple):
    """The best that can be done."""

    q: jax.Array  # [H, S, A]   Q*
    value: jax.Array  # [H + 1, S]   V*


def optimal_values(transition: jax.Array, reward: jax.Array, horizon: int) -> Optimum:
    """``Q*_h = r + P V*_{h+1}`` and ``V*_h = max_a Q*_h``, from ``V*_{H+1} = 0`` backwards."""
    return Optimum(*_optimum(transition, reward, jnp.zeros(horizon, reward.dtype)))


def policy_values(transition: jax.Array, reward: jax.Array, policy: jax.Array) -> jax.Array:
    """The value ``[H + 1, S]`` of playing ``policy [H, S]`` (actions)."""
    return _policy_values(transition, reward, policy.astype(jnp.int32))


def expectation(transition: jax.Array, value: jax.Array) -> jax.Array:
    """``[P V](s, a)``, the mean of ``value [S]`` in the next state: ``[S, A]``."""
    return _expectation(transition, value)


def conditional_variance(transition: jax.Array, value: jax.Array) -> jax.Array:
    """``[P V^2](s, a) - [P V](s, a)^2``, the variance of ``value [S]`` in the next state: ``[S, A]``."""
    return _conditional_variance(transition, value)


def largest_return(transition: jax.Array, reward: jax.Array, horizon: int) -> jax.Array:
    """The most reward that any path of ``horizon`` steps can collect from each state: ``[S]``."""
    return _largest_return(transition, reward, jnp.zeros(horizon, reward.dtype))


def _batch(transition: jax.Array, reward: jax.Array, *others: tuple[int, ...]) -> tuple[int, ...]:
    return jnp.broadcast_shapes(transition.shape[3:], reward.shape[2:], *others)


def _with_end(values: jax.Array) -> jax.Array:
    """``values [H, S]`` and the zeros after the last stage."""
    return jnp.concatenate([values, jnp.zeros_like(values[:1])])


@seeds_last
def _optimum(transition: jax.Array, reward: jax.Array, stages: jax.Array) -> tuple[jax.Array, jax.Array]:
    def back(value: jax.Array, _: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        q = reward + _expectation_of(transition, value)
        value = jnp.max(q, axis=1)
        return value, (jnp.broadcast_to(q, (*q.shape[:2], *batch)), value)

    batch = _batch(transition, reward)
    end = jnp.zeros((reward.shape[0], *batch), reward.dtype)
    _, (q, value) = jax.lax.scan(back, end, stages, reverse=True)
    return q, _with_end(value)


@seeds_last
def _policy_values(transition: jax.Array, reward: jax.Array, policy: jax.Array) -> jax.Array:
    def back(value: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        q = reward + _expectation_of(transition, value)
        value = ties.take(jnp.moveaxis(q, 1, 0), action)
        return value, value

    end = jnp.zeros((reward.shape[0], *_batch(transition, reward, policy.shape[2:])), reward.dtype)
    return _with_end(jax.lax.scan(back, end, policy, reverse=True)[1])


@seeds_last
def _largest_return(transition: jax.Array, reward: jax.Array, stages: jax.Array) -> jax.Array:
    def back(most: jax.Array, _: jax.Array) -> tuple[jax.Array, None]:
        reached = jnp.where(transition > 0, most[None, None], -jnp.inf)
        return jnp.max(reward + jnp.max(reached, axis=2), axis=1), None

    end = jnp.zeros((reward.shape[0], *_batch(transition, reward)), reward.dtype)
    return jax.lax.scan(back, end, stages, reverse=True)[0]


def _expectation_of(transition: jax.Array, value: jax.Array) -> jax.Array:
    return ridge.combine(jnp.moveaxis(transition, 2, 0), value[:, None, None])


_expectation = seeds_last(_expectation_of)


@seeds_last
def _conditional_variance(transition: jax.Array, value: jax.Array) -> jax.Array:
    # Centred first: the textbook difference of squares would lose all digits of a small variance.
    mean = _expectation_of(transition, value)
    centred = value[None, None] - mean[:, :, None]
    return jnp.sum(transition * centred * centred, axis=2)


def at_stage(values: jax.Array, stage: jax.Array) -> jax.Array:
    """``values[stage]`` of ``[H, ...]`` for a stage ``[]``; part of a ``seeds_last`` kernel."""
    if stage.size == 1:  # the stage all seeds are in: a slice, not a masked sum
        return jax.lax.dynamic_index_in_dim(values, stage.reshape(()), keepdims=False)
    return ties.take(values, stage)


def with_stage(values: jax.Array, stage: jax.Array, new: jax.Array) -> jax.Array:
    """``values [H, ...]`` with ``new [...]`` at a stage ``[]``; part of a ``seeds_last`` kernel."""
    values = jnp.broadcast_to(values, (values.shape[0], *jnp.broadcast_shapes(values.shape[1:], new.shape)))
    if stage.size == 1:
        return jax.lax.dynamic_update_index_in_dim(values, new, stage.reshape(()), 0)
    index = np.arange(values.shape[0], dtype=np.int32).reshape(-1, *(1,) * (values.ndim - 1))
    return jnp.where(index == stage.reshape(*(1,) * (values.ndim - stage.ndim), *stage.shape), new[None], values)
