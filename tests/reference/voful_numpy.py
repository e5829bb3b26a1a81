"""VOFUL (Zhang, Yang, Ji, Du 2021) on a net: every test is an explicit sum over all past rounds."""

import itertools
import math
from typing import NamedTuple

import numpy as np

from .nets_numpy import Box, clip, exponential_limit, half_sphere, most, nearest_norm, psi, refined
from .save_numpy import drawn_noise
from .ties_numpy import argmax_with_ties


class NetRun(NamedTuple):
    """What the twin did in K rounds."""

    action: np.ndarray  # [K] int
    reward: np.ndarray  # [K]
    margin: np.ndarray  # [K]
    center: np.ndarray  # [K, d] of the box after each round
    half: np.ndarray  # [K, d]
    alive: np.ndarray  # [K, N] bool
    empty: np.ndarray  # [K] bool, whether no cell was left


def voful_iota(dim: int, num_rounds: float, delta: float) -> float:
    """16 d log(d K / delta)."""
    return 16.0 * dim * math.log(dim * num_rounds / delta)


def run_voful(
    arms: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    uniform: np.ndarray,
    *,
    horizon: float,
    noise_bound: float,
    theta_bound: float,
    delta: float,
    test: str,
    beta_scale: float,
    cells: int,
    num_directions: int,
    every: int,
    num_scales: int | None = None,
    iota: float | None = None,
    ties: str = "lowest",
    tie_tolerance: float = 1e-9,
) -> NetRun:
    """Play VOFUL on given arrays; arguments as in `jaxvar.voful`, `horizon` is its `num_rounds`.

    A cell with middle p and half-sides c stays if for every direction mu and scale l, with a_s = clip(<x_s, mu>, l),

        |sum_s a_s (y_s - <x_s, p>)| <= c limit(sqrt(sum_s a_s^2 (y_s - <x_s, p>)^2) + e) + sum_i c_i |sum_s a_s x_si|

    with e the largest sqrt(sum_s a_s^2 <x_s, z>^2) over the cell's corners z.
    """
    num_rounds, _, dim = arms.shape
    if num_scales is None:
        num_scales = math.ceil(math.log2(horizon)) + 1
    if iota is None:
        iota = voful_iota(dim, horizon, delta)
    directions = half_sphere(dim, num_directions)
    scales = [2.0**-j for j in range(num_scales)]
    num_exponents = math.floor(math.log2(horizon)) + 7
    log = math.log(2.0 * num_exponents * num_directions * num_scales / delta)

    def limit(root: float, scale: float) -> float:
        if test == "paper":
            return math.sqrt(iota) * root + scale * noise_bound * iota
        bound = scale * noise_bound
        return bound * exponential_limit((root / bound) ** 2, log, 0.95, num_exponents, psi)

    def keep(point: np.ndarray, cell: np.ndarray) -> bool:
        if nearest_norm(point, cell) > theta_bound * (1.0 + 4e-10):
            return False
        residual = y - x @ point
        for a, scale in weights:
            deviation = abs(np.sum(a * residual))
            corners = [x @ (cell * np.array(signs)) for signs in itertools.product((1.0, -1.0), repeat=dim)]
            edge = max(math.sqrt(np.sum((a * z) ** 2)) for z in corners)
            root = math.sqrt(np.sum((a * residual) ** 2)) + edge
            shift = float(np.sum(cell * np.abs(a @ x)))
            if deviation > beta_scale * limit(root, scale) + shift:
                return False
        return True

    box = Box(np.zeros(dim), np.full(dim, theta_bound), np.ones(cells**dim, dtype=bool))
    x, y, weights = np.zeros((0, dim)), np.zeros(0), []
    box = Box(box.center, box.half, refined(box, cells, keep)[0].alive)
    run = NetRun(
        action=np.zeros(num_rounds, dtype=int),
        reward=np.zeros(num_rounds),
        margin=np.zeros(num_rounds),
        center=np.zeros((num_rounds, dim)),
        half=np.zeros((num_rounds, dim)),
        alive=np.zeros((num_rounds, cells**dim), dtype=bool),
        empty=np.zeros(num_rounds, dtype=bool),
    )
    for row in range(num_rounds):
        upper = np.array([most(box, cells, a) for a in arms[row]])
        everything = np.ones(len(arms[row]), dtype=bool)
        run.action[row], run.margin[row] = argmax_with_ties(upper, everything, uniform[row], ties, tie_tolerance)
        chosen = arms[row, run.action[row]]
        run.reward[row] = means[row, run.action[row]] + drawn_noise(noise, row, run.action[row])
        x, y = np.vstack([x, chosen]), np.append(y, run.reward[row])
        if (row + 1) % every == 0:
            weights = [
                (np.array([clip(float(xs @ mu), scale) for xs in x]), scale) for scale in scales for mu in directions
            ]
            box, run.empty[row] = refined(box, cells, keep)
        run.center[row], run.half[row], run.alive[row] = box
    return run
