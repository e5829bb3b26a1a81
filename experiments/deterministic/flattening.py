"""When SAVE stops to grow without noise, from its radius alone."""

from __future__ import annotations

import math

import numpy as np

from jaxvar.constants import RadiusConstants
from jaxvar.ridge import radius

DELTA, NOISE_BOUND = 0.01, 1.0
DEEPEST = 40


def median_gap(dim: int, num_arms: int, draws: int = 20_000) -> float:
    """Return the median gap between the two best of arms drawn uniformly on the sphere, as theta* is."""
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(draws, num_arms, dim))
    # theta* may be the first axis: the law of the arms does not change when the sphere is turned
    rewards = np.sort(arms[:, :, 0] / np.linalg.norm(arms, axis=2), axis=1)
    return float(np.median(rewards[:, -1] - rewards[:, -2]))


def layer_rounds(dim: int, layer: int) -> float:
    """Return about how many rounds a layer takes until no unit arm is wider than ``2^-l``.

    Each multiplies the determinant by ``1 + 4^-l``, which grows from ``4^-ld`` to about ``4^ld``.
    """
    return dim * layer * math.log(16) / math.log1p(4.0**-layer)


def rounds_until_flat(constants: RadiusConstants, dim: int, gap: float) -> tuple[int, int]:
    """Return the first layer that drops an arm ``gap`` worse than the best, and the rounds that fill all up to it.

    The number of layers in the logarithms is that of a run as long as this. Without noise the empirical variance is
    what the ridge leaves of theta*, at most ``4^-l``.
    """
    rounds = 0.0
    for layer in range(1, DEEPEST + 1):
        number = layer_rounds(dim, layer)
        rounds += number
        layers = math.ceil(1.5 * math.log2(rounds * NOISE_BOUND ** (2 / 3)))
        log0, log1 = (math.log(4 * (rounds + s) ** 2 * layers / DELTA) for s in (0.0, float(constants.log_shift)))
        q = 4.0**-layer
        beta = float(radius(q, q, number, number, constants, NOISE_BOUND, log0, log1))
        if 2 * 2.0**-layer * beta < gap:
            return layer, round(rounds)
    raise ValueError(f"gap must be one that {DEEPEST} layers can tell, got {gap}")
