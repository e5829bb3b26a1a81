"""Bands around mean curves: pointwise, or such that they cover the whole curve at once."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.intervals import mean_interval
from jaxvar.analysis.resampling import RESAMPLES, resampled_means
from jaxvar.analysis.sample import percent, sample
from jaxvar.study.result import CellResult

Array = np.ndarray[Any, Any]
Kind = Literal["simultaneous", "pointwise"]


@dataclasses.dataclass(frozen=True)
class Band:
    """A mean curve with a band, and what kind of band it is."""

    rounds: Array  # [records]
    mean: Array  # [records]
    low: Array  # [records]
    high: Array  # [records]
    kind: Kind
    how: str  # "t", "bootstrap sup-t, 2,000 resamples"
    level: float
    critical: float  # half width in standard errors
    seeds: int
    left_out: int  # seeds that failed

    def describe(self) -> str:
        """What the band is, for captions."""
        return f"{self.kind} {percent(self.level)} band ({self.how})"


def band(
    cell: CellResult,
    record: str = "regret",
    *,
    kind: Kind = "simultaneous",
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Band:
    """The mean of a record over the seeds, with a band over the recorded rounds.

    A pointwise band holds at each recorded round with probability ``level``; a simultaneous one at all of them at once.
    Both are ``mean ± critical * standard error``. For the latter, ``critical`` is a quantile of the largest deviation
    ``max_k |mean*_k - mean_k| / se_k`` over resamples of whole curves, each divided by ``sqrt(chi^2_{n-1} / (n-1))``
    since the standard errors are estimates: with one record it is Student's quantile.
    """
    from scipy import special

    parameters.check_choice("kind", kind, ("simultaneous", "pointwise"))
    curves = sample(cell, record)
    if curves.values.ndim != 2:
        raise ValueError(f"record must have one number per seed and round, got {record!r} of {curves.values.shape}")
    values, n = curves.values, len(curves.seeds)
    pointwise = mean_interval(values, level)
    critical, how = float(special.stdtrit(n - 1, 0.5 + level / 2)), "t"
    if kind == "simultaneous":
        critical = max(critical, _largest_deviation(values, level, resamples, seed))
        how = f"bootstrap sup-t, {resamples:,} resamples"
    half = critical * values.std(0, ddof=1) / np.sqrt(n)
    mean = pointwise.estimate
    return Band(cell.rounds, mean, mean - half, mean + half, kind, how, level, critical, n, curves.left_out)


def _largest_deviation(values: Array, level: float, resamples: int, seed: int) -> float:
    """The quantile of the studentised maximum over the records of ``values [seeds, records]``."""
    n = len(values)
    spread = values.std(0)
    varies = spread > 1e-12 * np.max(np.abs(values), axis=0)  # a constant record has a band without width
    if not np.any(varies):
        return 0.0
    standard = (values[:, varies] - values[:, varies].mean(0)) / spread[varies]
    deviation = np.sqrt(n) * np.max(np.abs(resampled_means(standard, resamples, seed)), axis=1)
    scale = np.random.default_rng([seed, 1]).chisquare(n - 1, size=resamples) / (n - 1)
    return float(np.quantile(deviation / np.sqrt(scale), level))
