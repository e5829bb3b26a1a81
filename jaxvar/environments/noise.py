"""Noise with an exact conditional variance and a hard bound.

A noise family has ``draw(word, std, mean)``, the noise from one random word, ``variance(std, mean)``, its exact
variance, ``bound``, the R with ``|noise| <= R``, and ``schedule``, one of :mod:`jaxvar.environments.schedules`.
Every object with these will do. A number in place of a schedule stands for a constant one.

In a round, :func:`jaxvar.linear_bandit` asks ``std = schedule.levels(schedule.at(round), arms, word)`` and
``variance(std, mean)``, and adds ``draw(word, std[action], mean[action])`` to the mean of the arm that is pulled.
"""

from __future__ import annotations

import math
from typing import Self, cast

import jax
import jax.numpy as jnp
import jax.scipy.stats
import numpy as np

from jaxvar import parameters, random
from jaxvar.environments.schedules import Schedule, constant
from jaxvar.parameters import Number, number, part, pytree


def _schedule(name: str, value: Number | Schedule) -> Schedule:
    """Return a schedule; any object with the methods of one passes as it is."""
    if isinstance(value, Schedule) or all(hasattr(value, method) for method in ("at", "levels", "largest")):
        return cast(Schedule, value)
    return constant(value)


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
        raise ValueError(f"bound must be at least the largest std, {float(least):g}, got {bound!r}")
    return noise


def clipped_gaussian(std: Number | Schedule, bound: Number = 1.0) -> ClippedGaussian:
    """Return a Gaussian of deviation ``std`` cut to ``[-bound, bound]``; its stated variance is that after it."""
    return ClippedGaussian.of(schedule=std, bound=bound)


def bernoulli(scale: Number = 1.0) -> Bernoulli:
    """Return ``scale * Bernoulli(mean / scale)``, for means in ``[0, scale]``: the variance depends on the arm."""
    return Bernoulli.of(schedule=0.0, scale=scale)


def none() -> TwoPoint:
    """Return no noise at all."""
    return two_point(0.0)
