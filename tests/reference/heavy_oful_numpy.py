"""HEAVY-OFUL (Huang, Zhong, Wang, Yang 2023) at epsilon = 1: regression with Huber's loss on all rewards so far.

lg = log(2 K^2 / delta),  kap = d log(1 + K A^2 / (d lam smin^2)),  tau0 = sqrt(2 kap / lg)
n = |x|_{H^-1},  sigma = max(nu, smin, n / c0, sqrt(A B n) / (2 c1 kap)^(1/4)),  c0 = 1 / sqrt(23 lg), c1 = 1 / (48 lg)
w = n / sigma,  tau = tau0 sqrt(1 + w^2) / w,  H <- H + x x^T / sigma^2
theta = argmin_{|v| <= B} lam / 2 |v|^2 + sum huber_tau((r - <x, v>) / sigma)
pull argmax <a, theta> + c beta |a|_{H^-1},  beta = 3 sqrt(lam) B + 24 sqrt(2 kap lg)
"""

import math

import numpy as np

from .ties_numpy import argmax_with_ties


def huber(z: float, tau: float) -> float:
    """Huber's loss."""
    return z**2 / 2 if abs(z) <= tau else tau * abs(z) - tau**2 / 2


def penalised(x: np.ndarray, y: np.ndarray, tau: np.ndarray, ridge: float, start: np.ndarray) -> np.ndarray:
    """The least point of ridge / 2 |v|^2 + sum huber: Newton's method with steps halved until the value falls."""

    def value(v: np.ndarray) -> float:
        return ridge / 2 * v @ v + sum(huber(z, t) for z, t in zip(y - x @ v, tau, strict=True))

    v = start
    for _ in range(200):
        z = y - x @ v
        gradient = ridge * v - x.T @ np.clip(z, -tau, tau)
        inside = x[np.abs(z) <= tau]
        step = np.linalg.solve(ridge * np.eye(len(v)) + inside.T @ inside, gradient)
        if np.abs(step).max() <= 1e-15 * np.abs(v).max():
            break
        size = 1.0
        while size > 1e-6 and value(v - size * step) > value(v):
            size /= 2
        v = v - size * step
    return v


def huber_regression(
    x: np.ndarray, y: np.ndarray, tau: np.ndarray, lam: float, radius: float, start: np.ndarray
) -> np.ndarray:
    """The least point in the ball: that of a larger ridge lam + nu, with nu by bisection where the ball is left."""
    v = penalised(x, y, tau, lam, start)
    if np.linalg.norm(v) <= radius:
        return v
    low, high = 0.0, lam
    while np.linalg.norm(penalised(x, y, tau, lam + high, v)) > radius:
        high *= 2
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        v = penalised(x, y, tau, lam + middle, v)
        low, high = (middle, high) if np.linalg.norm(v) > radius else (low, middle)
    return v


class Twin:
    """HEAVY-OFUL for one seed."""

    def __init__(
        self,
        *,
        dim: int,
        num_rounds: float,
        delta: float,
        theta_bound: float,
        norm_bound: float,
        beta_scale: float,
        lam: float,
        least_std: float,
        variance_scale: float,
        variance_bound: float | None,
        ties: str,
        tie_tolerance: float,
    ) -> None:
        self.A, self.B, self.c, self.lam, self.least = norm_bound, theta_bound, beta_scale, lam, least_std
        self.scale, self.told = variance_scale, variance_bound
        self.ties, self.tolerance = ties, tie_tolerance
        self.set_constants(dim, num_rounds, delta)
        self.tau0 = math.sqrt(2 * self.kap / self.lg)
        self.H, self.theta = lam * np.eye(dim), np.zeros(dim)
        self.x: list[np.ndarray] = []
        self.y: list[float] = []
        self.tau: list[float] = []

    def set_constants(self, dim: int, num_rounds: float, delta: float) -> None:
        """Set lg, kap and beta."""
        self.lg = math.log(2 * num_rounds**2 / delta)
        self.kap = dim * math.log(1 + num_rounds * self.A**2 / (dim * self.lam * self.least**2))
        self.beta = 3 * math.sqrt(self.lam) * self.B + 24 * math.sqrt(2 * self.kap * self.lg)

    def floor(self, n: float) -> float:
        """What sigma is at least for an arm of width n, whatever the variance."""
        c0, c1 = 1 / math.sqrt(23 * self.lg), 1 / (48 * self.lg)
        return max(n / c0, math.sqrt(self.A * self.B * n) / (2 * c1 * self.kap) ** 0.25)

    def select(self, arms: np.ndarray, u: float, noise_var: np.ndarray) -> int:
        """The arm with the largest upper confidence bound."""
        upper = [a @ self.theta + self.c * self.beta * math.sqrt(a @ np.linalg.solve(self.H, a)) for a in arms]
        scaled = np.array(upper) / self.B
        return argmax_with_ties(scaled, np.ones(len(arms), bool), u, self.ties, self.tolerance)[0]

    def update(self, x: np.ndarray, reward: float, noise_var: float) -> None:
        """Learn from a reward."""
        n = math.sqrt(x @ np.linalg.solve(self.H, x))
        variance = self.scale * (noise_var if self.told is None else self.told)
        sigma = max(math.sqrt(variance), self.least, self.floor(n))
        w = n / sigma
        self.x.append(x / sigma)
        self.y.append(reward / sigma)
        self.tau.append(self.tau0 * math.sqrt(1 + w**2) / w)
        self.H = self.H + np.outer(x, x) / sigma**2
        self.learn()

    def learn(self) -> None:
        """Estimate from all rewards."""
        seen = np.array(self.x), np.array(self.y), np.array(self.tau)
        self.theta = huber_regression(*seen, self.lam, self.B, self.theta)

    def estimates(self) -> dict[str, np.ndarray]:
        """What is compared after every round."""
        return {"theta_hat": self.theta, "sigma_inv": np.linalg.inv(self.H), "beta_hat": np.array(self.beta)}
