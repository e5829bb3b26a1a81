"""Regressions on powers of the next value: HF-UCRL-VTR+, UCRL-WVTR, and what UCRL-VTR+ and VarLin share with them.

Moment m, counted from 0, regresses ``V_{h+1}(s')^{2^m}`` on ``phi_{V^{2^m}}(s, a)``. Its mean is the second moment of
the one before, so that an upper bound on the conditional variance of moment m, with values in [0, v], is

    var_m = [<f_{m+1}, theta_{m+1}>]_{[0, v^2]} - [<f_m, theta_m>]_{[0, v]}^2
            + min(v^2, 2 v beta |f_m|_{Sigma_m^-1}) + min(v^2, beta' |f_{m+1}|_{Sigma_{m+1}^-1})

Estimates, matrices and radii in it are those of the episode's start. An observation of moment m counts with the weight
``1 / sigma_bar_m``, which is plain ridge regression of ``y / sigma_bar`` on ``f / sigma_bar``.

The axis of moments leads. Stages and moments are counted from 0, episodes from 1.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import planning, ridge
from jaxvar.algorithms.interface import Confidence, Model, Step, by_rule
from jaxvar.algorithms.optimistic_plan import Planner, ValueTargeted, ellipsoid_bound, known_model
from jaxvar.claims import Claim
from jaxvar.lowering import combine, take
from jaxvar.parameters import MAX_HORIZON, Number, count, factory, number, pytree

CLAIMS = {
    "hf_ucrl_vtr_plus": Claim(
        "HF-UCRL-VTR+",
        "Zhou, Gu 2022",
        "d sqrt(K) + d^2",
        constants="derived again",
        row=5,
        assumption="homogeneous, rewards add up to at most 1",
    ),
    "ucrl_wvtr": Claim(
        "UCRL-WVTR",
        "Huang, Zhong, Wang, Yang 2024",
        "d sqrt(K) + d^2",
        constants="read",
        assumption="homogeneous, rewards add up to at most 1; the source's bound also depends on the instance",
    ),
}

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
    row = planning.at_pair(model.phi, step.state, step.action)  # [S, d]
    return combine(row[:, None], by_state[:, :, None]), take(by_state, step.next_state)


def look(regressions: ridge.Ridge, feature: jax.Array) -> Look:
    """Return the predictions and widths of ``feature [M, d]``, one for each of the regressions ``[M, ...]``."""
    mean = jnp.sum(regressions.theta_hat * feature, axis=1)
    return Look(mean, jnp.sqrt(jax.vmap(ridge.width2)(regressions.root, feature)))


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


def regress(
    regressions: ridge.Ridge, feature: jax.Array, target: jax.Array, weight: jax.Array
) -> tuple[ridge.Ridge, jax.Array, jax.Array]:
    """Let each of the regressions ``[M, ...]`` learn its ``feature [M, d]`` and ``target [M]`` with its ``weight [M]``.

    Returns:
      The regressions, whether the first of them learned anything, and the status bits of the step, both [].
    """
    new, update = jax.vmap(ridge.regress)(regressions, weight[:, None] * feature, weight * target)
    return new, update.width2[0] > 0, jnp.bitwise_or.reduce(jax.vmap(ridge.failure)(update))


@pytree
class HighOrder(Planner):
    """Base of HF-UCRL-VTR+ and UCRL-WVTR: all of them but the radius and the least variances."""

    horizon: int = count(high=MAX_HORIZON, kw_only=False, doc="H, steps per episode.")
    lam: Number = number(above=0, default=1.0, doc="the ridge.")
    num_moments: int = count(high=MAX_MOMENTS, default=4, doc="M.")
    value_bound: Number = number(
        above=0, squared=True, default=1.0, doc="v, no value is larger: 1 where the total reward is at most 1."
    )

    def radius(self, steps: jax.Array) -> jax.Array:
        """Return ``beta`` of the coming episode, or of the one that ``steps []`` is in, []."""
        raise NotImplementedError

    def init(self, model: Model) -> MomentState:
        """Return empty regressions, ``[num_moments, ...]``."""
        known_model(model, self.dim, self.horizon)
        return init_moments(self.dim, (self.num_moments,), self.lam, self.dtype)

    def plan(
        self, state: MomentState, model: Model, key: jax.Array | None = None, first: jax.Array | None = None
    ) -> MomentPlan:
        """Plan the coming episode with the first moment's ellipsoid; without a key ties go to the lowest action."""
        regressions = state.regressions
        theta_hat, root = regressions.theta_hat[0], regressions.root[0] * self.radius(state.steps)
        bound = functools.partial(ellipsoid_bound, theta_hat=theta_hat, root=root)
        known = known_model(model, self.dim, self.horizon)
        plan = self.optimistic_plan(known, bound, key, self.value_bound, first=first)
        return MomentPlan(plan.q, plan.value, plan.policy, regressions)

    def learn(
        self, state: MomentState, model: Model, plan: MomentPlan, step: Step, alpha: Number, gamma: Number
    ) -> MomentState:
        """Let all moments of the value over ``value_bound`` learn, weighted by HOME's estimates of their variances.

        HOME is the high-order estimator of Zhou and Gu (2022), ``max(var_m, alpha^2, gamma^2 |f_m|_{Sigma_m^-1})``. The
        variance of the last moment is bounded by 1; widths are those under the matrices of the moment.
        """
        known = known_model(model, self.dim, self.horizon)
        feature, target = moment_pairs(known, plan.value, step, self.num_moments, self.value_bound)
        start, now = look(plan.start, feature), look(state.regressions, feature)
        beta = self.radius(state.steps)
        var_bar = jnp.concatenate([variance_bound(start, beta, beta, 1), jnp.ones_like(start.mean[:1])])
        weight = 1 / jnp.sqrt(jnp.maximum(jnp.maximum(var_bar, alpha**2), gamma**2 * now.width))
        regressions, taught, failure = regress(state.regressions, feature, target, weight)
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
        loss, lost = state.regressions.losses
        return Confidence(loss[:1], jnp.asarray(self.lam)[None], beta[None], lost[:1])


