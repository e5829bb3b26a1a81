"""GLB-OMD (Zhang, Xu, Zhao, Sugiyama 2025): online mirror descent for generalised linear bandits.

eta = 1 + S,  H = lam I,  theta = 0
pull argmax <a, theta> + c beta |a|_{H^-1},
    beta^2 = 4 lam S^2 + 2 eta (log(1 / delta) + (3 eta + 1/2) log(det H / lam^d))
Ht = H + eta mu'(<x, theta>) x x^T
theta <- argmin_{|v| <= S} eta (mu(<x, theta>) - r) <x, v> + |v - theta|_Ht^2 / 2
H <- H + mu'(<x, theta>) x x^T   at the new theta
"""

import math

import numpy as np

from .ties_numpy import argmax_with_ties


def mu(link: str, z: float) -> float:
    """The mean of a reward."""
    return math.exp(z) if link == "poisson" else 1 / (1 + math.exp(-z))


def slope(link: str, z: float) -> float:
    """The derivative of the mean, and the variance of a reward."""
    return math.exp(z) if link == "poisson" else mu(link, z) * (1 - mu(link, z))


def project(theta: np.ndarray, H: np.ndarray, radius: float) -> np.ndarray:
    """The point of the ball nearest to theta in the norm of H, (H + nu I)^-1 H theta, by eigenvalues and bisection."""
    if np.linalg.norm(theta) <= radius:
        return theta
    values, vectors = np.linalg.eigh(H)
    along = vectors.T @ theta

    def point(nu: float) -> np.ndarray:
        return vectors @ (values / (values + nu) * along)

    low, high = 0.0, 1.0
    while np.linalg.norm(point(high)) > radius:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.linalg.norm(point(middle)) > radius else (low, middle)
    return point(high)


class Twin:
    """GLB-OMD for one seed."""

    def __init__(
        self,
        *,
        dim: int,
        delta: float,
        theta_bound: float,
        beta_scale: float,
        link: str,
        lam: float,
        tight: bool,
        ties: str,
        tie_tolerance: float,
    ) -> None:
        self.delta, self.bound, self.c, self.link, self.lam = delta, theta_bound, beta_scale, link, lam
        self.start = lam * theta_bound**2 * (1 if tight else 4)
        self.ties, self.tolerance = ties, tie_tolerance
        self.eta = 1 + theta_bound
        self.H, self.theta = lam * np.eye(dim), np.zeros(dim)

    def beta(self) -> float:
        log_det = float(np.linalg.slogdet(self.H / self.lam)[1])
        return math.sqrt(self.start + 2 * self.eta * (math.log(1 / self.delta) + (3 * self.eta + 0.5) * log_det))

    def select(self, arms: np.ndarray, u: float, noise_var: np.ndarray) -> int:
        beta = self.beta()
        upper = [a @ self.theta + self.c * beta * math.sqrt(a @ np.linalg.solve(self.H, a)) for a in arms]
        scaled = np.array(upper) / self.bound
        return argmax_with_ties(scaled, np.ones(len(arms), bool), u, self.ties, self.tolerance)[0]

    def update(self, x: np.ndarray, reward: float, noise_var: float) -> None:
        z = float(x @ self.theta)
        tilted = self.H + self.eta * slope(self.link, z) * np.outer(x, x)
        moved = self.theta - self.eta * (mu(self.link, z) - reward) * np.linalg.solve(tilted, x)
        self.theta = project(moved, tilted, self.bound)
        self.H = self.H + slope(self.link, float(x @ self.theta)) * np.outer(x, x)

    def estimates(self) -> dict[str, np.ndarray]:
        """What is compared after every round."""
        return {"theta_hat": self.theta, "sigma_inv": np.linalg.inv(self.H), "beta_hat": np.array(self.beta())}
