"""FGTS-VA (Li, Gu 2025) for linear rewards, with the numbers of its rejection sampler given."""

import math
from typing import NamedTuple

import numpy as np

from .root_numpy import grown_root, initial_root
from .save_numpy import drawn_noise
from .ties_numpy import argmax_with_ties


class FgtsRun(NamedTuple):
    """What was done in each of K rounds, and what was known after it."""

    action: np.ndarray  # [K] int
    weight: np.ndarray  # [K]
    reward: np.ndarray  # [K]
    margin: np.ndarray  # [K] how narrowly the round was decided
    refused: np.ndarray  # [K] bool, whether every proposal was
    taken: np.ndarray  # [K] int, which proposal was
    theta: np.ndarray  # [K, d]
    V: np.ndarray  # [K, d, d]


def propose(
    theta: np.ndarray, root: np.ndarray, tilt: float, arms: np.ndarray, u: float, z: np.ndarray, v: float
) -> tuple[np.ndarray, float, float]:
    """One proposal: the parameter, v over the chance of its acceptance, and how narrowly its arm was picked.

    Log space throughout: log-weights lam <a, theta> + lam^2 / 4 ||a||^2, the chance exp(best - log sum exp).
    """
    inverse = root @ root.T
    log_weight = np.array([tilt * (a @ theta) + tilt**2 / 4.0 * (a @ inverse @ a) for a in arms])
    weight = np.exp(log_weight - log_weight.max())
    edges = np.cumsum(weight) / np.sum(weight)
    arm = int(np.sum(u > edges[:-1]))
    margin = float(np.min(np.abs(u - edges[:-1]), initial=np.inf))
    drawn = theta + tilt / 2.0 * inverse @ arms[arm] + math.sqrt(0.5) * root @ z
    values = arms @ drawn
    chance = 1.0 / float(np.sum(np.exp(tilt * (values - values.max()))))
    return drawn, v / chance, margin


def run_fgts_va(
    arms: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    uniform: np.ndarray,
    *,
    normals: np.ndarray,
    proposed: np.ndarray,
    accepted: np.ndarray,
    noise_var: np.ndarray,
    horizon: float,
    feel_good: float,
    lam: float = 1.0,
    variance_scale: float = 1.0,
    variance_bound: float | None = None,
    ties: str = "random",
    tie_tolerance: float = 1e-9,
) -> FgtsRun:
    """Play FGTS-VA on given arrays.

    Args:
        arms: [K, N, d].
        means: [K, N].
        noise: [K, N].
        uniform: [K] for ties.
        normals: [K, m, d], for the m proposals of each round.
        proposed: [K, m] uniform numbers that pick the proposals' arms.
        accepted: [K, m] uniform numbers that accept them.
        noise_var: [K, N], known before the pull.
        horizon: K of the floor 1 / K of the variance.
        feel_good: c.
        lam: the ridge.
        variance_scale: multiplies the variance.
        variance_bound: replaces it, unless None.
        ties: "lowest" or "random".
        tie_tolerance: see `ties_numpy`.
    """
    num_rounds, _, dim = arms.shape
    out = FgtsRun(
        np.zeros(num_rounds, dtype=int),
        *(np.zeros(num_rounds) for _ in range(3)),
        np.zeros(num_rounds, dtype=bool),
        np.zeros(num_rounds, dtype=int),
        np.zeros((num_rounds, dim)),
        np.zeros((num_rounds, dim, dim)),
    )
    x = np.zeros((num_rounds, dim))
    V, theta, variance_sum = lam * np.eye(dim), np.zeros(dim), 0.0
    root = initial_root(dim, lam)
    for row in range(num_rounds):
        bar2 = [
            max(variance_scale * (told if variance_bound is None else variance_bound), 1.0 / horizon)
            for told in noise_var[row]
        ]
        tilt = feel_good * math.sqrt(variance_sum + max(bar2)) / max(bar2)
        margin, ratios, draws = np.inf, [], []
        for j in range(normals.shape[1]):
            drawn, ratio, gap = propose(
                theta, root, tilt, arms[row], proposed[row, j], normals[row, j], accepted[row, j]
            )
            draws.append(drawn), ratios.append(ratio)
            margin = min(margin, gap, abs(ratio - 1.0))
            if ratio < 1.0:
                break
        out.refused[row] = ratios[-1] >= 1.0
        out.taken[row] = int(np.argmin(ratios)) if out.refused[row] else len(ratios) - 1
        if out.refused[row]:
            margin = min(margin, float(np.min(np.diff(np.sort(ratios)), initial=np.inf)))
        sampled = arms[row] @ draws[out.taken[row]]
        everything = np.ones(len(arms[row]), dtype=bool)
        action, gap = argmax_with_ties(sampled, everything, uniform[row], ties, tie_tolerance)
        x[row] = arms[row, action]
        out.action[row], out.margin[row] = action, min(margin, gap)
        out.weight[row] = 1.0 / math.sqrt(bar2[action])
        out.reward[row] = means[row, action] + drawn_noise(noise, row, action)
        variance_sum += bar2[action]
        seen, squared = x[: row + 1], out.weight[: row + 1] ** 2
        root = grown_root(root, x[row], squared[row])
        V = lam * np.eye(dim) + (squared[:, None] * seen).T @ seen
        theta = np.linalg.inv(V) @ np.sum((squared * out.reward[: row + 1])[:, None] * seen, axis=0)
        out.theta[row], out.V[row] = theta, V
    return out
