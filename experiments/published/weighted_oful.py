"""Fixed arms and a noise level that is drawn and revealed in each round (He, Zhou, Zhang, Gu 2022, repository).

Claim: at the published multipliers, weighting by the revealed level lowers the regret of OFUL.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxvar as jv
from experiments.published import _setting
from jaxvar.algorithms import ellipsoid
from jaxvar.parameters import factory, flag, pytree

DIM, NUM_ARMS, NOISE_BOUND, MOST_NOISE = 20, 20, 0.5, 0.05


@pytree
class PublishedOful(ellipsoid.KnownVarianceEllipsoid):
    """OFUL and Weighted OFUL as the repository has them.

    The weights have no floor. The multiplier C applies to the bias as well, and the radius in round t is that of the
    Bernstein inequality but for a second root::

        C (8 sqrt(d L log(4 t^2 / delta)) + 4 sqrt(d) log(4 t^2 / delta) + sqrt(lam) B),
        L = sqrt(log(1 + t A^2 / ((R + 1)^2 lam)))
    """

    weighted: bool = flag(default=True, doc="by 1 / sigma; else every observation counts once.")

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``1 / sigma``, or 1."""
        return 1 / jnp.sqrt(self.told(noise_var)) if self.weighted else jnp.ones_like(width)

    def radius_of(self, state: ellipsoid.EllipsoidState) -> jax.Array:
        """Return the radius in round t, counted from 1; arms have norm at most A = 1."""
        t = (state.round + 1).astype(self.dtype)
        log = jnp.log(4 * t**2 / self.delta)
        growth = jnp.sqrt(jnp.log1p(t / ((self.noise_bound + 1) ** 2 * self.lam)))
        stochastic = 8 * jnp.sqrt(self.dim * growth * log) + 4 * math.sqrt(self.dim) * log
        return self.beta_scale * (stochastic + jnp.sqrt(self.lam) * self.theta_bound)


def published(scale: float, weighted: bool) -> PublishedOful:
    """Return the algorithm with the multiplier C = ``scale``; lam = B = 1, delta = 0.1, ties to the lowest index."""
    options: dict[str, Any] = {"delta": 0.1, "beta_scale": scale, "noise_bound": NOISE_BOUND, "ties": "lowest"}
    return factory(PublishedOful)(DIM, weighted=weighted, **options)


def algorithms(num_rounds: int) -> dict[str, Any]:
    """Return the repository's three, the same at their theorems' constants and at its multiplier, and ours."""
    told: dict[str, Any] = {"noise_bound": NOISE_BOUND, "delta": 0.1}
    return {
        "Greedy (radius 0)": jv.greedy(DIM, ties="lowest"),
        "OFUL (C = 0.0008, as published)": published(0.0008, weighted=False),
        "Weighted OFUL (C = 0.002, as published)": published(0.002, weighted=True),
        "OFUL (theorem)": jv.oful(DIM, **told),
        "Weighted OFUL (theorem)": jv.weighted_oful(DIM, **told),
        "Weighted OFUL+ (theorem)": jv.weighted_oful_plus(DIM, num_rounds, **told),
        "Weighted OFUL (×0.002)": jv.weighted_oful(DIM, beta_scale=0.002, **told),
        "Weighted OFUL+ (×0.002)": jv.weighted_oful_plus(DIM, num_rounds, beta_scale=0.002, **told),
        "Weighted OFUL+ (×0.002, told the largest variance)": jv.weighted_oful_plus(
            DIM, num_rounds, beta_scale=0.002, variance_bound=MOST_NOISE**2, **told
        ),
        **_setting.ours(DIM, num_rounds, **told),
    }


def problems(num_rounds: int) -> tuple[_setting.Problem, ...]:
    """Return the one problem and its players."""
    environment = jv.linear_bandit(
        DIM,
        NUM_ARMS,
        arms="uniform",
        theta_star=np.full(DIM, DIM**-0.5),
        noise=jv.noise.clipped_gaussian(jv.schedules.between(0.0, MOST_NOISE), bound=NOISE_BOUND),
    )
    return (_setting.Problem("Fixed arms, d = 20, revealed noise levels", environment, algorithms(num_rounds)),)


SETTING = _setting.Setting(
    "weighted_oful",
    "round",
    length=10_000,
    seeds=256,
    build=problems,
    reference="Weighted OFUL (C = 0.002, as published)",
    source="He, Zhou, Zhang, Gu (2022), repository",
    about="d = 20, 20 fixed arms with coordinates uniform in ±1/√d, θ* = (1, ..., 1)/√d, deviation uniform in "
    "(0, 0.05) and revealed, Gaussian noise clipped at ±0.5, no corruption",
)
