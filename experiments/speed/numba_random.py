"""Shared parts of the Numba rivals: compiler flags, aligned memory and random numbers.

Random numbers are those of xoroshiro128++; normals come from a ziggurat with 1,024 layers.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

LANES = 64  # seeds that play side by side in vector lanes
TABLE = 1024  # layers of the ziggurat
TAIL = 4.038849846109505  # where its tail begins: gives every layer the same area

Array = NDArray[np.float64]
Axes = tuple[int, ...]  # its length is a size that the compiler knows
Bits = NDArray[np.uint64]
Indices = NDArray[np.int64]
F = TypeVar("F", bound=Callable[..., Any])

_U = np.uint64


def fast(function: F) -> F:
    """Compile; no NaN occurs, so the flags only permit another order of summation and fused products."""
    return cast(F, njit(fastmath={"reassoc", "contract", "nsz", "nnan"}, error_model="numpy")(function))


@fast
def aligned(leading: int, rows: int) -> Array:
    """Return zeros that begin on a boundary of the widest vectors."""
    room = np.zeros(leading * rows * LANES + 8)
    first = -(room.ctypes.data // 8) % 8
    return room[first : first + leading * rows * LANES].reshape(leading, rows * LANES)


def _ziggurat() -> tuple[Array, Array]:
    """Edges of the ziggurat's layers, widest first, and exp(-x^2 / 2) at them."""
    area = TAIL * math.exp(-0.5 * TAIL**2) + math.sqrt(math.pi / 2) * math.erfc(TAIL / math.sqrt(2))
    edges = np.zeros(TABLE + 1)
    edges[0], edges[1] = area * math.exp(0.5 * TAIL**2), TAIL
    for i in range(2, TABLE):
        edges[i] = math.sqrt(-2 * math.log(area / edges[i - 1] + math.exp(-0.5 * edges[i - 1] ** 2)))
    return edges, np.exp(-0.5 * edges**2)


_EDGE, _DENSITY = _ziggurat()
_INNER, _STEP = _EDGE[1:].copy(), _EDGE[:-1] * 2.0**-52


@fast
def _rotate(bits: np.uint64, by: np.uint64) -> np.uint64:
    return (bits << by) | (bits >> (_U(64) - by))


@fast
def _next(s0: np.uint64, s1: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    """One step of xoroshiro128++: 64 random bits and the new state."""
    bits = _rotate(s0 + s1, _U(17)) + s0
    s1 ^= s0
    return bits, _rotate(s0, _U(49)) ^ s1 ^ (s1 << _U(21)), _rotate(s1, _U(28))


@fast
def _uniform(bits: np.uint64) -> float:
    return (np.float64(bits >> _U(11)) + 0.5) * 2.0**-53


@fast
def uniforms(rng: Bits, uniform: Array) -> None:
    """Fill `uniform` with one number of each of the generators `rng`."""
    for b in range(LANES):
        bits, rng[0, b], rng[1, b] = _next(rng[0, b], rng[1, b])
        uniform[b] = _uniform(bits)


@fast
def normals(out: Array, rng: Bits) -> None:
    """Fill `out` with standard normals; of 64 bits the upper 53 are a signed position, the lower 10 a layer."""
    flat, s0, s1, i = out.reshape(out.size), rng[0], rng[1], 0
    while i < flat.size:
        bits, s0, s1 = _next(s0, s1)
        k = bits & _U(TABLE - 1)
        x = np.float64(np.int64(bits) >> np.int64(11)) * _STEP[k]
        if abs(x) >= _INNER[k]:
            bits, s0, s1 = _next(s0, s1)
            if k > _U(0):
                low = _DENSITY[k]
                if low + _uniform(bits) * (_DENSITY[k + _U(1)] - low) >= math.exp(-0.5 * x * x):
                    continue
            else:
                beyond = -math.log(_uniform(bits)) / TAIL
                bits, s0, s1 = _next(s0, s1)
                while -2.0 * math.log(_uniform(bits)) <= beyond * beyond:
                    bits, s0, s1 = _next(s0, s1)
                    beyond = -math.log(_uniform(bits)) / TAIL
                    bits, s0, s1 = _next(s0, s1)
                x = math.copysign(TAIL + beyond, x)
        flat[i] = x
        i += 1
    rng[0], rng[1] = s0, s1


@fast
def noise(noise_std: float, rng: Bits) -> float:
    """``noise_std`` or its negative, each with probability 1/2."""
    bits, rng[0], rng[1] = _next(rng[0], rng[1])
    return noise_std if bits >> _U(63) else -noise_std
