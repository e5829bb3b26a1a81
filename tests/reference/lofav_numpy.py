"""LOFAV (Jun, Kim 2024): every observation in every layer, two ellipsoids per layer, sums over the whole past."""

import math
from typing import NamedTuple

import numpy as np

from .save_numpy import drawn_noise
from .ties_numpy import argmax_with_ties


class LofavRun(NamedTuple):
    """What was done in each of K rounds, and what the L layers were after it."""

    action: np.ndarray  # [K] int
    reward: np.ndarray  # [K]
    margin: np.ndarray  # [K] how narrowly the round was decided
    theta: np.ndarray  # [K, L, d]
    thbar: np.ndarray  # [K, L, d]
    beta: np.ndarray  # [K, L] with beta_scale 1
    gamma: np.ndarray  # [K, L] likewise
    beta_max: np.ndarray  # [K, L]
    least_k: np.ndarray  # [K, L] K_t = min of 0.5 lam |theta|^2 + sum 0.5 w^2 (y - <x, theta>)^2, a direct sum
    least_l: np.ndarray  # [K, L] L_t = min of the same plus sum 0.5 w^2 (p - <x, theta>)^2, a direct sum


class Layer:
    """One layer: the weights, predictions and rewards of all rounds, from which everything is summed again."""

    def __init__(self, number: int, dim: int, noise_bound: float, theta_bound: float) -> None:
        self.rho = 2.0**-number
        self.lam = self.rho**2 * noise_bound**2 / theta_bound**2
        self.bias = self.lam * theta_bound**2 / 2.0
        self.Sigma = self.lam * np.eye(dim)
        self.Q = self.lam * np.eye(dim)
        self.theta, self.thbar = np.zeros(dim), np.zeros(dim)
        self.beta, self.gamma, self.beta_max = self.bias, self.bias, self.bias
        self.x: list[np.ndarray] = []
        self.y: list[float] = []
        self.p: list[float] = []
        self.w: list[float] = []
        self.shrunk_sum = 0.0
        self.least_k = self.least_l = 0.0

    def learn(self, x: np.ndarray, y: float, *, noise_bound: float, delta: float, num_layers: int) -> None:
        """One more observation; the radii are those of time t, the number of observations."""
        norm = math.sqrt(max(x @ np.linalg.inv(self.Sigma) @ x, 0.0))
        w = 1.0 if norm <= self.rho else self.rho / norm
        p = float(x @ self.theta)
        self.x.append(x), self.y.append(y), self.p.append(p), self.w.append(w)
        xs, ys, ps, ws = np.array(self.x), np.array(self.y), np.array(self.p), np.array(self.w)
        dim, t = x.shape[0], len(ys)
        gram = (ws[:, None] ** 2 * xs).T @ xs
        b = np.sum((ws**2 * ys)[:, None] * xs, axis=0)
        b2 = np.sum((ws**2 * ps)[:, None] * xs, axis=0)
        self.Sigma = self.lam * np.eye(dim) + gram
        self.Q = 2.0 * self.Sigma - self.lam * np.eye(dim)
        self.theta = np.linalg.inv(self.Sigma) @ b
        self.thbar = np.linalg.inv(self.Q) @ (b + b2)
        q = 0.5 * ws**2 * (ys - ps) ** 2
        self.shrunk_sum += q[-1] * w**2 * (x @ np.linalg.inv(self.Sigma) @ x)
        self.least_k = 0.5 * self.lam * self.theta @ self.theta + float(
            np.sum(0.5 * ws**2 * (ys - xs @ self.theta) ** 2)
        )
        self.least_l = (
            0.5 * self.lam * self.thbar @ self.thbar
            + float(np.sum(0.5 * ws**2 * (ys - xs @ self.thbar) ** 2))
            + float(np.sum(0.5 * ws**2 * (ps - xs @ self.thbar) ** 2))
        )
        log_term = noise_bound**2 * math.log(2.0 * num_layers / delta)
        k = max(1, math.ceil(math.log2(math.sqrt(self.beta_max / self.bias))))
        xi = math.log(math.sqrt(math.pi * (t + 1)) * 6.8 * num_layers * k * math.log(1.0 + k) ** 2 / delta)
        self.beta = max(
            0.0,
            0.5 * float((b + b2) @ self.thbar - b @ self.theta - np.sum(ws**2 * ps**2))
            + self.bias
            + self.shrunk_sum
            + math.sqrt(8.0 * self.rho**2 * self.beta_max * (float(np.sum(q)) + log_term) * xi)
            + 2.0**k * self.rho * noise_bound * math.sqrt(2.0 * self.bias) * xi,
        )
        self.gamma = self.bias + self.shrunk_sum + log_term
        self.beta_max = max(self.beta_max, self.beta)


def run_lofav(
    arms: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    uniform: np.ndarray,
    *,
    horizon: float,
    noise_bound: float = 1.0,
    delta: float = 0.01,
    theta_bound: float = 1.0,
    beta_scale: float = 1.0,
    ties: str = "random",
    tie_tolerance: float = 1e-9,
) -> LofavRun:
    """Play LOFAV on given arrays: arms [K, N, d], means [K, N], noise [K, N], uniform [K] for ties.

    The index of an arm is the least of <a, thbar> + sqrt(2 beta) ||a||_{Q^-1} and <a, theta> + sqrt(2 gamma)
    ||a||_{Sigma^-1} over all layers; beta_scale c turns beta into bias + c^2 (beta - bias), and gamma likewise.
    """
    num_rounds, _, dim = arms.shape
    num_layers = max(1, math.ceil(0.5 * math.log2(horizon / dim)))
    layers = [Layer(number, dim, noise_bound, theta_bound) for number in range(1, num_layers + 1)]
    log_term = noise_bound**2 * math.log(2.0 * num_layers / delta)
    for layer in layers:
        layer.gamma = layer.bias + log_term
    shape = (num_rounds, num_layers)
    out = LofavRun(
        np.zeros(num_rounds, dtype=int),
        *(np.zeros(num_rounds) for _ in range(2)),
        *(np.zeros((*shape, dim)) for _ in range(2)),
        *(np.zeros(shape) for _ in range(5)),
    )
    for row in range(num_rounds):
        index = np.full(len(arms[row]), np.inf)
        for layer in layers:
            for centre, matrix, square in (
                (layer.thbar, layer.Q, layer.beta),
                (layer.theta, layer.Sigma, layer.gamma),
            ):
                scaled = max(0.0, layer.bias + beta_scale**2 * (square - layer.bias))
                inverse = np.linalg.inv(matrix)
                for i, a in enumerate(arms[row]):
                    index[i] = min(index[i], a @ centre + math.sqrt(2.0 * scaled * max(a @ inverse @ a, 0.0)))
        everything = np.ones(len(arms[row]), dtype=bool)
        action, margin = argmax_with_ties(index, everything, uniform[row], ties, tie_tolerance)
        reward = means[row, action] + drawn_noise(noise, row, action)
        out.action[row], out.margin[row], out.reward[row] = action, margin, reward
        for i, layer in enumerate(layers):
            layer.learn(arms[row, action], reward, noise_bound=noise_bound, delta=delta, num_layers=num_layers)
            out.theta[row, i], out.thbar[row, i] = layer.theta, layer.thbar
            out.beta[row, i], out.gamma[row, i], out.beta_max[row, i] = layer.beta, layer.gamma, layer.beta_max
            out.least_k[row, i], out.least_l[row, i] = layer.least_k, layer.least_l
    return out
