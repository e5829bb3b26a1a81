"""A linear mixture MDP given by its tables, and what every constructor of one needs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, planning
from jaxvar.environments.interface import MdpInstance
from jaxvar.environments.model_checks import check_model, feature_norm
from jaxvar.parameters import leaf, pytree, static


@pytree
class ExplicitMdp:
    """A linear mixture MDP with given tables; built by :func:`explicit_mdp`."""

    phi: Any  # [S, A, S, d]
    reward: Any  # [S, A]
    theta_star: Any  # [d]
    initial: Any  # [S]
    horizon: int = static()

    @property
    def num_states(self) -> int:
        """S."""
        return int(self.reward.shape[0])

    @property
    def num_actions(self) -> int:
        """A."""
        return int(self.reward.shape[1])

    @property
    def dim(self) -> int:
        """D."""
        return int(self.phi.shape[3])

    @property
    def norm_bound(self) -> Any:
        """``|theta*|``: the least B an algorithm may be told."""
        return jnp.sqrt(jnp.sum(jnp.square(self.theta_star)))

    def init(self, key: jax.Array) -> MdpInstance:
        """Return the tables; nothing is drawn."""
        phi, theta_star = jnp.asarray(self.phi), jnp.asarray(self.theta_star)
        transition = planning.mixture(phi, theta_star)
        return MdpInstance(phi, jnp.asarray(self.reward), theta_star, transition, jnp.asarray(self.initial))


def explicit_mdp(phi: Any, reward: Any, theta_star: Any, horizon: int, *, initial: Any = 0) -> ExplicitMdp:
    r"""A linear mixture MDP, :math:`P(s' | s, a) = \langle\phi(s' | s, a), \theta^*\rangle`, from given tables.

    Args:
      phi: features ``[S, A, S, d]``, the next state on the third axis; ``|phi_V(s, a)| <= 1`` for all V in [0, 1].
      reward: ``[S, A]``, not negative; no path of H steps may collect more than 1.
      theta_star: ``[d]``.
      horizon: H, steps per episode.
      initial: the first state of every episode, or the distribution ``[S]`` it is drawn from.

    Returns:
      The environment, a pytree.

    Raises:
      ValueError: where the tables are no linear mixture MDP, naming state, action and value.
    """
    horizon = parameters.check_count("horizon", horizon)
    parameters.check_array("phi", phi, (None, None, None, None))
    initial = initial_distribution(initial, np.shape(phi)[0])
    check_model(phi, reward, theta_star, initial, horizon)
    return ExplicitMdp(
        phi=leaf(phi), reward=leaf(reward), theta_star=leaf(theta_star), initial=leaf(initial), horizon=horizon
    )


def initial_distribution(initial: Any, num_states: int) -> Any:
    """Return a distribution as given, or that of a state's number, [num_states]; ``check_model`` checks it."""
    if parameters.is_traced(initial) or parameters.rank("initial", initial) > 0:
        return initial
    return np.eye(num_states)[parameters.check_count("initial", initial, low=0, high=num_states - 1)]


def tabular(transition: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return ``phi [S, A, S, S A S]`` and ``theta_star [S A S]`` with ``<phi, theta_star> = transition``.

    There is one coordinate for each (s, a, s'), scaled to the feature bound.
    """
    phi = np.eye(transition.size).reshape(*transition.shape, transition.size)
    return normalised(phi, transition.ravel())


def normalised(
    phi: np.ndarray[Any, Any], theta_star: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the same kernel with features divided by the largest ``|phi_V|`` (and theta* multiplied by it)."""
    rows = phi.reshape(-1, *phi.shape[2:])
    largest = max(feature_norm(row)[1] for row in rows)
    return phi / largest, theta_star * largest
