"""MVP (Zhang, Ji, Du 2021; Zhang, Chen, Lee, Du 2024) with known rewards, from lists of next states.

    b = c1 sqrt(var iota / N) + c3 Vmax iota / N,   c1 = 460/9,  c3 = 544/9,  iota = ln(200 S A H^2 K^2 / delta)

The model of a pair with n visits is made of its first 2^i next states, where 2^i <= n is the largest power of two, or
with samples="half" of those among them after the first 2^(i-1); N is how many these are.
"""

import math

import numpy as np

from .tabular_numpy import counted, plan_by_samples, variance


class Twin:
    """MVP one episode at a time, for `tests/algorithms/test_twin_interface.py`."""

    def __init__(
        self,
        *,
        num_episodes: float,
        delta: float,
        value_bound: float,
        beta_scale: float,
        monotone: bool,
        samples: str,
        per_stage: bool,
        ties: str,
        tie_tolerance: float,
    ):
        self.num_episodes, self.delta, self.scale, self.largest = num_episodes, delta, beta_scale, value_bound
        self.monotone, self.half, self.per_stage = monotone, samples == "half", per_stage
        self.rule = {"value_bound": value_bound, "ties": ties, "tie_tolerance": tie_tolerance}
        self.past: dict[tuple[int, int, int], list[int]] = {}
        self.q: np.ndarray | None = None

    def model(self, h: int, s: int, a: int) -> list[int]:
        """The next states that the model of (s, a) is made of."""
        past = self.past.get((h if self.per_stage else 0, s, a), [])
        if not past:
            return []
        last = 2 ** int(math.log2(len(past)))
        return past[last // 2 if self.half else 0 : last]

    def plan(self, phi: np.ndarray, reward: np.ndarray, horizon: int, u: np.ndarray) -> np.ndarray:
        S, A = reward.shape
        self.shape = (horizon if self.per_stage else 1, S, A)
        iota = math.log(200 * S * A * horizon**2 * self.num_episodes**2 / self.delta)

        def bonus(value: np.ndarray, frequency: np.ndarray, n: int, h: int) -> float:
            spread = 460 / 9 * math.sqrt(variance(value, frequency) * iota / n)
            return self.scale * (spread + 544 / 9 * self.largest * iota / n)

        before = self.q if self.monotone else None
        policy, self.q = plan_by_samples(self.model, reward, bonus, u, before, **self.rule)
        return policy

    def update(self, stage: int, state: int, action: int, next_state: int, reward: float) -> None:
        where = (stage if self.per_stage else 0, int(state), int(action))
        self.past.setdefault(where, []).append(int(next_state))

    def estimates(self) -> dict[str, np.ndarray]:
        """The frozen counts, all visits, and the values that no later plan exceeds."""
        visits = np.zeros(self.shape, dtype=int)
        for where, past in self.past.items():
            visits[where] = len(past)
        found = {"frozen": counted(self.model, *self.shape), "visits": visits}
        return {**found, "least": self.q} if self.monotone else found
