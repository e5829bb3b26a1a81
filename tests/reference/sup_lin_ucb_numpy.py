"""SupLinUCB (Chu, Li, Reyzin, Schapire 2011). Levels s are counted from 1; arrays over rounds start at 0."""

import math

import numpy as np

from .save_numpy import Run, drawn_noise
from .ties_numpy import argmax_with_ties, by_rank


def run_sup_lin_ucb(
    arms: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    noise_var: np.ndarray,
    uniform: np.ndarray,
    *,
    num_rounds: float,
    noise_bound: float = 1.0,
    delta: float = 0.01,
    theta_bound: float = 1.0,
    beta_scale: float = 1.0,
    explore: str = "widest",
    ties: str = "random",
    tie_tolerance: float = 1e-9,
) -> Run:
    """Play on given arrays; `num_rounds` is the T of the threshold and the logarithm.

    In the result `beta` is the one factor c R sqrt(2 log(2 T N / delta)) + B for every level.

    Args:
        arms: [K, N, d] decision sets.
        means: [K, N] mean rewards.
        noise: [K], or [K, N] of which the entry of the arm played is used.
        noise_var: not used.
        uniform: [K] numbers in (0, 1), the random draws.
        num_rounds: T.
        noise_bound: R.
        delta: failure probability.
        theta_bound: B.
        beta_scale: c.
        explore: "widest", "first", "random" or "optimistic".
        ties: "lowest" or "random".
        tie_tolerance: see `ties_numpy`.
    """
    rounds, largest, dim = arms.shape
    num_levels = max(1, math.ceil(math.log(num_rounds)))
    psi: list[list[int]] = [[] for _ in range(num_levels)]
    action = np.zeros(rounds, dtype=int)
    layer = np.zeros(rounds, dtype=int)
    reward = np.zeros(rounds)
    margin = np.full(rounds, np.inf)
    num_active = np.zeros(rounds, dtype=int)
    x = np.zeros((rounds, dim))

    def factor_of(num_arms: int) -> float:
        """c R sqrt(2 log(2 T N / delta)) + B, for the N arms of a round."""
        stochastic = noise_bound * math.sqrt(2.0 * math.log(2.0 * num_rounds * num_arms / delta))
        return beta_scale * stochastic + theta_bound

    def estimate(s: int) -> tuple[np.ndarray, np.ndarray]:
        """A_s = I + sum x x^T and theta_s over Psi_s, summed anew."""
        rows = psi[s - 1]
        A = np.eye(dim) + x[rows].T @ x[rows]
        return A, np.linalg.inv(A) @ np.sum(reward[rows, None] * x[rows], axis=0)

    for row in range(rounds):
        alive, factor = np.ones(len(arms[row]), dtype=bool), factor_of(len(arms[row]))
        s = 1
        while True:
            A, theta = estimate(s)
            mean = arms[row] @ theta
            width = factor * np.sqrt(np.sum((arms[row] @ np.linalg.inv(A)) * arms[row], axis=1))
            upper = mean + width
            margin[row] = min(margin[row], np.min(np.abs(width[alive] - 1.0 / math.sqrt(num_rounds))))
            if np.all(width[alive] <= 1.0 / math.sqrt(num_rounds)):
                action[row], near = argmax_with_ties(upper, alive, uniform[row], ties, tie_tolerance)
                break
            margin[row] = min(margin[row], np.min(np.abs(width[alive] - 2.0**-s)))
            if np.all(width[alive] <= 2.0**-s):
                bar = np.max(upper[alive]) - 2.0 ** (1 - s)
                margin[row] = min(margin[row], np.min(np.abs(upper[alive] - bar)))
                alive &= upper >= bar
                s += 1
                continue
            allowed = alive & (width > 2.0**-s)
            near = np.inf
            if explore == "first":
                action[row] = int(np.flatnonzero(allowed)[0])
            elif explore == "random":
                action[row] = by_rank([int(i) for i in np.flatnonzero(allowed)], uniform[row])
            else:
                value = width if explore == "widest" else upper
                action[row], near = argmax_with_ties(value, allowed, uniform[row], ties, tie_tolerance)
            layer[row] = s
            break
        margin[row] = min(margin[row], near)
        num_active[row] = np.sum(alive)
        x[row] = arms[row, action[row]]
        reward[row] = means[row, action[row]] + drawn_noise(noise, row, action[row])
        if layer[row] > 0:
            psi[layer[row] - 1].append(row)

    final = [estimate(s) for s in range(1, num_levels + 1)]
    return Run(
        action=action,
        layer=layer,
        weight=(layer > 0).astype(float),
        reward=reward,
        margin=margin,
        theta=np.array([theta for _, theta in final]),
        Sigma=np.array([A for A, _ in final]),
        beta=np.full(num_levels, factor_of(largest)),
        emp=np.array([np.sum((reward[p] - x[p] @ f[1]) ** 2) for p, f in zip(psi, final, strict=True)]),
        count=np.array([len(p) for p in psi]),
        num_active=num_active,
    )
