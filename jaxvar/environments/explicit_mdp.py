"""A linear mixture MDP given by its tables, and the checks that tables are one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, planning
from jaxvar.environments.interface import Array, MdpInstance, array_of
from jaxvar.parameters import count, factory, leaf, part, pytree

_EXACT_SUPPORT = 16  # up to this many possible next states, all 2^n value functions of zeros and ones are tried
_TOLERANCE = 1e-6


def initial_state() -> Any:
    """Declare the first state of an episode; the ``check`` of its class calls :func:`initial_distribution`."""
    doc = "the first state of every episode, or the distribution ``[S]`` it is drawn from."
    return part(lambda name, value: value, default=0, doc=doc)


@pytree
class ExplicitMdp:
    r"""A linear mixture MDP, :math:`P(s' | s, a) = \langle\phi(s' | s, a), \theta^*\rangle`, from given tables.

    Tables that are no linear mixture MDP are refused with a ValueError that names state, action and value.
    """

    phi: Any = part(
        array_of(4),
        kw_only=False,
        doc="features ``[S, A, S, d]``, the next state on the third axis; ``|phi_V(s, a)| <= 1`` for all V in [0, 1].",
    )
    reward: Any = part(
        array_of(2), kw_only=False, doc="``[S, A]``, not negative; no path of H steps may collect more than 1."
    )
    theta_star: Any = part(array_of(1), kw_only=False, doc="``[d]``.")
    horizon: int = count(kw_only=False, doc="H, steps per episode.")
    initial: Any = initial_state()

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
    def norm_bound(self) -> jax.Array:
        """``|theta*|``: the least B an algorithm may be told."""
        return jnp.sqrt(jnp.sum(jnp.square(self.theta_star)))

    def check(self) -> None:
        """Refuse tables that are no linear mixture MDP with total reward at most 1; traced values pass."""
        num_states, num_actions, num_next, dim = self.phi.shape
        if num_next != num_states:
            raise ValueError(f"phi must have shape [S, A, S, d], got {list(self.phi.shape)}")
        parameters.check_array("reward", self.reward, (num_states, num_actions))
        parameters.check_array("theta_star", self.theta_star, (dim,))
        self.__dict__["initial"] = initial_distribution(self.initial, num_states)
        if not any(parameters.is_traced(x) for x in (self.phi, self.reward, self.theta_star)):
            phi, theta_star = np.asarray(self.phi, float), np.asarray(self.theta_star, float)
            _check_kernel(phi @ theta_star)
            _check_features(phi)
            check_reward(np.asarray(self.reward, float), phi @ theta_star, self.horizon)

    def init(self, key: jax.Array) -> MdpInstance:
        """Return the tables; nothing is drawn."""
        phi, theta_star = jnp.asarray(self.phi), jnp.asarray(self.theta_star)
        transition = planning.mixture(phi, theta_star)
        return MdpInstance(phi, jnp.asarray(self.reward), theta_star, transition, jnp.asarray(self.initial))


explicit_mdp = factory(ExplicitMdp)


def initial_distribution(initial: Any, num_states: int) -> Any:
    """Return the distribution of the first state, [S]: as given, or certain where ``initial`` is a state's number."""
    if not parameters.is_traced(initial) and parameters.rank("initial", initial) == 0:
        initial = np.eye(num_states)[parameters.check_count("initial", initial, low=0, high=num_states - 1)]
    parameters.check_array("initial", initial, (num_states,))
    if not parameters.is_traced(initial):
        least, total = np.min(initial), np.sum(initial)
        if least < -_TOLERANCE:
            raise ValueError(f"initial must hold probabilities, got {least:g} for state {np.argmin(initial)}")
        if abs(total - 1) > _TOLERANCE:
            raise ValueError(f"initial must hold probabilities that sum to 1, got the sum {total:g}")
    return leaf(initial)


