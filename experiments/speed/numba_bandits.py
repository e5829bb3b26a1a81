"""Rival in Numba: seeds in parallel on all cores, scalar code per seed, incremental algebra, ziggurat normals.

A layer is kept in scaled form: `sigma_inv` is q times the inverse of Sigma, q = 4^-l, and starts at the identity; only
its lower triangle is kept up to date. With s = x' sigma_inv x the squared width is s / q. OFUL is one such layer with
q = 1. Layers are 0-based: l = layer + 1.

Above the dimension UNROLLED, BLAS multiplies the inverse with fresh arms.
"""

import functools
import importlib
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from threadpoolctl import ThreadpoolController

from experiments.speed.numba_arms import UNROLLED, Arms, along, dot, draw
from experiments.speed.numba_random import Array, Axes, Bits, fast, noise, normals
from experiments.speed.numpy_vector import CAPACITY, TOLERANCE


class Setting(NamedTuple):
    """What is the same for all seeds."""

    fresh: bool  # new arms each round
    num_arms: int
    num_rounds: int
    noise_std: float
    noise_bound: float
    delta: float
    alpha: float  # the width below which SAVE stops to learn
    num_layers: int  # L of the theory
    logs: Array  # [rounds], log(4 k^2 L / delta)


class Learner(NamedTuple):
    """What the layers know, and room to work in."""

    sigma_inv: Array  # [layers, dim, dim], lower triangles; whole matrices where BLAS multiplies with them
    theta: Array  # [layers, dim]
    s: Array  # [layers, arms], x_a' sigma_inv x_a
    pred: Array  # [layers, arms], <x_a, theta>
    x: Array  # [dim], the arm played
    u: Array  # [dim], sigma_inv x
    g: Array  # [arms], <x_a, u>
    product: Array  # [dim arms], sigma_inv times all arms


@fast
def _start(num_arms: int, num_layers: int, axes: Axes, rng: Bits) -> tuple[Arms, Learner]:
    """theta* and first arms of a seed, and layers that have seen nothing."""
    dim = len(axes)
    theta_star, sigma_inv = np.empty(dim), np.zeros((num_layers, dim, dim))
    normals(theta_star, rng)
    theta_star /= math.sqrt(dot(theta_star, theta_star, axes))
    arms = Arms(theta_star, np.empty((dim, num_arms)), np.empty(num_arms), np.empty(num_arms))
    draw(arms, axes, rng)
    for i in range(dim):
        arms.x[i] *= arms.scale
        sigma_inv[:, i, i] = 1.0
    arms.scale[:] = 1.0
    theta, s, pred = np.zeros((num_layers, dim)), np.ones((num_layers, num_arms)), np.zeros((num_layers, num_arms))
    room = np.empty(dim), np.empty(dim), np.empty(num_arms), np.empty(dim * num_arms if dim > UNROLLED else 0)
    return arms, Learner(sigma_inv, theta, s, pred, *room)


@fast
def _measure(learner: Learner, layer: int, arms: Arms, n: int, axes: Axes) -> None:
    """s[layer] for the first n arms."""
    dim, sigma_inv, s, x, scale = len(axes), learner.sigma_inv, learner.s, arms.x, arms.scale
    if dim <= UNROLLED:
        for a in range(n):
            total = 0.0
            for i in range(dim):
                half = 0.5 * sigma_inv[layer, i, i] * x[i, a]
                for j in range(i):
                    half += sigma_inv[layer, i, j] * x[j, a]
                total += half * x[i, a]
            s[layer, a] = 2.0 * total * scale[a] * scale[a]
        return
    here = s[layer]
    columns = x if n == x.shape[1] else np.ascontiguousarray(x[:, :n])
    product = learner.product[: dim * n].reshape(dim, n)
    np.dot(sigma_inv[layer], columns, product)
    here[:n] = 0.0
    for i in range(dim):
        for a in range(n):
            here[a] += columns[i, a] * product[i, a]
    for a in range(n):
        here[a] *= scale[a] * scale[a]


