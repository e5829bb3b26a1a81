"""Rival in NumPy: all seeds at once along the leading axis, incremental algebra, masks over stored layers.

A layer is kept in scaled form: `sigma_inv` is q times the inverse of Sigma, q = 4^-l, and starts at the identity. With
s = x' sigma_inv x the squared width is s / q. OFUL is one such layer with q = 1. Layers are 0-based: l = layer + 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

CAPACITY = 8  # stored layers; a seed that needs more is an error
TOLERANCE = 1e-9  # relative distance from the best value that still counts as a tie
BLOCK = 1024  # seeds that run together

Array = NDArray[np.float64]
Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Setting:
    """What is the same for all seeds."""

    dim: int
    num_arms: int
    num_rounds: int
    fresh: bool
    noise_std: float
    noise_bound: float
    delta: float

    @cached_property
    def alpha(self) -> float:
        """Width below which SAVE stops to learn."""
        return 1.0 / (self.noise_bound * self.num_rounds * math.sqrt(self.num_rounds))

    @cached_property
    def num_layers(self) -> int:
        """L of the theory."""
        return max(1, math.ceil(math.log2(1.0 / self.alpha)))


class Arms:
    """Arms of all seeds, unit vectors `scale` * `x`, and their mean rewards."""

    def __init__(self, setting: Setting, num_seeds: int, rng: np.random.Generator) -> None:
        self.noise_std, self.rng, self.rows = setting.noise_std, rng, np.arange(num_seeds)
        self.theta_star = rng.standard_normal((num_seeds, setting.dim))
        self.theta_star /= np.linalg.norm(self.theta_star, axis=1, keepdims=True)
        self.x = np.empty((num_seeds, setting.num_arms, setting.dim))
        self.draw()
        if not setting.fresh:
            self.x *= self.scale[:, :, None]
            self.scale[:] = 1.0

    def draw(self) -> None:
        """New arms."""
        self.rng.standard_normal(out=self.x)
        self.scale = 1.0 / np.sqrt(np.einsum("sai,sai->sa", self.x, self.x))
        self.mean = self.dots(self.theta_star)
        self.best = self.mean[self.rows, self.mean.argmax(axis=1)]

    def dots(self, vector: Array, rows: Ints | slice = slice(None)) -> Array:
        """<arm, vector> for all arms of the seeds `rows`, to which the vectors belong."""
        dots: Array = np.matmul(self.x[rows], vector[:, :, None])[:, :, 0]
        dots *= self.scale[rows]
        return dots

    def forms(self, matrix: Array, rows: Ints | slice = slice(None)) -> Array:
        """Quadratic forms of the matrices at all arms of the seeds `rows`, to which they belong."""
        x, scale = self.x[rows], self.scale[rows]
        forms: Array = np.einsum("sai,sai->sa", np.matmul(x, matrix), x)
        forms *= scale
        forms *= scale
        return forms

    def pull(self, arm: Ints) -> tuple[Array, Array, Array]:
        """The arms pulled, their rewards and the regret."""
        mean = self.mean[self.rows, arm]
        noise = np.where(self.rng.random(len(arm)) < 0.5, self.noise_std, -self.noise_std)
        return self.x[self.rows, arm] * self.scale[self.rows, arm, None], mean + noise, self.best - mean


def _first_best(values: Array) -> Ints:
    """Lowest index among the values of a row that tie with its largest."""
    top = values[np.arange(len(values)), values.argmax(axis=1)]
    level = top - TOLERANCE * np.maximum(1.0, np.abs(top))
    arm: Ints = (values >= level[:, None]).argmax(axis=1)
    return arm


def _learn(sigma_inv: Array, theta: Array, x: Array, gain: Array, reward: Array) -> tuple[Array, Array]:
    """sigma_inv -= gain u u' and theta += gain error u, in place; u [seeds, dim] and the errors [seeds]."""
    u = np.matmul(sigma_inv, x[:, :, None])[:, :, 0]
    error = reward - np.einsum("si,si->s", theta, x)
    step = u * gain[:, None]
    sigma_inv -= np.einsum("si,sj->sij", step, u)
    step *= error[:, None]
    theta += step
    return u, error


