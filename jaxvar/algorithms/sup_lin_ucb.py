"""SupLinUCB (Chu, Li, Reyzin, Schapire 2011): levels of accuracy, each with a plain regression of its own.

Levels are numbered 1..S; arrays over levels are 0-based.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import checks, random, ridge, status
from jaxvar import ties as tie_rules
from jaxvar.algorithms import arm_view, ellipsoid
from jaxvar.algorithms.arm_view import ArmView
from jaxvar.algorithms.ellipsoid import number
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.batching import seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import float_dtype, pytree, static

CLAIM = Claim(
    name="SupLinUCB",
    factory="sup_lin_ucb",
    reference="Chu, Li, Reyzin, Schapire 2011",
    setting="bandit",
    regret="sqrt(d K)",
    deterministic="sqrt(d K)",
    variance="not used",
    efficient=True,
    constants="derived again",
    assumption="finite decision sets, chosen in advance",
)

EXPLORE = ("widest", "first", "random", "optimistic")
MAX_LEVELS = 200


class SupLinUcbState(NamedTuple):
    """State of SupLinUCB for one seed."""

    levels: ridge.Ridge  # of each level, with a leading axis [capacity]
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    view: ArmView | None  # likewise, only for fixed arms


@pytree
class SupLinUcb:
    """SupLinUCB; built by :func:`sup_lin_ucb`."""

    num_rounds: Any  # T of the theorem
    noise_bound: Any  # R
    delta: Any
    theta_bound: Any  # B
    beta_scale: Any
    tie_tolerance: Any
    dim: int = static()
    capacity: int = static()  # levels stored
    explore: str = static()
    ties: str = static()
    fixed_arms: Any = None  # [num_arms, dim] where the decision set never changes

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    def init(self) -> SupLinUcbState:
        """Empty levels: ``A_s = I``."""
        one = ridge.init_ridge(self.dim, 1, self.dtype)
        view = None if self.fixed_arms is None else arm_view.view(one, None, self.fixed_arms)

        def repeat(x: jax.Array) -> jax.Array:
            return jnp.broadcast_to(x, (self.capacity, *x.shape))

        levels, view = jax.tree.map(repeat, (one, view))
        return SupLinUcbState(levels, jnp.int32(0), jnp.int32(0), view)

    def half_width(self, num_arms: int) -> jax.Array:
        """``c R sqrt(2 log(2 T N / delta)) + B``, by which the norm of an arm is multiplied."""
        stochastic = self.noise_bound * jnp.sqrt(2 * jnp.log(2 * num_arms * self.num_rounds / self.delta))
        return self.beta_scale * stochastic + self.theta_bound

    def select(self, state: SupLinUcbState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose an arm of ``arms [num_arms, dim]``."""
        chex.assert_shape(arms, (None, self.dim))
        return _select(self, state, arms, random.key_words(key))

    def update(
        self, state: SupLinUcbState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side
    ) -> SupLinUcbState:
        """Learn in the chosen level, and in no other."""
        chex.assert_shape(x, (self.dim,))
        return _update(self, state, choice, x, reward)

    def with_fixed_arms(self, arms: jax.Array) -> SupLinUcb:
        """The same algorithm for arms ``[num_arms, dim]`` that never change: O(N d) a level, the same choices."""
        chex.assert_shape(arms, (None, self.dim))
        return dataclasses.replace(self, fixed_arms=arms)

    def grow(self) -> SupLinUcb:
        """The same algorithm with more levels stored."""
        return dataclasses.replace(self, capacity=min(self.capacity + 4, MAX_LEVELS))


def sup_lin_ucb(
    dim: int,
    num_rounds: Any,
    *,
    noise_bound: Any = 1.0,
    delta: Any = 0.01,
    theta_bound: Any = 1.0,
    beta_scale: Any = 1.0,
    explore: str = "widest",
    ties: str = "random",
    tie_tolerance: Any = None,
    capacity: int | None = None,
) -> SupLinUcb:
    r"""SupLinUCB: eliminate arms level by level, with estimates whose errors are independent of the arms chosen.

    With the mean :math:`m_a = \langle a, \hat\theta_s\rangle` and the half width
    :math:`w_a = (c\alpha + B)\|a\|_{A_s^{-1}}`, :math:`A_s = I + \sum_{\Psi_s} a a^\top`, of each active arm a, ask the
    levels s = 1, 2, ... in turn:

    - every :math:`w_a \le 1/\sqrt T`: pull the arm of the largest :math:`m_a + w_a`, learn nothing;
    - else every :math:`w_a \le 2^{-s}`: keep the arms with :math:`m_a + w_a \ge \max_b (m_b + w_b) - 2^{1-s}`, go on to
      level s + 1;
    - else pull an arm with :math:`w_a > 2^{-s}`; level s alone learns from it.

    Here :math:`\alpha = R\sqrt{2\log(2TN/\delta)}` for N arms. The paper has rewards in [0, 1], noise in an interval of
    length 1: its :math:`\sqrt{\tfrac12\log(2TN/\delta)}` is R = 1/2. The noise variance is not used.

    Args:
      dim: d, the length of an arm; arms have norm at most 1.
      num_rounds: T, in the threshold and the logarithm; the run itself may be shorter.
      noise_bound: R, with \|noise\| <= R.
      delta: failure probability of a level; S = ceil(log T) levels fail with probability at most S delta.
      theta_bound: B, a bound on the norm of theta*.
      beta_scale: c, a multiplier of the stochastic part; 1 is the theorem.
      explore: which too-uncertain arm to pull, which the paper leaves free: ``widest``, ``first``, ``random``, or
        ``optimistic`` (the largest upper confidence bound). The last looks at the level's own estimate, which the proof
        does not allow.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.
      capacity: levels to store. Asking for a deeper one sets ``status.CAPACITY``; ``simulate`` reruns with more. No
        run asks for one above S.

    Returns:
      The algorithm, a pytree. Its confidence bounds are per arm, not ellipsoids, so it has no ``confidence``.

    References:
      Chu, Li, Reyzin, Schapire (2011), Contextual bandits with linear payoff functions, Algorithms 2 and 3.
    """
    dim = checks.count("dim", dim)
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    numbers = {
        "num_rounds": number("num_rounds", num_rounds),
        "noise_bound": number("noise_bound", noise_bound),
        "delta": number("delta", delta),
        "theta_bound": number("theta_bound", theta_bound),
        "beta_scale": number("beta_scale", beta_scale),
    }
    return SupLinUcb(
        **numbers,
        tie_tolerance=number("tie_tolerance", tie_tolerance),
        dim=dim,
        capacity=_choose_capacity(dim, **numbers) if capacity is None else _check_capacity(capacity),
        explore=checks.choice("explore", explore, EXPLORE),
        ties=checks.choice("ties", ties, tie_rules.RULES),
    )


