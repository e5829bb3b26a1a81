"""One ellipsoid around a weighted ridge regression: the loop that the twins with one ellipsoid have in common."""

from collections.abc import Callable

import numpy as np

from .save_numpy import Run, drawn_noise
from .ties_numpy import argmax_with_ties


def run_ellipsoid(
    arms: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    noise_var: np.ndarray,
    uniform: np.ndarray,
    *,
    lam: float,
    factor_of: Callable[[float, float], float],
    radius_of: Callable[[list[float], np.ndarray], float],
    ties: str,
    tie_tolerance: float = 1e-9,
) -> Run:
    """Play on given arrays; in the result L = 1, `layer` is always 1 and `emp` is the weighted residual sum.

        Sigma_t = lam I + sum_{s<=t} f_s x_s x_s^T,   theta_t = Sigma_t^-1 sum_{s<=t} f_s r_s x_s
        x_t     = argmax_a <a, theta_{t-1}> + beta_{t-1} ||a||_{Sigma_{t-1}^-1}

    Args:
        arms: [K, N, d] decision sets.
        means: [K, N] mean rewards.
        noise: [K], or [K, N] of which the entry of the arm played is used.
        noise_var: [K, N], its variances.
        uniform: [K] numbers in (0, 1), the random draws.
        lam: ridge.
        factor_of: (||x||_{Sigma^-1} before the update, variance) -> f, the factor of the squared error.
        radius_of: (all factors so far, Sigma) -> beta.
        ties: "lowest" or "random".
        tie_tolerance: see `ties_numpy`.
    """
    num_rounds, _, dim = arms.shape
    action = np.zeros(num_rounds, dtype=int)
    reward = np.zeros(num_rounds)
    margin = np.zeros(num_rounds)
    x = np.zeros((num_rounds, dim))
    beta_after = np.zeros(num_rounds)
    theta_after = np.zeros((num_rounds, dim))
    factors: list[float] = []
    Sigma = lam * np.eye(dim)
    theta = np.zeros(dim)
    beta = radius_of(factors, Sigma)
    emp = 0.0
    for row in range(num_rounds):
        inverse = np.linalg.inv(Sigma)
        width = np.sqrt(np.sum((arms[row] @ inverse) * arms[row], axis=1))
        upper = arms[row] @ theta + beta * width
        everything = np.ones(len(arms[row]), dtype=bool)
        action[row], margin[row] = argmax_with_ties(upper, everything, uniform[row], ties, tie_tolerance)
        x[row] = arms[row, action[row]]
        reward[row] = means[row, action[row]] + drawn_noise(noise, row, action[row])
        factors.append(factor_of(width[action[row]], noise_var[row, action[row]]))
        f, seen, rewards = np.array(factors), x[: row + 1], reward[: row + 1]
        scaled = np.sqrt(f)[:, None] * seen  # so that the sum is symmetric, and precise to the last digits
        Sigma = lam * np.eye(dim) + scaled.T @ scaled
        theta = np.linalg.inv(Sigma) @ np.sum((f * rewards)[:, None] * seen, axis=0)
        emp = float(np.sum(f * (rewards - seen @ theta) ** 2))
        beta = radius_of(factors, Sigma)
        beta_after[row], theta_after[row] = beta, theta
    return Run(
        action=action,
        layer=np.ones(num_rounds, dtype=int),
        weight=np.sqrt(factors),
        reward=reward,
        margin=margin,
        theta=theta[None, :],
        Sigma=Sigma[None, :, :],
        beta=np.array([beta]),
        emp=np.array([emp]),
        count=np.array([num_rounds]),
        beta_after=beta_after,
        theta_after=theta_after,
    )
