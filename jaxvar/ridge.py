"""Weighted ridge regression, one observation at a time, in one layer or in a stack of them.

Layer l (counted from 1) has the scale ``q = 4^-l`` and the matrix ``Sigma = q lam I + sum w^2 x x^T``. It learns only
with the weight ``w^2 = q / (x^T Sigma^-1 x)``, so that ``w^2 x^T Sigma^-1 x = q`` exactly and the Sherman-Morrison
denominator is the constant ``1 + q``. Stored is the scaled inverse ``P = q Sigma^-1``, which starts at ``I / lam`` in
every layer and stays in float32's range however deep the layer. With ``u = P x``, ``s = x^T P x``,
``e = y - <theta, x>`` and the gain ``g = q / (1 + q)``, one observation is

    P     <- P - (g / s) u u^T          theta <- theta + (g e / s) u          loss <- loss + q g e^2 / s

Three quantities of the theory follow without being stored (lam = 1 in SAVE):

    empirical variance sum   sum w^2 (y - <theta, x>)^2 = loss - q lam |theta|^2     (under the current theta)
    log determinant          log det Sigma = d log(q lam) + count log(1 + q)
    width                    |x|_{Sigma^-1} = sqrt(x^T P x / q)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxvar import parameters, status
from jaxvar.constants import RadiusConstants
from jaxvar.lowering import (
    computed_once,
    each_used_layer,
    inner,
    is_layer,
    learn_in_layer,
    map_layer,
    minus_outer,
    quadratic,
    together,
    transform_symmetric,
)
from jaxvar.parameters import Array, Number

Arrays = tuple[jax.Array, ...]
MAX_LAYERS = 200  # 4^-200 is still a float64; no horizon asks for more


class Layers(NamedTuple):
    """A stack of layers, the first ``capacity`` of the paper's L; one layer is the same without the leading axis."""

    scaled_inv: jax.Array  # [capacity, d, d]   q Sigma^-1
    theta_hat: jax.Array  # [capacity, d]
    loss: jax.Array  # [capacity]   the least value of sum w^2 (y - <theta, x>)^2 + q lam |theta|^2
    weight_sum: jax.Array  # [capacity]   sum w^2
    count: jax.Array  # type: ignore[assignment]  # [capacity]   int32, number of observations


class Ridge(NamedTuple):
    """Plain ridge regression: every observation counts once."""

    sigma_inv: jax.Array  # [d, d]   inverse of V = lam I + sum x x^T
    theta_hat: jax.Array  # [d]
    loss: jax.Array  # []   the least value of sum (y - <theta, x>)^2 + lam |theta|^2
    log_det: jax.Array  # []   log det V - d log lam


class Update(NamedTuple):
    """The effect of one observation: the inverse moved by ``-gain u u^T``, the estimate by ``step u``."""

    direction: jax.Array  # [d]   u = V^-1 x, or P x in a layer
    gain: jax.Array  # []   1 / (1 + x^T u), or g / s; 0 where nothing was learned
    step: jax.Array  # []   the gain times the error
    error: jax.Array  # []   y - <theta, x>, before learning
    width2: jax.Array  # []   x^T u, before learning


class LayerUpdate(NamedTuple):
    """The effect of one observation on the layer that took it; zero where none did."""

    direction: jax.Array  # [d]   as in Update
    gain: jax.Array  # []
    width2: jax.Array  # []   s = x^T P x, before learning
    scale: jax.Array  # []   q
    step: jax.Array  # []
    error: jax.Array  # []
    loss: jax.Array  # []   the least regularised loss, after learning
    variance_sum: jax.Array  # []   sum w^2 (y - <theta, x>)^2, after learning
    weight_sum: jax.Array  # []   sum w^2, after learning
    num: jax.Array  # []   number of observations, after learning


class ArmStats(NamedTuple):
    """Arms as a regression sees them; of arms that never change, kept up to date instead of computed anew."""

    width2: jax.Array  # [N]   a^T V^-1 a, or a^T P a in a layer
    pred: jax.Array  # [N]   <a, theta_hat>


class LayerStats(NamedTuple):
    """Arms as a layer sees them, or with a leading axis all layers."""

    width2: jax.Array  # [N]   a^T P a
    upper: jax.Array  # [N]   the upper confidence bound; the largest number there is while nothing was learned
    pred: jax.Array  # [N]   <a, theta_hat>


def init_ridge(dim: int, lam: Number, dtype: DTypeLike) -> Ridge:
    """Return a regression that has seen nothing: ``V = lam I``."""
    zero = jnp.zeros((), dtype)
    return Ridge(jnp.eye(dim, dtype=dtype) / lam, jnp.zeros(dim, dtype), zero, zero)


