"""HF-UCRL-VTR+ (Zhou, Gu 2022): value-targeted regression weighted by variance and uncertainty, over many moments.

Stages and moments are counted from 0, episodes from 1.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxvar import checks, random
from jaxvar import ties as tie_rules
from jaxvar.algorithms import moments
from jaxvar.algorithms.interface import Confidence, Model, Step
from jaxvar.algorithms.moments import MomentPlan, MomentState
from jaxvar.algorithms.optimistic_plan import known_model
from jaxvar.batching import seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import float_dtype, leaf, pytree, static

CLAIM = Claim(
    name="HF-UCRL-VTR+",
    factory="hf_ucrl_vtr_plus",
    reference="Zhou, Gu 2022",
    setting="episodes",
    regret="d sqrt(K) + d^2",
    deterministic="none claimed",
    variance="estimated",
    efficient=True,
    constants="derived again",
    table=2,
    assumption="homogeneous, rewards add up to at most 1",
)


@pytree
class HfUcrlVtrPlus:
    """HF-UCRL-VTR+; built by :func:`hf_ucrl_vtr_plus`."""

    norm_bound: Any  # B, with |theta*| <= B
    delta: Any
    given_lam: Any  # the ridge, or None for d / B^2
    value_bound: Any
    beta_scale: Any
    tie_tolerance: Any
    dim: int = static()
    horizon: int = static()
    num_moments: int = static()
    ties: str = static()

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    @property
    def lam(self) -> Any:
        """The ridge."""
        return self.dim / self.norm_bound**2 if self.given_lam is None else self.given_lam

    @property
    def alpha(self) -> Any:
        """The theorem's ``H^{-1/2}``: no standard deviation is taken to be smaller."""
        return jnp.full_like(self.delta, self.horizon**-0.5)

    @property
    def gamma(self) -> Any:
        """The theorem's ``d^{-1/4}``: how much an uncertain feature is held back."""
        return jnp.full_like(self.delta, self.dim**-0.25)

    def init(self, model: Model) -> MomentState:
        """Empty regressions, ``[num_moments, ...]``."""
        known_model(model, self.dim, self.horizon)
        return moments.init_moments(self.dim, (self.num_moments,), self.lam, self.dtype)

    def plan(self, state: MomentState, model: Model, key: jax.Array | None = None) -> MomentPlan:
        """Optimistic values and policy of the coming episode; without a key ties go to the lowest action."""
        words = None if key is None else random.key_words(key)
        return _plan(self, state, known_model(model, self.dim, self.horizon), words)

    def update(self, state: MomentState, model: Model, plan: MomentPlan, step: Step) -> MomentState:
        """One weighted step of the regression of every moment."""
        return _update(self, state, known_model(model, self.dim, self.horizon), plan, step)

    def confidence(self, state: MomentState) -> Confidence:
        """The ellipsoid of the first moment, the one that plans use, as a layer."""
        return Confidence(
            state.regressions.loss[:1], jnp.asarray(self.lam)[None], jnp.asarray(_radius(self, state.steps))[None]
        )


def hf_ucrl_vtr_plus(
    dim: int,
    horizon: int,
    num_episodes: Any,
    *,
    norm_bound: Any = 1.0,
    delta: Any = 0.01,
    lam: Any = None,
    num_moments: int | None = None,
    value_bound: Any = 1.0,
    beta_scale: Any = 1.0,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> HfUcrlVtrPlus:
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

    Args:
      dim: d, the length of a feature.
      horizon: H, steps per episode.
      num_episodes: K, in the number of moments; the run itself may be shorter.
      norm_bound: B, with \|theta*\| <= B.
      delta: failure probability; the theorem fails with probability at most (2 M + 1) delta.
      lam: the ridge; ``d / B^2`` if not given.
      num_moments: M, instead of the theorem's.
      value_bound: v, no value is larger: 1 where the total reward is at most 1.
      beta_scale: c, a multiplier of the stochastic part; 1 is the theorem.
      ties: ``random`` or ``lowest`` action, among those within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    References:
      Zhou, Gu (2022), Computationally efficient horizon-free reinforcement learning for linear mixture MDPs: its
      algorithm HF-UCRL-VTR+, the estimator HOME and the theorem on their regret.

    Deviations:
      One scale for all algorithms: values are divided by v before they are regressed on; with v = 1 nothing changes.
      ``log(gamma^2 / alpha)`` is cut at 0 from below: as published, the radius is NaN where H < d / e^2. The tie rule
      is ours.
    """
    dim, horizon = checks.count("dim", dim), checks.count("horizon", horizon)
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return HfUcrlVtrPlus(
        norm_bound=leaf(checks.parameter("norm_bound", norm_bound)),
        delta=leaf(checks.parameter("delta", delta)),
        given_lam=None if lam is None else leaf(checks.parameter("lam", lam)),
        value_bound=leaf(checks.parameter("value_bound", value_bound)),
        beta_scale=leaf(checks.parameter("beta_scale", beta_scale)),
        tie_tolerance=leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        dim=dim,
        horizon=horizon,
        num_moments=_moment_count(num_moments, horizon, checks.parameter("num_episodes", num_episodes)),
        ties=checks.choice("ties", ties, tie_rules.RULES),
    )


def _moment_count(num_moments: int | None, horizon: int, num_episodes: Any) -> int:
    if num_moments is not None:
        return checks.count("num_moments", num_moments, high=moments.MAX_MOMENTS)
    if checks.is_traced(num_episodes):
        raise ValueError("num_moments must be given where num_episodes is traced, since it sets shapes")
    return math.ceil(math.log2(7 * float(num_episodes) * horizon))


def _radius(self: HfUcrlVtrPlus, steps: jax.Array) -> jax.Array:
    """That of the coming episode, or of the one that ``steps []`` is in."""
    n = ((steps // self.horizon + 1) * self.horizon).astype(self.dtype)  # k H
    log_det = jnp.log1p(n / (self.alpha**2 * self.dim * self.lam))
    layers = 1 + jnp.maximum(jnp.log(self.gamma**2 / self.alpha), 0)
    log_union = jnp.log(32 * layers / self.delta) + 2 * jnp.log(n)
    stochastic = 12 * jnp.sqrt(self.dim * log_det * log_union) + 30 * log_union / self.gamma**2
    return self.beta_scale * stochastic + jnp.sqrt(self.lam) * self.norm_bound


@seeds_last
def _plan(self: HfUcrlVtrPlus, state: MomentState, model: Model, words: jax.Array | None) -> MomentPlan:
    beta = _radius(self, state.steps)
    return moments.first_moment_plan(
        model, state.regressions, beta, self.value_bound, words, self.ties, self.tie_tolerance
    )


@seeds_last
def _update(self: HfUcrlVtrPlus, state: MomentState, model: Model, plan: MomentPlan, step: Step) -> MomentState:
    beta = _radius(self, state.steps)
    return moments.high_order_step(state, model, plan, step, beta, self.alpha, self.gamma, self.value_bound)
