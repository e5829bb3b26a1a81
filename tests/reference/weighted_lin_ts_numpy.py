"""Thompson sampling on the statistics of Weighted OFUL+ (Zhou, Gu 2022), told the variance after the pull."""

import math

import numpy as np

from .lin_ts_numpy import SamplerRun, run_sampler


def run_weighted_lin_ts(
    *given: np.ndarray,
    noise_var: np.ndarray,
    horizon: float,
    noise_bound: float = 1.0,
    delta: float = 0.01,
    theta_bound: float = 1.0,
    norm_bound: float = 1.0,
    variance_scale: float = 1.0,
    variance_bound: float | None = None,
    beta_scale: float = 1.0,
    ties: str = "random",
) -> SamplerRun:
    """The arrays are those of `run_sampler`, and noise_var [K, N].

        alpha = 1 / sqrt(K),   gamma = sqrt(R) / d^(1/4),   lam = d / B^2
        sigma_bar = max(sigma, alpha, gamma sqrt(||x||_{Sigma^-1})),   weight 1 / sigma_bar
        beta_k = c (12 sqrt(d log(1 + k A^2 / (alpha^2 d lam)) tau_k) + 30 tau_k R / gamma^2) + sqrt(lam) B
        tau_k = log(32 (1 + max(0, log(gamma^2 / alpha))) k^2 / delta),   beta_1 = sqrt(lam) B

    Where gamma^2 < alpha, alpha takes the place of gamma^2 in the radius.
    """
    dim = given[0].shape[2]
    alpha = 1.0 / math.sqrt(horizon)
    gamma = math.sqrt(noise_bound) / dim**0.25
    lam = dim / theta_bound**2

    def spread_of(k: int, V: np.ndarray) -> float:
        bias = math.sqrt(lam) * theta_bound
        if k == 1:
            return bias
        tau = math.log(32.0 * (1.0 + max(0.0, math.log(gamma**2 / alpha))) * k**2 / delta)
        growth = math.log(1.0 + k * norm_bound**2 / (alpha**2 * dim * lam))
        return (
            beta_scale * (12.0 * math.sqrt(dim * growth * tau) + 30.0 * tau * noise_bound / max(gamma**2, alpha)) + bias
        )

    def weight_of(row: int, action: int, width: float) -> float:
        told = variance_scale * (noise_var[row, action] if variance_bound is None else variance_bound)
        return 1.0 / max(math.sqrt(told), alpha, gamma * math.sqrt(width))

    return run_sampler(*given, lam=lam, spread_of=spread_of, weight_of=weight_of, ties=ties)
