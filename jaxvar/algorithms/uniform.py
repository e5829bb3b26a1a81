"""Uniform play: the yardstick below which nothing should fall."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random, ties
from jaxvar.algorithms.interface import Choice, Model, Side
from jaxvar.batching import seeds_last
from jaxvar.pytrees import pytree


class UniformPlan(NamedTuple):
    """A policy drawn at random; there are no values behind it."""

    policy: jax.Array  # [H, S]


@pytree
class UniformPlay:
    """Chooses uniformly at random, in rounds and in episodes; built by :func:`uniform`."""

    def init(self, model: Model | None = None) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def select(self, state: tuple[()], arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose any of ``arms [num_arms, dim]``."""
        return _select(arms, random.key_words(key))

    def plan(self, state: tuple[()], model: Model, key: jax.Array) -> UniformPlan:
        """Any action in each state and stage."""
        return UniformPlan(_policy(model, random.key_words(key)))

    def update(self, state: tuple[()], *observed: Any) -> tuple[()]:
        """Nothing to learn."""
        return state


def uniform() -> UniformPlay:
    """An arm drawn uniformly at random in each round; an action in each state and stage of each episode."""
    return UniformPlay()


@seeds_last
def _select(arms: jax.Array, words: jax.Array) -> Choice:
    action = ties.uniform(jnp.ones((arms.shape[0], *(1,) * (words.ndim - 1)), bool), words)
    zero: Any = jnp.zeros_like(action)
    return Choice(action, zero, zero.astype(arms.dtype), zero)


@seeds_last
def _policy(model: Model, words: jax.Array) -> jax.Array:
    num_states, num_actions = model.reward.shape[:2]
    u = random.uniform(random.bits(words, (model.horizon, num_states)), jnp.float32)
    scaled = u * np.float32(num_actions)
    return jnp.minimum(scaled.astype(jnp.int32), num_actions - 1)
