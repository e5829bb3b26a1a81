"""AVE-UCB: the paper's Algorithm 2 specialised to one decision per episode, i.e. to a linear bandit.

Layers, weights and radii are those of SAVE (Algorithm 1, lines 1, 2, 15, 17, 18 and 19); arms are chosen by the
smallest of the layers' upper bounds, and nothing is eliminated. Line numbers are the paper's own labels.
"""

import numpy as np

from .save_numpy import Layer, Past, Recorder, Run, drawn_noise, layer_count
from .ties_numpy import argmax_with_ties


def upper_bounds(layers: list[Layer], arms: np.ndarray, cap: float | None) -> np.ndarray:
    """index_a = min{cap, min_l [<a, theta_l> + beta_l ||a||_{Sigma_l^-1}]} for every row a of arms [N, d].

    Line 7 of Algorithm 2 with phi_V = a and no known reward.
    """
    index = np.full(arms.shape[0], np.inf)
    for state in layers:
        index = np.minimum(index, arms @ state.theta + state.beta * state.widths(arms))
    if cap is not None:
        index = np.minimum(index, cap)
    return index


class Plain:
    """LOSAN's regression over all rounds, and its radius at half of delta (`losan_numpy`)."""

    def __init__(self, dim: int, noise_bound: float, delta: float, theta_bound: float = 1.0) -> None:
        """No data; the ridge is R^2 / B^2."""
        self.noise_bound, self.delta = noise_bound, delta / 2.0
        self.V, self.b, self.errors = (noise_bound / theta_bound) ** 2 * np.eye(dim), np.zeros(dim), 0.0

    def upper_bounds(self, arms: np.ndarray) -> np.ndarray:
        """<a, theta> + sqrt(R^2 + 2 R^2 log(1/delta) + sum w^2 e^2 D^2) ||a||_{V^-1} for arms [..., d]."""
        width = np.sqrt(np.sum((arms @ np.linalg.inv(self.V)) * arms, axis=-1))
        square = self.noise_bound**2 * (1.0 + 2.0 * np.log(1.0 / self.delta)) + self.errors
        return arms @ np.linalg.solve(self.V, self.b) + np.sqrt(square) * width

    def learn(self, x: np.ndarray, reward: float) -> None:
        """Add (x, reward) with the weight w = min(1, 1 / ||x||_{V^-1})."""
        weight = min(1.0, 1.0 / max(float(np.sqrt(x @ np.linalg.solve(self.V, x))), 1e-300))
        error = reward - x @ np.linalg.solve(self.V, self.b)
        self.V = self.V + weight**2 * np.outer(x, x)
        self.b = self.b + weight**2 * reward * x
        self.errors += weight**2 * error**2 * weight**2 * float(x @ np.linalg.solve(self.V, x))


def learning_layer(layers: list[Layer], x: np.ndarray) -> tuple[int, float, float]:
    """The lowest layer l with width = ||x||_{Sigma_l^-1} >= 2^-l, its weight 2^-l / width, and the margin.

    Layer and weight are 0 if there is no such layer (lines 14, 15 and 17 of Algorithm 2).
    """
    margin = np.inf
    for state in layers:
        bar = 2.0**-state.layer
        width = float(state.widths(x[None, :])[0])
        margin = min(margin, abs(width - bar))
        if width >= bar:
            return state.layer, bar / width, margin
    return 0, 0.0, margin


def run_ave_ucb(
    arms: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    uniform: np.ndarray,
    *,
    horizon: float,
    noise_bound: float,
    delta: float,
    constants: dict[str, float],
    cap: float | None = None,
    intersect: bool = False,
    ties: str = "lowest",
    tie_tolerance: float = 1e-9,
) -> Run:
    """Play AVE-UCB on given arrays; arguments as in `run_save`, and those below.

    a_k = argmax_a index_a;  learn in the lowest layer l with ||a_k||_{Sigma_l^-1} >= 2^-l, in none if there is none.

    Args:
        cap: upper bound on every index, or None.
        intersect: also cut every index at the upper bound of `Plain`, and give the layers the other half of delta.
    """
    num_rounds, _, dim = arms.shape
    num_layers = layer_count(1.0 / (noise_bound * horizon**1.5))
    layers = [Layer(layer, dim, constants) for layer in range(1, num_layers + 1)]
    plain = Plain(dim, noise_bound, delta) if intersect else None
    layer_delta = delta / 2.0 if intersect else delta
    past = Past(np.zeros((num_rounds, dim)), np.zeros(num_rounds), np.zeros(num_rounds))
    record = Recorder(num_rounds, dim)
    for row in range(num_rounds):
        index = upper_bounds(layers, arms[row], cap)  # Algorithm 2, line 7
        if plain is not None:
            index = np.minimum(index, plain.upper_bounds(arms[row]))
        everything = np.ones(len(arms[row]), dtype=bool)
        action, gap = argmax_with_ties(index, everything, uniform[row], ties, tie_tolerance)
        layer, weight, margin = learning_layer(layers, arms[row, action])  # Lines 14, 15, 17
        past.x[row] = arms[row, action]
        past.weight[row] = weight
        past.reward[row] = means[row, action] + drawn_noise(noise, row, action)
        learned = layers[layer - 1] if layer else None
        if learned is not None:
            learned.learn(row, past, noise_bound, layer_delta, num_layers, constants)
        if plain is not None:
            plain.learn(past.x[row], past.reward[row])
        record.add(row, action, min(margin, gap), learned)
    return record.finish(past, layers)
