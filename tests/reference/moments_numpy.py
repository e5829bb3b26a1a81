"""Weighted regressions on the powers V^(2^m) of the next value, in explicit sums: what three episodic twins share.

f_m = phi_{V^(2^m)}(s, a) = sum_{s'} phi(s' | s, a) V(s')^(2^m),   y_m = V(s_next)^(2^m),   m = 0, 1, ...
"""

import numpy as np


class WeightedRidge:
    """theta = Sigma^-1 sum f y / sb^2 with Sigma = lam I + sum f f^T / sb^2, and its copy of the episode's start."""

    def __init__(self, dim: int, lam: float) -> None:
        """Nothing seen."""
        self.Sigma = lam * np.eye(dim)
        self.b = np.zeros(dim)
        self.freeze()

    def freeze(self) -> None:
        """An episode begins: estimate and inverse as they are now."""
        self.inverse = np.linalg.inv(self.Sigma)
        self.theta = self.inverse @ self.b

    def learn(self, f: np.ndarray, y: float, sb2: float) -> None:
        """One observation of variance sb2."""
        self.Sigma = self.Sigma + np.outer(f, f) / sb2
        self.b = self.b + f * y / sb2

    def frozen_norm(self, f: np.ndarray) -> float:
        """||f|| under the inverse of the episode's start."""
        return float(np.sqrt(f @ self.inverse @ f))

    def running_norm(self, f: np.ndarray) -> float:
        """||f|| under the inverse of Sigma as it is now."""
        return float(np.sqrt(f @ np.linalg.inv(self.Sigma) @ f))


def power(value: np.ndarray, m: int) -> np.ndarray:
    """value^(2^m), entry by entry."""
    return value ** (2.0**m)


def moment_feature(phi_row: np.ndarray, value: np.ndarray, m: int) -> np.ndarray:
    """f_m [d] from phi(. | s, a) [S, d] and V_{h+1} [S]."""
    total = np.zeros(phi_row.shape[1])
    for s in range(phi_row.shape[0]):
        total += phi_row[s] * power(value[s], m)
    return total


def home(
    ridges: list[WeightedRidge], features: list[np.ndarray], beta: float, alpha: float, gamma: float
) -> list[float]:
    """The high-order moment estimator: sb_m^2 of every moment, for values in [0, 1].

        sb_m^2 = max{ [<f_{m+1}, th_{m+1}>]_[0,1] - [<f_m, th_m>]_[0,1]^2 + E_m, alpha^2, gamma^2 ||f_m||_running }
        E_m    = min{1, 2 beta ||f_m||_frozen} + min{1, beta ||f_{m+1}||_frozen}

    and sb^2 = max{1, alpha^2, gamma^2 ||f||_running} for the last one.
    """
    found = []
    for m in range(len(ridges)):
        floor = max(alpha**2, gamma**2 * ridges[m].running_norm(features[m]))
        if m == len(ridges) - 1:
            found.append(max(1.0, floor))
            continue
        second = np.clip(features[m + 1] @ ridges[m + 1].theta, 0.0, 1.0)
        first = np.clip(features[m] @ ridges[m].theta, 0.0, 1.0)
        E = min(1.0, 2.0 * beta * ridges[m].frozen_norm(features[m]))
        E += min(1.0, beta * ridges[m + 1].frozen_norm(features[m + 1]))
        found.append(max(float(second - first**2) + E, floor))
    return found
