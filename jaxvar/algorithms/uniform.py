"""Uniform play: the yardstick for all others."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random
from jaxvar.algorithms.bandit import by_rank, pick
from jaxvar.algorithms.interface import Choice, Model, Pair, Side
from jaxvar.parameters import pytree


class UniformPlan(NamedTuple):
    """A policy drawn at random; there are no values behind it."""

    policy: jax.Array  # [H, S]


@pytree
class UniformPlay:
    """Uniform play, in rounds, duels and episodes: the yardstick for all others; built by :func:`uniform`."""

    def init(self, model: Model | None = None) -> tuple[()]:
        """Return nothing to remember."""
        return ()

    def select(self, state: tuple[()], arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose any of ``arms [num_arms, dim]``."""
        action = pick(side.mask(arms.shape[0]), random.key_words(key), "random")
        zero = jnp.zeros_like(action)
        return Choice(action, zero, zero.astype(arms.dtype), zero)

    def pair(self, state: tuple[()], arms: jax.Array, key: jax.Array, side: Side) -> Pair:
        """Choose any two of ``arms [num_arms, dim]``, each by itself."""
        u = random.uniform(random.bits(random.key_words(key), (2,)), jnp.float32)
        there = side.mask(arms.shape[0])
        action, rival = by_rank(there, u[0]), by_rank(there, u[1])
        zero = jnp.zeros_like(action)
        return Pair(action, rival, zero, zero.astype(arms.dtype), zero)

    def plan(self, state: tuple[()], model: Model, key: jax.Array) -> UniformPlan:
        """Choose any action in each state and stage."""
        u = random.uniform(random.bits(random.key_words(key), (model.horizon, model.num_states)), jnp.float32)
        scaled = u * np.float32(model.num_actions)
        return UniformPlan(jnp.minimum(scaled.astype(jnp.int32), model.num_actions - 1))

    def update(self, state: tuple[()], *observed: object) -> tuple[()]:
        """Learn nothing."""
        return state


def uniform() -> UniformPlay:
    """Draw an arm (in duels, two) uniformly at random in each round; in episodes an action for each state and stage."""
    return UniformPlay()
