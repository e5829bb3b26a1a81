"""Long sums that keep their digits: a total, and beside it what rounding has taken from it (Kahan).

A float32 holds no more than seven digits: added up term by term, ten million rounds of regret 0.1 would end at two
million. With what was lost carried along, the total is right to its own last digit however long the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike


class Sum(NamedTuple):
    """A running sum; a stack of them has the axes of its total."""

    total: jax.Array
    lost: jax.Array  # what the total has too much

    def add(self, x: jax.Array) -> Sum:
        """Return the sum with one more term ``x``."""
        y = x.astype(self.total.dtype) - self.lost
        total = self.total + y
        return Sum(total, (total - self.total) - y)

    def minus(self, other: Sum) -> jax.Array:
        """Return how much larger it is than ``other``; digits that both totals share are not lost."""
        return (self.total - other.total) - (self.lost - other.lost)


def empty_sum(shape: Sequence[int] = (), dtype: DTypeLike = float) -> Sum:
    """Return a sum over nothing, or ``shape`` of them."""
    zero = jnp.zeros(shape, dtype)
    return Sum(zero, zero)
