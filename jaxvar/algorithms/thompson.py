"""Thompson sampling from the normal distribution around a ridge estimate: LinTS, and the base of its kin."""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import cholesky, random, ridge
from jaxvar.algorithms.bandit import BoundedBandit, lost
from jaxvar.algorithms.interface import Choice, Number, Side
from jaxvar.claims import Claim
from jaxvar.lowering import inner, take
from jaxvar.parameters import choice, factory, number, pytree

CLAIMS = {
    "lin_ts": Claim(
        name="LinTS",
        reference="Agrawal, Goyal 2013; Abeille, Lazaric 2017",
        regret="d^1.5 sqrt(K)",
        deterministic="d^1.5 sqrt(K)",
        variance="not used",
        constants="derived again",
    )
}

SCALES = ("abeille_lazaric", "agrawal_goyal", "bayes")
# Streams of the round's key, apart from that of ties, which is 0.
NORMALS, PROPOSED, ACCEPTED = 1, 2, 3


class Posterior(NamedTuple):
    """A ridge regression and the Cholesky factor of its inverse."""

    regression: ridge.Ridge
    lower: jax.Array  # [d, d]   L with L L^T = V^-1


class SamplerState(NamedTuple):
    """State of a Thompson sampler for one seed."""

    posterior: Posterior  # V = lam I + sum w^2 x x^T
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


@pytree
class Sampler(BoundedBandit):
    """Base of the Thompson samplers ``theta_hat + beta L z``; each gives ``lam``, ``weight`` and ``spread``."""

    beta_scale: Number = number(at_least=0, default=1.0, doc="c, a multiplier of the stochastic part of the radius.")

    @property
    def lam(self) -> Number:
        """The ridge."""
        raise NotImplementedError

    def weight(self, state: SamplerState, x: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``w`` of an observation of ``x [d]``, told the noise variance, []."""
        raise NotImplementedError

    def spread(self, state: SamplerState) -> jax.Array:
        """Return ``beta`` of the next round, by which a standard normal vector is multiplied, []."""
        raise NotImplementedError

    def init(self) -> SamplerState:
        """Return an empty regression."""
        return SamplerState(init(self.dim, self.lam, self.dtype), jnp.int32(0), jnp.int32(0))

    def select(self, state: SamplerState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Draw a parameter and choose its best of ``arms [num_arms, dim]``.

        The variances in ``side`` do not enter the choice; they give the weight that is recorded with it.
        """
        chex.assert_shape(arms, (None, self.dim))
        words = random.key_words(key)
        sampled = inner(arms, draw(state.posterior, self.spread(state), words))
        action = self.best(sampled, words, self.theta_bound)
        weight = self.weight(state, take(arms, action), take(side.noise_var, action))
        return Choice(action, jnp.ones_like(action), weight, lost(sampled))

    def update(self, state: SamplerState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> SamplerState:
        """Learn by one step of regression, with the weight that follows from what ``side`` tells after the pull."""
        chex.assert_shape(x, (self.dim,))
        weight = self.weight(state, x, side.noise_var)
        after, update = learn(state.posterior, weight * x, weight * reward)
        return SamplerState(after, state.round + 1, state.status | choice.status | ridge.failure(update))


def init(dim: int, lam: Number, dtype: np.dtype[np.floating]) -> Posterior:
    """Return the posterior that has seen nothing: ``V = lam I``."""
    return Posterior(ridge.init_ridge(dim, lam, dtype), jnp.eye(dim, dtype=dtype) / jnp.sqrt(lam))


def learn(posterior: Posterior, x: jax.Array, y: jax.Array) -> tuple[Posterior, ridge.Update]:
    """Learn one more observation ``(x [d], y [])``, both multiplied by its weight."""
    regression, update = ridge.regress(posterior.regression, x, y)
    return Posterior(regression, cholesky.shrink(posterior.lower, x)), update


def draw(posterior: Posterior, scale: jax.Array, words: jax.Array) -> jax.Array:
    """Return ``theta_hat + scale L z``, [d], with standard normal z from the words ``[2]`` of the round's key."""
    theta_hat = posterior.regression.theta_hat
    z = random.normal(random.bits(words, theta_hat.shape, stream=NORMALS), theta_hat.dtype)
    return theta_hat + scale * cholesky.times(posterior.lower, z)


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

    num_rounds: Number | None = number(
        at_least=1, default=None, kw_only=False, doc="K; needed by ``abeille_lazaric`` only."
    )
    scale: str = choice(*SCALES, default="abeille_lazaric", doc="which of the three.")
    noise_bound: Number = number(above=0, squared=True, default=1.0, doc="R; noise in [-R, R] is R-sub-Gaussian.")
    delta: Number = number(above=0, below=1, default=0.01, doc="failure probability; not used by ``bayes``.")
    lam: Number = number(above=0, default=1.0, doc="the ridge.")
    theta_bound: Number = number(
        above=0,
        squared=True,
        default=1.0,
        doc="B, a bound on the norm of theta*: the unit in which ties are judged, and in ``abeille_lazaric``.",
    )
    beta_scale: Number = number(
        at_least=0, default=1.0, doc="c, a multiplier of the stochastic part; 1 is the analysis."
    )

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
        if self.scale == "abeille_lazaric" and self.num_rounds is not None:
            growth = 2 * jnp.log(4 * self.num_rounds / self.delta) + state.posterior.regression.log_det
            return c * bound * jnp.sqrt(growth) + jnp.sqrt(self.lam) * self.theta_bound
        if self.scale == "agrawal_goyal":
            k = (state.round + 1).astype(self.dtype)
            return c * bound * jnp.sqrt(9 * self.dim * jnp.log(k / self.delta))
        return jnp.asarray(c * bound)


lin_ts = factory(LinTs)
