"""The hypercube instances behind the lower bounds: one for all rounds, or one for each of a few noise levels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxvar import parameters, random
from jaxvar.environments.interface import Array, Observation
from jaxvar.environments.linear_bandit import LinearInstance
from jaxvar.environments.noise import bernoulli
from jaxvar.lowering import inner, take
from jaxvar.parameters import Number, count, leaf, number, pytree, static

_BASE = 1.0 / 3.0  # mean of the Bernoulli before the gaps


@pytree
class Hypercube:
    """Base of the instances: Bernoulli rewards, of one or several sizes, on all of {-1, 1}^d."""

    cube_dim: int = count(high=16, doc="d.")

    @property
    def num_arms(self) -> int:
        """``2^d``."""
        return int(2**self.cube_dim)

    @property
    def noise_bound(self) -> Number:
        """The largest level."""
        raise NotImplementedError

    @property
    def norm_bound(self) -> Number:
        """``s sqrt(1 + d)`` at the largest level s: the norm of its arms."""
        return self.noise_bound * math.sqrt(1 + self.cube_dim)

    def corners(self, dtype: DTypeLike) -> jax.Array:
        """Return all arms before scaling, ``(1, a)``, [2^d, d + 1]."""
        signs = all_signs(self.cube_dim)
        return jnp.asarray(np.concatenate([np.ones((len(signs), 1)), signs], axis=1).astype(dtype))


@pytree
class HypercubeBandit(Hypercube):
    """One cube for all rounds; built by :func:`hypercube_bandit`."""

    gap: Number = number(above=0, doc="each coordinate of mu is -gap or gap.")
    level: Number = number(above=0, squared=True, doc="s: rewards are 0 or s.")
    active_rounds: Number = number(at_least=0, doc="rounds before the decision set becomes {0}.")
    fixed_arms: bool = static()

    @property
    def dim(self) -> int:
        """Length of an arm: the intercept and the cube's coordinates."""
        return self.cube_dim + 1

    @property
    def noise_bound(self) -> Number:
        """``s``."""
        return self.level

    @property
    def lower_bound(self) -> Number:
        """``d s sqrt(n) / (8 sqrt 6)``, n the active rounds: a bound on every expected regret at gap multiplier 1."""
        return self.cube_dim * self.level * self.active_rounds**0.5 / (8 * math.sqrt(6))

    def init(self, key: jax.Array) -> LinearInstance:
        """Draw the signs of mu."""
        dtype = jnp.result_type(self.gap)
        mu = random.signs(random.bits(random.key_words(key), (self.cube_dim,)), dtype) * self.gap
        theta = jnp.concatenate([jnp.full(1, _BASE, dtype), mu])
        arms = self.corners(dtype) * self.level
        return LinearInstance(theta, arms, inner(arms, theta))

    def observe(self, instance: LinearInstance, round: jax.Array, key: jax.Array) -> Observation:
        """Return all corners of the cube while the instance is active, then only the zero vector."""
        arms, mean = jnp.asarray(instance.arms), jnp.asarray(instance.mean)
        if not self.fixed_arms:
            active = jnp.asarray(round).astype(jnp.result_type(self.active_rounds)) <= self.active_rounds
            arms, mean = jnp.where(active, arms, 0), jnp.where(active, mean, 0)
        return Observation(arms, mean, bernoulli(self.level).variance(mean, mean), jnp.zeros_like(mean))

    def pull(
        self, instance: LinearInstance, observation: Observation, action: jax.Array, round: jax.Array, key: jax.Array
    ) -> jax.Array:
        """Return ``s`` with probability ``1/3 + <mu, a>``, else 0, []."""
        mean = take(observation.mean, action)
        return mean + bernoulli(self.level).draw(random.bits(random.key_words(key), ()), mean, mean)


def hypercube_bandit(
    cube_dim: int,
    num_rounds: int,
    *,
    level: Number = 1.0,
    gap_multiplier: Number = 1.0,
    budget: Number | None = None,
) -> HypercubeBandit:
    r"""Rewards :math:`s \cdot \mathrm{Bernoulli}(1/3 + \langle\mu, a\rangle)` on the corners of a cube.

    The arms are all of :math:`\{-1,1\}^d` and :math:`\mu` is uniform on :math:`\{-\Delta,\Delta\}^d`. As a linear
    bandit the arm is :math:`(s, s a)` and :math:`\theta^* = (1/3, \mu)`, so the dimension is d + 1. With
    :math:`\Delta = g / \sqrt{96 n}`, n the active rounds, and g = 1, every algorithm has an expected regret of at least
    :math:`d s \sqrt n / (8\sqrt 6)`, and uniform play exactly twice that: use a gap multiplier g of 5 to 20 to compare
    algorithms.

    Args:
      cube_dim: d.
      num_rounds: K, rounds that will be played.
      level: s, the size of a reward; the variance is about ``2 s^2 / 9``.
      gap_multiplier: g; ``d g Delta`` must be at most 1/3.
      budget: Lambda; only the first ``floor(Lambda / s^2)`` rounds are active, the decision set is {0} in the
        others, so that the total variance stays below the budget whatever s is.

    Returns:
      The environment, a pytree.

    References:
      Zhou, Gu, Szepesvari (2021), Lemma C.8; He, Gu (2025), Lemma 4.3.
    """
    declared = parameters.parameters(HypercubeBandit)
    cube_dim = declared["cube_dim"].check("cube_dim", cube_dim)
    num_rounds = parameters.check_count("num_rounds", num_rounds)
    stored_level = declared["level"].check("level", level)
    active = num_rounds
    if budget is not None:
        parameters.check_positive("budget", budget)
        active = min(num_rounds, math.floor(float(budget) / float(level) ** 2 * (1 + 1e-12)))
        if active < 1:
            raise ValueError(f"budget must be at least level^2 = {float(level) ** 2:g}, got {parameters.shown(budget)}")
    _check_multiplier(gap_multiplier, cube_dim, active)
    return HypercubeBandit(
        gap=leaf(gap_multiplier / math.sqrt(96 * active)),
        level=stored_level,
        active_rounds=leaf(active),
        cube_dim=cube_dim,
        fixed_arms=active == num_rounds,
    )


