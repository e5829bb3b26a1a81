"""A square root R of an inverse, V^-1 = R R^T, that follows V when it grows by w^2 x x^T.

Any R Q with an orthogonal Q is a root too. The one that is kept turns, with each observation, until R^T x lies along
the first axis: by the reflection that maps f = R^T x to -s |f| e_1, where s is the sign of f_1. Only the first column
then sees x, and V's growth divides it by sqrt(1 + w^2 |f|^2).
"""

import math

import numpy as np


def initial_root(dim: int, lam: float) -> np.ndarray:
    return np.eye(dim) / math.sqrt(lam)


def grown_root(root: np.ndarray, x: np.ndarray, weight2: float) -> np.ndarray:
    dim = len(x)
    f = np.array([sum(root[i, j] * x[i] for i in range(dim)) for j in range(dim)])
    length = math.sqrt(sum(value * value for value in f))
    if length == 0.0:
        return root.copy()
    h = f.copy()
    h[0] += math.copysign(length, f[0])
    square = sum(value * value for value in h)
    turned = np.empty_like(root)
    for i in range(dim):
        along = sum(root[i, j] * h[j] for j in range(dim))
        for j in range(dim):
            turned[i, j] = root[i, j] - 2.0 * along * h[j] / square
    turned[:, 0] /= math.sqrt(1.0 + weight2 * length * length)
    return turned
