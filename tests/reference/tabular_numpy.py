"""Backward induction on frequencies, for the twins that count transitions. Stages are counted from 0."""

from collections.abc import Callable

import numpy as np

from .ties_numpy import argmax_with_ties


def plan_by_samples(
    samples: Callable[[int, int, int], list[int]],
    reward: np.ndarray,
    bonus: Callable[[np.ndarray, np.ndarray, int, int], float],
    u: np.ndarray,
    before: np.ndarray | None,
    *,
    value_bound: float,
    ties: str,
    tie_tolerance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the policy [H, S] and Q [H, S, A].

        Q_h(s, a) = min(r(s, a) + mean of V_{h+1} over the samples + bonus, Vmax, Q before),  Vmax without samples

    Args:
        samples: takes h, s, a to the next states that the model of (s, a) is made of.
        reward: [S, A].
        bonus: takes V_{h+1} [S], the frequencies [S], their number and h to the bonus.
        u: [H, S] numbers in (0, 1), the draws of the argmaxes.
        before: [H, S, A] of the plan before; None where values may rise.
        value_bound: Vmax.
        ties: "lowest" or "random".
        tie_tolerance: see `ties_numpy`.
    """
    horizon, (num_states, num_actions) = u.shape[0], reward.shape
    q, policy = np.zeros((horizon, num_states, num_actions)), np.zeros((horizon, num_states), dtype=int)
    value = np.zeros(num_states)
    for h in reversed(range(horizon)):
        for s in range(num_states):
            for a in range(num_actions):
                seen = samples(h, s, a)
                q[h, s, a] = value_bound
                if seen:
                    frequency = np.array([seen.count(t) / len(seen) for t in range(num_states)])
                    upper = reward[s, a] + frequency @ value + bonus(value, frequency, len(seen), h)
                    q[h, s, a] = min(upper, value_bound)
                if before is not None:
                    q[h, s, a] = min(q[h, s, a], before[h, s, a])
            policy[h, s], _ = argmax_with_ties(q[h, s], np.ones(num_actions, dtype=bool), u[h, s], ties, tie_tolerance)
        value = q[h].max(axis=1)
    return policy, q


def variance(value: np.ndarray, frequency: np.ndarray) -> float:
    """E V^2 - (E V)^2, not below 0."""
    return max(float(frequency @ value**2 - (frequency @ value) ** 2), 0.0)


def counted(
    samples: Callable[[int, int, int], list[int]], groups: int, num_states: int, num_actions: int
) -> np.ndarray:
    """The samples as counts [groups, S, A, S]."""
    counts = np.zeros((groups, num_states, num_actions, num_states), dtype=int)
    for h, s, a in np.ndindex(counts.shape[:3]):
        for t in samples(h, s, a):
            counts[h, s, a, t] += 1
    return counts
