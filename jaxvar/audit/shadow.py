"""Layers kept a second time, by plain weighted ridge regression: what the algorithm says of itself is not believed.

Weights and layers are those that the algorithm reports. Nothing here uses the identities that the algorithms are
built on: denominators are computed, sums are kept as sums. Written with the batch of seeds last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import lowering, ridge


class Shadow(NamedTuple):
    """Sums over what each layer has learned from."""

    sigma: jax.Array  # [layers, d, d]   q lam I + sum w^2 x x^T
    sigma_inv: jax.Array  # [layers, d, d]
    b: jax.Array  # [layers, d]   sum w^2 y x
    count: jax.Array  # type: ignore[assignment]  # [layers]
    weight: jax.Array  # [layers]   sum w^2
    potential: jax.Array  # [layers]   sum |w x|^2_{Sigma^-1}, each with the Sigma before it
    target: jax.Array  # [layers]   sum w^2 y^2
    noise: jax.Array  # [layers]   sum w^2 eps^2
    variance: jax.Array  # [layers]   sum w^2 sigma^2


def no_shadow(dim: int, capacity: int, lam: Any, dtype: Any) -> Shadow:
    """Before the first round."""
    q = jnp.asarray(ridge.scales(capacity, dtype)) * lam
    eye = jnp.broadcast_to(jnp.eye(dim, dtype=dtype), (capacity, dim, dim))
    zero = jnp.zeros(capacity, dtype)
    sigma, inverse = (eye * scale[:, None, None] for scale in (q, 1 / q))
    return Shadow(sigma, inverse, jnp.zeros((capacity, dim), dtype), *(zero,) * 6)


def follow(
    shadow: Shadow, layer: jax.Array, x: jax.Array, weight: jax.Array, y: jax.Array, noise: jax.Array, var: jax.Array
) -> tuple[Shadow, jax.Array]:
    """After ``layer []`` (0 for none) has learned from ``x [d]`` with ``weight []``; also ``|w x|^2_{Sigma^-1} []``."""
    learns = lowering.is_layer(shadow.count.shape[0], layer)
    w2 = jnp.where(learns, (weight * weight)[None], 0)
    direction = jnp.sum(shadow.sigma_inv * x[None, :, None], axis=1)
    width2 = w2 * jnp.sum(direction * x[None], axis=1)
    gain = w2 / (1 + width2)
    outer = direction[:, :, None] * direction[:, None]
    new = Shadow(
        sigma=shadow.sigma + w2[:, None, None] * lowering.outer(x)[None],
        sigma_inv=shadow.sigma_inv - gain[:, None, None] * outer,
        b=shadow.b + (w2 * y[None])[:, None] * x[None],
        count=shadow.count + learns.astype(shadow.count.dtype),
        weight=shadow.weight + w2,
        potential=shadow.potential + width2,
        target=shadow.target + w2 * (y * y)[None],
        noise=shadow.noise + w2 * (noise * noise)[None],
        variance=shadow.variance + w2 * var[None],
    )
    return new, jnp.sum(width2, axis=0)


def estimate(shadow: Shadow) -> jax.Array:
    """``theta_hat [layers, d]``."""
    return jnp.sum(shadow.sigma_inv * shadow.b[:, None], axis=2)


def error(shadow: Shadow, theta_hat: jax.Array, theta_star: jax.Array) -> jax.Array:
    """``|theta_hat - theta*|_Sigma``, ``[layers]``."""
    gap = theta_hat - theta_star[None]
    return jnp.sqrt(jnp.maximum(jnp.sum(gap * jnp.sum(shadow.sigma * gap[:, None], axis=2), axis=1), 0))


def empirical(shadow: Shadow, theta_hat: jax.Array, q: Any) -> jax.Array:
    """``sum w^2 (y - <theta_hat, x>)^2``, ``[layers]``: the least loss without its ridge ``q |theta_hat|^2``."""
    least = shadow.target - jnp.sum(theta_hat * shadow.b, axis=1)
    return jnp.maximum(least - q * jnp.sum(theta_hat * theta_hat, axis=1), 0)
