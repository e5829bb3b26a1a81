"""How often the confidence event held: in all layers and to the end, from the record ``confidence``."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxvar.analysis.intervals import Interval, proportion_interval
from jaxvar.analysis.sample import cell_name, sample
from jaxvar.study.result import CellResult

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Coverage:
    """Seeds whose true parameter stayed in every confidence set."""

    cell: CellResult
    held: int  # seeds in which the event held in all layers up to the last round
    share: Interval  # of all seeds, Clopper-Pearson
    by_layer: Array  # [layers]   share of the seeds, each layer by itself
    seeds: int
    left_out: int  # seeds that failed


def coverage(cell: CellResult, *, level: float = 0.95) -> Coverage:
    """Count the seeds in which the confidence event held; the record remembers every round, recorded or not."""
    events = sample(cell, "confidence", at_least=1)
    if events.values.ndim != 3 or not np.all(np.isin(events.values, (0, 1))):
        raise ValueError(
            f"{cell_name(cell)}: confidence must be true or false with shape [seeds, records, layers], "
            f"got shape {events.values.shape}"
        )
    held = int(np.sum(np.all(events.final == 1, axis=1)))
    seeds = len(events.seeds)
    share = proportion_interval(held, seeds, "share of seeds in which the confidence event held", level)
    return Coverage(cell, held, share, events.final.mean(0), seeds, events.left_out)
