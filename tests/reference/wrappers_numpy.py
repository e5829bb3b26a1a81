"""Protocol wrappers in plain loops: learners that are fed late or frozen, a theta* that turns, rewards corrupted.

A learner has `select(arms, u, noise_var)`, which returns an action, and `update(x, reward, noise_var)`. What a choice
holds beside its action is the attribute `layer` of a learner that has layers.
"""

import copy
import math

import numpy as np

from .save_numpy import Layer, Past, layer_count, select_arm


class Late:
    """A learner that is told each reward `delay` rounds late."""

    def __init__(self, learner, delay: int) -> None:
        self.learner, self.delay, self.waiting = learner, delay, []

    def select(self, arms: np.ndarray, u: float, noise_var: np.ndarray) -> int:
        return self.learner.select(arms, u, noise_var)

    def update(self, x: np.ndarray, reward: float, noise_var: float) -> None:
        self.waiting.append((layer_of(self.learner), x, reward, noise_var))
        if len(self.waiting) > self.delay:
            layer, *oldest = self.waiting.pop(0)
            now = layer_of(self.learner)
            set_layer(self.learner, layer)
            self.learner.update(*oldest)
            set_layer(self.learner, now)

    def learned(self):
        """The learner with its estimates."""
        return self.learner


class Frozen:
    """A learner whose choices are made by a copy of it, taken after every round that is a multiple of `every`."""

    def __init__(self, learner, every: int) -> None:
        self.learner, self.every, self.round = learner, every, 0
        self.policy = copy.deepcopy(learner)

    def select(self, arms: np.ndarray, u: float, noise_var: np.ndarray) -> int:
        action = self.policy.select(arms, u, noise_var)
        set_layer(self.learner, layer_of(self.policy))
        return action

    def update(self, x: np.ndarray, reward: float, noise_var: float) -> None:
        self.learner.update(x, reward, noise_var)
        self.round += 1
        if self.round % self.every == 0:
            self.policy = copy.deepcopy(self.learner)

    def learned(self):
        """The learner with its estimates."""
        return self.learner


def layer_of(learner) -> int | None:
    return getattr(learner, "layer", None)


def set_layer(learner, layer: int | None) -> None:
    if layer is not None:
        learner.layer = layer


class SaveByRounds:
    """SAVE one round at a time: the layer of a choice is kept, its weight is that of the moment it is learned."""

    def __init__(self, *, dim: int, alpha: float, noise_bound: float, delta: float, constants: dict, ties: str) -> None:
        self.alpha, self.noise_bound, self.delta, self.constants = alpha, noise_bound, delta, constants
        self.ties, self.layer = ties, 0
        self.layers = [Layer(layer, dim, constants) for layer in range(1, layer_count(alpha) + 1)]
        self.past = Past(np.zeros((0, dim)), np.zeros(0), np.zeros(0))

    def select(self, arms: np.ndarray, u: float, noise_var: np.ndarray) -> int:
        action, self.layer, *_ = select_arm(self.layers, arms, u, self.alpha, "widest", self.ties, 1e-9)
        return action

    def update(self, x: np.ndarray, reward: float, noise_var: float) -> None:
        weight = 0.0
        if self.layer:
            weight = 2.0**-self.layer / self.layers[self.layer - 1].widths(x[None])[0]
        new = (x[None], [weight], [reward])
        self.past = Past(*(np.concatenate([old, one]) for old, one in zip(self.past, new, strict=True)))
        if self.layer:
            row = len(self.past.reward) - 1
            self.layers[self.layer - 1].learn(
                row, self.past, self.noise_bound, self.delta, len(self.layers), self.constants
            )

    def estimates(self) -> dict[str, np.ndarray]:
        """theta and the radius of every layer, under the names that the algorithm's state has for them."""
        return {
            "layers.theta_hat": np.array([layer.theta for layer in self.layers]),
            "beta_hat": np.array([layer.beta for layer in self.layers]),
        }


def turned(theta: np.ndarray, angle: float) -> np.ndarray:
    """theta after a turn by an angle in the plane of the first two coordinates."""
    result = theta.copy()
    result[0] = math.cos(angle) * theta[0] - math.sin(angle) * theta[1]
    result[1] = math.sin(angle) * theta[0] + math.cos(angle) * theta[1]
    return result


class Adversary:
    """Turns means around while the budget lasts, each round counted as if it took all that a round may."""

    def __init__(self, budget: float, per_round: float) -> None:
        self.left, self.per_round = budget, per_round

    def corruption(self, mean: float) -> float:
        most = min(self.per_round, self.left)
        self.left -= most
        return math.copysign(min(2 * abs(mean), most), mean)
