"""What a bandit environment provides.

An environment is any object with three pure methods, for one seed and one round (counted from 1)::

    init(key) -> instance                                   drawn once; has ``theta_star`` where there is one
    observe(instance, round, key) -> observation            the decision set of the round
    pull(instance, observation, action, round, key) -> reward

``observation`` needs ``arms [num_arms, dim]``, ``mean [num_arms]`` and ``noise_var [num_arms]``. The keys of
different rounds, and of ``observe`` and ``pull``, are independent, and the same for every algorithm. Optional
attributes: ``fixed_arms`` (true if the arms never change: ``instance.arms`` are then handed to the algorithm once)
and ``max_rounds``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax


class Observation(NamedTuple):
    """A round's decision set."""

    arms: jax.Array  # [num_arms, dim]
    mean: jax.Array  # [num_arms]   <a, theta*>
    noise_var: jax.Array  # [num_arms]   the exact conditional variance of the reward
    noise_std: jax.Array  # [num_arms]   the noise family's parameter


class Environment(Protocol):
    """The three methods every bandit environment has."""

    def init(self, key: jax.Array) -> Any:
        """Draw a problem."""
        ...

    def observe(self, instance: Any, round: jax.Array, key: jax.Array) -> Any:
        """The decision set of a round."""
        ...

    def pull(self, instance: Any, observation: Any, action: jax.Array, round: jax.Array, key: jax.Array) -> jax.Array:
        """The reward of an arm."""
        ...