@fast
def _predict(learner: Learner, layer: int, arms: Arms, n: int, axes: Axes) -> None:
    """pred[layer] for the first n arms."""
    pred, scale = learner.pred[layer], arms.scale
    along(arms.x, learner.theta[layer], n, pred, axes)
    for a in range(n):
        pred[a] *= scale[a]


@fast
def _apply(triangle: Array, x: Array, out: Array) -> None:
    """Write the product of a symmetric matrix, given by its lower triangle, and x; each entry is read once."""
    for i in range(len(x)):
        total = triangle[i, i] * x[i]
        for j in range(i):
            total += triangle[i, j] * x[j]
            out[j] += triangle[i, j] * x[i]
        out[i] = total


@fast
def _learn(
    learner: Learner, layer: int, arms: Arms, arm: int, n: int, fresh: bool, gain: float, reward: float, axes: Axes
) -> float:
    """Learn the reward of an arm, with error e, which is returned.

    sigma_inv -= gain u u' and theta += gain e u; where arms stay, s -= gain g^2 and pred += gain e g, g = <x, u>.
    """
    sigma_inv, theta, s, pred, chosen, u, g, _ = learner
    x, scale = arms.x, arms.scale
    error = reward
    for i in range(len(axes)):
        chosen[i] = scale[arm] * x[i, arm]
        error -= theta[layer, i] * chosen[i]
    if len(axes) <= UNROLLED:
        for i in range(len(axes)):
            total = 0.0
            for j in range(i + 1):
                total += sigma_inv[layer, i, j] * chosen[j]
            for j in range(i + 1, len(axes)):
                total += sigma_inv[layer, j, i] * chosen[j]
            u[i] = total
    else:
        _apply(sigma_inv[layer], chosen, u)
    whole = fresh and len(axes) > UNROLLED
    for i in range(len(axes)):
        step = gain * u[i]
        for j in range(len(axes) if whole else i + 1):
            sigma_inv[layer, i, j] -= step * u[j]
        theta[layer, i] += step * error
    if not fresh:
        along(x, u, n, g, axes)
        for a in range(n):
            s[layer, a] -= gain * g[a] * g[a]
            pred[layer, a] += gain * error * g[a]
    return error


@fast
def _first_at_least(values: Array, n: int, level: float) -> int:
    for a in range(n):
        if values[a] >= level:
            return a
    return 0


@fast
def _largest(values: Array, n: int) -> float:
    top: float = values[0]
    for a in range(1, n):
        top = max(top, values[a])
    return top


@fast
def _best(values: Array, n: int) -> int:
    """Lowest index among the values that tie with the largest."""
    top = _largest(values, n)
    return _first_at_least(values, n, top - TOLERANCE * max(1.0, abs(top)))


@fast
def _widest(s: Array, n: int, top: float, q: float) -> int:
    """Lowest index among the widths sqrt(s / q) above 2^-l that tie with the largest, sqrt(top / q)."""
    width = math.sqrt(top / q)
    level = width - TOLERANCE * max(1.0, width)
    return _first_at_least(s, n, min(top, max(q * level * level, q * q * (1.0 + 1e-15))))


@fast
def _radius(theta: Array, q: float, loss: float, log_term: float, noise_bound: float, axes: Axes) -> float:
    """Practical radius of a layer, with the minimum of its loss and the logarithm of its last update."""
    variance = max(0.0, loss - q * dot(theta, theta, axes))
    root = math.sqrt((2.0 * variance + noise_bound * noise_bound * log_term / 8.0) * log_term)
    return math.sqrt(q) * (1.0 + 0.1 * (3.15 * root + 1.73 * noise_bound * log_term))


@fast
def _index(learner: Learner, layer: int, n: int, radius: float, out: Array) -> None:
    """Upper confidence bounds of the first n arms; `radius` multiplies sqrt(s)."""
    s, pred = learner.s, learner.pred
    for a in range(n):
        out[a] = pred[layer, a] + radius * math.sqrt(s[layer, a])


