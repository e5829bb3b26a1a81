"""Confidence intervals of means, medians and probabilities over the first axis (the seeds), and bootstrap resamples.

``scipy.special`` supplies the quantiles. Two functions of ``scipy.stats`` come close but would change the last digits
of published numbers: ``bootstrap`` adds up in another order, and returns NaN if all values are equal;
``binomtest(...).proportion_ci`` finds the ends of the exact interval by a root search.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.captions import percent

Array = np.ndarray
Statistic = Callable[..., Array]  # takes values and ``axis``, as ``np.mean`` and ``np.median`` do
Method = Literal["percentile", "bca"]
RESAMPLES = 2000
_MOST_ENTRIES = 4_000_000  # in a temporary array: 32 MB


@dataclasses.dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval: numbers, or arrays of the same shape."""

    estimate: Any  # [...]   a number or an array, as are low and high
    low: Any  # [...]
    high: Any  # [...]
    level: float
    kind: str  # "t", "order statistics", "bootstrap percentile", "bootstrap BCa", "Clopper-Pearson"
    of: str  # "mean", "median", ...
    seeds: int

    @property
    def half(self) -> Any:
        """Half of the interval's width. Only t intervals have the estimate in their middle."""
        return (self.high - self.low) / 2

    def describe(self) -> str:
        """Describe the interval, for captions."""
        return f"{percent(self.level)} {self.kind} interval of the {self.of}"


def interval(values: Array, level: float = 0.95) -> tuple[Array, Array]:
    """Return the mean over the first axis and the half width of its t interval, [...] each."""
    from scipy import special

    n = _seeds(values, level)
    return values.mean(0), special.stdtrit(n - 1, 0.5 + level / 2) * values.std(0, ddof=1) / np.sqrt(n)


