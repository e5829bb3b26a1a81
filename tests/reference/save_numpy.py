"""SAVE: Algorithm 1 of the paper.

Zhao, He, Zhou, Zhang, Gu (2023), "Variance-Dependent Regret Bounds for Linear Bandits and Reinforcement Learning:
Adaptivity and Computational Efficiency".

Line numbers are the paper's own labels, as in jaxvar/algorithms/save.py (``alg1:line:12`` is the elimination, 14 the
exploration, 15 the weight, 17-18 the estimators); those without a label are numbered to fit. Rounds k and layers l are
counted from 1 as there; arrays over rounds start at 0.
"""

import math
from typing import NamedTuple

import numpy as np

from .radius_numpy import confidence_radius, initial_radius
from .ties_numpy import argmax_with_ties, by_rank


class Run(NamedTuple):
    """What a twin did in each of K rounds, and its L layers after the last of them."""

    action: np.ndarray  # [K] int, index of the arm played
    layer: np.ndarray  # [K] int, the layer that learned, from 1; 0 if none did
    weight: np.ndarray  # [K] w_k; 0 if no layer learned
    reward: np.ndarray  # [K] r_k
    margin: np.ndarray  # [K] smallest |left - right| over the comparisons that decided the round; inf if there was none
    theta: np.ndarray  # [L, d]
    Sigma: np.ndarray  # [L, d, d]
    beta: np.ndarray  # [L]
    emp: np.ndarray  # [L] sum over Psi_l of w^2 (r - <theta_l, a>)^2
    count: np.ndarray  # [L] int, |Psi_l|
    beta_after: np.ndarray | None = None  # [K] radius of the layer that learned, after the round; nan if none did
    theta_after: np.ndarray | None = None  # [K, d] likewise
    num_active: np.ndarray | None = None  # [K] int, SAVE: arms not eliminated where the round ended


class Past(NamedTuple):
    """The rounds played so far; an index set Psi_l is a list of rows of it."""

    x: np.ndarray  # [K, d] arms played
    weight: np.ndarray  # [K]
    reward: np.ndarray  # [K]


class Layer:
    """Estimators of layer l, each a sum over the whole index set Psi_l.

    Sigma_l = 4^-l I + sum_{i in Psi_l} w_i^2 a_i a_i^T
    b_l     = sum_{i in Psi_l} w_i^2 r_i a_i
    theta_l = Sigma_l^-1 b_l
    emp_l   = sum_{i in Psi_l} w_i^2 (r_i - <theta_l, a_i>)^2
    """

    def __init__(self, layer: int, dim: int, constants: dict[str, float]) -> None:
        """Line 2: no data."""
        self.layer = layer
        self.psi: list[int] = []
        self.Sigma = 4.0**-layer * np.eye(dim)
        self.inverse = np.linalg.inv(self.Sigma)
        self.theta = np.zeros(dim)
        self.emp = 0.0
        self.weight_sum = 0.0
        self.beta = initial_radius(layer, constants)

    def widths(self, arms: np.ndarray) -> np.ndarray:
        """||a|| in the norm of Sigma_l^-1 for every row a of arms [N, d]."""
        return np.sqrt(np.sum((arms @ self.inverse) * arms, axis=1))

    def learn(
        self,
        row: int,
        past: Past,
        noise_bound: float,
        delta: float,
        num_layers: int,
        constants: dict[str, float],
    ) -> None:
        """Lines 17-19: add round k = row + 1 to Psi_l, sum again, and set the radius for the next round."""
        self.psi.append(row)
        x, weight, reward = past.x[self.psi], past.weight[self.psi], past.reward[self.psi]
        squared = weight**2
        self.Sigma = 4.0**-self.layer * np.eye(x.shape[1]) + (squared[:, None] * x).T @ x
        self.inverse = np.linalg.inv(self.Sigma)
        self.theta = self.inverse @ np.sum((squared * reward)[:, None] * x, axis=0)
        self.emp = float(np.sum(squared * (reward - x @ self.theta) ** 2))
        self.weight_sum = float(np.sum(squared))
        self.beta = confidence_radius(
            self.layer,
            row + 1,
            self.emp,
            len(self.psi),
            self.weight_sum,
            noise_bound=noise_bound,
            delta=delta,
            num_layers=num_layers,
            constants=constants,
            loss=self.emp + 4.0**-self.layer * float(self.theta @ self.theta),
        )


def layer_count(alpha: float) -> int:
    """Line 1: L = ceil(log2(1 / alpha)), at least 1."""
    return max(1, math.ceil(math.log2(1.0 / alpha)))


