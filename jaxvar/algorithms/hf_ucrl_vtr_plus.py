"""HF-UCRL-VTR+ and UCRL-WVTR: value-targeted regression weighted by variance and uncertainty, over many moments.

Stages and moments are counted from 0, episodes from 1.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar.algorithms import moments
from jaxvar.algorithms.interface import Confidence, Model, Number, Step
from jaxvar.algorithms.moments import MomentPlan, MomentState
from jaxvar.algorithms.optimistic_plan import Planner, ValueTargeted, ellipsoid_bound, known_model
from jaxvar.claims import Claim
from jaxvar.parameters import count, factory, number, pytree

CLAIMS = {
    "hf_ucrl_vtr_plus": Claim(
        name="HF-UCRL-VTR+",
        reference="Zhou, Gu 2022",
        regret="d sqrt(K) + d^2",
        constants="derived again",
        table=2,
        row=5,
        assumption="homogeneous, rewards add up to at most 1",
    ),
    "ucrl_wvtr": Claim(
        name="UCRL-WVTR",
        reference="Huang, Zhong, Wang, Yang 2024",
        regret="d sqrt(K) + d^2",
        constants="read",
        assumption="homogeneous, rewards add up to at most 1; the source's bound also depends on the instance",
    ),
}

MAX_MOMENTS = 64  # K H up to 10^18


@pytree
class HighOrder(Planner):
    """Base of HF-UCRL-VTR+ and UCRL-WVTR: all of them but the radius and the least variances."""

    horizon: int = count(kw_only=False, doc="H, steps per episode.")
    lam: Number = number(above=0, default=1.0, doc="the ridge.")
    num_moments: int = count(high=MAX_MOMENTS, default=4, doc="M.")
    value_bound: Number = number(
        above=0, default=1.0, doc="v, no value is larger: 1 where the total reward is at most 1."
    )

    def radius(self, steps: jax.Array) -> jax.Array:
        """Return ``beta`` of the coming episode, or of the one that ``steps []`` is in, []."""
        raise NotImplementedError

    def init(self, model: Model) -> MomentState:
        """Return empty regressions, ``[num_moments, ...]``."""
        known_model(model, self.dim, self.horizon)
        return moments.init_moments(self.dim, (self.num_moments,), self.lam, self.dtype)

    def plan(self, state: MomentState, model: Model, key: jax.Array | None = None) -> MomentPlan:
        """Plan the coming episode with the first moment's ellipsoid; without a key ties go to the lowest action."""
        regressions = state.regressions
        theta_hat, shape = regressions.theta_hat[0], regressions.sigma_inv[0] * self.radius(state.steps) ** 2
        bound = functools.partial(ellipsoid_bound, theta_hat=theta_hat, shape=shape)
        known = known_model(model, self.dim, self.horizon)
        plan = self.optimistic_plan(known, bound, key, self.value_bound)
        return MomentPlan(plan.q, plan.value, plan.policy, regressions)

    def learn(
        self, state: MomentState, model: Model, plan: MomentPlan, step: Step, alpha: Number, gamma: Number
    ) -> MomentState:
        """Let all moments of the value over ``value_bound`` learn, weighted by the high-order variances."""
        known = known_model(model, self.dim, self.horizon)
        feature, target = moments.moment_pairs(known, plan.value, step, self.num_moments, self.value_bound)
        start, now = moments.look(plan.start, feature), moments.look(state.regressions, feature)
        weight = 1 / jnp.sqrt(moments.high_order_variances(start, now, self.radius(state.steps), alpha, gamma))
        regressions, taught, failure = moments.regress(state.regressions, feature, target, weight, self.lam)
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
    lam: Number = number(
        above=0,
        default=None,
        rule=lambda self: self.dim / self.norm_bound**2,
        doc="the ridge; ``d / B^2`` if not given.",
    )
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
        """Return ``beta`` of the coming episode, or of the one that ``steps []`` is in, []."""
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

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The float type of the run."""
        return np.dtype(jnp.result_type(self.lam))

    def update(self, state: MomentState, model: Model, plan: MomentPlan, step: Step) -> MomentState:
        """Learn by one weighted step of the regression of every moment."""
        return self.learn(state, model, plan, step, self.sigma_min, self.gamma)

    def radius(self, steps: jax.Array) -> jax.Array:
        """Return ``beta``, the same in all episodes, []."""
        return jnp.asarray(self.fixed_radius)


ucrl_wvtr = factory(UcrlWvtr)
