"""Schedules: the standard deviation of the noise in each round and for each arm.

A schedule has three things. ``at(round)`` is what follows from the round's number alone. ``levels(level, arms, word)``
is the standard deviation of each arm, from that, from the arms and from one random word of the round. ``largest``
bounds it. Every object with these three will do.
"""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import lowering, parameters, random
from jaxvar.environments.interface import array_of, entry
from jaxvar.parameters import Number, factory, number, part, pytree

__all__ = ["between", "bursts", "by_arm", "by_round", "constant", "decaying", "each_arm", "front_loaded", "two_level"]


class Schedule:
    """Base of the schedules: each has a ``largest`` level, and gives ``at`` or ``levels``."""

    @property
    def largest(self) -> Number:
        """An upper bound on every level, []."""
        raise NotImplementedError

    def at(self, round: jax.Array) -> Number | None:
        """Return what the round's number says, [] or [num_arms]; None where the level is drawn."""
        return None

    def levels(self, level: Number | None, arms: jax.Array, word: jax.Array) -> jax.Array:
        """Return the standard deviation of each arm, [] where it is the same for all of them, else [num_arms]."""
        return jnp.asarray(level)


@pytree
class FromFirst(Schedule):
    """Base of the schedules that never rise above the level of the first round."""

    std: Number = number(at_least=0, squared=True, kw_only=False, doc="the standard deviation of the first round.")

    @property
    def largest(self) -> Number:
        return self.std


@pytree
class Constant(FromFirst):
    """The same standard deviation in every round."""

    def at(self, round: jax.Array) -> Number:
        return self.std


@pytree
class Decaying(FromFirst):
    """The standard deviation ``std / round^power``."""

    power: Number = number(at_least=0, default=1.0, kw_only=False, doc="how fast it decays.")

    def at(self, round: jax.Array) -> Number:
        return self.std * jnp.asarray(round).astype(jnp.result_type(self.std)) ** -self.power


class Listed(Schedule):
    """Base of the schedules that list all their levels."""

    std: Any

    @property
    def largest(self) -> Number:
        return self.std.max()

    def check(self) -> None:
        """Refuse negative levels."""
        if not parameters.is_traced(self.std) and self.std.min() < 0:
            raise ValueError(f"std must not be negative, got {self.std.min()}")


@pytree
class ByRound(Listed):
    """Standard deviations given for each round, or for each round and arm."""

    std: Any = part(array_of(1, 2), kw_only=False, doc="``[rounds]`` or ``[rounds, num_arms]``.")

    @property
    def max_rounds(self) -> int:
        """The number of rounds it is given for."""
        return int(self.std.shape[0])

    def check_arms(self, num_arms: int, dim: int) -> None:
        """Refuse arms that have no entry in a row."""
        if self.std.ndim == 2 and self.std.shape[1] != num_arms:
            raise ValueError(f"std must have rows of the {num_arms} arms, got rows of {self.std.shape[1]}")

    def at(self, round: jax.Array) -> Number:
        return entry(self.std, round - 1)


@pytree
class EachArm(Listed):
    """A standard deviation for each arm, the same in all rounds."""

    std: Any = part(array_of(1), kw_only=False, doc="``[num_arms]``, of the arms by their numbers.")

    def check_arms(self, num_arms: int, dim: int) -> None:
        """Refuse arms that have no entry."""
        if self.std.shape[0] != num_arms:
            raise ValueError(f"std must have an entry for each of the {num_arms} arms, got {self.std.shape[0]}")

    def at(self, round: jax.Array) -> Number:
        return jnp.asarray(self.std)


@pytree
class Levels(Schedule):
    """Base of the schedules that lie between a low and a high level."""

    low: Number = number(at_least=0, squared=True, kw_only=False, doc="the lowest standard deviation.")
    high: Number = number(
        at_least=0, squared=True, kw_only=False, doc="the highest standard deviation, not below ``low``."
    )

    @property
    def largest(self) -> Number:
        return self.high

    def check(self) -> None:
        """Refuse a high level below the low one."""
        if not parameters.is_traced(self.low) and not parameters.is_traced(self.high):
            parameters.check_number("high", float(self.high), low=float(self.low))


