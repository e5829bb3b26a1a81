"""The interface of environments.

A bandit environment is any object with three pure methods, for one seed and one round (counted from 1)::

    init(key) -> instance                                   drawn once; has ``theta_star`` where there is one
    observe(instance, round, key) -> observation            the decision set of the round
    pull(instance, observation, action, round, key) -> reward

``observation`` needs ``arms [num_arms, dim]``, ``mean [num_arms]`` and ``noise_var [num_arms]``. Where arms come and
go, it also has ``available [num_arms]`` (bool, at least one true): algorithms choose among these arms, and the best of
them defines the regret. The keys of different rounds, and of ``observe`` and ``pull``, are independent, and the same
for every algorithm. Optional attributes: ``fixed_arms`` (true if the arms never change, whichever are available:
``instance.arms`` are then handed to the algorithm once) and ``max_rounds``.

An environment of duels has ``duel`` in the place of ``pull``, which returns the outcome of a pair of arms and its law,
``reward []`` (1 where the first arm won, else 0), ``mean []`` and ``noise_var []``. Its observation needs ``arms`` and
``mean`` (the utilities), and the regret of a round is that of both arms::

    duel(instance, observation, action, rival, round, key) -> outcome

An episodic environment is a Markov decision process given by its tables: an object with a ``horizon`` (the number of
steps of an episode, static) and one pure method, ``init(key) -> instance``, drawn once per seed. ``instance`` needs
the fields of :class:`MdpInstance`. That of a linear MDP also has ``features [S, A, length]``, in which transitions are
linear: learners are told these. What does not depend on the key is held once for all seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxvar import parameters
from jaxvar.parameters import leaf, pytree, static

Array = np.ndarray[Any, Any]


class Observation(NamedTuple):
    """A round's decision set."""

    arms: jax.Array  # [num_arms, dim]
    mean: jax.Array  # [num_arms]   <a, theta*>
    noise_var: jax.Array  # [num_arms]   the exact conditional variance of the reward
    noise_std: jax.Array  # [num_arms]   the noise family's parameter
    available: jax.Array | None = None  # [num_arms]   bool, which arms can be pulled; None where all can


class GivenInstance(NamedTuple):
    """What is the same in all rounds where everything was given: nothing varies by seed."""

    theta_star: jax.Array | None  # [dim] where it was given
    arms: jax.Array | None  # [num_arms, dim] where they are fixed


class MdpInstance(NamedTuple):
    """One linear mixture MDP: ``transition = <phi, theta_star>``."""

    phi: jax.Array  # [S, A, S, d]
    reward: jax.Array  # [S, A]
    theta_star: jax.Array  # [d]
    transition: jax.Array  # [S, A, S]
    initial: jax.Array  # [S]   the distribution of an episode's first state


def array_of(*ranks: int, optional: bool = False, squared: bool = True) -> Callable[[str, Any], Any]:
    """Return the check of an array with one of these numbers of axes; None passes where it is ``optional``.

    With ``squared`` the float type must hold the squares of its numbers too.
    """

    def check(name: str, value: Any) -> Any:
        if optional and value is None:
            return None
        rank = parameters.rank(name, value)
        shape = (None,) * (rank if rank in ranks else ranks[0])
        return leaf(parameters.check_array(name, value, shape, squared=squared))

    return check


def entry(table: ArrayLike, row: jax.Array) -> jax.Array:
    """Return ``table[row]``, of a table with a leading axis of rounds or contexts, for a row ``[]``."""
    return jax.lax.dynamic_index_in_dim(jnp.asarray(table), row, keepdims=False)


@pytree
class Drawn:
    """The law of a table that each seed draws, in place of the table itself."""

    law: str = static()

    @classmethod
    def or_given(cls, *laws: str, rank: int = 2) -> Callable[[str, Any], Any]:
        """Return the check of a parameter that is one of ``laws`` or a given table with ``rank`` axes."""

        def check(name: str, value: Any) -> Any:
            is_law = isinstance(value, str)
            return cls(law=parameters.check_choice(name, value, laws)) if is_law else array_of(rank)(name, value)

        return check


class Environment(Protocol):
    """The three methods every bandit environment has."""

    def init(self, key: jax.Array) -> Any:
        """Draw a problem."""

    def observe(self, instance: Any, round: jax.Array, key: jax.Array) -> Any:
        """Return the decision set of a round."""

    def pull(self, instance: Any, observation: Any, action: jax.Array, round: jax.Array, key: jax.Array) -> jax.Array:
        """Return the reward of an arm, []."""


class EpisodicEnvironment(Protocol):
    """The horizon and the method that every episodic environment has."""

    @property
    def horizon(self) -> int:
        """H, steps per episode."""

    def init(self, key: jax.Array) -> Any:
        """Draw a problem."""