def regress(ridge: Ridge, x: jax.Array, y: jax.Array, lam: Number | None = None) -> tuple[Ridge, Update]:
    """Learn one more observation ``(x [d], y [])``; a weighted one is ``(w x, w y)``.

    ``x^T V^-1 x`` is positive, but comes out negative where it is smaller than its own rounding error: after a weight
    so large that ``V^-1``, which is at most ``1 / lam``, has no digits left along x, or where products underflow. The
    direction is then noise: told ``lam``, nothing is learned. A width that is negative by more is returned as it is.
    """
    direction = transform_symmetric(ridge.sigma_inv, x)
    width2 = jnp.sum(direction * x, axis=0)
    divisor = 1 + width2
    if lam is not None:
        limits = np.finfo(x.dtype)
        rounding = 4 * x.shape[0] * (float(limits.eps) / lam * jnp.sum(x * x, axis=0) + float(limits.tiny))
        drowned = (width2 < 0) & (width2 > -rounding)
        width2, divisor = jnp.where(drowned, 0, width2), jnp.where(drowned, jnp.inf, divisor)
    error = y - jnp.sum(ridge.theta_hat * x, axis=0)
    gain, step = 1 / divisor, error / divisor
    new = Ridge(
        sigma_inv=minus_outer(ridge.sigma_inv, gain, direction),
        theta_hat=ridge.theta_hat + step * direction,
        loss=ridge.loss + step * error,
        log_det=ridge.log_det + jnp.log1p(width2),
    )
    return new, Update(direction, gain, step, error, width2)


def arm_stats(ridge: Ridge, arms: jax.Array) -> ArmStats:
    """Return the squared widths and estimates of ``arms [N, d]``."""
    return together(ArmStats(quadratic(arms, ridge.sigma_inv), inner(arms, ridge.theta_hat)))


def follow(stats: ArmStats, update: Update | LayerUpdate, arms: jax.Array) -> ArmStats:
    """Return the statistics of fixed ``arms [N, d]`` after an update: ``width2 - g (a^T u)^2``, ``pred + h a^T u``.

    O(N d) instead of O(N d^2); g and h are the update's gain and step.
    """
    along = inner(arms, update.direction)
    return ArmStats(_narrowed(stats.width2, update.gain, along), stats.pred + update.step * along)


def _narrowed(width2: jax.Array, gain: jax.Array, along: jax.Array) -> jax.Array:
    """Return the squared widths ``[N]`` of arms with ``along [N]`` the update's direction, after it."""
    return jnp.maximum(width2 - gain * along * along, 0)


def failure(update: Update | LayerUpdate, beta: Number = 0.0, least: float = 0.0) -> jax.Array:
    """Return the status bits of an observation, int32 [].

    Args:
      update: what it did.
      beta: the radius after it, if there is one.
      least: the smallest ``x^T V^-1 x`` that is right; below it the inverse is not positive definite any more.
    """
    finite = jnp.isfinite(update.error) & jnp.isfinite(update.width2) & jnp.isfinite(beta)
    indefinite = jnp.where(update.width2 >= least, 0, status.INDEFINITE)
    return jnp.where(finite, indefinite, status.NONFINITE).astype(jnp.int32)


# Layers.


def scales(capacity: int, dtype: DTypeLike) -> Array:
    """Return ``q = 4^-l`` for l = 1..capacity."""
    return np.power(4.0, -np.arange(1, capacity + 1)).astype(dtype)


def init_layers(dim: int, capacity: int, lam: Number, dtype: DTypeLike) -> Layers:
    """Return layers that have seen nothing: ``Sigma = q lam I``."""
    eye = jnp.broadcast_to(jnp.eye(dim, dtype=dtype), (capacity, dim, dim))
    return Layers(
        scaled_inv=eye / jnp.asarray(lam, dtype),
        theta_hat=jnp.zeros((capacity, dim), dtype),
        loss=jnp.zeros(capacity, dtype),
        weight_sum=jnp.zeros(capacity, dtype),
        count=jnp.zeros(capacity, jnp.int32),
    )


def layer_arm_stats(layer: Layers, arms: jax.Array) -> ArmStats:
    """Return squared widths, times q, and estimates of ``arms [N, d]`` in one layer."""
    return together(ArmStats(quadratic(arms, layer.scaled_inv), inner(arms, layer.theta_hat)))


def layer_stats(layers: Layers, arms: jax.Array, lam: Number, beta: jax.Array) -> LayerStats:
    """Return what every layer, with the radii ``beta [capacity]``, knows of ``arms [N, d]``, [capacity, N] each."""
    width2, none = jnp.sum(arms * arms, axis=1) / lam, float(np.finfo(arms.dtype).max)  # where P is I / lam
    slope = beta / np.sqrt(scales(layers.loss.shape[0], arms.dtype))

    def in_layer(layer: Layers, slope: jax.Array) -> LayerStats:
        width2, pred = layer_arm_stats(layer, arms)
        width2 = computed_once(width2)
        return LayerStats(width2, jnp.where(layer.count > 0, pred + slope * jnp.sqrt(width2), none), pred)

    unused = LayerStats(width2, jnp.full_like(width2, none), jnp.zeros_like(width2))
    return each_used_layer(in_layer, layers.count > 0, unused, layers, slope)


