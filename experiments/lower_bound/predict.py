"""When SAVE drops its first arm on the hypercube, from the constants alone."""

from __future__ import annotations

import math

from jaxvar.constants import RadiusConstants
from jaxvar.ridge import radius

VARIANCE = 2 / 9  # of a reward of size 1 that is paid with probability 1/3
MOST_LAYERS = 30


def first_drop(
    gap: float, constants: RadiusConstants, cube_dim: int, num_rounds: int, *, noise_bound: float, delta: float
) -> float:
    """Return the round in which the first layer is full that drops an arm of this gap, rewards being of size 1.

    The corners ``(1, a)`` have squared norm d + 1 and, all played alike, the mean of their outer products is the
    identity: layer l is full at the matrix ``(d + 1) 4^l I``, having started at ``4^-l I``, and every update multiplies
    the determinant by ``1 + 4^-l``.
    """
    num_layers = max(1, math.ceil(math.log2(noise_bound * num_rounds**1.5)))
    end = 0.0
    for number in range(1, MOST_LAYERS + 1):
        q, full = 4.0**-number, (cube_dim + 1) * 4.0**number
        rounds = (cube_dim + 1) * math.log(full / q) / math.log1p(q)
        end += rounds
        log = math.log(4 * end**2 * num_layers / delta)
        weight = full - q
        beta = float(radius(q, VARIANCE * weight, weight, rounds, constants, noise_bound, log, log))
        if 2 * math.sqrt(q) * beta <= gap:
            return end
    raise ValueError(f"no layer up to {MOST_LAYERS} drops an arm of gap {gap:g}")
