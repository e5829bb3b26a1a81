"""Measures that several experiments need: exponents over a part of a sweep, and ratios of mean regret."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxvar.analysis import Interval, sample, slopes_in
from jaxvar.analysis.intervals import RESAMPLES, resampled_cells
from jaxvar.analysis.slopes import swept_value
from jaxvar.study.result import CellResult, StudyResult


def restricted(result: StudyResult, parameter: str, low: float, high: float) -> StudyResult:
    """Return the cells in which ``low <= parameter <= high``."""
    values = {id(cell): swept_value(cell, parameter) for cell in result.cells}
    kept = tuple(c for c in result.cells if values[id(c)] is not None and low <= values[id(c)] <= high)
    if not kept:
        raise ValueError(f"{parameter} must have a value in [{low}, {high}], which no cell has")
    return dataclasses.replace(result, cells=kept)


def exponents(
    result: StudyResult, parameter: str, low: float = 0.0, high: float = np.inf, *, power: float = 1.0
) -> dict[tuple[str, str], Interval | None]:
    """Return exponents of regret in ``parameter^power`` where the parameter is from ``low`` to ``high``.

    By the names of environment and algorithm; None where there are fewer than two points with a logarithm.
    """
    found = slopes_in(restricted(result, parameter, low, high), parameter)
    return {(s.environment, s.algorithm): s.slope and scaled(s.slope, 1 / power) for s in found}


def scaled(interval: Interval, factor: float) -> Interval:
    """Return an interval in another unit; ``factor`` is positive."""
    ends = {name: factor * getattr(interval, name) for name in ("estimate", "low", "high")}
    return dataclasses.replace(interval, **ends)


def ratio(cell: CellResult, other: CellResult, *, level: float = 0.95) -> Interval:
    """Return mean final regret over that of another cell, with a bootstrap interval; common seeds are drawn together.

    Raises:
      ValueError: where the other mean, or that of a resample, is not positive.
    """
    samples = [sample(c) for c in (cell, other)]
    means, _ = resampled_cells([s.final for s in samples], [s.seeds for s in samples], RESAMPLES, 0)
    if np.any(means[1] <= 0):
        raise ValueError(f"{other.algorithm} in {other.environment}: a ratio needs a positive mean regret below it")
    low, high = np.quantile(means[0] / means[1], [(1 - level) / 2, (1 + level) / 2])
    estimate = samples[0].final.mean() / samples[1].final.mean()
    seeds = min(len(s.seeds) for s in samples)
    return Interval(estimate, low, high, level, "bootstrap percentile", "ratio of mean regrets", seeds)
