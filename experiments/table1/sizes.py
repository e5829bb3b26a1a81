"""After how many rounds SAVE can drop its first arm: computed from its constants, for sizes that cannot be played."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp

from jaxvar import constants
from jaxvar.ridge import radius
from jaxvar.tables import Column, Table

DELTA = 0.01
LARGEST_GAP = 2.0  # of arms and a theta* of length 1


class First(NamedTuple):
    """The first layer in which an arm can be dropped, and the rounds it takes to fill the layers up to it."""

    layer: int
    rounds: float


def observations(dim: int, layer: int) -> float:
    """Return how many observations a layer takes until no arm is too uncertain.

    Each multiplies the determinant by ``1 + 4^-l``, which goes from that of ``4^-l I`` to that of ``4^l I``.
    """
    return dim * layer * math.log(16) / math.log1p(4.0**-layer)


def first_elimination(dim: int, noise_std: float, chosen: constants.RadiusConstants) -> First:
    """Return the first elimination where unit arms span the space evenly and R = 1, in a run that ends with it."""
    rounds, layer = 0.0, 0
    while True:
        layer += 1
        num = observations(dim, layer)
        rounds += num
        weights = dim * (4.0**layer - 4.0**-layer)  # the trace that the layer has gained
        layers = math.ceil(1.5 * math.log2(rounds))
        logs = [math.log(4 * (rounds + shift) ** 2 * layers / DELTA) for shift in (0.0, float(chosen.log_shift))]
        beta = radius(jnp.asarray(4.0**-layer), noise_std**2 * weights, weights, num, chosen, 1.0, *logs)
        if 2 * 2.0**-layer * float(beta) < LARGEST_GAP:
            return First(layer, rounds)


def table(tuned: float) -> Table:
    """Show when SAVE can drop an arm with the constants of these studies, ``tuned`` being a multiplier."""
    presets = {
        "paper": constants.paper(),
        "practical": constants.practical(),
        f"tuned x{tuned:g}": constants.practical(tuned),
    }
    rows = [
        (name, d, f"{std:g}", *_rounded(first_elimination(d, std, preset)))
        for name, preset in presets.items()
        for d in (2, 16)
        for std in (0.0, 1.0)
    ]
    caption = (
        "When SAVE can drop its first arm, computed from its radius: the first layer whose threshold is below the "
        "largest gap that there can be, and the rounds that fill the layers up to it."
    )
    columns = (
        Column("constants"),
        Column("d", "number"),
        Column("noise"),
        Column("layer", "number"),
        Column("rounds", "number"),
    )
    return Table(caption, columns, tuple(rows))


def _rounded(first: First) -> tuple[int, int]:
    return first.layer, round(first.rounds)