class BlockInstance(NamedTuple):
    """One problem."""

    theta_star: jax.Array  # [dim]   a block after the other
    prob: jax.Array  # [blocks, num_arms]   that a reward is not 0


@pytree
class HypercubeBlocks(Hypercube):
    """A cube for each block of rounds, one block for each noise level; built by :func:`hypercube_blocks`."""

    gaps: jax.Array  # [blocks]   each coordinate of a block's mu is -gap or gap
    levels: jax.Array  # [blocks]   rewards are 0 or the level of the block
    block_rounds: jax.Array  # [blocks]
    order: Array  # [period]   int32, the block of each round, over and over
    num_blocks: int = static()
    fixed_arms: bool = static(default=False)

    @property
    def dim(self) -> int:
        """Length of an arm: for each block an intercept and the cube's coordinates."""
        return self.num_blocks * (self.cube_dim + 1)

    @property
    def noise_bound(self) -> Number:
        return self.levels.max()

    @property
    def lower_bound(self) -> Number:
        """The sum over blocks of ``d s_i sqrt(n_i) / (8 sqrt 6)``: bounds every expected regret at gap multiplier 1."""
        return self.cube_dim * (self.levels * self.block_rounds**0.5).sum() / (8 * math.sqrt(6))

    def init(self, key: jax.Array) -> BlockInstance:
        """Draw the signs of every block's mu."""
        words = random.bits(random.key_words(key), (self.num_blocks, self.cube_dim))
        dtype = jnp.result_type(self.gaps)
        mu = random.signs(words, dtype) * self.gaps[:, None]
        theta = jnp.concatenate([jnp.full_like(mu[:, :1], _BASE), mu], axis=1)  # [blocks, 1 + d]
        prob = jnp.sum(self.corners(dtype)[None] * theta[:, None], axis=2)
        return BlockInstance(theta.reshape(-1), prob)

    def observe(self, instance: BlockInstance, round: jax.Array, key: jax.Array) -> Observation:
        """Return the corners of the round's cube, zero in the coordinates of all other blocks."""
        level = self._level(round)
        arms = self.corners(level.dtype)[:, None] * level[None, :, None]  # [N, blocks, 1 + d]
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

    def _level(self, round: jax.Array) -> jax.Array:
        """Return the level of the round's block and zero for the others, [blocks]."""
        block = jnp.asarray(self.order)[(round - 1) % self.order.shape[0]]
        return (np.arange(self.num_blocks, dtype=np.int32) == block).astype(jnp.result_type(self.gaps)) * self.levels


def hypercube_blocks(
    cube_dim: int,
    num_rounds: int,
    levels: Sequence[float] | Array,
    *,
    order: Sequence[int] | None = None,
    gap_multiplier: Number = 1.0,
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
    period = np.arange(len(levels), dtype=np.int32)
    if order is not None:
        period = np.asarray(parameters.check_array("order", order, (None,)))
        if period.dtype.kind != "i" or period.min() < 0 or period.max() >= len(levels):
            raise ValueError(f"order must hold integers from 0 to {len(levels) - 1}, got {parameters.shown(order)}")
    whole, rest = divmod(num_rounds, len(period))
    block_rounds = np.bincount(period, minlength=len(levels)) * whole
    block_rounds += np.bincount(period[:rest], minlength=len(levels))
    if block_rounds.min() == 0:
        raise ValueError(
            f"order must have every block in {num_rounds} rounds, got none of block {block_rounds.argmin()}"
        )
    _check_multiplier(gap_multiplier, cube_dim, int(block_rounds.min()))
    multiplier = gap_multiplier if parameters.is_traced(gap_multiplier) else float(gap_multiplier)
    return HypercubeBlocks(
        gaps=leaf(multiplier / np.sqrt(96 * block_rounds)),
        levels=leaf(levels),
        block_rounds=leaf(block_rounds),
        order=period.astype(np.int32),
        cube_dim=cube_dim,
        num_blocks=len(levels),
    )


def _check_multiplier(gap_multiplier: Number, cube_dim: int, rounds: int) -> None:
    """Refuse a multiplier with which a cube played for ``rounds`` rounds would have negative probabilities."""
    parameters.check_positive("gap_multiplier", gap_multiplier)
    most = _BASE * math.sqrt(96 * rounds) / cube_dim
    if not parameters.is_traced(gap_multiplier) and gap_multiplier > most * (1 + 1e-12):
        raise ValueError(
            f"gap_multiplier must be at most {most:g} for these rounds and cube_dim, got {gap_multiplier!r}"
        )


def all_signs(num: int) -> Array:
    """Return all of {-1, 1}^num, [2^num, num]."""
    return np.array(list(itertools.product([-1.0, 1.0], repeat=num)))
