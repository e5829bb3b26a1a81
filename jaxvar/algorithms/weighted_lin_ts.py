"""Weighted LinTS: Thompson sampling on the statistics of Weighted OFUL+, for noise of known variance.

A peer for the variance-aware samplers, not an algorithm of a paper: the weights, the regression and the radius are
those of Weighted OFUL+ (Zhou and Gu 2022), and the radius scales a normal vector instead of a bonus.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvar.algorithms import weighted_oful_plus
from jaxvar.algorithms.posterior import Sampler, SamplerState
from jaxvar.claims import Claim
from jaxvar.lowering import quadratic
from jaxvar.parameters import factory, number, pytree

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


@pytree
class WeightedLinTs(Sampler):
    r"""Weighted LinTS: draw :math:`\tilde\theta = \hat\theta + \beta_k \Sigma^{-1/2} z`, pull its best arm.

    With :math:`\alpha = 1/\sqrt K`, :math:`\gamma = \sqrt R / d^{1/4}`, :math:`\lambda = d/B^2` and the variance
    :math:`\sigma_k^2` told after the pull, the observation of round k has the weight :math:`1/\bar\sigma_k` in
    :math:`\Sigma = \lambda I + \sum x x^\top/\bar\sigma^2`,

    .. math:: \bar\sigma_k^2 = \max\{\sigma_k^2, \alpha^2, \gamma^2 \|x_k\|_{\Sigma^{-1}}\}

    in the norm before learning, and with :math:`\tau_k = \log(32(1 + \max\{0, \log(\gamma^2/\alpha)\})k^2/\delta)`

    .. math:: \beta_k = c\Big(12\sqrt{d\log\big(1 + kA^2/(\alpha^2 d\lambda)\big)\tau_k} + 30\tau_k R/\gamma^2\Big)
       + \sqrt\lambda B, \qquad \beta_1 = \sqrt\lambda B.

    References:
      Zhou, Gu (2022), Computationally efficient horizon-free reinforcement learning for linear mixture MDPs (Weighted
      OFUL+); the constants of the radius are derived again from their concentration inequality.

    Deviations:
      :math:`\max\{0, \cdot\}` keeps the logarithm in tau positive where :math:`\gamma^2 < \alpha`, and
      :math:`R/\gamma^2` is taken to be at most :math:`R/\alpha`, which bounds the same quantity.
    """

    num_rounds: Any = number(at_least=1, kw_only=False, doc="K, in alpha.")
    norm_bound: Any = number(above=0, squared=True, default=1.0, doc="A, a bound on the norm of an arm.")
    variance_scale: Any = number(
        above=0, default=1.0, doc="multiplies the variance that is told; above 1, an over-estimate."
    )
    variance_bound: Any = number(at_least=0, default=None, doc="a constant told in place of the variance, if given.")

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

    def weight(self, state: SamplerState, x: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``1 / sigma_bar`` of an observation of ``x [d]``, []."""
        width = jnp.sqrt(quadratic(x[None], state.posterior.regression.sigma_inv)[0])
        told = self.variance_scale * (noise_var if self.variance_bound is None else self.variance_bound)
        return weighted_oful_plus.weight(told, width, self.alpha, self.gamma2)

    def spread(self, state: SamplerState) -> jax.Array:
        """Return ``beta_k`` of the coming round k, []."""
        return weighted_oful_plus.radius(self, state.round)


weighted_lin_ts = factory(WeightedLinTs)
