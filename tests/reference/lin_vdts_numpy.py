"""LinVDTS-R: SAVE (see `save_numpy`) whose free choices are made by one normal vector per round."""

import numpy as np

from .root_numpy import grown_root, initial_root
from .save_numpy import Layer, Past, Recorder, Run, drawn_noise, layer_count
from .ties_numpy import argmax_with_ties


def select_arm(
    layers: list[Layer],
    roots: list[np.ndarray],
    arms: np.ndarray,
    uniform: float,
    normal: np.ndarray,
    alpha: float,
    ties: str,
    tie_tolerance: float,
) -> tuple[int, int, float, float, int]:
    """The arm, the layer that learns (0 if none), its weight, the margin, and how many arms were active."""
    active = np.ones(arms.shape[0], dtype=bool)
    margin = np.inf
    for state, root in zip(layers, roots, strict=True):
        bar = 2.0**-state.layer
        width = state.widths(arms)
        mean = arms @ state.theta
        largest = np.max(width[active])
        margin = min(margin, abs(largest - alpha))
        if largest > alpha and largest <= bar:  # pass the layer
            margin = min(margin, abs(largest - bar))
            best = int(np.flatnonzero(active)[np.argmax(mean[active])])
            threshold = mean[best] - 2.0 * bar * state.beta
            for a in np.flatnonzero(active):
                if a != best:
                    margin = min(margin, abs(mean[a] - threshold))
                active[a] = mean[a] >= threshold
            continue
        sampled = arms @ (state.theta + state.beta * root @ normal)
        if largest <= alpha:
            action, gap = argmax_with_ties(sampled, active, uniform, ties, tie_tolerance)
            return action, 0, 0.0, min(margin, gap), int(np.sum(active))
        margin = min(margin, np.min(np.abs(width[active] - bar)))
        action, gap = argmax_with_ties(sampled, active & (width > bar), uniform, ties, tie_tolerance)
        return action, state.layer, bar / width[action], min(margin, gap), int(np.sum(active))
    raise ValueError("every layer was passed")


def run_lin_vdts(
    arms: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    uniform: np.ndarray,
    normals: np.ndarray,
    *,
    horizon: float,
    noise_bound: float,
    delta: float,
    constants: dict[str, float],
    ties: str = "random",
    tie_tolerance: float = 1e-9,
) -> Run:
    """Play LinVDTS-R on given arrays: those of `run_save`, and normals [K, d]."""
    num_rounds, _, dim = arms.shape
    alpha = 1.0 / (noise_bound * horizon**1.5)
    num_layers = layer_count(alpha)
    layers = [Layer(layer, dim, constants) for layer in range(1, num_layers + 1)]
    roots = [initial_root(dim, 4.0**-layer) for layer in range(1, num_layers + 1)]
    past = Past(np.zeros((num_rounds, dim)), np.zeros(num_rounds), np.zeros(num_rounds))
    record = Recorder(num_rounds, dim)
    num_active = np.zeros(num_rounds, dtype=int)
    for row in range(num_rounds):
        action, layer, weight, margin, num_active[row] = select_arm(
            layers, roots, arms[row], uniform[row], normals[row], alpha, ties, tie_tolerance
        )
        past.x[row] = arms[row, action]
        past.weight[row] = weight
        past.reward[row] = means[row, action] + drawn_noise(noise, row, action)
        learned = layers[layer - 1] if layer else None
        if learned is not None:
            learned.learn(row, past, noise_bound, delta, num_layers, constants)
            roots[layer - 1] = grown_root(roots[layer - 1], past.x[row], weight**2)
        record.add(row, action, margin, learned)
    return record.finish(past, layers)._replace(num_active=num_active)
