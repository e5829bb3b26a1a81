"""How noisy a round is: functions that build the schedules of :mod:`jaxvar.environments.noise`."""

from __future__ import annotations

from typing import Any, TypeVar

from jaxvar import parameters
from jaxvar.environments.noise import Between, Bursts, ByArm, ByRound, Constant, Decaying, TwoLevel

T = TypeVar("T", TwoLevel, Between, Bursts, ByArm)


def constant(std: Any) -> Constant:
    """Return the same standard deviation in every round."""
    return Constant.of(std=std)


def two_level(low: Any, high: Any, prob_high: Any = 0.5) -> TwoLevel:
    """Return ``high`` with probability ``prob_high`` in each round, else ``low``; the same for all its arms."""
    return _ordered(TwoLevel.of(low=low, high=high, prob_high=prob_high))


def between(low: Any, high: Any) -> Between:
    """Return a level drawn uniformly between ``low`` and ``high`` in each round; the same for all its arms."""
    return _ordered(Between.of(low=low, high=high))


def decaying(std: Any, power: Any = 1.0) -> Decaying:
    """Return ``std / round^power``."""
    return Decaying.of(std=std, power=power)


def bursts(low: Any, high: Any, period: int, length: int) -> Bursts:
    """Return ``high`` in the first ``length`` rounds of every ``period`` rounds, else ``low``."""
    made = _ordered(Bursts.of(low=low, high=high, period=period, length=length))
    parameters.check_count("length", length, low=0, high=int(made.period))
    return made


def by_round(std: Any) -> ByRound:
    """Return any standard deviations ``[rounds]`` or ``[rounds, num_arms]``."""
    return ByRound.of(std=std)


def by_arm(low: Any, high: Any, direction: Any) -> ByArm:
    """Return ``low + (high - low) min(1, |<direction, a>|)``: ``high`` for a unit arm along ``direction [dim]``."""
    return _ordered(ByArm.of(low=low, high=high, direction=direction))


def _ordered(schedule: T) -> T:
    """Return ``schedule``, the high level of which is not below the low one."""
    low, high = schedule.low, schedule.high
    if not parameters.is_traced(low) and not parameters.is_traced(high) and float(high) < float(low):
        raise ValueError(f"high must be a finite number in [{float(low):g}, inf), got {float(high):g}")
    return schedule
