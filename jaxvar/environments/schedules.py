"""How noisy a round is: the noise family's standard deviation by round and by arm.

A schedule has ``at(round)``, what follows from the round alone, and ``levels(level, arms, word)``, the standard
deviation of each arm ``[num_arms]`` from that, from the arms and from one random word of the round. ``largest``
bounds it.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import checks, random, ridge
from jaxvar.pytrees import leaf, pytree


class Schedule(Protocol):
    """See the module."""

    @property
    def largest(self) -> Any:
        """An upper bound on every level."""
        ...

    def at(self, round: jax.Array) -> Any:
        """What the round's number says, [] or [num_arms]."""
        ...

    def levels(self, level: Any, arms: jax.Array, word: jax.Array) -> jax.Array:
        """The standard deviation of each arm, broadcastable to [num_arms]."""
        ...


@pytree
class Constant:
    """The same in every round; built by :func:`constant`."""

    std: Any

    @property
    def largest(self) -> Any:
        """The level itself."""
        return self.std

    def at(self, round: jax.Array) -> Any:
        """The level."""
        return self.std

    def levels(self, level: Any, arms: jax.Array, word: jax.Array) -> jax.Array:
        """The same for every arm."""
        return jnp.asarray(level)[None]


@pytree
class TwoLevel:
    """High with some probability in each round; built by :func:`two_level`."""

    low: Any
    high: Any
    prob_high: Any

    @property
    def largest(self) -> Any:
        """The high level."""
        return self.high

    def at(self, round: jax.Array) -> Any:
        """Nothing: the level is drawn."""
        return None

    def levels(self, level: Any, arms: jax.Array, word: jax.Array) -> jax.Array:
        """The same for every arm."""
        is_high = random.uniform(word, arms.dtype) < self.prob_high
        return jnp.where(is_high, self.high, self.low)[None]


@pytree
class Between:
    """Drawn uniformly from an interval in each round; built by :func:`between`."""

    low: Any
    high: Any

    @property
    def largest(self) -> Any:
        """The end of the interval."""
        return self.high

    def at(self, round: jax.Array) -> Any:
        """Nothing: the level is drawn."""
        return None

    def levels(self, level: Any, arms: jax.Array, word: jax.Array) -> jax.Array:
        """The same for every arm."""
        return (self.low + (self.high - self.low) * random.uniform(word, arms.dtype))[None]


@pytree
class Decaying(Constant):
    """``std / round^power``; built by :func:`decaying`."""

    power: Any

    def at(self, round: jax.Array) -> Any:
        """The level of the round."""
        return self.std * jnp.asarray(round).astype(self.std.dtype) ** -self.power


@pytree
class Bursts(Constant):
    """High for the first ``length`` rounds of every ``period``, else low; built by :func:`bursts`."""

    low: Any
    period: Any
    length: Any

    def at(self, round: jax.Array) -> Any:
        """The level of the round."""
        return jnp.where((round - 1) % self.period < self.length, self.std, self.low)


@pytree
class ByRound(Constant):
    """Any array over rounds (and arms); built by :func:`by_round`."""

    @property
    def largest(self) -> Any:
        """The largest entry."""
        return self.std.max()

    @property
    def max_rounds(self) -> int:
        """How many rounds it is given for."""
        return int(self.std.shape[0])

    def check(self, num_arms: int, dim: int) -> None:
        """A row has an entry for each arm."""
        if self.std.ndim == 2 and self.std.shape[1] != num_arms:
            raise ValueError(f"std must have rows of the {num_arms} arms, got rows of {self.std.shape[1]}")

    def at(self, round: jax.Array) -> Any:
        """The round's entry or row."""
        return jax.lax.dynamic_index_in_dim(jnp.asarray(self.std), round - 1, keepdims=False)

    def levels(self, level: Any, arms: jax.Array, word: jax.Array) -> jax.Array:
        """As given."""
        return jnp.asarray(level)[None] if self.std.ndim - (arms.ndim - 2) == 1 else jnp.asarray(level)


@pytree
class ByArm(Constant):
    """``low + (high - low) min(1, |<direction, a>|)``; built by :func:`by_arm`."""

    low: Any
    direction: Any  # [dim]

    def check(self, num_arms: int, dim: int) -> None:
        """The direction has the arms' length."""
        checks.array("direction", self.direction, (dim,))

    def levels(self, level: Any, arms: jax.Array, word: jax.Array) -> jax.Array:
        """Larger along the direction."""
        along = jnp.minimum(jnp.abs(ridge.inner(arms, jnp.asarray(self.direction))), 1)
        return self.low[None] + (self.std - self.low)[None] * along


def _level(name: str, value: Any) -> Any:
    return leaf(checks.parameter(name, value))


def constant(std: Any) -> Constant:
    """The same standard deviation in every round."""
    return Constant(std=_level("std", std))


def two_level(low: Any, high: Any, prob_high: Any = 0.5) -> TwoLevel:
    """``high`` with probability ``prob_high`` in each round, else ``low``; the same for all arms of the round."""
    prob = leaf(checks.parameter("prob_high", prob_high))
    return TwoLevel(low=_level("low", low), high=_ordered(low, high), prob_high=prob)


def between(low: Any, high: Any) -> Between:
    """Uniform between ``low`` and ``high`` in each round; the same for all arms of the round."""
    return Between(low=_level("low", low), high=_ordered(low, high))


def decaying(std: Any, power: Any = 1.0) -> Decaying:
    """``std / round^power``."""
    return Decaying(std=_level("std", std), power=leaf(checks.parameter("power", power)))


def bursts(low: Any, high: Any, period: int, length: int) -> Bursts:
    """``high`` in the first ``length`` rounds of every ``period`` rounds, else ``low``."""
    period = checks.count("period", period)
    length = checks.count("length", length, low=0, high=period)
    return Bursts(std=_ordered(low, high), low=_level("low", low), period=np.int32(period), length=np.int32(length))


def by_round(std: Any) -> ByRound:
    """Any standard deviations ``[rounds]`` or ``[rounds, num_arms]``."""
    checks.array("std", std, (None,) if checks.rank("std", std) == 1 else (None, None))
    if not checks.is_traced(std) and np.min(std) < 0:
        raise ValueError(f"std must not be negative, got {np.min(std)}")
    return ByRound(std=leaf(std))


def by_arm(low: Any, high: Any, direction: Any) -> ByArm:
    """``low + (high - low) min(1, |<direction, a>|)``: ``high`` for a unit arm along the unit ``direction [dim]``."""
    checks.array("direction", direction, (None,))
    if not checks.is_traced(direction) and abs(np.linalg.norm(direction) - 1) > 1e-6:
        raise ValueError(f"direction must have norm 1, got norm {np.linalg.norm(direction):g}")
    return ByArm(std=_ordered(low, high), low=_level("low", low), direction=leaf(direction))


def _ordered(low: Any, high: Any) -> Any:
    _level("low", low)
    floor = 0.0 if checks.is_traced(low) else float(low)
    return leaf(checks.number("high", high, low=floor))
