"""LOFAV: linear optimism with full adaptivity to variance (Jun and Kim 2024), in O(d^2) per layer and round.

Layers are numbered 1..L with rho = 2^-l; arrays over layers are 0-based. Unlike in SAVE, every observation goes to
every layer, with the weight ``w = min(1, rho / |x|_{Sigma^-1})``. Each layer holds two regressions:

    theta    least of  2 K = lam |theta|^2 + sum w^2 (y - <x, theta>)^2            Sigma = lam I + sum w^2 x x^T
    thbar    least of  2 L = 2 K + sum w^2 (p - <x, theta>)^2                      Q = 2 Sigma - lam I

where ``p = <x, theta>`` was the layer's prediction before it learned. A pair of observations ``(x, y), (x, p)`` of
weight w^2 is one observation ``(x, (y + p) / 2)`` of weight 2 w^2 and the constant ``w^2 (y - p)^2 / 2``, so that with
``q = w^2 (y - p)^2 / 2`` and ``F^2 = |w x|^2`` in the norm of the inverse after learning

    2 min L = (least loss of the second regression) + sum q        min K = sum q (1 - F^2)

and the radius needs no batch of past observations: ``min K - min L + sum q F^2 = (sum q - that loss) / 2``.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import checks, random, ridge
from jaxvar import ties as tie_rules
from jaxvar.algorithms import arm_view
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.batching import seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import float_dtype, leaf, pytree, static

CLAIM = Claim(
    name="LOFAV",
    factory="lofav",
    reference="Jun, Kim 2024",
    setting="bandit",
    regret="variance-adaptive (rate not read)",
    deterministic="none claimed",
    variance="estimated",
    efficient=True,
    constants="read",
)


class LofavState(NamedTuple):
    """State of LOFAV for one seed."""

    plain: ridge.Ridge  # [layers] of each: theta and Sigma
    paired: ridge.Ridge  # [layers] of each: thbar and Q
    error_sum: jax.Array  # [layers]   sum of q = w^2 (y - p)^2 / 2
    shrunk_sum: jax.Array  # [layers]   sum of q F^2
    beta_hat: jax.Array  # [layers]   1/2 |theta* - thbar|_Q^2 is at most this
    beta_max: jax.Array  # [layers]   the largest beta_hat so far, this one included
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    kept_plain: arm_view.ArmView | None  # [layers] of each, only for fixed arms
    kept_paired: arm_view.ArmView | None  # likewise


@pytree
class Lofav:
    """LOFAV; built by :func:`lofav`."""

    noise_bound: Any  # R
    delta: Any
    theta_bound: Any  # the paper's S
    beta_scale: Any
    tie_tolerance: Any
    dim: int = static()
    num_layers: int = static()
    ties: str = static()
    fixed_arms: Any = None  # [num_arms, dim] where the decision set never changes

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    @property
    def rho(self) -> np.ndarray[Any, Any]:
        """``2^-l`` for l = 1..L."""
        return np.exp2(-np.arange(1, self.num_layers + 1)).astype(self.dtype)

    def init(self) -> LofavState:
        """Empty regressions; without data only the bias counts."""
        lam, bias = _ridges(self), _bias(self)
        empty = jax.vmap(lambda lam: ridge.init_ridge(self.dim, lam, self.dtype))(lam)
        kept = None
        if self.fixed_arms is not None:
            kept = jax.vmap(lambda lam: arm_view.first(self.fixed_arms, lam, self.dtype))(lam)
        return LofavState(
            plain=empty,
            paired=empty,
            error_sum=jnp.zeros(self.num_layers, self.dtype),
            shrunk_sum=jnp.zeros(self.num_layers, self.dtype),
            beta_hat=bias,
            beta_max=bias,
            round=jnp.int32(0),
            status=jnp.int32(0),
            kept_plain=kept,
            kept_paired=kept,
        )

    def select(self, state: LofavState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest of the least upper confidence bounds."""
        chex.assert_shape(arms, (None, self.dim))
        return _select(self, state, arms, random.key_words(key))

    def update(self, state: LofavState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> LofavState:
        """Every layer learns."""
        chex.assert_shape(x, (self.dim,))
        return _update(self, state, choice, x, reward)

    def with_fixed_arms(self, arms: jax.Array) -> Lofav:
        """The same algorithm for arms ``[num_arms, dim]`` that never change: O(L N d) a round, the same choices."""
        chex.assert_shape(arms, (None, self.dim))
        return dataclasses.replace(self, fixed_arms=arms)


def lofav(
    dim: int,
    num_rounds: Any,
    *,
    noise_bound: Any = 1.0,
    delta: Any = 0.01,
    theta_bound: Any = 1.0,
    beta_scale: Any = 1.0,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> Lofav:
    r"""LOFAV: pull the arm whose least upper confidence bound over layers and over two ellipsoids each is largest.

    .. math:: \arg\max_a \min_l \min\big\{\langle a, \bar\theta_l\rangle + \sqrt{2\beta_l} \|a\|_{Q_l^{-1}},\;
       \langle a, \hat\theta_l\rangle + \sqrt{2\gamma_l} \|a\|_{\Sigma_l^{-1}}\big\}

    In layer l = 1..L, :math:`L = \max(1, \lceil\tfrac12\log_2(K/d)\rceil)`, let :math:`\rho = 2^{-l}`,
    :math:`\lambda = \rho^2 R^2/S^2`, :math:`\beta_0 = \lambda S^2/2`, and let :math:`\bar\beta` be the largest of
    :math:`\beta_0` and all **earlier** :math:`\beta` of the layer. After t observations

    .. math:: \beta &= \beta_0 + c^2\big(\min K - \min L + \textstyle\sum q F^2
       + \sqrt{8\rho^2\bar\beta(\sum q + R^2\log(2L/\delta))\xi} + 2^k \rho R \sqrt{2\beta_0}\,\xi\big) \\
       \gamma &= \beta_0 + c^2\big(\textstyle\sum q F^2 + R^2\log(2L/\delta)\big)

    cut below at 0, with :math:`k = \max(1, \lceil\log_2\sqrt{\bar\beta/\beta_0}\rceil)` and
    :math:`\xi = \log(\sqrt{\pi(t+1)}\, 6.8\, L\, k \log^2(1+k)/\delta)`. Before the first observation
    :math:`\beta = \beta_0`. See the module for q, F, K and L.

    Args:
      dim: d, the length of an arm.
      num_rounds: K, which sets the number of layers; a plain number.
      noise_bound: R, with \|noise\| <= R.
      delta: failure probability.
      theta_bound: S, a bound on the norm of theta*.
      beta_scale: c, a multiplier of the stochastic part of the radii; 1 is the theorem. :math:`\bar\beta` is always
        that of c = 1.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    References:
      Jun, Kim (2024), Noise-adaptive confidence sets for linear bandits and application to Bayesian optimization;
      constants as in the authors' code.

    Deviations:
      Rank-one updates instead of sums over all past observations. The authors' code plays its first arm uniformly at
      random; here it is the longest one, and for arms of equal length that is a uniform draw too.
    """
    if checks.is_traced(num_rounds):
        raise ValueError(f"num_rounds must be a plain number, since it sets the number of layers, got {num_rounds!r}")
    dim = checks.count("dim", dim)
    horizon = float(checks.parameter("num_rounds", num_rounds))
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return Lofav(
        noise_bound=leaf(checks.parameter("noise_bound", noise_bound)),
        delta=leaf(checks.parameter("delta", delta)),
        theta_bound=leaf(checks.parameter("theta_bound", theta_bound)),
        beta_scale=leaf(checks.parameter("beta_scale", beta_scale)),
        tie_tolerance=leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        dim=dim,
        num_layers=max(1, math.ceil(0.5 * math.log2(horizon / dim) - 1e-9)),
        ties=checks.choice("ties", ties, tie_rules.RULES),
    )


def _layers(self: Lofav, like: Any) -> np.ndarray[Any, Any]:
    """``rho [L]`` in a shape that meets the trailing axes of ``like []``."""
    return self.rho.reshape(self.num_layers, *(1,) * jnp.ndim(like))


def _ridges(self: Lofav) -> Any:
    """``lam [L]``."""
    ratio = jnp.asarray(self.noise_bound / self.theta_bound)
    return (_layers(self, ratio) * ratio[None]) ** 2


def _bias(self: Lofav) -> Any:
    """``beta_0 = lam S^2 / 2 = rho^2 R^2 / 2``, ``[L]``."""
    bound = jnp.asarray(self.noise_bound)
    return (_layers(self, bound) * bound[None]) ** 2 / 2


def radii(self: Lofav, state: LofavState) -> tuple[jax.Array, jax.Array]:
    """``sqrt(2 beta)`` and ``sqrt(2 gamma)`` of every layer, ``[L]`` each, with ``beta_scale``."""
    bias, square = _bias(self), jnp.asarray(self.beta_scale)[None] ** 2
    beta = jnp.maximum(bias + square * (state.beta_hat - bias), 0)
    gamma = bias + square * (state.shrunk_sum + _log_term(self)[None])
    return jnp.sqrt(2 * beta), jnp.sqrt(2 * gamma)


def _log_term(self: Lofav) -> jax.Array:
    """``R^2 log(2 L / delta)``."""
    return self.noise_bound**2 * jnp.log(2 * self.num_layers / self.delta)


def _beta(self: Lofav, num: jax.Array, error_sum: jax.Array, paired_loss: jax.Array, beta_max: jax.Array) -> jax.Array:
    """``beta [L]`` after ``num []`` observations, with the largest of the betas before."""
    bias = _bias(self)
    bound = jnp.asarray(self.noise_bound)
    rho, bound = _layers(self, bound), bound[None]
    k = jnp.maximum(jnp.ceil(0.5 * jnp.log2(beta_max / bias)), 1)
    union = 6.8 * self.num_layers * k * jnp.log1p(k) ** 2 / jnp.asarray(self.delta)[None]
    xi = jnp.log(jnp.sqrt(np.pi * (num.astype(self.dtype) + 1))[None] * union)
    spread = jnp.sqrt(8 * rho**2 * beta_max * (error_sum + _log_term(self)[None]) * xi)
    largest = jnp.exp2(k) * rho * bound * jnp.sqrt(2 * bias) * xi
    return jnp.maximum(0.5 * (error_sum - paired_loss) + bias + spread + largest, 0)


@seeds_last
def _select(self: Lofav, state: LofavState, arms: jax.Array, words: jax.Array) -> Choice:
    beta, gamma = radii(self, state)
    uppers = []
    for regressions, kept, radius in (
        (state.paired, state.kept_paired, beta),
        (state.plain, state.kept_plain, gamma),
    ):
        for i in range(self.num_layers):
            seen = arm_view.view(_layer(regressions, i), None if kept is None else _layer(kept, i), arms)
            uppers.append(seen.pred + radius[i][None] * jnp.sqrt(seen.width2))
    index = jnp.min(jnp.stack(uppers), axis=0)
    action = tie_rules.pick(tie_rules.best(index, jnp.ones(index.shape, bool), self.tie_tolerance), words, self.ties)
    return Choice(action, jnp.ones_like(action), jnp.ones(action.shape, self.dtype), arm_view.lost(index))


@seeds_last
def _update(self: Lofav, state: LofavState, choice: Choice, x: jax.Array, reward: jax.Array) -> LofavState:
    learned = [_learn(self, state, i, x, reward) for i in range(self.num_layers)]
    plain, paired, kept_plain, kept_paired, error, shrunk = (
        jax.tree.map(lambda *layers: jnp.stack(layers), *part)
        for part in zip(*(one[:-1] for one in learned), strict=True)
    )
    failed = functools.reduce(operator.or_, (one[-1] for one in learned))
    error_sum = state.error_sum + error
    num = state.round + 1
    beta = _beta(self, num, error_sum, paired.loss, state.beta_max)
    return LofavState(
        plain=plain,
        paired=paired,
        error_sum=error_sum,
        shrunk_sum=state.shrunk_sum + shrunk,
        beta_hat=beta,
        beta_max=jnp.maximum(state.beta_max, beta),  # only now: the radius itself must not depend on it
        round=num,
        status=state.status | choice.status | failed,
        kept_plain=kept_plain,
        kept_paired=kept_paired,
    )


def _learn(self: Lofav, state: LofavState, i: int, x: jax.Array, reward: jax.Array) -> tuple[Any, ...]:
    """What layer ``i + 1`` becomes: its regressions, its views of fixed arms, ``q``, ``q F^2`` and status bits."""
    plain = _layer(state.plain, i)
    width = jnp.sqrt(ridge.quadratic(x[None], plain.sigma_inv)[0])
    weight = self.rho[i] / jnp.maximum(width, self.rho[i])  # min(1, rho / width)
    pred = jnp.sum(plain.theta_hat * x, axis=0)

    kept = None if state.kept_plain is None else _layer(state.kept_plain, i)
    plain, kept, seen = arm_view.learn(plain, kept, weight[None] * x, weight * reward, self.fixed_arms)
    twice = np.sqrt(2).astype(self.dtype) * weight
    kept_paired = None if state.kept_paired is None else _layer(state.kept_paired, i)
    paired, kept_paired, paired_seen = arm_view.learn(
        _layer(state.paired, i), kept_paired, twice[None] * x, twice * (reward + pred) / 2, self.fixed_arms
    )
    error = 0.5 * seen.error**2
    failed = arm_view.failure(seen) | arm_view.failure(paired_seen)
    return plain, paired, kept, kept_paired, error, error * seen.gain * seen.width2, failed


def _layer(stack: Any, i: int) -> Any:
    return jax.tree.map(lambda v: v[i], stack)
