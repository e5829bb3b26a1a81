"""Playing given arrays back: the same arms and the same noise for any algorithm, and for its NumPy twin."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters
from jaxvar.environments.interface import Observation
from jaxvar.lowering import take
from jaxvar.parameters import leaf, pytree, static


class ReplayInstance(NamedTuple):
    """The given arrays do not vary by seed."""

    theta_star: jax.Array | None  # [dim] where it was given
    arms: jax.Array | None  # [num_arms, dim] where they are fixed


@pytree
class ReplayBandit:
    """Given arms, means and noise; built by :func:`replay_bandit`."""

    arms: Any  # [rounds, num_arms, dim], or [num_arms, dim]
    means: Any  # [rounds, num_arms]
    noise: Any  # [rounds, num_arms]
    noise_var: Any  # [rounds, num_arms]
    theta_star: Any
    fixed_arms: bool = static()

    @property
    def dim(self) -> int:
        """Length of an arm."""
        return int(self.arms.shape[-1])

    @property
    def num_arms(self) -> int:
        """Size of the decision set."""
        return int(self.arms.shape[-2])

    @property
    def max_rounds(self) -> int:
        """The number of rounds that were given."""
        return int(self.noise.shape[0])

    def init(self, key: jax.Array) -> ReplayInstance:
        """Return what is the same in all rounds; nothing is drawn."""
        theta = None if self.theta_star is None else jnp.asarray(self.theta_star)
        return ReplayInstance(theta, jnp.asarray(self.arms) if self.fixed_arms else None)

    def observe(self, instance: ReplayInstance, round: jax.Array, key: jax.Array) -> Observation:
        """Return the round's entries."""
        arms = jnp.asarray(self.arms) if self.fixed_arms else _row(self.arms, round)
        return Observation(arms, _row(self.means, round), _row(self.noise_var, round), _row(self.noise, round))

    def pull(
        self, instance: ReplayInstance, observation: Observation, action: jax.Array, round: jax.Array, key: jax.Array
    ) -> jax.Array:
        """Return the given mean plus the given noise, []."""
        return take(observation.mean, action) + take(_row(self.noise, round), action)


def replay_bandit(
    arms: Any, means: Any, noise: Any, *, noise_var: Any = None, theta_star: Any = None, norm_bound: Any = None
) -> ReplayBandit:
    """Play given arrays back, round by round.

    Args:
      arms: ``[rounds, num_arms, dim]``, or ``[num_arms, dim]`` where they never change.
      means: ``[rounds, num_arms]``, or ``[num_arms]`` where the arms never change.
      noise: ``[rounds]``, added to whichever arm is pulled, or ``[rounds, num_arms]``.
      noise_var: its variance, of the shape of ``noise``; zero if not given. Known-variance algorithms are told it.
      theta_star: ``[dim]``, where means are ``<a, theta_star>``; needed to record the confidence event.
      norm_bound: A; if given, an arm must not be longer.

    Returns:
      The environment, a pytree.
    """
    fixed = parameters.rank("arms", arms) == 2
    if norm_bound is not None:
        parameters.check_number("norm_bound", norm_bound, low=0.0, low_open=True, squared=True)
    parameters.check_array("arms", arms, (None,) * (2 if fixed else 3), max_norm=norm_bound)
    num_arms, dim = np.shape(arms)[-2:]
    parameters.check_array("noise", noise, (None,) if parameters.rank("noise", noise) == 1 else (None, num_arms))
    rounds = np.shape(noise)[0]
    if not fixed and np.shape(arms)[0] != rounds:
        raise ValueError(f"arms and noise must have as many rounds, got {np.shape(arms)[0]} and {rounds}")
    same_means = fixed and parameters.rank("means", means) == 1
    parameters.check_array("means", means, (num_arms,) if same_means else (rounds, num_arms))
    if noise_var is None:
        noise_var = np.zeros(rounds)
    same_variance = parameters.rank("noise_var", noise_var) == 1
    parameters.check_array("noise_var", noise_var, (rounds,) if same_variance else (rounds, num_arms))
    if not parameters.is_traced(noise_var) and np.min(noise_var) < 0:
        raise ValueError(f"noise_var must not be negative, got {np.min(noise_var)}")
    if theta_star is not None:
        parameters.check_array("theta_star", theta_star, (dim,))
    return ReplayBandit(
        arms=leaf(arms),
        means=_by_arm(means if np.ndim(means) == 2 else np.asarray(means)[None], rounds, num_arms),
        noise=_by_arm(noise, rounds, num_arms),
        noise_var=_by_arm(noise_var, rounds, num_arms),
        theta_star=None if theta_star is None else leaf(theta_star),
        fixed_arms=fixed,
    )


def _by_arm(values: Any, rounds: int, num_arms: int) -> Any:
    """Return ``values [rounds]`` or ``[rounds, num_arms]`` as ``[rounds, num_arms]``."""
    values = leaf(values)
    return np.broadcast_to(values if values.ndim == 2 else values[:, None], (rounds, num_arms))


def _row(table: Any, round: jax.Array) -> jax.Array:
    return jax.lax.dynamic_index_in_dim(jnp.asarray(table), round - 1, keepdims=False)
