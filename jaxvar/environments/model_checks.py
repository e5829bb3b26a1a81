"""Checks that tables are a linear mixture MDP, before anything runs; each message names state, action and value."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvar import parameters

_EXACT_SUPPORT = 16  # up to this many possible next states, all 2^n value functions of zeros and ones are tried
_TOLERANCE = 1e-6

Array = np.ndarray[Any, Any]


def check_model(phi: Any, reward: Any, theta_star: Any, initial: Any, horizon: int) -> None:
    """Refuse tables that are no linear mixture MDP with total reward at most 1; traced values pass.

    Args:
      phi: ``[S, A, S, d]``.
      reward: ``[S, A]``.
      theta_star: ``[d]``.
      initial: ``[S]``, the distribution of the first state.
      horizon: H.
    """
    parameters.check_array("phi", phi, (None, None, None, None))
    num_states, num_actions, num_next, dim = np.shape(phi)
    if num_next != num_states:
        raise ValueError(f"phi must have shape [S, A, S, d], got {list(np.shape(phi))}")
    parameters.check_array("reward", reward, (num_states, num_actions))
    parameters.check_array("theta_star", theta_star, (dim,))
    check_distributions("initial", initial, (num_states,))
    if any(parameters.is_traced(x) for x in (phi, reward, theta_star)):
        return
    transition = np.asarray(phi, float) @ np.asarray(theta_star, float)
    check_transition(transition)
    check_feature_bound(np.asarray(phi, float))
    check_reward(np.asarray(reward, float), transition, horizon)


def check_transition(transition: Array) -> None:
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


def check_feature_bound(phi: Array) -> None:
    """Refuse features ``[S, A, S, d]`` with ``|phi_V(s, a)| > 1`` for a value function V with values in [0, 1]."""
    num_states, num_actions = phi.shape[:2]
    for s in range(num_states):
        for a in range(num_actions):
            low, high = feature_norm(phi[s, a])
            if low > 1 + _TOLERANCE:
                raise ValueError(f"|phi_V| must be at most 1 for V in [0, 1]: state {s}, action {a} reaches {low:g}")
            if high > 1 + _TOLERANCE:
                raise ValueError(
                    f"|phi_V| must be at most 1 for V in [0, 1]: for state {s}, action {a} it is known only to lie "
                    f"between {low:g} and {high:g} (more than {_EXACT_SUPPORT} next states and features of both signs)"
                )


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


def check_distributions(name: str, rows: Any, shape: tuple[int | None, ...]) -> None:
    """Refuse ``rows`` the last axis of which does not hold probabilities that sum to 1."""
    parameters.check_array(name, rows, shape)
    if parameters.is_traced(rows):
        return
    rows = np.asarray(rows, float)
    if rows.min() < -_TOLERANCE:
        where = _where(rows, np.argmin)
        raise ValueError(f"{name} must hold probabilities, got {rows[where]:g} at index {where}")
    off = np.abs(rows.sum(-1) - 1)
    if off.max() > _TOLERANCE:
        sums = rows.sum(-1).ravel()
        raise ValueError(f"{name} must hold probabilities that sum to 1, got the sum {sums[off.argmax()]:g}")


def _where(table: Array, find: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(find(table), table.shape))
