"""VAEE: pull the widest arm that may still be the best, with observations weighted by one over their variance."""

import math

import numpy as np

from .ties_numpy import argmax_with_ties


class Twin:
    """VAEE one round at a time, for `tests/algorithms/test_twin_interface.py`.

    V = lam I + sum a a^T / s^2 and theta = V^-1 sum a r / s^2 with s = max(sigma, least_std);
    beta = c sqrt(2 log(1/delta) + log det V - d log lam) + sqrt(lam) B. An arm a is dropped if
    <a, theta> + beta |a| < max_b <b, theta> - beta |b|, norms being those of V^-1.
    """

    def __init__(
        self,
        *,
        dim: int,
        lam: float,
        theta_bound: float,
        least_std: float,
        delta: float,
        beta_scale: float,
        fixed_radius: float | None,
        variance_scale: float,
        variance_bound: float | None,
        ties: str,
        tie_tolerance: float,
    ) -> None:
        self.__dict__ |= {name: value for name, value in locals().items() if name != "self"}
        self.seen: list[tuple[np.ndarray, float, float]] = []  # arm, reward, s^2

    def fit(self) -> tuple[np.ndarray, np.ndarray]:
        V, b = self.lam * np.eye(self.dim), np.zeros(self.dim)
        for a, r, s2 in self.seen:
            V += np.outer(a, a) / s2
            b += a * r / s2
        return V, np.linalg.solve(V, b)

    def beta(self, V: np.ndarray) -> float:
        if self.fixed_radius is not None:
            return self.fixed_radius
        grown = float(np.linalg.slogdet(V)[1]) - self.dim * math.log(self.lam)
        spread = math.sqrt(2 * math.log(1 / self.delta) + grown)
        return self.beta_scale * spread + math.sqrt(self.lam) * self.theta_bound

    def estimates(self) -> dict[str, np.ndarray]:
        V, theta = self.fit()
        return {"regression.sigma_inv": np.linalg.inv(V), "regression.theta_hat": theta}

    def select(self, arms: np.ndarray, u: float, noise_var: np.ndarray) -> int:
        V, theta = self.fit()
        beta = self.beta(V)
        width = np.array([math.sqrt(a @ np.linalg.solve(V, a)) for a in arms])
        highest_low = max(a @ theta - beta * w for a, w in zip(arms, width, strict=True))
        alive = np.array([a @ theta + beta * w >= highest_low for a, w in zip(arms, width, strict=True)])
        return argmax_with_ties(width, alive, u, self.ties, self.tie_tolerance)[0]

    def update(self, x: np.ndarray, reward: float, noise_var: float) -> None:
        told = self.variance_scale * (noise_var if self.variance_bound is None else self.variance_bound)
        self.seen.append((x, reward, max(math.sqrt(told), self.least_std) ** 2))