def _move(s: Array, pred: Array, g: Array, gain: Array, error: Array) -> None:
    """What `_learn` does to arms that stay, with g = <arm, u>, in place."""
    step = g * gain[:, None]
    g *= step
    s -= g
    step *= error[:, None]
    pred += step


def _oful(setting: Setting, num_seeds: int, rng: np.random.Generator) -> Array:
    """Regret of OFUL with lambda = 1."""
    arms = Arms(setting, num_seeds, rng)
    sigma_inv, theta = np.tile(np.eye(setting.dim), (num_seeds, 1, 1)), np.zeros((num_seeds, setting.dim))
    s, pred = np.ones_like(arms.mean), np.zeros_like(arms.mean)
    log_det, regret = np.zeros(num_seeds), np.zeros(num_seeds)
    for _ in range(setting.num_rounds):
        if setting.fresh:
            arms.draw()
            s, pred = arms.forms(sigma_inv), arms.dots(theta)
        beta = setting.noise_bound * np.sqrt(2.0 * math.log(1.0 / setting.delta) + log_det) + 1.0
        arm = _first_best(pred + beta[:, None] * np.sqrt(s))
        x, reward, gap = arms.pull(arm)
        regret += gap
        growth = 1.0 + s[arms.rows, arm]
        log_det += np.log(growth)
        u, error = _learn(sigma_inv, theta, x, 1.0 / growth, reward)
        if not setting.fresh:
            _move(s, pred, arms.dots(u), 1.0 / growth, error)
    return regret


def _radius(setting: Setting, q: Array, loss: Array, theta: Array, log_term: Array) -> Array:
    """Practical radius of layers, one per seed, with the logarithm log(4 k^2 L / delta) of their last update."""
    bound = setting.noise_bound
    variance = np.maximum(0.0, loss - q * np.einsum("si,si->s", theta, theta))
    root = np.sqrt((2.0 * variance + bound**2 * log_term / 8.0) * log_term)
    radius: Array = np.sqrt(q) * (1.0 + 0.1 * (3.15 * root + 1.73 * bound * log_term))
    return radius


def _widest(s: Array, q: Array, active: Mask) -> tuple[Array, Ints]:
    """Largest s of the active arms, and the lowest index among widths sqrt(s / q) > 2^-l that tie with the largest."""
    values = np.where(active, s, 0.0)
    top = values[np.arange(len(values)), values.argmax(axis=1)]
    width = np.sqrt(top / q)
    level = np.maximum(q * (width - TOLERANCE * np.maximum(1.0, width)) ** 2, np.nextafter(q * q, 1.0))
    return top, (values >= level[:, None]).argmax(axis=1)


def _too_deep(layer: int) -> None:
    """Fail if the layer is not stored."""
    if layer >= CAPACITY:
        raise RuntimeError(f"a seed needs more than {CAPACITY} layers")


class Layers:
    """State of the stored layers of all seeds."""

    def __init__(self, setting: Setting, num_seeds: int) -> None:
        self.setting, self.q = setting, 0.25 ** np.arange(1.0, CAPACITY + 1.0)
        self.sigma_inv = np.tile(np.eye(setting.dim), (CAPACITY, num_seeds, 1, 1))
        self.theta = np.zeros((CAPACITY, num_seeds, setting.dim))
        self.loss, self.log_term = np.zeros((CAPACITY, num_seeds)), np.zeros((CAPACITY, num_seeds))

    def learn(self, at: tuple[Ints, Ints], x: Array, s: Array, reward: Array, k: int) -> tuple[Array, Array, Array]:
        """Learn in round k in the places (layer, seed); u, gain and error of the rank-one updates."""
        sigma_inv, theta, q = self.sigma_inv[at], self.theta[at], self.q[at[0]]
        gain = q / (1.0 + q) / s
        u, error = _learn(sigma_inv, theta, x, gain, reward)
        self.sigma_inv[at], self.theta[at] = sigma_inv, theta
        self.loss[at] += q * gain * error**2
        self.log_term[at] = math.log(4.0 * k**2 * self.setting.num_layers / self.setting.delta)
        return u, gain, error

    def radius(self, at: tuple[Ints | int, Ints]) -> Array:
        """Practical radius in the places (layer, seed)."""
        return _radius(self.setting, self.q[at[0]], self.loss[at], self.theta[at], self.log_term[at])


