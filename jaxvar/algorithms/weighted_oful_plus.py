"""Weighted OFUL+ (Zhou, Gu 2022): weights by the known variance and by the arm's own uncertainty."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvar.algorithms import ellipsoid
from jaxvar.algorithms.ellipsoid import number, optional
from jaxvar.claims import Claim
from jaxvar.pytrees import pytree

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
)


@pytree
class WeightedOfulPlus(ellipsoid.KnownVarianceEllipsoid):
    """Weighted OFUL+; built by :func:`weighted_oful_plus`."""

    num_rounds: Any  # K of the theorem
    noise_bound: Any  # R
    norm_bound: Any  # A
    alpha: Any  # or None
    gamma: Any  # or None

    def ridge(self) -> Any:
        """``lam``; the theorem's is ``d / B^2``."""
        return self.dim / self.theta_bound**2 if self.lam is None else self.lam

    def floors(self) -> tuple[Any, Any]:
        """``alpha`` and ``gamma^2``; the theorem's are ``1 / sqrt(K)`` and ``R / sqrt(d)``."""
        alpha = self.num_rounds**-0.5 if self.alpha is None else self.alpha
        return alpha, self.noise_bound * self.dim**-0.5 if self.gamma is None else self.gamma**2

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """``1 / sigma_bar`` with ``sigma_bar^2 = max(sigma^2, alpha^2, gamma^2 width)``."""
        return weight(self.told(noise_var), width, *self.floors())

    def radius(self, state: ellipsoid.EllipsoidState) -> jax.Array:
        """``c beta_k + sqrt(lam) B`` in round k; there is no stochastic part in round 1."""
        lam = self.ridge()
        stochastic = stochastic_radius(self, state.round, lam, *self.floors())
        return self.beta_scale * stochastic + jnp.sqrt(lam) * self.theta_bound


def weight(told: jax.Array, width: jax.Array, alpha: Any, gamma2: Any) -> jax.Array:
    """``1 / sigma_bar`` with ``sigma_bar^2 = max(sigma^2, alpha^2, gamma^2 width)``, where sigma^2 is ``told``."""
    return 1 / jnp.sqrt(jnp.maximum(jnp.maximum(told, alpha**2), gamma2 * width))


def stochastic_radius(self: Any, round: jax.Array, lam: Any, alpha: Any, gamma2: Any) -> jax.Array:
    """``12 sqrt(d log(1 + k A^2 / (alpha^2 d lam)) tau) + 30 R tau / gamma^2`` after k - 1 ``round``s; 0 at first."""
    k = (round + 1).astype(self.dtype)
    tau = jnp.log(32 * (1 + jnp.log(jnp.maximum(gamma2 / alpha, 1))) / self.delta) + 2 * jnp.log(k)
    growth = jnp.log1p(k * self.norm_bound**2 / (alpha**2 * self.dim * lam))
    stochastic = 12 * jnp.sqrt(self.dim * growth * tau) + 30 * tau * self.noise_bound / jnp.maximum(gamma2, alpha)
    return jnp.where(round > 0, stochastic, 0)


def weighted_oful_plus(
    dim: int,
    num_rounds: Any,
    *,
    noise_bound: Any = 1.0,
    delta: Any = 0.01,
    lam: Any = None,
    theta_bound: Any = 1.0,
    norm_bound: Any = 1.0,
    alpha: Any = None,
    gamma: Any = None,
    beta_scale: Any = 1.0,
    fixed_radius: Any = None,
    variance_scale: Any = 1.0,
    variance_bound: Any = None,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> WeightedOfulPlus:
    r"""Weighted OFUL+: pull :math:`\arg\max_a \langle a, \hat\theta_k\rangle + \hat\beta_k\|a\|_{\Sigma_k^{-1}}`.

    An observation has the weight :math:`1/\bar\sigma_k`,
    :math:`\bar\sigma_k^2 = \max\{\sigma_k^2, \alpha^2, \gamma^2\|a_k\|_{\Sigma_k^{-1}}\}` with the matrix before it is
    updated. With :math:`\tau_k = \log(32(1 + \log(\gamma^2/\alpha))k^2/\delta)`

    .. math::
        \hat\beta_k = c\left(12\sqrt{d \log\left(1 + \frac{k A^2}{\alpha^2 d\lambda}\right) \tau_k}
        + \frac{30 R \tau_k}{\gamma^2}\right) + \sqrt\lambda B, \qquad \hat\beta_1 = \sqrt\lambda B

    The variance :math:`\sigma_k^2` of the pulled arm is told with its reward: ``update`` uses it, the choice does not.
    Weights reach :math:`1/\alpha = \sqrt K`, so use float64.

    Args:
      dim: d, the length of an arm.
      num_rounds: K, in alpha; the run itself may be shorter.
      noise_bound: R, with \|noise\| <= R.
      delta: failure probability.
      lam: the ridge; the theorem's d / B^2 if not given.
      theta_bound: B, a bound on the norm of theta*.
      norm_bound: A, a bound on the norm of an arm.
      alpha: the least sigma_bar; the theorem's 1 / sqrt(K) if not given.
      gamma: how much the arm's uncertainty counts; the theorem's sqrt(R) / d^(1/4) if not given.
      beta_scale: c, a multiplier of the stochastic part; 1 is the theorem.
      fixed_radius: a constant that replaces the whole radius.
      variance_scale: multiplies the variance that is told; above 1, an over-estimate.
      variance_bound: a constant told in place of the variance, if given.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

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
    return WeightedOfulPlus(
        **ellipsoid.parameters(dim, delta, theta_bound, beta_scale, fixed_radius, ties, tie_tolerance),
        lam=optional("lam", lam),
        variance_scale=number("variance_scale", variance_scale),
        variance_bound=optional("variance_bound", variance_bound),
        num_rounds=number("num_rounds", num_rounds),
        noise_bound=number("noise_bound", noise_bound),
        norm_bound=number("norm_bound", norm_bound),
        alpha=optional("alpha", alpha),
        gamma=optional("gamma", gamma),
    )
