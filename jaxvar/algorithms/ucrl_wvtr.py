"""UCRL-WVTR (Huang, Zhong, Wang, Yang 2024) for linear mixtures, with the fixed radius of its authors' experiments.

Stages and moments are counted from 0.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxvar.algorithms.interface import Model, Step
from jaxvar.algorithms.moments import HighOrder, MomentPlan, MomentState
from jaxvar.claims import Claim
from jaxvar.parameters import factory, number, pytree

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

    fixed_radius: Any = number(at_least=0, default=1.0, doc="beta, all of it: there is no bias part to leave alone.")
    sigma_min: Any = number(above=0, default=0.01, doc="no standard deviation is taken to be smaller.")
    gamma: Any = number(at_least=0, default=0.5, doc="how much an uncertain feature is held back.")

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.lam)

    def update(self, state: MomentState, model: Model, plan: MomentPlan, step: Step) -> MomentState:
        """Learn by one weighted step of the regression of every moment."""
        return self.learn(state, model, plan, step, self.sigma_min, self.gamma)

    def radius(self, steps: jax.Array) -> jax.Array:
        """Return ``beta``, the same in all episodes, []."""
        return jnp.asarray(self.fixed_radius)


ucrl_wvtr = factory(UcrlWvtr)
