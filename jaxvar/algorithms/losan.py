"""LOSAN: linear optimism with semi-adaptivity to noise (Jun and Kim 2024).

The learner is told a sub-Gaussian scale R that may be far above the true one; the radius follows the prediction errors.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import ridge
from jaxvar.algorithms.ellipsoid import Optimist
from jaxvar.algorithms.interface import Choice, Number, Side
from jaxvar.claims import Claim
from jaxvar.parameters import factory, number, pytree

CLAIM = Claim(
    name="LOSAN",
    reference="Jun, Kim 2024",
    regret="sqrt(d K (d sigma^2 + R^2))",
    deterministic="R sqrt(d K)",
    constants="read",
    assumption="sub-Gaussian noise of one unknown scale sigma, at most the known R",
)


class LosanState(NamedTuple):
    """State of LOSAN for one seed."""

    regression: ridge.Ridge  # Sigma = lam I + sum w^2 x x^T
    error_sum: jax.Array  # []   sum of w^2 e^2 D^2 / 2, with e = y - <theta, x> before learning
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    stats: ridge.ArmStats | None  # only for fixed arms


@pytree
class Losan(Optimist[LosanState]):
    r"""LOSAN: pull :math:`\arg\max_a \langle a, \hat\theta\rangle + \sqrt{2\beta} \|a\|_{\Sigma^{-1}}`.

    An observation has the weight :math:`w = \min(1, 1/\|x\|_{\Sigma^{-1}})` in
    :math:`\Sigma = \lambda I + \sum w^2 x x^\top` with :math:`\lambda = R^2/B^2`. With :math:`e = y - \langle x,
    \hat\theta\rangle` before learning and :math:`D^2 = \|w x\|^2` in the norm of the inverse after it,

    .. math:: 2\beta = \lambda B^2 + c^2 \Big(2 R^2 \log(1/\delta) + \sum w^2 e^2 D^2\Big).

    The set holds because :math:`\tfrac12\|\theta^* - \hat\theta\|_\Sigma^2 = \tfrac\lambda2 \|\theta^*\|^2 +
    \tfrac12\sum w^2 e^2 D^2 - \sum w^2(\eta g + g^2/2)` exactly, with the noise :math:`\eta` and
    :math:`g = \langle x, \theta^* - \hat\theta\rangle` before learning, and the exponential of the last sum over
    :math:`R^2` is a supermartingale for :math:`w \le 1`.

    References:
      Jun, Kim (2024), Noise-adaptive confidence sets for linear bandits and application to Bayesian optimization;
      constants as in the authors' code.

    Deviations:
      The authors' code plays its first arm uniformly at random. Here the first arm is the longest one, and for arms of
      equal length that is a uniform draw too (``ties="random"``).
    """

    noise_bound: Number = number(
        above=0,
        squared=True,
        default=1.0,
        doc=r"R, a sub-Gaussian scale that the noise is known not to exceed (:math:`\sigma_0` in the paper); noise in "
        "[-R, R] is R-sub-Gaussian.",
    )

    @property
    def lam(self) -> Number:
        """The ridge, ``R^2 / B^2``."""
        return (self.noise_bound / self.theta_bound) ** 2

    def init(self) -> LosanState:
        """Return an empty regression."""
        regression, stats = self.empty()
        return LosanState(regression, jnp.zeros((), self.dtype), jnp.int32(0), jnp.int32(0), stats)

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``min(1, 1 / width)``, []."""
        return 1 / jnp.maximum(width, 1)

    def update(self, state: LosanState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> LosanState:
        """Learn by one step of the weighted regression."""
        chex.assert_shape(x, (self.dim,))
        regression, update = ridge.regress(state.regression, choice.weight * x, choice.weight * reward)
        shrunk = update.gain * update.width2  # D^2
        return LosanState(
            regression=regression,
            error_sum=state.error_sum + 0.5 * update.error**2 * shrunk,
            round=state.round + 1,
            status=state.status | choice.status | ridge.failure(update),
            stats=self.followed(state.stats, update),
        )

    def beta(self, state: LosanState) -> jax.Array:
        """Return the radius ``sqrt(2 beta)`` of the next round, []; ``lam B^2`` in it is ``R^2``."""
        stochastic = self.noise_bound**2 * jnp.log(1 / self.delta) + state.error_sum
        return jnp.sqrt(self.noise_bound**2 + self.beta_scale**2 * 2 * stochastic)


losan = factory(Losan)
