"""MaxInP (Saha 2021): one ellipsoid; of the arms that may be the best, the two whose difference is most uncertain.

V = lam I + sum z z^T,  theta by maximum likelihood with the ridge lam kappa
beta = c sqrt(2 log(1 / delta) + log(det V / lam^d)) / (2 kappa) + sqrt(lam) S
candidates = {x : <x - y, theta> + beta |x - y|_{V^-1} >= 0 for all y}
"""

import math

import numpy as np

from .ties_numpy import argmax_with_ties
from .vacdb_numpy import all_pairs, maximum_likelihood


class Twin:
    """MaxInP for one seed."""

    def __init__(
        self,
        *,
        dim: int,
        delta: float,
        lam: float,
        kappa: float,
        theta_bound: float,
        beta_scale: float,
        ties: str,
        tie_tolerance: float,
    ) -> None:
        self.delta, self.lam, self.kappa, self.bound, self.c = delta, lam, kappa, theta_bound, beta_scale
        self.ties, self.tolerance = ties, tie_tolerance
        self.V, self.theta = lam * np.eye(dim), np.zeros(dim)
        self.z: list[np.ndarray] = []
        self.won: list[float] = []

    def pair(self, arms: np.ndarray, u: float) -> tuple[int, int]:
        """The two arms that duel."""
        log_det = float(np.linalg.slogdet(self.V / self.lam)[1])
        beta = self.c * math.sqrt(2 * math.log(1 / self.delta) + log_det) / (2 * self.kappa)
        beta += math.sqrt(self.lam) * self.bound

        def width(i: int, j: int) -> float:
            z = arms[i] - arms[j]
            return math.sqrt(max(float(z @ np.linalg.solve(self.V, z)), 0.0))

        candidates = [
            i
            for i in range(len(arms))
            if all((arms[i] - arms[j]) @ self.theta + beta * width(i, j) >= 0 for j in range(len(arms)))
        ]
        listed = [(i, j) for i, j in all_pairs(len(arms)) if i in candidates and j in candidates]
        widths = np.array([width(i, j) for i, j in listed]) / self.bound
        return listed[argmax_with_ties(widths, np.ones(len(listed), bool), u, self.ties, self.tolerance)[0]]

    def update(self, z: np.ndarray, won: float) -> None:
        """Learn from a duel."""
        self.z.append(z)
        self.won.append(won)
        rows, wins = np.array(self.z), np.array(self.won)
        self.V = self.lam * np.eye(len(z)) + rows.T @ rows
        self.theta = maximum_likelihood(rows, np.ones(len(wins)), wins, self.lam * self.kappa)

    def estimates(self) -> dict[str, np.ndarray]:
        """What is compared after every round."""
        return {"regression.theta_hat": self.theta}
