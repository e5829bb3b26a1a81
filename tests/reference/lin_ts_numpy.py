"""Linear Thompson sampling with given normal vectors, plain or weighted by known variances."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .root_numpy import grown_root, initial_root
from .save_numpy import drawn_noise
from .ties_numpy import argmax_with_ties


class SamplerRun(NamedTuple):
    """What was done in each of K rounds, and what was known after it."""

    action: np.ndarray  # [K] int
    weight: np.ndarray  # [K]
    reward: np.ndarray  # [K]
    margin: np.ndarray  # [K] how narrowly the round was decided
    spread: np.ndarray  # [K] beta by which the normal vector was multiplied
    theta: np.ndarray  # [K, d]
    V: np.ndarray  # [K, d, d]


def empty_run(num_rounds: int, dim: int) -> SamplerRun:
    return SamplerRun(
        np.zeros(num_rounds, dtype=int),
        *(np.zeros(num_rounds) for _ in range(4)),
        np.zeros((num_rounds, dim)),
        np.zeros((num_rounds, dim, dim)),
    )


def run_sampler(
    arms: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    uniform: np.ndarray,
    normals: np.ndarray,
    *,
    lam: float,
    spread_of: Callable[[int, np.ndarray], float],
    weight_of: Callable[[int, int, float], float],
    ties: str,
    tie_tolerance: float = 1e-9,
) -> SamplerRun:
    """Thompson sampling on given arrays.

    Args:
        arms: [K, N, d].
        means: [K, N].
        noise: [K, N].
        uniform: [K] for ties.
        normals: [K, d], the z of each round; its image is theta_hat + beta R z with the root of `root_numpy`.
        lam: the ridge.
        spread_of: beta from the round k and V before it.
        weight_of: the weight from the row, the arm played and its width before learning.
        ties: "lowest" or "random".
        tie_tolerance: see `ties_numpy`.
    """
    num_rounds, _, dim = arms.shape
    out = empty_run(num_rounds, dim)
    x = np.zeros((num_rounds, dim))
    V, theta, root = lam * np.eye(dim), np.zeros(dim), initial_root(dim, lam)
    for row in range(num_rounds):
        inverse = np.linalg.inv(V)
        beta = spread_of(row + 1, V)
        sampled = arms[row] @ (theta + beta * root @ normals[row])
        everything = np.ones(len(arms[row]), dtype=bool)
        action, margin = argmax_with_ties(sampled, everything, uniform[row], ties, tie_tolerance)
        x[row] = arms[row, action]
        out.action[row], out.margin[row], out.spread[row] = action, margin, beta
        out.weight[row] = weight_of(row, action, math.sqrt(max(x[row] @ inverse @ x[row], 0.0)))
        out.reward[row] = means[row, action] + drawn_noise(noise, row, action)
        seen, squared = x[: row + 1], out.weight[: row + 1] ** 2
        root = grown_root(root, x[row], squared[row])
        V = lam * np.eye(dim) + (squared[:, None] * seen).T @ seen
        theta = np.linalg.inv(V) @ np.sum((squared * out.reward[: row + 1])[:, None] * seen, axis=0)
        out.theta[row], out.V[row] = theta, V
    return out


def run_lin_ts(
    *given: np.ndarray,
    scale: str,
    horizon: float | None = None,
    noise_bound: float = 1.0,
    delta: float = 0.01,
    lam: float = 1.0,
    theta_bound: float = 1.0,
    beta_scale: float = 1.0,
    ties: str = "random",
) -> SamplerRun:
    """LinTS; the arrays are those of `run_sampler`.

    abeille_lazaric: c R sqrt(2 log(4K/delta) + log det V - d log lam) + sqrt(lam) B, OFUL's radius at delta / (4K)
    agrawal_goyal:   c R sqrt(9 d log(k / delta))
    bayes:           c R
    """
    dim = given[0].shape[2]

    def spread_of(k: int, V: np.ndarray) -> float:
        if scale == "abeille_lazaric":
            level = delta / (4.0 * horizon)
            log_det = float(np.linalg.slogdet(V)[1]) - dim * math.log(lam)
            return (
                beta_scale * noise_bound * math.sqrt(2.0 * math.log(1.0 / level) + log_det)
                + math.sqrt(lam) * theta_bound
            )
        if scale == "agrawal_goyal":
            return beta_scale * noise_bound * math.sqrt(9.0 * dim * math.log(k / delta))
        return beta_scale * noise_bound

    return run_sampler(*given, lam=lam, spread_of=spread_of, weight_of=lambda *_: 1.0, ties=ties)
