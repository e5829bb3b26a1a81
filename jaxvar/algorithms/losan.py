"""LOSAN: linear optimism with semi-adaptivity to noise (Jun and Kim 2024).

The learner is told a sub-Gaussian scale R that may be far above the true one; the radius follows the prediction errors.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import checks, random, ridge
from jaxvar import ties as tie_rules
from jaxvar.algorithms import arm_view
from jaxvar.algorithms.interface import Choice, Confidence, Side
from jaxvar.batching import seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import float_dtype, leaf, pytree, static

CLAIM = Claim(
    name="LOSAN",
    factory="losan",
    reference="Jun, Kim 2024",
    setting="bandit",
    regret="sqrt(d K (d sigma^2 + R^2))",
    deterministic="R sqrt(d K)",
    variance="estimated",
    efficient=True,
    constants="read",
    assumption="sub-Gaussian noise of one unknown scale sigma, at most the known R",
)


class LosanState(NamedTuple):
    """State of LOSAN for one seed."""

    regression: ridge.Ridge  # Sigma = lam I + sum w^2 x x^T
    error_sum: jax.Array  # []   sum of w^2 e^2 D^2 / 2, with e = y - <theta, x> before learning
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    kept: arm_view.ArmView | None  # only for fixed arms


@pytree
class Losan:
    """LOSAN; built by :func:`losan`."""

    noise_bound: Any  # R, the paper's sigma_0
    delta: Any
    theta_bound: Any  # the paper's S
    beta_scale: Any
    tie_tolerance: Any
    dim: int = static()
    ties: str = static()
    fixed_arms: Any = None  # [num_arms, dim] where the decision set never changes

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    @property
    def lam(self) -> Any:
        """The ridge, ``R^2 / S^2``."""
        return (self.noise_bound / self.theta_bound) ** 2

    def init(self) -> LosanState:
        """An empty regression."""
        return LosanState(
            regression=ridge.init_ridge(self.dim, self.lam, self.dtype),
            error_sum=jnp.zeros((), self.dtype),
            round=jnp.int32(0),
            status=jnp.int32(0),
            kept=arm_view.first(self.fixed_arms, self.lam, self.dtype),
        )

    def select(self, state: LosanState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest upper confidence bound."""
        chex.assert_shape(arms, (None, self.dim))
        return _select(self, state, arms, random.key_words(key))

    def update(self, state: LosanState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> LosanState:
        """One step of the weighted regression."""
        chex.assert_shape(x, (self.dim,))
        return _update(self, state, choice, x, reward)

    def confidence(self, state: LosanState) -> Confidence:
        """The one ellipsoid, as a layer."""
        return Confidence(state.regression.loss[None], jnp.asarray(self.lam)[None], _radius(self, state)[None])

    def with_fixed_arms(self, arms: jax.Array) -> Losan:
        """The same algorithm for arms ``[num_arms, dim]`` that never change: O(N d) a round, the same choices."""
        chex.assert_shape(arms, (None, self.dim))
        return dataclasses.replace(self, fixed_arms=arms)


def losan(
    dim: int,
    *,
    noise_bound: Any = 1.0,
    delta: Any = 0.01,
    theta_bound: Any = 1.0,
    beta_scale: Any = 1.0,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> Losan:
    r"""LOSAN: pull :math:`\arg\max_a \langle a, \hat\theta\rangle + \sqrt{2\beta} \|a\|_{\Sigma^{-1}}`.

    An observation has the weight :math:`w = \min(1, 1/\|x\|_{\Sigma^{-1}})` in
    :math:`\Sigma = \lambda I + \sum w^2 x x^\top` with :math:`\lambda = R^2/S^2`. With :math:`e = y - \langle x,
    \hat\theta\rangle` before learning and :math:`D^2 = \|w x\|^2` in the norm of the inverse after it,

    .. math:: 2\beta = \lambda S^2 + c^2 \Big(2 R^2 \log(1/\delta) + \sum w^2 e^2 D^2\Big).

    The set holds because :math:`\tfrac12\|\theta^* - \hat\theta\|_\Sigma^2 = \tfrac\lambda2 \|\theta^*\|^2 +
    \tfrac12\sum w^2 e^2 D^2 - \sum w^2(\eta g + g^2/2)` exactly, with the noise :math:`\eta` and
    :math:`g = \langle x, \theta^* - \hat\theta\rangle` before learning, and the exponential of the last sum over
    :math:`R^2` is a supermartingale for :math:`w \le 1`.

    Args:
      dim: d, the length of an arm.
      noise_bound: R, a sub-Gaussian scale that the noise is known not to exceed (:math:`\sigma_0` in the paper); noise
        in [-R, R] is R-sub-Gaussian.
      delta: failure probability.
      theta_bound: S, a bound on the norm of theta*.
      beta_scale: c, a multiplier of the stochastic part of the radius; 1 is the theorem.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    References:
      Jun, Kim (2024), Noise-adaptive confidence sets for linear bandits and application to Bayesian optimization;
      constants as in the authors' code.

    Deviations:
      The authors' code plays its first arm uniformly at random. Here the first arm is the longest one, and for arms of
      equal length that is a uniform draw too (``ties="random"``).
    """
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return Losan(
        noise_bound=leaf(checks.parameter("noise_bound", noise_bound)),
        delta=leaf(checks.parameter("delta", delta)),
        theta_bound=leaf(checks.parameter("theta_bound", theta_bound)),
        beta_scale=leaf(checks.parameter("beta_scale", beta_scale)),
        tie_tolerance=leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        dim=checks.count("dim", dim),
        ties=checks.choice("ties", ties, tie_rules.RULES),
    )


def _radius(self: Losan, state: LosanState) -> jax.Array:
    """``sqrt(2 beta)``; ``lam S^2`` is ``R^2``."""
    stochastic = self.noise_bound**2 * jnp.log(1 / self.delta) + state.error_sum
    return jnp.sqrt(self.noise_bound**2 + self.beta_scale**2 * 2 * stochastic)


@seeds_last
def _select(self: Losan, state: LosanState, arms: jax.Array, words: jax.Array) -> Choice:
    seen = arm_view.view(state.regression, state.kept, arms)
    width = jnp.sqrt(seen.width2)
    upper = seen.pred + _radius(self, state)[None] * width
    action = tie_rules.pick(tie_rules.best(upper, jnp.ones(upper.shape, bool), self.tie_tolerance), words, self.ties)
    weight = 1 / jnp.maximum(tie_rules.take(width, action), 1)
    return Choice(action, jnp.ones_like(action), weight, arm_view.lost(upper))


@seeds_last
def _update(self: Losan, state: LosanState, choice: Choice, x: jax.Array, reward: jax.Array) -> LosanState:
    weight = choice.weight
    regression, kept, seen = arm_view.learn(
        state.regression, state.kept, weight[None] * x, weight * reward, self.fixed_arms
    )
    shrunk = seen.gain * seen.width2  # D^2
    return LosanState(
        regression=regression,
        error_sum=state.error_sum + 0.5 * seen.error**2 * shrunk,
        round=state.round + 1,
        status=state.status | choice.status | arm_view.failure(seen),
        kept=kept,
    )
