"""Layers kept a second time, by plain weighted ridge regression, and what the paper says of any layer.

Weights and layers are those that the algorithm reports. Nothing here uses the identities that the algorithms are
built on: denominators are computed, sums are kept as sums. Written with the batch of seeds last.

The statements are about a layer that has just learned: confidence, variance, weights, potential and count. They are the
same for SAVE and for UCRL-AVE but for the logarithms and some numbers, which are arguments. All sides of inequalities
are ``[layers]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxvar import constants as presets
from jaxvar import lowering, ridge
from jaxvar.constants import RadiusConstants
from jaxvar.ridge import radius
from jaxvar.theory.running_max import Check
from jaxvar.theory.statement import ROUNDING, Array

EXACT = 1e-8  # relative: how exactly identities hold


class Reference(NamedTuple):
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


def init_reference(dim: int, capacity: int, lam: ArrayLike, dtype: DTypeLike) -> Reference:
    """Return the sums before the first round."""
    q = jnp.asarray(ridge.scales(capacity, dtype)) * lam
    eye = jnp.broadcast_to(jnp.eye(dim, dtype=dtype), (capacity, dim, dim))
    zero = jnp.zeros(capacity, dtype)
    sigma, inverse = (eye * scale[:, None, None] for scale in (q, 1 / q))
    return Reference(sigma, inverse, jnp.zeros((capacity, dim), dtype), *(zero,) * 6)


def learn(
    reference: Reference,
    layer: jax.Array,
    x: jax.Array,
    weight: jax.Array,
    y: jax.Array,
    noise: jax.Array,
    var: jax.Array,
) -> tuple[Reference, jax.Array]:
    """Let ``layer []`` (0 for none) learn ``y []`` at ``x [d]``; also return ``|w x|^2_{Sigma^-1} []``."""
    learns = lowering.is_layer(reference.count.shape[0], layer)
    w2 = jnp.where(learns, (weight * weight)[None], 0)
    direction = jnp.sum(reference.sigma_inv * x[None, :, None], axis=1)
    width2 = w2 * jnp.sum(direction * x[None], axis=1)
    gain = w2 / (1 + width2)
    outer = direction[:, :, None] * direction[:, None]
    new = Reference(
        sigma=reference.sigma + w2[:, None, None] * lowering.outer(x)[None],
        sigma_inv=reference.sigma_inv - gain[:, None, None] * outer,
        b=reference.b + (w2 * y[None])[:, None] * x[None],
        count=reference.count + learns.astype(reference.count.dtype),
        weight=reference.weight + w2,
        potential=reference.potential + width2,
        target=reference.target + w2 * (y * y)[None],
        noise=reference.noise + w2 * (noise * noise)[None],
        variance=reference.variance + w2 * var[None],
    )
    return new, jnp.sum(width2, axis=0)


class Seen(NamedTuple):
    """The sums of each layer, and quantities that follow from them."""

    sums: Reference
    q: Array  # [layers]   4^-l
    theta_hat: jax.Array  # [layers, d]
    error: jax.Array  # [layers]   |theta_hat - theta*|_Sigma
    emp: jax.Array  # [layers]   the empirical variance sum


def look(reference: Reference, theta_star: jax.Array, lam: ArrayLike) -> Seen:
    """Return estimates, their errors and the empirical variance ``sum w^2 (y - <theta_hat, x>)^2`` of all layers.

    The last is the least loss without its ridge ``q lam |theta_hat|^2``.
    """
    q = ridge.scales(reference.count.shape[0], reference.count.dtype)
    theta_hat = jnp.sum(reference.sigma_inv * reference.b[:, None], axis=2)
    gap = theta_hat - theta_star[None]
    error = jnp.sqrt(jnp.maximum(jnp.sum(gap * jnp.sum(reference.sigma * gap[:, None], axis=2), axis=1), 0))
    least = reference.target - jnp.sum(theta_hat * reference.b, axis=1)
    emp = jnp.maximum(least - q * lam * jnp.sum(theta_hat * theta_hat, axis=1), 0)
    return Seen(reference, q, theta_hat, error, emp)


def judged(setting: str) -> dict[str, RadiusConstants]:
    """Return the radii that are judged in bandits or in episodes, by name, whichever is played with."""
    printed, corrected = presets.paper(setting=setting), presets.paper_fixed(setting=setting)
    return {"printed": printed, "corrected": corrected, "tight": presets.tight()}


def inside(error: jax.Array, beta: jax.Array, applies: jax.Array) -> jax.Array:
    """Return whether theta* is in the ellipsoids of all layers where ``applies [layers]``, []."""
    return jnp.all(~applies | (error <= beta * (1 + ROUNDING)), axis=0)


def starts_inside(beta: jax.Array, theta_star: jax.Array, lam: ArrayLike) -> jax.Array:
    """Return the same before the first round, when ``theta_hat = 0`` and ``Sigma = q lam I``, []."""
    q = ridge.scales(beta.shape[0], beta.dtype)
    norm2 = jnp.sum(theta_star * theta_star, axis=0)
    error = jnp.sqrt(q * (lam * norm2)[None])
    return inside(error, beta, beta >= 0)


def radius_before(beta: jax.Array) -> tuple[jax.Array, np.ndarray]:
    """Return the radius of the layer before each, [layers], and whether there is one: layer 1 has none before it."""
    number = np.arange(1, beta.shape[0] + 1).reshape(-1, *(1,) * (beta.ndim - 1))
    return jnp.concatenate([jnp.ones_like(beta[:1]), beta[:-1]]), number > 1


def radii_of(
    seen: Seen, constants: RadiusConstants, noise_bound: jax.Array, log0: jax.Array, log1: jax.Array
) -> jax.Array:
    """Return the radius of every layer, [layers]."""
    scalars = (noise_bound[None], log0[None], log1[None])
    lifted = jax.tree.map(lambda x: jnp.asarray(x)[None], constants)
    return radius(seen.q, seen.emp, seen.sums.weight, seen.sums.count, lifted, *scalars)


def confidence(
    seen: Seen,
    learns: jax.Array,
    radii: Mapping[str, jax.Array],
    noise_bound: jax.Array,
    logs: tuple[jax.Array, jax.Array],
    additive: tuple[jax.Array, jax.Array],
    bias: float,
) -> dict[str, Check]:
    """Check the radii and the variances of all layers where ``learns [layers]``.

    ``|theta_hat - theta*|_Sigma`` is checked by the true variances and by each of ``radii``. ``logs`` are those of this
    round and of the next, ``additive`` all terms after ``8 Emp``, printed and corrected, and ``bias`` is B sqrt(lam).
    """
    sums = seen.sums
    known = 16 * jnp.sqrt(sums.variance * logs[1][None]) + 6 * noise_bound[None] * logs[1][None] + bias
    bounds = {"known": jnp.sqrt(seen.q) * known, **radii}
    lead = noise_bound[None] ** 2 * logs[0][None]
    half = 1.5 * sums.variance + 7 / 3 * lead
    return {
        **{f"confidence-{name}": Check(seen.error, bound, learns) for name, bound in bounds.items()},
        "variance-first": Check(sums.variance, 2 * sums.noise + 14 / 3 * lead, learns),
        "variance-second": Check(sums.noise, half, learns),
        "estimate-printed": Check(sums.variance, 8 * seen.emp + additive[0], learns),
        "estimate-corrected": Check(sums.variance, 8 * seen.emp + additive[1], learns),
        "estimate-second": Check(seen.emp, half + seen.q, learns),
    }


def off_width(width2: jax.Array, q: Array, learns: jax.Array) -> jax.Array:
    """Return the relative distance of ``|w x|^2_{Sigma^-1} []`` from ``q`` in the layer that learns, [layers]."""
    return jnp.where(learns, jnp.abs(width2[None] / q - 1), 0)


def design(
    seen: Seen, learns: jax.Array, weight: jax.Array, off: jax.Array, rounds: jax.Array, lam: ArrayLike
) -> dict[str, Check]:
    """Check weights, potential and counts, for features of norm at most one.

    ``weight [layers]`` and ``off [layers]`` are the largest weight and the largest :func:`off_width` of the round.
    """
    sums, dim = seen.sums, seen.sums.sigma.shape[1]
    own = 2 * dim * jnp.log1p(sums.count / (dim * seen.q * lam))
    all_rounds = 2 * dim * jnp.log1p(rounds[None] / (dim * seen.q * lam))
    one = jnp.ones_like(sums.weight)
    return {
        "weight": Check(off, EXACT * one, learns),
        "weight-one": Check(weight, one, learns),
        "potential": Check(sums.potential, own, learns),
        "count-printed": Check(sums.count, all_rounds, learns),
        "count-corrected": Check(sums.count, all_rounds / seen.q, learns),
    }