def _optimistic(active: Mask, s: Array, pred: Array, radius: Array) -> Ints:
    """Active arm of the largest upper confidence bound; `radius` multiplies sqrt(s)."""
    return _first_best(np.where(active, pred + radius[:, None] * np.sqrt(s), -np.inf))


def _survivors(active: Mask, pred: Array, margin: Array) -> Mask:
    """Active arms predicted within `margin` of the best of them."""
    best = np.where(active, pred, -np.inf).max(axis=1)
    kept: Mask = active & (pred >= (best - margin)[:, None])
    return kept


def _save_fresh(setting: Setting, num_seeds: int, rng: np.random.Generator) -> Array:
    """Regret of SAVE with new arms each round: layer after layer, with the seeds that have not chosen yet."""
    arms, layers = Arms(setting, num_seeds, rng), Layers(setting, num_seeds)
    arm, layer = np.zeros(num_seeds, int), np.zeros(num_seeds, int)
    form, regret = np.zeros(num_seeds), np.zeros(num_seeds)
    for k in range(1, setting.num_rounds + 1):
        arms.draw()
        active, certain, rows = np.ones(arms.mean.shape, bool), np.zeros(num_seeds, bool), arms.rows
        for level in range(CAPACITY + 1):
            _too_deep(level)
            q, part = layers.q[level], rows if level else slice(None)
            s = arms.forms(layers.sigma_inv[level, part], part)
            top, arm[rows] = _widest(s, q, active[part])
            layer[rows], form[rows] = level, s[np.arange(len(rows)), arm[rows]]
            done = top <= q * setting.alpha**2
            if done.any():
                at = rows[done]
                radius, pred = layers.radius((level, at)) / math.sqrt(q), arms.dots(layers.theta[level, at], at)
                arm[at], certain[at] = _optimistic(active[at], s[done], pred, radius), True
            rows = rows[~done & (top <= q * q)]
            if not rows.size:
                break
            margin = 2.0 * math.sqrt(q) * layers.radius((level, rows))
            active[rows] = _survivors(active[rows], arms.dots(layers.theta[level, rows], rows), margin)
        x, reward, gap = arms.pull(arm)
        regret += gap
        at = np.flatnonzero(~certain)
        layers.learn((layer[at], at), x[at], form[at], reward[at], k)
    return regret


def _save_fixed(setting: Setting, num_seeds: int, rng: np.random.Generator) -> Array:
    """Regret of SAVE with arms that stay.

    A layer once passed is never visited again: nothing changes it nor the arms it lets pass. So each seed keeps one
    layer, its current one, and starts afresh in the next.
    """
    arms, layer = Arms(setting, num_seeds, rng), np.zeros(num_seeds, int)
    sigma_inv, theta = np.tile(np.eye(setting.dim), (num_seeds, 1, 1)), np.zeros((num_seeds, setting.dim))
    s, pred, active = np.ones_like(arms.mean), np.zeros_like(arms.mean), np.ones(arms.mean.shape, bool)
    q, loss, log_term, regret = np.full(num_seeds, 0.25), np.zeros(num_seeds), np.zeros(num_seeds), np.zeros(num_seeds)
    for k in range(1, setting.num_rounds + 1):
        top, arm = _widest(s, q, active)
        certain = top <= q * setting.alpha**2
        stop = np.flatnonzero(certain | (top <= q * q))
        if stop.size:
            beta = _radius(setting, q[stop], loss[stop], theta[stop], log_term[stop])
            arm[stop] = _optimistic(active[stop], s[stop], pred[stop], beta / np.sqrt(q[stop]))
            beta, at = beta[~certain[stop]], stop[~certain[stop]]
            active[at] = _survivors(active[at], pred[at], 2.0 * np.sqrt(q[at]) * beta)
            sigma_inv[at], theta[at], s[at], pred[at], loss[at] = np.eye(setting.dim), 0.0, 1.0, 0.0, 0.0
            q[at] *= 0.25
            layer[at] += 1
            _too_deep(layer.max())
            arm[at] = active[at].argmax(axis=1)
        x, reward, gap = arms.pull(arm)
        regret += gap
        gain = np.where(certain, 0.0, q / (1.0 + q) / s[arms.rows, arm])
        u, error = _learn(sigma_inv, theta, x, gain, reward)
        _move(s, pred, arms.dots(u), gain, error)
        loss += q * gain * error**2
        log_term[~certain] = math.log(4.0 * k**2 * setting.num_layers / setting.delta)
    return regret


