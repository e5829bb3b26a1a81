"""Rival in Numba: UCRL-AVE on one given linear mixture MDP, seeds in parallel on all cores, each seed by itself.

A plan bounds all pairs of state and action at once: they lie along the last, contiguous axis, pair `state * actions +
action`, so that loops over them become vector instructions. Features of a plan are kept for the steps that are played.

A layer is kept in scaled form, as in :mod:`jaxvar.bench.numba_episodes`: P is q times the inverse of Sigma, q = 4^-l,
and starts at I / lam. With s = x' P x the squared width is s / q. Its numbers lie side by side: theta, the coefficients
of the quadratic form (P_ii, and 2 P_ij below the diagonal), the radius over 2^-l and the loss. All layers without data
have the same bound. Layers are 0-based: l = layer + 1.
"""

import math

import numpy as np
from numba import njit, prange

from jaxvar.bench.numba_episodes import CHUNK, UNROLLED, Axes, Indices, _radius
from jaxvar.bench.numba_random import Array, Bits, _next, _uniform, fast
from jaxvar.bench.setting import TOLERANCE


@fast
def _features(by_next: Array, value: Array, h: int, x: Array, n: int, dim: Axes, chunk: Axes) -> None:
    """Features of the first n pairs in step h, under V of step h + 1, by chunks of successors."""
    for i in range(len(dim)):
        for p in range(n):
            total = 0.0
            for z in range(len(chunk)):
                total += by_next[0, z, i, p] * value[h + 1, z]
            x[h, i, p] = total
        for c in range(1, len(by_next)):
            for p in range(n):
                total = x[h, i, p]
                for z in range(len(chunk)):
                    total += by_next[c, z, i, p] * value[h + 1, c * len(chunk) + z]
                x[h, i, p] = total


@fast
def _bound_without_data(x: Array, h: int, radius: float, bound: Array, n: int, axes: Axes) -> None:
    """Bounds of the first n pairs by the layers without data."""
    for p in range(n):
        total = 0.0
        for i in range(len(axes)):
            total += x[h, i, p] * x[h, i, p]
        bound[p] = radius * math.sqrt(total)


