"""UCRL-AVE: Algorithm 2 of the paper, for linear mixture MDPs.

Zhao, He, Zhou, Zhang, Gu (2023), "Variance-Dependent Regret Bounds for Linear Bandits and Reinforcement Learning:
Adaptivity and Computational Efficiency".

Line numbers are the paper's own labels (``alg2:line:7`` is the optimistic Q, 13 the action, 14-15 the layer, 17 the
weight); those without a label are numbered to fit. Episodes k, steps h and layers l are counted from 1 as there; arrays
over episodes and steps start at 0.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from .ave_ucb_numpy import Plain
from .mixture_mdp_numpy import Episodes, EpisodesRun, plan_episode
from .radius_numpy import episodic_radius


@dataclasses.dataclass(frozen=True, kw_only=True)
class AveRun(EpisodesRun):
    """What the twin did in each of the episodes played (K here), and its L layers."""

    layer: np.ndarray  # [K, H] int, the layer that learned, from 1; 0 if none did
    weight: np.ndarray  # [K, H] w_{k,h}; 0 if no layer learned
    emp: np.ndarray  # [K, L] sum over Psi_{k,l} of w^2 (V(s') - <theta_{k,l}, phi_V>)^2 used in the episode
    count: np.ndarray  # [L] int, |Psi_l| after the last episode
    Sigma: np.ndarray  # [L, d, d] after the last episode
    num_layers: int  # L


class Past(NamedTuple):
    """The steps played so far, all episodes in one; an index set Psi_l is a list of rows of it."""

    f: np.ndarray  # [K H, d] phi_{V_{k,h+1}}(s_h, a_h)
    weight: np.ndarray  # [K H]
    target: np.ndarray  # [K H] V_{k,h+1}(s_{h+1})


class Layer:
    """Estimators of layer l, each a sum over the whole index set Psi_l.

    Sigma_l = 4^-l lambda I + sum_{i in Psi_l} w_i^2 f_i f_i^T      (runs inside the episode)
    b_l     = sum_{i in Psi_l} w_i^2 y_i f_i
    theta_l = Sigma_l^-1 b_l                                        (at episode starts)
    emp_l   = sum_{i in Psi_l} w_i^2 (y_i - <theta_l, f_i>)^2       (at episode starts)
    """

    def __init__(self, layer: int, dim: int, lam: float) -> None:
        """Line 2: no data."""
        self.layer = layer
        self.lam = lam
        self.psi: list[int] = []
        self.Sigma = 4.0**-layer * lam * np.eye(dim)
        self.inverse = np.linalg.inv(self.Sigma)
        self.theta = np.zeros(dim)
        self.emp = 0.0
        self.weight_sum = 0.0
        self.beta = np.nan
        self.changed = False

    def widths(self, f: np.ndarray) -> np.ndarray:
        """||f|| in the norm of Sigma_l^-1 for features [..., d], with Sigma_l as it is now."""
        return np.sqrt(np.sum((f @ self.inverse) * f, axis=-1))

    def learn(self, row: int, past: Past) -> None:
        """Line 18: add a step to Psi_l, and sum Sigma_l again."""
        self.psi.append(row)
        f, weight = past.f[self.psi], past.weight[self.psi]
        self.Sigma = 4.0**-self.layer * self.lam * np.eye(f.shape[1]) + (weight[:, None] ** 2 * f).T @ f
        self.inverse = np.linalg.inv(self.Sigma)
        self.changed = True

    def estimate(self, past: Past) -> None:
        """Lines 5 and 19: b_l, theta_l and emp_l from the whole of Psi_l, if it has grown."""
        if not self.changed:
            return
        f, weight, target = past.f[self.psi], past.weight[self.psi], past.target[self.psi]
        squared = weight**2
        self.theta = self.inverse @ np.sum((squared * target)[:, None] * f, axis=0)
        self.emp = float(np.sum(squared * (target - f @ self.theta) ** 2))
        self.weight_sum = float(np.sum(squared))
        self.changed = False


def episodic_layer_count(num_episodes: int, horizon: int) -> int:
    """Line 1: L = ceil(log2(1 / alpha)), at least 1, with alpha = (K H)^(-3/2).

    That is the smallest L with 2^L >= (K H)^(3/2), or 4^L >= (K H)^3, which integers decide without rounding.
    """
    num_layers = 1
    while 4**num_layers < (num_episodes * horizon) ** 3:
        num_layers += 1
    return num_layers


def upper_bounds(layers: list[Layer], plain: Plain | None, f: np.ndarray) -> np.ndarray:
    """min_l [<theta_l, f> + beta_l ||f||_{Sigma_l^-1}] for features [..., d], line 7; also that of plain."""
    bound = np.full(f.shape[:-1], np.inf)
    for state in layers:
        bound = np.minimum(bound, f @ state.theta + state.beta * state.widths(f))
    if plain is not None:
        bound = np.minimum(bound, plain.upper_bounds(f))
    return bound


def learning_layer(layers: list[Layer], f: np.ndarray) -> tuple[int, float, float]:
    """Lines 14, 15 and 17: the lowest layer l with ||f||_{Sigma_l^-1} >= 2^-l, its weight, and the margin.

    Layer and weight are 0 if there is none. The zero feature belongs to no layer, with nothing to decide.
    """
    margin = np.inf
    if not np.any(f != 0.0):
        return 0, 0.0, margin
    for state in layers:
        bar = 2.0**-state.layer
        width = float(state.widths(f))
        margin = min(margin, abs(width - bar))
        if width >= bar:
            return state.layer, bar / width, margin
    return 0, 0.0, margin


def run_ucrl_ave(
    phi: np.ndarray,
    reward: np.ndarray,
    theta_star: np.ndarray,
    initial_state: np.ndarray,
    transition_uniform: np.ndarray,
    tie_uniform: np.ndarray,
    *,
    num_episodes: int,
    norm_bound: float,
    delta: float,
    constants: dict[str, float],
    intersect: bool = False,
    ties: str = "lowest",
    tie_tolerance: float = 1e-9,
) -> AveRun:
    """Play UCRL-AVE on given arrays, with lambda = 1 / B^2 and alpha = (K H)^(-3/2).

    Args:
        phi: [S, A, S, d] features phi(s' | s, a).
        reward: [S, A], at most 1 in total over any episode.
        theta_star: [d].
        initial_state: [K] int, s_1 of each episode.
        transition_uniform: [K, H] numbers in [0, 1), the draws of the next states.
        tie_uniform: [K, H, S] numbers in (0, 1), the draws of the argmaxes.
        num_episodes: the K of the theorem, in alpha only.
        norm_bound: B, bound on the norm of theta*.
        delta: failure probability.
        constants: of the radius, see `radius_numpy.EPISODIC_PRESETS`.
        intersect: also cut every bound at that of one regression over all steps, which takes half of delta.
        ties: "lowest" or "random".
        tie_tolerance: see `ties_numpy`.
    """
    num_played, horizon = transition_uniform.shape
    dim = theta_star.shape[0]
    num_layers = episodic_layer_count(num_episodes, horizon)  # Line 1
    layers = [Layer(layer, dim, 1.0 / norm_bound**2) for layer in range(1, num_layers + 1)]  # Line 2
    plain = Plain(dim, 0.5, delta, norm_bound) if intersect else None
    num_steps = num_played * horizon
    past = Past(np.zeros((num_steps, dim)), np.zeros(num_steps), np.zeros(num_steps))
    episodes = Episodes(phi, reward, theta_star, num_played, horizon)
    layer = np.zeros((num_played, horizon), dtype=int)
    weight = np.zeros((num_played, horizon))
    emp = np.zeros((num_played, num_layers))
    for k in range(num_played):  # Line 3
        for index, state in enumerate(layers):
            state.estimate(past)  # Line 5
            state.beta = episodic_radius(  # Line 6
                state.layer,
                k + 1,
                horizon,
                state.emp,
                len(state.psi),
                state.weight_sum,
                delta=delta / 2.0 if intersect else delta,
                num_layers=num_layers,
                constants=constants,
                loss=state.emp + 4.0**-state.layer * state.lam * float(state.theta @ state.theta),
            )
            emp[k, index] = state.emp
        plan = plan_episode(  # Lines 4, 7 and 8, with the matrices of the episode start
            phi,
            reward,
            lambda f: upper_bounds(layers, plain, f),
            tie_uniform[k],
            value_bound=1.0,
            ties=ties,
            tie_tolerance=tie_tolerance,
        )
        for h, f, target in episodes.play(k, plan, initial_state[k], transition_uniform[k]):  # Lines 11 to 13
            layer[k, h], weight[k, h], margin = learning_layer(layers, f)  # Lines 14, 15 and 17
            episodes.narrow(k, margin)
            row = k * horizon + h
            past.f[row], past.weight[row], past.target[row] = f, weight[k, h], target
            if layer[k, h]:  # Lines 16, 18 and 19; other layers stay as they are
                layers[layer[k, h] - 1].learn(row, past)
            if plain is not None:
                plain.learn(f, target)
    return AveRun(
        **episodes.arrays(),
        layer=layer,
        weight=weight,
        emp=emp,
        count=np.array([len(state.psi) for state in layers]),
        Sigma=np.array([state.Sigma for state in layers]),
        num_layers=num_layers,
    )
