"""Arms as one ridge regression sees them: computed anew for fresh arms, kept up to date for arms that never change."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import ridge, status


class ArmView(NamedTuple):
    """Widths and estimates of all arms."""

    width2: jax.Array  # [num_arms]   a^T Sigma^-1 a
    pred: jax.Array  # [num_arms]   <a, theta_hat>


def first(arms: Any, lam: Any, dtype: Any) -> ArmView | None:
    """What a regression that has seen nothing says of fixed ``arms [num_arms, d]``; None where there are none."""
    if arms is None:
        return None
    return ArmView(jnp.sum(arms * arms, axis=1) / lam, jnp.zeros(arms.shape[0], dtype))


def view(regression: ridge.Ridge, kept: ArmView | None, arms: jax.Array) -> ArmView:
    """The view of ``arms [num_arms, d]``: the one that was kept, or else a new one."""
    if kept is not None:
        return kept
    return ArmView(ridge.quadratic(arms, regression.sigma_inv), ridge.inner(arms, regression.theta_hat))


def learn(
    regression: ridge.Ridge, kept: ArmView | None, x: jax.Array, y: jax.Array, arms: Any
) -> tuple[ridge.Ridge, ArmView | None, ridge.Seen]:
    """One more observation ``(x, y)``, both multiplied by its weight; fixed ``arms [num_arms, d]`` follow."""
    after, seen = ridge.regress(regression, x, y)
    if kept is None:
        return after, None, seen
    along = ridge.inner(arms, seen.direction)
    moved = ArmView(
        width2=jnp.maximum(kept.width2 - seen.gain[None] * along * along, 0),
        pred=kept.pred + seen.step[None] * along,
    )
    return after, moved, seen


def failure(seen: ridge.Seen) -> jax.Array:
    """Status bits of an observation."""
    finite = jnp.isfinite(seen.error) & jnp.isfinite(seen.width2)
    bits = jnp.where(finite, jnp.where(seen.width2 >= 0, 0, status.INDEFINITE), status.NONFINITE)
    return bits.astype(jnp.int32)


def lost(values: jax.Array) -> jax.Array:
    """Status bits of a choice among ``values [num_arms]``."""
    return jnp.where(jnp.isfinite(jnp.max(values, axis=0)), 0, status.NONFINITE).astype(jnp.int32)
