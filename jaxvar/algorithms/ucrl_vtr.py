"""Value-targeted regression: UCRL-VTR, unweighted, and UCRL-VTR+, weighted by estimated variances.

Stages are counted from 0, episodes from 1.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import planning, ridge
from jaxvar.algorithms import moments
from jaxvar.algorithms.interface import Confidence, Model, Step
from jaxvar.algorithms.moments import MomentPlan, MomentState
from jaxvar.algorithms.optimistic_plan import Plan, ValueTargeted, ellipsoid_bound, known_model, regression_pair
from jaxvar.claims import Claim
from jaxvar.parameters import MAX_HORIZON, Number, choice, count, factory, flag, number, pytree

CLAIMS = {
    "ucrl_vtr": Claim(
        "UCRL-VTR",
        "Jia, Yang, Szepesvari, Wang 2020; Ayoub, Jia, Szepesvari, Wang, Yang 2020",
        "d sqrt(H^3 K)",
        variance="not used",
        constants="read",
        row=1,
        assumption="homogeneous, rewards add up to at most H",
        deterministic="none claimed",
    ),
    "ucrl_vtr_plus": Claim(
        "UCRL-VTR+",
        "Zhou, Gu, Szepesvari 2021",
        "sqrt(d^2 H^3 + d H^4) sqrt(K) + d^2 H^3 + d^3 H^2",
        constants="derived again",
        row=2,
        assumption="inhomogeneous, rewards add up to at most H",
    ),
}


class UcrlVtrState(NamedTuple):
    """State of UCRL-VTR for one seed. Plans are made of what it holds at the start of an episode."""

    regression: ridge.Ridge  # over all stages and episodes
    layer: jax.Array  # []   int32, 1 where the last step taught something, else 0
    weight: jax.Array  # []   likewise
    status: jax.Array  # []   int32


@pytree
class UcrlVtr(ValueTargeted):
    r"""UCRL-VTR: optimism by one ellipsoid around the ridge regression of the next value on its features.

    .. math:: Q_h = [r + \langle\phi_{V_{h+1}}, \hat\theta\rangle + \beta\|\phi_{V_{h+1}}\|_{M^{-1}}]_{[0, v]},
              \quad \beta = \sqrt\lambda B + c \tfrac v2\sqrt{2\log(1/\delta) + \log\det M - d\log\lambda}

    :math:`M = \lambda I + \sum \phi_V \phi_V^T` over all steps so far; within an episode the plan keeps the estimate
    of its start. With ``radius="stage"`` the range v in the radius of stage h, counted from 0, is :math:`(1 - h/H) v`:
    what is left to earn. The clip stays at v.

    References:
      Ayoub, Jia, Szepesvari, Wang, Yang (2020), Model-based reinforcement learning with value-targeted regression.

    Deviations:
      One scale for all algorithms: values lie in [0, v] instead of [0, H]; half of a range is the sub-Gaussian constant
      of a bounded variable, as in the authors' code. There the range with H - h steps to go is H - h, which is
      ``radius="stage"``; the default has v in every stage, since a total reward of v may come in the last one.
    """

    horizon: int | None = count(
        high=MAX_HORIZON,
        default=None,
        kw_only=False,
        doc="H, steps per episode; if given, it must be the model's.",
    )
    radius: str = choice("flat", "stage", default="flat", doc="the range v in every stage, or what is left of it.")

    def init(self, model: Model) -> UcrlVtrState:
        """Return an empty regression."""
        self._known(model)
        zero = jnp.int32(0)
        return UcrlVtrState(ridge.init_ridge(self.dim, self.lam, self.dtype), zero, jnp.zeros((), self.dtype), zero)

    def plan(
        self, state: UcrlVtrState, model: Model, key: jax.Array | None = None, first: jax.Array | None = None
    ) -> Plan:
        """Plan the coming episode; without a key ties go to the lowest action."""
        theta_hat, root = state.regression.theta_hat, state.regression.root
        model = self._known(model)
        if self.radius == "flat":
            bound = functools.partial(ellipsoid_bound, theta_hat=theta_hat, root=root * self.beta(state))
            return self.optimistic_plan(model, bound, key, self.value_bound, first=first)

        def stage_bound(feature: jax.Array, beta: jax.Array) -> jax.Array:
            return ellipsoid_bound(feature, theta_hat, root * beta)

        left = jnp.asarray(1 - np.arange(model.horizon) / model.horizon, self.dtype)  # of the range, in each stage
        betas = jax.vmap(functools.partial(self.beta, state))(left)
        return self.optimistic_plan(model, stage_bound, key, self.value_bound, (betas,), first)

    def update(self, state: UcrlVtrState, model: Model, plan: Plan, step: Step) -> UcrlVtrState:
        """Learn by one step of ridge regression."""
        regression, update = ridge.regress(state.regression, *regression_pair(plan, step))
        taught = update.width2 > 0
        return UcrlVtrState(
            regression=regression,
            layer=taught.astype(jnp.int32),
            weight=taught.astype(self.dtype),
            status=state.status | ridge.failure(update),
        )

    def beta(self, state: UcrlVtrState, left: jax.Array | float = 1) -> jax.Array:
        """Return the radius of the coming episode where values lie in ``[0, left v]``, []."""
        growth = 2 * jnp.log(1 / self.delta) + state.regression.log_det
        spread = self.beta_scale * self.value_bound / 2 * jnp.sqrt(growth)
        return left * spread + jnp.sqrt(self.lam) * self.norm_bound

    def confidence(self, state: UcrlVtrState) -> Confidence:
        """Return the one ellipsoid, as a layer; that of the first stage where stages differ."""
        loss, lost = state.regression.losses
        return Confidence(loss[None], jnp.asarray(self.lam)[None], self.beta(state)[None], lost[None])

    def _known(self, model: Model) -> Model:
        """Return what is used of a model, which must have the horizon that was given, if one was."""
        return known_model(model, self.dim, model.horizon if self.horizon is None else self.horizon)


ucrl_vtr = factory(UcrlVtr)


class Radii(NamedTuple):
    """The three radii of an episode."""

    plan: jax.Array  # []   beta_hat, of the weighted regression in plans
    value: jax.Array  # []   beta_check, of the same where the variance is bounded
    square: jax.Array  # []   beta_tilde, of the regression of squared values


@pytree
class UcrlVtrPlus(ValueTargeted):
    r"""UCRL-VTR+: the regression of the next value, weighted by a variance estimated from that of its square.

    .. math:: Q_h = [r + \langle f, \hat\theta\rangle + \hat\beta\|f\|_{\hat\Sigma^{-1}}]_{[0, v]},
              \quad f = \phi_{V_{h+1}}

    After each step, with :math:`f` and :math:`g = \phi_{V_{h+1}^2}` of the visited pair and :math:`y = V_{h+1}(s')`,

    .. math:: \hat\Sigma \mathrel{+}= f f^T / \bar\sigma^2, \quad \hat b \mathrel{+}= y f / \bar\sigma^2, \quad
              \tilde\Sigma \mathrel{+}= g g^T, \quad \tilde b \mathrel{+}= y^2 g, \quad
              \bar\sigma^2 = \max(v^2 / d,\ \mathrm{var} + E)

    .. math:: \mathrm{var} = [\langle g, \tilde\theta\rangle]_{[0, v^2]} - [\langle f, \hat\theta\rangle]_{[0, v]}^2,
              \quad E = \min(v^2, 2 v \check\beta \|f\|_{\hat\Sigma^{-1}})
              + \min(v^2, \tilde\beta \|g\|_{\tilde\Sigma^{-1}})

    where var and E use the estimates and matrices of the episode's start. In episode k, with :math:`n = kH` and
    :math:`\ell = \log(4 n^2 / \delta)` (``per_step``: :math:`n = k` and :math:`\ell = \log(4 k^2 H / \delta)`),

    .. math:: \hat\beta = c(8\sqrt{d \log(1 + n/\lambda)\,\ell} + 4\sqrt d\,\ell) + \sqrt\lambda B, \quad
              \check\beta = c(8 d\sqrt{\log(1 + n/\lambda)\,\ell} + 4\sqrt d\,\ell) + \sqrt\lambda B

    .. math:: \tilde\beta = c(8 v^2\sqrt{d\log(1 + n v^4 / (d\lambda))\,\ell} + 4 v^2 \ell) + \sqrt\lambda B

    References:
      Zhou, Gu, Szepesvari (2021), Nearly minimax optimal reinforcement learning for linear mixture Markov decision
      processes, Theorem 4.1 and Algorithm 2. Zhang, Zhou, Gu (2021), Reward-free model-based reinforcement learning
      with linear function approximation, for the form whose stages share their regressions.

    Deviations:
      One scale for all algorithms: values lie in [0, v] instead of [0, H], in clips, floor and radii, while H stays
      where it counts steps. The regression of squares is not free of that scale: its ridge is ``lam`` here, and
      ``lam / H^4`` would be the same as ``lam`` in [0, H]. By default one regression for all stages, whose logarithms
      then count all steps. The tie rule is ours.
    """

    horizon: int = count(high=MAX_HORIZON, kw_only=False, doc="H, steps per episode.")
    delta: Number = number(
        above=0,
        below=1,
        default=0.01,
        doc="failure probability; the theorem fails with probability at most 5 delta.",
    )
    per_step: bool = flag(
        default=False,
        doc="regress in each stage apart, as published for transitions that differ between stages; by default all "
        "stages share their regressions, since they share theta*.",
    )

    @property
    def capacity(self) -> int:
        """Number of pairs of regressions: one for each stage, or one for all."""
        return self.horizon if self.per_step else 1

    def init(self, model: Model) -> MomentState:
        """Return empty regressions, ``[capacity, 2, ...]``."""
        known_model(model, self.dim, self.horizon)
        return moments.init_moments(self.dim, (self.capacity, 2), self.lam, self.dtype)

    def plan(
        self, state: MomentState, model: Model, key: jax.Array | None = None, first: jax.Array | None = None
    ) -> MomentPlan:
        """Plan the coming episode; without a key ties go to the lowest action."""
        regressions, beta = state.regressions, self.radii(state.steps).plan
        theta_hat, root = regressions.theta_hat[:, 0], regressions.inverse.root[:, 0] * beta
        known = known_model(model, self.dim, self.horizon)
        if self.per_step:
            plan = self.optimistic_plan(known, ellipsoid_bound, key, self.value_bound, (theta_hat, root), first)
        else:
            bound = functools.partial(ellipsoid_bound, theta_hat=theta_hat[0], root=root[0])
            plan = self.optimistic_plan(known, bound, key, self.value_bound, first=first)
        return MomentPlan(plan.q, plan.value, plan.policy, regressions)

    def update(self, state: MomentState, model: Model, plan: MomentPlan, step: Step) -> MomentState:
        """Learn by one step of both regressions, the first one weighted."""
        known, v = known_model(model, self.dim, self.horizon), self.value_bound
        pair = step.stage if self.per_step else jnp.zeros_like(step.stage)
        start, now = (jax.tree.map(lambda x: planning.at_stage(x, pair), r) for r in (plan.start, state.regressions))
        feature, target = moments.moment_pairs(known, plan.value, step, 2, 1)
        radii = self.radii(state.steps)
        var_bar = moments.variance_bound(moments.look(start, feature), radii.value, radii.square, v)[0]
        first = 1 / jnp.sqrt(jnp.maximum(v**2 / self.dim, var_bar))
        weights = jnp.stack([first, jnp.ones_like(first)])
        new, taught, failure = moments.regress(now, feature, target, weights)
        return MomentState(
            regressions=jax.tree.map(lambda x, y: planning.with_stage(x, pair, y), state.regressions, new),
            steps=state.steps + 1,
            layer=jnp.where(taught, pair + 1, 0),
            weight=jnp.where(taught, first, 0),
            status=state.status | failure,
        )

    def radii(self, steps: jax.Array) -> Radii:
        """Return those of the coming episode, or of the one that ``steps []`` is in."""
        d, k = self.dim, (steps // self.horizon + 1).astype(self.dtype)
        n = k if self.per_step else k * self.horizon
        log_union = jnp.log(4 / self.delta) + 2 * jnp.log(n) + (math.log(self.horizon) if self.per_step else 0)
        log_det, log_det_square = jnp.log1p(n / self.lam), jnp.log1p(n * self.value_bound**4 / (d * self.lam))
        range_part = 4 * math.sqrt(d) * log_union
        stochastic = (
            8 * jnp.sqrt(d * log_det * log_union) + range_part,
            8 * d * jnp.sqrt(log_det * log_union) + range_part,
            self.value_bound**2 * (8 * jnp.sqrt(d * log_det_square * log_union) + 4 * log_union),
        )
        bias = jnp.sqrt(self.lam) * self.norm_bound
        return Radii(*(self.beta_scale * part + bias for part in stochastic))

    def confidence(self, state: MomentState) -> Confidence:
        """Return the ellipsoids that plans use, one for each stage or one for all, as layers."""
        ridges, beta = (jnp.broadcast_to(x, self.capacity) for x in (self.lam, self.radii(state.steps).plan))
        loss, lost = state.regressions.losses
        return Confidence(loss[:, 0], ridges, beta, lost[:, 0])


ucrl_vtr_plus = factory(UcrlVtrPlus)
