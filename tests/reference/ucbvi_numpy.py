"""UCBVI (Azar, Osband, Munos 2017) with known rewards, from lists of next states, in the scale [0, Vmax].

    L = ln(5 S A K H / delta)
    ch: b = 7 Vmax L / sqrt N
    bf: b = sqrt(8 L var / N) + 14 Vmax L / (3 N)
            + sqrt(8 sum_s' P_hat(s') min(100^2 Vmax^2 H S^2 A L^2 / N'_{h+1}(s'), Vmax^2) / N)

N'_{h+1}(s') counts the visits of s' in stage h + 1. The last sum is zero in the last stage. In the printed form
Vmax = H, so that the numerator is 100^2 H^3 S^2 A L^2.
"""

import math

import numpy as np

from .tabular_numpy import counted, plan_by_samples, variance


class Twin:
    """UCBVI one episode at a time, for `tests/algorithms/test_twin_interface.py`."""

    def __init__(
        self,
        *,
        num_episodes: float,
        delta: float,
        value_bound: float,
        beta_scale: float,
        monotone: bool,
        mode: str,
        ties: str,
        tie_tolerance: float,
    ):
        self.num_episodes, self.delta, self.scale, self.largest = num_episodes, delta, beta_scale, value_bound
        self.monotone, self.mode = monotone, mode
        self.rule = {"value_bound": value_bound, "ties": ties, "tie_tolerance": tie_tolerance}
        self.steps: list[tuple[int, int, int, int]] = []  # stage, state, action, next state
        self.q: np.ndarray | None = None

    def model(self, h: int, s: int, a: int) -> list[int]:
        """All next states of (s, a)."""
        return [t for _, i, j, t in self.steps if (i, j) == (s, a)]

    def plan(self, phi: np.ndarray, reward: np.ndarray, horizon: int, u: np.ndarray) -> np.ndarray:
        (S, A), H, v = reward.shape, horizon, self.largest
        self.shape = (1, S, A)
        visits = np.zeros((H + 1, S), dtype=int)  # of a state in a stage
        for stage, state, _, _ in self.steps:
            visits[stage, state] += 1
        L = math.log(5 * S * A * H * self.num_episodes / self.delta)

        def bonus(value: np.ndarray, frequency: np.ndarray, n: int, h: int) -> float:
            if self.mode == "ch":
                return self.scale * 7 * v * L / math.sqrt(n)
            total = 0.0
            for t in range(S):
                n_next = visits[h + 1, t]
                most = 100**2 * v**2 * H * S**2 * A * L**2 / n_next if n_next else math.inf
                total += frequency[t] * min(most, v**2) if h < H - 1 else 0.0
            bernstein = math.sqrt(8 * L * variance(value, frequency) / n) + 14 * v * L / (3 * n)
            return self.scale * (bernstein + math.sqrt(8 * total / n))

        policy, self.q = plan_by_samples(self.model, reward, bonus, u, self.q if self.monotone else None, **self.rule)
        return policy

    def update(self, stage: int, state: int, action: int, next_state: int, reward: float) -> None:
        self.steps.append((int(stage), int(state), int(action), int(next_state)))

    def estimates(self) -> dict[str, np.ndarray]:
        """All counts, the states reached in each stage, and the values that no later plan exceeds."""
        reached = np.zeros((len(self.q), self.shape[1]), dtype=int)
        for stage, _, _, after in self.steps:
            reached[stage, after] += 1
        found = {"counts": counted(self.model, *self.shape), "reached": reached}
        return {**found, "least": self.q} if self.monotone else found
