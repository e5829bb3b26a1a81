"""LOSAN (Jun, Kim 2024): one weighted ridge regression whose radius follows its prediction errors."""

import math
from typing import NamedTuple

import numpy as np

from .save_numpy import drawn_noise
from .ties_numpy import argmax_with_ties


class LosanRun(NamedTuple):
    """What was done in each of K rounds, and what was known after it."""

    action: np.ndarray  # [K] int
    weight: np.ndarray  # [K]
    reward: np.ndarray  # [K]
    margin: np.ndarray  # [K] how narrowly the round was decided
    theta: np.ndarray  # [K, d]
    Sigma: np.ndarray  # [K, d, d]
    beta: np.ndarray  # [K] radius for the next round, sqrt(2 beta)
    error_sum: np.ndarray  # [K] sum of 0.5 w^2 e^2 D^2


def run_losan(
    arms: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    uniform: np.ndarray,
    *,
    noise_bound: float = 1.0,
    delta: float = 0.01,
    theta_bound: float = 1.0,
    beta_scale: float = 1.0,
    ties: str = "random",
    tie_tolerance: float = 1e-9,
) -> LosanRun:
    """Play LOSAN on given arrays: arms [K, N, d], means [K, N], noise [K, N], uniform [K] for ties.

    lam = R^2 / S^2,   w = min(1, 1 / ||x||_{Sigma^-1}),   Sigma_t = lam I + sum w^2 x x^T
    D_s^2 = w_s^2 x_s^T Sigma_s^-1 x_s  (after s learned),   e_s = y_s - <x_s, theta_{s-1}>
    radius = sqrt(lam S^2 + c^2 (2 R^2 log(1/delta) + sum_s w_s^2 e_s^2 D_s^2))
    """
    num_rounds, _, dim = arms.shape
    lam = noise_bound**2 / theta_bound**2
    out = LosanRun(
        np.zeros(num_rounds, dtype=int),
        *(np.zeros(num_rounds) for _ in range(3)),
        np.zeros((num_rounds, dim)),
        np.zeros((num_rounds, dim, dim)),
        *(np.zeros(num_rounds) for _ in range(2)),
    )
    x = np.zeros((num_rounds, dim))
    Sigma, theta, errors = lam * np.eye(dim), np.zeros(dim), 0.0
    for row in range(num_rounds):
        square = lam * theta_bound**2 + beta_scale**2 * (2.0 * noise_bound**2 * math.log(1.0 / delta) + 2.0 * errors)
        inverse = np.linalg.inv(Sigma)
        width = np.array([math.sqrt(max(a @ inverse @ a, 0.0)) for a in arms[row]])
        upper = arms[row] @ theta + math.sqrt(square) * width
        everything = np.ones(len(arms[row]), dtype=bool)
        action, margin = argmax_with_ties(upper, everything, uniform[row], ties, tie_tolerance)
        x[row] = arms[row, action]
        weight = 1.0 if width[action] <= 1.0 else 1.0 / width[action]
        reward = means[row, action] + drawn_noise(noise, row, action)
        error = reward - x[row] @ theta
        out.action[row], out.margin[row], out.weight[row], out.reward[row] = action, margin, weight, reward

        seen, squared = x[: row + 1], out.weight[: row + 1] ** 2
        Sigma = lam * np.eye(dim) + (squared[:, None] * seen).T @ seen
        theta = np.linalg.inv(Sigma) @ np.sum((squared * out.reward[: row + 1])[:, None] * seen, axis=0)
        errors += 0.5 * weight**2 * error**2 * (weight**2 * (x[row] @ np.linalg.inv(Sigma) @ x[row]))
        square = lam * theta_bound**2 + beta_scale**2 * (2.0 * noise_bound**2 * math.log(1.0 / delta) + 2.0 * errors)
        out.theta[row], out.Sigma[row], out.beta[row], out.error_sum[row] = theta, Sigma, math.sqrt(square), errors
    return out
