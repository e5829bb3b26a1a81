"""CW-OFUL (He, Zhou, Zhang, Gu 2022) where nothing is corrupted: arms that are uncertain count less."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvar.algorithms import ellipsoid
from jaxvar.claims import Claim
from jaxvar.parameters import choice, factory, number, pytree

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
    r"""CW-OFUL: pull :math:`\arg\max_a \langle a, \hat\theta\rangle + \beta\|a\|_{\Sigma^{-1}}`, weights at most 1.

    .. math::
        \Sigma_t = \lambda I + \sum_{s\le t} w_s^2 a_s a_s^\top, \qquad
        w_s^2 = \min\{1, \alpha / \|a_s\|_{\Sigma_{s-1}^{-1}}\}, \qquad
        \beta_t = c R\sqrt{d\log((1 + tA^2/\lambda)/\delta)} + \sqrt\lambda B

    The paper's weight is our :math:`w_s^2`. The noise variance is not used. With a large threshold this is
    :func:`jaxvar.oful`.

    References:
      He, Zhou, Zhang, Gu (2022), Nearly optimal algorithms for linear contextual bandits with adversarial corruptions,
      Algorithm 1.

    Deviations:
      - The corruption term :math:`\alpha C` of the radius is left out: C = 0.
      - t in the place of K in the radius: valid in every round, and smaller.
    """

    threshold: Any = number(
        above=0,
        kw_only=False,
        doc="alpha, the width from which on an arm counts less. The theorem's, (R sqrt(d) + sqrt(lam) B) / C up to "
        "logarithms, is for a known corruption C; there is none here.",
    )
    norm_bound: Any = number(
        above=0, squared=True, default=1.0, doc="A, a bound on the norm of an arm; used by ``data_free`` only."
    )
    radius: str = choice(
        *ellipsoid.RADII,
        default="data_free",
        doc="``data_free``, or ``determinant`` as in :func:`jaxvar.oful`, which is smaller.",
    )

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return the root of ``min(1, threshold / width)``, [], which is the paper's factor of the squared error."""
        return jnp.sqrt(self.threshold / jnp.maximum(width, self.threshold))

    def radius_of(self, state: ellipsoid.EllipsoidState) -> jax.Array:
        """Return OFUL's radius of the weighted matrix, []: weights of at most 1 leave the noise R-sub-Gaussian."""
        return self.self_normalised_radius(self.radius, state, self.norm_bound)


cw_oful = factory(CwOful)
