"""CW-OFUL (He, Zhou, Zhang, Gu 2022) where nothing is corrupted: arms that are uncertain count less."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvar import checks
from jaxvar.algorithms import ellipsoid
from jaxvar.algorithms.ellipsoid import number
from jaxvar.claims import Claim
from jaxvar.pytrees import pytree, static

CLAIM = Claim(
    name="CW-OFUL",
    factory="cw_oful",
    reference="He, Zhou, Zhang, Gu 2022",
    setting="bandit",
    regret="d sqrt(K)",
    deterministic="d sqrt(K)",
    variance="not used",
    efficient=True,
    constants="derived again",
    assumption="no corruption",
)


@pytree
class CwOful(ellipsoid.Ellipsoid):
    """CW-OFUL; built by :func:`cw_oful`."""

    threshold: Any  # alpha of the paper
    noise_bound: Any  # R
    norm_bound: Any  # A, in the data-free radius
    form: str = static()  # of the radius

    def ridge(self) -> Any:
        """``lam``."""
        return self.lam

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """The root of ``min(1, threshold / width)``, which is the paper's factor of the squared error."""
        return jnp.sqrt(self.threshold / jnp.maximum(width, self.threshold))

    def radius(self, state: ellipsoid.EllipsoidState) -> jax.Array:
        """OFUL's, of the weighted matrix: weights of at most 1 leave the noise R-sub-Gaussian."""
        lam = self.ridge()
        stochastic = ellipsoid.self_normalised_radius(self.form, state, self.dim, self.delta, lam, self.norm_bound)
        return self.beta_scale * self.noise_bound * stochastic + jnp.sqrt(lam) * self.theta_bound


def cw_oful(
    dim: int,
    threshold: Any,
    *,
    noise_bound: Any = 1.0,
    delta: Any = 0.01,
    lam: Any = 1.0,
    theta_bound: Any = 1.0,
    norm_bound: Any = 1.0,
    radius: str = "data_free",
    beta_scale: Any = 1.0,
    fixed_radius: Any = None,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> CwOful:
    r"""CW-OFUL: pull :math:`\arg\max_a \langle a, \hat\theta\rangle + \beta\|a\|_{\Sigma^{-1}}`, weights at most 1.

    .. math::
        \Sigma_t = \lambda I + \sum_{s\le t} w_s^2 a_s a_s^\top, \qquad
        w_s^2 = \min\{1, \alpha / \|a_s\|_{\Sigma_{s-1}^{-1}}\}, \qquad
        \beta_t = c R\sqrt{d\log((1 + tA^2/\lambda)/\delta)} + \sqrt\lambda B

    The paper's weight is our :math:`w_s^2`. The noise variance is not used. With a large threshold this is
    :func:`jaxvar.oful`.

    Args:
      dim: d, the length of an arm.
      threshold: alpha, the width from which on an arm counts less. The theorem's,
        (R sqrt(d) + sqrt(lam) B) / C up to logarithms, is for a known corruption C; there is none here.
      noise_bound: R; noise in [-R, R] is R-sub-Gaussian.
      delta: failure probability.
      lam: the ridge.
      theta_bound: B, a bound on the norm of theta*.
      norm_bound: A, a bound on the norm of an arm; used by ``data_free`` only.
      radius: ``data_free``, or ``determinant`` as in :func:`jaxvar.oful`, which is smaller.
      beta_scale: c, a multiplier of the stochastic part; 1 is the theorem.
      fixed_radius: a constant that replaces the whole radius.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    References:
      He, Zhou, Zhang, Gu (2022), Nearly optimal algorithms for linear contextual bandits with adversarial corruptions,
      Algorithm 1.

    Deviations:
      - The corruption term :math:`\alpha C` of the radius is left out: C = 0.
      - t in the place of K in the radius: valid in every round, and smaller.
    """
    return CwOful(
        **ellipsoid.parameters(dim, delta, theta_bound, beta_scale, fixed_radius, ties, tie_tolerance),
        lam=number("lam", lam),
        threshold=number("threshold", threshold),
        noise_bound=number("noise_bound", noise_bound),
        norm_bound=number("norm_bound", norm_bound),
        form=checks.choice("radius", radius, ellipsoid.RADII),
    )
