"""The normal distribution around the estimate of a ridge regression, from which Thompson samplers draw."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import cholesky, random, ridge

# Streams of the round's key, apart from that of ties, which is 0.
NORMALS, PROPOSED, ACCEPTED = 1, 2, 3


class Posterior(NamedTuple):
    """A ridge regression and the Cholesky factor of its inverse."""

    regression: ridge.Ridge
    lower: jax.Array  # [d, d]   L with L L^T = V^-1


def init(dim: int, lam: Any, dtype: Any) -> Posterior:
    """Nothing seen: ``V = lam I``."""
    return Posterior(ridge.init_ridge(dim, lam, dtype), jnp.eye(dim, dtype=dtype) / jnp.sqrt(lam))


def learn(posterior: Posterior, x: jax.Array, y: jax.Array) -> tuple[Posterior, ridge.Seen]:
    """One more observation ``(x, y)``, both multiplied by its weight."""
    regression, seen = ridge.regress(posterior.regression, x, y)
    return Posterior(regression, cholesky.shrink(posterior.lower, x)), seen


def draw(posterior: Posterior, scale: jax.Array, words: jax.Array) -> jax.Array:
    """``theta_hat + scale L z [d]`` with standard normal z from the words ``[2]`` of the round's key."""
    theta_hat = posterior.regression.theta_hat
    z = random.normal(random.bits(words, (theta_hat.shape[0],), stream=NORMALS), theta_hat.dtype)
    return theta_hat + scale[None] * cholesky.times(posterior.lower, z)
