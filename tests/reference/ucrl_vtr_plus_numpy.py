"""UCRL-VTR+ (Zhou, Gu, Szepesvari 2021) with values in [0, v]; the letters are those of the paper's Algorithm 2.

Published: one pair of regressions per step h. Pooled: one pair for all steps, as in UCRL-RFE+.
"""

import dataclasses
import math

import numpy as np

from .mixture_mdp_numpy import Episodes, EpisodesRun, plan_episode
from .moments_numpy import WeightedRidge, moment_feature


@dataclasses.dataclass(frozen=True, kw_only=True)
class VtrPlusRun(EpisodesRun):
    """What the twin did in each of K episodes."""

    layer: np.ndarray  # [K, H] int, the number of the pair of regressions that learned, 0 where f = 0
    weight: np.ndarray  # [K, H] 1 / sb of the step
    Sigma: np.ndarray  # [G, 2, d, d] after the last episode
    theta: np.ndarray  # [G, 2, d] after the last episode
    floor: np.ndarray  # [K, H] bool, whether sb^2 was v^2 / d


def radii(
    k: int,
    horizon: int,
    dim: int,
    *,
    per_step: bool,
    delta: float,
    lam: float,
    norm_bound: float,
    value_bound: float,
    beta_scale: float,
) -> tuple[float, float, float]:
    """beta_hat, beta_check and beta_tilde of episode k."""
    v = value_bound
    if per_step:
        n, log = k, math.log(4.0 * k**2 * horizon / delta)
    else:
        n, log = k * horizon, math.log(4.0 * (k * horizon) ** 2 / delta)
    hat = 8.0 * math.sqrt(dim * math.log(1.0 + n / lam) * log) + 4.0 * math.sqrt(dim) * log
    check = 8.0 * dim * math.sqrt(math.log(1.0 + n / lam) * log) + 4.0 * math.sqrt(dim) * log
    tilde = 8.0 * v**2 * math.sqrt(dim * math.log(1.0 + n * v**4 / (dim * lam)) * log) + 4.0 * v**2 * log
    bias = math.sqrt(lam) * norm_bound
    return beta_scale * hat + bias, beta_scale * check + bias, beta_scale * tilde + bias


def run_ucrl_vtr_plus(
    phi: np.ndarray,
    reward: np.ndarray,
    theta_star: np.ndarray,
    initial_state: np.ndarray,
    transition_uniform: np.ndarray,
    tie_uniform: np.ndarray,
    *,
    norm_bound: float,
    delta: float,
    lam: float | None = None,
    per_step: bool = False,
    value_bound: float = 1.0,
    beta_scale: float = 1.0,
    ties: str = "lowest",
    tie_tolerance: float = 1e-9,
) -> VtrPlusRun:
    """Play UCRL-VTR+ on given arrays; the arguments are those of `ucrl_vtr_numpy.run_ucrl_vtr`."""
    num_played, horizon = transition_uniform.shape
    dim, v = theta_star.shape[0], value_bound
    if lam is None:
        lam = 1.0 / norm_bound**2
    num_pairs = horizon if per_step else 1
    pairs = [[WeightedRidge(dim, lam), WeightedRidge(dim, lam)] for _ in range(num_pairs)]
    episodes = Episodes(phi, reward, theta_star, num_played, horizon)
    layer = np.zeros((num_played, horizon), dtype=int)
    weight = np.zeros((num_played, horizon))
    floor = np.zeros((num_played, horizon), dtype=bool)
    for k in range(num_played):
        hat, check, tilde = radii(
            k + 1,
            horizon,
            dim,
            per_step=per_step,
            delta=delta,
            lam=lam,
            norm_bound=norm_bound,
            value_bound=v,
            beta_scale=beta_scale,
        )
        stage = [horizon]  # plan_episode asks from h = H down to 1

        def upper(f: np.ndarray, hat: float = hat, stage: list[int] = stage) -> np.ndarray:
            stage[0] -= 1
            first = pairs[stage[0] if per_step else 0][0]
            return f @ first.theta + hat * np.sqrt(np.sum((f @ first.inverse) * f, axis=-1))

        plan = plan_episode(phi, reward, upper, tie_uniform[k], value_bound=v, ties=ties, tie_tolerance=tie_tolerance)
        for h, f, y in episodes.play(k, plan, initial_state[k], transition_uniform[k]):
            s, a = episodes.state[k, h], episodes.action[k, h]
            pair = h if per_step else 0
            first, second = pairs[pair]
            f2 = moment_feature(phi[s, a], plan.value[h + 1], 1)
            var = np.clip(f2 @ second.theta, 0.0, v**2) - np.clip(f @ first.theta, 0.0, v) ** 2
            E = min(v**2, 2.0 * v * check * first.frozen_norm(f)) + min(v**2, tilde * second.frozen_norm(f2))
            sb2 = max(v**2 / dim, float(var + E))
            floor[k, h] = sb2 == v**2 / dim
            if np.any(f != 0.0):
                layer[k, h], weight[k, h] = pair + 1, 1.0 / math.sqrt(sb2)
            first.learn(f, y, sb2)
            second.learn(f2, y**2, 1.0)
        for first, second in pairs:
            first.freeze()
            second.freeze()
    return VtrPlusRun(
        **episodes.arrays(),
        layer=layer,
        weight=weight,
        Sigma=np.array([[r.Sigma for r in pair] for pair in pairs]),
        theta=np.array([[r.theta for r in pair] for pair in pairs]),
        floor=floor,
    )
