"""Noise with an exact conditional variance and a hard bound, and how noisy each round is.

A noise family has ``draw(word, std, mean)``, the noise from one random word, ``variance(std, mean)``, its exact
variance, and ``bound``, the R with ``|noise| <= R``. Its ``schedule`` says how noisy a round is: ``at(round)`` is what
follows from the round alone, ``levels(level, arms, word)`` the standard deviation of each arm from that, from the arms
and from one random word of the round, and ``largest`` bounds it. Any object with these methods will do.

In a round, :func:`jaxvar.linear_bandit` asks ``std = schedule.levels(schedule.at(round), arms, word)`` and
``variance(std, mean)``, and adds ``draw(word, std[action], mean[action])`` to the mean of the arm that is pulled.
Schedules are built by :mod:`jaxvar.environments.schedules`; a number in their place stands for a constant one.
"""

from __future__ import annotations

import math
from typing import Any, Self

import jax
import jax.numpy as jnp
import jax.scipy.stats
import numpy as np

from jaxvar import lowering, parameters, random
from jaxvar.parameters import leaf, number, part, pytree


class _Checked:
    @classmethod
    def of(cls, **values: Any) -> Self:
        """Return one with these values of its parameters, each checked as declared."""
        declared = parameters.parameters(cls)
        return cls(**{name: declared[name].check(name, value) for name, value in values.items()})


class Schedule(_Checked):
    """The standard deviation of the noise by round and by arm."""

    @property
    def largest(self) -> Any:
        """An upper bound on every level, []."""
        raise NotImplementedError

    def at(self, round: jax.Array) -> Any:
        """Return what the round's number says, [] or [num_arms]; None where the level is drawn."""
        return None

    def levels(self, level: Any, arms: jax.Array, word: jax.Array) -> jax.Array:
        """Return the standard deviation of each arm, [] where it is the same for all of them, else [num_arms]."""
        return jnp.asarray(level)


def _table(name: str, value: Any) -> Any:
    parameters.check_array(name, value, (None,) if parameters.rank(name, value) == 1 else (None, None))
    if not parameters.is_traced(value) and np.min(value) < 0:
        raise ValueError(f"{name} must not be negative, got {np.min(value)}")
    return leaf(value)


def _unit_vector(name: str, value: Any) -> Any:
    parameters.check_array(name, value, (None,))
    if not parameters.is_traced(value) and abs(np.linalg.norm(value) - 1) > 1e-6:
        raise ValueError(f"{name} must have norm 1, got norm {np.linalg.norm(value):g}")
    return leaf(value)


@pytree
class Constant(Schedule):
    """The same in every round; built by :func:`jaxvar.schedules.constant`."""

    std: Any = number(at_least=0, doc="the standard deviation.")

    @property
    def largest(self) -> Any:
        """The level itself, []."""
        return self.std

    def at(self, round: jax.Array) -> Any:
        """Return the level, []."""
        return self.std


@pytree
class TwoLevel(Schedule):
    """High with some probability in each round; built by :func:`jaxvar.schedules.two_level`."""

    low: Any = number(at_least=0, doc="the standard deviation of most rounds.")
    high: Any = number(at_least=0, doc="that of the others.")
    prob_high: Any = number(at_least=0, at_most=1, doc="the probability of the high one.")

    @property
    def largest(self) -> Any:
        """The high level, []."""
        return self.high

    def levels(self, level: Any, arms: jax.Array, word: jax.Array) -> jax.Array:
        """Return the low or the high level, []."""
        is_high = random.uniform(word, arms.dtype) < self.prob_high
        return jnp.where(is_high, self.high, self.low)


@pytree
class Between(Schedule):
    """Drawn uniformly from an interval in each round; built by :func:`jaxvar.schedules.between`."""

    low: Any = number(at_least=0, doc="where the interval begins.")
    high: Any = number(at_least=0, doc="where it ends.")

    @property
    def largest(self) -> Any:
        """The end of the interval, []."""
        return self.high

    def levels(self, level: Any, arms: jax.Array, word: jax.Array) -> jax.Array:
        """Return a point of the interval, []."""
        return self.low + (self.high - self.low) * random.uniform(word, arms.dtype)


