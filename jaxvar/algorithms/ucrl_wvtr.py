"""UCRL-WVTR (Huang, Zhong, Wang, Yang 2024) for linear mixtures, with the fixed radius of its authors' experiments.

Stages and moments are counted from 0.
"""

from __future__ import annotations

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
    name="UCRL-WVTR",
    factory="ucrl_wvtr",
    reference="Huang, Zhong, Wang, Yang 2024",
    setting="episodes",
    regret="d sqrt(K) + d^2",
    deterministic="none claimed",
    variance="estimated",
    efficient=True,
    constants="read",
    assumption="homogeneous, rewards add up to at most 1; the source's bound also depends on the instance",
)


@pytree
class UcrlWvtr:
    """UCRL-WVTR; built by :func:`ucrl_wvtr`."""

    fixed_radius: Any  # beta
    lam: Any
    sigma_min: Any
    gamma: Any
    value_bound: Any
    tie_tolerance: Any
    dim: int = static()
    horizon: int = static()
    num_moments: int = static()
    ties: str = static()

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.lam)

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
        return Confidence(state.regressions.loss[:1], jnp.asarray(self.lam)[None], jnp.asarray(self.fixed_radius)[None])


def ucrl_wvtr(
    dim: int,
    horizon: int,
    *,
    fixed_radius: Any = 1.0,
    lam: Any = 1.0,
    num_moments: int = 4,
    sigma_min: Any = 0.01,
    gamma: Any = 0.5,
    value_bound: Any = 1.0,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> UcrlWvtr:
    r"""UCRL-WVTR: the weighted regressions of :func:`jaxvar.hf_ucrl_vtr_plus` with a radius that never changes.

    .. math:: Q_h = [r + \langle \phi_{V_{h+1}}, \hat\theta_0\rangle
              + \beta\|\phi_{V_{h+1}}\|_{\Sigma_0^{-1}}]_{[0, v]}, \quad
              \bar\sigma_m^2 = \max(\mathrm{var}_m + E_m,\ \sigma_{\min}^2,\ \gamma^2\|f_m\|_{\Sigma_m^{-1}})

    where f, var and E are as there, over M moments. The defaults are those of the authors' experiments. Their variant
    without high moments is ``num_moments=2``; ``num_moments=1`` with ``gamma=0`` weighs all steps alike, as UCRL-VTR
    does.

    Args:
      dim: d, the length of a feature.
      horizon: H, steps per episode.
      fixed_radius: beta, all of it: there is no bias part to leave alone.
      lam: the ridge.
      num_moments: M.
      sigma_min: no standard deviation is taken to be smaller.
      gamma: how much an uncertain feature is held back.
      value_bound: v, no value is larger: 1 where the total reward is at most 1.
      ties: ``random`` or ``lowest`` action, among those within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    References:
      Huang, Zhong, Wang, Yang (2024), Horizon-free and instance-dependent regret bounds for reinforcement learning with
      general function approximation, and the code of its experiments.

    Deviations:
      The second term of var is squared, as in the paper; the published code forgets the square. Values are divided by v
      before they are regressed on; with v = 1 nothing changes. The radius is that of the code, a constant for which
      nothing is proved. The tie rule is ours.
    """
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return UcrlWvtr(
        fixed_radius=leaf(checks.parameter("fixed_radius", fixed_radius)),
        lam=leaf(checks.parameter("lam", lam)),
        sigma_min=leaf(checks.parameter("sigma_min", sigma_min)),
        gamma=leaf(checks.parameter("gamma", gamma)),
        value_bound=leaf(checks.parameter("value_bound", value_bound)),
        tie_tolerance=leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        dim=checks.count("dim", dim),
        horizon=checks.count("horizon", horizon),
        num_moments=checks.count("num_moments", num_moments, high=moments.MAX_MOMENTS),
        ties=checks.choice("ties", ties, tie_rules.RULES),
    )


@seeds_last
def _plan(self: UcrlWvtr, state: MomentState, model: Model, words: jax.Array | None) -> MomentPlan:
    return moments.first_moment_plan(
        model, state.regressions, self.fixed_radius, self.value_bound, words, self.ties, self.tie_tolerance
    )


@seeds_last
def _update(self: UcrlWvtr, state: MomentState, model: Model, plan: MomentPlan, step: Step) -> MomentState:
    beta = self.fixed_radius
    return moments.high_order_step(state, model, plan, step, beta, self.sigma_min, self.gamma, self.value_bound)
