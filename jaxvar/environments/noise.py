"""Noise with an exact conditional variance, and a bound where it has one.

A noise family has ``draw(word, std, mean)``, the noise from one random word, ``variance(std, mean)``, its exact
variance, ``bound``, the R with ``|noise| <= R`` (infinite where there is none), and a ``schedule``: the standard
deviation in each round and for each arm. Every object with these will do. A number in place of a schedule stands for
a constant one.

In a round, :func:`jaxvar.linear_bandit` asks ``std = schedule.levels(schedule.at(round), arms, word)`` and
``variance(std, mean)``, and adds ``draw(word, std[action], mean[action])`` to the mean of the arm that is pulled.
"""

from __future__ import annotations

import math
from typing import Self

import jax
import jax.numpy as jnp
import jax.scipy.stats
import numpy as np

from jaxvar import parameters, random
from jaxvar.environments.schedules import Schedule, as_schedule
from jaxvar.parameters import Number, number, part, pytree


@pytree
class Noise:
    """Base of the families: a schedule, and the variance ``std^2``."""

    schedule: Schedule = part(as_schedule, doc="a schedule, or a number for a constant one.")

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
