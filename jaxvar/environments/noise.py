"""Noise with an exact conditional variance, a bound where it has one, and its schedules.

A noise family has ``draw(word, std, mean)``, the noise from one random word, ``variance(std, mean)``, its exact
variance, ``bound``, the R with ``|noise| <= R`` (infinite where there is none), and a ``schedule``: the standard
deviation in each round and for each arm. Every object with these will do. A number in place of a schedule stands for
a constant one.

A schedule has three things. ``at(round)`` is what follows from the round's number alone. ``levels(level, arms, word)``
is the standard deviation of each arm, from that, from the arms and from one random word of the round. ``largest``
bounds it. Every object with these three will do. :mod:`jaxvar.environments.schedules` has the functions that make them.

In a round, :func:`jaxvar.linear_bandit` asks ``std = schedule.levels(schedule.at(round), arms, word)`` and
``variance(std, mean)``, and adds ``draw(word, std[action], mean[action])`` to the mean of the arm that is pulled.
"""

from __future__ import annotations

import math
from typing import Any, Self, cast

import jax
import jax.numpy as jnp
import jax.scipy.stats
import numpy as np

from jaxvar import lowering, parameters, random
from jaxvar.environments.interface import array_of
from jaxvar.parameters import Number, factory, number, part, pytree


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


@pytree
class ByRound(Schedule):
    """Standard deviations given for each round, or for each round and arm."""

    std: Any = part(array_of(1, 2), kw_only=False, doc="``[rounds]`` or ``[rounds, num_arms]``.")

    @property
    def largest(self) -> Number:
        return self.std.max()

    @property
    def max_rounds(self) -> int:
        """The number of rounds it is given for."""
        return int(self.std.shape[0])

    def check(self) -> None:
        """Refuse negative levels."""
        if not parameters.is_traced(self.std) and self.std.min() < 0:
            raise ValueError(f"std must not be negative, got {self.std.min()}")

    def check_arms(self, num_arms: int, dim: int) -> None:
        """Refuse arms that have no entry in a row."""
        if self.std.ndim == 2 and self.std.shape[1] != num_arms:
            raise ValueError(f"std must have rows of the {num_arms} arms, got rows of {self.std.shape[1]}")

    def at(self, round: jax.Array) -> Number:
        return jax.lax.dynamic_index_in_dim(jnp.asarray(self.std), round - 1, keepdims=False)


@pytree
class EachArm(Schedule):
    """A standard deviation for each arm, the same in all rounds."""

    std: Any = part(array_of(1), kw_only=False, doc="``[num_arms]``, of the arms by their numbers.")

    @property
    def largest(self) -> Number:
        return self.std.max()

    def check(self) -> None:
        """Refuse negative levels."""
        if not parameters.is_traced(self.std) and self.std.min() < 0:
            raise ValueError(f"std must not be negative, got {self.std.min()}")

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


@pytree
class Bursts(Levels):
    """``high`` in the first ``length`` rounds of every ``period`` rounds, else ``low``."""

    period: jax.Array | int = part(
        lambda name, n: np.int32(parameters.check_count(name, n)), kw_only=False, doc="rounds from burst to burst."
    )
    length: jax.Array | int = part(
        lambda name, n: np.int32(parameters.check_count(name, n, low=0)), kw_only=False, doc="rounds of a burst."
    )

    def check(self) -> None:
        """Refuse a burst longer than the period, and a high level below the low one."""
        parameters.check_count("length", int(self.length), low=0, high=int(self.period))
        super().check()

    def at(self, round: jax.Array) -> Number:
        return jnp.where((round - 1) % self.period < self.length, self.high, self.low)


@pytree
class FrontLoaded(Levels):
    """``low`` in the first ``length`` rounds, ``high`` in all after them: precision that comes first."""

    length: jax.Array | int = part(
        lambda name, n: np.int32(parameters.check_count(name, n, low=0)), kw_only=False, doc="quiet rounds."
    )

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


