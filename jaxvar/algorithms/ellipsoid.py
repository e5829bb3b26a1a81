"""Optimism over one ellipsoid around a weighted ridge estimate: all of such an algorithm but its weights and radius.

With the weight ``w`` of each observation,

    Sigma = lam I + sum w^2 x x^T          theta_hat = Sigma^-1 sum w^2 y x

and the arm with the largest ``<a, theta_hat> + beta |a|_{Sigma^-1}`` is pulled. That is the best arm under the best
theta of the ellipsoid ``|theta - theta_hat|_Sigma <= beta``, so there is nothing else to optimise.

A weighted observation ``(x, y)`` is a plain one of ``(w x, w y)``: :func:`jaxvar.ridge.regress` does the rest.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Self

import chex
import jax
import jax.numpy as jnp

from jaxvar import checks, random, ridge, status
from jaxvar import ties as tie_rules
from jaxvar.algorithms import arm_view
from jaxvar.algorithms.arm_view import ArmView
from jaxvar.algorithms.interface import Choice, Confidence, Side
from jaxvar.batching import seeds_last
from jaxvar.pytrees import float_dtype, leaf, pytree, static

RADII = ("determinant", "data_free")


class EllipsoidState(NamedTuple):
    """State of an ellipsoid algorithm for one seed."""

    regression: ridge.Ridge  # of the weighted observations
    largest_weight: jax.Array  # []   the largest w so far; 0 before the first observation
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    view: ArmView | None  # only for fixed arms


@pytree
class Ellipsoid:
    """Base of the algorithms with one ellipsoid; each gives ``ridge``, ``weight`` and ``radius``."""

    delta: Any
    lam: Any  # the ridge, or None where the theorem's follows from other numbers
    theta_bound: Any  # B
    beta_scale: Any  # c, a multiplier of the stochastic part of the radius
    fixed_radius: Any  # replaces the whole radius, or None
    tie_tolerance: Any
    dim: int = static()
    ties: str = static()
    fixed_arms: Any = None  # [num_arms, dim] where the decision set never changes

    def ridge(self) -> Any:
        """``lam``."""
        raise NotImplementedError

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """``w`` of an observation of an arm of ``width`` (before learning), told the noise variance; all ``[]``."""
        raise NotImplementedError

    def radius(self, state: EllipsoidState) -> jax.Array:
        """``beta`` for the next round, ``[]``."""
        raise NotImplementedError

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    def init(self) -> EllipsoidState:
        """An empty regression."""
        regression = ridge.init_ridge(self.dim, self.ridge(), self.dtype)
        return EllipsoidState(
            regression=regression,
            largest_weight=jnp.zeros((), self.dtype),
            round=jnp.int32(0),
            status=jnp.int32(0),
            view=None if self.fixed_arms is None else arm_view.view(regression, None, self.fixed_arms),
        )

    def select(self, state: EllipsoidState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest upper confidence bound.

        The variances in ``side`` do not enter the choice; they give the weight that is recorded with it.
        """
        chex.assert_shape(arms, (None, self.dim))
        return _select(self, state, arms, side.noise_var, random.key_words(key))

    def update(
        self, state: EllipsoidState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side
    ) -> EllipsoidState:
        """One step of ridge regression, with the weight that follows from what ``side`` tells after the pull."""
        chex.assert_shape(x, (self.dim,))
        return _update(self, state, choice, x, reward, side.noise_var)

    def confidence(self, state: EllipsoidState) -> Confidence:
        """The one ellipsoid, as a layer."""
        return Confidence(state.regression.loss[None], jnp.asarray(self.ridge())[None], _beta(self, state)[None])

    def with_fixed_arms(self, arms: jax.Array) -> Self:
        """The same algorithm for arms ``[num_arms, dim]`` that never change: O(N d) a round, the same choices."""
        chex.assert_shape(arms, (None, self.dim))
        return dataclasses.replace(self, fixed_arms=arms)


@pytree
class KnownVarianceEllipsoid(Ellipsoid):
    """An ellipsoid algorithm that is told the noise variance of each pulled arm, with its reward."""

    variance_scale: Any  # multiplies what it is told
    variance_bound: Any  # what it is told in place of the variance, or None

    def told(self, noise_var: jax.Array) -> jax.Array:
        """``sigma_k^2`` as the algorithm hears of it."""
        return self.variance_scale * (noise_var if self.variance_bound is None else self.variance_bound)