@pytree
class HfUcrlVtrPlus(HighOrder, ValueTargeted):
    r"""HF-UCRL-VTR+: each moment's regression is weighted by a variance that the next moment's regression estimates.

    .. math:: Q_h = [r + \langle \phi_{V_{h+1}}, \hat\theta_0\rangle
              + \beta_k\|\phi_{V_{h+1}}\|_{\Sigma_0^{-1}}]_{[0, v]}

    After each step, for the moments :math:`m = 0, \dots, M - 1` with :math:`M = \lceil\log_2 7KH\rceil`, features
    :math:`f_m = \phi_{W^{2^m}}(s, a)` and targets :math:`y_m = W(s')^{2^m}` of :math:`W = V_{h+1} / v`,

    .. math:: \Sigma_m \mathrel{+}= f_m f_m^T / \bar\sigma_m^2, \quad b_m \mathrel{+}= y_m f_m / \bar\sigma_m^2, \quad
              \bar\sigma_m^2 = \max(\mathrm{var}_m + E_m,\ \alpha^2,\ \gamma^2\|f_m\|_{\Sigma_m^{-1}})

    .. math:: \mathrm{var}_m = [\langle f_{m+1}, \hat\theta_{m+1}\rangle]_{[0, 1]}
              - [\langle f_m, \hat\theta_m\rangle]_{[0, 1]}^2, \quad
              E_m = \min(1, 2\beta_k\|f_m\|_{\Sigma_m^{-1}}) + \min(1, \beta_k\|f_{m+1}\|_{\Sigma_{m+1}^{-1}})

    with 1 in place of :math:`\mathrm{var} + E` for the last moment. Plans, var and E use the estimates and matrices of
    the episode's start; the term of :math:`\gamma` alone uses the matrices of the moment. :math:`\alpha = H^{-1/2}`,
    :math:`\gamma = d^{-1/4}`, :math:`\lambda = d / B^2`, and in episode k

    .. math:: \beta_k = c(12\sqrt{d\,\eta\,\tau} + 30\tau / \gamma^2) + \sqrt\lambda B, \quad
              \eta = \log(1 + kH / (\alpha^2 d\lambda)), \quad
              \tau = \log(32 (1 + [\log(\gamma^2/\alpha)]_+) k^2H^2 / \delta)

    References:
      Zhou, Gu (2022), Computationally efficient horizon-free reinforcement learning for linear mixture MDPs: its
      algorithm HF-UCRL-VTR+, the estimator HOME and the theorem on their regret.

    Deviations:
      One scale for all algorithms: values are divided by v before they are regressed on; with v = 1 nothing changes.
      ``log(gamma^2 / alpha)`` is cut at 0 from below: as published, the radius is NaN where H < d / e^2. The tie rule
      is ours.
    """

    num_episodes: float = number(
        at_least=1, is_static=True, kw_only=False, doc="K, in the number of moments; the run itself may be shorter."
    )
    delta: Number = number(
        above=0,
        below=1,
        default=0.01,
        doc="failure probability; the theorem fails with probability at most (2 M + 1) delta.",
    )
    lam: Number = by_rule(lambda self: self.dim / self.norm_bound**2, "the ridge; ``d / B^2`` if not given.")
    num_moments: int = count(
        high=MAX_MOMENTS,
        default=None,
        rule=lambda self: math.ceil(math.log2(7 * self.num_episodes * self.horizon)),
        doc="M, instead of the theorem's ``ceil(log2(7 K H))``.",
    )

    @property
    def alpha(self) -> jax.Array:
        """The theorem's ``H^{-1/2}``: no standard deviation is taken to be smaller."""
        return jnp.asarray(self.horizon**-0.5, self.dtype)

    @property
    def gamma(self) -> jax.Array:
        """The theorem's ``d^{-1/4}``: how much an uncertain feature is held back."""
        return jnp.asarray(self.dim**-0.25, self.dtype)

    def update(self, state: MomentState, model: Model, plan: MomentPlan, step: Step) -> MomentState:
        """Learn by one weighted step of the regression of every moment."""
        return self.learn(state, model, plan, step, self.alpha, self.gamma)

    def radius(self, steps: jax.Array) -> jax.Array:
        n = ((steps // self.horizon + 1) * self.horizon).astype(self.dtype)  # k H
        log_det = jnp.log1p(n / (self.alpha**2 * self.dim * self.lam))
        layers = 1 + jnp.maximum(jnp.log(self.gamma**2 / self.alpha), 0)
        log_union = jnp.log(32 * layers / self.delta) + 2 * jnp.log(n)
        stochastic = 12 * jnp.sqrt(self.dim * log_det * log_union) + 30 * log_union / self.gamma**2
        return self.beta_scale * stochastic + jnp.sqrt(self.lam) * self.norm_bound


hf_ucrl_vtr_plus = factory(HfUcrlVtrPlus)


@pytree
class UcrlWvtr(HighOrder):
    r"""UCRL-WVTR: the weighted regressions of :func:`jaxvar.hf_ucrl_vtr_plus` with a radius that never changes.

    .. math:: Q_h = [r + \langle \phi_{V_{h+1}}, \hat\theta_0\rangle
              + \beta\|\phi_{V_{h+1}}\|_{\Sigma_0^{-1}}]_{[0, v]}, \quad
              \bar\sigma_m^2 = \max(\mathrm{var}_m + E_m,\ \sigma_{\min}^2,\ \gamma^2\|f_m\|_{\Sigma_m^{-1}})

    where f, var and E are as there, over M moments. The defaults are those of the authors' experiments. Their variant
    without high moments is ``num_moments=2``; ``num_moments=1`` with ``gamma=0`` weighs all steps alike, as UCRL-VTR
    does.

    References:
      Huang, Zhong, Wang, Yang (2024), Horizon-free and instance-dependent regret bounds for reinforcement learning with
      general function approximation, and the code of its experiments.

    Deviations:
      The second term of var is squared, as in the paper; the published code forgets the square. Values are divided by v
      before they are regressed on; with v = 1 nothing changes. The radius is that of the code, a constant for which
      nothing is proved. The tie rule is ours.
    """

    fixed_radius: Number = number(at_least=0, default=1.0, doc="beta, all of it: there is no bias part to leave alone.")
    sigma_min: Number = number(above=0, default=0.01, doc="no standard deviation is taken to be smaller.")
    gamma: Number = number(at_least=0, default=0.5, doc="how much an uncertain feature is held back.")

    def update(self, state: MomentState, model: Model, plan: MomentPlan, step: Step) -> MomentState:
        """Learn by one weighted step of the regression of every moment."""
        return self.learn(state, model, plan, step, self.sigma_min, self.gamma)

    def radius(self, steps: jax.Array) -> jax.Array:
        """Return ``beta``, the same in all episodes, []."""
        return jnp.asarray(self.fixed_radius)


ucrl_wvtr = factory(UcrlWvtr)
