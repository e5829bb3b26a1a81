"""Weighted ridge regression, one observation at a time, in one layer or in a stack of them.

Every regression carries a square root of its inverse, ``V^-1 = R R^T``, moved as in Potter's filter (1963): its numbers
span the root of the range that the inverse spans, and what it stands for is symmetric and positive whatever the
rounding. For an observation x of weight w, with ``f = R^T x``, ``v = |f|^2 = x^T V^-1 x`` and ``t = w^2 v``

    V^-1  <-  R (I - w^2 / (1 + t) f f^T) R^T        theta  <-  theta + w^2 e / (1 + t) R f        e = y - <theta, x>

Any ``R Q`` with an orthogonal Q stands for the same inverse. Here Q is the reflection that turns f to an axis k: then x
is orthogonal to all columns but that one, and to learn is to shrink it by ``sqrt(1 + t)``. With ``g = f / |f|``, signed
so that ``g_k >= 0``, and ``h = g + e_k``

    R  <-  R - (r_k + R g) h^T / (1 + g_k)          column k, which is now - R g:  over sqrt(1 + t)

An arm that is played again and again has a column of its own: it shrinks digit by digit, and rounding in the others,
which are orthogonal to the arm, does not reach its width. (One arm in 99 % of 10^6 rounds, d = 5, float32: squared
widths are right to 2e-3, with Potter's own update to 0.4, with a stored inverse to a factor of 4.)

Layer l (counted from 1) has the scale ``q = 4^-l`` and the matrix ``Sigma = q lam I + sum w^2 x x^T``. It learns only
with the weight ``w^2 = q / (x^T Sigma^-1 x)``. Its root is that of ``P = q Sigma^-1``, which starts at ``I / lam`` in
every layer and stays in float32's range however deep the layer; in the norm of P the weight makes ``t = q`` exactly.
With ``s = x^T P x`` and the gain ``g = q / ((1 + q) s)``, one observation is

    theta <- theta + g e P x          loss <- loss + q g e^2

Three quantities of the theory follow without being stored (lam = 1 in SAVE):

    empirical variance sum   sum w^2 (y - <theta, x>)^2 = loss - q lam |theta|^2     (under the current theta)
    log determinant          log det Sigma = d log(q lam) + count log(1 + q)
    width                    |x|_{Sigma^-1} = sqrt(x^T P x / q)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from chex import ArrayTree
from jax.typing import DTypeLike

from jaxvar import parameters, status
from jaxvar.constants import RadiusConstants
from jaxvar.lowering import (
    computed_once,
    each_used_layer,
    inner,
    is_layer,
    largest,
    lowest,
    map_layer,
    of_layer,
    square_lengths,
    together,
    transform,
)
from jaxvar.parameters import Array, Number
from jaxvar.sums import Sum, empty_sum

OtherSums = tuple[jax.Array, Sum, Sum, jax.Array]  # of a layer: estimate, losses, weights, count
RENEW_EVERY = 128  # rounds: the statistics of fixed arms
MOST_LOST = 0.1  # of a squared width, relative
MAX_LAYERS = 200  # 4^-200 is still a float64; no horizon asks for more


class Inverse(NamedTuple):
    """The inverse of a matrix ``V = lam I + sum w^2 x x^T`` that grows."""

    root: jax.Array  # [d, d]   R with R R^T = V^-1
    log_dets: Sum  # []   of log det V - d log lam
    lam: jax.Array  # []

    @property
    def matrix(self) -> jax.Array:
        """``V^-1``, [d, d]."""
        return squared(self.root)

    @property
    def log_det(self) -> jax.Array:
        """``log det V - d log lam``, []."""
        return self.log_dets.total


class Layers(NamedTuple):
    """A stack of layers, the first ``capacity`` of the paper's L; one layer is the same without the leading axis."""

    root: jax.Array  # [capacity, d, d]   R with R R^T = P = q Sigma^-1
    theta_hat: jax.Array  # [capacity, d]
    losses: Sum  # [capacity]   its total is the least value of sum w^2 (y - <theta, x>)^2 + q lam |theta|^2
    weights: Sum  # [capacity]   of w^2
    count: jax.Array  # type: ignore[assignment]  # [capacity]   int32, number of observations
    lam: jax.Array  # [capacity]
    scale: jax.Array  # [capacity]   q

    @property
    def scaled_inv(self) -> jax.Array:
        """``P = q Sigma^-1``, [capacity, d, d]."""
        return squared(self.root)

    @property
    def loss(self) -> jax.Array:
        """The least regularised loss, [capacity]."""
        return self.losses.total

    @property
    def weight_sum(self) -> jax.Array:
        """``sum w^2``, [capacity]."""
        return self.weights.total


