"""Rival in NumPy: UCRL-AVE on one given linear mixture MDP, one seed at a time, all (s, a) pairs at once.

A layer is kept in scaled form: `sigma_inv` is q times the inverse of Sigma, q = 4^-l, and starts at I / lam. With
s = x' sigma_inv x the squared width is s / q. Only layers that have data are kept; all others share one bound.
"""

import math

import numpy as np

from jaxvar.bench.setting import TOLERANCE, Array

SCALE = 0.1  # multiplier of the practical radius


class Layer:
    """Weighted ridge regression with the constant gain q / (1 + q)."""

    def __init__(self, number: int, dim: int, lam: float) -> None:
        self.q, self.lam = 0.25**number, lam
        self.sigma_inv, self.theta, self.loss = np.eye(dim) / lam, np.zeros(dim), 0.0

    def slope(self, log: float) -> float:
        """The radius over 2^-l: what multiplies sqrt(s)."""
        emp = max(self.loss - self.q * self.lam * self.theta.dot(self.theta), 0.0)
        return SCALE * (3.15 * math.sqrt((2.0 * emp + log / 8.0) * log) + 1.73 * log) + 1.0

    def bound(self, x: Array, log: float) -> Array:
        """Upper confidence bounds of the rows of x."""
        forms = np.einsum("nd,nd->n", x.dot(self.sigma_inv), x)
        return np.asarray(x.dot(self.theta) + self.slope(log) * np.sqrt(forms))

    def learn(self, x: Array, y: float) -> None:
        """One observation with the layer's weight."""
        u = self.sigma_inv.dot(x)
        gain = self.q / ((1.0 + self.q) * x.dot(u))
        error = y - x.dot(self.theta)
        self.sigma_inv -= gain * np.outer(u, u)
        self.theta += gain * error * u
        self.loss += self.q * gain * error * error


def ucrl_ave(
    phi: Array,
    reward: Array,
    theta_star: Array,
    *,
    horizon: int,
    num_episodes: int,
    num_seeds: int,
    norm_bound: float,
    delta: float,
    seed: int,
) -> Array:
    """Cumulative regret of every seed after all episodes, [num_seeds]."""
    transition = phi @ theta_star
    best = np.zeros(len(reward))
    for _ in range(horizon):
        best = (reward + transition @ best).max(axis=1)
    num_layers = max(1, math.ceil(1.5 * math.log2(num_episodes * horizon)))
    logs = np.log(4.0 * np.arange(1, num_episodes + 1) ** 2 * horizon**2 * num_layers / delta)
    rngs = np.random.default_rng(seed).spawn(num_seeds)
    worths = (_play(phi, reward, transition, horizon, logs, num_layers, norm_bound, rng) for rng in rngs)
    return np.array([num_episodes * best[0] - worth for worth in worths])


def _play(
    phi: Array,
    reward: Array,
    transition: Array,
    horizon: int,
    logs: Array,
    num_layers: int,
    norm_bound: float,
    rng: np.random.Generator,
) -> float:
    """The sum of the values of all policies that one seed plays."""
    num_states, num_actions, _, dim = phi.shape
    by_next = np.ascontiguousarray(np.moveaxis(phi, 2, 3).reshape(-1, num_states))  # [S A d, S]
    cdf, states = np.cumsum(transition, axis=2), np.arange(num_states)
    layers: dict[int, Layer] = {}
    total = 0.0
    for log in logs:
        empty = norm_bound * (SCALE * (3.15 * math.sqrt(log / 8.0 * log) + 1.73 * log) + 1.0)
        value, worth = np.zeros((horizon + 1, num_states)), np.zeros(num_states)
        policy = np.zeros((horizon, num_states), int)
        features = np.zeros((horizon, num_states * num_actions, dim))
        for h in range(horizon - 1, -1, -1):
            x = features[h] = by_next.dot(value[h + 1]).reshape(-1, dim)
            upper = empty * np.sqrt(np.einsum("nd,nd->n", x, x))
            for layer in layers.values():
                np.minimum(upper, layer.bound(x, log), out=upper)
            q = np.clip(reward + upper.reshape(num_states, num_actions), 0.0, 1.0)
            value[h] = q.max(axis=1)
            bar = value[h] - TOLERANCE * np.maximum(1.0, np.abs(value[h]))
            policy[h] = np.argmax(q >= bar[:, None], axis=1)
            worth = reward[states, policy[h]] + np.einsum("st,t->s", transition[states, policy[h]], worth)
        total += worth[0]
        state = 0
        for h, u in enumerate(rng.random(horizon)):
            action = policy[h, state]
            x = features[h, state * num_actions + action]
            following = min(int(np.searchsorted(cdf[state, action], u, side="right")), num_states - 1)
            _learn(layers, x, value[h + 1, following], num_layers, norm_bound)
            state = following
    return total


def _learn(layers: dict[int, Layer], x: Array, y: float, num_layers: int, norm_bound: float) -> None:
    """Learn in the lowest layer where x is wide enough, if there is one."""
    square = float(x.dot(x)) * norm_bound**2
    if square == 0.0:
        return
    for number in range(1, num_layers + 1):
        q, layer = 0.25**number, layers.get(number)
        s = square if layer is None else float(x.dot(layer.sigma_inv).dot(x))
        if s >= q * q:
            if layer is None:
                layer = layers[number] = Layer(number, len(x), 1.0 / norm_bound**2)
            layer.learn(x, y)
            return
