"""When SAVE's layers are full, and which gaps its radius can see by then: what the constants say before any run."""

from __future__ import annotations

import dataclasses
import math

from jaxvar.constants import RadiusConstants
from jaxvar.ridge import radius

GAP = 1.0  # a gap between unit arms that is neither small nor large
MOST_LAYERS = 40


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer at the moment when all arms pass it for the first time, none having been dropped before."""

    number: int
    rounds: float  # that it took
    end: float  # the round
    uses_variance: bool  # whether its radius has the empirical variance
    drops_without_noise: float  # the smallest gap at which an arm is dropped, at noise 0
    drops_with_noise: float  # the same at noise R

    @property
    def adapts(self) -> bool:
        """Whether it drops arms of an ordinary gap at noise 0, and at noise R only those of at least twice the gap."""
        return self.drops_without_noise <= min(GAP, self.drops_with_noise / 2)


def layer(
    number: int, constants: RadiusConstants, dim: int, num_rounds: float, noise_bound: float, delta: float
) -> Layer:
    """Predict a layer by the exact growth of the determinant, for unit arms whose directions are all played alike.

    An update of layer l multiplies the determinant of its matrix by ``1 + 4^-l``. It starts at ``4^-l I`` and is full
    at ``4^l I``, so that ``d l log 16 / log(1 + 4^-l)`` updates fill it, with squared weights that add up to
    ``d (4^l - 4^-l)``.
    """
    q = 4.0**-number
    rounds = _rounds(number, dim)
    end = sum(_rounds(i, dim) for i in range(1, number + 1))
    num_layers = max(1, math.ceil(math.log2(noise_bound * num_rounds**1.5)))
    log0 = math.log(4 * end**2 * num_layers / delta)
    log1 = math.log(4 * (end + float(constants.log_shift)) ** 2 * num_layers / delta)
    weight = dim * (1 / q - q)
    quiet, noisy = (
        2 * math.sqrt(q) * float(radius(q, level * weight, weight, rounds, constants, noise_bound, log0, log1))
        for level in (0.0, noise_bound**2)
    )
    uses = float(constants.switch) * math.sqrt(log1 * q) <= 1
    return Layer(number, rounds, end, uses, quiet, noisy)


def first_adaptive(
    constants: RadiusConstants, dim: int, *, num_rounds: float | None = None, noise_bound: float, delta: float
) -> Layer:
    """Return the first layer that adapts; K, if not given, is the round in which that is full."""
    for number in range(1, MOST_LAYERS + 1):
        length = sum(_rounds(i, dim) for i in range(1, number + 1)) if num_rounds is None else num_rounds
        found = layer(number, constants, dim, length, noise_bound, delta)
        if found.adapts:
            return found
    raise ValueError(f"no layer up to {MOST_LAYERS} adapts with the constants {constants.label!r}")


def _rounds(number: int, dim: int) -> float:
    return dim * number * math.log(16) / math.log1p(4.0**-number)
