"""ada-OFU-ECOLog (after Faury, Abeille, Jun, Calauzenes 2022), as reconstructed.

D = 2 S + 1,  W = lam I,  theta = 0,  A = path = 0
l(v; r) = log(1 + exp(<x, v>)) - r <x, v>,  F(v) = |v - theta|_W^2 / (2 + D)
told = argmin F + l(.; r),  untold = argmin F + l(.; 0) + l(.; 1)
A += l(untold; r) - l(told; r),  path += |told - theta|_W^2
W += mu'(<x, told>) x x^T,  theta = the point of the ball |v| <= S nearest to told in the norm of W

pull argmax <a, theta> + c beta |a|_{W^-1} in round t, with
likelihood:  beta^2 = lam S^2 + (2 + D) (log(1 / delta) + A) - path
published:   beta^2 = 4 S^2 + 2 (2 + S) (nu (2 + S) / 4 + S^2 / (2 + S) + A) + 4 log(1 + t),
             nu = 1/2 + 2 log(2 sqrt(1 + t / (4 lam)) / delta)
"""

import math

import numpy as np

from .glb_omd_numpy import mu, project, slope
from .ties_numpy import argmax_with_ties


def loss(z: float, reward: float) -> float:
    """The negative logarithm of the probability of a reward."""
    return math.log1p(math.exp(z)) - reward * z


def minimise(theta: np.ndarray, W: np.ndarray, x: np.ndarray, rewards: list[float], weight: float) -> np.ndarray:
    """The minimum of |v - theta|_W^2 / weight + sum_r l(v; r), by Newton's method with halved steps."""

    def value(v: np.ndarray) -> float:
        return (v - theta) @ W @ (v - theta) / weight + sum(loss(float(x @ v), r) for r in rewards)

    v = theta
    for _ in range(100):
        z = float(x @ v)
        gradient = 2 / weight * W @ (v - theta) + sum(mu("logistic", z) - r for r in rewards) * x
        hessian = 2 / weight * W + len(rewards) * slope("logistic", z) * np.outer(x, x)
        step = np.linalg.solve(hessian, gradient)
        if np.abs(step).max() < 1e-14:
            break
        for _ in range(30):
            if value(v - step) <= value(v) + 1e-13:
                break
            step = step / 2
        v = v - step
    return v


class Twin:
    """ada-OFU-ECOLog for one seed."""

    def __init__(
        self,
        *,
        dim: int,
        delta: float,
        theta_bound: float,
        beta_scale: float,
        lam: float,
        radius: str,
        ties: str,
        tie_tolerance: float,
    ) -> None:
        self.delta, self.bound, self.c, self.lam, self.kind = delta, theta_bound, beta_scale, lam, radius
        self.ties, self.tolerance = ties, tie_tolerance
        self.W, self.theta = lam * np.eye(dim), np.zeros(dim)
        self.A, self.path, self.t = 0.0, 0.0, 1
        self.weight = 2 + (2 * theta_bound + 1)

    def beta(self) -> float:
        S = self.bound
        if self.kind == "likelihood":
            square = self.lam * S**2 + self.weight * (math.log(1 / self.delta) + self.A) - self.path
        else:
            nu = 0.5 + 2 * math.log(2 * math.sqrt(1 + self.t / (4 * self.lam)) / self.delta)
            square = 4 * S**2 + 2 * (2 + S) * (nu * (2 + S) / 4 + S**2 / (2 + S) + self.A) + 4 * math.log(1 + self.t)
        return math.sqrt(max(square, 0.0))

    def select(self, arms: np.ndarray, u: float, noise_var: np.ndarray) -> int:
        upper = [a @ self.theta + self.c * self.beta() * math.sqrt(a @ np.linalg.solve(self.W, a)) for a in arms]
        scaled = np.array(upper) / self.bound
        return argmax_with_ties(scaled, np.ones(len(arms), bool), u, self.ties, self.tolerance)[0]

    def update(self, x: np.ndarray, reward: float, noise_var: float) -> None:
        told = minimise(self.theta, self.W, x, [reward], self.weight)
        untold = minimise(self.theta, self.W, x, [0.0, 1.0], self.weight)
        self.A += loss(float(x @ untold), reward) - loss(float(x @ told), reward)
        self.path += float((told - self.theta) @ self.W @ (told - self.theta))
        self.W = self.W + slope("logistic", float(x @ told)) * np.outer(x, x)
        self.theta = project(told, self.W, self.bound)
        self.t += 1

    def estimates(self) -> dict[str, np.ndarray]:
        """What is compared after every round."""
        return {
            "theta_hat": self.theta,
            "sigma_inv": np.linalg.inv(self.W),
            "loss.total": np.array(self.A),
            "path.total": np.array(self.path),
            "beta_hat": np.array(self.beta()),
        }
