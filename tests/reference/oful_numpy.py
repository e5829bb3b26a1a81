"""OFUL (Abbasi-Yadkori, Pal, Szepesvari 2011): one unweighted ridge regression and its ellipsoid."""

import functools
import math

import numpy as np

from .save_numpy import Run, drawn_noise
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
    return_history: bool = False,
) -> Run:
    """Play OFUL on given arrays; in the result L = 1, `layer` is always 1, `weight` always 1 and `Sigma` is V.

        a_k = argmax_a <a, theta_{k-1}> + beta_{k-1} ||a||_{V_{k-1}^-1},   theta_t = V_t^-1 sum_{s<=t} r_s x_s

    Args:
        arms: [K, N, d] decision sets.
        means: [K, N] mean rewards.
        noise: [K], or [K, N] of which the entry of the arm played is used.
        uniform: [K] numbers in (0, 1), the random draws.
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
        return_history: also return radius, estimate and residual sum after each round.
    """
    num_rounds, _, dim = arms.shape
    action = np.zeros(num_rounds, dtype=int)
    reward = np.zeros(num_rounds)
    margin = np.zeros(num_rounds)
    x = np.zeros((num_rounds, dim))
    beta_after = np.zeros(num_rounds)
    theta_after = np.zeros((num_rounds, dim))
    emp_after = np.zeros(num_rounds)
    radius_after = functools.partial(
        oful_radius,
        noise_bound=noise_bound,
        delta=delta,
        lam=lam,
        theta_bound=theta_bound,
        radius=radius,
        norm_bound=norm_bound,
        beta_scale=beta_scale,
        fixed_radius=fixed_radius,
    )
    V = lam * np.eye(dim)
    theta = np.zeros(dim)
    beta = radius_after(V, 0)
    emp = 0.0
    for row in range(num_rounds):
        inverse = np.linalg.inv(V)
        width = np.sqrt(np.sum((arms[row] @ inverse) * arms[row], axis=1))
        upper = arms[row] @ theta + beta * width
        everything = np.ones(len(arms[row]), dtype=bool)
        action[row], margin[row] = argmax_with_ties(upper, everything, uniform[row], ties, tie_tolerance)
        x[row] = arms[row, action[row]]
        reward[row] = means[row, action[row]] + drawn_noise(noise, row, action[row])
        seen, rewards = x[: row + 1], reward[: row + 1]
        V = lam * np.eye(dim) + seen.T @ seen
        theta = np.linalg.inv(V) @ np.sum(rewards[:, None] * seen, axis=0)
        emp = float(np.sum((rewards - seen @ theta) ** 2))
        beta = radius_after(V, row + 1)
        beta_after[row], theta_after[row], emp_after[row] = beta, theta, emp
    return Run(
        action=action,
        layer=np.ones(num_rounds, dtype=int),
        weight=np.ones(num_rounds),
        reward=reward,
        margin=margin,
        theta=theta[None, :],
        Sigma=V[None, :, :],
        beta=np.array([beta]),
        emp=np.array([emp]),
        count=np.array([num_rounds]),
        beta_after=beta_after if return_history else None,
        theta_after=theta_after if return_history else None,
        emp_after=emp_after if return_history else None,
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
