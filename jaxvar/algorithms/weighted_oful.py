"""Regressions weighted by the known variance: Weighted OFUL, Weighted OFUL+, and a Thompson sampler on the latter.

The variance of the pulled arm is told with its reward: ``update`` uses it, the choice does not.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from jaxvar import ridge
from jaxvar.algorithms.bandit import ToldVariance
from jaxvar.algorithms.ellipsoid import EllipsoidState, KnownVarianceEllipsoid
from jaxvar.algorithms.interface import by_rule
from jaxvar.algorithms.thompson import Sampler, SamplerState
from jaxvar.claims import Claim
from jaxvar.parameters import Number, factory, number, pytree

CLAIMS = {
    "weighted_oful": Claim(
        "Weighted OFUL",
        "Zhou, Gu, Szepesvari 2021",
        "d sqrt(sum sigma^2) + sqrt(d K)",
        variance="told after the pull",
        constants="derived again",
        row=3,
    ),
    "weighted_oful_plus": Claim(
        "Weighted OFUL+",
        "Zhou, Gu 2022",
        "d sqrt(sum sigma^2) + d",
        variance="told after the pull",
        constants="derived again",
        row=4,
    ),
    "weighted_lin_ts": Claim(
        "Weighted LinTS",
        "ours, on the statistics of Zhou, Gu 2022",
        "none claimed",
        variance="told after the pull",
        constants="reconstructed",
    ),
}


@pytree
class WeightedOful(KnownVarianceEllipsoid):
    r"""Weighted OFUL: pull :math:`\arg\max_a \langle a, \hat\theta_t\rangle + \hat\beta_t\|a\|_{\Sigma_t^{-1}}`.

    An observation has the weight :math:`1/\bar\sigma_t`, :math:`\bar\sigma_t = \max\{R/\sqrt d, \sigma_t\}`, and with
    :math:`m_t = \min_{i\le t} \bar\sigma_i`

    .. math::
        \hat\beta_t = c\left(8\sqrt{d \log\left(1 + \frac{t A^2}{m_t^2 d\lambda}\right) \log\frac{4t^2}\delta}
        + \frac{4R}{m_t}\log\frac{4t^2}\delta\right) + \sqrt\lambda B, \qquad \hat\beta_0 = \sqrt\lambda B

    The variance :math:`\sigma_t^2` of the pulled arm is told with its reward.
    The floor :math:`R/\sqrt d` is what makes the regret grow as :math:`\sqrt{dK}` even without noise. The radius
    follows the smallest :math:`\bar\sigma` so far: one quiet round enlarges it for good.

    References:
      Zhou, Gu, Szepesvari (2021), Nearly minimax optimal reinforcement learning for linear mixture Markov decision
      processes, the algorithm for heteroscedastic linear bandits and Theorem 4.1, the Bernstein inequality behind its
      radius: applied to :math:`a/\bar\sigma` and :math:`\epsilon/\bar\sigma`, of variance at most 1, size at most
      :math:`R/m_t` and norm at most :math:`A/m_t`.
    """

    lam: Number = by_rule(lambda self: 1 / self.theta_bound**2, "the ridge; the theorem's 1 / B^2 if not given.")

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``1 / sigma_bar`` with ``sigma_bar = max(R / sqrt(d), sigma)``, []."""
        return 1 / jnp.maximum(jnp.sqrt(self.told(noise_var)), self.noise_bound / math.sqrt(self.dim))

    def radius_of(self, state: EllipsoidState) -> jax.Array:
        """Return ``c beta_t + sqrt(lam) B`` after t observations, []; ``beta_0 = 0``, since no weight is given yet."""
        t = jnp.maximum(state.round, 1).astype(self.dtype)
        largest = state.tally  # 1 / min sigma_bar
        lam = self.lam
        log0 = jnp.log(4 / self.delta) + 2 * jnp.log(t)  # log(4 t^2 / delta)
        growth = jnp.log1p(t * (self.norm_bound * largest) ** 2 / (self.dim * lam))
        stochastic = 8 * jnp.sqrt(self.dim * growth * log0) + 4 * self.noise_bound * largest * log0
        return self.beta_scale * stochastic + jnp.sqrt(lam) * self.theta_bound


weighted_oful = factory(WeightedOful)


def plus_weight(self: WeightedOfulPlus | WeightedLinTs, width: jax.Array, noise_var: jax.Array) -> jax.Array:
    """Return ``1 / sigma_bar``, ``sigma_bar^2 = max(sigma^2, alpha^2, gamma^2 width)``, []."""
    floored = jnp.maximum(self.told(noise_var), self.alpha**2)
    return 1 / jnp.sqrt(jnp.maximum(floored, self.gamma2 * width))


def plus_radius(self: WeightedOfulPlus | WeightedLinTs, state: EllipsoidState | SamplerState) -> jax.Array:
    """Return the radius of Weighted OFUL+ in the coming round k, [].

    It is ``c (12 sqrt(d log(1 + k A^2 / (alpha^2 d lam)) tau) + 30 R tau / gamma^2) + sqrt(lam) B``; there
    is no stochastic part in round 1.
    """
    dim, lam, alpha, gamma2 = self.dim, self.lam, self.alpha, self.gamma2
    k = (state.round + 1).astype(self.dtype)
    tau = jnp.log(32 * (1 + jnp.log(jnp.maximum(gamma2 / alpha, 1))) / self.delta) + 2 * jnp.log(k)
    growth = jnp.log1p(k * self.norm_bound**2 / (alpha**2 * dim * lam))
    stochastic = 12 * jnp.sqrt(dim * growth * tau) + 30 * tau * self.noise_bound / jnp.maximum(gamma2, alpha)
    return self.beta_scale * jnp.where(state.round > 0, stochastic, 0) + jnp.sqrt(lam) * self.theta_bound


