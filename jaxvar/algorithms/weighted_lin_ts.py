"""Weighted LinTS: Thompson sampling on the statistics of Weighted OFUL+, for noise of known variance.

A peer for the variance-aware samplers, not an algorithm of a paper: the weights, the regression and the radius are
those of Weighted OFUL+ (Zhou and Gu 2022), and the radius scales a normal vector instead of a bonus.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import checks, random, ridge
from jaxvar import ties as tie_rules
from jaxvar.algorithms import arm_view, posterior, weighted_oful_plus
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.algorithms.posterior import Posterior
from jaxvar.batching import seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import float_dtype, leaf, pytree, static

CLAIM = Claim(
    name="Weighted LinTS",
    factory="weighted_lin_ts",
    reference="ours, on the statistics of Zhou, Gu 2022",
    setting="bandit",
    regret="none claimed",
    deterministic="none claimed",
    variance="told after the pull",
    efficient=True,
    constants="reconstructed",
)


class WeightedLinTsState(NamedTuple):
    """State of weighted LinTS for one seed."""

    posterior: Posterior  # Sigma = lam I + sum x x^T / sigma_bar^2
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


@pytree
class WeightedLinTs:
    """Weighted LinTS; built by :func:`weighted_lin_ts`."""

    noise_bound: Any  # R
    delta: Any
    num_rounds: Any  # K, in alpha
    theta_bound: Any  # B
    norm_bound: Any  # A
    variance_scale: Any  # multiplies what is told of the variance
    variance_bound: Any  # what is told in place of the variance, or None
    beta_scale: Any
    tie_tolerance: Any
    dim: int = static()
    ties: str = static()

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    @property
    def lam(self) -> Any:
        """The ridge, ``d / B^2``."""
        return self.dim / self.theta_bound**2

    @property
    def alpha(self) -> Any:
        """The floor of sigma_bar, ``1 / sqrt(K)``."""
        return 1 / jnp.sqrt(self.num_rounds)

    @property
    def gamma2(self) -> Any:
        """``gamma^2 = R / sqrt(d)``."""
        return self.noise_bound / self.dim**0.5

    def init(self) -> WeightedLinTsState:
        """An empty regression."""
        return WeightedLinTsState(posterior.init(self.dim, self.lam, self.dtype), jnp.int32(0), jnp.int32(0))

    def select(self, state: WeightedLinTsState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Draw a parameter and choose its best of ``arms [num_arms, dim]``.

        The variances in ``side`` do not enter the choice; they give the weight that is recorded with it.
        """
        chex.assert_shape(arms, (None, self.dim))
        return _select(self, state, arms, side.noise_var, random.key_words(key))

    def update(
        self, state: WeightedLinTsState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side
    ) -> WeightedLinTsState:
        """One step of the regression, weighted by the variance ``side.noise_var []`` of the pulled arm."""
        chex.assert_shape(x, (self.dim,))
        return _update(self, state, choice, x, reward, side.noise_var)


