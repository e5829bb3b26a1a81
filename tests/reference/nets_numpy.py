"""Sets of parameters on a net of cells, with explicit loops over cells, directions and scales and sums over history."""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


def half_sphere(dim: int, num: int) -> list[np.ndarray]:
    """Unit directions: equal angles from (1, 0) on in the plane, a golden spiral in space."""
    found = []
    for i in range(num):
        if dim == 1:
            found.append(np.array([1.0]))
        elif dim == 2:
            found.append(np.array([math.cos(math.pi * i / num), math.sin(math.pi * i / num)]))
        else:
            z, turn = (i + 0.5) / num, i * math.pi * (3.0 - math.sqrt(5.0))
            found.append(np.array([math.sqrt(1.0 - z**2) * math.cos(turn), math.sqrt(1.0 - z**2) * math.sin(turn), z]))
    return found


def clip(z: float, limit: float) -> float:
    """sign(z) min(|z|, limit)."""
    return math.copysign(min(abs(z), limit), z)


class Box(NamedTuple):
    """A box cut into `cells` parts along each axis; `alive` says which cells are left, the last axis fastest."""

    center: np.ndarray  # [d]
    half: np.ndarray  # [d]
    alive: np.ndarray  # [cells^d] bool


def places(dim: int, cells: int) -> list[tuple[int, ...]]:
    """The place of every cell along each axis."""
    return list(itertools.product(range(cells), repeat=dim))


def middles(box: Box, cells: int) -> list[np.ndarray]:
    """The middle of every cell."""
    dim = len(box.center)
    low = box.center - box.half
    return [low + (np.array(place) + 0.5) * 2.0 * box.half / cells for place in places(dim, cells)]


def nearest_norm(point: np.ndarray, cell: np.ndarray) -> float:
    """The least norm in a cell."""
    return math.sqrt(sum(max(abs(p) - c, 0.0) ** 2 for p, c in zip(point, cell, strict=True)))


def zoomed(box: Box, cells: int) -> Box:
    """The box around the cells left, all its cells alive, if it has at most half the volume."""
    dim = len(box.center)
    left = [place for place, alive in zip(places(dim, cells), box.alive, strict=True) if alive]
    low = [min(place[i] for place in left) for i in range(dim)]
    high = [max(place[i] for place in left) for i in range(dim)]
    if math.prod(h - b + 1 for b, h in zip(low, high, strict=True)) > cells**dim / 2:
        return box
    side = 2.0 * box.half / cells
    bottom = box.center - box.half + side * np.array(low)
    top = box.center - box.half + side * (np.array(high) + 1)
    return Box((bottom + top) / 2.0, (top - bottom) / 2.0, np.ones(cells**dim, dtype=bool))


def refined(box: Box, cells: int, keep: Callable[[np.ndarray, np.ndarray], bool]) -> tuple[Box, bool]:
    """Zoom if it is time and drop the cells without keep(middle, half-sides); the old box if none is left."""
    new = zoomed(box, cells)
    cell = new.half / cells
    alive = np.array(
        [bool(a) and keep(p, cell) for p, a in zip(middles(new, cells), new.alive, strict=True)], dtype=bool
    )
    if not alive.any():
        return box, True
    return Box(new.center, new.half, alive), False


def most(box: Box, cells: int, vector: np.ndarray) -> float:
    """The largest <vector, theta> in all cells left."""
    cell = box.half / cells
    edge = float(np.sum(cell * np.abs(vector)))
    return max(float(p @ vector) + edge for p, a in zip(middles(box, cells), box.alive, strict=True) if a)


def exponential_limit(square: float, log: float, largest: float, num: int, rate: Callable[[float], float]) -> float:
    """min over lam = largest 2^(-q/2), q < num, of (rate(lam) square + log) / lam."""
    grid = [largest * 2.0 ** (-q / 2.0) for q in range(num)]
    return min((rate(lam) * square + log) / lam for lam in grid)


def psi(lam: float) -> float:
    """-log(1 - lam) - lam."""
    return -math.log(1.0 - lam) - lam


def phi(lam: float) -> float:
    """e^lam - 1 - lam."""
    return math.exp(lam) - 1.0 - lam