def parameters(
    dim: Any, delta: Any, theta_bound: Any, beta_scale: Any, fixed_radius: Any, ties: Any, tie_tolerance: Any
) -> dict[str, Any]:
    """The fields of :class:`Ellipsoid` but ``lam`` from a factory's arguments, checked."""
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return {
        "delta": number("delta", delta),
        "theta_bound": number("theta_bound", theta_bound),
        "beta_scale": number("beta_scale", beta_scale),
        "fixed_radius": optional("fixed_radius", fixed_radius),
        "tie_tolerance": number("tie_tolerance", tie_tolerance),
        "dim": checks.count("dim", dim),
        "ties": checks.choice("ties", ties, tie_rules.RULES),
    }


def number(name: str, value: Any) -> Any:
    """A checked leaf."""
    return leaf(checks.parameter(name, value))


def optional(name: str, value: Any) -> Any:
    """A checked leaf, or None."""
    return None if value is None else number(name, value)


def learn(
    regression: ridge.Ridge, view: ArmView | None, arms: Any, x: jax.Array, reward: jax.Array, weight: jax.Array
) -> tuple[ridge.Ridge, ArmView | None, jax.Array]:
    """One observation of weight ``w []``; a weight of zero changes nothing.

    Returns:
      The regression, the view of the fixed ``arms`` where there is one, and status bits.
    """
    after, view, seen = arm_view.learn(regression, view, weight[None] * x, weight * reward, arms)
    return after, view, arm_view.failure(seen)


def self_normalised_radius(form: str, state: EllipsoidState, dim: int, delta: Any, lam: Any, norm_bound: Any) -> Any:
    """How far the noise part may be off, over R, for weights of at most 1 (Abbasi-Yadkori et al. 2011, Theorem 1).

    ``sqrt(2 log(1/delta) + log det Sigma - d log lam)``, or ``sqrt(d log((1 + t A^2 / lam) / delta))``, which does not
    look at the arms pulled.
    """
    if form == "determinant":
        return jnp.sqrt(2 * jnp.log(1 / delta) + state.regression.log_det)
    rounds = state.round.astype(state.regression.log_det.dtype)
    return jnp.sqrt(dim * jnp.log((1 + rounds * norm_bound**2 / lam) / delta))


def _beta(self: Ellipsoid, state: EllipsoidState) -> jax.Array:
    if self.fixed_radius is not None:
        return jnp.broadcast_to(self.fixed_radius, state.largest_weight.shape)
    return self.radius(state)


@seeds_last
def _select(self: Ellipsoid, state: EllipsoidState, arms: jax.Array, noise_var: jax.Array, words: jax.Array) -> Choice:
    width2, pred = arm_view.view(state.regression, state.view, arms)
    width = jnp.sqrt(width2)
    upper = pred + _beta(self, state)[None] * width
    candidates = tie_rules.best(upper, jnp.ones(upper.shape, bool), self.tie_tolerance)
    action = tie_rules.pick(candidates, words, self.ties)
    weight = self.weight(tie_rules.take(width, action), tie_rules.take(noise_var, action))
    lost = jnp.where(jnp.isfinite(jnp.max(upper, axis=0)), 0, status.NONFINITE).astype(jnp.int32)
    return Choice(action, jnp.ones_like(action), weight, lost)


@seeds_last
def _update(
    self: Ellipsoid, state: EllipsoidState, choice: Choice, x: jax.Array, reward: jax.Array, noise_var: jax.Array
) -> EllipsoidState:
    width2 = jnp.sum(ridge.transform(state.regression.sigma_inv, x) * x, axis=0)
    weight = self.weight(jnp.sqrt(jnp.maximum(width2, 0)), noise_var)
    regression, view, failure = learn(state.regression, state.view, self.fixed_arms, x, reward, weight)
    return EllipsoidState(
        regression=regression,
        largest_weight=jnp.maximum(state.largest_weight, weight),
        round=state.round + 1,
        status=state.status | choice.status | failure,
        view=view,
    )
