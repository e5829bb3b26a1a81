"""Optimism over one ellipsoid around a weighted ridge estimate: all of such an algorithm but its weights and radius.

With the weight ``w`` of each observation,

    Sigma = lam I + sum w^2 x x^T          theta_hat = Sigma^-1 sum w^2 y x

and the arm with the largest ``<a, theta_hat> + beta |a|_{Sigma^-1}`` is pulled. That is the best arm under the best
theta of the ellipsoid ``|theta - theta_hat|_Sigma <= beta``, so there is nothing else to optimise.

A weighted observation ``(x, y)`` is a plain one of ``(w x, w y)``: :func:`jaxvar.ridge.regress` does the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import chex
import jax
import jax.numpy as jnp

from jaxvar import parameters, random, ridge, status
from jaxvar import ties as tie_rules
from jaxvar.algorithms.interface import Choice, Confidence, Side
from jaxvar.lowering import take, transform
from jaxvar.parameters import count, number, pytree

RADII = ("determinant", "data_free")


class EllipsoidState(NamedTuple):
    """State of an ellipsoid algorithm for one seed."""

    regression: ridge.Ridge  # of the weighted observations
    largest_weight: jax.Array  # []   the largest w so far; 0 before the first observation
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    stats: ridge.ArmStats | None  # only for fixed arms


@pytree
class Ellipsoid:
    """Base of the algorithms with one ellipsoid; each gives ``weight`` and ``radius_of``."""

    dim: int = count(kw_only=False, doc="d, the length of an arm.")
    noise_bound: Any = number(above=0, squared=True, default=1.0, doc=r"R, with \|noise\| <= R.")
    delta: Any = number(above=0, below=1, default=0.01, doc="failure probability.")
    lam: Any = number(above=0, default=1.0, doc="the ridge.")
    theta_bound: Any = number(above=0, squared=True, default=1.0, doc="B, a bound on the norm of theta*.")
    beta_scale: Any = number(
        at_least=0, default=1.0, doc="c, a multiplier of the stochastic part of the radius; 1 is the theorem."
    )
    fixed_radius: Any = number(at_least=0, default=None, doc="a constant that replaces the whole radius.")
    ties: str = tie_rules.rule()
    tie_tolerance: Any = tie_rules.tolerance()
    fixed_arms: Any = None  # [num_arms, dim] where the decision set never changes

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``w`` of an observation of an arm of ``width`` (before learning), told the noise variance; all []."""
        raise NotImplementedError

    def radius_of(self, state: EllipsoidState) -> jax.Array:
        """Return the theorem's ``beta`` for the next round, []."""
        raise NotImplementedError

    def beta(self, state: EllipsoidState) -> jax.Array:
        """Return ``beta`` for the next round, []."""
        return self.radius_of(state) if self.fixed_radius is None else jnp.asarray(self.fixed_radius)

    @property
    def unused(self) -> tuple[str, ...]:
        """Assumptions that the radius does not rest on: those on arms, or all where it is given."""
        if self.fixed_radius is not None:
            return ("noise_bound", "norm_bound", "num_rounds")
        return ("norm_bound",) if getattr(self, "radius", None) == "determinant" else ()

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    def init(self) -> EllipsoidState:
        """Return an empty regression."""
        regression = ridge.init_ridge(self.dim, self.lam, self.dtype)
        stats = None if self.fixed_arms is None else ridge.arm_stats(regression, jnp.asarray(self.fixed_arms))
        return EllipsoidState(regression, jnp.zeros((), self.dtype), jnp.int32(0), jnp.int32(0), stats)

    def select(self, state: EllipsoidState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest upper confidence bound.

        The variances in ``side`` do not enter the choice; they give the weight that is recorded with it.
        """
        chex.assert_shape(arms, (None, self.dim))
        width2, pred = ridge.arm_stats(state.regression, arms) if state.stats is None else state.stats
        width = jnp.sqrt(width2)
        upper = pred + self.beta(state) * width
        candidates = tie_rules.best(upper, jnp.ones(upper.shape, bool), self.tie_tolerance, self.theta_bound)
        action = tie_rules.pick(candidates, random.key_words(key), self.ties)
        weight = self.weight(take(width, action), take(side.noise_var, action))
        return Choice(action, jnp.ones_like(action), weight, lost(upper))

    def update(
        self, state: EllipsoidState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side
    ) -> EllipsoidState:
        """Learn by one step of ridge regression, with the weight that follows from what ``side`` tells."""
        chex.assert_shape(x, (self.dim,))
        width2 = jnp.sum(transform(state.regression.sigma_inv, x) * x, axis=0)
        weight = self.weight(jnp.sqrt(jnp.maximum(width2, 0)), side.noise_var)
        regression, update = ridge.regress(state.regression, weight * x, weight * reward, self.lam)
        stats = state.stats
        return EllipsoidState(
            regression=regression,
            largest_weight=jnp.maximum(state.largest_weight, weight),
            round=state.round + 1,
            status=state.status | choice.status | ridge.failure(update),
            stats=None if stats is None else ridge.follow(stats, update, jnp.asarray(self.fixed_arms)),
        )

    def confidence(self, state: EllipsoidState) -> Confidence:
        """Return the one ellipsoid, as a layer."""
        return Confidence(state.regression.loss[None], jnp.asarray(self.lam)[None], self.beta(state)[None])

    def with_fixed_arms(self, arms: jax.Array) -> Self:
        """Return the algorithm for arms ``[num_arms, dim]`` that never change: O(N d) a round, the same choices."""
        chex.assert_shape(arms, (None, self.dim))
        return parameters.replace(self, fixed_arms=arms)

    def self_normalised_radius(self, form: str, state: EllipsoidState, norm_bound: Any) -> jax.Array:
        """Return ``c R s + sqrt(lam) B`` for weights of at most 1 (Abbasi-Yadkori et al. 2011, Theorems 1 and 2), [].

        s is ``sqrt(2 log(1/delta) + log det Sigma - d log lam)``, or ``sqrt(d log((1 + t A^2 / lam) / delta))``, which
        does not look at the arms pulled.
        """
        if form == "determinant":
            growth = 2 * jnp.log(1 / self.delta) + state.regression.log_det
        else:
            rounds = state.round.astype(self.dtype)
            growth = self.dim * jnp.log((1 + rounds * norm_bound**2 / self.lam) / self.delta)
        return self.beta_scale * self.noise_bound * jnp.sqrt(growth) + jnp.sqrt(self.lam) * self.theta_bound


@pytree
class KnownVarianceEllipsoid(Ellipsoid):
    """An ellipsoid algorithm that is told the noise variance of each pulled arm, with its reward."""

    norm_bound: Any = number(above=0, squared=True, default=1.0, doc="A, a bound on the norm of an arm.")
    variance_scale: Any = number(
        above=0, default=1.0, doc="multiplies the variance that is told; above 1, an over-estimate."
    )
    variance_bound: Any = number(at_least=0, default=None, doc="a constant told in place of the variance, if given.")

    def told(self, noise_var: jax.Array) -> jax.Array:
        """Return ``sigma_k^2`` as the algorithm hears of it."""
        return self.variance_scale * (noise_var if self.variance_bound is None else self.variance_bound)


def lost(values: jax.Array) -> jax.Array:
    """Return the status bits of a choice among ``values [num_arms]``, int32 []."""
    return jnp.where(jnp.isfinite(jnp.max(values, axis=0)), 0, status.NONFINITE).astype(jnp.int32)
