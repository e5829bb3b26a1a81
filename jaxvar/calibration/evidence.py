"""What was counted, and what follows from it: the smallest multiplier from which on the event held often enough."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from jaxvar import parameters
from jaxvar.analysis.intervals import Interval, proportion_interval

LEAST_SEEDS = 200  # of a claim


@dataclasses.dataclass(frozen=True)
class Played:
    """A case of the bank, as it was played."""

    player: str
    instance: str
    length: int  # rounds or episodes
    seeds: int  # in each point of each grid
    config: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Swept:
    """One case with one switch over one grid of multipliers."""

    case: int  # its place in the bank
    switch: float
    first_seed: int
    scales: tuple[float, ...]
    held: tuple[int, ...]  # seeds in which the event held in all layers and rounds, one count per multiplier


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Counts over a bank, and the verdict.

    A multiplier passes where in every case the lower end of the Clopper-Pearson interval of the probability of the
    event is at least ``1 - delta``. Nothing is assumed of how this depends on the multiplier: the answer is the
    smallest one that was played such that it and all larger ones passed.

    How often the answer is too small: a multiplier that is too small in one case passes with probability at most
    ``(1 - level) / 2``, however many cases there are. Multipliers are taken from the largest down until one fails, so
    this is also the chance that a grid ends in one that is too small; with two grids, the second with seeds of its
    own, it is at most ``1 - level`` in all.
    """

    setting: str
    delta: float
    level: float
    key: int
    shape: Mapping[str, float]  # all constants but those varied: beta_scale and switch
    cases: tuple[Played, ...]
    runs: tuple[Swept, ...]

    @property
    def switches(self) -> tuple[float, ...]:
        """Those that were tried."""
        return tuple(dict.fromkeys(run.switch for run in self.runs))

    @property
    def is_claim(self) -> bool:
        """Whether there were seeds enough to conclude anything."""
        return min(case.seeds for case in self.cases) >= LEAST_SEEDS

    def multiplier(self, switch: float, case: int | None = None) -> float | None:
        """The answer for a switch: over all cases, or in one of them; None where not even the largest passed."""
        return smallest(self.verdicts(switch, case))

    def is_least(self, switch: float, case: int | None = None) -> bool:
        """Whether every multiplier that was played passed, so that smaller ones might."""
        return all(self.verdicts(switch, case).values())

    def verdicts(self, switch: float, case: int | None = None) -> dict[float, bool]:
        """Whether each multiplier passed, wherever it was played."""
        found: dict[float, bool] = {}
        for run in self.runs:
            if run.switch == switch and case in (None, run.case):
                for scale, held in zip(run.scales, run.held, strict=True):
                    passed = passes(held, self.cases[run.case].seeds, self.delta, self.level)
                    found[scale] = found.get(scale, True) and passed
        return found

    def share(self, run: Swept, scale: float) -> Interval:
        """How often the event held, with its interval."""
        held = run.held[run.scales.index(scale)]
        return proportion_interval(held, self.cases[run.case].seeds, "share of seeds in which it held", self.level)


def passes(held: int, seeds: int, delta: float, level: float) -> bool:
    """Whether the interval's lower end is at least ``1 - delta``."""
    return bool(proportion_interval(held, seeds, "", level).low >= 1 - delta)


def smallest(verdicts: Mapping[float, bool]) -> float | None:
    """The smallest multiplier such that it and all larger ones passed."""
    found = None
    for scale in sorted(verdicts, reverse=True):
        if not verdicts[scale]:
            break
        found = scale
    return found


def seeds_needed(delta: float, level: float) -> int:
    """How many seeds pass if the event holds in all of them: fewer can show nothing."""
    parameters.check_number("delta", delta, low=0.0, high=1.0, low_open=True, high_open=True)
    parameters.check_number("level", level, low=0.0, high=1.0, low_open=True, high_open=True)
    least = math.ceil(math.log((1 - level) / 2) / math.log1p(-delta))
    return least if passes(least, least, delta, level) else least + 1  # rounding
