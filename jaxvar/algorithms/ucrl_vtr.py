"""UCRL-VTR (Jia, Yang, Szepesvari, Wang 2020; Ayoub, Jia, Szepesvari, Wang, Yang 2020): one unweighted regression."""

from __future__ import annotations

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import checks, random, ridge, status
from jaxvar import ties as tie_rules
from jaxvar.algorithms.interface import Confidence, Model, Step
from jaxvar.algorithms.optimistic_plan import Plan, batch_shape, ellipsoid_bound, optimistic_plan, regression_pair
from jaxvar.batching import seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import float_dtype, leaf, pytree, static

CLAIM = Claim(
    name="UCRL-VTR",
    factory="ucrl_vtr",
    reference="Jia, Yang, Szepesvari, Wang 2020; Ayoub, Jia, Szepesvari, Wang, Yang 2020",
    setting="episodes",
    regret="d sqrt(H^3 K)",
    deterministic="none claimed",
    variance="not used",
    efficient=True,
    constants="read",
    table=2,
    assumption="homogeneous, rewards add up to at most H",
)


class UcrlVtrState(NamedTuple):
    """State of UCRL-VTR for one seed. Plans are made of what it holds at the start of an episode."""

    regression: ridge.Ridge  # over all stages and episodes
    layer: jax.Array  # []   int32, 1 where the last step taught something, else 0
    weight: jax.Array  # []   likewise
    status: jax.Array  # []   int32


@pytree
class UcrlVtr:
    """UCRL-VTR; built by :func:`ucrl_vtr`."""

    norm_bound: Any  # B, with |theta*| <= B
    delta: Any
    given_lam: Any  # the ridge, or None for 1 / B^2
    value_bound: Any
    beta_scale: Any
    tie_tolerance: Any
    dim: int = static()
    ties: str = static()

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    @property
    def lam(self) -> Any:
        """The ridge."""
        return 1 / self.norm_bound**2 if self.given_lam is None else self.given_lam

    def init(self, model: Model) -> UcrlVtrState:
        """An empty regression."""
        chex.assert_shape(model.phi, (None, None, None, self.dim))
        zero = jnp.int32(0)
        return UcrlVtrState(ridge.init_ridge(self.dim, self.lam, self.dtype), zero, jnp.zeros((), self.dtype), zero)

    def plan(self, state: UcrlVtrState, model: Model, key: jax.Array | None = None) -> Plan:
        """Optimistic values and policy of the coming episode; without a key ties go to the lowest action."""
        chex.assert_shape(model.phi, (None, None, None, self.dim))
        return _plan(self, state, model, None if key is None else random.key_words(key))

    def update(self, state: UcrlVtrState, model: Model, plan: Plan, step: Step) -> UcrlVtrState:
        """One step of ridge regression."""
        return _update(self, state, plan, step)

    def confidence(self, state: UcrlVtrState) -> Confidence:
        """The one ellipsoid, as a layer."""
        return Confidence(state.regression.loss[None], jnp.asarray(self.lam)[None], _radius(self, state)[None])


def ucrl_vtr(
    dim: int,
    *,
    norm_bound: Any = 1.0,
    delta: Any = 0.01,
    lam: Any = None,
    value_bound: Any = 1.0,
    beta_scale: Any = 1.0,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> UcrlVtr:
    r"""UCRL-VTR: optimism by one ellipsoid around the ridge regression of the next value on its features.

    .. math:: Q_h = [r + \langle\phi_{V_{h+1}}, \hat\theta\rangle + \beta\|\phi_{V_{h+1}}\|_{M^{-1}}]_{[0, v]},
              \quad \beta = \sqrt\lambda B + c \tfrac v2\sqrt{2\log(1/\delta) + \log\det M - d\log\lambda}

    :math:`M = \lambda I + \sum \phi_V \phi_V^T` over all steps so far; within an episode the plan keeps the estimate
    of its start.

    Args:
      dim: d, the length of a feature.
      norm_bound: B, with \|theta*\| <= B.
      delta: failure probability.
      lam: the ridge; ``1 / B^2`` if not given.
      value_bound: v, no value is larger: 1 where the total reward is at most 1.
      beta_scale: c, a multiplier of the stochastic part; 1 is the theorem.
      ties: ``random`` or ``lowest`` action, among those within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    References:
      Ayoub, Jia, Szepesvari, Wang, Yang (2020), Model-based reinforcement learning with value-targeted regression.

    Deviations:
      One scale for all algorithms: values lie in [0, v] instead of [0, H], so the range of a value with H - h steps to
      go becomes v; half of it is the sub-Gaussian constant of a bounded variable, as in the authors' code.
    """
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return UcrlVtr(
        norm_bound=leaf(checks.parameter("norm_bound", norm_bound)),
        delta=leaf(checks.parameter("delta", delta)),
        given_lam=None if lam is None else leaf(checks.parameter("lam", lam)),
        value_bound=leaf(checks.parameter("value_bound", value_bound)),
        beta_scale=leaf(checks.parameter("beta_scale", beta_scale)),
        tie_tolerance=leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        dim=checks.count("dim", dim),
        ties=checks.choice("ties", ties, tie_rules.RULES),
    )


def _radius(self: UcrlVtr, state: UcrlVtrState) -> jax.Array:
    growth = 2 * jnp.log(1 / self.delta) + state.regression.log_det
    return self.beta_scale * self.value_bound / 2 * jnp.sqrt(growth) + jnp.sqrt(self.lam) * self.norm_bound


@seeds_last
def _plan(self: UcrlVtr, state: UcrlVtrState, model: Model, words: jax.Array | None) -> Plan:
    theta_hat, shape = state.regression.theta_hat, state.regression.sigma_inv * (_radius(self, state) ** 2)[None, None]

    def bound(feature: jax.Array) -> jax.Array:
        return ellipsoid_bound(feature, theta_hat, shape)

    batch = batch_shape(model, words, shape[0, 0], self.value_bound, self.tie_tolerance)
    return optimistic_plan(model, bound, self.value_bound, words, self.ties, self.tie_tolerance, batch)


@seeds_last
def _update(self: UcrlVtr, state: UcrlVtrState, plan: Plan, step: Step) -> UcrlVtrState:
    feature, target = regression_pair(plan, step)
    regression, seen = ridge.regress(state.regression, feature, target)
    finite = jnp.isfinite(seen.error) & jnp.isfinite(seen.width2)
    failure = jnp.where(finite, jnp.where(seen.width2 >= 0, 0, status.INDEFINITE), status.NONFINITE)
    taught = seen.width2 > 0
    return UcrlVtrState(
        regression=regression,
        layer=taught.astype(jnp.int32),
        weight=taught.astype(self.dtype),
        status=state.status | failure.astype(jnp.int32),
    )
