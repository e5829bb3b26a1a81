"""HF-UCRL-VTR+ (Zhou, Gu 2022): value-targeted regression weighted by variance and uncertainty, over many moments.

Stages and moments are counted from 0, episodes from 1.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxvar.algorithms.interface import Model, Step
from jaxvar.algorithms.moments import MAX_MOMENTS, HighOrder, MomentPlan, MomentState
from jaxvar.algorithms.optimistic_plan import ValueTargeted
from jaxvar.claims import Claim
from jaxvar.parameters import count, factory, number, pytree

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
    row=5,
    assumption="homogeneous, rewards add up to at most 1",
)


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

    num_episodes: Any = number(
        at_least=1, is_static=True, kw_only=False, doc="K, in the number of moments; the run itself may be shorter."
    )
    delta: Any = number(
        above=0,
        below=1,
        default=0.01,
        doc="failure probability; the theorem fails with probability at most (2 M + 1) delta.",
    )
    lam: Any = number(
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
