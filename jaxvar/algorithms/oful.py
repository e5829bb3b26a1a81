"""OFUL (Abbasi-Yadkori, Pal, Szepesvari 2011), and with a fixed radius of zero the greedy rule."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvar.algorithms import ellipsoid
from jaxvar.claims import Claim
from jaxvar.parameters import choice, factory, number, pytree

CLAIM = Claim(
    name="OFUL",
    factory="oful",
    reference="Abbasi-Yadkori, Pal, Szepesvari 2011",
    setting="bandit",
    regret="d sqrt(K)",
    deterministic="d sqrt(K)",
    variance="not used",
    efficient=True,
    constants="derived again",
    table=1,
    row=2,
)


@pytree
class Oful(ellipsoid.Ellipsoid):
    r"""OFUL: pull :math:`\arg\max_a \langle a, \hat\theta\rangle + \beta \|a\|_{V^{-1}}`.

    .. math:: \beta_t = c R \sqrt{2\log(1/\delta) + \log\det V_t - d\log\lambda} + \sqrt\lambda B

    or, with ``radius="data_free"``, :math:`\beta_t = c R \sqrt{d\log((1 + tA^2/\lambda)/\delta)} + \sqrt\lambda B`.
    Noise in [-R, R] is R-sub-Gaussian, which is all that the theorem needs.

    References:
      Abbasi-Yadkori, Pal, Szepesvari (2011), Improved algorithms for linear stochastic bandits, Theorems 2 and 3.
    """

    norm_bound: Any = number(
        above=0, squared=True, default=1.0, doc="A, a bound on the norm of an arm; used by ``data_free`` only."
    )
    radius: str = choice(*ellipsoid.RADII, default="determinant", doc="``determinant`` or ``data_free``.")

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Count every observation once."""
        return jnp.ones_like(width)

    def radius_of(self, state: ellipsoid.EllipsoidState) -> jax.Array:
        """Return the self-normalised radius."""
        return self.self_normalised_radius(self.radius, state, self.norm_bound)


oful = factory(Oful)


def greedy(
    dim: int, *, lam: Any = 1.0, theta_bound: Any = 1.0, ties: str = "random", tie_tolerance: Any = None
) -> Oful:
    """Ridge regression and no exploration: :func:`oful` with a radius of zero.

    Args:
      dim: d, the length of an arm.
      lam: the ridge.
      theta_bound: B, a bound on the norm of theta*: the unit in which ties are judged.
      ties: ``random`` or ``lowest`` index, among those within ``tie_tolerance`` of the best.
      tie_tolerance: relative to the size of what is compared; 1e-9 in float64 and 1e-5 in float32 if not given.
    """
    return oful(dim, lam=lam, theta_bound=theta_bound, fixed_radius=0.0, ties=ties, tie_tolerance=tie_tolerance)
