"""What the rivals share: the task, the same for all seeds."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

CAPACITY = 8  # stored layers; a seed that needs more is an error
TOLERANCE = 1e-9  # relative distance from the best value that still counts as a tie

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """What is the same for all seeds."""

    dim: int
    num_arms: int
    num_rounds: int
    fresh: bool
    noise_std: float
    noise_bound: float
    delta: float

    @cached_property
    def alpha(self) -> float:
        """Width below which SAVE stops to learn."""
        return 1.0 / (self.noise_bound * self.num_rounds * math.sqrt(self.num_rounds))

    @cached_property
    def num_layers(self) -> int:
        """L of the theory."""
        return max(1, math.ceil(math.log2(1.0 / self.alpha)))
