"""The normal distribution around the estimate of a ridge regression, and Thompson samplers, which draw from it."""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import cholesky, random, ridge
from jaxvar import ties as tie_rules
from jaxvar.algorithms.ellipsoid import lost
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.lowering import inner, take
from jaxvar.parameters import count, number, pytree

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
class Sampler:
    """Base of the Thompson samplers ``theta_hat + beta L z``; each gives ``lam``, ``weight`` and ``spread``."""

    dim: int = count(kw_only=False, doc="d, the length of an arm.")
    noise_bound: Any = number(above=0, squared=True, default=1.0, doc=r"R, with \|noise\| <= R.")
    delta: Any = number(above=0, below=1, default=0.01, doc="failure probability.")
    theta_bound: Any = number(above=0, squared=True, default=1.0, doc="B, a bound on the norm of theta*.")
    beta_scale: Any = number(at_least=0, default=1.0, doc="c, a multiplier of the stochastic part of the radius.")
    ties: str = tie_rules.rule()
    tie_tolerance: Any = tie_rules.tolerance()

    @property
    def lam(self) -> Any:
        """The ridge."""
        raise NotImplementedError

    def weight(self, state: SamplerState, x: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``w`` of an observation of ``x [d]``, told the noise variance, []."""
        raise NotImplementedError

    def spread(self, state: SamplerState) -> jax.Array:
        """Return ``beta`` of the next round, by which a standard normal vector is multiplied, []."""
        raise NotImplementedError

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

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
        candidates = tie_rules.best(sampled, jnp.ones(sampled.shape, bool), self.tie_tolerance, self.theta_bound)
        action = tie_rules.pick(candidates, words, self.ties)
        weight = self.weight(state, take(arms, action), take(side.noise_var, action))
        return Choice(action, jnp.ones_like(action), weight, lost(sampled))

    def update(self, state: SamplerState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> SamplerState:
        """Learn by one step of regression, with the weight that follows from what ``side`` tells after the pull."""
        chex.assert_shape(x, (self.dim,))
        weight = self.weight(state, x, side.noise_var)
        after, update = learn(state.posterior, weight * x, weight * reward)
        return SamplerState(after, state.round + 1, state.status | choice.status | ridge.failure(update))


def init(dim: int, lam: Any, dtype: Any) -> Posterior:
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
