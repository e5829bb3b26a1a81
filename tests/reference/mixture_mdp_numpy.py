"""Linear mixture MDPs in plain sums: exact values, the drawn transitions, and the loop pieces of the episodic twins.

An instance is phi [S, A, S, d], reward [S, A] and theta* [d]; it is the same at every step:

    P(s' | s, a) = <phi(s' | s, a), theta*>
    phi_V(s, a)  = sum_{s'} phi(s' | s, a) V(s'),   so that   [P V](s, a) = <phi_V(s, a), theta*>

Steps h are counted from 1 in formulas; arrays over steps start at 0, and a value array has the extra last row
V_{H+1} = 0.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from .ties_numpy import argmax_with_ties


def transitions(phi: np.ndarray, theta_star: np.ndarray) -> np.ndarray:
    """P [S, A, S] with P[s, a, s'] = <phi[s, a, s'], theta*>."""
    return phi @ theta_star


def value_features(phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    """phi_V [S, A, d], the sum over s' of phi[s, a, s'] V(s')."""
    features = np.zeros((phi.shape[0], phi.shape[1], phi.shape[3]))
    for s in range(phi.shape[2]):
        features += phi[:, :, s, :] * value[s]
    return features


def optimal_values(P: np.ndarray, reward: np.ndarray, horizon: int) -> np.ndarray:
    """V* [H + 1, S] by backward induction: V*_h(s) = max_a r(s, a) + [P V*_{h+1}](s, a)."""
    value = np.zeros((horizon + 1, reward.shape[0]))
    for h in reversed(range(horizon)):
        value[h] = np.max(reward + P @ value[h + 1], axis=1)
    return value


def policy_values(P: np.ndarray, reward: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """V^pi [H + 1, S] of policy [H, S]: V_h(s) = r(s, pi_h(s)) + [P V_{h+1}](s, pi_h(s))."""
    horizon, num_states = policy.shape
    value = np.zeros((horizon + 1, num_states))
    for h in reversed(range(horizon)):
        q = reward + P @ value[h + 1]
        for s in range(num_states):
            value[h, s] = q[s, policy[h, s]]
    return value


def conditional_variance(P: np.ndarray, value: np.ndarray) -> np.ndarray:
    """[V V] [S, A] = [P V^2] - [P V]^2 of a value function [S]."""
    return P @ value**2 - (P @ value) ** 2


def next_state(row: np.ndarray, uniform: float) -> tuple[int, float]:
    """Draw from a row of probabilities [S] with a number u in [0, 1), by the inverse of its distribution function.

        before_i = sum_{j < i} row_j,   total = sum_j row_j
        s'       = the last i with row_i > 0 and u total >= before_i

    Returns:
        The state, and the margin min |u total - before_i| over the i > 0 with row_i > 0 (infinite if there is none).
    """
    point = uniform * float(np.sum(row))
    chosen = None
    margin = np.inf
    before = 0.0
    for i in range(row.shape[0]):
        if row[i] > 0.0:
            if i > 0:
                margin = min(margin, abs(point - before))
            if point >= before:
                chosen = i
        before += float(row[i])
    if chosen is None:
        raise ValueError("no state has a positive probability")
    return chosen, margin


class Plan(NamedTuple):
    """What an episode's planning gives."""

    value: np.ndarray  # [H + 1, S] V_{k,h}
    policy: np.ndarray  # [H, S] int
    features: np.ndarray  # [H, S, A, d] phi_{V_{k,h+1}}
    margin: float  # smallest margin of all the argmaxes


def plan_episode(
    phi: np.ndarray,
    reward: np.ndarray,
    upper_bound: Callable[..., np.ndarray],
    tie_uniform: np.ndarray,
    *,
    value_bound: float,
    ties: str,
    tie_tolerance: float,
    by_stage: bool = False,
) -> Plan:
    """Optimistic backward induction, from h = H down to 1.

        Q_h(s, a) = r(s, a) + upper_bound(phi_{V_{h+1}}(s, a)), clipped to [0, value_bound]
        V_h(s)    = max_a Q_h(s, a),   pi_h(s) = argmax_a Q_h(s, a)

    Args:
        phi: [S, A, S, d].
        reward: [S, A].
        upper_bound: takes features [S, A, d] to upper bounds [S, A] on <features, theta*>.
        tie_uniform: [H, S] numbers in (0, 1), the random draws of the argmaxes.
        value_bound: the largest value possible.
        ties: "lowest" or "random"; it concerns pi only, V is the plain maximum.
        tie_tolerance: see `ties_numpy`.
        by_stage: whether `upper_bound` takes the stage, from 0, as well.
    """
    horizon, num_states = tie_uniform.shape
    num_actions, dim = phi.shape[1], phi.shape[3]
    value = np.zeros((horizon + 1, num_states))
    policy = np.zeros((horizon, num_states), dtype=int)
    features = np.zeros((horizon, num_states, num_actions, dim))
    margin = np.inf
    everything = np.ones(num_actions, dtype=bool)
    for h in reversed(range(horizon)):
        features[h] = value_features(phi, value[h + 1])
        upper = upper_bound(features[h], h) if by_stage else upper_bound(features[h])
        q = np.clip(reward + upper, 0.0, value_bound)
        value[h] = np.max(q, axis=1)
        for s in range(num_states):
            policy[h, s], gap = argmax_with_ties(q[s], everything, tie_uniform[h, s], ties, tie_tolerance)
            margin = min(margin, gap)
    return Plan(value, policy, features, margin)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpisodesRun:
    """What every episodic twin did in each of K episodes."""

    state: np.ndarray  # [K, H] int, s_h
    action: np.ndarray  # [K, H] int, a_h
    next_state: np.ndarray  # [K, H] int, s_{h+1}
    value: np.ndarray  # [K, H + 1, S] V_{k,h}
    policy: np.ndarray  # [K, H, S] int, pi_k
    regret: np.ndarray  # [K] V*_1(s_1) - V^{pi_k}_1(s_1), exact
    variance: np.ndarray  # [K] sum over h of [V V*_{h+1}](s_h, a_h)
    margin: np.ndarray  # [K] smallest |left - right| over the comparisons that decided the episode


class Episodes:
    """Plays the plans, and collects the arrays of an `EpisodesRun`."""

    def __init__(
        self, phi: np.ndarray, reward: np.ndarray, theta_star: np.ndarray, num_played: int, horizon: int
    ) -> None:
        """No episode of `num_played` played yet."""
        num_states = reward.shape[0]
        self.reward = reward
        self.P = transitions(phi, theta_star)
        self.optimal = optimal_values(self.P, reward, horizon)
        self.state = np.zeros((num_played, horizon), dtype=int)
        self.action = np.zeros((num_played, horizon), dtype=int)
        self.next_state = np.zeros((num_played, horizon), dtype=int)
        self.value = np.zeros((num_played, horizon + 1, num_states))
        self.policy = np.zeros((num_played, horizon, num_states), dtype=int)
        self.regret = np.zeros(num_played)
        self.variance = np.zeros(num_played)
        self.margin = np.full(num_played, np.inf)

    def play(
        self, row: int, plan: Plan, initial_state: int, uniform: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, float]]:
        """Follow the plan through one episode (array row `row`) with its draws uniform [H].

        Yields:
            After each step: its array index h, the feature phi_{V_{k,h+1}}(s_h, a_h) [d], and the target
            V_{k,h+1}(s_{h+1}).
        """
        self.value[row], self.policy[row] = plan.value, plan.policy
        achieved = policy_values(self.P, self.reward, plan.policy)
        self.regret[row] = self.optimal[0, initial_state] - achieved[0, initial_state]
        self.narrow(row, plan.margin)
        s = int(initial_state)
        for h in range(plan.policy.shape[0]):
            a = int(plan.policy[h, s])
            arrived, gap = next_state(self.P[s, a], uniform[h])
            self.narrow(row, gap)
            self.state[row, h], self.action[row, h], self.next_state[row, h] = s, a, arrived
            self.variance[row] += conditional_variance(self.P, self.optimal[h + 1])[s, a]
            yield h, plan.features[h, s, a], float(plan.value[h + 1, arrived])
            s = arrived

    def narrow(self, row: int, margin: float) -> None:
        """Take a comparison into the episode's margin."""
        self.margin[row] = min(self.margin[row], margin)

    def arrays(self) -> dict[str, np.ndarray]:
        """The collected arrays by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(EpisodesRun)}
