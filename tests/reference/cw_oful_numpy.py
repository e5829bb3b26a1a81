"""CW-OFUL (He, Zhou, Zhang, Gu 2022) without corruption."""

import math

import numpy as np

from .ellipsoid_numpy import run_ellipsoid
from .save_numpy import Run


def run_cw_oful(
    *given: np.ndarray,
    threshold: float,
    noise_bound: float = 1.0,
    delta: float = 0.01,
    lam: float = 1.0,
    theta_bound: float = 1.0,
    norm_bound: float = 1.0,
    radius: str = "data_free",
    beta_scale: float = 1.0,
    fixed_radius: float | None = None,
    ties: str = "random",
) -> Run:
    """The factor of the squared error is min(1, threshold / ||a_k||_{Sigma_k^-1}) before the update of Sigma.

    "data_free":    c R sqrt(d log((1 + t A^2 / lam) / delta)) + sqrt(lam) B
    "determinant":  c R sqrt(2 log(1/delta) + log det Sigma_t - d log lam) + sqrt(lam) B
    """
    dim = given[0].shape[2]

    def factor(width: float, variance: float) -> float:
        return 1.0 if width <= threshold else threshold / width

    def radius_of(factors: list[float], Sigma: np.ndarray) -> float:
        if fixed_radius is not None:
            return fixed_radius
        if radius == "determinant":
            log_det = float(np.linalg.slogdet(Sigma)[1])
            square = 2.0 * math.log(1.0 / delta) + log_det - dim * math.log(lam)
        else:
            square = dim * math.log((1.0 + len(factors) * norm_bound**2 / lam) / delta)
        return beta_scale * noise_bound * math.sqrt(square) + math.sqrt(lam) * theta_bound

    return run_ellipsoid(*given, lam=lam, factor_of=factor, radius_of=radius_of, ties=ties)
