"""The hypercube instance behind the lower bounds, with a gap multiplier and a variance budget."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, random
from jaxvar.environments.interface import Observation
from jaxvar.environments.linear_bandit import LinearInstance
from jaxvar.environments.noise import Bernoulli, bernoulli
from jaxvar.lowering import inner, take
from jaxvar.parameters import count, leaf, number, pytree, static

BASE = 1.0 / 3.0  # mean of the Bernoulli before the gaps


@pytree
class HypercubeBandit:
    """Bernoulli rewards on all of {-1, 1}^d; built by :func:`hypercube_bandit`."""

    gap: Any = number(above=0, doc="each coordinate of mu is -gap or gap.")
    level: Any = number(above=0, squared=True, doc="s: rewards are 0 or s.")
    active_rounds: Any = number(at_least=0, doc="rounds before the decision set becomes {0}.")
    cube_dim: int = count(high=16, doc="d.")
    fixed_arms: bool = static()

    @property
    def dim(self) -> int:
        """Length of an arm: the intercept and the cube's coordinates."""
        return self.cube_dim + 1

    @property
    def num_arms(self) -> int:
        """``2^d``."""
        return int(2**self.cube_dim)

    @property
    def norm_bound(self) -> Any:
        """``s sqrt(1 + d)``, the norm of every arm."""
        return self.level * math.sqrt(1 + self.cube_dim)

    @property
    def noise_bound(self) -> Any:
        """``s``."""
        return self.level

    @property
    def lower_bound(self) -> Any:
        """``d s sqrt(n) / (8 sqrt 6)``, n the active rounds: a bound on every expected regret at gap multiplier 1."""
        return self.cube_dim * self.level * self.active_rounds**0.5 / (8 * math.sqrt(6))

    @property
    def _noise(self) -> Bernoulli:
        return bernoulli(self.level)

    def init(self, key: jax.Array) -> LinearInstance:
        """Draw the signs of mu."""
        dtype = jnp.result_type(self.gap)
        mu = random.signs(random.bits(random.key_words(key), (self.cube_dim,)), dtype) * self.gap
        theta = jnp.concatenate([jnp.full(1, BASE, dtype), mu])
        arms = jnp.asarray(corners(self.cube_dim).astype(dtype)) * self.level
        return LinearInstance(theta, arms, inner(arms, theta))

    def observe(self, instance: LinearInstance, round: jax.Array, key: jax.Array) -> Observation:
        """Return all corners of the cube while the instance is active, then only the zero vector."""
        arms, mean = instance.arms, instance.mean
        if arms is None or mean is None:
            raise TypeError("a hypercube instance holds its arms")
        if not self.fixed_arms:
            active = jnp.asarray(round).astype(self.active_rounds.dtype) <= self.active_rounds
            arms, mean = jnp.where(active, arms, 0), jnp.where(active, mean, 0)
        return Observation(arms, mean, self._noise.variance(mean, mean), jnp.zeros_like(mean))

    def pull(
        self, instance: LinearInstance, observation: Observation, action: jax.Array, round: jax.Array, key: jax.Array
    ) -> jax.Array:
        """Return ``s`` with probability ``1/3 + <mu, a>``, else 0, []."""
        mean = take(observation.mean, action)
        return mean + self._noise.draw(random.bits(random.key_words(key), ()), mean, mean)


def hypercube_bandit(
    cube_dim: int, num_rounds: int, *, level: Any = 1.0, gap_multiplier: Any = 1.0, budget: Any = None
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
    active: Any = num_rounds
    if budget is not None:
        parameters.check_positive("budget", budget)
        active = min(num_rounds, math.floor(float(budget) / float(level) ** 2 * (1 + 1e-12)))
        if active < 1:
            raise ValueError(f"budget must be at least level^2 = {float(level) ** 2:g}, got {budget!r}")
    check_multiplier(gap_multiplier, cube_dim, active)
    return HypercubeBandit(
        gap=leaf(gap_multiplier / math.sqrt(96 * active)),
        level=stored_level,
        active_rounds=leaf(active),
        cube_dim=cube_dim,
        fixed_arms=active == num_rounds,
    )


def check_multiplier(gap_multiplier: Any, cube_dim: int, rounds: int) -> None:
    """Refuse a multiplier with which a cube played for ``rounds`` rounds would have negative probabilities."""
    parameters.check_positive("gap_multiplier", gap_multiplier)
    most = BASE * math.sqrt(96 * rounds) / cube_dim
    if not parameters.is_traced(gap_multiplier) and gap_multiplier > most * (1 + 1e-12):
        raise ValueError(
            f"gap_multiplier must be at most {most:g} for these rounds and cube_dim, got {gap_multiplier!r}"
        )


def corners(cube_dim: int) -> np.ndarray[Any, Any]:
    """Return all arms before scaling, ``(1, a)``, [2^d, d + 1]."""
    signs = all_signs(cube_dim)
    return np.concatenate([np.ones((len(signs), 1)), signs], axis=1)


def all_signs(num: int) -> np.ndarray[Any, Any]:
    """Return all of {-1, 1}^num, [2^num, num]."""
    return np.array(list(itertools.product([-1.0, 1.0], repeat=num)))
