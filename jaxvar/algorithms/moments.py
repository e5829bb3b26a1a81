"""Regressions on powers of the next value: what UCRL-VTR+, HF-UCRL-VTR+ and UCRL-WVTR share.

Moment m, counted from 0, regresses ``V_{h+1}(s')^{2^m}`` on ``phi_{V^{2^m}}(s, a)``. Its mean is the second moment of
the one before, so that an upper bound on the conditional variance of moment m, with values in [0, v], is

    var_m = [<f_{m+1}, theta_{m+1}>]_{[0, v^2]} - [<f_m, theta_m>]_{[0, v]}^2
            + min(v^2, 2 v beta |f_m|_{Sigma_m^-1}) + min(v^2, beta' |f_{m+1}|_{Sigma_{m+1}^-1})

Estimates, matrices and radii in it are those of the episode's start. An observation of moment m counts with the weight
``1 / sigma_bar_m``, which is plain ridge regression of ``y / sigma_bar`` on ``f / sigma_bar``.

The axis of moments leads.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import planning, ridge
from jaxvar.algorithms.interface import Model, Number, Step
from jaxvar.lowering import combine, norm, take


class MomentState(NamedTuple):
    """State for one seed of an algorithm that regresses on moments. A plan holds the regressions of its start."""

    regressions: ridge.Ridge  # each array [M, ...], or [H, M, ...] where each stage has its own
    steps: jax.Array  # []   int32, steps played in all episodes
    layer: jax.Array  # []   int32, the regression that plans use and that the last step taught, from 1; 0 for none
    weight: jax.Array  # []   1 / sigma_bar of the last step in it; 0 where none learned
    status: jax.Array  # []   int32


class MomentPlan(NamedTuple):
    """A plan, and the regressions it was made of."""

    q: jax.Array  # [H, S, A]
    value: jax.Array  # [H + 1, S]   the last is zero
    policy: jax.Array  # [H, S]   int32, actions
    start: ridge.Ridge  # as in the state at the start of the episode


class Look(NamedTuple):
    """Features seen through the regressions of their moments."""

    mean: jax.Array  # [M]   <f_m, theta_m>
    width: jax.Array  # [M]   |f_m|_{Sigma_m^-1}


def init_moments(dim: int, axes: tuple[int, ...], lam: Number, dtype: np.dtype[np.floating]) -> MomentState:
    """Return regressions that have seen nothing, on the leading ``axes``."""
    one, zero = ridge.init_ridge(dim, lam, dtype), jnp.int32(0)
    regressions = jax.tree.map(lambda x: jnp.broadcast_to(x, (*axes, *x.shape)), one)
    return MomentState(regressions, zero, zero, jnp.zeros((), dtype), zero)


def moment_pairs(
    model: Model, value: jax.Array, step: Step, num_moments: int, unit: Number
) -> tuple[jax.Array, jax.Array]:
    """Return what a step teaches of the plan's ``value [H + 1, S]``, the V of the next stage.

    High powers of small values underflow to zero, and then teach nothing.

    Returns:
      The features ``phi_{(V / unit)^{2^m}}(s, a) [M, d]`` and the targets ``(V(s') / unit)^{2^m} [M]``.
    """
    powers = [planning.at_stage(value, step.stage + 1) / unit]
    for _ in range(1, num_moments):
        powers.append(powers[-1] * powers[-1])
    by_state = jnp.stack(powers, axis=1)  # [S, M]
    num_states, num_actions, _, dim = model.phi.shape
    pairs = model.phi.reshape(num_states * num_actions, num_states, dim)
    row = take(pairs, step.state * num_actions + step.action)  # [S, d]
    return combine(row[:, None], by_state[:, :, None]), take(by_state, step.next_state)


def look(regressions: ridge.Ridge, feature: jax.Array) -> Look:
    """Return the predictions and widths of ``feature [M, d]``, one for each of the regressions ``[M, ...]``."""
    mean = jnp.sum(regressions.theta_hat * feature, axis=1)
    return Look(mean, jax.vmap(lambda f, matrix: norm(f[None], matrix)[0])(feature, regressions.sigma_inv))


def variance_bound(start: Look, beta: jax.Array, next_beta: jax.Array, value_bound: Number) -> jax.Array:
    """Return the upper bound on the conditional variances of all moments but the last, [M - 1]; see the module.

    Args:
      start: of the step's features, under the regressions of the episode's start.
      beta: radius around the estimate of a moment, [].
      next_beta: radius around the estimate of the moment after it, [].
      value_bound: v, [].
    """
    v, v2 = value_bound, value_bound**2
    var_hat = jnp.clip(start.mean[1:], 0, v2) - jnp.clip(start.mean[:-1], 0, v) ** 2
    error = jnp.minimum(v2, 2 * v * beta * start.width[:-1])
    return var_hat + error + jnp.minimum(v2, next_beta * start.width[1:])


def high_order_variances(start: Look, now: Look, beta: jax.Array, alpha: Number, gamma: Number) -> jax.Array:
    """Return ``sigma_bar_m^2`` by HOME, the high-order estimator of Zhou and Gu (2022), for values in [0, 1], [M].

        sigma_bar_m^2 = max(var_m, alpha^2, gamma^2 |f_m|_{Sigma_m^-1})

    where the variance of the last moment is bounded by 1, and its width is that under the matrices of the moment.
    """
    var_bar = jnp.concatenate([variance_bound(start, beta, beta, 1), jnp.ones_like(start.mean[:1])])
    return jnp.maximum(jnp.maximum(var_bar, alpha**2), gamma**2 * now.width)


def regress(
    regressions: ridge.Ridge, feature: jax.Array, target: jax.Array, weight: jax.Array, lam: Number
) -> tuple[ridge.Ridge, jax.Array, jax.Array]:
    """Let each of the regressions ``[M, ...]`` learn its ``feature [M, d]`` and ``target [M]`` with its ``weight [M]``.

    Returns:
      The regressions, whether the first of them learned anything, and the status bits of the step, both [].
    """
    learn = functools.partial(ridge.regress, lam=lam)
    new, update = jax.vmap(learn)(regressions, weight[:, None] * feature, weight * target)
    return new, update.width2[0] > 0, jnp.bitwise_or.reduce(jax.vmap(ridge.failure)(update))
