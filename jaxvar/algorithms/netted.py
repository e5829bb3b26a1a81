"""What VOFUL and VOFUL2 share: clipped sums, a net of parameters, and the optimistic arm over what is left of it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import checks, nets, random, status
from jaxvar import ties as tie_rules
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.batching import seeds_last
from jaxvar.pytrees import float_dtype, leaf, pytree, static

TESTS = ("tight", "paper")
LARGEST_EXPONENT = 0.95  # psi(lam) is finite below 1


class NettedState(NamedTuple):
    """State of VOFUL or VOFUL2 for one seed; it does not grow with the rounds."""

    sums: nets.Sums  # over C = J M constraints
    net: nets.Net
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


@pytree
class NettedBandit:
    """All of VOFUL and VOFUL2 but the number of scales and ``iota``."""

    noise_bound: Any  # R
    theta_bound: Any  # B
    delta: Any
    num_rounds: Any  # K of the theorem
    beta_scale: Any
    tie_tolerance: Any
    dim: int = static()
    cells: int = static()  # along each axis
    num_directions: int = static()
    num_scales: int = static()
    num_exponents: int = static()
    every: int = static()  # rounds between two looks at the net
    test: str = static()
    ties: str = static()

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    @property
    def clip(self) -> nets.Clipping:
        """Directions and scales."""
        return nets.clipping(self.dim, self.num_directions, self.num_scales)

    @property
    def iota(self) -> Any:
        """The logarithmic factor of the printed test."""
        raise NotImplementedError

    def init(self) -> NettedState:
        """No observation, and all cells that meet the ball of radius B."""
        net = nets.init_net(self.dim, self.cells, self.theta_bound, self.dtype)
        sums = nets.init_sums(self.clip.num, self.dim, self.dtype)
        return NettedState(sums, _in_ball(self, net), jnp.int32(0), jnp.int32(0))

    def select(self, state: NettedState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest mean that a parameter left gives to any arm."""
        chex.assert_shape(arms, (None, self.dim))
        return _select(self, state, arms, random.key_words(key))

    def update(self, state: NettedState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> NettedState:
        """Add to the sums; in every ``every``-th round drop the cells that no longer pass."""
        chex.assert_shape(x, (self.dim,))
        return _update(self, state, choice, x, reward)

    def contains(self, state: NettedState, theta: jax.Array) -> jax.Array:
        """Whether the cell of ``theta [dim]`` is left, bool []."""
        chex.assert_shape(theta, (self.dim,))
        return _contains(self, state.net, theta)


@seeds_last
def _in_ball(self: NettedBandit, net: nets.Net) -> nets.Net:
    return net._replace(alive=nets.meets_ball(nets.points(net, self.cells), net.half / self.cells, self.theta_bound))


@seeds_last
def _contains(self: NettedBandit, net: nets.Net, theta: jax.Array) -> jax.Array:
    return nets.contains(net, self.cells, theta)


@seeds_last
def _select(self: NettedBandit, state: NettedState, arms: jax.Array, words: jax.Array) -> Choice:
    upper = nets.support(arms, state.net, self.cells)
    candidates = tie_rules.best(upper, jnp.ones(upper.shape, bool), self.tie_tolerance)
    action = tie_rules.pick(candidates, words, self.ties)
    lost = jnp.where(jnp.isfinite(jnp.max(upper, axis=0)), 0, status.NONFINITE).astype(jnp.int32)
    return Choice(action, jnp.ones_like(action), jnp.ones(action.shape, self.dtype), lost)


@seeds_last
def _update(self: NettedBandit, state: NettedState, choice: Choice, x: jax.Array, reward: jax.Array) -> NettedState:
    sums = nets.add(state.sums, nets.weights(x, self.clip), x, reward)
    round = state.round + 1
    due = round % self.every == 0
    net, empty = nets.refine(state.net, self.cells, due, lambda points, cell: passes(self, sums, points, cell))
    finite = jnp.isfinite(reward) & jnp.all(jnp.isfinite(x), axis=0)
    failure = jnp.where(finite, 0, status.NONFINITE) | jnp.where(empty, status.EMPTY, 0)
    return NettedState(sums, net, round, state.status | choice.status | failure.astype(jnp.int32))


def passes(self: NettedBandit, sums: nets.Sums, points: jax.Array, cell: jax.Array) -> jax.Array:
    """Which cells ``points [N, d]`` of half-sides ``cell [d]`` may hold a parameter that passes all tests: bool [N]."""
    bound = _column(self.clip.scale, self.dtype, cell) * self.noise_bound[None]  # l R of each constraint
    root = jnp.sqrt(nets.square_sum(sums, points)) + nets.cell_norm(sums.aaxx, cell)[:, None]
    if self.test == "paper":
        limit = jnp.sqrt(self.iota)[None, None] * root + (bound * self.iota[None])[:, None]
    else:
        lam = nets.exponents(LARGEST_EXPONENT, self.num_exponents)
        log = jnp.log(2 * self.num_exponents * self.clip.num / self.delta)
        unit = nets.exponential_limit((root / bound[:, None]) ** 2, log[None, None], lam, nets.empirical_rate(lam))
        limit = bound[:, None] * unit
    slack = nets.cell_shift(sums.ax, cell)[:, None]
    inside = nets.deviation(sums.ay, sums.ax, points) <= self.beta_scale[None, None] * limit + slack
    return jnp.all(inside, axis=0) & nets.meets_ball(points, cell, self.theta_bound)


def _column(values: Any, dtype: Any, like: jax.Array) -> Any:
    """``values [C]`` with the trailing axes of ``like [d]``."""
    return values.astype(dtype).reshape(-1, *(1,) * (like.ndim - 1))


def parameters(
    dim: Any,
    num_rounds: Any,
    num_scales: int,
    noise_bound: Any,
    theta_bound: Any,
    delta: Any,
    test: Any,
    beta_scale: Any,
    cells: Any,
    num_directions: Any,
    every: Any,
    ties: Any,
    tie_tolerance: Any,
) -> dict[str, Any]:
    """The fields of :class:`NettedBandit` from a factory's arguments, checked; ``num_scales`` is."""
    dim, cells, num_directions = nets.check_sizes(dim, cells, num_directions, num_scales)
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return {
        "noise_bound": leaf(checks.parameter("noise_bound", noise_bound)),
        "theta_bound": leaf(checks.parameter("theta_bound", theta_bound)),
        "delta": leaf(checks.parameter("delta", delta)),
        "num_rounds": leaf(num_rounds),
        "beta_scale": leaf(checks.parameter("beta_scale", beta_scale)),
        "tie_tolerance": leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        "dim": dim,
        "cells": cells,
        "num_directions": num_directions,
        "num_scales": num_scales,
        "num_exponents": 7 + math.floor(log2_of(num_rounds)),
        "every": checks.count("every", every),
        "test": checks.choice("test", test, TESTS),
        "ties": checks.choice("ties", ties, tie_rules.RULES),
    }


def log2_of(num_rounds: Any) -> float:
    """The logarithm of a number of rounds; of 2^16 where it is traced, since it sets shapes."""
    return 16.0 if checks.is_traced(num_rounds) else math.log2(float(num_rounds))