def weighted_lin_ts(
    dim: int,
    num_rounds: Any,
    *,
    noise_bound: Any = 1.0,
    delta: Any = 0.01,
    theta_bound: Any = 1.0,
    norm_bound: Any = 1.0,
    variance_scale: Any = 1.0,
    variance_bound: Any = None,
    beta_scale: Any = 1.0,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> WeightedLinTs:
    r"""Weighted LinTS: draw :math:`\tilde\theta = \hat\theta + \beta_k \Sigma^{-1/2} z`, pull its best arm.

    With :math:`\alpha = 1/\sqrt K`, :math:`\gamma = \sqrt R / d^{1/4}`, :math:`\lambda = d/B^2` and the variance
    :math:`\sigma_k^2` told after the pull, the observation of round k has the weight :math:`1/\bar\sigma_k` in
    :math:`\Sigma = \lambda I + \sum x x^\top/\bar\sigma^2`,

    .. math:: \bar\sigma_k^2 = \max\{\sigma_k^2, \alpha^2, \gamma^2 \|x_k\|_{\Sigma^{-1}}\}

    in the norm before learning, and with :math:`\tau_k = \log(32(1 + \max\{0, \log(\gamma^2/\alpha)\})k^2/\delta)`

    .. math:: \beta_k = c\Big(12\sqrt{d\log\big(1 + kA^2/(\alpha^2 d\lambda)\big)\tau_k} + 30\tau_k R/\gamma^2\Big)
       + \sqrt\lambda B, \qquad \beta_1 = \sqrt\lambda B.

    Args:
      dim: d, the length of an arm.
      num_rounds: K, in alpha.
      noise_bound: R, with \|noise\| <= R.
      delta: failure probability.
      theta_bound: B, a bound on the norm of theta*.
      norm_bound: A, a bound on the norm of an arm.
      variance_scale: multiplies the variance that is told; above 1, an over-estimate.
      variance_bound: a constant told in place of the variance, if given.
      beta_scale: c, a multiplier of the stochastic part of the radius.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    References:
      Zhou, Gu (2022), Computationally efficient horizon-free reinforcement learning for linear mixture MDPs (Weighted
      OFUL+); the constants of the radius are derived again from their concentration inequality.

    Deviations:
      :math:`\max\{0, \cdot\}` keeps the logarithm in tau positive where :math:`\gamma^2 < \alpha`, and
      :math:`R/\gamma^2` is taken to be at most :math:`R/\alpha`, which bounds the same quantity.
    """
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return WeightedLinTs(
        noise_bound=leaf(checks.parameter("noise_bound", noise_bound)),
        delta=leaf(checks.parameter("delta", delta)),
        num_rounds=leaf(checks.parameter("num_rounds", num_rounds)),
        theta_bound=leaf(checks.parameter("theta_bound", theta_bound)),
        norm_bound=leaf(checks.parameter("norm_bound", norm_bound)),
        variance_scale=leaf(checks.parameter("variance_scale", variance_scale)),
        variance_bound=None if variance_bound is None else leaf(checks.parameter("variance_bound", variance_bound)),
        beta_scale=leaf(checks.parameter("beta_scale", beta_scale)),
        tie_tolerance=leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        dim=checks.count("dim", dim),
        ties=checks.choice("ties", ties, tie_rules.RULES),
    )


def spread(self: WeightedLinTs, state: WeightedLinTsState) -> jax.Array:
    """``beta_k`` of the coming round k."""
    stochastic = weighted_oful_plus.stochastic_radius(self, state.round, self.lam, self.alpha, self.gamma2)
    return self.beta_scale * stochastic + jnp.sqrt(self.lam) * self.theta_bound


def _weight(self: WeightedLinTs, state: WeightedLinTsState, x: jax.Array, noise_var: jax.Array) -> jax.Array:
    """``1 / sigma_bar`` of an observation of ``x [d]``."""
    width = jnp.sqrt(ridge.quadratic(x[None], state.posterior.regression.sigma_inv)[0])
    told = self.variance_scale * (noise_var if self.variance_bound is None else self.variance_bound)
    return weighted_oful_plus.weight(told, width, self.alpha, self.gamma2)


@seeds_last
def _select(
    self: WeightedLinTs, state: WeightedLinTsState, arms: jax.Array, noise_var: jax.Array, words: jax.Array
) -> Choice:
    sampled = ridge.inner(arms, posterior.draw(state.posterior, spread(self, state), words))
    best = tie_rules.best(sampled, jnp.ones(sampled.shape, bool), self.tie_tolerance)
    action = tie_rules.pick(best, words, self.ties)
    weight = _weight(self, state, tie_rules.take(arms, action), tie_rules.take(noise_var, action))
    return Choice(action, jnp.ones_like(action), weight, arm_view.lost(sampled))


@seeds_last
def _update(
    self: WeightedLinTs,
    state: WeightedLinTsState,
    choice: Choice,
    x: jax.Array,
    reward: jax.Array,
    noise_var: jax.Array,
) -> WeightedLinTsState:
    weight = _weight(self, state, x, noise_var)
    after, seen = posterior.learn(state.posterior, weight[None] * x, weight * reward)
    return WeightedLinTsState(after, state.round + 1, state.status | choice.status | arm_view.failure(seen))