def _schedule(name: str, value: Number | Schedule) -> Schedule:
    """Return a schedule; any object with the methods of one passes as it is."""
    if isinstance(value, Schedule) or all(hasattr(value, method) for method in ("at", "levels", "largest")):
        return cast(Schedule, value)
    return factory(Constant)(value)


@pytree
class Noise:
    """Base of the families: a schedule, and the variance ``std^2``."""

    schedule: Schedule = part(_schedule, doc="a schedule, or a number for a constant one.")

    @classmethod
    def of(cls, **values: Number | Schedule) -> Self:
        """Return one with these values of its parameters, each checked as declared."""
        declared = parameters.parameters(cls)
        return cls(**{name: declared[name].check(name, value) for name, value in values.items()})

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
    def bound(self) -> Number:
        return self.schedule.largest

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        return random.signs(word, std.dtype) * std


@pytree
class Uniform(Noise):
    """Uniform on ``[-sqrt(3) std, sqrt(3) std]``; built by :func:`uniform`."""

    @property
    def bound(self) -> Number:
        return math.sqrt(3) * self.schedule.largest

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        return (2 * random.uniform(word, std.dtype) - 1) * math.sqrt(3) * std


@pytree
class Sparse(Noise):
    """``+R`` or ``-R``, each with probability ``std^2 / (2 R^2)``, else 0; built by :func:`sparse`."""

    bound: Number = number(above=0, squared=True, doc="R, at least the largest standard deviation.")

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        # The word's lowest bit gives the sign, its highest ones say whether there is noise.
        happens = random.uniform(word, std.dtype) < (std / self.bound) ** 2
        sign = jnp.where(word & np.uint32(1) == 0, self.bound, -self.bound)
        return jnp.where(happens, sign, 0)


