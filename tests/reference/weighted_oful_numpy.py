"""Weighted OFUL (Zhou, Gu, Szepesvari 2021)."""

import math

import numpy as np

from .ellipsoid_numpy import run_ellipsoid
from .save_numpy import Run


def run_weighted_oful(
    *given: np.ndarray,
    noise_bound: float = 1.0,
    delta: float = 0.01,
    lam: float | None = None,
    theta_bound: float = 1.0,
    norm_bound: float = 1.0,
    beta_scale: float = 1.0,
    fixed_radius: float | None = None,
    variance_scale: float = 1.0,
    variance_bound: float | None = None,
    ties: str = "random",
) -> Run:
    """sigma_bar_t = max(R / sqrt(d), sigma_t), m_t = min_{i<=t} sigma_bar_i, lam = 1 / B^2 unless given.

    beta_t = 8 sqrt(d log(1 + t A^2 / (m_t^2 d lam)) log(4 t^2 / delta)) + 4 R / m_t log(4 t^2 / delta), beta_0 = 0;
    the radius is c beta_t + sqrt(lam) B.
    """
    dim = given[0].shape[2]
    ridge = 1.0 / theta_bound**2 if lam is None else lam

    def factor(width: float, variance: float) -> float:
        told = variance_scale * (variance if variance_bound is None else variance_bound)
        sigma_bar = max(noise_bound / math.sqrt(dim), math.sqrt(told))
        return 1.0 / sigma_bar**2

    def radius(factors: list[float], Sigma: np.ndarray) -> float:
        if fixed_radius is not None:
            return fixed_radius
        bias = math.sqrt(ridge) * theta_bound
        if not factors:
            return bias
        t = len(factors)
        m = min(1.0 / math.sqrt(f) for f in factors)
        log = math.log(4.0 * t**2 / delta)
        beta = 8.0 * math.sqrt(dim * math.log(1.0 + t * norm_bound**2 / (m**2 * dim * ridge)) * log)
        beta += 4.0 * noise_bound / m * log
        return beta_scale * beta + bias

    return run_ellipsoid(*given, lam=ridge, factor_of=factor, radius_of=radius, ties=ties)
