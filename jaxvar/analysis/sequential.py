"""Decisions on paired differences in stages: after each stage, undecided comparisons get more seeds, up to a limit.

**The rule.** Stages have ``n_1 < ... < n_m`` seeds in total, each at most twice the one before. Stage k may spend the
share of the error rate that its new seeds are of the limit, divided among the C comparisons:

    alpha_k = alpha (n_k - n_(k-1)) / (n_m C),   n_0 = 0

A comparison is decided at the first stage whose interval of level ``1 - alpha_k`` excludes zero, or, where a tolerance
is given, shows a difference of less than that share of the reference's mean. Decisions are final.

**The proof.** A false decision on one comparison at stage k has probability alpha_k at most. Where the means are equal,
the interval must have missed zero. Where they differ, it must lie on the wrong side of zero (alpha_k / 2), or, for a
difference beyond the tolerance, a one-sided bound must have missed the tolerance (alpha_k / 2). The sum of alpha_k over
all stages and comparisons is alpha. So with probability 1 - alpha every decision is right, whatever the dependence
between stages and comparisons, and whenever the study stops.

**What is approximate.** Student's t interval is exact for normal differences. For skewed ones it is not, above all with
few seeds. So an end of the interval is the outer one of Student's interval and of Hall's, which is corrected for
skewness (Hall 1992, "On the removal of skewness by transformation"). For normal differences the proof holds all the
same, since the interval only grows. For others the error rate was simulated, with alpha = 5 % and 16 to 128 seeds
(tests/analysis/test_analysis_sequential.py). With three comparisons it is about 5 % for exponential and gamma
variables, where Student's interval alone gives 13 to 21 %, and 10 to 12 % for lognormal ones of sigma = 1. With twelve
comparisons it is up to 7 % and 16 %.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from jaxvar.analysis.intervals import Array, interval

Verdict = Literal["less", "more", "equal", "open"]  # of an algorithm's mean, compared with the reference's
FEWEST_SEEDS = 16  # of the first stage: with fewer, the correction for skewness is too weak


def stage_seeds(first: int, most: int) -> tuple[int, ...]:
    """Return the seeds after each stage: ``first``, doubled until ``most`` is reached."""
    found = [first]
    while found[-1] < most:
        found.append(min(2 * found[-1], most))
    return tuple(found)


def stage_errors(seeds: tuple[int, ...], error_rate: float, comparisons: int) -> Array:
    """Return the probability of error that each comparison may spend at each stage, [stages]."""
    return error_rate * np.diff(seeds, prepend=0) / (seeds[-1] * comparisons)


def judge(mine: Array, reference: Array, error: float, tolerance: float | None = None) -> Verdict:
    """Compare the means of two algorithms on the same seeds, [seeds] each; wrong with probability ``error`` at most.

    The means are "equal" if they differ by less than ``tolerance`` times the reference's mean, and the sign of their
    difference is not known.
    """
    if len(mine) < 2:
        return "open"
    low, high = skew_interval(mine - reference, error)
    if high < 0 or low > 0:
        return "less" if high < 0 else "more"
    if tolerance is not None:
        _, above = skew_interval(mine - (1 + tolerance) * reference, error)
        below, _ = skew_interval(mine - (1 - tolerance) * reference, error)
        if above < 0 < below:
            return "equal"
    return "open"


def skew_interval(values: Array, error: float) -> tuple[Array, Array]:
    """Return both ends of an interval of the mean of ``values [seeds, ...]``, corrected for skewness, [...] each."""
    n = len(values)
    mean, half = interval(values, 1 - error)
    spread = values.std(0)
    is_spread = spread > 1e-12 * np.abs(mean)
    scale = np.where(is_spread, spread, 1.0)
    skewness = np.mean(((values - mean) / scale) ** 3, 0)
    is_skewed = is_spread & (np.abs(skewness) > 1e-6)  # without skewness, Hall's interval is Student's
    a = np.where(is_skewed, skewness, 1.0)
    # With w = (estimate - mean) / spread, Hall's w + a w^2 / 3 + a^2 w^3 / 27 + a / (6 n) is distributed nearly
    # symmetrically around zero. The ends are the means at which it is +- half / spread.
    low, high = (mean - scale * 3 / a * (np.cbrt(1 + a * (x / scale - a / (6 * n))) - 1) for x in (half, -half))
    outer = np.minimum(low, mean - half), np.maximum(high, mean + half)
    return np.where(is_skewed, outer[0], mean - half), np.where(is_skewed, outer[1], mean + half)