@pytree
class WeightedOfulPlus(KnownVarianceEllipsoid):
    r"""Weighted OFUL+: pull :math:`\arg\max_a \langle a, \hat\theta_k\rangle + \hat\beta_k\|a\|_{\Sigma_k^{-1}}`.

    An observation has the weight :math:`1/\bar\sigma_k`,
    :math:`\bar\sigma_k^2 = \max\{\sigma_k^2, \alpha^2, \gamma^2\|a_k\|_{\Sigma_k^{-1}}\}` with the matrix before it is
    updated. With :math:`\tau_k = \log(32(1 + \log(\gamma^2/\alpha))k^2/\delta)`

    .. math::
        \hat\beta_k = c\left(12\sqrt{d \log\left(1 + \frac{k A^2}{\alpha^2 d\lambda}\right) \tau_k}
        + \frac{30 R \tau_k}{\gamma^2}\right) + \sqrt\lambda B, \qquad \hat\beta_1 = \sqrt\lambda B

    The variance :math:`\sigma_k^2` of the pulled arm is told with its reward.
    Weights reach :math:`1/\alpha = \sqrt K`, so use float64.

    References:
      Zhou, Gu (2022), Computationally efficient horizon-free reinforcement learning for linear mixture MDPs, the
      algorithm for heteroscedastic linear bandits. The radius applies its Bernstein inequality to
      :math:`a/\bar\sigma` and :math:`\epsilon/\bar\sigma`, with
      :math:`|\epsilon|\,\|a\|_{\Sigma^{-1}}/\bar\sigma^2 \le R/\gamma^2`.

    Deviations:
      - :math:`\log(\gamma^2/\alpha)` is taken to be at least 0 and :math:`R/\gamma^2` at most :math:`R/\alpha`, which
        bounds the same quantity. This changes nothing where :math:`\gamma^2 \ge \alpha`, that is
        :math:`R\sqrt{K/d} \ge 1` with the theorem's values; below it the printed radius is not defined.
    """

    num_rounds: Number = number(at_least=1, kw_only=False, doc="K, in alpha; the run itself may be shorter.")
    lam: Number = by_rule(lambda self: self.dim / self.theta_bound**2, "the ridge; the theorem's d / B^2 if not given.")
    alpha: Number = by_rule(
        lambda self: self.num_rounds**-0.5,
        "the least sigma_bar, in the units of the rewards; the theorem's 1 / sqrt(K) if not given.",
        squared=True,
    )
    gamma: Number | None = number(
        at_least=0,
        squared=True,
        default=None,
        doc="how much the arm's uncertainty counts; the theorem's sqrt(R) / d^(1/4) if not given.",
    )

    @property
    def gamma2(self) -> Number:
        """``gamma^2``."""
        return self.noise_bound * self.dim**-0.5 if self.gamma is None else self.gamma**2

    weight = plus_weight
    radius_of = plus_radius


weighted_oful_plus = factory(WeightedOfulPlus)


@pytree
class WeightedLinTs(ToldVariance, Sampler):
    r"""Weighted LinTS: draw :math:`\tilde\theta = \hat\theta + \beta_k \Sigma^{-1/2} z`, pull its best arm.

    A peer for the variance-aware samplers, not an algorithm of a paper. The weights :math:`1/\bar\sigma_k`, the
    regression :math:`\Sigma = \lambda I + \sum x x^\top/\bar\sigma^2` and the radius :math:`\beta_k` are those of
    :func:`jaxvar.weighted_oful_plus` with :math:`\alpha = 1/\sqrt K`, :math:`\gamma = \sqrt R / d^{1/4}` and
    :math:`\lambda = d/B^2`; the radius scales a standard normal vector z instead of a bonus.

    References:
      Zhou, Gu (2022), Computationally efficient horizon-free reinforcement learning for linear mixture MDPs (Weighted
      OFUL+); the constants of the radius are derived again from their concentration inequality.

    Deviations:
      As for :func:`jaxvar.weighted_oful_plus`.
    """

    num_rounds: Number = number(at_least=1, kw_only=False, doc="K, in alpha.")
    norm_bound: Number = number(above=0, squared=True, default=1.0, doc="A, a bound on the norm of an arm.")

    @property
    def lam(self) -> Number:
        """The ridge, ``d / B^2``."""
        return self.dim / self.theta_bound**2

    @property
    def alpha(self) -> Number:
        """The floor of sigma_bar, ``1 / sqrt(K)``."""
        return 1 / jnp.sqrt(self.num_rounds)

    @property
    def gamma2(self) -> Number:
        """``gamma^2 = R / sqrt(d)``."""
        return self.noise_bound / self.dim**0.5

    def weight(self, state: SamplerState, x: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``1 / sigma_bar`` of an observation of ``x [d]``, []."""
        width = jnp.sqrt(ridge.width2(state.regression.root, x))
        return plus_weight(self, width, noise_var)

    spread = plus_radius


weighted_lin_ts = factory(WeightedLinTs)