@pytree
class Decaying(Schedule):
    """``std / round^power``; built by :func:`jaxvar.schedules.decaying`."""

    std: Any = number(at_least=0, doc="the standard deviation of the first round.")
    power: Any = number(at_least=0, doc="how fast it decays.")

    @property
    def largest(self) -> Any:
        """The level of the first round, []."""
        return self.std

    def at(self, round: jax.Array) -> Any:
        """Return the level of the round, []."""
        return self.std * jnp.asarray(round).astype(self.std.dtype) ** -self.power


@pytree
class Bursts(Schedule):
    """High for the first ``length`` rounds of every ``period``, else low; built by :func:`jaxvar.schedules.bursts`."""

    low: Any = number(at_least=0, doc="the standard deviation outside bursts.")
    high: Any = number(at_least=0, doc="the standard deviation in a burst.")
    period: Any = part(lambda name, n: np.int32(parameters.check_count(name, n)), doc="rounds from burst to burst.")
    length: Any = part(lambda name, n: np.int32(parameters.check_count(name, n, low=0)), doc="rounds of a burst.")

    @property
    def largest(self) -> Any:
        """The high level, []."""
        return self.high

    def at(self, round: jax.Array) -> Any:
        """Return the level of the round, []."""
        return jnp.where((round - 1) % self.period < self.length, self.high, self.low)


@pytree
class ByRound(Schedule):
    """Any array over rounds (and arms); built by :func:`jaxvar.schedules.by_round`."""

    std: Any = part(_table, doc="``[rounds]`` or ``[rounds, num_arms]``.")

    @property
    def largest(self) -> Any:
        """The largest entry, []."""
        return self.std.max()

    @property
    def max_rounds(self) -> int:
        """The number of rounds it is given for."""
        return int(self.std.shape[0])

    def check(self, num_arms: int, dim: int) -> None:
        """Refuse arms that have no entry in a row."""
        if self.std.ndim == 2 and self.std.shape[1] != num_arms:
            raise ValueError(f"std must have rows of the {num_arms} arms, got rows of {self.std.shape[1]}")

    def at(self, round: jax.Array) -> Any:
        """Return the round's entry or row, [] or [num_arms]."""
        return jax.lax.dynamic_index_in_dim(jnp.asarray(self.std), round - 1, keepdims=False)


@pytree
class ByArm(Schedule):
    """``low + (high - low) min(1, |<direction, a>|)``; built by :func:`jaxvar.schedules.by_arm`."""

    low: Any = number(at_least=0, doc="the standard deviation across the direction.")
    high: Any = number(at_least=0, doc="that of a unit arm along the direction.")
    direction: Any = part(_unit_vector, doc="``[dim]``, of norm 1.")

    @property
    def largest(self) -> Any:
        """The high level, []."""
        return self.high

    def check(self, num_arms: int, dim: int) -> None:
        """Refuse arms of another length than the direction."""
        parameters.check_array("direction", self.direction, (dim,))

    def levels(self, level: Any, arms: jax.Array, word: jax.Array) -> jax.Array:
        """Return the standard deviation by how far an arm points along the direction, [num_arms]."""
        along = jnp.minimum(jnp.abs(lowering.inner(arms, jnp.asarray(self.direction))), 1)
        return self.low + (self.high - self.low) * along


def _schedule(name: str, value: Any) -> Any:
    if all(hasattr(value, method) for method in ("at", "levels", "largest")):
        return value
    return Constant.of(std=value)


@pytree
class Noise(_Checked):
    """Base of the families: a schedule, and the variance ``std^2``."""

    schedule: Any = part(_schedule, doc="a schedule, or a number for a constant one.")

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Return the noise of a reward of mean ``mean []`` from one uint32 word, []."""
        raise NotImplementedError

    def variance(self, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Return the exact variance of :meth:`draw` for each arm, [num_arms]."""
        return std * std


