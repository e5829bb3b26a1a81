"""Uniform play: the yardstick below which nothing should fall."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvar import random, ties
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.batching import seeds_last
from jaxvar.pytrees import pytree


@pytree
class UniformPlay:
    """Pulls an arm uniformly at random; built by :func:`uniform`."""

    def init(self) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def select(self, state: tuple[()], arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose any of ``arms [num_arms, dim]``."""
        return _select(arms, random.key_words(key))

    def update(self, state: tuple[()], choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> tuple[()]:
        """Nothing to learn."""
        return state


def uniform() -> UniformPlay:
    """An arm drawn uniformly at random in each round."""
    return UniformPlay()


@seeds_last
def _select(arms: jax.Array, words: jax.Array) -> Choice:
    action = ties.uniform(jnp.ones((arms.shape[0], *(1,) * (words.ndim - 1)), bool), words)
    zero: Any = jnp.zeros_like(action)
    return Choice(action, zero, zero.astype(arms.dtype), zero)
