"""Rival in Numba: UCRL-AVE on one given linear mixture MDP; seeds in vector lanes, blocks of seeds on all cores.

A block of LANES seeds plays in step. Its seeds lie along the last, contiguous axis, so that loops over them become
vector instructions whatever the numbers of states and actions. What such loops write are rows of LANES numbers one
after the other, entry `row * LANES + b` for seed b: the compiler then sees that rows do not overlap. Sums run over the
lengths of the tuples in `Sizes`, which the compiler knows, so that they unroll. Actions are bounded two at a time, so
that what is read of a layer serves twice; an odd number of actions gets one more, which is never played.

A layer is kept in scaled form: P is q times the inverse of Sigma, q = 4^-l, and starts at I / lam. With s = x' P x the
squared width is s / q. Stored are the coefficients of this quadratic form: P_ii, and 2 P_ij below the diagonal. For a
seed without data in a layer, the layer's bound is that of all layers without data; so a block visits the layers from
the lowest to the deepest that any of its seeds has used. Layers are 0-based: l = layer + 1.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from experiments.speed.numba_random import LANES, Array, Axes, Bits, Indices, aligned, fast, uniforms
from experiments.speed.numpy_loop import model_numbers
from experiments.speed.numpy_vector import TOLERANCE

CHUNK = 16  # most successors that one loop over seeds sums
UNROLLED = 12  # largest dimension whose quadratic form the compiler unrolls completely
TOGETHER = 8  # the same for two of them in one loop
TAUGHT = 4  # largest dimension in which it is faster to pass an observation to all seeds of a block


class Sizes(NamedTuple):
    """Tuples whose lengths are the sizes known to the compiler."""

    dim: Axes
    states: Axes
    actions: Axes
    chunk: Axes  # successors summed at once


class Task(NamedTuple):
    """What is the same for all seeds."""

    phi: Array  # [states, actions, states, dim]
    twos: Array  # [states, 2, pairs of actions, dim, chunks, chunk], the same, padded to whole pairs and chunks
    transition: Array  # [states, actions, states]
    cdf: Array  # [states, actions, states - 1]
    reward: Array  # [states, actions]
    best_value: float
    horizon: int
    lam: float
    scales: Array  # [layers], q
    logs: Array  # [episodes], log(4 k^2 H^2 L / delta)


class Block(NamedTuple):
    """What the seeds of a block know, and room to work in. Columns are rows of LANES numbers where not said otherwise.

    A layer's columns are theta [dim], its quadratic form [dim (dim + 1) / 2], the radius over 2^-l and the loss.
    """

    layers: Array  # [layers, columns]
    value: Array  # [horizon + 1, successors], V of the plan
    policy: Indices  # [horizon, states]
    worth: Array  # [horizon + 1, states], value of the policy
    bound: Array  # [pairs of actions, 2], the least upper bound of <theta*, x>
    x: Array  # [2, dim], features of two actions; the first are also those of what is played
    form: Array  # [1], x' P x in some layer
    y: Array  # [1], V of the state reached
    gain: Array  # [1], of what a layer learns; 0 where it does not
    waits: Array  # [1], 1 while no layer has learned from the step, then 0
    state: Indices  # [1]
    u: Array  # [dim + 1], P x and the error of the prediction


@fast
def _entry(dim: int, i: int, j: int) -> int:
    """First column of a layer's entry (i, j), j <= i; the radius follows as (dim, 0), the loss as (dim, 1)."""
    return (dim + i * (i + 1) // 2 + j) * LANES


@fast
def _start(task: Task, sizes: Sizes) -> Block:
    """Layers that have seen nothing."""
    dim, num_states, horizon = len(sizes.dim), len(sizes.states), task.horizon
    layers = aligned(len(task.scales), dim + dim * (dim + 1) // 2 + 2)
    for i in range(dim):
        layers[:, _entry(dim, i, i) : _entry(dim, i, i) + LANES] = 1.0 / task.lam
    value = aligned(horizon + 1, task.twos.shape[4] * len(sizes.chunk))
    worth = aligned(horizon + 1, num_states)
    policy, state = np.zeros((horizon, num_states * LANES), np.int64), np.zeros(LANES, np.int64)
    bound, x, u, rows = aligned(task.twos.shape[2], 2), aligned(2, dim), aligned(1, dim + 1)[0], aligned(4, 1)
    return Block(layers, value, policy, worth, bound, x, rows[0], rows[1], rows[2], rows[3], state, u)


@fast
def _features(twos: Array, state: int, pair: int, value: Array, h: int, x: Array, dim: Axes, chunk: Axes) -> None:
    """Features of two actions under V of step h; here V is [horizon + 1, chunks, rows]."""
    for c in range(2):
        for i in range(len(dim)):
            for b in range(LANES):
                total = 0.0
                for z in range(len(chunk)):
                    total += twos[state, c, pair, i, 0, z] * value[h, 0, z * LANES + b]
                x[c, i * LANES + b] = total
    for n in range(1, twos.shape[4]):  # a chunk of V stays in the cache for all features
        for i in range(len(dim)):
            for b in range(LANES):
                total, other = x[0, i * LANES + b], x[1, i * LANES + b]
                for z in range(len(chunk)):
                    total += twos[state, 0, pair, i, n, z] * value[h, n, z * LANES + b]
                    other += twos[state, 1, pair, i, n, z] * value[h, n, z * LANES + b]
                x[0, i * LANES + b] = total
                x[1, i * LANES + b] = other


@fast
def _form(x: Array, c: int, layers: Array, layer: int, form: Array, axes: Axes) -> None:
    """Quadratic form x' P x of the features c."""
    dim = len(axes)
    if dim <= UNROLLED:
        for b in range(LANES):
            total = 0.0
            for i in range(dim):
                part = 0.0
                for j in range(i + 1):
                    part += layers[layer, (dim + i * (i + 1) // 2 + j) * LANES + b] * x[c, j * LANES + b]
                total += part * x[c, i * LANES + b]
            form[b] = total
        return
    entries, features = layers.reshape(len(layers), layers.shape[1] // LANES, LANES), x.reshape(2, dim, LANES)
    form[:] = 0.0
    for i in range(dim):
        for j in range(i + 1):
            for b in range(LANES):
                form[b] += entries[layer, dim + i * (i + 1) // 2 + j, b] * features[c, i, b] * features[c, j, b]


@fast
def _bound_without_data(x: Array, radius: float, bound: Array, pair: int, axes: Axes) -> None:
    """Bounds of two actions by the layers without data."""
    for b in range(LANES):
        total, other = 0.0, 0.0
        for i in range(len(axes)):
            total += x[0, i * LANES + b] * x[0, i * LANES + b]
            other += x[1, i * LANES + b] * x[1, i * LANES + b]
        bound[pair, b] = radius * math.sqrt(total)
        bound[pair, LANES + b] = radius * math.sqrt(other)


@fast
def _bound(x: Array, layers: Array, layer: int, form: Array, bound: Array, pair: int, axes: Axes) -> None:
    """Lower the bounds of two actions to those of a layer."""
    dim = len(axes)
    radius = (dim + dim * (dim + 1) // 2) * LANES
    if dim <= TOGETHER:
        for b in range(LANES):
            total, other, pred, other_pred = 0.0, 0.0, 0.0, 0.0
            for i in range(dim):
                part, other_part = 0.0, 0.0
                for j in range(i + 1):
                    entry = layers[layer, (dim + i * (i + 1) // 2 + j) * LANES + b]
                    part += entry * x[0, j * LANES + b]
                    other_part += entry * x[1, j * LANES + b]
                total += part * x[0, i * LANES + b]
                other += other_part * x[1, i * LANES + b]
                pred += layers[layer, i * LANES + b] * x[0, i * LANES + b]
                other_pred += layers[layer, i * LANES + b] * x[1, i * LANES + b]
            beta = layers[layer, radius + b]
            bound[pair, b] = min(bound[pair, b], pred + beta * math.sqrt(total))
            bound[pair, LANES + b] = min(bound[pair, LANES + b], other_pred + beta * math.sqrt(other))
        return
    for c in range(2):
        _form(x, c, layers, layer, form, axes)
        for b in range(LANES):
            pred = 0.0
            for i in range(dim):
                pred += layers[layer, i * LANES + b] * x[c, i * LANES + b]
            pred += layers[layer, radius + b] * math.sqrt(form[b])
            bound[pair, c * LANES + b] = min(bound[pair, c * LANES + b], pred)


@fast
def _decide(reward: Array, state: int, bound: Array, value: Array, policy: Indices, h: int, actions: Axes) -> None:
    """V and policy of a state in step h, from the bounds of its actions."""
    for b in range(LANES):
        top = 0.0
        for a in range(len(actions)):
            top = max(top, reward[state, a] + bound[a // 2, a % 2 * LANES + b])
        top = min(top, 1.0)
        best = 0
        for a in range(len(actions) - 1, -1, -1):
            q = max(reward[state, a] + bound[a // 2, a % 2 * LANES + b], 0.0)
            best = a if q >= top - TOLERANCE else best
        value[h, state * LANES + b] = top
        policy[h, state * LANES + b] = best


@fast
def _evaluate(prob: Array, reward: Array, state: int, policy: Indices, worth: Array, h: int, states: Axes) -> None:
    """Value of the policy in a state in step h."""
    for b in range(LANES):
        a = policy[h, state * LANES + b]
        total = reward[state, a]
        for z in range(len(states)):
            total += prob[state, a, z] * worth[h + 1, z * LANES + b]
        worth[h, state * LANES + b] = total


@fast
def _radius(emp: float, log_term: float) -> float:
    """Practical radius over 2^-l."""
    return 0.1 * (3.15 * math.sqrt((2.0 * emp + log_term / 8.0) * log_term) + 1.73 * log_term) + 1.0


@fast
def _radii(layers: Array, layer: int, ridge: float, log_term: float, axes: Axes) -> None:
    dim = len(axes)
    for b in range(LANES):
        emp = layers[layer, _entry(dim, dim, 1) + b]
        for i in range(dim):
            emp -= ridge * layers[layer, i * LANES + b] * layers[layer, i * LANES + b]
        layers[layer, _entry(dim, dim, 0) + b] = _radius(max(emp, 0.0), log_term)


@fast
def _plan(task: Task, block: Block, low: int, high: int, log_term: float, sizes: Sizes) -> None:
    """Plan an episode with the layers from `low` up to `high`, and evaluate the policy.

    In the last step V and policy are those of the rewards, in all episodes. In the first only state 0 matters.
    """
    _, twos, transition, _, reward, _, horizon, lam, scales, _ = task
    layers, value, policy, worth, bound, x, form, _, _, _, _, _ = block
    dim, states, actions, chunk = sizes
    chunks = value.reshape(horizon + 1, twos.shape[4], len(chunk) * LANES)
    for layer in range(low, high):
        _radii(layers, layer, scales[layer] * lam, log_term, dim)
    empty = _radius(0.0, log_term) / math.sqrt(lam) if high - low < len(scales) else 1e300
    for h in range(horizon - 2, -1, -1):
        for state in range(len(states) if h > 0 else 1):
            for pair in range(twos.shape[2]):
                _features(twos, state, pair, chunks, h + 1, x, dim, chunk)
                _bound_without_data(x, empty, bound, pair, dim)
                for layer in range(low, high):
                    _bound(x, layers, layer, form, bound, pair, dim)
            _decide(reward, state, bound, value, policy, h, actions)
            _evaluate(transition, reward, state, policy, worth, h, states)


@fast
def _move(
    phi: Array, cdf: Array, v: Array, pi: Indices, h: int, x: Array, y: Array, state: Indices, dim: Axes, states: Axes
) -> None:
    """Play step h of the plan v and pi with the uniform numbers in y: features, the state reached and, in y, its V."""
    for b in range(LANES):
        s = state[b]
        a = pi[h, s * LANES + b]
        reached = 0
        for z in range(len(states) - 1):
            reached += y[b] >= cdf[s, a, z]
        for i in range(len(dim)):
            total = 0.0
            for z in range(len(states)):
                total += phi[s, a, z, i] * v[h + 1, z * LANES + b]
            x[0, i * LANES + b] = total
        y[b] = v[h + 1, reached * LANES + b]
        state[b] = reached


@fast
def _choose(form: Array, q: float, gain: Array, waits: Array) -> float:
    """Gains of the waiting seeds whose features are wide in a layer; how many wait on."""
    left = 0.0
    for b in range(LANES):
        takes = waits[b] if form[b] >= q * q else 0.0
        gain[b] = takes * q / (1.0 + q) / max(form[b], 1e-300)
        waits[b] -= takes
        left += waits[b]
    return left


@fast
def _learn(x: Array, y: Array, layers: Array, layer: int, q: float, gain: Array, u: Array, axes: Axes) -> None:
    """A layer learns where its gain is not 0: P -= gain u u' and theta += gain e u, with u = P x and the error e."""
    dim = len(axes)
    loss, e = _entry(dim, dim, 1), dim * LANES
    if dim <= TAUGHT:
        for b in range(LANES):
            error = y[b]
            for i in range(dim):
                error -= layers[layer, i * LANES + b] * x[0, i * LANES + b]
                total = 2.0 * layers[layer, _entry(dim, i, i) + b] * x[0, i * LANES + b]
                for j in range(i):
                    total += layers[layer, _entry(dim, i, j) + b] * x[0, j * LANES + b]
                for j in range(i + 1, dim):
                    total += layers[layer, _entry(dim, j, i) + b] * x[0, j * LANES + b]
                u[i * LANES + b] = 0.5 * total
            u[e + b] = error
        for b in range(LANES):
            for i in range(dim):
                step = gain[b] * u[i * LANES + b]
                for j in range(i):
                    layers[layer, _entry(dim, i, j) + b] -= 2.0 * step * u[j * LANES + b]
                layers[layer, _entry(dim, i, i) + b] -= step * u[i * LANES + b]
                layers[layer, i * LANES + b] += step * u[e + b]
            layers[layer, loss + b] += q * gain[b] * u[e + b] * u[e + b]
        return
    for b in range(LANES):
        if gain[b] > 0.0:
            error = y[b]
            for i in range(dim):
                error -= layers[layer, i * LANES + b] * x[0, i * LANES + b]
                total = layers[layer, _entry(dim, i, i) + b] * x[0, i * LANES + b]
                for j in range(dim):
                    total += layers[layer, _entry(dim, max(i, j), min(i, j)) + b] * x[0, j * LANES + b]
                u[i * LANES + b] = 0.5 * total
            for i in range(dim):
                step = gain[b] * u[i * LANES + b]
                for j in range(i):
                    layers[layer, _entry(dim, i, j) + b] -= 2.0 * step * u[j * LANES + b]
                layers[layer, _entry(dim, i, i) + b] -= step * u[i * LANES + b]
                layers[layer, i * LANES + b] += step * error
            layers[layer, loss + b] += q * gain[b] * error * error


@fast
def _play(task: Task, block: Block, low: int, high: int, rng: Bits, sizes: Sizes) -> tuple[int, int]:
    """Play an episode and learn; the new range of layers. The last step has no features: there is nothing to learn."""
    phi, _, _, cdf, _, _, horizon, _, scales, _ = task
    layers, value, policy, _, _, x, form, y, gain, waits, state, u = block
    state[:] = 0
    for h in range(horizon - 1):
        uniforms(rng, y)
        _move(phi, cdf, value, policy, h, x, y, state, sizes.dim, sizes.states)
        waits[:] = 1.0
        layer, left = 0, float(LANES)
        while layer < len(scales) and left > 0.0:
            before = left
            _form(x, 0, layers, layer, form, sizes.dim)
            left = _choose(form, scales[layer], gain, waits)
            if left < before:
                low, high = min(low, layer), max(high, layer + 1)
                _learn(x, y, layers, layer, scales[layer], gain, u, sizes.dim)
            layer += 1
    return low, high


@fast
def _run(task: Task, sizes: Sizes, rng: Bits, regret: Array) -> None:
    """Add up the regret of a block of seeds."""
    block, low, high, last = _start(task, sizes), len(task.scales), 0, task.horizon - 1
    for state in range(len(sizes.states)):
        _decide(task.reward, state, block.bound, block.value, block.policy, last, sizes.actions)
        _evaluate(task.transition, task.reward, state, block.policy, block.worth, last, sizes.states)
    for k in range(len(task.logs)):
        _plan(task, block, low, high, task.logs[k], sizes)
        for b in range(LANES):
            regret[b] += task.best_value - block.worth[0, b]
        low, high = _play(task, block, low, high, rng, sizes)


@njit(parallel=True)
def _run_blocks(task: Task, dim: Axes, states: Axes, actions: Axes, chunk: Axes, rng: Bits) -> Array:
    regret = np.zeros((len(rng), LANES))
    for i in prange(len(rng)):
        _run(task, Sizes(dim, states, actions, chunk), rng[i], regret[i])
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
    """Cumulative regret of every seed after all episodes, [num_seeds]; whole blocks are played."""
    phi, reward, theta_star = (np.ascontiguousarray(x, np.float64) for x in (phi, reward, theta_star))
    num_states, num_actions, _, dim = phi.shape
    transition, best_value, num_layers, logs = model_numbers(phi, reward, theta_star, horizon, num_episodes, delta)
    cdf = np.ascontiguousarray(np.cumsum(transition, axis=2)[:, :, :-1])
    pairs, chunks = -(-num_actions // 2), -(-num_states // CHUNK)
    chunk = -(-num_states // chunks)
    padded = np.zeros((num_states, 2 * pairs, dim, chunks * chunk))
    padded[:, :num_actions, :, :num_states] = phi.swapaxes(2, 3)
    twos = np.ascontiguousarray(padded.reshape(num_states, pairs, 2, dim, chunks, chunk).swapaxes(1, 2))
    scales, lam = np.power(0.25, np.arange(1.0, num_layers + 1.0)), float(norm_bound) ** -2
    task = Task(phi, twos, transition, cdf, reward, best_value, horizon, lam, scales, logs)
    bits = np.random.SeedSequence(seed).generate_state(2 * LANES * -(-num_seeds // LANES), np.uint64)
    rng = np.ascontiguousarray(bits.astype(np.uint64).reshape(-1, LANES, 2).swapaxes(1, 2))
    sizes = ((0,) * n for n in (dim, num_states, num_actions, chunk))
    return np.asarray(_run_blocks(task, *sizes, rng)).reshape(-1)[:num_seeds]
