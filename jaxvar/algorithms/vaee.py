"""VAEE: explore the most uncertain arm that may still be the best, told the noise variance, and recommend an arm."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from jaxvar import random, ridge
from jaxvar.algorithms.bandit import ToldVariance, lost
from jaxvar.algorithms.ellipsoid import Ellipsoid, EllipsoidState
from jaxvar.algorithms.interface import Choice, Side, by_rule
from jaxvar.claims import Claim
from jaxvar.lowering import take
from jaxvar.parameters import Number, factory, number, pytree

CLAIM = Claim(
    "VAEE",
    "a paper on simple regret, ICLR 2026",
    "simple regret: d / sqrt(sum 1 / sigma^2), a sum without its O(d) largest terms",
    variance="told after the pull",
    constants="reconstructed",
    assumption="fixed arms, noise sub-Gaussian with the known scale sigma",
)


@pytree
class Vaee(ToldVariance, Ellipsoid):
    r"""VAEE: of the arms that may still be the best, pull the one with the largest :math:`\|a\|_{V^{-1}}`.

    With :math:`V = \lambda I + \sum a a^\top/\bar\sigma^2`, :math:`\bar\sigma = \max\{\sigma, \sigma_{\min}\}`,
    the weighted least-squares estimate :math:`\hat\theta` and

    .. math:: \beta = c \sqrt{2\log(1/\delta) + \log\det V - d\log\lambda} + \sqrt\lambda B

    an arm is alive while :math:`\langle a, \hat\theta\rangle + \beta\|a\|_{V^{-1}} \ge \max_b \langle b,
    \hat\theta\rangle - \beta\|b\|_{V^{-1}}`. After any round the arm with the largest :math:`\langle a,
    \hat\theta\rangle` is recommended, which is always alive: record :func:`jaxvar.record.simple_regret`. It does not
    look for reward on the way, so its regret grows linearly until one arm is left.

    The simple regret follows the precision :math:`\sum 1/\sigma_t^2`, not the total variance: a few quiet rounds are
    worth many loud ones. Profiles that show it are :math:`\sigma_t = 1/t` (:func:`jaxvar.schedules.decaying`),
    :math:`1/\sqrt d` throughout, loud or quiet spikes (:func:`jaxvar.schedules.bursts`), and precision that comes first
    (:func:`jaxvar.schedules.front_loaded`). Weights reach :math:`1/\sigma_{\min}`, so use float64.

    References:
      The setting, the rule and the claim are those of a paper on variance-dependent simple regret (ICLR 2026), of which
      only a summary was read. Abbasi-Yadkori, Pal, Szepesvari (2011), Theorem 2, for the radius.

    Deviations:
      - The source's radius was not read. This one is the self-normalised bound for :math:`a/\bar\sigma` and
        :math:`\epsilon/\bar\sigma`, which is 1-sub-Gaussian where the noise is sub-Gaussian with scale :math:`\sigma`:
        normal, uniform and two-point noise are. Sparse noise is not, whatever its bound.
      - The floor :math:`\sigma_{\min}` keeps weights finite; a larger :math:`\sigma` than the true one is as valid.
      - Which arms are alive follows in each round from the latest estimate. A dropped arm may return where the radius
        grows faster than widths shrink, and arms may change or be absent.
      - The source is told :math:`\sigma_t` before the pull; the rule needs it after the pull only.
    """

    num_rounds: Number = number(at_least=1, kw_only=False, doc="K, in the floor; the run itself may be shorter.")
    lam: Number = by_rule(lambda self: 1 / self.theta_bound**2, "the ridge; 1 / B^2 if not given.")
    least_std: Number = by_rule(
        lambda self: self.noise_bound / self.num_rounds,
        "the least sigma, in the units of the rewards; R / K if not given.",
        squared=True,
    )

    @property
    def unused(self) -> tuple[str, ...]:
        """Assumptions that the radius does not rest on: R and K set the floor only."""
        return ("noise_bound", "norm_bound", "num_rounds")

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``1 / sigma_bar``, []."""
        return 1 / jnp.maximum(jnp.sqrt(self.told(noise_var)), self.least_std)

    def radius_of(self, state: EllipsoidState) -> jax.Array:
        """Return the self-normalised radius, []."""
        growth = 2 * jnp.log(1 / self.delta) + state.regression.log_det
        return self.beta_scale * jnp.sqrt(growth) + jnp.sqrt(self.lam) * self.theta_bound

    def select(self, state: EllipsoidState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the alive arm of ``arms [num_arms, dim]`` with the largest width.

        The variances in ``side`` do not enter the choice; they give the weight that is recorded with it.
        """
        chex.assert_shape(arms, (None, self.dim))
        width2, pred = ridge.arm_stats(state.regression, arms) if state.stats is None else state.stats
        width, there = jnp.sqrt(width2), side.mask(arms.shape[0])
        bonus = self.beta(state) * width
        alive = there & (pred + bonus >= jnp.max(jnp.where(there, pred - bonus, -jnp.inf), axis=0))
        action = self.best(width, random.key_words(key), alive)
        weight = self.weight(take(width, action), take(side.noise_var, action))
        return Choice(action, jnp.ones_like(action), weight, lost(pred + bonus, side.available))


vaee = factory(Vaee)