class Ridge(NamedTuple):
    """Plain ridge regression: every observation counts once."""

    inverse: Inverse  # of V = lam I + sum x x^T
    theta_hat: jax.Array  # [d]
    losses: Sum  # []   its total is the least value of sum (y - <theta, x>)^2 + lam |theta|^2

    @property
    def root(self) -> jax.Array:
        """R with ``R R^T = V^-1``, [d, d]."""
        return self.inverse.root

    @property
    def sigma_inv(self) -> jax.Array:
        """``V^-1``, [d, d]."""
        return self.inverse.matrix

    @property
    def log_det(self) -> jax.Array:
        """``log det V - d log lam``, []."""
        return self.inverse.log_det

    @property
    def loss(self) -> jax.Array:
        """The least regularised loss, []."""
        return self.losses.total


class Move(NamedTuple):
    """A change of a root by one observation: ``R <- R - away h^T + along shrink^T``."""

    away: jax.Array  # [d]
    h: jax.Array  # [d]   g + e_k
    along: jax.Array  # [d]   R g
    shrink: jax.Array  # [d]   1 - 1 / sqrt(1 + t) in entry k, 0 elsewhere


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


def squared(root: jax.Array) -> jax.Array:
    """Return ``R R^T`` of a root, or of each of a stack, [..., d, d]."""
    return root @ jnp.swapaxes(root, -1, -2)


def init_inverse(dim: int, lam: Number, dtype: DTypeLike) -> Inverse:
    """Return the inverse of ``V = lam I``."""
    lam = jnp.asarray(lam, dtype)
    return Inverse(jnp.eye(dim, dtype=dtype) / jnp.sqrt(lam), empty_sum((), dtype), lam)


def init_ridge(dim: int, lam: Number, dtype: DTypeLike) -> Ridge:
    """Return a regression that has seen nothing: ``V = lam I``."""
    return Ridge(init_inverse(dim, lam, dtype), jnp.zeros(dim, dtype), empty_sum((), dtype))


def learn_root(
    root: jax.Array, x: jax.Array, times: Number = 1.0, growth: jax.Array | None = None
) -> tuple[Move, jax.Array, jax.Array]:
    """Return how a root moves with an observation x, and ``V^-1 x``, [d], and ``x^T V^-1 x``, [], before it.

    Args:
      root: R with ``R R^T = V^-1``, [d, d].
      x: [d].
      times: w^2, how often it counts, [].
      growth: ``t = w^2 x^T V^-1 x`` where it is known, [].
    """
    limits, mine = np.finfo(root.dtype), np.arange(x.shape[0], dtype=np.int32) == 0  # column k is the first one
    seen = transform(root, x)  # f
    if limits.bits < 64:
        # Here each column that is turned loses digits: k is the one that sees most of x already, and for what may be
        # rounding, as if x were another by its last digit, none is turned. (Where two or three arms fill layer 7 the
        # first column and no such rule left squared widths right to 0.05, these to 1e-3.)
        rounding = float(2 * limits.eps) * transform(jnp.abs(root), jnp.abs(x))
        seen = jnp.where(jnp.abs(seen) <= rounding, 0, seen)
        mine = np.arange(x.shape[0], dtype=np.int32) == lowest(jnp.abs(seen) >= largest(jnp.abs(seen)))
    column = jnp.sum(jnp.where(mine[None], root, 0), axis=1)  # r
    width2 = jnp.sum(seen * seen, axis=0)
    is_seen = width2 > float(limits.tiny / limits.eps)  # else squares have underflowed, and nothing is learned
    own = jnp.sum(jnp.where(mine, seen, 0), axis=0)  # f_k
    length = jnp.where(own < 0, -1, 1) * jnp.sqrt(width2)
    share = seen * (1 / jnp.where(is_seen, length, jnp.inf))
    half = 1 / (1 + jnp.sum(jnp.where(mine, share, 0), axis=0))
    first = 1 - jnp.sum(jnp.where(mine, 0, share * share), axis=0) * half  # g_k, which is most often 1
    along = inner(root, jnp.where(mine, first, share))
    width2 = jnp.where(is_seen, width2, 0)
    growth = times * width2 if growth is None else jnp.where(is_seen, growth, 0)
    scale = jnp.sqrt(1 + growth)
    # 1 - 1 / sqrt(1 + t) as a difference would lose the digits of a small t.
    shrink = jnp.where(mine, growth / (scale * (scale + 1)), 0)
    h = jnp.where(mine, jnp.where(is_seen, 1 + first, 0), share)
    return Move((column + along) * half, h, along, shrink), length * along, width2


