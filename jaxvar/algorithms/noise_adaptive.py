"""LOSAN and LOFAV (Jun and Kim 2024): optimism with confidence sets that adapt to the noise.

LOSAN, semi-adaptive, is told a sub-Gaussian scale R that may be far above the true one; its radius follows the
prediction errors. LOFAV, fully adaptive to the variance, takes O(d^2) per layer and round.

In LOFAV, layers are numbered 1..L with rho = 2^-l; arrays over layers are 0-based. Unlike in SAVE, every observation
goes to every layer, with the weight ``w = min(1, rho / |x|_{Sigma^-1})``. Each layer holds two regressions:

    theta    least of  2 K = lam |theta|^2 + sum w^2 (y - <x, theta>)^2            Sigma = lam I + sum w^2 x x^T
    thbar    least of  2 L = 2 K + sum w^2 (p - <x, theta>)^2                      Q = 2 Sigma - lam I

where ``p = <x, theta>`` was the layer's prediction before it learned. A pair of observations ``(x, y), (x, p)`` of
weight w^2 is one observation ``(x, (y + p) / 2)`` of weight 2 w^2 and the constant ``w^2 (y - p)^2 / 2``, so that with
``q = w^2 (y - p)^2 / 2`` and ``F^2 = |w x|^2`` in the norm of the inverse after learning

    2 min L = (least loss of the second regression) + sum q        min K = sum q (1 - F^2)

and the radius needs no batch of past observations: ``min K - min L + sum q F^2 = (sum q - that loss) / 2``.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random, ridge
from jaxvar.algorithms.bandit import BoundedBandit, FixedArms, at_layer, lost
from jaxvar.algorithms.ellipsoid import EllipsoidState, Optimist
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.claims import Claim
from jaxvar.lowering import inner
from jaxvar.parameters import Number, count, factory, number, pytree
from jaxvar.sums import Sum, empty_sum

MAX_LAYERS = 520  # the K of no float64 asks for more

CLAIMS = {
    "losan": Claim(
        "LOSAN",
        "Jun, Kim 2024",
        "sqrt(d K (d sigma^2 + R^2))",
        deterministic="R sqrt(d K)",
        constants="read",
        assumption="sub-Gaussian noise of one unknown scale sigma, at most the known R",
    ),
    "lofav": Claim("LOFAV", "Jun, Kim 2024", "variance-adaptive (rate not read)", constants="read"),
}


@pytree
class Losan(Optimist):
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

    def init(self) -> EllipsoidState:
        """Return an empty regression and no error."""
        return super().init()._replace(tally=empty_sum((), self.dtype))

    def weight(self, width: jax.Array, noise_var: jax.Array) -> jax.Array:
        """Return ``min(1, 1 / width)``, []."""
        return 1 / jnp.maximum(width, 1)

    def update(
        self, state: EllipsoidState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side
    ) -> EllipsoidState:
        """Learn by one step of the weighted regression; the tally is the sum of ``w^2 e^2 D^2 / 2``."""
        chex.assert_shape(x, (self.dim,))
        regression, update = ridge.regress(state.regression, choice.weight * x, choice.weight * reward)
        shrunk = update.gain * update.width2  # D^2
        return EllipsoidState(
            regression=regression,
            tally=state.tally.add(0.5 * update.error**2 * shrunk),
            round=state.round + 1,
            status=state.status | choice.status | ridge.failure(update),
            stats=self.follow(state, regression, update),
        )

    def beta(self, state: EllipsoidState) -> jax.Array:
        """Return the radius ``sqrt(2 beta)`` of the next round, []; ``lam B^2`` in it is ``R^2``."""
        stochastic = self.noise_bound**2 * jnp.log(1 / self.delta) + state.tally.total
        return jnp.sqrt(self.noise_bound**2 + self.beta_scale**2 * 2 * stochastic)


losan = factory(Losan)


class LofavState(NamedTuple):
    """State of LOFAV for one seed."""

    plain: ridge.Ridge  # [layers] of each: theta and Sigma
    paired: ridge.Ridge  # [layers] of each: thbar and Q
    error_sum: Sum  # [layers]   of q = w^2 (y - p)^2 / 2
    shrunk_sum: Sum  # [layers]   of q F^2
    beta_hat: jax.Array  # [layers]   1/2 |theta* - thbar|_Q^2 is at most this
    beta_max: jax.Array  # [layers]   the largest beta_hat so far, this one included
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    stats: tuple[ridge.ArmStats, ridge.ArmStats] | None  # [layers, N] of each, plain and paired; only for fixed arms


@pytree
class Lofav(BoundedBandit, FixedArms):
    r"""LOFAV: pull the arm whose least upper confidence bound over layers and over two ellipsoids each is largest.

    .. math:: \arg\max_a \min_l \min\big\{\langle a, \bar\theta_l\rangle + \sqrt{2\beta_l} \|a\|_{Q_l^{-1}},\;
       \langle a, \hat\theta_l\rangle + \sqrt{2\gamma_l} \|a\|_{\Sigma_l^{-1}}\big\}

    In layer l = 1..L, :math:`L = \max(1, \lceil\tfrac12\log_2(K/d)\rceil)`, let :math:`\rho = 2^{-l}`,
    :math:`\lambda = \rho^2 R^2/B^2`, :math:`\beta_0 = \lambda B^2/2`, and let :math:`\bar\beta` be the largest of
    :math:`\beta_0` and all **earlier** :math:`\beta` of the layer. After t observations

    .. math:: \beta &= \beta_0 + c^2\big(\min K - \min L + \textstyle\sum q F^2
       + \sqrt{8\rho^2\bar\beta(\sum q + R^2\log(2L/\delta))\xi} + 2^k \rho R \sqrt{2\beta_0}\,\xi\big) \\
       \gamma &= \beta_0 + c^2\big(\textstyle\sum q F^2 + R^2\log(2L/\delta)\big)

    cut below at 0, with :math:`k = \max(1, \lceil\log_2\sqrt{\bar\beta/\beta_0}\rceil)` and
    :math:`\xi = \log(\sqrt{\pi(t+1)}\, 6.8\, L\, k \log^2(1+k)/\delta)`. Before the first observation
    :math:`\beta = \beta_0`. See the module for q, F, K and L.

    References:
      Jun, Kim (2024), Noise-adaptive confidence sets for linear bandits and application to Bayesian optimization;
      constants as in the authors' code.

    Deviations:
      Rank-one updates instead of sums over all past observations. The authors' code plays its first arm uniformly at
      random; here it is the longest one, and for arms of equal length that is a uniform draw too.
    """

    num_rounds: float = number(at_least=1, is_static=True, kw_only=False, doc="K, which sets the number of layers.")
    beta_scale: Number = number(
        at_least=0,
        default=1.0,
        doc="c, a multiplier of the stochastic part of the radii; 1 is the theorem. "
        r":math:`\bar\beta` is always that of c = 1.",
    )
    num_layers: int = count(
        high=MAX_LAYERS,
        default=None,
        # Rounding adds no layer where K / d is a power of four.
        rule=lambda self: max(1, math.ceil(0.5 * math.log2(self.num_rounds / self.dim) - 1e-9)),
        doc="L; ``max(1, ceil(log2(K / d) / 2))`` if not given.",
    )

    @property
    def rho(self) -> np.ndarray:
        """``2^-l`` for l = 1..L."""
        return np.exp2(-np.arange(1, self.num_layers + 1)).astype(self.dtype)

    @property
    def lam(self) -> np.ndarray | jax.Array:
        """The ridges, [L]."""
        return (self.rho * (self.noise_bound / self.theta_bound)) ** 2

    @property
    def bias(self) -> np.ndarray | jax.Array:
        """``beta_0 = lam B^2 / 2 = rho^2 R^2 / 2``, [L]."""
        return (self.rho * self.noise_bound) ** 2 / 2

    @property
    def log_term(self) -> jax.Array:
        """``R^2 log(2 L / delta)``."""
        return self.noise_bound**2 * jnp.log(2 * self.num_layers / self.delta)

    def init(self) -> LofavState:
        """Return empty regressions; without data only the bias counts."""
        empty = jax.vmap(lambda lam: ridge.init_ridge(self.dim, lam, self.dtype))(self.lam)
        stats = None
        if self.fixed_arms is not None:
            seen = jax.vmap(lambda one: ridge.arm_stats(one, jnp.asarray(self.fixed_arms)))(empty)
            stats = (seen, seen)
        zero, bias = empty_sum((self.num_layers,), self.dtype), jnp.asarray(self.bias)
        return LofavState(empty, empty, zero, zero, bias, bias, jnp.int32(0), jnp.int32(0), stats)

    def select(self, state: LofavState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest of the least upper confidence bounds."""
        chex.assert_shape(arms, (None, self.dim))
        beta, gamma = self.radii(state)
        plain, paired = (None, None) if state.stats is None else state.stats
        uppers = []
        for regressions, stats, radius in ((state.paired, paired, beta), (state.plain, plain, gamma)):
            for i in range(self.num_layers):
                one = ridge.arm_stats(at_layer(regressions, i), arms) if stats is None else at_layer(stats, i)
                uppers.append(one.pred + radius[i] * jnp.sqrt(one.width2))
        index = jnp.min(jnp.stack(uppers), axis=0)
        action = self.best(index, random.key_words(key), side.available)
        return Choice(action, jnp.ones_like(action), jnp.ones((), self.dtype), lost(index, side.available))

    def update(self, state: LofavState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> LofavState:
        """Learn in every layer."""
        chex.assert_shape(x, (self.dim,))
        learned = [self._learn(state, i, x, reward) for i in range(self.num_layers)]
        plain, paired, stats, error, shrunk, failed = jax.tree.map(lambda *layers: jnp.stack(layers), *learned)
        num, error_sum = state.round + 1, state.error_sum.add(error)
        beta = self._beta(num, error_sum, paired.losses, state.beta_max)
        return LofavState(
            plain=plain,
            paired=paired,
            error_sum=error_sum,
            shrunk_sum=state.shrunk_sum.add(shrunk),
            beta_hat=beta,
            beta_max=jnp.maximum(state.beta_max, beta),  # only now: the radius itself must not depend on it
            round=num,
            status=functools.reduce(operator.or_, list(failed), state.status | choice.status),
            stats=stats,
        )

    def _learn(
        self, state: LofavState, i: int, x: jax.Array, reward: jax.Array
    ) -> tuple[ridge.Ridge, ridge.Ridge, tuple[ridge.ArmStats, ...] | None, jax.Array, jax.Array, jax.Array]:
        """Return the regressions and statistics of layer ``i + 1`` after learning, ``q``, ``q F^2`` and status bits."""
        plain, paired = at_layer(state.plain, i), at_layer(state.paired, i)
        width = jnp.sqrt(ridge.width2(plain.root, x))
        weight = self.rho[i] / jnp.maximum(width, self.rho[i])  # min(1, rho / width)
        pred = jnp.sum(plain.theta_hat * x, axis=0)
        plain, update = ridge.regress(plain, weight * x, weight * reward)
        twice = np.sqrt(2).astype(self.dtype) * weight
        paired, other = ridge.regress(paired, twice * x, twice * (reward + pred) / 2)
        stats = None
        if state.stats is not None:
            arms, round = jnp.asarray(self.fixed_arms), state.round + 1
            both = zip(at_layer(state.stats, i), (plain, paired), (update, other), strict=True)
            stats = tuple(ridge.follow(*one, arms, round) for one in both)
        error = 0.5 * update.error**2
        failed = ridge.failure(update) | ridge.failure(other)
        return plain, paired, stats, error, error * update.gain * update.width2, failed

    def _beta(self, num: jax.Array, errors: Sum, paired_losses: Sum, beta_max: jax.Array) -> jax.Array:
        """Return ``beta [L]`` after ``num []`` observations, with the largest of the betas before."""
        bias = self.bias
        k = jnp.maximum(jnp.ceil(0.5 * jnp.log2(beta_max / bias)), 1)
        union = 6.8 * self.num_layers * k * jnp.log1p(k) ** 2 / self.delta
        xi = jnp.log(jnp.sqrt(np.pi * (num.astype(self.dtype) + 1)) * union)
        # Two roots: beta and the errors are of the size R^2 each, and R^4 may be too small for a float.
        spread = self.rho * jnp.sqrt(8 * beta_max) * jnp.sqrt((errors.total + self.log_term) * xi)
        largest = jnp.exp2(k) * self.rho * self.noise_bound * jnp.sqrt(2 * bias) * xi
        return jnp.maximum(0.5 * errors.minus(paired_losses) + bias + spread + largest, 0)

    def recommend(self, state: LofavState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of ``arms [num_arms, dim]`` with the largest estimate of the first layer, [].

        Every layer learns from every reward. The first one gives them the largest weights, so it forgets least.
        """
        return self.top(inner(arms, state.plain.theta_hat[0]), side.mask(arms.shape[0]))

    def radii(self, state: LofavState) -> tuple[jax.Array, jax.Array]:
        """Return ``sqrt(2 beta)`` and ``sqrt(2 gamma)`` of every layer, [L] each, with ``beta_scale``."""
        bias, square = self.bias, self.beta_scale**2
        beta = jnp.maximum(bias + square * (state.beta_hat - bias), 0)
        gamma = bias + square * (state.shrunk_sum.total + self.log_term)
        return jnp.sqrt(2 * beta), jnp.sqrt(2 * gamma)


lofav = factory(Lofav)
