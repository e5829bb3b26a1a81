"""Weighted OFUL+ (Zhou, Gu 2022): weights by the known variance and by the arm's own uncertainty."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvar.algorithms import ellipsoid
from jaxvar.claims import Claim
from jaxvar.parameters import factory, number, pytree

CLAIM = Claim(
    name="Weighted OFUL+",
    factory="weighted_oful_plus",
    reference="Zhou, Gu 2022",
    setting="bandit",
    regret="d sqrt(sum sigma^2) + d",
    deterministic="d",
    variance="told after the pull",
    efficient=True,
    constants="derived again",
    table=1,
    row=4,
)


@pytree
class WeightedOfulPlus(ellipsoid.KnownVarianceEllipsoid):
    r"""Weighted OFUL+: pull :math:`\arg\max_a \langle a, \hat\theta_k\rangle + \hat\beta_k\|a\|_{\Sigma_k^{-1}}`.

    An observation has the weight :math:`1/\bar\sigma_k`,
    :math:`\bar\sigma_k^2 = \max\{\sigma_k^2, \alpha^2, \gamma^2\|a_k\|_{\Sigma_k^{-1}}\}` with the matrix before it is
    updated. With :math:`\tau_k = \log(32(1 + \log(\gamma^2/\alpha))k^2/\delta)`

    .. math::
        \hat\beta_k = c\left(12\sqrt{d \log\left(1 + \frac{k A^2}{\alpha^2 d\lambda}\right) \tau_k}
        + \frac{30 R \tau_k}{\gamma^2}\right) + \sqrt\lambda B, \qquad \hat\beta_1 = \sqrt\lambda B

    The variance :math:`\sigma_k^2` of the pulled arm is told with its reward: ``update`` uses it, the choice does not.
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

    num_rounds: Any = number(at_least=1, kw_only=False, doc="K, in alpha; the run itself may be shorter.")
    lam: Any = number(
        above=0,
        default=None,
        rule=lambda self: self.dim / self.theta_bound**2,
        doc="the ridge; the theorem's d / B^2 if not given.",
    )
    alpha: Any = number(
        above=0,
        squared=True,
        default=None,
        rule=lambda self: self.num_rounds**-0.5,
        doc="the least sigma_bar, in the units of the rewards; the theorem's 1 / sqrt(K) if not given.",
    )
    gamma: Any = number(
        at_least=0,
        squared=True,
        default=None,
        doc="how much the arm's uncertainty counts; the theorem's sqrt(R) / d^(1/4) if not given.",
    )

    @property
    def gamma2(self) -> Any:
        """``gamma^2``."""
        return self.noise_bound * self.dim**-0.5 if self.gamma is None else self.gamma**2

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``1 / sigma_bar``, []."""
        return weight(self.told(noise_var), width, self.alpha, self.gamma2)

    def radius_of(self, state: ellipsoid.EllipsoidState) -> jax.Array:
        """Return ``c beta_k + sqrt(lam) B`` in round k, []."""
        return radius(self, state.round)


weighted_oful_plus = factory(WeightedOfulPlus)


def weight(told: jax.Array, width: jax.Array, alpha: Any, gamma2: Any) -> jax.Array:
    """Return ``1 / sigma_bar``, ``sigma_bar^2 = max(sigma^2, alpha^2, gamma^2 width)``; sigma^2 is ``told``, all []."""
    return 1 / jnp.sqrt(jnp.maximum(jnp.maximum(told, alpha**2), gamma2 * width))


def radius(algorithm: Any, rounds: jax.Array) -> jax.Array:
    """Return the radius after ``rounds []`` rounds of an algorithm that has ``alpha`` and ``gamma2``, [].

    In round k it is ``c (12 sqrt(d log(1 + k A^2 / (alpha^2 d lam)) tau) + 30 R tau / gamma^2) + sqrt(lam) B``; there
    is no stochastic part in round 1.
    """
    dim, lam, alpha, gamma2 = algorithm.dim, algorithm.lam, algorithm.alpha, algorithm.gamma2
    k = (rounds + 1).astype(algorithm.dtype)
    tau = jnp.log(32 * (1 + jnp.log(jnp.maximum(gamma2 / alpha, 1))) / algorithm.delta) + 2 * jnp.log(k)
    growth = jnp.log1p(k * algorithm.norm_bound**2 / (alpha**2 * dim * lam))
    stochastic = 12 * jnp.sqrt(dim * growth * tau) + 30 * tau * algorithm.noise_bound / jnp.maximum(gamma2, alpha)
    return algorithm.beta_scale * jnp.where(rounds > 0, stochastic, 0) + jnp.sqrt(lam) * algorithm.theta_bound
