"""ConfidenceBall_2 (Dani, Hayes, Kakade 2008), with A_1 = lam I."""

import math

import numpy as np

from .ellipsoid_numpy import run_ellipsoid
from .save_numpy import Run


def run_confidence_ball(
    *given: np.ndarray,
    noise_bound: float = 1.0,
    delta: float = 0.01,
    lam: float = 1.0,
    theta_bound: float = 1.0,
    beta_scale: float = 1.0,
    fixed_radius: float | None = None,
    ties: str = "random",
) -> Run:
    """The radius in round t, counted from 1, is c max(R, B) sqrt(beta_t).

    beta_t = max{128 d ln t ln(t^2 / delta), (8/3 ln(t^2 / delta))^2}
    """
    dim = given[0].shape[2]

    def radius(factors: list[float], Sigma: np.ndarray) -> float:
        if fixed_radius is not None:
            return fixed_radius
        t = len(factors) + 1
        first = 128.0 * dim * math.log(t) * math.log(t**2 / delta)
        second = (8.0 / 3.0 * math.log(t**2 / delta)) ** 2
        return beta_scale * max(noise_bound, theta_bound) * math.sqrt(max(first, second))

    return run_ellipsoid(*given, lam=lam, factor_of=lambda width, variance: 1.0, radius_of=radius, ties=ties)