@fast
def _bound(x: Array, h: int, layer: Array, form: Array, bound: Array, n: int, axes: Axes) -> None:
    """Lower the bounds of the first n pairs to those of a layer."""
    dim = len(axes)
    beta = layer[dim + dim * (dim + 1) // 2]
    if dim <= UNROLLED:
        for p in range(n):
            total, pred = 0.0, 0.0
            for i in range(dim):
                part = 0.0
                for j in range(i + 1):
                    part += layer[dim + i * (i + 1) // 2 + j] * x[h, j, p]
                total += part * x[h, i, p]
                pred += layer[i] * x[h, i, p]
            bound[p] = min(bound[p], pred + beta * math.sqrt(total))
        return
    form[:n] = 0.0
    for i in range(dim):
        for j in range(i + 1):
            entry = layer[dim + i * (i + 1) // 2 + j]
            for p in range(n):
                form[p] += entry * x[h, i, p] * x[h, j, p]
    for p in range(n):
        form[p] = beta * math.sqrt(form[p])
    for i in range(dim):
        for p in range(n):
            form[p] += layer[i] * x[h, i, p]
    for p in range(n):
        bound[p] = min(bound[p], form[p])


@fast
def _decide(reward: Array, bound: Array, value: Array, policy: Indices, h: int, num_states: int, actions: Axes) -> None:
    """V and policy of the first states in step h, from the bounds of their pairs."""
    num = len(actions)
    for p in range(num_states * num):
        bound[p] = min(max(reward[p] + bound[p], 0.0), 1.0)
    for state in range(num_states):
        top = bound[state * num]
        for a in range(1, num):
            top = max(top, bound[state * num + a])
        best = 0
        for a in range(num - 1, -1, -1):
            best = a if bound[state * num + a] >= top - TOLERANCE else best
        value[h, state] = top
        policy[h, state] = best


@fast
def _evaluate(
    transition: Array, reward: Array, policy: Indices, worth: Array, h: int, num_states: int, actions: int
) -> None:
    """Value of the policy in the first states in step h."""
    for state in range(num_states):
        pair = state * actions + policy[h, state]
        total = reward[pair]
        for z in range(transition.shape[1]):
            total += transition[pair, z] * worth[h + 1, z]
        worth[h, state] = total


@fast
def _form(x: Array, h: int, pair: int, layer: Array, axes: Axes) -> float:
    """Quadratic form x' P x of one pair."""
    dim, total = len(axes), 0.0
    for i in range(dim):
        part = 0.0
        for j in range(i + 1):
            part += layer[dim + i * (i + 1) // 2 + j] * x[h, j, pair]
        total += part * x[h, i, pair]
    return total


@fast
def _learn(x: Array, h: int, pair: int, y: float, layer: Array, q: float, form: float, u: Array, axes: Axes) -> None:
    """A layer learns y: P -= gain u u' and theta += gain e u, with u = P x and the error e."""
    dim = len(axes)
    error = y
    for i in range(dim):
        error -= layer[i] * x[h, i, pair]
        total = 2.0 * layer[dim + i * (i + 1) // 2 + i] * x[h, i, pair]
        for j in range(i):
            total += layer[dim + i * (i + 1) // 2 + j] * x[h, j, pair]
        for j in range(i + 1, dim):
            total += layer[dim + j * (j + 1) // 2 + i] * x[h, j, pair]
        u[i] = 0.5 * total
    gain = q / (1.0 + q) / form
    for i in range(dim):
        step = gain * u[i]
        for j in range(i):
            layer[dim + i * (i + 1) // 2 + j] -= 2.0 * step * u[j]
        layer[dim + i * (i + 1) // 2 + i] -= step * u[i]
        layer[i] += step * error
    layer[dim + dim * (dim + 1) // 2 + 1] += q * gain * error * error


@fast
def _run(
    by_next: Array,
    transition: Array,
    cdf: Array,
    reward: Array,
    best_value: float,
    horizon: int,
    lam: float,
    scales: Array,
    logs: Array,
    dim: Axes,
    actions: Axes,
    chunk: Axes,
    s0: np.uint64,
    s1: np.uint64,
) -> float:
    """Regret of one seed.

    In the last step V and policy are those of the rewards, in all episodes, and there is nothing to learn. In the first
    only state 0 matters.
    """
    num_dim, num_actions, num_states = len(dim), len(actions), transition.shape[1]
    radius = num_dim + num_dim * (num_dim + 1) // 2
    layers = np.zeros((len(scales), radius + 2))
    for i in range(num_dim):
        layers[:, num_dim + i * (i + 1) // 2 + i] = 1.0 / lam
    value = np.zeros((horizon + 1, len(by_next) * len(chunk)))
    worth, policy = np.zeros((horizon + 1, num_states)), np.zeros((horizon, num_states), np.int64)
    x = np.zeros((horizon, num_dim, by_next.shape[3]))
    bound, form, u = np.zeros(by_next.shape[3]), np.zeros(by_next.shape[3]), np.zeros(num_dim)
    _decide(reward, bound, value, policy, horizon - 1, num_states, actions)
    _evaluate(transition, reward, policy, worth, horizon - 1, num_states, num_actions)
    low, high, regret = len(scales), 0, 0.0
    for k in range(len(logs)):
        for layer in range(low, high):
            emp = layers[layer, radius + 1]
            for i in range(num_dim):
                emp -= scales[layer] * lam * layers[layer, i] * layers[layer, i]
            layers[layer, radius] = _radius(max(emp, 0.0), logs[k])
        empty = _radius(0.0, logs[k]) / math.sqrt(lam) if high - low < len(scales) else 1e300
        for h in range(horizon - 2, -1, -1):
            states, n = (num_states, by_next.shape[3]) if h > 0 else (1, num_actions)
            _features(by_next, value, h, x, n, dim, chunk)
            _bound_without_data(x, h, empty, bound, n, dim)
            for layer in range(low, high):
                _bound(x, h, layers[layer], form, bound, n, dim)
            _decide(reward, bound, value, policy, h, states, actions)
            _evaluate(transition, reward, policy, worth, h, states, num_actions)
        regret += best_value - worth[0, 0]
        state = 0
        for h in range(horizon - 1):
            pair = state * num_actions + policy[h, state]
            bits, s0, s1 = _next(s0, s1)
            uniform, state = _uniform(bits), 0
            for z in range(num_states - 1):
                state += uniform >= cdf[pair, z]
            for layer in range(len(scales)):
                s = _form(x, h, pair, layers[layer], dim)
                if s >= scales[layer] * scales[layer]:
                    low, high = min(low, layer), max(high, layer + 1)
                    _learn(x, h, pair, value[h + 1, state], layers[layer], scales[layer], s, u, dim)
                    break
    return regret


@njit(parallel=True)
def _run_seeds(
    by_next: Array,
    transition: Array,
    cdf: Array,
    reward: Array,
    best_value: float,
    horizon: int,
    lam: float,
    scales: Array,
    logs: Array,
    dim: Axes,
    actions: Axes,
    chunk: Axes,
    rng: Bits,
) -> Array:
    regret = np.empty(len(rng))
    for i in prange(len(rng)):
        regret[i] = _run(
            by_next, transition, cdf, reward, best_value, horizon, lam, scales, logs, dim, actions, chunk,
            rng[i, 0], rng[i, 1],
        )  # fmt: skip
    return regret


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
    num_states, num_actions, _, dim = phi.shape
    num_layers = max(1, math.ceil(1.5 * math.log2(num_episodes * horizon)))
    logs = np.log(4.0 * np.arange(1, num_episodes + 1) ** 2 * horizon**2 * num_layers / delta)
    transition = np.ascontiguousarray((phi @ theta_star).reshape(-1, num_states), np.float64)
    cdf = np.ascontiguousarray(np.cumsum(transition, axis=1)[:, :-1])
    best = np.zeros(num_states)
    for _ in range(horizon):
        best = (reward + (transition @ best).reshape(num_states, num_actions)).max(axis=1)
    chunks = -(-num_states // CHUNK)
    chunk = -(-num_states // chunks)
    pairs = -(-num_states * num_actions // 8) * 8  # whole vectors; what is added is never played
    by_next = np.zeros((chunks * chunk, dim, pairs))
    by_next[:num_states, :, : num_states * num_actions] = phi.transpose(2, 3, 0, 1).reshape(num_states, dim, -1)
    scales, lam = np.power(0.25, np.arange(1.0, num_layers + 1.0)), float(norm_bound) ** -2
    bits = np.random.SeedSequence(seed).generate_state(2 * num_seeds, np.uint64).astype(np.uint64)
    regret: Array = _run_seeds(
        by_next.reshape(chunks, chunk, dim, pairs),
        transition,
        cdf,
        np.ascontiguousarray(reward, np.float64).reshape(-1),
        float(best[0]),
        horizon,
        lam,
        scales,
        logs,
        (0,) * dim,
        (0,) * num_actions,
        (0,) * chunk,
        bits.reshape(num_seeds, 2),
    )
    return regret
