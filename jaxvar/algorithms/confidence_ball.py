"""ConfidenceBall_2 (Dani, Hayes, Kakade 2008): the first ellipsoid, and the largest radius."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvar.algorithms import ellipsoid
from jaxvar.claims import Claim
from jaxvar.parameters import factory, number, pytree

CLAIM = Claim(
    name="ConfidenceBall_2",
    factory="confidence_ball",
    reference="Dani, Hayes, Kakade 2008",
    setting="bandit",
    regret="d sqrt(K)",
    deterministic="d sqrt(K)",
    variance="not used",
    efficient=True,
    constants="read",
    table=1,
    row=1,
)


@pytree
class ConfidenceBall(ellipsoid.Ellipsoid):
    r"""ConfidenceBall_2: pull :math:`\arg\max_a \langle a, \hat\theta_t\rangle + u\sqrt{\beta_t}\,\|a\|_{A_t^{-1}}`.

    .. math::
        \beta_t = \max\{128\, d \log t \log(t^2/\delta),\ (\tfrac83 \log(t^2/\delta))^2\}, \qquad
        A_t = \lambda I + \sum_{s<t} a_s a_s^\top, \qquad u = c\max\{R, B\}

    The paper has u = 1: arms of norm at most 1, and noise and theta* of size at most 1. The noise variance is not used.

    References:
      Dani, Hayes, Kakade (2008), Stochastic linear optimization under bandit feedback, Algorithm 3.1 and Theorem 2.

    Deviations:
      - :math:`A_1 = \lambda I`, not the sum over a barycentric spanner of the decision set: here sets may change, and
        theta* is bounded in norm. The induction of the proof then starts at :math:`B^2 \le u^2\beta_1`, which holds for
        :math:`\delta \le 0.68`; the paper's start needs :math:`d \le (\tfrac83\log(1/\delta))^2`, which it does not
        say.
      - Rewards are maximised, the paper minimises a cost. Its proof takes the noise to be at most 1, where costs in
        [-1, 1] give only 2: R says which it is, and rewards are measured in units of max(R, B).
      - The regret theorem's last factor is log(T + 1); log T, as printed, fails at T = 1.
    """

    lam: Any = number(above=0, default=1.0, doc="the ridge; 1 is the theorem.")
    beta_scale: Any = number(
        at_least=0,
        default=1.0,
        doc="c, a multiplier of the radius, which has no separate part for the bias; 1 is the theorem.",
    )

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Count every observation once."""
        return jnp.ones_like(width)

    def radius_of(self, state: ellipsoid.EllipsoidState) -> jax.Array:
        """Return ``c max(R, B) sqrt(beta_t)``, []: the paper's ``beta_t`` is a squared radius."""
        log_t = jnp.log((state.round + 1).astype(self.dtype))
        log1 = 2 * log_t - jnp.log(self.delta)  # log(t^2 / delta)
        squared = jnp.maximum(128 * self.dim * log_t * log1, (8 / 3 * log1) ** 2)
        return self.beta_scale * jnp.maximum(self.noise_bound, self.theta_bound) * jnp.sqrt(squared)


confidence_ball = factory(ConfidenceBall)
