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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import planning, ridge
from jaxvar.algorithms.interface import Confidence, Model, Step
from jaxvar.algorithms.optimistic_plan import Planner, ellipsoid_bound, known_model
from jaxvar.lowering import combine, norm, take
from jaxvar.parameters import count, number, pytree

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


@pytree
class HighOrder(Planner):
    """Base of HF-UCRL-VTR+ and UCRL-WVTR: all of them but the radius and the least variances."""

    horizon: int = count(kw_only=False, doc="H, steps per episode.")
    lam: Any = number(above=0, default=1.0, doc="the ridge.")
    num_moments: int = count(high=MAX_MOMENTS, default=4, doc="M.")
    value_bound: Any = number(above=0, default=1.0, doc="v, no value is larger: 1 where the total reward is at most 1.")

    def radius(self, steps: jax.Array) -> jax.Array:
        """Return ``beta`` of the coming episode, or of the one that ``steps []`` is in, []."""
        raise NotImplementedError

    def init(self, model: Model) -> MomentState:
        """Return empty regressions, ``[num_moments, ...]``."""
        known_model(model, self.dim, self.horizon)
        return init_moments(self.dim, (self.num_moments,), self.lam, self.dtype)

    def plan(self, state: MomentState, model: Model, key: jax.Array | None = None) -> MomentPlan:
        """Plan the coming episode with the first moment's ellipsoid; without a key ties go to the lowest action."""
        regressions = state.regressions
        theta_hat, shape = regressions.theta_hat[0], regressions.sigma_inv[0] * self.radius(state.steps) ** 2

        def bound(feature: jax.Array) -> jax.Array:
            return ellipsoid_bound(feature, theta_hat, shape)

        known = known_model(model, self.dim, self.horizon)
        plan = self.optimistic_plan(known, bound, key, self.value_bound)
        return MomentPlan(plan.q, plan.value, plan.policy, regressions)

    def learn(
        self, state: MomentState, model: Model, plan: MomentPlan, step: Step, alpha: Any, gamma: Any
    ) -> MomentState:
        """Let all moments of the value over ``value_bound`` learn, weighted by :func:`high_order_variances`."""
        known = known_model(model, self.dim, self.horizon)
        feature, target = moment_pairs(known, plan.value, step, self.num_moments, self.value_bound)
        start, now = look(plan.start, feature), look(state.regressions, feature)
        weight = 1 / jnp.sqrt(high_order_variances(start, now, self.radius(state.steps), alpha, gamma))
        regressions, taught, failure = regress(state.regressions, feature, target, weight, self.lam)
        return MomentState(
            regressions=regressions,
            steps=state.steps + 1,
            layer=taught.astype(jnp.int32),
            weight=jnp.where(taught, weight[0] / self.value_bound, 0),
            status=state.status | failure,
        )

    def confidence(self, state: MomentState) -> Confidence:
        """Return the ellipsoid of the first moment, the one that plans use, as a layer."""
        beta = jnp.asarray(self.radius(state.steps))
        return Confidence(state.regressions.loss[:1], jnp.asarray(self.lam)[None], beta[None])


def init_moments(dim: int, axes: tuple[int, ...], lam: Any, dtype: Any) -> MomentState:
    """Return regressions that have seen nothing, on the leading ``axes``."""
    one, zero = ridge.init_ridge(dim, lam, dtype), jnp.int32(0)
    regressions = jax.tree.map(lambda x: jnp.broadcast_to(x, (*axes, *x.shape)), one)
    return MomentState(regressions, zero, zero, jnp.zeros((), dtype), zero)


def moment_pairs(
    model: Model, value: jax.Array, step: Step, num_moments: int, unit: Any
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


def variance_bound(start: Look, beta: jax.Array, next_beta: jax.Array, value_bound: Any) -> jax.Array:
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


def high_order_variances(start: Look, now: Look, beta: jax.Array, alpha: Any, gamma: Any) -> jax.Array:
    """Return ``sigma_bar_m^2`` by HOME, the high-order estimator of Zhou and Gu (2022), for values in [0, 1], [M].

        sigma_bar_m^2 = max(var_m, alpha^2, gamma^2 |f_m|_{Sigma_m^-1})

    where the variance of the last moment is bounded by 1, and its width is that under the matrices of the moment.
    """
    var_bar = jnp.concatenate([variance_bound(start, beta, beta, 1), jnp.ones_like(start.mean[:1])])
    return jnp.maximum(jnp.maximum(var_bar, alpha**2), gamma**2 * now.width)


def regress(
    regressions: ridge.Ridge, feature: jax.Array, target: jax.Array, weight: jax.Array, lam: Any
) -> tuple[ridge.Ridge, jax.Array, jax.Array]:
    """Let each of the regressions ``[M, ...]`` learn its ``feature [M, d]`` and ``target [M]`` with its ``weight [M]``.

    Returns:
      The regressions, whether the first of them learned anything, and the status bits of the step, both [].
    """
    learn = functools.partial(ridge.regress, lam=lam)
    new, update = jax.vmap(learn)(regressions, weight[:, None] * feature, weight * target)
    return new, update.width2[0] > 0, jnp.bitwise_or.reduce(jax.vmap(ridge.failure)(update))
