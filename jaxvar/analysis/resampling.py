"""Bootstrap resamples of seeds, made a few at a time so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxvar import parameters

Array = np.ndarray[Any, Any]
RESAMPLES = 2000
_MOST_ENTRIES = 4_000_000  # of a temporary array: 32 MB


def resampled_seeds(num_seeds: int, number: int, seed: int, entries: int = 1) -> Iterator[Array]:
    """Blocks ``[block, num_seeds]`` of indices, ``number`` rows in all; ``entries`` is what one index will fetch."""
    parameters.check_count("resamples", number)
    parameters.check_count("seed", seed, low=0)
    rng = np.random.default_rng(seed)
    block = max(1, _MOST_ENTRIES // (num_seeds * entries))
    for first in range(0, number, block):
        yield rng.integers(num_seeds, size=(min(block, number - first), num_seeds))


def resampled_means(values: Array, number: int, seed: int) -> Array:
    """Means over the seeds of ``number`` resamples of ``values [seeds, ...]``, [number, ...]."""
    num_seeds = len(values)
    flat = values.reshape(num_seeds, -1)
    means = [_counts(drawn) @ flat / num_seeds for drawn in resampled_seeds(num_seeds, number, seed)]
    return np.concatenate(means).reshape(number, *values.shape[1:])


def resampled_cells(values: Sequence[Array], seeds: Sequence[Array], number: int, seed: int) -> tuple[list[Array], str]:
    """Means of resamples of several cells, ``values[i] [seeds, ...]`` with the seeds' numbers ``seeds[i]``; and how.

    Where all cells have the same seeds, each resample takes the same ones in all of them ("jointly"): what a seed's
    draws have in common between cells then cancels in their differences. Else each cell has resamples of its own.
    """
    together = all(np.array_equal(s, seeds[0]) for s in seeds)
    means = [resampled_means(v, number, seed if together else seed + i) for i, v in enumerate(values)]
    return means, "jointly" if together else "cell by cell"


def _counts(drawn: Array) -> Array:
    """How often each seed was drawn, ``[block, seeds]``: a matrix product then sums all records at once."""
    block, num_seeds = drawn.shape
    rows = num_seeds * np.arange(block)[:, None]
    return np.bincount((drawn + rows).ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)
