"""UCRL-VTR (Jia, Yang, Szepesvari, Wang 2020; Ayoub et al. 2020): one unweighted value-targeted ridge regression.

The radius is that of the authors' code in the unit scale: with radius="stage" the Hoeffding range (H - h) / 2 of stage
h (from 0) becomes (1 - h/H) Vmax / 2; with radius="flat" it is that of the first stage in all of them. Values are
clipped at Vmax.
"""

import math

import numpy as np

from .mixture_mdp_numpy import Episodes, EpisodesRun, plan_episode


def vtr_radius(
    M: np.ndarray, *, delta: float, lam: float, norm_bound: float, value_bound: float, beta_scale: float
) -> float:
    """sqrt(lam) B + c (Vmax / 2) sqrt(2 log(1/delta) + log det M - d log lam), with c = beta_scale."""
    log_det = float(np.linalg.slogdet(M)[1])
    square = 2.0 * math.log(1.0 / delta) + log_det - M.shape[0] * math.log(lam)
    return math.sqrt(lam) * norm_bound + beta_scale * (value_bound / 2.0) * math.sqrt(square)


def upper_bounds(theta: np.ndarray, beta: float, inverse: np.ndarray, f: np.ndarray) -> np.ndarray:
    """<theta, f> + beta ||f||_{M^-1} for features [..., d]."""
    return f @ theta + beta * np.sqrt(np.sum((f @ inverse) * f, axis=-1))


def run_ucrl_vtr(
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
    value_bound: float = 1.0,
    beta_scale: float = 1.0,
    ties: str = "lowest",
    tie_tolerance: float = 1e-9,
) -> EpisodesRun:
    """Play UCRL-VTR on given arrays.

        M = lam I + sum f f^T,   theta = M^-1 sum y f,   f = phi_{V_{k,h+1}}(s_h, a_h),   y = V_{k,h+1}(s_{h+1})

    summed over all steps of all past episodes; within an episode M, theta and the radius are those of its start.

    Args:
        phi: [S, A, S, d] features phi(s' | s, a).
        reward: [S, A], at most Vmax in total over any episode.
        theta_star: [d].
        initial_state: [K] int, s_1 of each episode.
        transition_uniform: [K, H] numbers in [0, 1), the draws of the next states.
        tie_uniform: [K, H, S] numbers in (0, 1), the draws of the argmaxes.
        norm_bound: B, bound on the norm of theta*.
        delta: failure probability.
        lam: ridge, 1 / B^2 unless given.
        value_bound: Vmax.
        beta_scale: multiplies the stochastic part of the radius.
        ties: "lowest" or "random".
        tie_tolerance: see `ties_numpy`.
    """
    num_played, horizon = transition_uniform.shape
    dim = theta_star.shape[0]
    if lam is None:
        lam = 1.0 / norm_bound**2
    features = np.zeros((num_played * horizon, dim))
    targets = np.zeros(num_played * horizon)
    episodes = Episodes(phi, reward, theta_star, num_played, horizon)
    M = lam * np.eye(dim)
    for k in range(num_played):
        seen, observed = features[: k * horizon], targets[: k * horizon]
        inverse = np.linalg.inv(M)
        theta = inverse @ np.sum(observed[:, None] * seen, axis=0)
        beta = vtr_radius(
            M, delta=delta, lam=lam, norm_bound=norm_bound, value_bound=value_bound, beta_scale=beta_scale
        )
        plan = plan_episode(
            phi,
            reward,
            lambda f, theta=theta, beta=beta, inverse=inverse: upper_bounds(theta, beta, inverse, f),
            tie_uniform[k],
            value_bound=value_bound,
            ties=ties,
            tie_tolerance=tie_tolerance,
        )
        for h, f, target in episodes.play(k, plan, initial_state[k], transition_uniform[k]):
            features[k * horizon + h], targets[k * horizon + h] = f, target
        seen = features[: (k + 1) * horizon]
        M = lam * np.eye(dim) + seen.T @ seen
    return EpisodesRun(**episodes.arrays())


class Twin:
    """UCRL-VTR one episode at a time, for `tests/algorithms/test_twin_interface.py`."""

    def __init__(
        self,
        *,
        dim: int,
        horizon: int | None,  # given again in `plan`
        lam: float,
        value_bound: float,
        ties: str,
        tie_tolerance: float,
        radius: str,
        **rest: float,
    ):
        self.lam, self.features, self.targets = lam, np.zeros((0, dim)), np.zeros(0)
        self.rule = {"value_bound": value_bound, "ties": ties, "tie_tolerance": tie_tolerance}
        self.by_stage, self.radius = radius == "stage", {**rest, "lam": lam}

    def estimates(self) -> dict[str, np.ndarray]:
        """M^-1 and theta, under the names that the algorithm's state has for them."""
        inverse = np.linalg.inv(self.lam * np.eye(self.features.shape[1]) + self.features.T @ self.features)
        return {"regression.sigma_inv": inverse, "regression.theta_hat": inverse @ (self.features.T @ self.targets)}

    def plan(self, phi: np.ndarray, reward: np.ndarray, horizon: int, u: np.ndarray) -> np.ndarray:
        inverse, theta = self.estimates().values()
        M, most = np.linalg.inv(inverse), self.rule["value_bound"]
        ranges = [(1 - h / horizon) * most if self.by_stage else most for h in range(horizon)]
        betas = [vtr_radius(M, **self.radius, value_bound=width) for width in ranges]
        self.planned = plan_episode(
            phi, reward, lambda f, h: upper_bounds(theta, betas[h], inverse, f), u, **self.rule, by_stage=True
        )
        return self.planned.policy

    def update(self, stage: int, state: int, action: int, next_state: int, reward: float) -> None:
        self.features = np.append(self.features, self.planned.features[stage, state, action][None], axis=0)
        self.targets = np.append(self.targets, self.planned.value[stage + 1, next_state])
