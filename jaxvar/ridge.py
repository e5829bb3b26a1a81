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

Axes known to these functions lead; a trailing axis is a batch of seeds (see :mod:`jaxvar.batching`).
"""

from __future__ import annotations

import functools
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar.batching import kept, on_accelerator
from jaxvar.written_out import written_out

_UNROLL = 32  # sums over at most this many terms are written out
_UNROLL_SQUARE = 12  # and double sums over at most this many
_ROW_GROUP = 16  # longer double sums take a CPU as many rows at a time


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


class Seen(NamedTuple):
    """What one observation did to a plain ridge regression."""

    direction: jax.Array  # [d]   u = V^-1 x
    gain: jax.Array  # []   1 / (1 + x^T V^-1 x)
    step: jax.Array  # []   error times gain
    error: jax.Array  # []   y - <theta, x>, before learning
    width2: jax.Array  # []   x^T V^-1 x, before learning


class ArmCache(NamedTuple):
    """``a^T P a`` and ``<a, theta>`` of arms that never change, kept up to date instead of computed anew."""

    scaled_width2: jax.Array  # [capacity, num_arms]
    scaled_width: jax.Array  # [capacity, num_arms]   its root: one layer's are new in a round
    pred: jax.Array  # [capacity, num_arms]


class Learned(NamedTuple):
    """What one observation did to the layer that took it; zero where none did."""

    direction: jax.Array  # [d]   u = P x
    gain: jax.Array  # []   g / s
    step: jax.Array  # []   g e / s
    error: jax.Array  # []   e = y - <theta, x>, before learning
    scaled_width2: jax.Array  # []   s = x^T P x, before learning
    scale: jax.Array  # []   q
    variance_sum: jax.Array  # []   sum w^2 (y - <theta, x>)^2, after learning
    weight_sum: jax.Array  # []   sum w^2, after learning
    num: jax.Array  # []   number of observations, after learning


def scales(capacity: int, dtype: Any) -> np.ndarray[Any, Any]:
    """``q = 4^-l`` for l = 1..capacity."""
    return np.power(4.0, -np.arange(1, capacity + 1)).astype(dtype)


def init_layers(dim: int, capacity: int, lam: Any, dtype: Any) -> Layers:
    """Layers that have seen nothing: ``Sigma = q lam I``."""
    eye = jnp.broadcast_to(jnp.eye(dim, dtype=dtype), (capacity, dim, dim))
    return Layers(
        scaled_inv=eye / jnp.asarray(lam, dtype),
        theta_hat=jnp.zeros((capacity, dim), dtype),
        loss=jnp.zeros(capacity, dtype),
        weight_sum=jnp.zeros(capacity, dtype),
        count=jnp.zeros(capacity, jnp.int32),
    )


def init_ridge(dim: int, lam: Any, dtype: Any) -> Ridge:
    """A regression that has seen nothing: ``V = lam I``."""
    zero = jnp.zeros((), dtype)
    return Ridge(jnp.eye(dim, dtype=dtype) / lam, jnp.zeros(dim, dtype), zero, zero)


def regress(ridge: Ridge, x: jax.Array, y: jax.Array) -> tuple[Ridge, Seen]:
    """One more observation ``(x, y)`` of plain ridge regression."""
    direction = transform(ridge.sigma_inv, x)
    width2 = jnp.sum(direction * x, axis=0)
    error = y - jnp.sum(ridge.theta_hat * x, axis=0)
    gain, step = 1 / (1 + width2), error / (1 + width2)  # quotients: see learn()
    new = Ridge(
        sigma_inv=ridge.sigma_inv - gain[None, None] * outer(direction),
        theta_hat=ridge.theta_hat + step[None] * direction,
        loss=ridge.loss + step * error,
        log_det=ridge.log_det + jnp.log1p(width2),
    )
    return new, Seen(direction, gain, step, error, width2)


def init_cache(layers: Layers, arms: jax.Array) -> ArmCache:
    """The cache of fixed ``arms [num_arms, d]`` for layers that have seen nothing."""
    width2, pred = zip(*measure(layers, arms), strict=True)
    return ArmCache(jnp.stack(width2), jnp.sqrt(jnp.stack(width2)), jnp.stack(pred))


def quadratic(arms: jax.Array, matrix: jax.Array) -> jax.Array:
    """``a^T M a >= 0`` for each row of ``arms [N, d]`` and a symmetric positive definite ``matrix [d, d]``."""
    dim = arms.shape[1]

    def whole(arms: jax.Array, matrix: jax.Array) -> jax.Array:
        return jnp.sum(arms * combine(matrix[:, None], jnp.moveaxis(arms, 1, 0)[:, :, None]), axis=1)

    def by_rows(arms: jax.Array, matrix: jax.Array) -> jax.Array:
        # A row at a time, what is below a group of rows counted twice: time as d^2, and a program of d / 16 loops.
        total = jnp.zeros_like(arms[:, 0])
        for start in range(0, dim, _ROW_GROUP):
            here = slice(start, start + _ROW_GROUP)

            def add_row(i: jax.Array, total: jax.Array, start: int = start, here: slice = here) -> jax.Array:
                row, arm = (jax.lax.dynamic_index_in_dim(v, i, axis, False) for axis, v in enumerate((matrix, arms)))
                below = jnp.sum(arms[:, :start] * row[None, :start], axis=1)
                return total + arm * (jnp.sum(arms[:, here] * row[None, here], axis=1) + 2 * below)

            total = jax.lax.fori_loop(start, min(start + _ROW_GROUP, dim), add_row, total)
        return total

    form = whole if dim <= _UNROLL_SQUARE or on_accelerator() else by_rows
    return jnp.maximum(form(arms, matrix), 0)


def norm(arms: jax.Array, matrix: jax.Array) -> jax.Array:
    """``sqrt(a^T M a)`` for each row of ``arms [N, d]`` and a symmetric positive definite ``matrix [d, d]``.

    For a short a the lower triangle is written out: half the products, in one kernel without a loop inside. The root
    at the end keeps XLA from computing all of it anew for each use.
    """
    dim = arms.shape[1]
    if dim > _UNROLL_SQUARE or on_accelerator():
        return jnp.sqrt(quadratic(arms, matrix))
    halves = []
    for i in range(dim):
        half = 0.5 * matrix[i, i][None] * arms[:, i]
        for j in range(i):
            half = half + matrix[i, j][None] * arms[:, j]
        halves.append(half * arms[:, i])
    return jnp.sqrt(jnp.maximum(2 * functools.reduce(operator.add, halves), 0))


def inner(arms: jax.Array, vector: jax.Array) -> jax.Array:
    """``<a, v>`` for each row of ``arms [N, d]``."""
    return jnp.sum(arms * vector[None], axis=1)


def transform(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    """``M v`` for a symmetric ``matrix [d, d]`` and ``vector [d]``: a reduction, which XLA computes once."""
    return jnp.sum(matrix * vector[:, None], axis=0)


def outer(vector: jax.Array) -> jax.Array:
    """``v v^T``. Scale the product, not a factor: entries (i, j) and (j, i) are then equal to the last bit.

    An inverse that is not quite symmetric never recovers: the difference stays while the inverse itself shrinks.
    """
    return vector[:, None] * vector[None]


def combine(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """``sum_j weights[j] * rows[j]``, written out for short sums.

    XLA keeps a reduction's accumulator in memory order of the summed axis; a chain of multiply-adds it vectorises
    over the batch. An accelerator might store the slices.
    """
    if rows.shape[0] > _UNROLL or on_accelerator():
        return jnp.sum(rows * weights, axis=0)
    total = rows[0] * weights[0]
    for j in range(1, rows.shape[0]):
        total = total + rows[j] * weights[j]
    return total


def measure(layers: Layers, arms: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
    """``a^T P a`` and ``<a, theta>`` of each arm: two ``[N]`` for each layer."""

    def in_layer(scaled_inv: jax.Array, theta_hat: jax.Array) -> tuple[jax.Array, jax.Array]:
        return quadratic(arms, scaled_inv), inner(arms, theta_hat)

    if on_accelerator():  # which might store the layers one by one
        return list(zip(*kept(jax.vmap(in_layer)(layers.scaled_inv, layers.theta_hat)), strict=True))
    return [in_layer(layers.scaled_inv[i], layers.theta_hat[i]) for i in range(layers.loss.shape[0])]


def learn(layer: Layers, q: jax.Array, x: jax.Array, reward: jax.Array, lam: Any) -> tuple[Layers, Learned]:
    """One layer of scale ``q`` learns from ``(x, reward)`` with its prescribed weight; nothing changes where q is 0."""
    stack = Layers(*(v[None] for v in layer))
    pred = jnp.sum(layer.theta_hat * x, axis=0)
    new, learned = _learn(stack, q[None], transform(layer.scaled_inv, x), pred, x, reward, lam)
    return Layers(*(v[0] for v in new)), learned


def observe(layers: Layers, layer: jax.Array, x: jax.Array, reward: jax.Array, lam: Any) -> tuple[Layers, Learned]:
    """Layer ``layer`` (1-based; 0 for none) of the stack learns from ``(x, reward)``."""
    learns = is_layer(layers.loss.shape[0], layer)
    q = _scale_where(learns, layers.loss)
    # P x of every layer and then the one that counts: to select an inverse first takes longer.
    directions = jnp.sum(layers.scaled_inv * x[None, :, None], axis=1)
    # An accelerator compares again, rather than store for one kernel what another has computed.
    counts = _numbers(learns.shape[0], layer) == layer[None] if on_accelerator() else learns
    direction = jnp.sum(jnp.where(counts[:, None], directions, 0), axis=0)
    return _learn(layers, q, direction, _predicted(layers.theta_hat, x, learns), x, reward, lam)


@written_out
def _scale_where(learns: jax.Array, loss: jax.Array) -> jax.Array:
    """``4^-l`` of the layer that learns, 0 for all others."""
    return jnp.where(learns, scales_like(learns, loss.dtype), 0)


@written_out
def _predicted(theta_hat: jax.Array, x: jax.Array, learns: jax.Array) -> jax.Array:
    """``<theta, x>`` in the layer that learns."""
    preds = jnp.sum(theta_hat * x[None], axis=1)
    return jnp.sum(jnp.where(learns, preds, 0), axis=0)


def _learn(
    layers: Layers,
    q: jax.Array,  # [capacity]   4^-l of the layer that learns, 0 for all others
    direction: jax.Array,  # [d]   P x in the layer that learns
    pred: jax.Array,  # []   <theta, x> in it
    x: jax.Array,
    reward: jax.Array,
    lam: Any,
) -> tuple[Layers, Learned]:
    direction = kept(direction)
    numbers_only: Any = layers._replace(scaled_inv=None)  # type: ignore[arg-type]  # not looked at there
    gain, step, moved, numbers, learned = _weigh(numbers_only, q, direction, pred, x, reward, lam)
    if on_accelerator():
        moved = _moved(layers.theta_hat, step, direction)  # again, as one array
    # All layers move in the same direction, all but one by nothing: every entry is read and written once.
    scaled_inv = layers.scaled_inv - gain[:, None, None] * outer(direction)[None]
    return Layers(scaled_inv, moved, *numbers), learned._replace(direction=direction)


def _moved(theta_hat: jax.Array, step: jax.Array, direction: jax.Array) -> jax.Array:
    return theta_hat + step[:, None] * direction[None]


@written_out
def _weigh(
    layers: Any, q: jax.Array, direction: jax.Array, pred: jax.Array, x: jax.Array, reward: jax.Array, lam: Any
) -> tuple[jax.Array, jax.Array, jax.Array, tuple[jax.Array, jax.Array, jax.Array], Learned]:
    """All that an observation changes but the inverse: gain and step, estimates, loss, weight sum and count."""
    width2 = jnp.sum(direction * x, axis=0)
    error = reward - pred
    # Both end in a quotient: XLA computes an expensive operation once, but redoes a cheap one in each use.
    scaled_norm = jnp.where((width2 > 0)[None], (1 + q) * width2[None], jnp.inf)
    gain = q / scaled_norm
    step = q * error[None] / scaled_norm
    loss = layers.loss + q * step * error[None]
    weight_sum = layers.weight_sum + q * (1 + q) * gain  # w^2 = q^2 / s
    count = layers.count + (q > 0).astype(jnp.int32)
    moved = _moved(layers.theta_hat, step, direction)
    lam = lam[None] if jnp.ndim(lam) else lam
    variance_sum = jnp.maximum(loss - q * lam * jnp.sum(moved * moved, axis=1), 0)

    def of_learner(values: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(q > 0, values, 0), axis=0, dtype=values.dtype)

    sums = (of_learner(v) for v in (variance_sum, weight_sum, count))
    learned = Learned(direction, of_learner(gain), of_learner(step), error, width2, of_learner(q), *sums)
    return gain, step, moved, (loss, weight_sum, count), learned


@written_out
def is_layer(capacity: int, layer: jax.Array) -> jax.Array:
    """Which of the layers 1..capacity is ``layer []``: bool ``[capacity]``."""
    is_one = _numbers(capacity, layer) == layer[None]
    if on_accelerator():
        return is_one
    # A quotient between the comparison and its uses: XLA then computes the mask, and what led to it, once.
    return 1 / jnp.where(is_one, np.float32(1), np.float32(np.inf)) > 0


def _numbers(capacity: int, layer: jax.Array) -> np.ndarray[Any, Any]:
    """1..capacity on an axis before those of ``layer``."""
    return np.arange(1, capacity + 1, dtype=np.int32).reshape(capacity, *(1,) * layer.ndim)


def scales_like(mask: jax.Array, dtype: Any) -> np.ndarray[Any, Any]:
    """:func:`scales` in a shape that meets ``mask [capacity]`` with its trailing axes."""
    return scales(mask.shape[0], dtype).reshape(mask.shape[0], *(1,) * (mask.ndim - 1))


def _of_layer(values: jax.Array, learns: jax.Array) -> jax.Array:
    """``values[l] [capacity, ...]`` of the layer that learns, by selections: a gather per seed is slow."""
    axes = (1,) * (values.ndim - learns.ndim)
    chosen = values[0]
    for i in range(1, values.shape[0]):
        chosen = jnp.where(learns[i].reshape(*axes, *learns.shape[1:]), values[i], chosen)
    return chosen


def move_cache(cache: ArmCache, layer: jax.Array, learned: Learned, arms: jax.Array) -> ArmCache:
    """The cache after ``layer []`` has learned: ``a^T P a - g (a^T u)^2 / s``, ``<a, theta> + g e (a^T u) / s``."""
    along = inner(arms, learned.direction)
    here = is_layer(cache.pred.shape[0], layer)
    gain, step = (jnp.where(here, v[None], 0) for v in (learned.gain, learned.step))
    # The root of one layer only. Its square is computed anew: XLA would redo the selection for each layer's square.
    width = jnp.sqrt(jnp.maximum(_of_layer(cache.scaled_width2, here) - learned.gain[None] * (along * along), 0))
    return ArmCache(
        scaled_width2=jnp.maximum(cache.scaled_width2 - gain[:, None] * (along * along)[None], 0),
        scaled_width=jnp.where(here[:, None], width[None], cache.scaled_width),
        pred=cache.pred + step[:, None] * along[None],
    )


def empirical_variance(layers: Layers, lam: Any) -> jax.Array:
    """``sum w^2 (y - <theta_hat, x>)^2`` of each layer under its current estimate, ``[capacity]``."""
    q = scales_like(layers.loss, layers.loss.dtype)
    return jnp.maximum(layers.loss - q * lam * jnp.sum(layers.theta_hat**2, axis=1), 0)


def log_det(layers: Layers, lam: Any) -> jax.Array:
    """``log det Sigma`` of each layer from its count alone, ``[capacity]``."""
    dim = layers.theta_hat.shape[1]
    q = scales_like(layers.loss, layers.loss.dtype)
    return dim * jnp.log(q * lam) + layers.count.astype(q.dtype) * jnp.log1p(q)