def lowest_wide(width2: jax.Array, num_layers: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the lowest of ``num_layers []`` layers with ``|x| >= 2^-l`` in the norm of Sigma^-1, int32 [], and w, [].

    Args:
      width2: ``x^T P x`` in every stored layer, [capacity].
      num_layers: L.
    """
    q = scales(width2.shape[0], width2.dtype)
    layer, scale, own = jnp.int32(0), jnp.zeros((), width2.dtype), jnp.ones((), width2.dtype)
    for i in reversed(range(width2.shape[0])):  # the lowest layer comes last and wins
        wide = (width2[i] >= q[i] ** 2) & (i < num_layers)
        layer = jnp.where(wide, i + 1, layer)
        scale, own = jnp.where(wide, q[i], scale), jnp.where(wide, width2[i], own)
    return layer, scale / jnp.sqrt(own)


def follow_layer(
    stats: LayerStats, layer: jax.Array, update: LayerUpdate, arms: jax.Array, beta: jax.Array
) -> LayerStats:
    """Return the statistics ``[capacity, N]`` of fixed ``arms [N, d]`` after layer ``layer`` (0: none) has learned.

    Its radius ``beta []`` is the one after that.
    """
    along, slope = inner(arms, update.direction), beta / jnp.sqrt(jnp.where(layer > 0, update.scale, 1))
    width2 = map_layer(lambda gain, old: _narrowed(old, gain, along), layer, update.gain, stats.width2)
    pred = map_layer(lambda step, old: old + step * along, layer, update.step, stats.pred)
    upper = map_layer(lambda slope, _, w2, pred: pred + slope * jnp.sqrt(w2), layer, slope, stats.upper, width2, pred)
    return LayerStats(width2, upper, pred)


def learn(layer: Layers, q: jax.Array, x: jax.Array, reward: jax.Array, lam: Number) -> tuple[Layers, LayerUpdate]:
    """Let one layer of scale ``q`` learn from ``(x, reward)`` with its prescribed weight; where q is 0, nothing."""
    direction = transform_symmetric(layer.scaled_inv, x)
    width2 = jnp.sum(direction * x, axis=0)
    gain = _gain(q, width2)
    numbers, found = _learn(layer[1:], q, gain, direction, x, reward, lam)
    new = Layers(minus_outer(layer.scaled_inv, gain, direction), *numbers)
    return new, LayerUpdate(direction, gain, width2, q, *found)


def observe(
    layers: Layers, layer: jax.Array, x: jax.Array, reward: jax.Array, lam: Number
) -> tuple[Layers, LayerUpdate]:
    """Let layer ``layer`` (1-based; 0 for none) of the stack learn from ``(x, reward)``."""
    capacity = layers.loss.shape[0]
    q = jnp.sum(jnp.where(is_layer(capacity, layer), scales(capacity, layers.loss.dtype), 0), axis=0)

    def learn(direction: jax.Array, old: Arrays) -> tuple[jax.Array, Arrays, LayerUpdate]:
        width2 = jnp.sum(direction * x, axis=0)
        gain = _gain(q, width2)
        numbers, found = _learn(old, q, gain, direction, x, reward, lam)
        return gain, numbers, LayerUpdate(direction, gain, width2, q, *found)

    scaled_inv, numbers, update = learn_in_layer(learn, layers.scaled_inv, tuple(layers[1:]), x, layer)
    return Layers(scaled_inv, *numbers), update


def _gain(q: jax.Array, width2: jax.Array) -> jax.Array:
    """Return ``g / s``, [], for a layer of scale ``q`` with ``s = width2``; 0 where q is, or s is not positive."""
    return q / jnp.where(width2 > 0, (1 + q) * width2, jnp.inf)


def _learn(
    old: Arrays, q: jax.Array, gain: jax.Array, direction: jax.Array, x: jax.Array, reward: jax.Array, lam: Number
) -> tuple[Arrays, Arrays]:
    """Return what a layer knows besides its inverse after an observation, and the last part of a LayerUpdate."""
    theta_hat, loss, weight_sum, num = old
    error = reward - jnp.sum(theta_hat * x, axis=0)
    step = gain * error
    theta_hat, loss = theta_hat + step * direction, loss + q * step * error
    weight_sum, num = weight_sum + q * (1 + q) * gain, num + (q > 0).astype(jnp.int32)  # w^2 = q^2 / s
    variance_sum = jnp.maximum(loss - q * lam * jnp.sum(theta_hat**2, axis=0), 0)
    return (theta_hat, loss, weight_sum, num), (step, error, loss, variance_sum, weight_sum, num)


def empirical_variance(layers: Layers, lam: Number) -> jax.Array:
    """Return ``sum w^2 (y - <theta_hat, x>)^2`` of each layer under its current estimate, ``[capacity]``."""
    q = scales(layers.loss.shape[0], layers.loss.dtype)
    return jnp.maximum(layers.loss - q * lam * jnp.sum(layers.theta_hat**2, axis=1), 0)


def log_det(layers: Layers, lam: Number) -> jax.Array:
    """Return ``log det Sigma`` of each layer from its count alone, ``[capacity]``."""
    dim = layers.theta_hat.shape[1]
    q = scales(layers.loss.shape[0], layers.loss.dtype)
    return dim * jnp.log(q * lam) + layers.count.astype(q.dtype) * jnp.log1p(q)


def layer_failure(update: LayerUpdate, beta: Number) -> jax.Array:
    """Return the status bits of an observation that a layer took, int32 []."""
    bits = failure(update, beta, least=float(np.finfo(update.width2.dtype).tiny))
    return jnp.where(update.scale > 0, bits, 0)


def layer_count(alpha: jax.Array) -> jax.Array:
    """Return ``L = ceil(log2(1 / alpha))``, at least 1; rounding adds no layer where 1 / alpha is a power of two."""
    slack = 1e-9 if jnp.result_type(alpha).itemsize == 8 else 1e-4
    return jnp.maximum(jnp.ceil(-jnp.log2(alpha) - slack), 1)


def choose_capacity(num_rounds: Number, alpha: Number) -> int:
    """Return how many layers to store: as many as ``num_rounds`` rounds of one unit vector need.

    Its squared width in layer l starts at 4^l, and each update divides it by 1 + 4^-l; below 4^-l the next layer is
    asked. With ``lam <= 1`` unit vectors in more dimensions fill a layer no sooner; short ones may start in a deeper
    one. (With d times as many rounds and one more layer, 800,000 rounds of SAVE with 20 fixed arms were played twice.)
    """
    if parameters.is_traced(num_rounds) or parameters.is_traced(alpha):
        return 8
    most = max(1, math.ceil(-math.log2(float(alpha)) - 1e-9))
    filled, layer = 0, 0
    while filled < float(num_rounds) and layer < most:
        layer += 1
        filled += math.floor(layer * math.log(16) / math.log1p(4.0**-layer)) + 1
    return min(layer, most, MAX_LAYERS)


def initial_radius(constants: RadiusConstants, capacity: int, dtype: DTypeLike) -> jax.Array:
    """Return ``initial_coef 2^-l`` for l = 1..capacity."""
    return jnp.asarray(constants.initial_coef * np.sqrt(scales(capacity, dtype)))


def radius(
    q: jax.Array | Array,
    variance_sum: Number,
    weight_sum: Number,
    num: Number,
    constants: RadiusConstants,
    noise_bound: Number,
    log0: Number,
    log1: Number,
) -> jax.Array:
    """Return ``beta`` of a layer, the equations ``eq:def:beta`` and ``eq:def:beta:mdp`` with their constants as data.

    Args:
      q: ``4^-l``, [].
      variance_sum: ``sum w^2 (y - <theta_hat, x>)^2`` over what the layer has learned from, [].
      weight_sum: ``sum w^2``, [].
      num: how many observations these are, [].
      constants: see :mod:`jaxvar.constants`.
      noise_bound: R, [].
      log0: ``log(4 k^2 L / delta)``, [].
      log1: ``log(4 (k + log_shift)^2 L / delta)``, [].
    """
    c = constants
    if c.form != "printed":
        raise ValueError(f"constants must have the printed form of radius, got {c.label!r} of form {c.form!r}")
    root_q = jnp.sqrt(q)  # 2^-l
    range_part = c.range_coef * root_q * noise_bound * log0
    bias = c.bias_coef * root_q
    adaptive = (
        c.emp_coef * variance_sum
        + c.log_coef * noise_bound**2 * log1
        + c.floor_coef * q
        + c.cross_coef * (range_part + bias) ** 2
    )
    fallback = (
        c.fallback_count * noise_bound**2 * num
        + c.fallback_weight * noise_bound**2 * weight_sum
        + c.fallback_log * noise_bound**2 * log1
        + c.fallback_floor * q
        + c.fallback_cross * (range_part + bias) ** 2
    )
    variance = jnp.where(c.switch * jnp.sqrt(log1) * root_q <= 1, adaptive, fallback)
    return c.beta_scale * (c.sqrt_coef * root_q * jnp.sqrt(variance * log0) + range_part) + bias
