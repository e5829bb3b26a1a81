"""LinTS: linear Thompson sampling, with the scales of three analyses."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvar.algorithms.posterior import Sampler, SamplerState
from jaxvar.claims import Claim
from jaxvar.parameters import choice, factory, number, pytree

CLAIM = Claim(
    name="LinTS",
    factory="lin_ts",
    reference="Agrawal, Goyal 2013; Abeille, Lazaric 2017",
    setting="bandit",
    regret="d^1.5 sqrt(K)",
    deterministic="d^1.5 sqrt(K)",
    variance="not used",
    efficient=True,
    constants="derived again",
)

SCALES = ("abeille_lazaric", "agrawal_goyal", "bayes")


@pytree
class LinTs(Sampler):
    r"""LinTS: draw :math:`\tilde\theta = \hat\theta + \beta V^{-1/2} z`, z standard normal, and pull its best arm.

    In round k, with :math:`V = \lambda I + \sum x x^\top` and the Cholesky factor of :math:`V^{-1}` for its root,

    - ``abeille_lazaric``: :math:`\beta = c R \sqrt{2\log(4K/\delta) + \log\det V - d\log\lambda} + \sqrt\lambda B`,
      OFUL's radius at the level :math:`\delta/(4K)`;
    - ``agrawal_goyal``: :math:`\beta = c R \sqrt{9 d \log(k/\delta)}`;
    - ``bayes``: :math:`\beta = c R`, the posterior under normal noise and the prior
      :math:`N(0, R^2 I/\lambda)` where c = 1.

    References:
      Agrawal, Goyal (2013), Thompson sampling for contextual bandits with linear payoffs. Abeille, Lazaric (2017),
      Linear Thompson sampling revisited.
    """

    num_rounds: Any = number(at_least=1, default=None, kw_only=False, doc="K; needed by ``abeille_lazaric`` only.")
    scale: str = choice(*SCALES, default="abeille_lazaric", doc="which of the three.")
    noise_bound: Any = number(above=0, squared=True, default=1.0, doc="R; noise in [-R, R] is R-sub-Gaussian.")
    delta: Any = number(above=0, below=1, default=0.01, doc="failure probability; not used by ``bayes``.")
    lam: Any = number(above=0, default=1.0, doc="the ridge.")
    theta_bound: Any = number(
        above=0,
        squared=True,
        default=1.0,
        doc="B, a bound on the norm of theta*: the unit in which ties are judged, and in ``abeille_lazaric``.",
    )
    beta_scale: Any = number(at_least=0, default=1.0, doc="c, a multiplier of the stochastic part; 1 is the analysis.")

    def check(self) -> None:
        """Refuse a scale without the number it needs."""
        if self.num_rounds is None and self.scale == "abeille_lazaric":
            raise ValueError("num_rounds must be given for scale='abeille_lazaric', got None")

    @property
    def unused(self) -> tuple[str, ...]:
        """Assumptions that the scale does not rest on."""
        return () if self.scale == "abeille_lazaric" else ("num_rounds",)

    def weight(self, state: SamplerState, x: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Count every observation once."""
        return jnp.ones((), self.dtype)

    def spread(self, state: SamplerState) -> jax.Array:
        """Return ``beta``, by which a standard normal vector is multiplied, []."""
        c, bound = self.beta_scale, self.noise_bound
        if self.scale == "abeille_lazaric":
            growth = 2 * jnp.log(4 * self.num_rounds / self.delta) + state.posterior.regression.log_det
            return c * bound * jnp.sqrt(growth) + jnp.sqrt(self.lam) * self.theta_bound
        if self.scale == "agrawal_goyal":
            k = (state.round + 1).astype(self.dtype)
            return c * bound * jnp.sqrt(9 * self.dim * jnp.log(k / self.delta))
        return jnp.asarray(c * bound)


lin_ts = factory(LinTs)