def _check_capacity(capacity: int) -> int:
    return checks.count("capacity", capacity, high=MAX_LEVELS)


def _choose_capacity(dim: int, num_rounds: Any, noise_bound: Any, delta: Any, theta_bound: Any, beta_scale: Any) -> int:
    """How many levels to store: those that ``num_rounds`` rounds can fill, and one more.

    A level is passed when the norms of all arms are below ``2^-s`` over their factor: d times its inverse square
    observations, or more.
    """
    values = (num_rounds, noise_bound, delta, theta_bound, beta_scale)
    if any(checks.is_traced(v) for v in values):
        return 8
    total, bound, failure, theta, scale = map(float, values)
    factor = scale * bound * math.sqrt(2 * math.log(2 * total / failure)) + theta
    most = max(1, math.ceil(math.log(total)))
    filled, level = 0.0, 0
    while filled < total and level < most:
        level += 1
        filled += dim * factor**2 * 4.0**level
    return min(level + 1, most)


def _level(state: SupLinUcbState, index: int) -> tuple[ridge.Ridge, ArmView | None]:
    view = None if state.view is None else ArmView(*(v[index] for v in state.view))
    return ridge.Ridge(*(v[index] for v in state.levels)), view


@seeds_last
def _select(self: SupLinUcb, state: SupLinUcbState, arms: jax.Array, words: jax.Array) -> Choice:
    factor = self.half_width(arms.shape[0])
    certainty = self.num_rounds**-0.5
    one = (1,) * (words.ndim - 1)  # trailing axes of the batch

    active = jnp.ones((arms.shape[0], *one), bool)
    stopped = jnp.zeros(one, bool)
    # The level in which the round ends, as seen from outside the loop.
    layer, scale = jnp.zeros(one, jnp.int32), jnp.ones(one, self.dtype)
    width = pred = jnp.zeros((arms.shape[0], *one), self.dtype)
    for i in range(self.capacity):
        width2, estimate = arm_view.view(*_level(state, i), arms)
        half = factor[None] * jnp.sqrt(width2)
        largest = jnp.max(jnp.where(active, half, 0), axis=0)
        if i == 0:
            finite = jnp.isfinite(largest)  # every arm is active here
        certain = largest <= certainty
        explores = ~certain & (largest > 2.0 ** -(i + 1))

        ends = ~stopped & (certain | explores)
        width = jnp.where(ends[None], half, width)
        pred = jnp.where(ends[None], estimate, pred)
        scale = jnp.where(ends, 2.0 ** -(i + 1), scale)
        layer = jnp.where(ends & explores, i + 1, layer)
        stopped = stopped | ends

        upper = estimate + half
        best = jnp.max(jnp.where(active, upper, -jnp.inf), axis=0)
        active = active & ((upper >= (best - 2.0**-i)[None]) | stopped[None])

    learns = layer > 0
    upper = pred + width
    allowed = active & (~learns[None] | (width > scale[None]))
    if self.explore == "widest":
        value = jnp.where(learns[None], width, upper)
    elif self.explore == "optimistic":
        value = upper
    else:  # all that are allowed are equally good
        value = jnp.where(learns[None], 0, upper)
    rule = {"first": "lowest", "random": "random"}.get(self.explore, self.ties)
    candidates = tie_rules.best(value, allowed, self.tie_tolerance)
    action = tie_rules.pick(candidates, words, rule)
    if rule != self.ties:
        action = jnp.where(learns, action, tie_rules.pick(candidates, words, self.ties))
    lost = jnp.where(finite, jnp.where(stopped, 0, status.CAPACITY), status.NONFINITE)
    return Choice(action, layer, learns.astype(self.dtype), lost.astype(jnp.int32))


@seeds_last
def _update(self: SupLinUcb, state: SupLinUcbState, choice: Choice, x: jax.Array, reward: jax.Array) -> SupLinUcbState:
    learned = []
    for i in range(self.capacity):
        weight = (choice.layer == i + 1).astype(self.dtype)  # zero leaves a level as it is
        learned.append(ellipsoid.learn(*_level(state, i), self.fixed_arms, x, reward, weight))
    failure = jnp.zeros_like(state.status)
    for _, _, bits in learned:
        failure = failure | bits
    levels, view = jax.tree.map(lambda *v: jnp.stack(v), *((level, view) for level, view, _ in learned))
    return SupLinUcbState(levels, state.round + 1, state.status | choice.status | failure, view)