@fast
def _eliminate(learner: Learner, layer: int, arms: Arms, n: int, margin: float, axes: Axes) -> int:
    """Move the arms predicted within `margin` of the best to the front, in order; how many they are."""
    x, scale, mean, pred = arms.x, arms.scale, arms.mean, learner.pred[layer]
    level, kept = _largest(pred, n) - margin, 0
    for a in range(n):
        if pred[a] >= level:
            if kept < a:
                for i in range(len(axes)):
                    x[i, kept] = x[i, a]
                scale[kept], mean[kept] = scale[a], mean[a]
            kept += 1
    return kept


@fast
def _oful(setting: Setting, axes: Axes, rng: Bits) -> float:
    """Regret of OFUL with lambda = 1 in one seed."""
    fresh, num_arms, num_rounds, noise_std, noise_bound, delta, _, _, _ = setting
    arms, learner = _start(num_arms, 1, axes, rng)
    value = np.empty(num_arms)
    confidence, log_det, regret = 2.0 * math.log(1.0 / delta), 0.0, 0.0
    best_mean = _largest(arms.mean, num_arms)
    for _ in range(num_rounds):
        if fresh:
            draw(arms, axes, rng)
            best_mean = _largest(arms.mean, num_arms)
            _measure(learner, 0, arms, num_arms, axes)
            _predict(learner, 0, arms, num_arms, axes)
        _index(learner, 0, num_arms, noise_bound * math.sqrt(confidence + log_det) + 1.0, value)
        arm = _best(value, num_arms)
        regret += best_mean - arms.mean[arm]
        growth = 1.0 + learner.s[0, arm]
        log_det += math.log(growth)
        reward = arms.mean[arm] + noise(noise_std, rng)
        _learn(learner, 0, arms, arm, num_arms, fresh, 1.0 / growth, reward, axes)
    return regret


@fast
def _save(setting: Setting, axes: Axes, rng: Bits) -> float:
    """Regret of SAVE in one seed; -1 if it needs more layers.

    Where arms stay, a layer once passed is never visited again: nothing changes it nor the arms it lets pass. A round
    then begins where the last one ended.
    """
    fresh, num_arms, num_rounds, noise_std, noise_bound, _, alpha, _, logs = setting
    arms, learner = _start(num_arms, CAPACITY, axes, rng)
    loss, last_log, value = np.zeros(CAPACITY), np.zeros(CAPACITY), np.empty(num_arms)
    layer, n, q, arm, regret = 0, num_arms, 0.25, 0, 0.0
    best_mean = _largest(arms.mean, n)
    for k in range(num_rounds):
        if fresh:
            draw(arms, axes, rng)
            layer, n, q = 0, num_arms, 0.25
            best_mean = _largest(arms.mean, n)
        while True:
            if fresh:
                _measure(learner, layer, arms, n, axes)
            top = _largest(learner.s[layer], n)
            certain = top <= q * alpha * alpha
            if top > q * q and not certain:
                arm = _widest(learner.s[layer], n, top, q)
                break
            if fresh:
                _predict(learner, layer, arms, n, axes)
            beta = _radius(learner.theta[layer], q, loss[layer], last_log[layer], noise_bound, axes)
            if certain:
                _index(learner, layer, n, beta / math.sqrt(q), value)
                arm = _best(value, n)
                break
            n = _eliminate(learner, layer, arms, n, 2.0 * math.sqrt(q) * beta, axes)
            layer, q = layer + 1, 0.25 * q
            if layer == CAPACITY:
                return -1.0
        regret += best_mean - arms.mean[arm]
        if not certain:
            reward = arms.mean[arm] + noise(noise_std, rng)
            gain = q / (1.0 + q) / learner.s[layer, arm]
            error = _learn(learner, layer, arms, arm, n, fresh, gain, reward, axes)
            loss[layer] += q * gain * error * error
            last_log[layer] = logs[k]
    return regret


