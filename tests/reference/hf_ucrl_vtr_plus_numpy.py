"""HF-UCRL-VTR+ (Zhou, Gu 2022), with its estimator HOME; values in [0, v] are divided by v before they are used."""

import dataclasses
import math

import numpy as np

from .mixture_mdp_numpy import Episodes, EpisodesRun, plan_episode
from .moments_numpy import WeightedRidge, home, moment_feature, power


@dataclasses.dataclass(frozen=True, kw_only=True)
class MomentRun(EpisodesRun):
    """What the twin did in each of K episodes."""

    layer: np.ndarray  # [K, H] int, 1 where f_0 is not zero
    weight: np.ndarray  # [K, H] 1 / (v sb_0) of the step
    Sigma: np.ndarray  # [M, d, d] after the last episode
    theta: np.ndarray  # [M, d] after the last episode
    sb2: np.ndarray  # [K, H, M]


def num_moments_of(num_episodes: float, horizon: int) -> int:
    """ceil(log2(7 K H))."""
    return math.ceil(math.log2(7.0 * num_episodes * horizon))


def hf_radius(
    k: int, horizon: int, dim: int, *, delta: float, lam: float, norm_bound: float, beta_scale: float
) -> float:
    """beta_k = c (12 sqrt(d eta tau) + 30 tau / gamma^2) + sqrt(lam) B."""
    alpha, gamma = 1.0 / math.sqrt(horizon), dim**-0.25
    eta = math.log(1.0 + k * horizon / (alpha**2 * dim * lam))
    tau = math.log(32.0 * (1.0 + max(0.0, math.log(gamma**2 / alpha))) * k**2 * horizon**2 / delta)
    return beta_scale * (12.0 * math.sqrt(dim * eta * tau) + 30.0 * tau / gamma**2) + math.sqrt(lam) * norm_bound


def run_hf_ucrl_vtr_plus(
    *given: np.ndarray,
    num_episodes: float,
    norm_bound: float,
    delta: float,
    lam: float | None = None,
    num_moments: int | None = None,
    value_bound: float = 1.0,
    beta_scale: float = 1.0,
    ties: str = "lowest",
    tie_tolerance: float = 1e-9,
) -> MomentRun:
    """Play HF-UCRL-VTR+ on given arrays, those of `ucrl_vtr_numpy.run_ucrl_vtr`."""
    dim, (num_played, horizon) = given[2].shape[0], given[4].shape
    if lam is None:
        lam = dim / norm_bound**2
    numbers = {"delta": delta, "lam": lam, "norm_bound": norm_bound, "beta_scale": beta_scale}
    return run_moments(
        *given,
        beta=[hf_radius(k + 1, horizon, dim, **numbers) for k in range(num_played)],
        lam=lam,
        num_moments=num_moments_of(num_episodes, horizon) if num_moments is None else num_moments,
        alpha=1.0 / math.sqrt(horizon),
        gamma=dim**-0.25,
        value_bound=value_bound,
        ties=ties,
        tie_tolerance=tie_tolerance,
    )


def run_moments(
    phi: np.ndarray,
    reward: np.ndarray,
    theta_star: np.ndarray,
    initial_state: np.ndarray,
    transition_uniform: np.ndarray,
    tie_uniform: np.ndarray,
    *,
    beta: list[float],
    lam: float,
    num_moments: int,
    alpha: float,
    gamma: float,
    value_bound: float,
    ties: str,
    tie_tolerance: float,
) -> MomentRun:
    """The loop over episodes with the radii beta [K]."""
    num_played, horizon = transition_uniform.shape
    dim, v = theta_star.shape[0], value_bound
    ridges = [WeightedRidge(dim, lam) for _ in range(num_moments)]
    episodes = Episodes(phi, reward, theta_star, num_played, horizon)
    layer = np.zeros((num_played, horizon), dtype=int)
    weight = np.zeros((num_played, horizon))
    sb2 = np.zeros((num_played, horizon, num_moments))
    for k in range(num_played):

        def upper(f: np.ndarray, first: WeightedRidge = ridges[0], beta_k: float = beta[k]) -> np.ndarray:
            return f @ first.theta + beta_k * np.sqrt(np.sum((f @ first.inverse) * f, axis=-1))

        plan = plan_episode(phi, reward, upper, tie_uniform[k], value_bound=v, ties=ties, tie_tolerance=tie_tolerance)
        for h, _, y in episodes.play(k, plan, initial_state[k], transition_uniform[k]):
            s, a = episodes.state[k, h], episodes.action[k, h]
            scaled = plan.value[h + 1] / v
            features = [moment_feature(phi[s, a], scaled, m) for m in range(num_moments)]
            sb2[k, h] = home(ridges, features, beta[k], alpha, gamma)
            if np.any(features[0] != 0.0):
                layer[k, h], weight[k, h] = 1, 1.0 / (v * math.sqrt(sb2[k, h, 0]))
            for m in range(num_moments):
                ridges[m].learn(features[m], float(power(np.float64(y / v), m)), sb2[k, h, m])
        for one in ridges:
            one.freeze()
    return MomentRun(
        **episodes.arrays(),
        layer=layer,
        weight=weight,
        Sigma=np.array([one.Sigma for one in ridges]),
        theta=np.array([one.theta for one in ridges]),
        sb2=sb2,
    )
