"""Bases of the bandit algorithms: parameters that are declared once, the choice of an arm, and fixed arms."""

from __future__ import annotations

from typing import Self, TypeVar

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, status
from jaxvar import ties as tie_rules
from jaxvar.algorithms.interface import Number
from jaxvar.parameters import choice, count, number, pytree

T = TypeVar("T")
EXPLORE = ("widest", "first", "random", "optimistic")
EXPLORE_DOC = (
    "which too-uncertain arm to pull, which the paper leaves free: ``widest``, ``first``, ``random``, or "
    "``optimistic`` (the largest upper confidence bound)."
)


@pytree
class Bandit:
    """Base of the bandit algorithms with a failure probability."""

    dim: int = count(kw_only=False, doc="d, the length of an arm.")
    noise_bound: Number = number(above=0, squared=True, default=1.0, doc=r"R, with \|noise\| <= R.")
    delta: Number = number(above=0, below=1, default=0.01, doc="failure probability.")
    ties: str = tie_rules.rule()
    tie_tolerance: Number | None = tie_rules.tolerance()

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The float type of the run."""
        return np.dtype(jnp.result_type(self.delta))

    @property
    def unit(self) -> Number:
        """The size of what values are made of, by which ties are judged (:mod:`jaxvar.ties`)."""
        return 1

    def best(self, values: jax.Array, words: jax.Array, allowed: jax.Array | None = None) -> jax.Array:
        """Return the arm of the largest of ``values [N]``, among the ``allowed [N]`` where they are given, [].

        Ties are broken with the ``words [2]`` of the round's key.
        """
        allowed = jnp.ones(values.shape, bool) if allowed is None else allowed
        return tie_rules.pick(tie_rules.best(values, allowed, self.tie_tolerance, self.unit), words, self.ties)


@pytree
class BoundedBandit(Bandit):
    """Base of the bandit algorithms that are told a bound on theta* and whose radius can be scaled."""

    theta_bound: Number = number(
        above=0,
        squared=True,
        default=1.0,
        doc="B, a bound on the norm of theta*, and the unit in which ties are judged.",
    )
    beta_scale: Number = number(
        at_least=0, default=1.0, doc="c, a multiplier of the stochastic part of the radius; 1 is the theorem."
    )

    @property
    def unit(self) -> Number:
        """The size of what values are made of: the bound on theta*."""
        return self.theta_bound


@pytree
class FixedArms(Bandit):
    """Base of the bandit algorithms that save time where the decision set never changes."""

    fixed_arms: jax.Array | None = None  # [num_arms, dim] where the decision set never changes

    def with_fixed_arms(self, arms: jax.Array) -> Self:
        """Return the algorithm for arms ``[num_arms, dim]`` that never change: O(N d) a regression, same choices."""
        chex.assert_shape(arms, (None, self.dim))
        return parameters.replace(self, fixed_arms=arms)


@pytree
class Eliminating(FixedArms):
    """Base of the algorithms that eliminate arms layer by layer, and pull one that is still too uncertain."""

    explore: str = choice(*EXPLORE, default="widest", doc=EXPLORE_DOC)

    def explore_or_best(
        self, learns: jax.Array, width: jax.Array, upper: jax.Array, allowed: jax.Array, words: jax.Array
    ) -> jax.Array:
        """Return one of the ``allowed [N]`` arms: by ``explore`` where a layer ``learns []``, else the best, [].

        Arms have the ``width [N]`` and the ``upper [N]`` confidence bound.
        """
        if self.explore == "optimistic":
            return self.best(upper, words, allowed)
        if self.explore == "widest":
            return self.best(jnp.where(learns, width, upper), words, allowed)
        explored = tie_rules.pick(allowed, words, "lowest" if self.explore == "first" else "random")
        return jnp.where(learns, explored, self.best(upper, words, allowed))


@pytree
class ToldVariance:
    """Base of the bandit algorithms that are told the noise variance."""

    variance_scale: Number = number(
        above=0, default=1.0, doc="multiplies the variance that is told; above 1, an over-estimate."
    )
    variance_bound: Number | None = number(
        at_least=0, default=None, doc="a constant told in place of the variance, if given."
    )

    def told(self, noise_var: jax.Array) -> Number:
        """Return ``sigma^2`` as the algorithm hears of it: told after the pull, []."""
        return self.variance_scale * (noise_var if self.variance_bound is None else self.variance_bound)


def lost(values: jax.Array) -> jax.Array:
    """Return the status bits of a choice among ``values [num_arms]``, int32 []."""
    return jnp.where(jnp.isfinite(jnp.max(values, axis=0)), 0, status.NONFINITE).astype(jnp.int32)


def at_layer(stack: T, i: int) -> T:
    """Return entry ``i`` of each array of a pytree."""
    return jax.tree.map(lambda v: v[i], stack)
