"""A statement of the paper, and what was found of it.

Every statement is put as ``observed <= bound``, with both sides computed exactly along a run. A seed breaks it where
the largest ratio of the two over all rounds (and layers) is above one.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from jaxvar.analysis.intervals import Interval, proportion, proportion_interval

Array = np.ndarray[Any, Any]
Claim = Literal["holds", "fails", "open"]
ROUNDING = 1e-9  # how far above one a ratio may be by rounding
QUANTILES = (0.5, 0.99, 1.0)  # of the ratios, over seeds
LEAST_SEEDS = 200  # nothing is said of a frequency from fewer


@dataclasses.dataclass(frozen=True)
class Statement:
    """One inequality, with the probability it is promised to fail with at most."""

    key: str
    title: str
    where: str  # the paper's label of the equation, lemma or theorem
    failure: float  # 0 where it must hold in every seed
    claim: Claim  # what we say of it: it holds, it fails as it stands, or it is not known (not proved as it stands)
    note: str = ""
    axis: str = "layer"  # what its inequalities are counted by

    def __post_init__(self) -> None:
        if not 0 <= self.failure <= 1:
            raise ValueError(f"failure must be a probability, got {self.failure!r} for {self.key!r}")


@dataclasses.dataclass(frozen=True)
class Example:
    """The smallest counterexample: the first round of all seeds in which the statement was broken."""

    seed: int
    round: int
    where: str  # such as "layer 3"; empty where there is only one inequality
    observed: float
    bound: float

    def text(self) -> str:
        """In one line."""
        where = f"{self.where}, " if self.where else ""
        return f"{where}round {self.round} of seed {self.seed}: {self.observed:.4g} > {self.bound:.4g}"


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was seen of one statement in one case."""

    group: str
    case: str
    statement: Statement
    seeds: int  # in which it had something to say
    broken: int  # of these
    share: Interval | None  # the frequency of failure; None where it never applied
    slack: tuple[float, ...]  # QUANTILES of observed / bound
    example: Example | None

    def beyond(self, alarm: float) -> bool:
        """Whether it fails more often than promised; the probability of saying so wrongly is at most ``alarm``."""
        if self.statement.failure == 0:
            return self.broken > 0
        if self.seeds == 0:
            return False
        return proportion(self.broken, self.seeds, 1 - 2 * alarm)[0] > self.statement.failure

    def verdict(self, alarm: float) -> str:
        """In a word or a few."""
        if self.seeds == 0:
            return "nothing to judge"
        if self.statement.claim == "fails":
            return "fails as known" if self.broken else "no counterexample"
        if self.beyond(alarm):
            return "BROKEN" if self.statement.claim == "holds" else "fails"
        if self.seeds < LEAST_SEEDS:
            return "too few seeds"
        return "holds" if self.statement.claim == "holds" else "not refuted"


def finding(group: str, case: str, statement: Statement, peaks: Array, first_seed: int = 0) -> Finding:
    """Sum up ``peaks [seeds, 5]``, the readings of :class:`jaxvar.audit.peaks.Peak` for one statement."""
    ratio, when, place, observed, bound = peaks.T
    applied = ratio >= 0
    if np.any(np.isnan(peaks)):
        raise ValueError(f"{statement.key} in {case}: a ratio is not a number")
    broken = applied & (ratio > 1 + ROUNDING)
    seeds, count = int(applied.sum()), int(broken.sum())
    share = proportion_interval(count, seeds, "share of seeds that broke it") if seeds else None
    slack = tuple(float(x) for x in np.quantile(ratio[applied], QUANTILES, method="higher")) if seeds else ()
    example = None
    if count:
        i = int(np.flatnonzero(broken)[np.argmin(when[broken])])
        where = f"{statement.axis} {int(place[i])}" if place[i] else ""
        example = Example(first_seed + i, int(when[i]), where, float(observed[i]), float(bound[i]))
    return Finding(group, case, statement, seeds, count, share, slack, example)
