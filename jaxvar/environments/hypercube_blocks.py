"""A hypercube instance for each of a few noise levels: the lower bound for a variance sequence fixed in advance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, random
from jaxvar.environments.hypercube import BASE, check_multiplier, corners
from jaxvar.environments.interface import Observation
from jaxvar.lowering import take
from jaxvar.parameters import count, leaf, pytree, static


class BlockInstance(NamedTuple):
    """One problem."""

    theta_star: jax.Array  # [dim]   a block after the other
    prob: jax.Array  # [blocks, num_arms]   that a reward is not 0


@pytree
class HypercubeBlocks:
    """Bernoulli rewards on the cube of the round's block; built by :func:`hypercube_blocks`."""

    gaps: Any  # [blocks]   each coordinate of a block's mu is -gap or gap
    levels: Any  # [blocks]   rewards are 0 or the level of the block
    block_rounds: Any  # [blocks]
    order: Any  # [period]   int32, the block of each round, over and over
    cube_dim: int = count(high=16, doc="d.")
    num_blocks: int = static()
    fixed_arms: bool = static(default=False)

    @property
    def dim(self) -> int:
        """Length of an arm: for each block an intercept and the cube's coordinates."""
        return self.num_blocks * (self.cube_dim + 1)

    @property
    def num_arms(self) -> int:
        """``2^d``."""
        return int(2**self.cube_dim)

    @property
    def norm_bound(self) -> Any:
        """The norm of an arm of the noisiest block."""
        return self.levels.max() * math.sqrt(1 + self.cube_dim)

    @property
    def noise_bound(self) -> Any:
        """The largest level."""
        return self.levels.max()

    @property
    def lower_bound(self) -> Any:
        """The sum over blocks of ``d s_i sqrt(n_i) / (8 sqrt 6)``: bounds every expected regret at gap multiplier 1."""
        return self.cube_dim * (self.levels * self.block_rounds**0.5).sum() / (8 * math.sqrt(6))

    def init(self, key: jax.Array) -> BlockInstance:
        """Draw the signs of every block's mu."""
        words = random.bits(random.key_words(key), (self.num_blocks, self.cube_dim))
        mu = random.signs(words, self._dtype) * self.gaps[:, None]
        theta = jnp.concatenate([jnp.full_like(mu[:, :1], BASE), mu], axis=1)  # [blocks, 1 + d]
        prob = jnp.sum(self._features[None] * theta[:, None], axis=2)
        return BlockInstance(theta.reshape(-1), prob)

    def observe(self, instance: BlockInstance, round: jax.Array, key: jax.Array) -> Observation:
        """Return the corners of the round's cube, zero in the coordinates of all other blocks."""
        level = self._level(round)
        arms = self._features[:, None] * level[None, :, None]  # [N, blocks, 1 + d]
        mean = jnp.sum(instance.prob * level[:, None], axis=0)
        variance = mean * (jnp.sum(level, axis=0) - mean)
        return Observation(arms.reshape(self.num_arms, self.dim), mean, variance, jnp.zeros_like(mean))

    def pull(
        self, instance: BlockInstance, observation: Observation, action: jax.Array, round: jax.Array, key: jax.Array
    ) -> jax.Array:
        """Return the level of the round's block with probability ``1/3 + <mu, a>``, else 0, []."""
        mean, size = take(observation.mean, action), jnp.sum(self._level(round), axis=0)
        happens = random.uniform(random.bits(random.key_words(key), ()), mean.dtype) * size < mean
        return jnp.where(happens, size, 0)

    @property
    def _dtype(self) -> Any:
        return jnp.result_type(self.gaps)

    @property
    def _features(self) -> jax.Array:
        """The corners of a block, [2^d, 1 + d]."""
        return jnp.asarray(corners(self.cube_dim).astype(self._dtype))

    def _level(self, round: jax.Array) -> jax.Array:
        """Return the level of the round's block and zero for the others, [blocks]."""
        block = jnp.asarray(self.order)[(round - 1) % self.order.shape[0]]
        return (np.arange(self.num_blocks, dtype=np.int32) == block).astype(self._dtype) * self.levels


def hypercube_blocks(
    cube_dim: int, num_rounds: int, levels: Any, *, order: Sequence[int] | None = None, gap_multiplier: Any = 1.0
) -> HypercubeBlocks:
    r"""Rounds of several noise levels, known in advance, each level with a hypercube of its own.

    A round of block i offers the arms :math:`s_i (1, a)`, :math:`a \in \{-1,1\}^d`, in the coordinates of the block
    and zeros elsewhere, and pays :math:`s_i \cdot \mathrm{Bernoulli}(1/3 + \langle\mu_i, a\rangle)`, with
    :math:`\mu_i` uniform on :math:`\{-\Delta_i,\Delta_i\}^d` and :math:`\Delta_i = g / \sqrt{96 n_i}`. What is learned
    in one block says nothing about another, so at g = 1 every algorithm has an expected regret of at least
    :math:`\sum_i d s_i \sqrt{n_i} / (8\sqrt 6)`, where :math:`n_i` is the number of rounds of block i, and uniform
    play exactly twice that (:func:`jaxvar.hypercube_bandit` is one block).

    Args:
      cube_dim: d, the coordinates of a block beside its intercept.
      num_rounds: K, rounds that will be played.
      levels: ``[blocks]``, the sizes :math:`s_i` of the rewards; the variance is about ``2 s_i^2 / 9``.
      order: the block of each round, counted from 0 and repeated until the last round; all in turn if not given.
      gap_multiplier: g; ``d g Delta_i`` must be at most 1/3.

    Returns:
      The environment, a pytree.

    References:
      He, Gu (2025), Theorem 4.1, which has a block for every power of two and one without noise.
    """
    cube_dim = parameters.parameters(HypercubeBlocks)["cube_dim"].check("cube_dim", cube_dim)
    num_rounds = parameters.check_count("num_rounds", num_rounds)
    levels = np.asarray(parameters.check_array("levels", levels, (None,)))
    if levels.min() <= 0:
        raise ValueError(f"levels must be positive, got {levels.min()}")
    period = _order(order, len(levels))
    block_rounds = np.bincount(np.resize(period, num_rounds), minlength=len(levels))
    if block_rounds.min() == 0:
        raise ValueError(
            f"order must have every block in {num_rounds} rounds, got none of block {block_rounds.argmin()}"
        )
    check_multiplier(gap_multiplier, cube_dim, int(block_rounds.min()))
    return HypercubeBlocks(
        gaps=leaf(gap_multiplier / np.sqrt(96 * block_rounds)),
        levels=leaf(levels),
        block_rounds=leaf(block_rounds),
        order=period,
        cube_dim=cube_dim,
        num_blocks=len(levels),
    )


def _order(order: Any, num_blocks: int) -> np.ndarray[Any, Any]:
    """Return the block of each round of a period, int32 [period]."""
    if order is None:
        return np.arange(num_blocks, dtype=np.int32)
    period = np.asarray(parameters.check_array("order", order, (None,)))
    if period.dtype.kind != "i" or period.min() < 0 or period.max() >= num_blocks:
        raise ValueError(f"order must hold integers from 0 to {num_blocks - 1}, got {order!r}")
    return period.astype(np.int32)
