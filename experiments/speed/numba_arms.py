"""Shared by the Numba rivals of bandits: the arms of a round, and products with all of them.

Arms lie along the last, contiguous axis, so that loops over arms become vector instructions. The dimension is the
length of `axes`. Up to UNROLLED this is a tuple, whose length the compiler knows, so that loops over features unroll;
above it is an array, one program serves all dimensions, and loops take four features at a time for all arms.
"""

import math
from typing import NamedTuple

from experiments.speed.numba_random import Array, Axes, Bits, fast, normals

UNROLLED = 12  # largest dimension that the compiler knows


class Arms(NamedTuple):
    """The arms of a round: unit vectors scale_a x_a, and their mean rewards."""

    theta_star: Array  # [dim]
    x: Array  # [dim, arms]
    scale: Array  # [arms]
    mean: Array  # [arms]


@fast
def dot(u: Array, v: Array, axes: Axes) -> float:
    """Return <u, v>."""
    total = 0.0
    for i in range(len(axes)):
        total += u[i] * v[i]
    return total


@fast
def along(x: Array, vector: Array, n: int, out: Array, axes: Axes) -> None:
    """Write <x_a, vector> of the first n arms."""
    dim = len(axes)
    if dim <= UNROLLED:
        for a in range(n):
            total = 0.0
            for i in range(len(axes)):
                total += x[i, a] * vector[i]
            out[a] = total
        return
    out[:n] = 0.0
    whole = dim - dim % 4
    for i in range(0, whole, 4):
        v0, v1, v2, v3 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        for a in range(n):
            out[a] += v0 * x[i, a] + v1 * x[i + 1, a] + (v2 * x[i + 2, a] + v3 * x[i + 3, a])
    for i in range(whole, dim):
        for a in range(n):
            out[a] += vector[i] * x[i, a]


@fast
def draw(arms: Arms, axes: Axes, rng: Bits) -> None:
    """Draw the arms of a round."""
    x, scale, mean, theta_star = arms.x, arms.scale, arms.mean, arms.theta_star
    normals(x, rng)
    if len(axes) > UNROLLED:
        along(x, theta_star, x.shape[1], mean, axes)
        scale[:] = 0.0
        for i in range(len(axes)):
            for a in range(x.shape[1]):
                scale[a] += x[i, a] * x[i, a]
        for a in range(x.shape[1]):
            scale[a] = 1.0 / math.sqrt(scale[a])
            mean[a] *= scale[a]
        return
    for a in range(x.shape[1]):
        square, inner = 0.0, 0.0
        for i in range(len(axes)):
            square += x[i, a] * x[i, a]
            inner += x[i, a] * theta_star[i]
        scale[a] = 1.0 / math.sqrt(square)
        mean[a] = inner / math.sqrt(square)
