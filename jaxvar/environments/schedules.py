"""Schedules: functions that make the schedules of :mod:`jaxvar.environments.noise`."""

from jaxvar.environments.noise import (
    Between,
    Bursts,
    ByArm,
    ByRound,
    Constant,
    Decaying,
    EachArm,
    FrontLoaded,
    TwoLevel,
)
from jaxvar.parameters import factory

__all__ = ["between", "bursts", "by_arm", "by_round", "constant", "decaying", "each_arm", "front_loaded", "two_level"]

constant = factory(Constant)
two_level = factory(TwoLevel)
between = factory(Between)
decaying = factory(Decaying)
bursts = factory(Bursts)
front_loaded = factory(FrontLoaded)
by_round = factory(ByRound)
by_arm = factory(ByArm)
each_arm = factory(EachArm)
