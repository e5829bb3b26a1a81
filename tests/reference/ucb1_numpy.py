"""UCB1 (Auer, Cesa-Bianchi, Fischer 2002): each arm once, then the largest mean plus bonus."""

import math

import numpy as np

from .ties_numpy import argmax_with_ties


class Twin:
    """UCB1 one round at a time, for `tests/algorithms/test_twin_interface.py`; all rewards are kept."""

    def __init__(self, *, num_arms: int, noise_bound: float, ties: str, tie_tolerance: float, **numbers) -> None:
        self.rewards: list[list[float]] = [[] for _ in range(num_arms)]
        self.noise_bound, self.ties, self.tie_tolerance, self.numbers = noise_bound, ties, tie_tolerance, numbers
        self.pulled = 0

    def estimates(self) -> dict[str, np.ndarray]:
        """Pulls, mean and sum of squared deviations of each arm, under the names of the algorithm's state."""
        return {
            "pulls": np.array([len(seen) for seen in self.rewards]),
            "mean": np.array([sum(seen) / len(seen) if seen else 0.0 for seen in self.rewards]),
            "squares.total": np.array([sum((y - sum(seen) / len(seen)) ** 2 for y in seen) for seen in self.rewards]),
        }

    def index(self, seen: list[float], num_played: int) -> float:
        """mean + R sqrt(rho ln t / n) after t rounds."""
        bonus = math.sqrt(self.numbers["rho"] * math.log(num_played) / len(seen))
        return sum(seen) / len(seen) + self.noise_bound * bonus

    def select(self, arms: np.ndarray, u: float, noise_var: np.ndarray, numbers: np.ndarray) -> int:
        num_played = sum(len(seen) for seen in self.rewards)
        untried = np.array([not self.rewards[a] for a in numbers])
        if untried.any():
            values, allowed = np.zeros(len(numbers)), untried
        else:
            values = np.array([self.index(self.rewards[a], num_played) for a in numbers])
            allowed = np.ones(len(numbers), dtype=bool)
        scaled = values / self.noise_bound  # ties are judged in units of R
        chosen = argmax_with_ties(scaled, allowed, u, self.ties, self.tie_tolerance)[0]
        self.pulled = int(numbers[chosen])
        return chosen

    def update(self, x: np.ndarray, reward: float, noise_var: float) -> None:
        self.rewards[self.pulled].append(float(reward))