@pytree
class TwoLevel(Levels):
    """``high`` with probability ``prob_high`` in each round, else ``low``; the same for all its arms."""

    prob_high: Number = number(
        at_least=0, at_most=1, default=0.5, kw_only=False, doc="the probability of the high level."
    )

    def levels(self, level: Number | None, arms: jax.Array, word: jax.Array) -> jax.Array:
        is_high = random.uniform(word, arms.dtype) < self.prob_high
        return jnp.where(is_high, self.high, self.low)


@pytree
class Between(Levels):
    """A level drawn uniformly between ``low`` and ``high`` in each round; the same for all its arms."""

    def levels(self, level: Number | None, arms: jax.Array, word: jax.Array) -> jax.Array:
        return self.low + (self.high - self.low) * random.uniform(word, arms.dtype)


def declare_rounds(low: int, doc: str) -> Any:
    """Declare a number of rounds that can be swept: a leaf, int32 [], of at least ``low``."""
    return part(lambda name, n: np.int32(parameters.check_count(name, n, low=low)), kw_only=False, doc=doc)


@pytree
class Bursts(Levels):
    """``high`` in the first ``length`` rounds of every ``period`` rounds, else ``low``."""

    period: jax.Array | int = declare_rounds(1, "rounds from burst to burst.")
    length: jax.Array | int = declare_rounds(0, "rounds of a burst.")

    def check(self) -> None:
        """Refuse a burst longer than the period, and a high level below the low one."""
        parameters.check_count("length", int(self.length), low=0, high=int(self.period))
        super().check()

    def at(self, round: jax.Array) -> Number:
        return jnp.where((round - 1) % self.period < self.length, self.high, self.low)


@pytree
class FrontLoaded(Levels):
    """``low`` in the first ``length`` rounds, ``high`` in all after them: precision that comes first."""

    length: jax.Array | int = declare_rounds(0, "quiet rounds.")

    def at(self, round: jax.Array) -> Number:
        return jnp.where(round <= self.length, self.low, self.high)


@pytree
class ByArm(Levels):
    """``low + (high - low) min(1, |<direction, a>|)``: ``high`` for a unit arm along ``direction``."""

    direction: Any = part(array_of(1), kw_only=False, doc="``[dim]``, of norm 1.")

    def check(self) -> None:
        """Refuse a direction that has not norm 1, and a high level below the low one."""
        if not parameters.is_traced(self.direction) and abs(np.linalg.norm(self.direction) - 1) > 1e-6:
            raise ValueError(f"direction must have norm 1, got norm {np.linalg.norm(self.direction):g}")
        super().check()

    def check_arms(self, num_arms: int, dim: int) -> None:
        """Refuse arms of another length than the direction."""
        parameters.check_array("direction", self.direction, (dim,))

    def levels(self, level: Number | None, arms: jax.Array, word: jax.Array) -> jax.Array:
        along = jnp.minimum(jnp.abs(lowering.inner(arms, jnp.asarray(self.direction))), 1)
        return self.low + (self.high - self.low) * along


def as_schedule(name: str, value: Number | Schedule) -> Schedule:
    """Return a schedule; any object with the methods of one passes as it is."""
    if isinstance(value, Schedule) or all(hasattr(value, method) for method in ("at", "levels", "largest")):
        return cast(Schedule, value)
    return factory(Constant)(value)


constant = factory(Constant)
two_level = factory(TwoLevel)
between = factory(Between)
decaying = factory(Decaying)
bursts = factory(Bursts)
front_loaded = factory(FrontLoaded)
by_round = factory(ByRound)
by_arm = factory(ByArm)
each_arm = factory(EachArm)
