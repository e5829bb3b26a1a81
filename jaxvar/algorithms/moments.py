"""Regressions on powers of the next value: what UCRL-VTR+, HF-UCRL-VTR+ and UCRL-WVTR share.

Moment m, counted from 0, regresses ``V_{h+1}(s')^{2^m}`` on ``phi_{V^{2^m}}(s, a)``. Its mean is the second moment of
the one before, so that an upper bound on the conditional variance of moment m, with values in [0, v], is

    var_m = [<f_{m+1}, theta_{m+1}>]_{[0, v^2]} - [<f_m, theta_m>]_{[0, v]}^2
            + min(v^2, 2 v beta |f_m|_{Sigma_m^-1}) + min(v^2, beta' |f_{m+1}|_{Sigma_{m+1}^-1})

Estimates, matrices and radii in it are those of the episode's start. An observation of moment m counts with the weight
``1 / sigma_bar_m``, which is plain ridge regression of ``y / sigma_bar`` on ``f / sigma_bar``.

Functions below are parts of ``seeds_last`` kernels; the axis of moments leads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import planning, ridge, status, ties
from jaxvar.algorithms.interface import Model, Step
from jaxvar.algorithms.optimistic_plan import Plan, batch_shape, ellipsoid_bound, optimistic_plan

MAX_MOMENTS = 64  # K H up to 10^18


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


def init_moments(dim: int, axes: tuple[int, ...], lam: Any, dtype: Any) -> MomentState:
    """Regressions that have seen nothing, on the leading ``axes``."""
    one, zero = ridge.init_ridge(dim, lam, dtype), jnp.int32(0)
    regressions = jax.tree.map(lambda x: jnp.broadcast_to(x, (*axes, *x.shape)), one)
    return MomentState(regressions, zero, zero, jnp.zeros((), dtype), zero)


def with_start(plan: Plan, start: ridge.Ridge) -> MomentPlan:
    """The plan made of the regressions ``start``."""
    return MomentPlan(plan.q, plan.value, plan.policy, start)


def first_moment_plan(
    model: Model,
    regressions: ridge.Ridge,
    beta: jax.Array,
    value_bound: jax.Array,
    words: jax.Array | None,
    rule: str,
    tie_tolerance: jax.Array,
) -> MomentPlan:
    """Plan an episode with the ellipsoid of radius ``beta []`` around the first of the regressions ``[M, ...]``."""
    theta_hat, shape = regressions.theta_hat[0], regressions.sigma_inv[0] * (beta**2)[None, None]
    batch = batch_shape(model, words, shape[0, 0], value_bound, tie_tolerance)

    def bound(feature: jax.Array) -> jax.Array:
        return ellipsoid_bound(feature, theta_hat, shape)

    plan = optimistic_plan(model, bound, value_bound, words, rule, tie_tolerance, batch)
    return with_start(plan, regressions)


def moment_pairs(
    model: Model, plan: MomentPlan, step: Step, num_moments: int, unit: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """What a step teaches: features ``phi_{(V / unit)^{2^m}}(s, a) [M, d]`` and targets ``(V(s') / unit)^{2^m} [M]``.

    High powers of small values underflow to zero, and then teach nothing.
    """
    powers = [planning.at_stage(plan.value, step.stage + 1) / unit[None]]
    for _ in range(1, num_moments):
        powers.append(powers[-1] * powers[-1])
    by_state = jnp.stack(powers, axis=1)  # [S, M]
    num_states, num_actions, _, dim = model.phi.shape[:4]
    pairs = model.phi.reshape(num_states * num_actions, num_states, dim, *model.phi.shape[4:])
    row = ties.take(pairs, step.state * num_actions + step.action)  # [S, d]
    return ridge.combine(row[:, None], by_state[:, :, None]), ties.take(by_state, step.next_state)


def look(regressions: ridge.Ridge, feature: jax.Array) -> Look:
    """The predictions and widths of ``feature [M, d]``, one for each of the regressions ``[M, ...]``."""
    mean = jnp.sum(regressions.theta_hat * feature, axis=1)
    return Look(mean, jax.vmap(lambda f, matrix: ridge.norm(f[None], matrix)[0])(feature, regressions.sigma_inv))


def variance_bound(start: Look, beta: jax.Array, next_beta: jax.Array, value_bound: jax.Array) -> jax.Array:
    """The upper bound ``[M - 1]`` on the conditional variances of all moments but the last; see the module.

    Args:
      start: of the step's features, under the regressions of the episode's start.
      beta: radius around the estimate of a moment, [].
      next_beta: radius around the estimate of the moment after it, [].
      value_bound: v, [].
    """
    v, v2 = value_bound[None], (value_bound**2)[None]
    var_hat = jnp.clip(start.mean[1:], 0, v2) - jnp.clip(start.mean[:-1], 0, v) ** 2
    error = jnp.minimum(v2, 2 * v * beta[None] * start.width[:-1])
    return var_hat + error + jnp.minimum(v2, next_beta[None] * start.width[1:])


def high_order_variances(start: Look, now: Look, beta: jax.Array, alpha: jax.Array, gamma: jax.Array) -> jax.Array:
    """HOME, the high-order moment estimator of Zhou and Gu (2022): ``sigma_bar_m^2 [M]``, for values in [0, 1].

        sigma_bar_m^2 = max(var_m, alpha^2, gamma^2 |f_m|_{Sigma_m^-1})

    where the variance of the last moment is bounded by 1, and its width is that under the matrices of the moment.
    """
    one = jnp.ones_like(start.mean[0])
    var_bar = jnp.concatenate([variance_bound(start, beta, beta, one), jnp.ones_like(start.mean[:1])])
    return jnp.maximum(jnp.maximum(var_bar, (alpha**2)[None]), (gamma**2)[None] * now.width)


def regress(
    regressions: ridge.Ridge, feature: jax.Array, target: jax.Array, weight: jax.Array
) -> tuple[ridge.Ridge, jax.Array, jax.Array]:
    """Each of the regressions ``[M, ...]`` learns its ``feature [M, d]`` and ``target [M]`` with its ``weight [M]``.

    Returns:
      The regressions, whether the first of them learned anything, and the status bits of the step, both [].
    """
    new, seen = jax.vmap(ridge.regress)(regressions, weight[:, None] * feature, weight * target)
    finite = jnp.all(jnp.isfinite(seen.error) & jnp.isfinite(seen.width2), axis=0)
    failure = jnp.where(jnp.all(seen.width2 >= 0, axis=0), 0, status.INDEFINITE)
    return new, seen.width2[0] > 0, jnp.where(finite, failure, status.NONFINITE).astype(jnp.int32)


def high_order_step(
    state: MomentState,
    model: Model,
    plan: MomentPlan,
    step: Step,
    beta: jax.Array,
    alpha: jax.Array,
    gamma: jax.Array,
    value_bound: jax.Array,
) -> MomentState:
    """All moments of the value over ``value_bound`` learn, weighted by :func:`high_order_variances`."""
    feature, target = moment_pairs(model, plan, step, state.regressions.loss.shape[0], value_bound)
    start, now = look(plan.start, feature), look(state.regressions, feature)
    weight = 1 / jnp.sqrt(high_order_variances(start, now, beta, alpha, gamma))
    regressions, taught, failure = regress(state.regressions, feature, target, weight)
    return MomentState(
        regressions=regressions,
        steps=state.steps + 1,
        layer=taught.astype(jnp.int32),
        weight=jnp.where(taught, weight[0] / value_bound, 0),
        status=state.status | failure,
    )
