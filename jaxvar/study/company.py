"""The processes that play a study together: one of them writes, and all take the same decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from jaxvar.study.errors import RunError


class Company:
    """All processes of ``jax.distributed``, or this one alone."""

    def __init__(self, devices: Any) -> None:
        self.is_many = len({d.process_index for d in devices}) > 1
        self.is_writer = not self.is_many or jax.process_index() == 0

    def agreed(self, values: Any) -> Any:
        """A tree of numbers and arrays as the writer has it; the others give one of the same shapes."""
        if not self.is_many:
            return values
        return jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(values))

    def agreed_number(self, value: int) -> int:
        """One number, as the writer has it."""
        return int(self.agreed(np.int32(value)))

    def writes(self, action: Callable[[], None]) -> None:
        """Let the writer do something that may fail; if it does, all processes end."""
        failed: Exception | None = None
        if self.is_writer:
            try:
                action()
            except (OSError, RunError) as error:
                failed = error
        if self.agreed_number(failed is not None):
            raise failed or RunError("the process that writes the results could not go on")

    def fetched(self, tree: Any) -> Any:
        """Arrays that are spread over devices, as NumPy arrays."""
        return multihost_utils.process_allgather(tree, tiled=True) if self.is_many else jax.device_get(tree)
