"""Wrappers of algorithms, which change when they learn: rewards that come late, and policies that are frozen.

Neither offers ``confidence``: the recorder of the confidence event takes each reward to be learned at once, with the
weight of its choice. Neither uses an algorithm's form for fixed arms, unless nothing is late: SAVE's rests on choosing
and learning from the same state. An algorithm's theorem says nothing about learning late.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from chex import ArrayTree

from jaxvar import parameters
from jaxvar.algorithms.interface import Algorithm, Side
from jaxvar.engine import as_pytree
from jaxvar.parameters import count, factory, pytree
from jaxvar.wrappers.base import Wrapper, held


@pytree
class LearnsLate(Wrapper):
    """Base of the wrappers of algorithms."""

    HOLDS: ClassVar[str] = "algorithm"
    FACTS: ClassVar[tuple[str, ...]] = ("capacity", "dim", "dtype", "noise_bound", "norm_bound", "num_rounds", "unused")

    algorithm: Algorithm = held("algorithm", "init", "select", "update")

    @property
    def is_late(self) -> bool:
        """True if choices are made by another state than the one that learns."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> object:
        """Return a fact about the algorithm, its recommendation from all it has learned, or a method that makes one."""
        if name == "grow" or (name == "with_fixed_arms" and not self.is_late):
            method = getattr(self.inner, name)

            @functools.wraps(method)
            def wrapped_again(*args: object, **kwargs: object) -> LearnsLate:
                return parameters.replace(self, algorithm=as_pytree(method(*args, **kwargs)))

            return wrapped_again
        if name == "recommend":
            recommend = self.inner.recommend
            return lambda state, arms, side: recommend(state.learner, arms, side)
        return super().__getattr__(name)


class Feedback(NamedTuple):
    """The arguments of one ``update``, kept until the reward arrives."""

    choice: ArrayTree
    x: jax.Array  # [dim]
    reward: jax.Array  # []
    noise_var: jax.Array  # []


class DelayedState(NamedTuple):
    """State of an algorithm whose rewards arrive late."""

    learner: ArrayTree  # the algorithm's state, after all rewards that have arrived
    waiting: Feedback | None  # [delay, ...] each, the oldest first; None where nothing is late
    round: jax.Array  # []   int32, rounds played
    lost: jax.Array  # []   int32, status bits of the choices so far, whose rewards may still be under way

    @property
    def status(self) -> jax.Array:
        """Status bits of the algorithm and of its choices, int32 []."""
        return self.lost | getattr(self.learner, "status", jnp.int32(0))