def select_arm(
    layers: list[Layer],
    arms: np.ndarray,
    uniform: float,
    alpha: float,
    explore: str,
    ties: str,
    tie_tolerance: float,
) -> tuple[int, int, float, float, int]:
    """Lines 5 to 16: descend the layers until an arm is specified.

    Returns:
        The arm's index, the layer that learns (0 if none), its weight (0 if none), the margin, and how many arms
        were still active.
    """
    active = np.ones(arms.shape[0], dtype=bool)  # Line 5
    margin = np.inf
    for state in layers:  # Lines 6 and 16
        bar = 2.0**-state.layer
        width = state.widths(arms)
        mean = arms @ state.theta
        upper = mean + state.beta * width

        # Lines 7-10. "All widths at most alpha" turns on the largest one.
        margin = min(margin, abs(np.max(width[active]) - alpha))
        if np.all(width[active] <= alpha):
            action, gap = argmax_with_ties(upper, active, uniform, ties, tie_tolerance)
            return action, 0, 0.0, min(margin, gap), int(np.sum(active))

        # Lines 11-12. The best arm is kept whatever the rounding.
        if np.all(width[active] <= bar):
            margin = min(margin, abs(np.max(width[active]) - bar))
            best = int(np.flatnonzero(active)[np.argmax(mean[active])])
            threshold = mean[best] - 2.0 * bar * state.beta
            for a in np.flatnonzero(active):
                if a != best:
                    margin = min(margin, abs(mean[a] - threshold))
                active[a] = mean[a] >= threshold
            continue

        # Lines 13-14. Which arms may be explored turns on every active width.
        margin = min(margin, np.min(np.abs(width[active] - bar)))
        uncertain = active & (width > bar)
        if explore == "widest":
            action, gap = argmax_with_ties(width, uncertain, uniform, ties, tie_tolerance)
        elif explore == "optimistic":
            action, gap = argmax_with_ties(upper, uncertain, uniform, ties, tie_tolerance)
        elif explore == "first":
            action, gap = int(np.flatnonzero(uncertain)[0]), np.inf
        elif explore == "random":
            action, gap = by_rank([int(a) for a in np.flatnonzero(uncertain)], uniform), np.inf
        else:
            raise ValueError(f"explore must be 'widest', 'first', 'random' or 'optimistic', got {explore!r}")
        return action, state.layer, bar / width[action], min(margin, gap), int(np.sum(active))  # Line 15
    raise ValueError(f"every layer was passed: 2^-L = {2.0 ** -len(layers)} must be at most alpha = {alpha}")


def run_save(
    arms: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    uniform: np.ndarray,
    *,
    horizon: float,
    noise_bound: float,
    delta: float,
    constants: dict[str, float],
    explore: str = "widest",
    ties: str = "lowest",
    tie_tolerance: float = 1e-9,
) -> Run:
    """Play SAVE on given arrays.

    Args:
        arms: [K, N, d] decision sets.
        means: [K, N] mean rewards.
        noise: [K], or [K, N] of which the entry of the arm played is used.
        uniform: [K] numbers in (0, 1), the random draws.
        horizon: the K of the theorem, in alpha = 1 / (R K^1.5) only.
        noise_bound: R.
        delta: failure probability.
        constants: of the radius, see `radius_numpy`.
        explore: which uncertain arm line 14 plays: "widest", "first", "random" or "optimistic".
        ties: "lowest" or "random", in every argmax.
        tie_tolerance: see `ties_numpy`.
    """
    num_rounds, _, dim = arms.shape
    alpha = 1.0 / (noise_bound * horizon**1.5)
    num_layers = layer_count(alpha)  # Line 1
    layers = [Layer(layer, dim, constants) for layer in range(1, num_layers + 1)]  # Line 2
    past = Past(np.zeros((num_rounds, dim)), np.zeros(num_rounds), np.zeros(num_rounds))
    record = Recorder(num_rounds, dim)
    num_active = np.zeros(num_rounds, dtype=int)
    for row in range(num_rounds):  # Lines 3 and 4
        action, layer, weight, margin, num_active[row] = select_arm(
            layers, arms[row], uniform[row], alpha, explore, ties, tie_tolerance
        )
        past.x[row] = arms[row, action]
        past.weight[row] = weight
        past.reward[row] = means[row, action] + drawn_noise(noise, row, action)
        learned = layers[layer - 1] if layer else None
        if learned is not None:  # Lines 17-18; other layers stay as they are
            learned.learn(row, past, noise_bound, delta, num_layers, constants)
        record.add(row, action, margin, learned)
    return record.finish(past, layers)._replace(num_active=num_active)


def drawn_noise(noise: np.ndarray, row: int, action: int) -> float:
    """The round's noise: noise [K], or noise [K, N] at the arm played."""
    return float(noise[row] if noise.ndim == 1 else noise[row, action])


class Recorder:
    """Collects the arrays of a `Run`."""

    def __init__(self, num_rounds: int, dim: int) -> None:
        """Nothing learned in any round."""
        self.action = np.zeros(num_rounds, dtype=int)
        self.layer = np.zeros(num_rounds, dtype=int)
        self.margin = np.full(num_rounds, np.inf)
        self.beta_after = np.full(num_rounds, np.nan)
        self.theta_after = np.full((num_rounds, dim), np.nan)

    def add(self, row: int, action: int, margin: float, learned: Layer | None) -> None:
        """Note one round, after the layer that learned (if any) has been updated."""
        self.action[row] = action
        self.margin[row] = margin
        if learned is not None:
            self.layer[row] = learned.layer
            self.beta_after[row] = learned.beta
            self.theta_after[row] = learned.theta

    def finish(self, past: Past, layers: list[Layer]) -> Run:
        """The rounds, and the layers as they are now."""
        return Run(
            action=self.action,
            layer=self.layer,
            weight=past.weight,
            reward=past.reward,
            margin=self.margin,
            theta=np.array([state.theta for state in layers]),
            Sigma=np.array([state.Sigma for state in layers]),
            beta=np.array([state.beta for state in layers]),
            emp=np.array([state.emp for state in layers]),
            count=np.array([len(state.psi) for state in layers]),
            beta_after=self.beta_after,
            theta_after=self.theta_after,
        )