@pytree
class ClippedGaussian(Noise):
    """A centred Gaussian cut to ``[-R, R]``; built by :func:`clipped_gaussian`."""

    bound: Number = number(above=0, squared=True, doc="R, where the Gaussian is cut.")

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        # Clipping keeps the mean at zero.
        return jnp.clip(random.normal(word, std.dtype) * std, -self.bound, self.bound)

    def variance(self, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Return ``std^2 (1 - 2 c f(c) - 2 F(-c)) + 2 R^2 F(-c)`` with ``c = R / std``, [num_arms]: below ``std^2``."""
        c = self.bound / jnp.where(std > 0, std, 1)
        tail = jax.scipy.stats.norm.cdf(-c)
        inside = 1 - 2 * c * jax.scipy.stats.norm.pdf(c) - 2 * tail
        return jnp.where(std > 0, std * std * inside + 2 * self.bound**2 * tail, 0)


@pytree
class Gaussian(Noise):
    """A centred Gaussian, not cut; built by :func:`gaussian`."""

    bound: Number = number(
        above=0,
        squared=True,
        default=None,
        rule=lambda self: math.inf,
        doc="R, what the environment says of the size of the noise; infinite if not given.",
    )

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        return random.normal(word, std.dtype) * std


@pytree
class StudentT(Gaussian):
    """Student's t distribution, scaled; built by :func:`student_t`."""

    df: Number = number(at_least=3, doc="degrees of freedom; moments of this order and above are infinite.")

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        # Bailey (1994): sqrt(df (u^(-2 / df) - 1)) cos(2 pi v) has the law exactly. The word gives both numbers.
        u, v = (random.uniform(w, std.dtype) for w in random.threefry(word, ~word, word, word))
        size = jnp.sqrt(jnp.expm1(-2 / self.df * jnp.log(u)) * (self.df - 2))
        return size * jnp.cos(2 * math.pi * v) * std


@pytree
class Pareto(Gaussian):
    """A Pareto distribution, centred and scaled; built by :func:`pareto`."""

    shape: Number = number(at_least=3, doc="the tail falls as its power; moments of this order are infinite.")

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        centred = jnp.exp(-jnp.log(random.uniform(word, std.dtype)) / self.shape) - self.shape / (self.shape - 1)
        return centred * (self.shape - 1) * jnp.sqrt(1 - 2 / self.shape) * std


@pytree
class Bernoulli(Noise):
    """The reward is ``scale`` with probability ``mean / scale``, else 0; built by :func:`bernoulli`."""

    scale: Number = number(above=0, squared=True, doc="the size of a reward that is not 0.")

    @property
    def bound(self) -> Number:
        """R, the scale, since the reward and its mean both lie in ``[0, scale]``."""
        return self.scale

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        happens = random.uniform(word, mean.dtype) * self.scale < mean
        return jnp.where(happens, self.scale, 0) - mean

    def variance(self, std: jax.Array, mean: jax.Array) -> jax.Array:
        return mean * (self.scale - mean)


def two_point(std: Number | Schedule) -> TwoPoint:
    """Return noise ``+std`` or ``-std`` with probability 1/2 each; ``std`` is a number or a schedule."""
    return TwoPoint.of(schedule=std)


def uniform(std: Number | Schedule) -> Uniform:
    """Return noise uniform on ``[-sqrt(3) std, sqrt(3) std]``; ``std`` is a number or a schedule."""
    return Uniform.of(schedule=std)


def sparse(std: Number | Schedule, bound: Number = 1.0) -> Sparse:
    """Return ``+bound`` or ``-bound`` with probability ``std^2 / (2 bound^2)`` each, else 0: the heaviest tails."""
    noise = Sparse.of(schedule=std, bound=bound)
    least = noise.schedule.largest
    if not parameters.is_traced(bound) and not parameters.is_traced(least) and float(bound) < float(least):
        raise ValueError(f"bound must be at least the largest std, {float(least):g}, got {parameters.shown(bound)}")
    return noise


def clipped_gaussian(std: Number | Schedule, bound: Number = 1.0) -> ClippedGaussian:
    """Return a Gaussian of deviation ``std`` cut to ``[-bound, bound]``; its stated variance is that after it."""
    return ClippedGaussian.of(schedule=std, bound=bound)


def gaussian(std: Number | Schedule, bound: Number | None = None) -> Gaussian:
    """Return a Gaussian of deviation ``std``, not cut: its variance is ``std^2``, and it has no bound.

    Theorems that need ``|noise| <= R`` do not cover it: an algorithm with a finite ``noise_bound`` warns that the
    environment's is infinite. Where R may be a sub-Gaussian constant, or the tail beyond R is accepted, say so with
    ``bound``: it is then the environment's ``noise_bound``, and changes nothing else.
    """
    return Gaussian.of(schedule=std, **({} if bound is None else {"bound": bound}))


def student_t(std: Number | Schedule, df: Number = 3.0, bound: Number | None = None) -> StudentT:
    """Return Student's t with ``df`` degrees of freedom, scaled to the deviation ``std``: heavy tails on both sides.

    Like :func:`gaussian` it has no bound, unless ``bound`` says which R is to be taken. ``df`` is at least 3: below it,
    tails that 32 random bits do not reach would hold a part of the variance; at 3 it is about 0.1 % (float32: 1 %).
    """
    return StudentT.of(schedule=std, df=df, **({} if bound is None else {"bound": bound}))


def pareto(std: Number | Schedule, shape: Number = 3.0, bound: Number | None = None) -> Pareto:
    """Return a centred Pareto law of deviation ``std``: losses are bounded, gains are rare and heavy.

    ``shape`` is the power with which the tail falls, at least 3 as for :func:`student_t`; ``bound`` as there.
    """
    return Pareto.of(schedule=std, shape=shape, **({} if bound is None else {"bound": bound}))


def bernoulli(scale: Number = 1.0) -> Bernoulli:
    """Return ``scale * Bernoulli(mean / scale)``, for means in ``[0, scale]``: the variance depends on the arm."""
    return Bernoulli.of(schedule=0.0, scale=scale)


def none() -> TwoPoint:
    """Return no noise at all."""
    return two_point(0.0)