def moved(root: jax.Array, move: Move) -> jax.Array:
    """Return the ``root [d, d]`` after an observation."""
    return root - move.away[:, None] * move.h[None] + move.along[:, None] * move.shrink[None]


def learn_inverse(inverse: Inverse, x: jax.Array, times: Number = 1.0) -> tuple[Inverse, jax.Array, jax.Array]:
    """Return the inverse after ``V`` has grown by ``times x x^T``; and as :func:`learn_root` what it saw before."""
    move, direction, width2 = learn_root(inverse.root, x, times)
    log_dets = inverse.log_dets.add(jnp.log1p(times * width2))
    return Inverse(moved(inverse.root, move), log_dets, inverse.lam), direction, width2


def regress(ridge: Ridge, x: jax.Array, y: jax.Array) -> tuple[Ridge, Update]:
    """Learn one more observation ``(x [d], y [])``; a weighted one is ``(w x, w y)``."""
    inverse, direction, width2 = learn_inverse(ridge.inverse, x)
    error = y - jnp.sum(ridge.theta_hat * x, axis=0)
    gain, step = 1 / (1 + width2), error / (1 + width2)
    new = Ridge(inverse, ridge.theta_hat + step * direction, ridge.losses.add(step * error))
    return new, Update(direction, gain, step, error, width2)


def width2(root: jax.Array, x: jax.Array) -> jax.Array:
    """Return ``x^T V^-1 x`` of one ``x [d]``, []."""
    return along(root, x)[1]