def check_reward(reward: Array, transition: Array, horizon: int) -> None:
    """Refuse rewards ``[S, A]`` that are negative, or of which a path of H steps may collect more than 1."""
    if reward.min() < 0:
        s, a = _where(reward, np.argmin)
        raise ValueError(f"reward must not be negative: state {s}, action {a} has {reward[s, a]:g}")
    most, through = np.zeros(len(reward)), reward
    for _ in range(horizon):
        through = reward + np.where(transition > _TOLERANCE * 1e-6, most, -np.inf).max(axis=2)
        most = through.max(axis=1)
    if most.max() > 1 + _TOLERANCE:
        s, a = _where(through, np.argmax)
        raise ValueError(
            f"reward: no path may collect more than 1 in {horizon} steps; one from state {s}, action {a} "
            f"collects {through[s, a]:g} (divide the rewards by the horizon?)"
        )


def _check_kernel(transition: Array) -> None:
    """Refuse ``<phi, theta*> [S, A, S]`` that are no probabilities of the next states."""
    if transition.min() < -_TOLERANCE:
        s, a, t = _where(transition, np.argmin)
        raise ValueError(
            f"<phi, theta_star> must not be negative: state {s}, action {a}, next state {t} has {transition[s, a, t]:g}"
        )
    total = transition.sum(axis=2)
    if np.abs(total - 1).max() > _TOLERANCE:
        s, a = _where(np.abs(total - 1), np.argmax)
        raise ValueError(f"<phi, theta_star> must sum to 1 over next states: state {s}, action {a} has {total[s, a]:g}")


def _check_features(phi: Array) -> None:
    """Refuse features ``[S, A, S, d]`` with ``|phi_V(s, a)| > 1`` for a value function V with values in [0, 1]."""
    for s, a in np.ndindex(*phi.shape[:2]):
        low, high = feature_norm(phi[s, a])
        if high > 1 + _TOLERANCE:
            found = f"state {s}, action {a} reaches {low:g}"
            if low <= 1 + _TOLERANCE:
                found = (
                    f"for state {s}, action {a} it is known only to lie between {low:g} and {high:g} "
                    f"(more than {_EXACT_SUPPORT} next states and features of both signs)"
                )
            raise ValueError(f"|phi_V| must be at most 1 for V in [0, 1]: {found}")


def _where(table: Array, find: Callable[[Array], np.intp]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(find(table), table.shape))


def feature_norm(features: Array) -> tuple[float, float]:
    """Return a lower and an upper bound of the largest ``|sum_s' V(s') features[s']|`` over V in [0, 1].

    They are equal where it is known exactly. The norm is convex in V, so it is largest where V is 0 or 1. Coordinates
    of one sign are largest at V = 1; else all choices are tried for few possible next states, and for many the positive
    and negative parts give an upper bound.
    """
    features = features[np.any(features != 0, axis=1)]
    positive, negative = np.maximum(features, 0).sum(0), np.maximum(-features, 0).sum(0)
    if not np.any(positive * negative):
        largest = float(np.linalg.norm(features.sum(0)))
        return largest, largest
    if len(features) <= _EXACT_SUPPORT:
        sums = np.zeros((1, features.shape[1]))
        for row in features:
            sums = np.concatenate([sums, sums + row])
        largest = float(np.linalg.norm(sums, axis=1).max())
        return largest, largest
    low = max(np.linalg.norm(features[features @ sign > 0].sum(0)) for sign in (positive, -negative, features.sum(0)))
    return float(low), float(np.linalg.norm(np.maximum(positive, negative)))


def normalised(phi: Array, theta_star: Array) -> tuple[Array, Array]:
    """Return the same kernel with features divided by the largest ``|phi_V|`` (and theta* multiplied by it)."""
    rows = phi.reshape(-1, *phi.shape[2:])
    largest = max(feature_norm(row)[1] for row in rows)
    return phi / largest, theta_star * largest