@fast
def _ave_ucb(setting: Setting, axes: Axes, rng: Bits) -> float:
    """Regret of AVE-UCB in one seed; -1 if it needs more layers. Where nothing was seen, every arm is bounded by 2."""
    fresh, num_arms, num_rounds, noise_std, noise_bound, _, _, num_layers, logs = setting
    arms, learner = _start(num_arms, CAPACITY, axes, rng)
    loss, radius = np.zeros(CAPACITY), np.zeros(CAPACITY)
    index, value = np.empty((CAPACITY, num_arms)), np.empty(num_arms)
    used, changed, regret = 0, 0, 0.0
    best_mean = _largest(arms.mean, num_arms)
    for k in range(num_rounds):
        if fresh:
            draw(arms, axes, rng)
            best_mean = _largest(arms.mean, num_arms)
        value[:] = 2.0 if used < num_layers else 1e300
        for layer in range(used):
            if fresh:
                _measure(learner, layer, arms, num_arms, axes)
                _predict(learner, layer, arms, num_arms, axes)
            if fresh or layer == changed:
                _index(learner, layer, num_arms, radius[layer], index[layer])
            for a in range(num_arms):
                value[a] = min(value[a], index[layer, a])
        arm = _best(value, num_arms)
        regret += best_mean - arms.mean[arm]
        layer, q = 0, 0.25
        while layer < used and learner.s[layer, arm] < q * q:
            layer, q = layer + 1, 0.25 * q
        if layer == num_layers:
            continue
        if layer == CAPACITY:
            return -1.0
        used, changed = max(used, layer + 1), layer
        reward = arms.mean[arm] + noise(noise_std, rng)
        gain = q / (1.0 + q) / learner.s[layer, arm]
        error = _learn(learner, layer, arms, arm, num_arms, fresh, gain, reward, axes)
        loss[layer] += q * gain * error * error
        beta = _radius(learner.theta[layer], q, loss[layer], logs[k], noise_bound, axes)
        radius[layer] = beta / math.sqrt(q)
    return regret


@functools.cache
def _libraries() -> ThreadpoolController:
    """Return the libraries loaded, with the BLAS that Numba calls among them; to find them takes milliseconds."""
    importlib.import_module("scipy.linalg.cython_blas")
    return ThreadpoolController()


def _rival(one_seed: Callable[..., float]) -> Callable[..., Array]:
    """The public function that runs `one_seed` for all seeds."""

    @njit(parallel=True)
    def run_seeds(setting: Setting, axes: Axes, states: Bits) -> Array:
        regret = np.empty(len(states))
        for i in prange(len(states)):
            regret[i] = one_seed(setting, axes, states[i])
        return regret

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
        alpha = 1.0 / (noise_bound * num_rounds * math.sqrt(num_rounds))
        num_layers = max(1, math.ceil(math.log2(1.0 / alpha)))
        logs = np.log(4.0 * np.arange(1, num_rounds + 1) ** 2 * num_layers / delta)
        numbers = (float(noise_std), float(noise_bound), float(delta), alpha)
        bits = np.random.SeedSequence(seed).generate_state(2 * num_seeds, np.uint64)
        setting = Setting(fresh, num_arms, num_rounds, *numbers, num_layers, logs)
        axes = (0,) * dim if dim <= UNROLLED else np.zeros(dim)
        with _libraries().limit(limits=1, user_api="blas"):  # seeds use all cores already
            regret: Array = run_seeds(setting, axes, bits.astype(np.uint64).reshape(num_seeds, 2))
        if (regret < 0).any():
            raise RuntimeError(f"{np.sum(regret < 0)} seeds need more than {CAPACITY} layers")
        return regret

    return run


oful = _rival(_oful)
save = _rival(_save)
ave_ucb = _rival(_ave_ucb)
