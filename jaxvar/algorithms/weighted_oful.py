"""Weighted OFUL (Zhou, Gu, Szepesvari 2021): observations weighted by their known variances, down to a floor."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxvar.algorithms import ellipsoid
from jaxvar.claims import Claim
from jaxvar.parameters import factory, number, pytree

CLAIM = Claim(
    name="Weighted OFUL",
    factory="weighted_oful",
    reference="Zhou, Gu, Szepesvari 2021",
    setting="bandit",
    regret="d sqrt(sum sigma^2) + sqrt(d K)",
    deterministic="sqrt(d K)",
    variance="told after the pull",
    efficient=True,
    constants="derived again",
    table=1,
    row=3,
)


@pytree
class WeightedOful(ellipsoid.KnownVarianceEllipsoid):
    r"""Weighted OFUL: pull :math:`\arg\max_a \langle a, \hat\theta_t\rangle + \hat\beta_t\|a\|_{\Sigma_t^{-1}}`.

    An observation has the weight :math:`1/\bar\sigma_t`, :math:`\bar\sigma_t = \max\{R/\sqrt d, \sigma_t\}`, and with
    :math:`m_t = \min_{i\le t} \bar\sigma_i`

    .. math::
        \hat\beta_t = c\left(8\sqrt{d \log\left(1 + \frac{t A^2}{m_t^2 d\lambda}\right) \log\frac{4t^2}\delta}
        + \frac{4R}{m_t}\log\frac{4t^2}\delta\right) + \sqrt\lambda B, \qquad \hat\beta_0 = \sqrt\lambda B

    The variance :math:`\sigma_t^2` of the pulled arm is told with its reward: ``update`` uses it, the choice does not.
    The floor :math:`R/\sqrt d` is what makes the regret grow as :math:`\sqrt{dK}` even without noise. The radius
    follows the smallest :math:`\bar\sigma` so far: one quiet round enlarges it for good.

    References:
      Zhou, Gu, Szepesvari (2021), Nearly minimax optimal reinforcement learning for linear mixture Markov decision
      processes, the algorithm for heteroscedastic linear bandits and Theorem 4.1, the Bernstein inequality behind its
      radius: applied to :math:`a/\bar\sigma` and :math:`\epsilon/\bar\sigma`, of variance at most 1, size at most
      :math:`R/m_t` and norm at most :math:`A/m_t`.
    """

    lam: Any = number(
        above=0,
        default=None,
        rule=lambda self: 1 / self.theta_bound**2,
        doc="the ridge; the theorem's 1 / B^2 if not given.",
    )

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``1 / sigma_bar`` with ``sigma_bar = max(R / sqrt(d), sigma)``, []."""
        return 1 / jnp.maximum(jnp.sqrt(self.told(noise_var)), self.noise_bound / math.sqrt(self.dim))

    def radius_of(self, state: ellipsoid.EllipsoidState) -> jax.Array:
        """Return ``c beta_t + sqrt(lam) B`` after t observations, []; ``beta_0 = 0``, since no weight is given yet."""
        t = jnp.maximum(state.round, 1).astype(self.dtype)
        largest = state.largest_weight  # 1 / min sigma_bar
        lam = self.lam
        log0 = jnp.log(4 / self.delta) + 2 * jnp.log(t)  # log(4 t^2 / delta)
        growth = jnp.log1p(t * (self.norm_bound * largest) ** 2 / (self.dim * lam))
        stochastic = 8 * jnp.sqrt(self.dim * growth * log0) + 4 * self.noise_bound * largest * log0
        return self.beta_scale * stochastic + jnp.sqrt(lam) * self.theta_bound


weighted_oful = factory(WeightedOful)
