"""VarLin (Zhang, Yang, Ji, Du 2021) on a net: every slab is an explicit sum over all past steps."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from .mixture_mdp_numpy import Episodes, EpisodesRun, plan_episode
from .nets_numpy import Box, clip, exponential_limit, half_sphere, middles, most, nearest_norm, phi, refined


class Seen(NamedTuple):
    """One moment of one step."""

    x: np.ndarray  # [d]
    y: float
    eta: float  # variance bound
    group: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class VarLinRun(EpisodesRun):
    """What the twin did in K episodes."""

    center: np.ndarray  # [K, d] of the box after each episode
    half: np.ndarray  # [K, d]
    alive: np.ndarray  # [K, N] bool
    empty: np.ndarray  # [K] bool
    groups: set[int]  # that have a step


def var_lin_iota(dim: int, steps: float, delta: float) -> float:
    """16 d log(d K H / delta)."""
    return 16.0 * dim * math.log(dim * steps / delta)


def variance_group(eta: float, num_groups: int) -> int:
    """The i with eta in (2^-(i+3), 2^-(i+2)], or the last group."""
    for i in range(num_groups - 1):
        if eta > 2.0 ** -(i + 3):
            return i
    return num_groups - 1


def largest_variance(box: Box, cells: int, first: np.ndarray, second: np.ndarray) -> float:
    """An upper bound of <second, theta> - <first, theta>^2 over all cells left, cut to [0, 1/4]."""
    cell = box.half / cells
    found = []
    for p, alive in zip(middles(box, cells), box.alive, strict=True):
        if alive:
            mean = max(abs(float(p @ first)) - float(np.sum(cell * np.abs(first))), 0.0)
            found.append(float(p @ second) + float(np.sum(cell * np.abs(second))) - mean**2)
    return min(max(max(found), 0.0), 0.25)


def run_var_lin(
    features: np.ndarray,
    reward: np.ndarray,
    theta_star: np.ndarray,
    initial_state: np.ndarray,
    transition_uniform: np.ndarray,
    tie_uniform: np.ndarray,
    *,
    num_episodes: float,
    norm_bound: float,
    delta: float,
    test: str,
    beta_scale: float,
    num_moments: int,
    num_groups: int,
    cells: int,
    num_directions: int,
    every: int,
    num_scales: int = 6,
    iota: float | None = None,
    ties: str = "lowest",
    tie_tolerance: float = 1e-9,
) -> VarLinRun:
    """Play VarLin on given arrays; arguments as in `jaxvar.var_lin`, arrays as in `run_ucrl_vtr`.

    A cell with middle p and half-sides c stays if its theta may make all rows distributions, may have norm at most B,
    and for every moment, group, direction mu and scale l, with a = clip(<x, mu>, l) over the group's steps,

        |sum a (y - <x, p>)| <= c limit(sum a^2 eta) + sum_i c_i |sum a x_i|
    """
    num_played, horizon = transition_uniform.shape
    dim = theta_star.shape[0]
    if iota is None:
        iota = var_lin_iota(dim, num_episodes * horizon, delta)
    directions = half_sphere(dim, num_directions)
    scales = [2.0**-j for j in range(num_scales)]
    num_exponents = 11 + math.floor(math.log2(num_episodes * horizon))
    num_constraints = num_moments * num_groups * num_scales * num_directions
    log = math.log(2.0 * num_exponents * num_constraints / delta)

    def limit(square: float, scale: float) -> float:
        if test == "paper":
            return 4.0 * math.sqrt(iota * square) + 4.0 * scale * iota
        return scale * exponential_limit(square / scale**2, log, 4.0, num_exponents, phi)

    # All parameters and features of the net are mirrored, so that the first row's sum lies on the first axis.
    total = np.sum(features[0, 0], axis=0)
    normal = total / np.linalg.norm(total) + np.copysign(1.0, total[0]) * np.eye(dim)[0]
    mirror = np.eye(dim) - 2.0 * np.outer(normal, normal) / (normal @ normal)
    mirrored = features @ mirror

    def is_plausible(point: np.ndarray, cell: np.ndarray) -> bool:
        if nearest_norm(point, cell) > norm_bound * (1.0 + 4e-10):
            return False
        for row in mirrored.reshape(-1, *features.shape[2:]):  # [S, d]
            for entry in row:
                if entry @ point < -np.sum(cell * np.abs(entry)) - 1e-9:
                    return False
            total = np.sum(row, axis=0)
            if abs(total @ point - 1.0) > np.sum(cell * np.abs(total)) + 1e-9:
                return False
        return True

    def slabs() -> list[tuple[float, np.ndarray, float]]:
        """The width of every slab without the allowance for a cell, with sum a x and sum a y."""
        found = []
        for history in seen:
            for group in range(num_groups):
                steps = [step for step in history if step.group == group]
                for scale in scales:
                    for mu in directions:
                        a = [clip(float(step.x @ mu), scale) for step in steps]
                        ax = sum((w * step.x for w, step in zip(a, steps, strict=True)), np.zeros(dim))
                        ay = sum(w * step.y for w, step in zip(a, steps, strict=True))
                        square = sum(w**2 * step.eta for w, step in zip(a, steps, strict=True))
                        found.append((beta_scale * limit(square, scale), ax, ay))
        return found

    def keep(point: np.ndarray, cell: np.ndarray) -> bool:
        inside = all(abs(ay - ax @ point) <= width + np.sum(cell * np.abs(ax)) for width, ax, ay in constraints)
        return inside and is_plausible(point, cell)

    constraints: list[tuple[float, np.ndarray, float]] = []
    seen: list[list[Seen]] = [[] for _ in range(num_moments)]
    box = Box(np.zeros(dim), np.full(dim, norm_bound), np.ones(cells**dim, dtype=bool))
    box = Box(box.center, box.half, refined(box, cells, keep)[0].alive)
    center, half = np.zeros((num_played, dim)), np.zeros((num_played, dim))
    alive, empty = np.zeros((num_played, cells**dim), dtype=bool), np.zeros(num_played, dtype=bool)
    episodes = Episodes(features, reward, theta_star, num_played, horizon)
    for k in range(num_played):
        plan = plan_episode(
            features,
            reward,
            lambda f, box=box: np.array([[most(box, cells, mirror @ v) for v in row] for row in f]),
            tie_uniform[k],
            value_bound=1.0,
            ties=ties,
            tie_tolerance=tie_tolerance,
        )
        for h, _, _ in episodes.play(k, plan, initial_state[k], transition_uniform[k]):
            s, a, arrived = episodes.state[k, h], episodes.action[k, h], episodes.next_state[k, h]
            powers = [plan.value[h + 1] ** (2**m) for m in range(num_moments)]
            xs = [np.sum(mirrored[s, a] * power[:, None], axis=0) for power in powers]
            for m in range(num_moments):
                eta = 0.25 if m == num_moments - 1 else largest_variance(box, cells, xs[m], xs[m + 1])
                seen[m].append(Seen(xs[m], float(powers[m][arrived]), eta, variance_group(eta, num_groups)))
        if (k + 1) % every == 0:
            constraints = slabs()
            box, empty[k] = refined(box, cells, keep)
        center[k], half[k], alive[k] = box
    groups = {step.group for history in seen for step in history if np.any(step.x)}
    return VarLinRun(**episodes.arrays(), center=center, half=half, alive=alive, empty=empty, groups=groups)