def _save(setting: Setting, num_seeds: int, rng: np.random.Generator) -> Array:
    """Regret of SAVE."""
    return (_save_fresh if setting.fresh else _save_fixed)(setting, num_seeds, rng)


def _ave_ucb(setting: Setting, num_seeds: int, rng: np.random.Generator) -> Array:
    """Regret of AVE-UCB. Layers from `used` on have seen nothing in any seed: their bound is 2."""
    arms, layers = Arms(setting, num_seeds, rng), Layers(setting, num_seeds)
    shape = (CAPACITY, *arms.mean.shape)
    s, pred, index = np.ones(shape), np.zeros(shape), np.full(shape, 2.0)
    q, radius = layers.q, np.full((CAPACITY, num_seeds), 2.0)  # the radius multiplies sqrt(s)
    used, regret = 0, np.zeros(num_seeds)
    for k in range(1, setting.num_rounds + 1):
        if setting.fresh:
            arms.draw()
            for level in range(used):
                s[level], pred[level] = arms.forms(layers.sigma_inv[level]), arms.dots(layers.theta[level])
                index[level] = pred[level] + radius[level, :, None] * np.sqrt(s[level])
        arm = _first_best(index[:used].min(axis=0, initial=2.0 if used < setting.num_layers else np.inf))
        x, reward, gap = arms.pull(arm)
        regret += gap
        wide = s[:used, arms.rows, arm] >= (q[:used] ** 2)[:, None]
        layer = np.where(wide.any(axis=0), wide.argmax(axis=0), used) if used else np.zeros(num_seeds, int)
        rows = np.flatnonzero(layer < setting.num_layers)
        if not rows.size:
            continue
        used = max(used, int(layer[rows].max()) + 1)
        _too_deep(used - 1)
        at = layer[rows], rows
        u, gain, error = layers.learn(at, x[rows], s[layer[rows], rows, arm[rows]], reward[rows], k)
        radius[at] = layers.radius(at) / np.sqrt(q[at[0]])
        if not setting.fresh:
            moved_s, moved_pred = s[at], pred[at]
            _move(moved_s, moved_pred, arms.dots(u, rows), gain, error)
            s[at], pred[at] = moved_s, moved_pred
            index[at] = moved_pred + radius[at][:, None] * np.sqrt(moved_s)
    return regret


def _rival(run_block: Callable[[Setting, int, np.random.Generator], Array]) -> Callable[..., Array]:
    """The public function that runs all seeds, a block at a time."""

    def run(
        *,
        dim: int,
        num_arms: int,
        num_rounds: int,
        num_seeds: int,
        fresh: bool,
        seed: int,
        noise_std: float = 0.5,
        noise_bound: float = 1.0,
        delta: float = 0.01,
    ) -> Array:
        """Final cumulative pseudo-regret of every seed, [num_seeds]."""
        setting = Setting(dim, num_arms, num_rounds, fresh, noise_std, noise_bound, delta)
        rng = np.random.Generator(np.random.SFC64(seed))
        blocks = range(0, num_seeds, BLOCK)
        return np.concatenate([run_block(setting, min(BLOCK, num_seeds - first), rng) for first in blocks])

    return run


oful = _rival(_oful)
save = _rival(_save)
ave_ucb = _rival(_ave_ucb)