def proportion(count: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """Return the ends of the exact (Clopper-Pearson) interval of a probability, given ``count`` of ``total`` events."""
    from scipy import special

    parameters.check_count("total", total)
    parameters.check_count("count", count, low=0, high=total)
    check_level(level)
    tail = (1 - level) / 2
    low = special.betaincinv(count, total - count + 1, tail) if count > 0 else 0.0
    high = special.betaincinv(count + 1, total - count, 1 - tail) if count < total else 1.0
    return float(low), float(high)


def proportion_interval(count: int, total: int, of: str, level: float = 0.95) -> Interval:
    """Return the share ``count / total`` with its exact interval; ``of`` says what is counted."""
    low, high = proportion(count, total, level)
    return Interval(count / total, low, high, level, "Clopper-Pearson", of, total)


def mean_interval(values: Array, level: float = 0.95) -> Interval:
    """Return the mean of ``values [seeds, ...]`` with Student's t interval, [...]."""
    mean, half = interval(values, level)
    return Interval(mean, mean - half, mean + half, level, "t", "mean", len(values))


def median_interval(values: Array, level: float = 0.95) -> Interval:
    """Return the median of ``values [seeds, ...]`` with its interval of order statistics, [...].

    The ends are the narrowest symmetric pair of order statistics whose coverage is at least ``level`` for every
    distribution. With few seeds (fewer than 6 at 95 %) there is no such pair, and the interval is the whole line.
    """
    from scipy import special

    n = _seeds(values, level)
    ranks = np.arange(1, n // 2 + 1)
    coverage = 1 - 2 * special.bdtr(ranks - 1, n, 0.5)  # of [x_(r), x_(n + 1 - r)]
    usable = ranks[coverage >= level]
    ordered = np.sort(values, axis=0)
    if len(usable):
        low, high = ordered[usable[-1] - 1], ordered[n - usable[-1]]
    else:
        low, high = np.full(values.shape[1:], -np.inf), np.full(values.shape[1:], np.inf)
    return Interval(np.median(values, axis=0), low, high, level, "order statistics", "median", n)


def bootstrap_interval(
    values: Array,
    statistic: Statistic = np.mean,
    *,
    level: float = 0.95,
    method: Method = "bca",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Return a statistic of ``values [seeds, ...]`` with its bootstrap interval over the seeds, [...].

    Args:
      values: ``[seeds, ...]``.
      statistic: a function of values and ``axis`` that removes that axis, such as ``np.mean`` or ``np.median``.
      level: level of the interval.
      method: ``percentile`` takes quantiles of the resampled statistics; ``bca`` corrects them for bias and
        acceleration (Efron 1987).
      resamples: number of resamples.
      seed: seed of the resampling; equal arguments give equal intervals.
    """
    n = _seeds(values, level)
    parameters.check_choice("method", method, ("percentile", "bca"))
    estimate = np.asarray(statistic(values, axis=0))
    if statistic is np.mean:
        drawn = resampled_means(values, resamples, seed)
    else:
        blocks = resampled_seeds(n, resamples, seed, entries=int(values[0].size))
        drawn = np.concatenate([statistic(values[index], axis=1) for index in blocks])
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if method == "percentile":
        low, high = np.quantile(drawn, tails, axis=0)
    else:
        if statistic is np.mean:
            left_out = (values.sum(0) - values) / (n - 1)
        else:  # the statistic without each seed in turn
            left_out = np.stack([statistic(np.delete(values, i, axis=0), axis=0) for i in range(n)])
        low, high = _bca(drawn, estimate, left_out, tails)
    kind = {"percentile": "bootstrap percentile", "bca": "bootstrap BCa"}[method]
    return Interval(estimate, low, high, level, kind, getattr(statistic, "__name__", "statistic"), n)


def resampled_seeds(num_seeds: int, number: int, seed: int, entries: int = 1) -> Iterator[Array]:
    """Yield ``number`` resamples of indices, in blocks ``[block, num_seeds]`` that bound the memory.

    ``entries`` is the number of values that the caller fetches per index.
    """
    parameters.check_count("resamples", number)
    parameters.check_count("seed", seed, low=0)
    rng = np.random.default_rng(seed)
    block = max(1, _MOST_ENTRIES // (num_seeds * entries))
    for first in range(0, number, block):
        yield rng.integers(num_seeds, size=(min(block, number - first), num_seeds))


def resampled_means(values: Array, number: int, seed: int) -> Array:
    """Return the means over the seeds of ``number`` resamples of ``values [seeds, ...]``, [number, ...]."""
    num_seeds = len(values)
    flat = values.reshape(num_seeds, -1)
    means = []
    for drawn in resampled_seeds(num_seeds, number, seed):
        rows = num_seeds * np.arange(len(drawn))[:, None]
        counts = np.bincount((drawn + rows).ravel(), minlength=drawn.size)  # how often a resample has each seed
        means.append(counts.reshape(drawn.shape).astype(np.float64) @ flat / num_seeds)
    return np.concatenate(means).reshape(number, *values.shape[1:])


def resampled_cells(values: Sequence[Array], seeds: Sequence[Array], number: int, seed: int) -> tuple[list[Array], str]:
    """Return resampled means of several cells, and the word for how they were resampled.

    ``values[i]`` is ``[seeds, ...]``, and ``seeds[i]`` are the seeds' numbers. If all cells have the same seeds, each
    resample takes the same seeds in all cells ("jointly"), so that what a seed has in common between cells cancels in
    differences. Otherwise each cell has its own resamples ("cell by cell").
    """
    together = all(np.array_equal(s, seeds[0]) for s in seeds)
    means = [resampled_means(v, number, seed if together else seed + i) for i, v in enumerate(values)]
    return means, "jointly" if together else "cell by cell"


def _bca(drawn: Array, estimate: Array, left_out: Array, tails: Array) -> tuple[Array, Array]:
    """Return the BCa ends from ``drawn [resamples, ...]`` and the jackknife statistics ``left_out [seeds, ...]``."""
    from scipy import special

    number = len(drawn)
    below = (np.sum(drawn < estimate, axis=0) + np.sum(drawn <= estimate, axis=0)) / 2  # ties count half
    bias = special.ndtri(np.clip(below, 0.5, number - 0.5) / number)
    gaps = left_out.mean(0) - left_out
    spread = np.sum(gaps**2, axis=0)
    acceleration = np.where(spread > 0, np.sum(gaps**3, axis=0) / (6 * np.where(spread > 0, spread, 1) ** 1.5), 0)
    ordered = np.sort(drawn, axis=0)
    ends = []
    for z in special.ndtri(tails):
        shifted = bias + (bias + z) / (1 - acceleration * (bias + z))
        at = special.ndtr(shifted) * (number - 1)  # each column has a quantile of its own
        floor = np.clip(np.floor(at).astype(int), 0, max(0, number - 2))
        above = np.minimum(floor + 1, number - 1)
        low, high = (np.take_along_axis(ordered, i[None], axis=0)[0] for i in (floor, above))
        ends.append(low + (at - floor) * (high - low))
    return ends[0], ends[1]


def check_level(level: float) -> None:
    """Raise an error unless the level is above 0 and below 1."""
    parameters.check_number("level", level, low=0.0, high=1.0, low_open=True, high_open=True)


def _seeds(values: Array, level: float) -> int:
    """Return the number of seeds, after a check that it and the level allow an interval."""
    check_level(level)
    if len(values) < 2:
        raise ValueError(f"values must have at least 2 seeds, got {len(values)}")
    return len(values)
