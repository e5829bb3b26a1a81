"""UCRL-VTR+ (Zhou, Gu, Szepesvari 2021): value-targeted regression weighted by estimated variances.

Stages are counted from 0, episodes from 1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import planning
from jaxvar.algorithms import moments
from jaxvar.algorithms.interface import Confidence, Model, Step
from jaxvar.algorithms.moments import MomentPlan, MomentState
from jaxvar.algorithms.optimistic_plan import ValueTargeted, ellipsoid_bound, known_model
from jaxvar.claims import Claim
from jaxvar.parameters import count, factory, flag, number, pytree

CLAIM = Claim(
    name="UCRL-VTR+",
    factory="ucrl_vtr_plus",
    reference="Zhou, Gu, Szepesvari 2021",
    setting="episodes",
    regret="sqrt(d^2 H^3 + d H^4) sqrt(K) + d^2 H^3 + d^3 H^2",
    deterministic="none claimed",
    variance="estimated",
    efficient=True,
    constants="derived again",
    table=2,
    row=2,
    assumption="inhomogeneous, rewards add up to at most H",
)


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

    horizon: int = count(kw_only=False, doc="H, steps per episode.")
    delta: Any = number(
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
        """How many pairs of regressions there are: one for each stage, or one for all."""
        return self.horizon if self.per_step else 1

    def init(self, model: Model) -> MomentState:
        """Return empty regressions, ``[capacity, 2, ...]``."""
        known_model(model, self.dim, self.horizon)
        return moments.init_moments(self.dim, (self.capacity, 2), self.lam, self.dtype)

    def plan(self, state: MomentState, model: Model, key: jax.Array | None = None) -> MomentPlan:
        """Plan the coming episode; without a key ties go to the lowest action."""
        regressions, beta = state.regressions, self.radii(state.steps).plan
        ellipsoids = (regressions.theta_hat[:, 0], regressions.sigma_inv[:, 0] * beta**2)

        def bound(feature: jax.Array, ellipsoid: tuple[jax.Array, jax.Array]) -> jax.Array:
            return ellipsoid_bound(feature, *ellipsoid)

        known = known_model(model, self.dim, self.horizon)
        if self.per_step:
            plan = self.optimistic_plan(known, bound, key, self.value_bound, stages=ellipsoids)
        else:
            shared = (ellipsoids[0][0], ellipsoids[1][0])
            plan = self.optimistic_plan(known, lambda f: bound(f, shared), key, self.value_bound)
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
        new, taught, failure = moments.regress(now, feature, target, weights, self.lam)
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
        return Confidence(state.regressions.loss[:, 0], ridges, beta)


ucrl_vtr_plus = factory(UcrlVtrPlus)
