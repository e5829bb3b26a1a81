"""UCRL-VTR (Jia, Yang, Szepesvari, Wang 2020; Ayoub, Jia, Szepesvari, Wang, Yang 2020): one unweighted regression."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import ridge
from jaxvar.algorithms.interface import Confidence, Model, Step
from jaxvar.algorithms.optimistic_plan import Plan, ValueTargeted, ellipsoid_bound, known_model, regression_pair
from jaxvar.claims import Claim
from jaxvar.parameters import factory, pytree

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
    row=1,
    assumption="homogeneous, rewards add up to at most H",
)


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
    of its start.

    References:
      Ayoub, Jia, Szepesvari, Wang, Yang (2020), Model-based reinforcement learning with value-targeted regression.

    Deviations:
      One scale for all algorithms: values lie in [0, v] instead of [0, H], so the range of a value with H - h steps to
      go becomes v; half of it is the sub-Gaussian constant of a bounded variable, as in the authors' code.
    """

    def init(self, model: Model) -> UcrlVtrState:
        """Return an empty regression."""
        known_model(model, self.dim, model.horizon)
        zero = jnp.int32(0)
        return UcrlVtrState(ridge.init_ridge(self.dim, self.lam, self.dtype), zero, jnp.zeros((), self.dtype), zero)

    def plan(self, state: UcrlVtrState, model: Model, key: jax.Array | None = None) -> Plan:
        """Plan the coming episode; without a key ties go to the lowest action."""
        theta_hat, shape = state.regression.theta_hat, state.regression.sigma_inv * self.radius(state) ** 2

        def bound(feature: jax.Array) -> jax.Array:
            return ellipsoid_bound(feature, theta_hat, shape)

        return self.optimistic_plan(known_model(model, self.dim, model.horizon), bound, key, self.value_bound)

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

    def radius(self, state: UcrlVtrState) -> jax.Array:
        """Return ``beta`` of the coming episode, []."""
        growth = 2 * jnp.log(1 / self.delta) + state.regression.log_det
        return self.beta_scale * self.value_bound / 2 * jnp.sqrt(growth) + jnp.sqrt(self.lam) * self.norm_bound

    def confidence(self, state: UcrlVtrState) -> Confidence:
        """Return the one ellipsoid, as a layer."""
        return Confidence(state.regression.loss[None], jnp.asarray(self.lam)[None], self.radius(state)[None])


ucrl_vtr = factory(UcrlVtr)
