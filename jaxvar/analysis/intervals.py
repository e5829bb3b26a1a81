"""Confidence intervals of means, medians and probabilities, over the first axis: the seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.resampling import RESAMPLES, resampled_means, resampled_seeds
from jaxvar.analysis.sample import percent

Array = np.ndarray[Any, Any]
Statistic = Callable[..., Array]  # of values and ``axis``, such as ``np.mean`` and ``np.median``
Method = Literal["percentile", "bca"]


@dataclasses.dataclass(frozen=True)
class Interval:
    """An estimate with its interval, numbers or arrays, and what kind of interval it is."""

    estimate: Any  # [...]
    low: Any  # [...]
    high: Any  # [...]
    level: float
    kind: str  # "t", "order statistics", "bootstrap percentile", "bootstrap BCa", "Clopper-Pearson"
    of: str  # "mean", "median", ...
    seeds: int

    @property
    def half(self) -> Any:
        """Half of the width; the estimate is in the middle of a t interval only."""
        return (self.high - self.low) / 2

    def describe(self) -> str:
        """What the interval is, for captions."""
        return f"{percent(self.level)} {self.kind} interval of the {self.of}"


def interval(values: Array, level: float = 0.95) -> tuple[Array, Array]:
    """Mean over the first axis, and the half width of its pointwise t interval."""
    from scipy import special

    n = _seeds(values, level)
    return values.mean(0), special.stdtrit(n - 1, 0.5 + level / 2) * values.std(0, ddof=1) / np.sqrt(n)


def proportion(count: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a probability, of which ``count`` of ``total`` trials came true."""
    from scipy import special

    parameters.check_count("total", total)
    parameters.check_count("count", count, low=0, high=total)
    tail = (1 - _level(level)) / 2
    low = special.betaincinv(count, total - count + 1, tail) if count > 0 else 0.0
    high = special.betaincinv(count + 1, total - count, 1 - tail) if count < total else 1.0
    return float(low), float(high)


def proportion_interval(count: int, total: int, of: str, level: float = 0.95) -> Interval:
    """:func:`proportion`, with what it is."""
    low, high = proportion(count, total, level)
    return Interval(count / total, low, high, level, "Clopper-Pearson", of, total)


def mean_interval(values: Array, level: float = 0.95) -> Interval:
    """The mean of ``values [seeds, ...]`` with Student's t interval."""
    mean, half = interval(values, level)
    return Interval(mean, mean - half, mean + half, level, "t", "mean", len(values))


def median_interval(values: Array, level: float = 0.95) -> Interval:
    """The median of ``values [seeds, ...]`` with the narrowest symmetric pair of order statistics that covers it.

    The coverage is at least ``level`` for every distribution. Few seeds have no such pair (fewer than 6 at 95 %): the
    interval is then the whole line.
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
    """A statistic of ``values [seeds, ...]`` with its bootstrap interval over the seeds.

    Args:
      values: ``[seeds, ...]``.
      statistic: maps ``values`` and ``axis`` to the values without that axis: ``np.mean``, ``np.median``, ...
      level: of the interval.
      method: quantiles of the resampled statistics, or bias-corrected and accelerated (Efron 1987) ones.
      resamples: how many.
      seed: of the resampling; equal arguments give equal intervals.
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
        low, high = _bca(drawn, estimate, _jackknife(values, statistic), tails)
    kind = {"percentile": "bootstrap percentile", "bca": "bootstrap BCa"}[method]
    return Interval(estimate, low, high, level, kind, getattr(statistic, "__name__", "statistic"), n)


def _bca(drawn: Array, estimate: Array, left_out: Array, tails: Array) -> tuple[Array, Array]:
    """Ends at shifted quantiles of ``drawn [resamples, ...]``, by the ``left_out [seeds, ...]`` statistics."""
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
        ends.append(_quantile(ordered, special.ndtr(shifted)))
    return ends[0], ends[1]


def _quantile(ordered: Array, share: Array) -> Array:
    """The quantile ``share [...]`` of each column of ``ordered [resamples, ...]``."""
    at = share * (len(ordered) - 1)
    floor = np.clip(np.floor(at).astype(int), 0, max(0, len(ordered) - 2))
    low, high = (
        np.take_along_axis(ordered, i[None], axis=0)[0] for i in (floor, np.minimum(floor + 1, len(ordered) - 1))
    )
    return low + (at - floor) * (high - low)


def _jackknife(values: Array, statistic: Statistic) -> Array:
    """The statistic without each seed in turn, ``[seeds, ...]``."""
    n = len(values)
    if statistic is np.mean:
        return (values.sum(0) - values) / (n - 1)
    return np.stack([statistic(np.delete(values, i, axis=0), axis=0) for i in range(n)])


def _level(level: float) -> float:
    return float(parameters.check_number("level", level, low=0.0, high=1.0, low_open=True, high_open=True))


def _seeds(values: Array, level: float) -> int:
    _level(level)
    if len(values) < 2:
        raise ValueError(f"values must have at least 2 seeds, got {len(values)}")
    return len(values)
