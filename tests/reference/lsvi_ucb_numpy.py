"""LSVI-UCB (Jin, Yang, Wang, Jordan 2020), from the list of all steps. Stages are counted from 0.

    for h = H .. 1:
        Lambda = lam I + sum_i phi_i phi_i'
        w      = Lambda^-1 sum_i phi_i (r_i + max_a Q_{h+1}(s'_i, a))
        Q_h    = min(w' phi + beta sqrt(phi' Lambda^-1 phi), Vmax),     beta = c d Vmax sqrt(ln(2 d K H / delta))

The sums are over the steps of all stages before this episode, or of stage h. With known rewards r is added to Q_h and
left out of the targets.
"""

import math

import numpy as np

from .ties_numpy import argmax_with_ties


def features_or_pairs(features: np.ndarray | None, reward: np.ndarray) -> np.ndarray:
    """The features [S, A, d]; without any a unit vector for each pair."""
    if features is not None:
        return np.asarray(features, dtype=float)
    S, A = reward.shape
    found = np.zeros((S, A, S * A))
    for s in range(S):
        for a in range(A):
            found[s, a, s * A + a] = 1.0
    return found


class Twin:
    """LSVI-UCB one episode at a time, for `tests/algorithms/test_twin_interface.py`."""

    def __init__(
        self,
        *,
        num_episodes: float,
        delta: float,
        value_bound: float,
        beta_scale: float,
        lam: float,
        per_stage: bool,
        reward: str,
        ties: str,
        tie_tolerance: float,
    ):
        self.num_episodes, self.delta, self.largest, self.scale = num_episodes, delta, value_bound, beta_scale
        self.lam, self.per_stage, self.known = lam, per_stage, reward == "known"
        self.ties, self.tie_tolerance = ties, tie_tolerance
        self.steps: list[tuple[int, int, int, int, float]] = []  # stage, state, action, next state, reward

    def of_stage(self, h: int) -> list[tuple[int, int, int, int, float]]:
        return [step for step in self.steps if step[0] == h or not self.per_stage]

    def gram(self, steps: list[tuple[int, int, int, int, float]]) -> np.ndarray:
        d = self.features.shape[2]
        return self.lam * np.eye(d) + sum(
            (np.outer(self.features[s, a], self.features[s, a]) for _, s, a, _, _ in steps), np.zeros((d, d))
        )

    def plan(
        self, phi: np.ndarray, reward: np.ndarray, horizon: int, u: np.ndarray, features: np.ndarray | None = None
    ) -> np.ndarray:
        self.features = features_or_pairs(features, reward)
        (S, A), H, d = reward.shape, horizon, self.features.shape[2]
        self.groups = H if self.per_stage else 1
        beta = self.scale * d * self.largest * math.sqrt(math.log(2 * d * self.num_episodes * H / self.delta))
        value, policy = np.zeros(S), np.zeros((H, S), dtype=int)
        for h in reversed(range(H)):
            steps = self.of_stage(h)
            inverse, total = np.linalg.inv(self.gram(steps)), np.zeros(d)
            for _, s, a, after, r in steps:
                total += self.features[s, a] * (value[after] + (0.0 if self.known else r))
            w = inverse @ total
            q = np.zeros((S, A))
            for s in range(S):
                for a in range(A):
                    x = self.features[s, a]
                    mean = w @ x + (reward[s, a] if self.known else 0.0)
                    q[s, a] = min(mean + beta * math.sqrt(x @ inverse @ x), self.largest)
                policy[h, s], _ = argmax_with_ties(q[s], np.ones(A, bool), u[h, s], self.ties, self.tie_tolerance)
            value = q.max(axis=1)
        self.num_states = S
        return policy

    def update(self, stage: int, state: int, action: int, next_state: int, reward: float) -> None:
        self.steps.append((int(stage), int(state), int(action), int(next_state), float(reward)))

    def estimates(self) -> dict[str, np.ndarray]:
        """The inverses, the regressions of rewards, and the sums over next states."""
        inverses, rewards, moments = [], [], []
        for h in range(self.groups):
            steps = self.of_stage(h)
            inverses.append(np.linalg.inv(self.gram(steps)))
            sums, total = np.zeros((self.features.shape[2], self.num_states)), np.zeros(self.features.shape[2])
            for _, s, a, after, r in steps:
                sums[:, after] += self.features[s, a]
                total += r * self.features[s, a]
            rewards.append(inverses[-1] @ total)
            moments.append(sums)
        found = {"sigma_inv": inverses, "theta_hat": rewards}
        return {f"regression.ridge.{name}": np.array(x) for name, x in found.items()} | {
            "regression.moments": np.array(moments)
        }
