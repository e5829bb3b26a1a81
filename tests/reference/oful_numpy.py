"""OFUL (Abbasi-Yadkori, Pal, Szepesvari 2011): one unweighted ridge regression and its ellipsoid."""

import functools
import math

import numpy as np

from .ellipsoid_numpy import run_ellipsoid
from .save_numpy import Run
from .ties_numpy import argmax_with_ties


def oful_radius(
    V: np.ndarray,
    num_observed: int,
    *,
    noise_bound: float,
    delta: float,
    lam: float,
    theta_bound: float,
    radius: str,
    norm_bound: float,
    beta_scale: float,
    fixed_radius: float | None,
) -> float:
    """Radius after t observations, with V_t = lam I + sum_{s<=t} x_s x_s^T.

    "determinant":  c R sqrt(2 log(1/delta) + log det V_t - d log lam) + sqrt(lam) B
    "data_free":    c R sqrt(d log((1 + t A^2 / lam) / delta)) + sqrt(lam) B

    with c = beta_scale, R = noise_bound, B = theta_bound, A = norm_bound. A fixed_radius replaces the whole.
    """
    if fixed_radius is not None:
        return fixed_radius
    dim = V.shape[0]
    if radius == "determinant":
        log_det = float(np.linalg.slogdet(V)[1])
        square = 2.0 * math.log(1.0 / delta) + log_det - dim * math.log(lam)
    elif radius == "data_free":
        square = dim * math.log((1.0 + num_observed * norm_bound**2 / lam) / delta)
    else:
        raise ValueError(f"radius must be 'determinant' or 'data_free', got {radius!r}")
    return beta_scale * noise_bound * math.sqrt(square) + math.sqrt(lam) * theta_bound


def run_oful(
    arms: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    uniform: np.ndarray,
    *,
    noise_bound: float,
    delta: float,
    lam: float = 1.0,
    theta_bound: float = 1.0,
    radius: str = "determinant",
    norm_bound: float = 1.0,
    beta_scale: float = 1.0,
    fixed_radius: float | None = None,
    ties: str = "lowest",
    tie_tolerance: float = 1e-9,
) -> Run:
    """Play OFUL on given arrays, those of `run_ellipsoid` but for the variances; all factors are 1 and `Sigma` is V.

    Args:
        arms: [K, N, d].
        means: [K, N].
        noise: [K], or [K, N].
        uniform: [K].
        noise_bound: R, the sub-Gaussian scale.
        delta: failure probability.
        lam: ridge.
        theta_bound: B, bound on the norm of theta*.
        radius: "determinant" or "data_free".
        norm_bound: A, bound on the norm of the arms ("data_free" only).
        beta_scale: multiplies the stochastic part of the radius.
        fixed_radius: replaces the radius unless None; 0 is the greedy rule.
        ties: "lowest" or "random".
        tie_tolerance: see `ties_numpy`.
    """

    def radius_of(factors: list[float], V: np.ndarray) -> float:
        return oful_radius(
            V,
            len(factors),
            noise_bound=noise_bound,
            delta=delta,
            lam=lam,
            theta_bound=theta_bound,
            radius=radius,
            norm_bound=norm_bound,
            beta_scale=beta_scale,
            fixed_radius=fixed_radius,
        )

    return run_ellipsoid(
        arms,
        means,
        noise,
        np.zeros(means.shape),
        uniform,
        lam=lam,
        factor_of=lambda width, variance: 1.0,
        radius_of=radius_of,
        ties=ties,
        tie_tolerance=tie_tolerance,
    )


class Twin:
    """OFUL one round at a time, for `tests/algorithms/test_twin_interface.py`."""

    def __init__(self, *, dim: int, lam: float, ties: str, tie_tolerance: float, **radius: object) -> None:
        self.lam, self.ties, self.tie_tolerance = lam, ties, tie_tolerance
        self.x, self.reward = np.zeros((0, dim)), np.zeros(0)
        self.radius = functools.partial(oful_radius, lam=lam, **radius)

    def estimates(self) -> dict[str, np.ndarray]:
        """V^-1 and theta, under the names that the algorithm's state has for them."""
        inverse = np.linalg.inv(self.lam * np.eye(self.x.shape[1]) + self.x.T @ self.x)
        return {"regression.sigma_inv": inverse, "regression.theta_hat": inverse @ (self.x.T @ self.reward)}

    def select(self, arms: np.ndarray, u: float, noise_var: np.ndarray) -> int:
        inverse, theta = self.estimates().values()
        beta = self.radius(np.linalg.inv(inverse), len(self.x))
        upper = arms @ theta + beta * np.sqrt(np.sum((arms @ inverse) * arms, axis=1))
        return argmax_with_ties(upper, np.ones(len(arms), dtype=bool), u, self.ties, self.tie_tolerance)[0]

    def update(self, x: np.ndarray, reward: float, noise_var: float) -> None:
        self.x, self.reward = np.append(self.x, x[None], axis=0), np.append(self.reward, reward)
