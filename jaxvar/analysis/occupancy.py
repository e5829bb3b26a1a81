"""Which layers an algorithm plays in: the share of rounds per layer, from the record ``layer_rounds``."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxvar.analysis.intervals import Interval, mean_interval
from jaxvar.analysis.sample import cell_name, sample
from jaxvar.study.result import CellResult

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Occupancy:
    """Shares of the rounds so far (in episodes: of the steps) that ended in each layer, averaged over the seeds."""

    cell: CellResult
    rounds: Array  # [records]
    share: Array  # [records, layers + 1]   entry 0: nothing was learned; layers that no seed reached are cut off
    final: Interval  # [layers + 1]   at the last round, by Student's t
    seeds: int
    left_out: int  # seeds that failed

    @property
    def deepest(self) -> int:
        """The deepest layer that any seed reached, from 1; 0 where none did."""
        return self.share.shape[1] - 1


def occupancy(cell: CellResult, *, level: float = 0.95) -> Occupancy:
    """How a cell's rounds are spread over the layers."""
    counts = sample(cell, "layer_rounds")
    if counts.values.ndim != 3:
        raise ValueError(
            f"{cell_name(cell)}: layer_rounds must have shape [seeds, records, layers + 1], got {counts.values.shape}"
        )
    total = counts.values.sum(2, keepdims=True)
    if np.any(counts.values < 0) or np.any(total == 0):
        raise ValueError(f"{cell_name(cell)}: layer_rounds must be counts, at least one in every record")
    reached = np.flatnonzero(counts.values.any(axis=(0, 1)))[-1]
    share = (counts.values / total)[:, :, : reached + 1]
    final = mean_interval(share[:, -1], level)
    return Occupancy(cell, cell.rounds, share.mean(0), final, len(counts.seeds), counts.left_out)
