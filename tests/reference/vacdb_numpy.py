"""VACDB (Di et al. 2024): SAVE on differences of arms, with maximum likelihood in each layer.

layer l       Sigma_l = 4^-l I + sum w^2 z z^T over the duels it has learned from, z = x_i - x_j
theta_l       4^-l kappa theta + sum w^2 (mu(<z, theta>) - o) z = 0
beta_l        (16 / kappa) 2^-l sqrt((8 V + 18 log1) log0) + (6 / kappa) 2^-l log0 + 2^(1 - l)
V             sum w^2 (o - mu(<z, theta_l>))^2 where 2^l >= 64 (1/4 / kappa) sqrt(log1), else the number of duels
log0, log1    log(4 k^2 L / delta), log(4 (k + 1)^2 L / delta)
"""

import math

import numpy as np

from .ties_numpy import argmax_with_ties, by_rank


def mu(value: np.ndarray) -> np.ndarray:
    """The logistic link."""
    return 1.0 / (1.0 + np.exp(-value))


def maximum_likelihood(z: np.ndarray, weight: np.ndarray, won: np.ndarray, ridge: float) -> np.ndarray:
    """The root of ``ridge theta + sum weight (mu(<z, theta>) - won) z``, by Newton's method with halved steps."""

    def loss(theta: np.ndarray) -> float:
        value = z @ theta
        return float(0.5 * ridge * theta @ theta + np.sum(weight * (np.logaddexp(0.0, value) - won * value)))

    theta = np.zeros(z.shape[1])
    for _ in range(200):
        p = mu(z @ theta)
        gradient = ridge * theta + z.T @ (weight * (p - won))
        hessian = ridge * np.eye(len(theta)) + (z * (weight * p * (1 - p))[:, None]).T @ z
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > 1e-6 and loss(theta - size * step) > loss(theta):
            size /= 2
        theta = theta - size * step
        if np.linalg.norm(step) < 1e-13 * (1 + np.linalg.norm(theta)):
            break
    return theta


def all_pairs(num_arms: int) -> list[tuple[int, int]]:
    """Pairs of arms in ascending order, an arm with itself included."""
    return [(i, j) for i in range(num_arms) for j in range(i, num_arms)]


class Layer:
    """What a layer has learned from, and what follows from it."""

    def __init__(self, number: int, dim: int, kappa: float) -> None:
        self.number, self.kappa, self.dim = number, kappa, dim
        self.z: list[np.ndarray] = []
        self.weight: list[float] = []
        self.won: list[float] = []
        self.theta = np.zeros(dim)
        self.sigma = 4.0**-number * np.eye(dim)
        self.beta = 2.0**-number * (1 + 1 / kappa)

    def width(self, z: np.ndarray) -> float:
        """||z|| in the norm of Sigma^-1."""
        return math.sqrt(max(float(z @ np.linalg.solve(self.sigma, z)), 0.0))

    def learn(
        self, z: np.ndarray, won: float, weight: float, k: int, num_layers: float, delta: float, c: float
    ) -> None:
        """Add the duel of round k, and sum again."""
        self.z.append(z)
        self.won.append(won)
        self.weight.append(weight**2)
        rows, squared, wins = np.array(self.z), np.array(self.weight), np.array(self.won)
        self.sigma = 4.0**-self.number * np.eye(self.dim) + (rows * squared[:, None]).T @ rows
        self.theta = maximum_likelihood(rows, squared, wins, 4.0**-self.number * self.kappa)
        log0, log1 = math.log(4 * k**2 * num_layers / delta), math.log(4 * (k + 1) ** 2 * num_layers / delta)
        adaptive = 2.0**self.number >= 64 * 0.25 / self.kappa * math.sqrt(log1)
        variance = float(np.sum(squared * (wins - mu(rows @ self.theta)) ** 2)) if adaptive else float(len(wins))
        bar = 2.0**-self.number
        spread = 16 / self.kappa * bar * math.sqrt((8 * variance + 18 * log1) * log0)
        self.beta = c * (spread + 6 / self.kappa * bar * log0) + 2 * bar


class Twin:
    """VACDB for one seed."""

    def __init__(
        self,
        *,
        dim: int,
        delta: float,
        alpha: float,
        kappa: float,
        theta_bound: float,
        beta_scale: float,
        capacity: int,
        explore: str,
        ties: str,
        tie_tolerance: float,
    ) -> None:
        self.delta, self.alpha, self.beta_scale, self.unit = delta, alpha, beta_scale, theta_bound
        self.explore, self.ties, self.tolerance = explore, ties, tie_tolerance
        self.num_layers = max(1, math.ceil(math.log2(1 / alpha) - 1e-9))
        self.layers = [Layer(number, dim, kappa) for number in range(1, capacity + 1)]
        self.k = 0

    def pair(self, arms: np.ndarray, u: float) -> tuple[int, int]:
        """The two arms that duel."""
        self.k += 1
        active = list(range(len(arms)))
        for layer in self.layers:
            bar = 2.0**-layer.number
            listed = [(i, j) for i, j in all_pairs(len(arms)) if i in active and j in active]
            width = [layer.width(arms[i] - arms[j]) for i, j in listed]
            value = arms @ layer.theta
            upper = [value[i] + value[j] + layer.beta * w for (i, j), w in zip(listed, width, strict=True)]
            if max(width) <= self.alpha:
                self.learner, self.weight = None, 0.0
                return listed[self._largest(upper, [True] * len(listed), u)]
            if max(width) > bar:
                wide = [w > bar for w in width]
                if self.explore == "widest":
                    chosen = self._largest(width, wide, u)
                elif self.explore == "optimistic":
                    chosen = self._largest(upper, wide, u)
                else:
                    candidates = [m for m, is_wide in enumerate(wide) if is_wide]
                    chosen = candidates[0] if self.explore == "first" else by_rank(candidates, u)
                self.learner, self.weight = layer, bar / width[chosen]
                return listed[chosen]
            best = max(value[i] for i in active)
            active = [i for i in active if value[i] >= best - bar * layer.beta]
        raise ValueError("every layer was passed")

    def _largest(self, values: list[float], allowed: list[bool], u: float) -> int:
        scaled = np.array(values) / self.unit
        return argmax_with_ties(scaled, np.array(allowed), u, self.ties, self.tolerance)[0]

    def update(self, z: np.ndarray, won: float) -> None:
        """Let the layer of the last choice learn."""
        if self.learner is not None:
            self.learner.learn(z, won, self.weight, self.k, self.num_layers, self.delta, self.beta_scale)

    def estimates(self) -> dict[str, np.ndarray]:
        """What is compared after every round."""
        return {
            "layers.theta_hat": np.array([layer.theta for layer in self.layers]),
            "beta_hat": np.array([layer.beta for layer in self.layers]),
        }
