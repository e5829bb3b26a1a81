"""What the algorithms on nets share: the sizes of a net, and those of the tests that decide what stays on it."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxvar import nets, parameters
from jaxvar.parameters import choice, count, number, pytree

MAX_DIM = 3
CELLS = (64, 32, 12)  # along each axis, in dimension 1, 2, 3
DIRECTIONS = (1, 16, 64)


@pytree
class Netted:
    """Base of the algorithms on a net; each gives ``num_scales``, ``num_exponents`` and ``every``."""

    dim: int = count(kw_only=False, doc="d, at most 3.")
    test: str = choice("tight", "paper", default="tight", doc="``tight`` or ``paper``.")
    beta_scale: Any = number(
        at_least=0,
        default=1.0,
        doc="c, a multiplier of the tests' limits (not of the allowance for the size of a cell); 1 is the theorem.",
    )
    cells: int = count(
        low=2,
        default=None,
        rule=lambda self: CELLS[min(self.dim, MAX_DIM) - 1],
        doc="along each axis of the box; 64, 32, 12 in dimension 1, 2, 3 if not given.",
    )
    num_directions: int = count(
        default=None,
        rule=lambda self: DIRECTIONS[self.dim - 1] if self.dim <= MAX_DIM else 4 ** (self.dim - 1),
        doc="of the half sphere; 1, 16, 64 if not given.",
    )
    num_scales: int = count(doc="of the clipping. Fewer directions or scales give a larger set, as valid.")
    num_exponents: int = count(doc="of the tight test's grid G.")
    every: int = count(doc="time between two looks at the net.")

    def check(self) -> None:
        """Refuse dimensions in which a net is too large."""
        if self.dim > MAX_DIM:
            raise ValueError(
                f"dim must be at most {MAX_DIM} on a net, got {self.dim}: {self.cells} cells along each axis are "
                f"{self.cells**self.dim:.1e} net points, each to be tried against {self.num_directions} directions at "
                f"{self.num_scales} scales or more"
            )

    @property
    def clip(self) -> nets.Clipping:
        """Directions and scales."""
        return nets.clipping(self.dim, self.num_directions, self.num_scales)


def log2_of(num: Any) -> float:
    """Return the logarithm of a number of rounds; of 2^16 where it is traced, since it sets shapes."""
    return 16.0 if parameters.is_traced(num) else math.log2(float(num))


def fine_scales(num: float, dim: int) -> int:
    """Return ``L + 2``, the number of scales that Kim, Yang, Jun (2022) use in ``num`` rounds."""
    return max(1, math.floor(math.log2(1 + num / dim))) + 2


def fine_iota(num: Any, dim: int, delta: Any) -> jax.Array:
    """Return ``128 log((12 n 2^L)^(d + 2) / delta)``, their factor in ``num`` rounds n, [].

    ``L = max(1, floor(log2(1 + n / d)))``.
    """
    finest = jnp.maximum(jnp.floor(jnp.log2(1 + num / dim)), 1)
    inner = jnp.log(12 * num) + finest * math.log(2)
    return 128 * ((dim + 2) * inner - jnp.log(delta))
