"""The interface of algorithms: their methods, what these receive and return; and uniform play, the smallest example.

A bandit algorithm is any object with three pure methods, for one seed::

    init() -> state
    select(state, arms [num_arms, dim], key, side) -> choice
    update(state, choice, x [dim], reward [], side) -> state

``choice`` needs an ``action``; ``layer`` and ``weight`` are recorded where it has them. ``state`` is any pytree of
arrays of fixed shapes; where it has a ``status`` (int32, bits of :mod:`jaxvar.status`), the runner reports it. Where
arms come and go, ``side.available`` says which are there; the choice of another one is reported as
``status.ABSENT``.

Optional methods: ``with_fixed_arms(arms)`` returns the algorithm to use when the decision set never changes; where
the arms stay the same but come and go, it is called only if it takes ``masked``, with ``masked=True``. ``grow()``
returns one with more capacity, to rerun with after ``status.CAPACITY``, and ``confidence(state)`` returns
:class:`Confidence` or :class:`Ellipsoids`. ``recommend(state, arms, side)`` returns the index of the arm that the
algorithm takes for the best after the rounds so far, of those in ``side.available``:
:func:`jaxvar.record.simple_regret` records its regret. A ``num_rounds`` (``num_episodes``), ``noise_bound`` or
``norm_bound`` that the run or the environment exceeds is said in a warning, unless the algorithm names it in
``unused``.

An algorithm for duels has ``pair`` in the place of ``select``: its choice also needs a ``rival``, the second arm. Its
``update`` is given ``x [dim]``, the difference of the two arms, and the reward 1 where the first one won, else 0.

An episodic algorithm has these three instead::

    init(model) -> state
    plan(state, model) -> plan                          at the start of every episode
    update(state, model, plan, step) -> state           after every step of it

``plan`` needs a ``policy [H, S]`` (actions); ``value [H + 1, S]`` is recorded where it has one. A ``plan`` method
that takes a third argument named ``key`` is given the episode's random key. Where the state has a ``layer`` and a
``weight`` of the last step, they are recorded; ``status``, ``grow`` and ``confidence`` are as above.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from chex import ArrayTree

from jaxvar.parameters import Number, number, pytree, static


class Side(NamedTuple):
    """Information that the environment reveals beyond the reward."""

    # The round's noise variance: [num_arms] in select; [], of the pulled arm or the duel, in update; None in pair.
    noise_var: Any
    available: jax.Array | None = None  # [num_arms]   bool, in select; None where all arms are available

    def mask(self, num_arms: int) -> jax.Array:
        """Return which of ``num_arms`` arms are available, bool [num_arms]."""
        return jnp.ones(num_arms, bool) if self.available is None else self.available

    def present(self, values: jax.Array) -> jax.Array:
        """Return ``values [num_arms]`` with ``-inf`` in place of those of arms that are not available."""
        return values if self.available is None else jnp.where(self.available, values, -jnp.inf)


class Choice(NamedTuple):
    """A decision of one of our algorithms."""

    action: jax.Array  # []   int32, index of the arm
    layer: jax.Array  # []   int32, the layer that will learn, 1-based; 0 where none does
    weight: jax.Array  # []   w, the regression weight of the observation; 0 where none learns
    status: jax.Array  # []   int32, bits of jaxvar.status


class Pair(NamedTuple):
    """A decision of one of our algorithms for duels."""

    action: jax.Array  # []   int32, index of the first arm
    rival: jax.Array  # []   int32, index of the second
    layer: jax.Array  # []   int32, the layer that will learn, 1-based; 0 where none does
    weight: jax.Array  # []   w, the regression weight of the outcome; 0 where none learns
    status: jax.Array  # []   int32, bits of jaxvar.status


class Confidence(NamedTuple):
    """Quantities that tell whether ``|theta_hat - theta*|_Sigma <= beta`` in each layer.

    With ``F = sum w^2 (y - <theta, x>)^2 + ridge |theta|^2``, the loss that ``theta_hat`` minimises,
    ``|theta_hat - theta*|_Sigma^2 = F(theta*) - F(theta_hat)``: so a sum over the noise and the least loss suffice.
    """

    loss: jax.Array  # [layers]   F(theta_hat)
    ridge: jax.Array  # [layers]
    beta_hat: jax.Array  # [layers]
    lost: jax.Array | float = 0.0  # [layers]   what rounding has added to the loss, where it is known


class Ellipsoids(NamedTuple):
    """The sets ``|theta_hat - theta|_Sigma <= beta`` of estimates that minimise another loss than the squared one."""

    theta_hat: jax.Array  # [layers, d]
    sigma_inv: jax.Array  # [layers, d, d]
    beta_hat: jax.Array  # [layers]


@pytree
class Model:
    """A linear mixture MDP as a learner knows it: everything but the mixture's weights ``theta*``."""

    phi: jax.Array  # [S, A, S, d]   the probability of the next state (third axis) is <phi, theta*>
    reward: jax.Array  # [S, A]
    features: jax.Array | None = None  # [S, A, length]   of a linear MDP: phi(s, a); None where there are none
    horizon: int = static()  # H, steps per episode

    @property
    def num_states(self) -> int:
        """Number of states, S."""
        return int(self.reward.shape[0])

    @property
    def num_actions(self) -> int:
        """Number of actions, A."""
        return int(self.reward.shape[1])

    @property
    def dim(self) -> int:
        """Length of a feature, d."""
        return int(self.phi.shape[3])


class Step(NamedTuple):
    """One step of an episode."""

    stage: jax.Array  # []   int32, h counted from 0
    state: jax.Array  # []   int32
    action: jax.Array  # []   int32
    next_state: jax.Array  # []   int32
    reward: jax.Array  # []


class Algorithm(Protocol):
    """The three methods every bandit algorithm has."""

    def init(self) -> Any:
        """Return the state before the first round."""

    def select(self, state: Any, arms: jax.Array, key: jax.Array, side: Side) -> Any:
        """Choose one of ``arms [num_arms, dim]``."""

    def update(self, state: Any, choice: Any, x: jax.Array, reward: jax.Array, side: Side) -> Any:
        """Learn from the reward of ``x [dim]``."""


class Recommender(Protocol):
    """The optional method of bandit algorithms that names the arm they take for the best."""

    def recommend(self, state: ArrayTree, arms: jax.Array, side: Side) -> jax.Array:
        """Return the index of one of ``arms [num_arms, dim]``, []."""
        ...


class EpisodicAlgorithm(Protocol):
    """The three methods every episodic algorithm has."""

    def init(self, model: Model) -> Any:
        """Return the state before the first episode."""

    def plan(self, state: Any, model: Model) -> Any:
        """Plan the coming episode.

        It may also take ``key``, the episode's, and ``first``, the state in which it begins, int32 []: told that, it
        need not plan for any other state in the first stage. It is also called without it, for whoever reads the plan.
        """

    def update(self, state: Any, model: Model, plan: Any, step: Step) -> Any:
        """Learn from a step."""


class Typed:
    """Base of our algorithms, whose numbers all have one type."""

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The float type of the run."""
        return np.dtype(jnp.result_type(*jax.tree.leaves(self)))


def by_rule(rule: Callable[[Any], Number], doc: str, *, squared: bool = False) -> Any:
    """Declare a positive number that follows a rule, such as a theorem's value, where it is not given."""
    return number(above=0, squared=squared, default=None, rule=rule, doc=doc)
