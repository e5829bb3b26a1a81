"""Noise with an exact conditional variance and a hard bound.

A family has ``draw(word, std, mean)``, the noise from one random word, ``variance(std, mean)``, its exact variance,
and ``bound``, the R with ``|noise| <= R``. ``std`` comes from a schedule (:mod:`jaxvar.environments.schedules`); a
number stands for a constant one.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import jax.scipy.stats
import numpy as np

from jaxvar import checks, random
from jaxvar.environments import schedules
from jaxvar.pytrees import leaf, pytree


class Noise(Protocol):
    """See the module."""

    schedule: Any

    @property
    def bound(self) -> Any:
        """R."""
        ...

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """One noise value from one uint32 word."""
        ...

    def variance(self, std: jax.Array, mean: jax.Array) -> jax.Array:
        """The exact variance of :meth:`draw` for each arm, [num_arms]."""
        ...


@pytree
class TwoPoint:
    """``+std`` or ``-std``, each with probability 1/2; built by :func:`two_point`."""

    schedule: Any

    @property
    def bound(self) -> Any:
        """The largest standard deviation."""
        return self.schedule.largest

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """A random sign."""
        return random.signs(word, std.dtype) * std

    def variance(self, std: jax.Array, mean: jax.Array) -> jax.Array:
        """``std^2``."""
        return std * std


@pytree
class Uniform(TwoPoint):
    """Uniform on ``[-sqrt(3) std, sqrt(3) std]``; built by :func:`uniform`."""

    @property
    def bound(self) -> Any:
        """``sqrt(3)`` times the largest standard deviation."""
        return math.sqrt(3) * self.schedule.largest

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Uniform."""
        return (2 * random.uniform(word, std.dtype) - 1) * math.sqrt(3) * std


@pytree
class Sparse:
    """``+R`` or ``-R``, each with probability ``std^2 / (2 R^2)``, else 0; built by :func:`sparse`."""

    schedule: Any
    bound: Any  # R

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """The lowest bit gives the sign, the 24 highest say whether."""
        happens = random.uniform(word, std.dtype) < (std / self.bound) ** 2
        sign = jnp.where(word & np.uint32(1) == 0, self.bound, -self.bound)
        return jnp.where(happens, sign, 0)

    def variance(self, std: jax.Array, mean: jax.Array) -> jax.Array:
        """``std^2``."""
        return std * std


@pytree
class ClippedGaussian:
    """A centred Gaussian cut to ``[-R, R]``; built by :func:`clipped_gaussian`."""

    schedule: Any
    bound: Any  # R

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """Clipping keeps the mean at zero."""
        return jnp.clip(random.normal(word, std.dtype) * std, -self.bound, self.bound)

    def variance(self, std: jax.Array, mean: jax.Array) -> jax.Array:
        """``std^2 (1 - 2 c f(c) - 2 F(-c)) + 2 R^2 F(-c)`` with ``c = R / std``: below ``std^2``."""
        bound = self.bound[None]
        c = bound / jnp.where(std > 0, std, 1)
        tail = jax.scipy.stats.norm.cdf(-c)
        inside = 1 - 2 * c * jax.scipy.stats.norm.pdf(c) - 2 * tail
        return jnp.where(std > 0, std * std * inside + 2 * bound**2 * tail, 0)


@pytree
class Bernoulli:
    """The reward is ``scale`` with probability ``mean / scale``, else 0; built by :func:`bernoulli`."""

    schedule: Any
    scale: Any

    @property
    def bound(self) -> Any:
        """The scale, since the reward and its mean both lie in ``[0, scale]``."""
        return self.scale

    def draw(self, word: jax.Array, std: jax.Array, mean: jax.Array) -> jax.Array:
        """The reward minus its mean."""
        happens = random.uniform(word, mean.dtype) * self.scale < mean
        return jnp.where(happens, self.scale, 0) - mean

    def variance(self, std: jax.Array, mean: jax.Array) -> jax.Array:
        """``mean (scale - mean)``."""
        return mean * (self.scale[None] - mean)


def two_point(std: Any) -> TwoPoint:
    """``+std`` or ``-std`` with probability 1/2 each; ``std`` is a number or a schedule."""
    return TwoPoint(schedule=_schedule(std))


def uniform(std: Any) -> Uniform:
    """Uniform on ``[-sqrt(3) std, sqrt(3) std]``; ``std`` is a number or a schedule."""
    return Uniform(schedule=_schedule(std))


def sparse(std: Any, bound: Any = 1.0) -> Sparse:
    """``+bound`` or ``-bound`` with probability ``std^2 / (2 bound^2)`` each, else 0: the heaviest tails allowed."""
    schedule = _schedule(std)
    return Sparse(schedule=schedule, bound=_bound(bound, schedule.largest, "the largest std"))


def clipped_gaussian(std: Any, bound: Any = 1.0) -> ClippedGaussian:
    """A Gaussian of standard deviation ``std`` cut to ``[-bound, bound]``; its stated variance is that after it."""
    return ClippedGaussian(schedule=_schedule(std), bound=_bound(bound, 0.0, "0"))


def bernoulli(scale: Any = 1.0) -> Bernoulli:
    """Rewards ``scale * Bernoulli(mean / scale)``, for means in ``[0, scale]``: the variance depends on the arm."""
    return Bernoulli(schedule=schedules.constant(0.0), scale=leaf(checks.parameter("scale", scale)))


def none() -> TwoPoint:
    """No noise at all."""
    return two_point(0.0)


def _schedule(std: Any) -> Any:
    if all(hasattr(std, name) for name in ("at", "levels", "largest")):
        return std
    return schedules.constant(std)


def _bound(bound: Any, least: Any, what: str) -> Any:
    checks.parameter("bound", bound)
    if not checks.is_traced(bound) and not checks.is_traced(least) and float(bound) < float(least):
        raise ValueError(f"bound must be at least {what}, {float(least):g}, got {bound!r}")
    return leaf(bound)