@pytree
class Delayed(LearnsLate):
    r"""An algorithm that is told the reward of round k after its choice of round :math:`k + \text{delay}`.

    The environment draws the reward in its own round, as the game asks it to, so regret and records are those of the
    rounds played. The algorithm's ``update`` is held back: choice, arm, reward and noise variance wait in a queue of
    the state, ``delay`` rounds long, and the algorithm learns from the oldest. Its state does not change before the
    first reward arrives, and the last ``delay`` rewards never arrive. Whatever counts rounds in its state counts the
    rewards it has seen. A choice keeps the layer of its own round; widths and weights are those of the arrival, so that
    weights of SAVE may be above 1, which its theorem excludes.

    With ``delay=0`` it is the algorithm itself, to the bit.
    """

    delay: int = count(low=0, kw_only=False, doc="rounds that each reward is late; static, since it sets shapes.")
    dim: int = count(
        default=None,
        rule=lambda self: getattr(self.inner, "dim", None),
        doc="d, the length of an arm; not needed where the algorithm has a ``dim``.",
    )
    num_arms: int = count(
        default=2, doc="size of the decision set; needed only where a choice holds an array with an entry for each arm."
    )

    @property
    def is_late(self) -> bool:
        return self.delay > 0

    def init(self) -> DelayedState:
        """Return the algorithm's first state, and an empty queue."""
        algorithm, waiting = self.inner, None
        learner = algorithm.init()
        if self.is_late:
            dtype = getattr(algorithm, "dtype", parameters.float_dtype())
            num_arms = getattr(algorithm, "num_arms", self.num_arms)
            arms, variances = jnp.zeros((num_arms, self.dim), dtype), jnp.zeros(num_arms, dtype)
            choice = jax.eval_shape(algorithm.select, learner, arms, jax.random.key(0), Side(variances))
            one = Feedback(choice, arms[0], variances[0], variances[0])
            waiting = jax.tree.map(lambda v: jnp.zeros((self.delay, *v.shape), v.dtype), one)
        return DelayedState(learner, waiting, jnp.int32(0), jnp.int32(0))

    def select(self, state: DelayedState, arms: jax.Array, key: jax.Array, side: Side) -> Any:
        """Choose as the algorithm does, from what has arrived."""
        return self.inner.select(state.learner, arms, key, side)

    def update(self, state: DelayedState, choice: Any, x: jax.Array, reward: jax.Array, side: Side) -> DelayedState:
        """Learn from the oldest reward of the queue, if one has arrived, and put this one at its end."""
        waiting, learn = state.waiting, self.inner.update
        if waiting is None:
            learner = learn(state.learner, choice, x, reward, side)
        else:
            now = Feedback(choice, x, reward, side.noise_var)
            room, given = ([jnp.shape(v) for v in jax.tree.leaves(tree)] for tree in (waiting, now))
            if [shape[1:] for shape in room] != given:
                raise ValueError(
                    f"num_arms must be the number of arms where choices hold an array with an entry for each arm, got "
                    f"num_arms {self.num_arms} and dim {self.dim} in delayed, which gives shapes "
                    f"{[list(shape[1:]) for shape in room]}, and shapes {[list(shape) for shape in given]} in the game"
                )
            oldest = jax.tree.map(lambda queue: queue[0], waiting)
            told = side._replace(noise_var=oldest.noise_var)
            learner = learn(state.learner, oldest.choice, oldest.x, oldest.reward, told)
            arrives = functools.partial(jnp.where, state.round >= self.delay)
            learner = jax.tree.map(arrives, learner, state.learner)
            # A queue that moves up: at a delay of 100 twice as fast as a ring whose slot is masked, four times as one
            # whose slot is indexed (OFUL, d = 10, two cores).
            waiting = jax.tree.map(lambda queue, v: jnp.concatenate([queue[1:], jnp.asarray(v)[None]]), waiting, now)
        return DelayedState(learner, waiting, state.round + 1, _with_bits(state.lost, choice))


delayed = factory(Delayed)


class BatchedState(NamedTuple):
    """State of an algorithm whose policy is frozen between updates."""

    learner: ArrayTree  # the algorithm's state, after all rewards
    policy: ArrayTree  # the one that chooses, of the last round that was a multiple of ``every``; None where that is 1
    round: jax.Array  # []   int32, rounds played
    lost: jax.Array  # []   int32, status bits of the choices so far

    @property
    def status(self) -> jax.Array:
        """Status bits of the algorithm and of its choices, int32 []."""
        return self.lost | getattr(self.learner, "status", jnp.int32(0))


@pytree
class Batched(LearnsLate):
    """An algorithm whose policy is frozen for ``every`` rounds at a time.

    It learns from each reward at once, in a state that nobody looks at; choices of the rounds ``j every + 1`` to
    ``(j + 1) every`` are made by the state after round ``j every``. A choice keeps the layer that the frozen state
    gave it; widths and weights are those of the state that learns.

    With ``every=1`` it is the algorithm itself, to the bit.
    """

    every: int = count(kw_only=False, doc="rounds from one change of the policy to the next; static.")

    @property
    def is_late(self) -> bool:
        return self.every > 1

    def init(self) -> BatchedState:
        """Return the algorithm's first state, twice."""
        learner = self.inner.init()
        return BatchedState(learner, learner if self.is_late else None, jnp.int32(0), jnp.int32(0))

    def select(self, state: BatchedState, arms: jax.Array, key: jax.Array, side: Side) -> Any:
        """Choose as the algorithm does, in its frozen state."""
        return self.inner.select(state.policy if self.is_late else state.learner, arms, key, side)

    def update(self, state: BatchedState, choice: Any, x: jax.Array, reward: jax.Array, side: Side) -> BatchedState:
        """Learn from the reward; at the end of a batch, let the policy follow."""
        learner, round = self.inner.update(state.learner, choice, x, reward, side), state.round + 1
        policy = None
        if self.is_late:
            policy = jax.tree.map(functools.partial(jnp.where, round % self.every == 0), learner, state.policy)
        return BatchedState(learner, policy, round, _with_bits(state.lost, choice))


batched = factory(Batched)


def _with_bits(lost: jax.Array, choice: object) -> jax.Array:
    """Add the status bits of a choice; those of our algorithms reach their state only when its reward does."""
    return lost | jnp.asarray(getattr(choice, "status", 0), jnp.int32)