def along(root: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return ``V^-1 x``, [d], and ``x^T V^-1 x``, [], of one ``x [d]``."""
    seen = transform(root, x)
    return inner(root, seen), jnp.sum(seen * seen, axis=0)


def arm_stats(regression: Ridge | Layers, arms: jax.Array) -> ArmStats:
    """Return the squared widths and estimates of ``arms [N, d]`` in a regression or in one layer."""
    return together(ArmStats(square_lengths(arms, regression.root), inner(arms, regression.theta_hat)))


def follow(
    stats: ArmStats, after: Ridge | Layers, update: Update | LayerUpdate, arms: jax.Array, round: jax.Array
) -> ArmStats:
    """Return the statistics of fixed ``arms [N, d]`` after an update: ``width2 - g (a^T u)^2``, ``pred + h a^T u``.

    O(N d) instead of O(N d^2); g and h are the update's gain and step. What rounding does to a width stays while the
    width shrinks, so that every 128th ``round []`` makes them anew, from the regression ``after`` the update.
    """
    return jax.lax.cond(round % RENEW_EVERY == 0, lambda: arm_stats(after, arms), lambda: _moved(stats, update, arms))


def _moved(stats: ArmStats, update: Update | LayerUpdate, arms: jax.Array) -> ArmStats:
    along = inner(arms, update.direction)
    return ArmStats(jnp.maximum(stats.width2 - update.gain * along * along, 0), stats.pred + update.step * along)


def failure(update: Update | LayerUpdate, beta: Number = 0.0) -> jax.Array:
    """Return the status bits of an observation, int32 []: those of what it did, and of the radius ``beta`` after it."""
    finite = jnp.isfinite(update.error) & jnp.isfinite(update.width2) & jnp.isfinite(beta)
    return jnp.where(finite, 0, status.NONFINITE).astype(jnp.int32)


# Layers.


def scales(capacity: int, dtype: DTypeLike) -> Array:
    """Return ``q = 4^-l`` for l = 1..capacity."""
    return np.power(4.0, -np.arange(1, capacity + 1)).astype(dtype)


def init_layers(dim: int, capacity: int, lam: Number, dtype: DTypeLike) -> Layers:
    """Return layers that have seen nothing: ``Sigma = q lam I``."""
    lam = jnp.asarray(lam, dtype)
    return Layers(
        root=jnp.broadcast_to(jnp.eye(dim, dtype=dtype), (capacity, dim, dim)) / jnp.sqrt(lam),
        theta_hat=jnp.zeros((capacity, dim), dtype),
        losses=empty_sum((capacity,), dtype),
        weights=empty_sum((capacity,), dtype),
        count=jnp.zeros(capacity, jnp.int32),
        lam=jnp.broadcast_to(lam, (capacity,)),
        scale=jnp.asarray(scales(capacity, dtype)),
    )


def layer_stats(layers: Layers, arms: jax.Array, beta: jax.Array) -> LayerStats:
    """Return what every layer, with the radii ``beta [capacity]``, knows of ``arms [N, d]``, [capacity, N] each."""
    width2, none = jnp.sum(arms * arms, axis=1) / layers.lam[0], float(np.finfo(arms.dtype).max)  # where P is I / lam
    slope = beta / np.sqrt(scales(layers.loss.shape[0], arms.dtype))

    def in_layer(layer: Layers, slope: jax.Array) -> LayerStats:
        width2, pred = arm_stats(layer, arms)
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
    stats: LayerStats,
    after: Layers,
    layer: jax.Array,
    update: LayerUpdate,
    arms: jax.Array,
    beta: jax.Array,
    round: jax.Array,
) -> LayerStats:
    """Return the statistics ``[capacity, N]`` of fixed ``arms [N, d]`` after layer ``layer`` (0: none) has learned.

    Its radius ``beta []`` is the one after that; ``round []`` as in :func:`follow`.
    """
    before = of_layer(ArmStats(stats.width2, stats.pred), layer)

    def anew() -> ArmStats:
        return arm_stats(of_layer(after, layer), arms)

    width2, pred = jax.lax.cond(round % RENEW_EVERY == 0, anew, lambda: _moved(before, update, arms))
    slope = beta / jnp.sqrt(jnp.where(layer > 0, update.scale, 1))
    return map_layer(lambda new, _: new, layer, LayerStats(width2, pred + slope * jnp.sqrt(width2), pred), stats)


def learn(layer: Layers, q: jax.Array, x: jax.Array, reward: jax.Array) -> tuple[Layers, LayerUpdate]:
    """Let one layer of scale ``q`` learn from ``(x, reward)`` with its prescribed weight; where q is 0, nothing."""
    move, rest, update = _learn(layer, q, jnp.where(q > 0, x, 0), reward)  # else R would be turned for nothing
    return Layers(moved(layer.root, move), *rest, layer.lam, layer.scale), update


def observe(layers: Layers, layer: jax.Array, x: jax.Array, reward: jax.Array) -> tuple[Layers, LayerUpdate]:
    """Let layer ``layer`` (1-based; 0 for none) of the stack learn from ``(x, reward)``."""
    changing, (lam, scale) = layers[:-2], layers[-2:]
    q = jnp.sum(jnp.where(is_layer(layers.count.shape[0], layer), scale, 0), axis=0)
    move, rest, update = _learn(Layers(*of_layer(changing, layer), lam[0], q), q, x, reward)

    def change(told: tuple[Move, OtherSums], old: tuple[Any, ...]) -> tuple[Any, ...]:
        return (moved(old[0], told[0]), *told[1])

    return Layers(*map_layer(change, layer, (move, rest), changing), lam, scale), update


def _learn(layer: Layers, q: jax.Array, x: jax.Array, reward: jax.Array) -> tuple[Move, OtherSums, LayerUpdate]:
    """Return how the layer's root moves, what its other sums become, and the effect of the observation."""
    move, direction, width2 = learn_root(layer.root, x, growth=q)
    error = reward - jnp.sum(layer.theta_hat * x, axis=0)
    gain = q / jnp.where(width2 > 0, (1 + q) * width2, jnp.inf)
    step = gain * error
    theta_hat, count = layer.theta_hat + step * direction, layer.count + (q > 0).astype(jnp.int32)
    losses, weights = layer.losses.add(q * step * error), layer.weights.add(q * (1 + q) * gain)  # w^2 = q^2 / s
    variance_sum = jnp.maximum(losses.total - q * layer.lam * jnp.sum(theta_hat**2, axis=0), 0)
    update = LayerUpdate(direction, gain, width2, q, step, error, losses.total, variance_sum, weights.total, count)
    return move, (theta_hat, losses, weights, count), update


def empirical_variance(layers: Layers) -> jax.Array:
    """Return ``sum w^2 (y - <theta_hat, x>)^2`` of each layer under its current estimate, ``[capacity]``."""
    return jnp.maximum(layers.loss - layers.scale * layers.lam * jnp.sum(layers.theta_hat**2, axis=1), 0)


def log_det(layers: Layers) -> jax.Array:
    """Return ``log det Sigma`` of one layer from its count alone, [], or of each of a stack."""
    dim, q = layers.root.shape[-1], layers.scale
    return dim * jnp.log(q * layers.lam) + layers.count.astype(q.dtype) * jnp.log1p(q)


def _log_abs_det(matrix: jax.Array) -> jax.Array:
    """Return ``log |det M|`` of a matrix, or of each of a stack, [...]: its columns are made orthogonal, and measured.

    A library's determinant would be called from the loop over rounds, which then is no loop of XLA's any more: 0.33
    instead of 0.046 us of processor time per seed-round of OFUL, though it is called once in a thousand rounds.
    """

    def turn(j: jax.Array, loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        rest, total = loop
        column = jax.lax.dynamic_index_in_dim(rest, j, axis=-1)  # [..., d, 1]
        square = jnp.sum(column * column, axis=(-2, -1))
        share = jnp.sum(column * rest, axis=-2, keepdims=True) / square[..., None, None]
        return rest - column * share, total + jnp.log(square) / 2

    start = (matrix, jnp.zeros(matrix.shape[:-2], matrix.dtype))
    return jax.lax.fori_loop(0, matrix.shape[-1], turn, start)[1]


def lost_digits(state: ArrayTree) -> jax.Array:
    """Return ``status.PRECISION`` where rounding has taken digits of an inverse in ``state``, else 0; int32 [].

    Of every :class:`Inverse` and of all :class:`Layers` the determinant is known apart from the root: as a sum over
    observations, or from their number. A root whose own determinant is off by a tenth has a squared width off by that.
    """
    bits = jnp.int32(0)
    for found in jax.tree.leaves(state, is_leaf=lambda v: isinstance(v, Inverse | Layers)):
        if isinstance(found, Inverse | Layers):
            dim = found.root.shape[-1]
            known = dim * jnp.log(found.lam) + found.log_det if isinstance(found, Inverse) else log_det(found)
            held = -2 * _log_abs_det(found.root)
            held = held if isinstance(found, Inverse) else held + dim * jnp.log(found.scale)
            # What is not finite has a status already.
            lost = ~(jnp.abs(held - known) <= MOST_LOST) & jnp.isfinite(jnp.sum(found.root, axis=(-2, -1)))
            bits = bits | jnp.where(jnp.any(lost), status.PRECISION, 0).astype(jnp.int32)
    return bits


def layer_failure(update: LayerUpdate, beta: Number) -> jax.Array:
    """Return the status bits of an observation that a layer took, int32 []."""
    lost = jnp.where(update.width2 > 0, 0, status.PRECISION)  # a width that underflowed has no weight
    return jnp.where(update.scale > 0, failure(update, beta) | lost, 0).astype(jnp.int32)


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
