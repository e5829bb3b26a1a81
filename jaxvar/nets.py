"""Confidence sets without a closed form, kept on a net: directions, clipped sums, tests, and boxes that zoom in.

A set of parameters is described by a finite number of constraints, one for each unit direction mu and each clipping
scale l. With the weight ``a = clip(<x, mu>, l)`` of an observation ``(x, y)``, which is known before y is drawn,

    T(theta) = |sum a (y - <x, theta>)|          V(theta) = sum a^2 (y - <x, theta>)^2

and theta stays if T is small for its V. Both are polynomials in theta: a few sums give them exactly for every theta,
and no history is kept. A direction and its negative say the same, and ``clip(c z, c l) = c clip(z, l)``: so half a
sphere of unit directions with the scales 1, 1/2, 1/4, ... stands for a net of a whole ball. No constraint needs the
others: with fewer directions and scales the set is larger and as valid.

The parameters are the cells of a box, ``cells`` along each axis. A cell stays while it may hold a theta that passes:
for theta within the cell of a point p, with half-sides c, S = sum a x and M = sum a^2 x x^T,

    T(theta) >= T(p) - sum_i c_i |S_i|          sqrt V(theta) <= sqrt V(p) + max over corners delta of |delta|_M

so that the cell of a parameter that passes is never lost. Where what is left fits into half of the box, the box around
it becomes the new one, cut into as many cells: resolution follows the data, memory does not. Boxes keep their sides
parallel to the axes, so that a thin set across them is resolved no better than it is long.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import status
from jaxvar.lowering import combine, outer
from jaxvar.parameters import Number

_SLACK = 1e-9  # of comparisons that a parameter on an edge decides; it lets more pass, never less
_FINEST = 4096  # no box has cells of fewer rounding errors than this


class Clipping(NamedTuple):
    """The directions and scales of all constraints: constants of the program."""

    directions: np.ndarray  # [M, d]   unit vectors of a half sphere
    scales: np.ndarray  # [J]   1, 1/2, 1/4, ...

    @property
    def num(self) -> int:
        """J M, how many constraints there are."""
        return self.directions.shape[0] * self.scales.shape[0]

    @property
    def scale(self) -> np.ndarray:
        """The scale of each constraint, [J M]; directions vary fastest."""
        return np.repeat(self.scales, self.directions.shape[0])


class Sums(NamedTuple):
    """Sums over all observations that give T and V, for each of C constraints."""

    ay: jax.Array  # [C]   sum a y
    ax: jax.Array  # [C, d]   sum a x
    aayy: jax.Array  # [C]   sum a^2 y^2
    aayx: jax.Array  # [C, d]   sum a^2 y x
    aaxx: jax.Array  # [C, d, d]   sum a^2 x x^T


class Net(NamedTuple):
    """A box of cells, and which of them are left."""

    center: jax.Array  # [d]
    half: jax.Array  # [d]   half the box's sides
    alive: jax.Array  # [N]   bool, N = cells^d


def clipping(dim: int, num_directions: int, num_scales: int) -> Clipping:
    """Return evenly spread directions (on a spiral in three dimensions) and the scales ``2^-j, j = 0, 1, ...``."""
    index = np.arange(num_directions)
    if dim == 1:
        directions = np.ones((num_directions, 1))
    elif dim == 2:
        angle = np.pi * index / num_directions
        directions = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    else:
        height, turn = (index + 0.5) / num_directions, index * np.pi * (3 - math.sqrt(5))
        level = np.sqrt(1 - height**2)
        directions = np.stack([level * np.cos(turn), level * np.sin(turn), height], axis=1)
    return Clipping(directions, 2.0 ** -np.arange(num_scales))


def weights(x: jax.Array, clip: Clipping) -> jax.Array:
    """Return ``clip(<x, mu>, l)`` of ``x [d]`` for each constraint, [C]."""
    along = combine(jnp.asarray(clip.directions.T, x.dtype), x[:, None])
    limit = clip.scales[:, None].astype(x.dtype)
    return jnp.clip(along[None], -limit, limit).reshape(clip.num)


def init_sums(num: int, dim: int, dtype: np.dtype) -> Sums:
    """Return sums over no observation."""
    shapes = ((num,), (num, dim), (num,), (num, dim), (num, dim, dim))
    return Sums(*(jnp.zeros(shape, dtype) for shape in shapes))


def add(sums: Sums, a: jax.Array, x: jax.Array, y: jax.Array) -> Sums:
    """Return the sums with one more observation ``x [d], y []`` of the weights ``a [C]``."""
    aa, yx, xx = a * a, y * x, outer(x)
    return Sums(
        ay=sums.ay + a * y,
        ax=sums.ax + a[:, None] * x[None],
        aayy=sums.aayy + aa * (y * y),
        aayx=sums.aayx + aa[:, None] * yx[None],
        aaxx=sums.aaxx + aa[:, None, None] * xx[None],
    )


def deviation(ay: jax.Array, ax: jax.Array, points: jax.Array) -> jax.Array:
    """Return ``T = |sum a (y - <x, theta>)|`` of each constraint at each of ``points [N, d]``, [C, N]."""
    return jnp.abs(ay[:, None] - _products(ax, points))


def square_sum(sums: Sums, points: jax.Array) -> jax.Array:
    """Return ``V = sum a^2 (y - <x, theta>)^2`` of each constraint at each of ``points [N, d]``, [C, N]."""
    dim = points.shape[1]
    linear = _products(sums.aayx, points)
    square = jnp.zeros_like(linear)
    for i in range(dim):
        for j in range(i + 1):
            both = (points[:, i] * points[:, j])[None]
            square = square + (1 if i == j else 2) * sums.aaxx[:, i, j][:, None] * both
    return jnp.maximum(sums.aayy[:, None] - 2 * linear + square, 0)


def cell_shift(vectors: jax.Array, cell: jax.Array) -> jax.Array:
    """Return the most that ``<v, theta>`` differs within a cell of half-sides ``cell [d]`` from its middle, [C]."""
    return combine(jnp.abs(jnp.moveaxis(vectors, 1, 0)), cell[:, None])


def cell_norm(matrices: jax.Array, cell: jax.Array) -> jax.Array:
    """Return the largest ``sqrt(delta^T M delta)`` in a cell of half-sides ``cell [d]``, at a corner, [C]."""
    dim = cell.shape[0]
    largest = jnp.zeros_like(matrices[:, 0, 0])
    for signs in itertools.product((1, -1), repeat=dim - 1):  # opposite corners are alike
        corner = [cell[i] * sign for i, sign in enumerate((1, *signs))]
        square = jnp.zeros_like(largest)
        for i in range(dim):
            for j in range(dim):
                square = square + matrices[:, i, j] * corner[i] * corner[j]
        largest = jnp.maximum(largest, square)
    return jnp.sqrt(largest)


# Exponential inequalities. For |X_s| <= 1 with mean zero given the past and 0 < lam, with probability 1 - e^-u,
#   lam sum X <= psi(lam) sum X^2 + u,          psi(lam) = -log(1 - lam) - lam,  lam < 1   (Fan, Grama, Liu 2015)
#   lam sum X <= phi(lam) sum E[X^2 | past] + u,          phi(lam) = e^lam - 1 - lam       (Freedman 1975)
# at all times at once, since both are supermartingales. A grid of lam stands for the best one.


def exponents(largest: float, num: int) -> np.ndarray:
    """Return the grid ``largest 2^(-q/2)`` of lam, ``q = 0, ..., num - 1``."""
    return largest * 2.0 ** (-np.arange(num) / 2)


def empirical_rate(lam: np.ndarray) -> np.ndarray:
    """Return ``psi(lam) = -log(1 - lam) - lam``."""
    return -np.log1p(-lam) - lam


def freedman_rate(lam: np.ndarray) -> np.ndarray:
    """Return ``phi(lam) = e^lam - 1 - lam``."""
    return np.expm1(lam) - lam


def exponential_limit(square: jax.Array, log: jax.Array, lam: np.ndarray, rate: np.ndarray) -> jax.Array:
    """Return ``min over lam of (rate(lam) square + log) / lam`` for ``square [...]``, whose terms are at most 1."""
    slope, level = (rate / lam).astype(square.dtype), (1 / lam).astype(square.dtype)
    least = slope[0] * square + level[0] * log
    for q in range(1, len(lam)):
        least = jnp.minimum(least, slope[q] * square + level[q] * log)
    return least


# The box of cells.


def grid(dim: int, cells: int) -> np.ndarray:
    """Return the middles of the cells of ``[-1, 1]^d``, [N, d]."""
    return (2 * _places(dim, cells) + 1 - cells) / cells


def init_net(dim: int, cells: int, bound: Number, dtype: np.dtype) -> Net:
    """Return all cells of ``[-bound, bound]^d``."""
    half = jnp.broadcast_to(jnp.asarray(bound, dtype), (dim,))
    return Net(jnp.zeros(dim, dtype), half, jnp.ones(cells**dim, bool))


def points(net: Net, cells: int) -> jax.Array:
    """Return the middles of all cells, [N, d]."""
    middles = grid(net.center.shape[0], cells).astype(net.center.dtype)
    return net.center[None] + net.half[None] * middles


def meets_ball(points: jax.Array, cell: jax.Array, bound: Number) -> jax.Array:
    """Return which cells hold a parameter of norm at most ``bound []``, bool [N]."""
    nearest = jnp.maximum(jnp.abs(points) - cell[None], 0)
    return jnp.sum(nearest * nearest, axis=1) <= (1 + _SLACK) * bound * bound


def meets_kernels(points: jax.Array, cell: jax.Array, phi: jax.Array) -> jax.Array:
    """Return which cells may hold a theta whose ``<phi(. | s, a), theta>`` are distributions, bool [N].

    Each entry and each sum of a row of ``phi [S, A, S, d]`` is tried by itself.
    """
    dim = phi.shape[3]
    entries, sums = phi.reshape(-1, dim), jnp.sum(phi, axis=2).reshape(-1, dim)
    positive = _products(entries, points) >= -(cell_shift(entries, cell) + _SLACK)[:, None]
    whole = jnp.abs(_products(sums, points) - 1) <= (cell_shift(sums, cell) + _SLACK)[:, None]
    return jnp.all(positive, axis=0) & jnp.all(whole, axis=0)


def zoom(net: Net, cells: int) -> Net:
    """Return the box around the cells left, with all its cells, where it has at most half the volume of the old."""
    dim = net.center.shape[0]
    place = _places(dim, cells)
    low = jnp.min(jnp.where(net.alive[:, None], place, cells), axis=0).astype(net.half.dtype)
    high = jnp.max(jnp.where(net.alive[:, None], place, -1), axis=0).astype(net.half.dtype)
    # An axis along which cells are as fine as rounding allows keeps its side, whatever the others do.
    rounding = np.finfo(net.half.dtype).eps * jnp.max(jnp.abs(net.center) + net.half, axis=0)
    coarse = net.half * (high - low + 1) >= _FINEST * cells**2 * rounding
    low, high = jnp.where(coarse, low, 0), jnp.where(coarse, high, cells - 1)
    span = high - low + 1
    half = net.half * span / cells
    center = net.center + net.half * (low + high + 1 - cells) / cells
    zooms = jnp.prod(span, axis=0) <= cells**dim / 2
    return Net(
        center=jnp.where(zooms, center, net.center),
        half=jnp.where(zooms, half, net.half),
        alive=net.alive | zooms,
    )


def refine(
    net: Net, cells: int, due: jax.Array, keep: Callable[[jax.Array, jax.Array], jax.Array]
) -> tuple[Net, jax.Array]:
    """Zoom and drop the cells without ``keep(points [N, d], cell [d])`` where it is ``due []`` and some cell is left.

    Returns:
      The net, and whether no cell was left, bool [].
    """

    def look() -> tuple[Net, jax.Array]:
        zoomed = zoom(net, cells)
        alive = zoomed.alive & keep(points(zoomed, cells), zoomed.half / cells)
        found = jnp.any(alive)
        new = Net(zoomed.center, zoomed.half, alive)
        return Net(*(jnp.where(found, x, y) for x, y in zip(new, net, strict=True))), ~found

    return jax.lax.cond(due, look, lambda: (net, jnp.zeros((), bool)))


def support(vectors: jax.Array, net: Net, cells: int) -> jax.Array:
    """Return the largest ``<v, theta>`` over all cells left, for each row of ``vectors [A, d]``, [A]."""
    values = jnp.where(net.alive[None], _products(vectors, points(net, cells)), -jnp.inf)
    return jnp.max(values, axis=1) + cell_shift(vectors, net.half / cells)


def largest_variance(first: jax.Array, second: jax.Array, net: Net, cells: int) -> jax.Array:
    """Return the largest ``<second, theta> - <first, theta>^2`` over all cells left, for both ``[A, d]``, [A]."""
    middles, cell = points(net, cells), net.half / cells
    mean = jnp.maximum(jnp.abs(_products(first, middles)) - cell_shift(first, cell)[:, None], 0)
    value = jnp.where(net.alive[None], _products(second, middles) - mean * mean, -jnp.inf)
    return jnp.max(value, axis=1) + cell_shift(second, cell)


def contains(net: Net, cells: int, theta: jax.Array) -> jax.Array:
    """Return whether a cell that holds ``theta [d]`` is left, bool []."""
    cell = net.half / cells
    near = jnp.abs(points(net, cells) - theta[None]) <= (1 + _SLACK) * cell[None]
    return jnp.any(net.alive & jnp.all(near, axis=1), axis=0)


def mirror(vector: jax.Array) -> jax.Array:
    """Return the unit vector whose reflection ``x - 2 <w, x> w`` takes ``vector [d]`` to the first axis, [d]."""
    first = np.eye(vector.shape[0], dtype=vector.dtype)[0]
    size = jnp.sqrt(jnp.sum(vector * vector, axis=0))
    w = vector / jnp.where(size > 0, size, 1) + jnp.where(vector[0] >= 0, 1, -1).astype(first.dtype) * first
    return w / jnp.sqrt(jnp.sum(w * w, axis=0))


def reflect(vectors: jax.Array, w: jax.Array) -> jax.Array:
    """Return ``x - 2 <w, x> w`` for each row of ``vectors [A, d]``; its own inverse, and inner products stay."""
    return vectors - 2 * combine(jnp.moveaxis(vectors, 1, 0), w[:, None])[:, None] * w[None]


def failure(empty: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the status bits of an observation of any shape, after which the net was ``empty []`` or not, int32 []."""
    finite = jnp.all(jnp.isfinite(x)) & jnp.all(jnp.isfinite(y))
    bits = jnp.where(finite, 0, status.NONFINITE) | jnp.where(empty, status.EMPTY, 0)
    return bits.astype(jnp.int32)


def _places(dim: int, cells: int) -> np.ndarray:
    """Return the place of each cell along each axis, counted from 0, int32 [N, d]; the last axis varies fastest."""
    return np.stack(np.unravel_index(np.arange(cells**dim), (cells,) * dim), axis=1).astype(np.int32)


def _products(vectors: jax.Array, points: jax.Array) -> jax.Array:
    """Return ``<v, p>`` for each row of ``vectors [C, d]`` and of ``points [N, d]``, [C, N]."""
    return combine(jnp.moveaxis(vectors, 1, 0)[:, :, None], jnp.moveaxis(points, 1, 0)[:, None])
