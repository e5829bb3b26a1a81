"""Bases of the bandit algorithms: parameters that are declared once, the choice of an arm, and fixed arms.

The best arm is found by a rule that rounding cannot change. Candidates are all arms within
``tolerance * max(unit, |best|)`` of the best. An exact comparison would let the last bit of a sum decide, and with it
the compiler, the batch size and the device. The ``unit`` is the size of the terms that a value is made of, in the units
of the problem: a difference may cancel far below it, its rounding does not. Where a whole problem is measured in other
units, the unit changes with it, and no choice does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxvar import blocks, lowering, parameters, random, ridge, status
from jaxvar.algorithms.interface import Typed
from jaxvar.parameters import Number, choice, count, number, pytree

T = TypeVar("T")
RULES = ("lowest", "random")
EXPLORE = ("widest", "first", "random", "optimistic")
EXPLORE_DOC = (
    "which too-uncertain arm to pull, which the paper leaves free: ``widest``, ``first``, ``random``, or "
    "``optimistic`` (the largest upper confidence bound)."
)


def default_tolerance(dtype: DTypeLike) -> float:
    """Return how near is a tie: far above rounding, far below any gap that matters."""
    return 1e-9 if np.dtype(dtype).itemsize == 8 else 1e-5


def declare_tolerance() -> Any:
    """Declare the parameter ``tie_tolerance``, the same for all algorithms."""
    return number(
        at_least=0,
        default=None,
        rule=lambda self: np.asarray(default_tolerance(self.dtype), self.dtype),
        doc="relative to the size of what is compared; 1e-9 in float64 and 1e-5 in float32 if not given.",
    )


def declare_ties(what: str = "index") -> Any:
    """Declare the parameter ``ties``, the same for all algorithms."""
    return choice(
        *RULES,
        default="random",
        doc=f"``random`` or ``lowest`` {what}, among those within ``tie_tolerance`` of the best.",
    )


def declare_theta_bound(symbol: str = "B") -> Any:
    """Declare the parameter ``theta_bound``, the same for all algorithms that judge ties by it."""
    return number(
        above=0,
        squared=True,
        default=1.0,
        doc=f"{symbol}, a bound on the norm of theta*, and the unit in which ties are judged.",
    )


def declare_beta_scale(part: str = "the stochastic part of the radius") -> Any:
    """Declare the parameter ``beta_scale``, the same for all algorithms but for the ``part`` that it multiplies."""
    return number(at_least=0, default=1.0, doc=f"c, a multiplier of {part}; 1 is the theorem.")


def declare_capacity() -> Any:
    """Declare the parameter ``capacity``, the same for all algorithms with layers."""
    return count(
        high=ridge.MAX_LAYERS,
        default=None,
        rule=lambda self: ridge.choose_capacity(self.num_rounds, self.alpha),
        doc="layers to store. Asking for a deeper one sets ``status.CAPACITY``; ``simulate``, ``run`` and ``trace`` "
        "then play again with more.",
    )


def declare_memory(what: str) -> Any:
    """Declare the parameter ``memory``, the same for all algorithms that remember rounds one by one."""
    return count(
        default=None,
        rule=lambda self: 2000 if parameters.is_traced(self.num_rounds) else int(np.max(np.asarray(self.num_rounds))),
        doc=f"{what}, K if not given; time and memory of a round grow with it. One more sets ``status.CAPACITY``.",
    )


@jax.custom_jvp
def near(values: jax.Array, top: jax.Array, tolerance: Any, unit: Number) -> jax.Array:
    """Return which of the ``values [N, ...]`` are within the tolerance of the best, ``top [...]``, bool [N, ...]."""
    return values >= _level(top, tolerance, unit)[None]


def _level(top: jax.Array, tolerance: Any, unit: Number) -> jax.Array:
    """Return the least value that is within the tolerance of the best."""
    return top - tolerance * jnp.maximum(unit, jnp.abs(top))


near.defjvp(blocks.not_differentiable)


def best(values: jax.Array, allowed: jax.Array, tolerance: Any, unit: Number) -> jax.Array:
    """Return which of the ``allowed [N, ...]`` have a value within the tolerance of the best, bool [N, ...]."""
    return allowed & near(values, lowering.largest(jnp.where(allowed, values, -jnp.inf)), tolerance, unit)


def widest(width2: jax.Array, largest: jax.Array, scale: jax.Array, tolerance: Any, unit: Number) -> jax.Array:
    """Return which widths are within the tolerance of the largest, bool [N], given their squares times ``scale []``.

    The ``largest []`` of the squares ``width2 [N]`` is known, so that one root is taken instead of N.
    """
    level = jnp.maximum(_level(jnp.sqrt(largest * (1 / scale)), tolerance, unit), 0)
    return width2 >= scale * level**2


def pick(candidates: jax.Array, key_data: jax.Array, rule: str) -> jax.Array:
    """Return one of the candidates ``[N]`` by a rule of :data:`RULES`, with the ``key_data [2]`` of a key."""
    if rule == "lowest":
        return lowering.lowest(candidates)
    return by_rank(candidates, random.uniform(random.bits(key_data, ()), jnp.float32))


def by_rank(candidates: jax.Array, u: jax.Array) -> jax.Array:
    """Return of n ``candidates [N, ...]`` the one of rank floor(u n), counted from 0, for ``u [...]`` in (0, 1)."""
    num = jnp.sum(candidates.astype(jnp.int32), axis=0, dtype=jnp.int32)
    rank = jnp.minimum((u * num.astype(jnp.float32)).astype(jnp.int32), num - 1)  # the product may round up to n
    return lowering.of_rank(candidates, rank)


@pytree
class Bandit(Typed):
    """Base of the bandit algorithms with a failure probability."""

    dim: int = count(kw_only=False, doc="d, the length of an arm.")
    noise_bound: Number = number(above=0, squared=True, default=1.0, doc=r"R, with \|noise\| <= R.")
    delta: Number = number(above=0, below=1, default=0.01, doc="failure probability.")
    ties: str = declare_ties()
    tie_tolerance: Number | None = declare_tolerance()

    @property
    def unit(self) -> Number:
        """The size of what values are made of, by which ties are judged."""
        return 1

    def best(self, values: jax.Array, words: jax.Array, allowed: jax.Array | None = None) -> jax.Array:
        """Return the arm of the largest of ``values [N]``, among the ``allowed [N]`` where they are given, [].

        Ties are broken with the ``words [2]`` of the round's key.
        """
        allowed = jnp.ones(values.shape, bool) if allowed is None else allowed
        return pick(best(values, allowed, self.tie_tolerance, self.unit), words, self.ties)

    def top(self, values: jax.Array, allowed: jax.Array) -> jax.Array:
        """Return the ``allowed [N]`` arm of the largest of ``values [N]``, the one of lowest index among equals, [].

        Recommendations are made by it: unlike a choice, they draw nothing.
        """
        return lowering.lowest(best(values, allowed, self.tie_tolerance, self.unit))


@pytree
class BoundedBandit(Bandit):
    """Base of the bandit algorithms that are told a bound on theta* and whose radius can be scaled."""

    theta_bound: Number = declare_theta_bound()
    beta_scale: Number = declare_beta_scale()

    @property
    def unit(self) -> Number:
        """The size of what values are made of: the bound on theta*."""
        return self.theta_bound


@pytree
class FixedArms(Bandit):
    """Base of the bandit algorithms that save time where the decision set never changes."""

    fixed_arms: jax.Array | None = None  # [num_arms, dim] where the decision set never changes

    def with_fixed_arms(self, arms: jax.Array, masked: bool = False) -> Self:
        """Return the algorithm for arms ``[num_arms, dim]`` that never change: O(N d) a regression, same choices.

        With ``masked`` arms may be absent in some rounds; their statistics are kept all the same.
        """
        chex.assert_shape(arms, (None, self.dim))
        return parameters.replace(self, fixed_arms=arms)


@pytree
class Eliminating(FixedArms):
    """Base of the algorithms that eliminate arms layer by layer, and pull one that is still too uncertain."""

    explore: str = choice(*EXPLORE, default="widest", doc=EXPLORE_DOC)

    def explore_or_best(
        self,
        learns: jax.Array,
        widest: jax.Array,
        upper: Callable[[], jax.Array],
        allowed: jax.Array,
        words: jax.Array,
    ) -> jax.Array:
        """Return one of the ``allowed [N]`` arms: by ``explore`` where a layer ``learns []``, else the best, [].

        The ``widest [N]`` of them are known; ``upper()`` returns the upper confidence bounds ``[N]`` of all arms.
        """

        def of_best() -> jax.Array:
            return best(upper(), allowed, self.tie_tolerance, self.unit)

        if self.explore == "optimistic":
            return pick(of_best(), words, self.ties)
        if self.explore == "widest":
            return pick(lowering.where_any(~learns, of_best, allowed & widest), words, self.ties)
        explored = pick(allowed, words, "lowest" if self.explore == "first" else "random")
        return jnp.where(learns, explored, pick(of_best(), words, self.ties))


@pytree
class ToldVariance:
    """Base of the bandit algorithms that are told the noise variance."""

    variance_scale: Number = number(
        above=0, default=1.0, doc="multiplies the variance that is told; above 1, an over-estimate."
    )
    variance_bound: Number | None = number(
        at_least=0, default=None, doc="a constant told in place of the variance, if given."
    )

    def told(self, noise_var: jax.Array) -> Number:
        """Return ``sigma^2`` as the algorithm hears of it: told after the pull, []."""
        return self.variance_scale * (noise_var if self.variance_bound is None else self.variance_bound)


def lost(values: jax.Array, available: jax.Array | None) -> jax.Array:
    """Return the status bits of a choice among ``values [num_arms]`` of arms that are ``available``, int32 []."""
    present = values if available is None else jnp.where(available, values, -jnp.inf)
    return jnp.where(jnp.isfinite(jnp.max(present, axis=0)), 0, status.NONFINITE).astype(jnp.int32)


def at_layer(stack: T, i: int) -> T:
    """Return entry ``i`` of each array of a pytree."""
    return jax.tree.map(lambda v: v[i], stack)
