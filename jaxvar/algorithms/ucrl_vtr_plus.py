"""UCRL-VTR+ (Zhou, Gu, Szepesvari 2021): value-targeted regression weighted by estimated variances.

Stages are counted from 0, episodes from 1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import checks, planning, random
from jaxvar import ties as tie_rules
from jaxvar.algorithms import moments
from jaxvar.algorithms.interface import Confidence, Model, Step
from jaxvar.algorithms.moments import MomentPlan, MomentState
from jaxvar.algorithms.optimistic_plan import batch_shape, ellipsoid_bound, known_model, optimistic_plan
from jaxvar.batching import seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import float_dtype, leaf, pytree, static

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
    assumption="inhomogeneous, rewards add up to at most H",
)


class Radii(NamedTuple):
    """The three radii of an episode."""

    plan: jax.Array  # []   beta_hat, of the weighted regression in plans
    value: jax.Array  # []   beta_check, of the same where the variance is bounded
    square: jax.Array  # []   beta_tilde, of the regression of squared values


@pytree
class UcrlVtrPlus:
    """UCRL-VTR+; built by :func:`ucrl_vtr_plus`."""

    norm_bound: Any  # B, with |theta*| <= B
    delta: Any
    given_lam: Any  # the ridge, or None for 1 / B^2
    value_bound: Any
    beta_scale: Any
    tie_tolerance: Any
    dim: int = static()
    horizon: int = static()
    per_step: bool = static()
    ties: str = static()

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    @property
    def lam(self) -> Any:
        """The ridge."""
        return 1 / self.norm_bound**2 if self.given_lam is None else self.given_lam

    @property
    def capacity(self) -> int:
        """How many pairs of regressions there are: one for each stage, or one for all."""
        return self.horizon if self.per_step else 1

    def init(self, model: Model) -> MomentState:
        """Empty regressions, ``[capacity, 2, ...]``."""
        known_model(model, self.dim, self.horizon)
        return moments.init_moments(self.dim, (self.capacity, 2), self.lam, self.dtype)

    def plan(self, state: MomentState, model: Model, key: jax.Array | None = None) -> MomentPlan:
        """Optimistic values and policy of the coming episode; without a key ties go to the lowest action."""
        words = None if key is None else random.key_words(key)
        return _plan(self, state, known_model(model, self.dim, self.horizon), words)

    def update(self, state: MomentState, model: Model, plan: MomentPlan, step: Step) -> MomentState:
        """One step of both regressions, the first one weighted."""
        return _update(self, state, known_model(model, self.dim, self.horizon), plan, step)

    def confidence(self, state: MomentState) -> Confidence:
        """The ellipsoids that plans use, one for each stage or one for all, as layers."""
        ridges, beta = (jnp.broadcast_to(x, self.capacity) for x in (self.lam, _radii(self, state.steps).plan))
        return Confidence(state.regressions.loss[:, 0], ridges, beta)


def ucrl_vtr_plus(
    dim: int,
    horizon: int,
    *,
    norm_bound: Any = 1.0,
    delta: Any = 0.01,
    lam: Any = None,
    per_step: bool = False,
    value_bound: Any = 1.0,
    beta_scale: Any = 1.0,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> UcrlVtrPlus:
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

    Args:
      dim: d, the length of a feature.
      horizon: H, steps per episode.
      norm_bound: B, with \|theta*\| <= B.
      delta: failure probability; the theorem fails with probability at most 5 delta.
      lam: the ridge; ``1 / B^2`` if not given.
      per_step: regress in each stage apart, as published for transitions that differ between stages; by default all
        stages share their regressions, since they share theta*.
      value_bound: v, no value is larger: 1 where the total reward is at most 1.
      beta_scale: c, a multiplier of the stochastic parts; 1 is the theorem.
      ties: ``random`` or ``lowest`` action, among those within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

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
    if not isinstance(per_step, bool):
        raise ValueError(f"per_step must be True or False, got {per_step!r}")
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return UcrlVtrPlus(
        norm_bound=leaf(checks.parameter("norm_bound", norm_bound)),
        delta=leaf(checks.parameter("delta", delta)),
        given_lam=None if lam is None else leaf(checks.parameter("lam", lam)),
        value_bound=leaf(checks.parameter("value_bound", value_bound)),
        beta_scale=leaf(checks.parameter("beta_scale", beta_scale)),
        tie_tolerance=leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        dim=checks.count("dim", dim),
        horizon=checks.count("horizon", horizon),
        per_step=per_step,
        ties=checks.choice("ties", ties, tie_rules.RULES),
    )


def _radii(self: UcrlVtrPlus, steps: jax.Array) -> Radii:
    """Those of the coming episode, or of the one that ``steps []`` is in."""
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


@seeds_last
def _plan(self: UcrlVtrPlus, state: MomentState, model: Model, words: jax.Array | None) -> MomentPlan:
    regressions, beta = state.regressions, _radii(self, state.steps).plan
    theta_hat, shape = regressions.theta_hat[:, 0], regressions.sigma_inv[:, 0] * (beta**2)[None, None, None]
    batch = batch_shape(model, words, shape[0, 0, 0], self.value_bound, self.tie_tolerance)
    rest = (self.value_bound, words, self.ties, self.tie_tolerance, batch)
    if self.per_step:
        plan = optimistic_plan(model, lambda f, of: ellipsoid_bound(f, *of), *rest, stages=(theta_hat, shape))
    else:
        plan = optimistic_plan(model, lambda f: ellipsoid_bound(f, theta_hat[0], shape[0]), *rest)
    return moments.with_start(plan, regressions)


@seeds_last
def _update(self: UcrlVtrPlus, state: MomentState, model: Model, plan: MomentPlan, step: Step) -> MomentState:
    v, one = self.value_bound, jnp.ones_like(self.value_bound)
    pair = step.stage if self.per_step else jnp.zeros_like(step.stage)
    start, now = (jax.tree.map(lambda x: planning.at_stage(x, pair), r) for r in (plan.start, state.regressions))
    feature, target = moments.moment_pairs(model, plan, step, 2, one)
    radii = _radii(self, state.steps)
    var_bar = moments.variance_bound(moments.look(start, feature), radii.value, radii.square, v)[0]
    first = 1 / jnp.sqrt(jnp.maximum(v**2 / self.dim, var_bar))
    new, taught, failure = moments.regress(now, feature, target, jnp.stack([first, jnp.ones_like(first)]))
    return MomentState(
        regressions=jax.tree.map(lambda x, y: planning.with_stage(x, pair, y), state.regressions, new),
        steps=state.steps + 1,
        layer=jnp.where(taught, pair + 1, 0).astype(jnp.int32),
        weight=jnp.where(taught, first, 0),
        status=state.status | failure,
    )