@pytree
class TwoPoint(Noise):
    """``+std`` or ``-std``, each with probability 1/2; built by :func:`two_point`."""

    @property
    def bound(self) -> Any:
        """R, the largest standard deviation, []."""
        return self.schedule.largest

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Return ``std`` with a random sign, []."""
        return random.signs(word, std.dtype) * std


@pytree
class Uniform(Noise):
    """Uniform on ``[-sqrt(3) std, sqrt(3) std]``; built by :func:`uniform`."""

    @property
    def bound(self) -> Any:
        """R, ``sqrt(3)`` times the largest standard deviation, []."""
        return math.sqrt(3) * self.schedule.largest

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Return a point of the interval, []."""
        return (2 * random.uniform(word, std.dtype) - 1) * math.sqrt(3) * std


@pytree
class Sparse(Noise):
    """``+R`` or ``-R``, each with probability ``std^2 / (2 R^2)``, else 0; built by :func:`sparse`."""

    bound: Any = number(above=0, squared=True, doc="R, at least the largest standard deviation.")

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Return the noise, []: the word's lowest bit gives the sign, its highest ones say whether."""
        happens = random.uniform(word, std.dtype) < (std / self.bound) ** 2
        sign = jnp.where(word & np.uint32(1) == 0, self.bound, -self.bound)
        return jnp.where(happens, sign, 0)


@pytree
class ClippedGaussian(Noise):
    """A centred Gaussian cut to ``[-R, R]``; built by :func:`clipped_gaussian`."""

    bound: Any = number(above=0, squared=True, doc="R, where the Gaussian is cut.")

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Return the noise, []; clipping keeps its mean at zero."""
        return jnp.clip(random.normal(word, std.dtype) * std, -self.bound, self.bound)

    def variance(self, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Return ``std^2 (1 - 2 c f(c) - 2 F(-c)) + 2 R^2 F(-c)`` with ``c = R / std``, [num_arms]: below ``std^2``."""
        c = self.bound / jnp.where(std > 0, std, 1)
        tail = jax.scipy.stats.norm.cdf(-c)
        inside = 1 - 2 * c * jax.scipy.stats.norm.pdf(c) - 2 * tail
        return jnp.where(std > 0, std * std * inside + 2 * self.bound**2 * tail, 0)


@pytree
class Bernoulli(Noise):
    """The reward is ``scale`` with probability ``mean / scale``, else 0; built by :func:`bernoulli`."""

    scale: Any = number(above=0, squared=True, doc="the size of a reward that is not 0.")

    @property
    def bound(self) -> Any:
        """R, the scale, since the reward and its mean both lie in ``[0, scale]``."""
        return self.scale

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Return the reward minus its mean, []."""
        happens = random.uniform(word, mean.dtype) * self.scale < mean
        return jnp.where(happens, self.scale, 0) - mean

    def variance(self, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Return ``mean (scale - mean)``, [num_arms]."""
        return mean * (self.scale - mean)


def two_point(std: Any) -> TwoPoint:
    """Return noise ``+std`` or ``-std`` with probability 1/2 each; ``std`` is a number or a schedule."""
    return TwoPoint.of(schedule=std)


def uniform(std: Any) -> Uniform:
    """Return noise uniform on ``[-sqrt(3) std, sqrt(3) std]``; ``std`` is a number or a schedule."""
    return Uniform.of(schedule=std)


def sparse(std: Any, bound: Any = 1.0) -> Sparse:
    """Return ``+bound`` or ``-bound`` with probability ``std^2 / (2 bound^2)`` each, else 0: the heaviest tails."""
    noise = Sparse.of(schedule=std, bound=bound)
    least = noise.schedule.largest
    if not parameters.is_traced(bound) and not parameters.is_traced(least) and float(bound) < float(least):
        raise ValueError(f"bound must be at least the largest std, {float(least):g}, got {bound!r}")
    return noise


def clipped_gaussian(std: Any, bound: Any = 1.0) -> ClippedGaussian:
    """Return a Gaussian of deviation ``std`` cut to ``[-bound, bound]``; its stated variance is that after it."""
    return ClippedGaussian.of(schedule=std, bound=bound)


def bernoulli(scale: Any = 1.0) -> Bernoulli:
    """Return ``scale * Bernoulli(mean / scale)``, for means in ``[0, scale]``: the variance depends on the arm."""
    return Bernoulli.of(schedule=0.0, scale=scale)


def none() -> TwoPoint:
    """Return no noise at all."""
    return two_point(0.0)
