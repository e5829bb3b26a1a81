"""Schedules: the standard deviation of the noise in each round and for each arm.

A schedule has three things. ``at(round)`` is what follows from the round's number alone. ``levels(level, arms, word)``
is the standard deviation of each arm, from that, from the arms and from one random word of the round. ``largest``
bounds it. Any object with these three will do.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import lowering, parameters, random
from jaxvar.environments.interface import Number
from jaxvar.parameters import factory, leaf, number, part, pytree

__all__ = ["between", "bursts", "by_arm", "by_round", "constant", "decaying", "two_level"]


class Schedule:
    """Base of the schedules: each gives ``largest``, and ``at`` or ``levels``."""

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
class Constant(Schedule):
    """The same standard deviation in every round."""

    std: Number = number(at_least=0, kw_only=False, doc="the standard deviation.")

    @property
    def largest(self) -> Number:
        """The level itself, []."""
        return self.std

    def at(self, round: jax.Array) -> Number:
        """Return the level, []."""
        return self.std


@pytree
class Decaying(Schedule):
    """The standard deviation ``std / round^power``."""

    std: Number = number(at_least=0, kw_only=False, doc="the standard deviation of the first round.")
    power: Number = number(at_least=0, default=1.0, kw_only=False, doc="how fast it decays.")

    @property
    def largest(self) -> Number:
        """The level of the first round, []."""
        return self.std

    def at(self, round: jax.Array) -> Number:
        """Return the level of the round, []."""
        return self.std * jnp.asarray(round).astype(jnp.result_type(self.std)) ** -self.power


def _table(name: str, value: Any) -> Any:
    parameters.check_array(name, value, (None,) if parameters.rank(name, value) == 1 else (None, None))
    if not parameters.is_traced(value) and np.min(value) < 0:
        raise ValueError(f"{name} must not be negative, got {np.min(value)}")
    return leaf(value)


@pytree
class ByRound(Schedule):
    """Any standard deviations, given for each round, or for each round and arm."""

    std: Any = part(_table, kw_only=False, doc="``[rounds]`` or ``[rounds, num_arms]``.")

    @property
    def largest(self) -> Number:
        """The largest entry, []."""
        return self.std.max()

    @property
    def max_rounds(self) -> int:
        """The number of rounds it is given for."""
        return int(self.std.shape[0])

    def check_arms(self, num_arms: int, dim: int) -> None:
        """Refuse arms that have no entry in a row."""
        if self.std.ndim == 2 and self.std.shape[1] != num_arms:
            raise ValueError(f"std must have rows of the {num_arms} arms, got rows of {self.std.shape[1]}")

    def at(self, round: jax.Array) -> Number:
        """Return the round's entry or row, [] or [num_arms]."""
        return jax.lax.dynamic_index_in_dim(jnp.asarray(self.std), round - 1, keepdims=False)


@pytree
class Levels(Schedule):
    """Base of the schedules that lie between a low and a high level."""

    low: Number = number(at_least=0, kw_only=False, doc="the lowest standard deviation.")
    high: Number = number(at_least=0, kw_only=False, doc="the highest standard deviation, not below ``low``.")

    @property
    def largest(self) -> Number:
        """The high level, []."""
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
        """Return the low or the high level, []."""
        is_high = random.uniform(word, arms.dtype) < self.prob_high
        return jnp.where(is_high, self.high, self.low)


@pytree
class Between(Levels):
    """A level drawn uniformly between ``low`` and ``high`` in each round; the same for all its arms."""

    def levels(self, level: Number | None, arms: jax.Array, word: jax.Array) -> jax.Array:
        """Return a point of the interval, []."""
        return self.low + (self.high - self.low) * random.uniform(word, arms.dtype)


def _whole(low: int) -> Any:
    """Return the check of an integer of at least ``low`` that is stored as a leaf."""
    return lambda name, value: np.int32(parameters.check_count(name, value, low=low))


@pytree
class Bursts(Levels):
    """``high`` in the first ``length`` rounds of every ``period`` rounds, else ``low``."""

    period: jax.Array | int = part(_whole(1), kw_only=False, doc="rounds from the start of a burst to the next.")
    length: jax.Array | int = part(_whole(0), kw_only=False, doc="rounds of a burst, at most ``period``.")

    def check(self) -> None:
        """Refuse a burst longer than the period, and a high level below the low one."""
        parameters.check_count("length", int(self.length), low=0, high=int(self.period))
        super().check()

    def at(self, round: jax.Array) -> Number:
        """Return the level of the round, []."""
        return jnp.where((round - 1) % self.period < self.length, self.high, self.low)


def _unit_vector(name: str, value: Any) -> Any:
    parameters.check_array(name, value, (None,))
    if not parameters.is_traced(value) and abs(np.linalg.norm(value) - 1) > 1e-6:
        raise ValueError(f"{name} must have norm 1, got norm {np.linalg.norm(value):g}")
    return leaf(value)


@pytree
class ByArm(Levels):
    """``low + (high - low) min(1, |<direction, a>|)``: ``high`` for a unit arm along ``direction``."""

    direction: Any = part(_unit_vector, kw_only=False, doc="``[dim]``, of norm 1.")

    def check_arms(self, num_arms: int, dim: int) -> None:
        """Refuse arms of another length than the direction."""
        parameters.check_array("direction", self.direction, (dim,))

    def levels(self, level: Number | None, arms: jax.Array, word: jax.Array) -> jax.Array:
        """Return the standard deviation by how far an arm points along the direction, [num_arms]."""
        along = jnp.minimum(jnp.abs(lowering.inner(arms, jnp.asarray(self.direction))), 1)
        return self.low + (self.high - self.low) * along


constant = factory(Constant)
two_level = factory(TwoLevel)
between = factory(Between)
decaying = factory(Decaying)
bursts = factory(Bursts)
by_round = factory(ByRound)
by_arm = factory(ByArm)
