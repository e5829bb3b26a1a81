"""SupLinUCB (Chu, Li, Reyzin, Schapire 2011): levels of accuracy, each with a plain regression of its own.

Levels are numbered 1..S; arrays over levels are 0-based.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import NamedTuple, Self

import chex
import jax
import jax.numpy as jnp

from jaxvar import parameters, random, ridge, status
from jaxvar.algorithms.bandit import EXPLORE, EXPLORE_DOC, BoundedBandit, Eliminating, at_layer, best
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.claims import Claim
from jaxvar.parameters import Number, choice, count, factory, number, pytree

CLAIM = Claim(
    "SupLinUCB",
    "Chu, Li, Reyzin, Schapire 2011",
    "sqrt(d K)",
    variance="not used",
    constants="derived again",
    assumption="finite decision sets, chosen in advance",
)


class SupLinUcbState(NamedTuple):
    """State of SupLinUCB for one seed."""

    levels: ridge.Ridge  # of each level, with a leading axis [capacity]
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    stats: ridge.ArmStats | None  # likewise, only for fixed arms


class End(NamedTuple):
    """The level in which a round ends, and the arms as seen from it."""

    active: jax.Array  # [N]   bool, the arms that survived all levels before
    width: jax.Array  # [N]   half widths
    pred: jax.Array  # [N]   estimates
    done: jax.Array  # [N]   estimates of the deepest level that is done, see `recommend`; else those of this one
    scale: jax.Array  # []   2^-s
    layer: jax.Array  # []   int32, s where the level learns, 0 where every arm is known well enough
    lost: jax.Array  # []   int32, status bits


@pytree
class SupLinUcb(BoundedBandit, Eliminating):
    r"""SupLinUCB: eliminate arms level by level, with estimates whose errors are independent of the arms chosen.

    With the mean :math:`m_a = \langle a, \hat\theta_s\rangle` and the half width
    :math:`w_a = (c\alpha + B)\|a\|_{A_s^{-1}}`, :math:`A_s = I + \sum_{\Psi_s} a a^\top`, of each active arm a, ask the
    levels s = 1, 2, ... in turn:

    - every :math:`w_a \le 1/\sqrt T`: pull the arm of the largest :math:`m_a + w_a`, learn nothing;
    - else every :math:`w_a \le 2^{-s}`: keep the arms with :math:`m_a + w_a \ge \max_b (m_b + w_b) - 2^{1-s}`, go on to
      level s + 1;
    - else pull an arm with :math:`w_a > 2^{-s}`; level s alone learns from it.

    Here :math:`\alpha = R\sqrt{2\log(2TN/\delta)}` for the N arms of the round. The paper has rewards in [0, 1],
    noise in an interval of length 1: its :math:`\sqrt{\tfrac12\log(2TN/\delta)}` is R = 1/2. The noise variance is not
    used. The confidence bounds are per arm, not ellipsoids, so there is no ``confidence``.

    References:
      Chu, Li, Reyzin, Schapire (2011), Contextual bandits with linear payoff functions, Algorithms 2 and 3.
    """

    dim: int = count(kw_only=False, doc="d, the length of an arm; arms have norm at most 1.")
    num_rounds: Number = number(
        at_least=1, kw_only=False, doc="T, in the threshold and the logarithm; the run itself may be shorter."
    )
    delta: Number = number(
        above=0,
        below=1,
        default=0.01,
        doc="failure probability of a level; S = ceil(log T) levels fail with probability at most S delta.",
    )
    explore: str = choice(
        *EXPLORE,
        default="widest",
        doc=f"{EXPLORE_DOC} The last looks at the level's own estimate, which the proof does not allow.",
    )
    capacity: int = count(
        high=ridge.MAX_LAYERS,
        default=None,
        rule=lambda self: self.choose_capacity(),
        doc="levels to store. Asking for a deeper one sets ``status.CAPACITY``; ``simulate`` reruns with more. No run "
        "asks for one above S.",
    )

    def init(self) -> SupLinUcbState:
        """Return empty levels: ``A_s = I``."""
        one = ridge.init_ridge(self.dim, 1, self.dtype)
        stats = None if self.fixed_arms is None else ridge.arm_stats(one, jnp.asarray(self.fixed_arms))
        levels, stats = jax.tree.map(lambda x: jnp.broadcast_to(x, (self.capacity, *x.shape)), (one, stats))
        return SupLinUcbState(levels, jnp.int32(0), jnp.int32(0), stats)

    def half_width(self, num_arms: Number) -> jax.Array:
        """Return ``c R sqrt(2 log(2 T N / delta)) + B``, by which the norm of an arm is multiplied, []."""
        stochastic = self.noise_bound * jnp.sqrt(2 * jnp.log(2 * num_arms * self.num_rounds / self.delta))
        return self.beta_scale * stochastic + self.theta_bound

    def select(self, state: SupLinUcbState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose an arm of ``arms [num_arms, dim]``."""
        end = self.descend(state, arms, side)
        allowed = end.active & ((end.layer == 0) | (end.width > end.scale))
        words = random.key_words(key)
        widest = best(end.width, allowed, self.tie_tolerance, self.unit)
        action = self.explore_or_best(end.layer > 0, widest, lambda: end.pred + end.width, allowed, words)
        return Choice(action, end.layer, (end.layer > 0).astype(self.dtype), end.lost.astype(jnp.int32))

    def recommend(self, state: SupLinUcbState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of ``arms [num_arms, dim]`` with the largest estimate of the deepest level that is done, [].

        A level is done where it was passed, or where every active arm is known well enough: it has the best bound on
        the error of all arms that survived. While no level is done, it is the one in which the round ends.
        """
        end = self.descend(state, arms, side)
        return self.top(end.done, end.active)

    def descend(self, state: SupLinUcbState, arms: jax.Array, side: Side) -> End:
        """Ask the levels in turn, dropping arms, up to the one where the round ends."""
        chex.assert_shape(arms, (None, self.dim))
        num: Number = arms.shape[0] if side.available is None else jnp.sum(side.available.astype(self.dtype), axis=0)
        factor, certainty = self.half_width(num), self.num_rounds**-0.5
        active, stopped = side.mask(arms.shape[0]), jnp.zeros((), bool)
        # The level in which the round ends, as seen from outside the loop.
        layer, scale = jnp.int32(0), jnp.ones((), self.dtype)
        width = pred = done = jnp.zeros(arms.shape[0], self.dtype)
        any_done = jnp.zeros((), bool)
        for i in range(self.capacity):
            if state.stats is None:
                width2, estimate = ridge.arm_stats(at_layer(state.levels, i), arms)
            else:
                width2, estimate = at_layer(state.stats, i)
            half = factor * jnp.sqrt(width2)
            largest = jnp.max(jnp.where(active, half, 0), axis=0)
            if i == 0:
                finite = jnp.isfinite(largest)  # every available arm is active here
            certain = largest <= certainty
            explores = ~certain & (largest > 2.0 ** -(i + 1))

            ends = ~stopped & (certain | explores)
            width = jnp.where(ends, half, width)
            pred = jnp.where(ends, estimate, pred)
            scale = jnp.where(ends, 2.0 ** -(i + 1), scale)
            layer = jnp.where(ends & explores, i + 1, layer)
            here = ~stopped & ~explores & (state.levels.log_det[i] > 0)
            done = jnp.where(here | (ends & ~any_done), estimate, done)
            any_done = any_done | here
            stopped = stopped | ends

            upper = estimate + half
            best = jnp.max(jnp.where(active, upper, -jnp.inf), axis=0)
            active = active & ((upper >= best - 2.0**-i) | stopped)

        lost = jnp.where(finite, jnp.where(stopped, 0, status.CAPACITY), status.NONFINITE)
        return End(active, width, pred, done, scale, layer, lost)

    def update(
        self, state: SupLinUcbState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side
    ) -> SupLinUcbState:
        """Learn in the chosen level, and in no other."""
        chex.assert_shape(x, (self.dim,))
        learned = []
        for i in range(self.capacity):
            weight = (choice.layer == i + 1).astype(self.dtype)  # zero leaves a level as it is
            level, update = ridge.regress(at_layer(state.levels, i), weight * x, weight * reward)
            stats = at_layer(state.stats, i)
            if stats is not None:
                stats = ridge.follow(stats, level, update, jnp.asarray(self.fixed_arms), state.round + 1)
            learned.append((level, stats, ridge.failure(update)))
        levels, stats, failed = jax.tree.map(lambda *v: jnp.stack(v), *learned)
        bits = functools.reduce(operator.or_, list(failed), state.status | choice.status)
        return SupLinUcbState(levels, state.round + 1, bits, stats)

    def grow(self) -> Self:
        """Return the same algorithm with more levels stored."""
        return parameters.replace(self, capacity=min(self.capacity + 4, ridge.MAX_LAYERS))

    def choose_capacity(self) -> int:
        """Return how many levels to store: those that ``num_rounds`` rounds can fill, and one more.

        A level is passed when the norms of all arms are below ``2^-s`` over their factor: d times its inverse square
        observations, or more.
        """
        values = (self.num_rounds, self.noise_bound, self.delta, self.theta_bound, self.beta_scale)
        if any(parameters.is_traced(v) for v in values):
            return 8
        total, bound, failure, theta, scale = map(float, values)
        factor = scale * bound * math.sqrt(2 * math.log(2 * total / failure)) + theta
        most = max(1, math.ceil(math.log(total)))
        filled, level = 0.0, 0
        while filled < total and level < most:
            level += 1
            filled += self.dim * (factor * factor) * 4.0**level
        return min(level + 1, most)


sup_lin_ucb = factory(SupLinUcb)
