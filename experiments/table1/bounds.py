"""The claimed bounds as functions, logarithms and constants left out, and the exponents they have over a range."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Size(NamedTuple):
    """What bounds depend on, where R = 1."""

    dim: float  # d
    rounds: float  # K
    variance: float  # sum of sigma^2 over all rounds


def _unaware(s: Size) -> float:
    return s.dim * math.sqrt(s.rounds)


def _first_order(s: Size) -> float:
    return s.dim * math.sqrt(s.variance) + s.dim


# By name; each is the ``regret`` of the claim of that name in ``jaxvar.algorithms.catalogue``.
BOUNDS: Mapping[str, Callable[[Size], float]] = {
    "ConfidenceBall_2": _unaware,
    "OFUL": _unaware,
    "Weighted OFUL": lambda s: s.dim * math.sqrt(s.variance) + math.sqrt(s.dim * s.rounds),
    "Weighted OFUL+": _first_order,
    "VOFUL": lambda s: s.dim**4.5 * math.sqrt(s.variance) + s.dim**5,
    "VOFUL2": lambda s: s.dim**1.5 * math.sqrt(s.variance) + s.dim**2,
    "SAVE": _first_order,
    "AVE-UCB": _first_order,
    "LOSAN": lambda s: math.sqrt(s.dim * (s.dim * s.variance + s.rounds)),
}


def exponent(name: str, ends: tuple[Size, Size], ratio: float) -> float | None:
    """Return the bound's exponent between two sizes that are a ratio apart; None where no rate is known.

    Terms of lower order count, so that the number can be compared with a slope measured over the same range.
    """
    if name not in BOUNDS:
        return None
    bound = BOUNDS[name]
    return math.log(bound(ends[1]) / bound(ends[0])) / math.log(ratio)
