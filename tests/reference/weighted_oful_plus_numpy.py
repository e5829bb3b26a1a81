"""Weighted OFUL+ (Zhou, Gu 2022)."""

import math

import numpy as np

from .ellipsoid_numpy import run_ellipsoid
from .save_numpy import Run


def run_weighted_oful_plus(
    *given: np.ndarray,
    num_rounds: float,
    noise_bound: float = 1.0,
    delta: float = 0.01,
    lam: float | None = None,
    theta_bound: float = 1.0,
    norm_bound: float = 1.0,
    alpha: float | None = None,
    gamma: float | None = None,
    beta_scale: float = 1.0,
    fixed_radius: float | None = None,
    variance_scale: float = 1.0,
    variance_bound: float | None = None,
    ties: str = "random",
) -> Run:
    """sigma_bar_k = max(sigma_k, alpha, gamma sqrt(||a_k||_{Sigma_k^-1})) before the update of Sigma.

    alpha = 1 / sqrt(K), gamma = sqrt(R) / d^(1/4), lam = d / B^2 unless given. In round k > 1 the radius is

        c (12 sqrt(d log(1 + k A^2 / (alpha^2 d lam)) tau) + 30 tau R / gamma^2) + sqrt(lam) B,
        tau = log(32 (log(gamma^2 / alpha) + 1) k^2 / delta),

    in round 1 it is sqrt(lam) B. Where gamma^2 < alpha, alpha takes the place of gamma^2 in both.
    """
    dim = given[0].shape[2]
    ridge = dim / theta_bound**2 if lam is None else lam
    least = 1.0 / math.sqrt(num_rounds) if alpha is None else alpha
    slope = math.sqrt(noise_bound) / dim**0.25 if gamma is None else gamma

    def factor(width: float, variance: float) -> float:
        told = variance_scale * (variance if variance_bound is None else variance_bound)
        sigma_bar = max(math.sqrt(told), least, slope * math.sqrt(width))
        return 1.0 / sigma_bar**2

    def radius(factors: list[float], Sigma: np.ndarray) -> float:
        if fixed_radius is not None:
            return fixed_radius
        bias = math.sqrt(ridge) * theta_bound
        if not factors:
            return bias
        k = len(factors) + 1
        square = slope**2 if slope**2 >= least else least
        tau = math.log(32.0 * (math.log(square / least) + 1.0) * k**2 / delta)
        beta = 12.0 * math.sqrt(dim * math.log(1.0 + k * norm_bound**2 / (least**2 * dim * ridge)) * tau)
        beta += 30.0 * tau * noise_bound / square
        return beta_scale * beta + bias

    return run_ellipsoid(*given, lam=ridge, factor_of=factor, radius_of=radius, ties=ties)
