"""Exact quantities of a finite-horizon Markov decision process, by backward induction: no Monte Carlo anywhere.

``transition [S, A, S]`` has the probability of the next state on its last axis, ``reward [S, A]`` is known. Stages are
counted from 0: ``value[h]`` is the value with ``H - h`` steps to go, and ``value[H]`` is zero.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxvar.lowering import combine, row_of, take


class Optimum(NamedTuple):
    """The best that can be done."""

    q: jax.Array  # [H, S, A]   Q*
    value: jax.Array  # [H + 1, S]   V*


def optimal_values(transition: jax.Array, reward: jax.Array, horizon: int) -> Optimum:
    """Return ``Q*_h = r + P V*_{h+1}`` and ``V*_h = max_a Q*_h``, from ``V*_{H+1} = 0`` backwards."""

    def back(value: jax.Array, _: None) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        q = reward + expectation(transition, value)
        value = jnp.max(q, axis=1)
        return value, (q, value)

    end = jnp.zeros(reward.shape[0], reward.dtype)
    _, (q, value) = lax.scan(back, end, length=horizon, reverse=True)
    return Optimum(q, with_end(value))


def policy_values(transition: jax.Array, reward: jax.Array, policy: jax.Array) -> jax.Array:
    """Return the value of playing ``policy [H, S]`` (actions), [H + 1, S]."""

    def back(value: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        q = reward + expectation(transition, value)
        value = take(jnp.moveaxis(q, 1, 0), action)
        return value, value

    end = jnp.zeros(reward.shape[0], reward.dtype)
    return with_end(lax.scan(back, end, policy.astype(jnp.int32), reverse=True)[1])


def expectation(transition: jax.Array, value: jax.Array) -> jax.Array:
    """Return ``[P V](s, a)``, the mean of ``value [S]`` in the next state, [S, A]."""
    return combine(jnp.moveaxis(transition, 2, 0), value[:, None, None])


def conditional_variance(transition: jax.Array, value: jax.Array) -> jax.Array:
    """Return ``[P V^2](s, a) - [P V](s, a)^2``, the variance of ``value [S]`` in the next state, [S, A]."""
    # Centred first: the textbook difference of squares would lose all digits of a small variance.
    centred = value[None, None] - expectation(transition, value)[:, :, None]
    return jnp.sum(transition * centred * centred, axis=2)


def largest_return(transition: jax.Array, reward: jax.Array, horizon: int) -> jax.Array:
    """Return the most reward that any path of ``horizon`` steps can collect from each state, [S]."""

    def back(most: jax.Array, _: None) -> tuple[jax.Array, None]:
        reached = jnp.where(transition > 0, most[None, None], -jnp.inf)
        return jnp.max(reward + jnp.max(reached, axis=2), axis=1), None

    end = jnp.zeros(reward.shape[0], reward.dtype)
    return lax.scan(back, end, length=horizon, reverse=True)[0]


def with_end(values: jax.Array) -> jax.Array:
    """Return ``values [H, S]`` and the zeros after the last stage, [H + 1, S]."""
    return jnp.concatenate([values, jnp.zeros_like(values[:1])])


def at_stage(values: jax.Array, stage: jax.Array) -> jax.Array:
    """Return ``values[stage]`` of ``[H, ...]`` for a stage ``[]``."""
    return lax.dynamic_index_in_dim(values, stage, keepdims=False)


def with_stage(values: jax.Array, stage: jax.Array, new: jax.Array) -> jax.Array:
    """Return ``values [H, ...]`` with ``new [...]`` at a stage ``[]``."""
    return lax.dynamic_update_index_in_dim(values, new, stage, 0)


def at_pair(table: jax.Array, state: jax.Array, action: jax.Array) -> jax.Array:
    """Return ``table[state, action]`` of ``[S, A, ...]`` for a state and an action ``[]``."""
    num_states, num_actions = table.shape[:2]
    return row_of(table.reshape(num_states * num_actions, *table.shape[2:]), state * num_actions + action)


def mixture(phi: jax.Array, theta_star: jax.Array) -> jax.Array:
    """Return ``<phi, theta*>``, [S, A, S]; rounding leaves no negative probability."""
    weights = theta_star[:, None, None, None]
    return jnp.maximum(combine(jnp.moveaxis(phi, 3, 0), weights), 0)
