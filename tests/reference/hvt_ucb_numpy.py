"""Hvt-UCB (Wang, Zhang, Zhao, Zhou 2025) at epsilon = 1: one step of mirror descent a round; constants reconstructed.

lg = max(1, log(2 / delta)),  kap = max(1, d log(1 + K A^2 / (d lam smin^2))),  tau0 = sqrt(2 kap / lg)
beta = 5/2 sqrt(kap lg) + sqrt(lam B^2 + 11/2 kap + 13/5 lg)
n = |x|_{V^-1},  sigma = max(nu, smin, sqrt(2 c beta / tau0) n),  w = n / sigma,  tau = tau0 sqrt(1 + w^2) / w
V <- V + x x^T / sigma^2,  theta <- the point of |v| <= B nearest in V to theta - V^-1 grad huber_tau
pull argmax <a, theta> + c beta |a|_{V^-1}
"""

import math

import numpy as np

from .glb_omd_numpy import project
from .heavy_oful_numpy import Twin as HeavyTwin


class Twin(HeavyTwin):
    """Hvt-UCB for one seed: it has V in the place of H, and uses the last reward only."""

    def set_constants(self, dim: int, num_rounds: float, delta: float) -> None:
        """Set lg, kap and beta."""
        self.lg = max(1.0, math.log(2 / delta))
        self.kap = max(1.0, dim * math.log(1 + num_rounds * self.A**2 / (dim * self.lam * self.least**2)))
        rest = self.lam * self.B**2 + 11 / 2 * self.kap + 13 / 5 * self.lg
        self.beta = 5 / 2 * math.sqrt(self.kap * self.lg) + math.sqrt(rest)

    def floor(self, n: float) -> float:
        """What sigma is at least for an arm of width n, whatever the variance."""
        return math.sqrt(2 * self.c * self.beta / self.tau0) * n

    def learn(self) -> None:
        """Move the estimate by the last reward."""
        x, z = self.x[-1], self.y[-1] - self.x[-1] @ self.theta
        gradient = -x * (z if abs(z) <= self.tau[-1] else math.copysign(self.tau[-1], z))
        self.theta = project(self.theta - np.linalg.solve(self.H, gradient), self.H, self.B)
