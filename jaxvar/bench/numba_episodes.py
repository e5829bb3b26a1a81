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
from numpy.typing import NDArray

from jaxvar.bench.numba_random import Array, Bits, _next, _uniform, fast
from jaxvar.bench.setting import TOLERANCE

LANES = 64  # seeds of a block
CHUNK = 16  # most successors that one loop over seeds sums
UNROLLED = 8  # largest dimension whose quadratic forms of two actions the compiler unrolls completely

Axes = tuple[int, ...]
Indices = NDArray[np.int64]


class Sizes(NamedTuple):
    """Tuples whose lengths are the sizes known to the compiler."""

    dim: Axes
    states: Axes
    actions: Axes
    chunk: Axes  # successors summed at once


class Task(NamedTuple):
    """What is the same for all seeds."""

    phi: Array  # [states, actions, states, dim]
    twos: Array  # [states, pairs of actions, 2 dim, successors], the same; successors are padded to whole chunks
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
    x: Array  # [2 dim], features of two actions, or of what was played
    y: Array  # [1], value of the state reached
    s: Array  # [1], x' P x in the layer that learns
    level: Array  # [1], the layer that learns; -1 where none does
    state: Indices  # [1]
    u: Array  # P x of a single seed: dim numbers


@fast
def _rows(leading: int, rows: int) -> Array:
    """Zeros, beginning on a boundary of the widest vectors."""
    room = np.zeros(leading * rows * LANES + 8)
    first = -(room.ctypes.data // 8) % 8
    return room[first : first + leading * rows * LANES].reshape(leading, rows * LANES)


@fast
def _entry(dim: int, i: int, j: int) -> int:
    """First column of the entry (i, j), j <= i, of a layer's quadratic form; the radius is (dim, 0), the loss (dim, 1)."""
    return (dim + i * (i + 1) // 2 + j) * LANES


@fast
def _start(task: Task, sizes: Sizes) -> Block:
    """Layers that have seen nothing."""
    dim, num_states, horizon = len(sizes.dim), len(sizes.states), task.horizon
    layers = _rows(len(task.scales), dim + dim * (dim + 1) // 2 + 2)
    for i in range(dim):
        layers[:, _entry(dim, i, i) : _entry(dim, i, i) + LANES] = 1.0 / task.lam
    value, worth = _rows(horizon + 1, task.twos.shape[3]), _rows(horizon + 1, num_states)
    policy, state = np.zeros((horizon, num_states * LANES), np.int64), np.zeros(LANES, np.int64)
    bound, x, small = _rows(task.twos.shape[1], 2), _rows(1, 2 * dim)[0], _rows(3, 1)
    return Block(layers, value, policy, worth, bound, x, small[0], small[1], small[2], state, np.zeros(dim))


@fast
def _features(task: Task, state: int, pair: int, block: Block, h: int, sizes: Sizes) -> None:
    """Features of two actions under V of step h."""
    twos, value, x = task.twos, block.value, block.x
    for i in range(2 * len(sizes.dim)):
        for b in range(LANES):
            total = 0.0
            for z in range(len(sizes.chunk)):
                total += twos[state, pair, i, z] * value[h, z * LANES + b]
            x[i * LANES + b] = total
    for first in range(len(sizes.chunk), twos.shape[3], len(sizes.chunk)):
        for i in range(2 * len(sizes.dim)):
            for b in range(LANES):
                total = x[i * LANES + b]
                for z in range(len(sizes.chunk)):
                    total += twos[state, pair, i, first + z] * value[h, (first + z) * LANES + b]
                x[i * LANES + b] = total


@fast
def _bound_without_data(block: Block, pair: int, radius: float, sizes: Sizes) -> None:
    dim, bound, x = len(sizes.dim), block.bound, block.x
    for b in range(LANES):
        total, other = 0.0, 0.0
        for i in range(dim):
            total += x[i * LANES + b] * x[i * LANES + b]
            other += x[(dim + i) * LANES + b] * x[(dim + i) * LANES + b]
        bound[pair, b] = radius * math.sqrt(total)
        bound[pair, LANES + b] = radius * math.sqrt(other)


@fast
def _bound(block: Block, layer: int, pair: int, sizes: Sizes) -> None:
    """Lower the bounds of two actions to those of a layer."""
    dim, layers, bound, x = len(sizes.dim), block.layers, block.bound, block.x
    for b in range(LANES):
        total, other, pred, other_pred = 0.0, 0.0, 0.0, 0.0
        for i in range(dim):
            half, other_half = 0.0, 0.0
            for j in range(i + 1):
                entry = layers[layer, _entry(dim, i, j) + b]
                half += entry * x[j * LANES + b]
                other_half += entry * x[(dim + j) * LANES + b]
            total += half * x[i * LANES + b]
            other += other_half * x[(dim + i) * LANES + b]
            pred += layers[layer, i * LANES + b] * x[i * LANES + b]
            other_pred += layers[layer, i * LANES + b] * x[(dim + i) * LANES + b]
        radius = layers[layer, _entry(dim, dim, 0) + b]
        bound[pair, b] = min(bound[pair, b], pred + radius * math.sqrt(total))
        bound[pair, LANES + b] = min(bound[pair, LANES + b], other_pred + radius * math.sqrt(other))


@fast
def _decide(task: Task, state: int, block: Block, h: int, sizes: Sizes) -> None:
    """V and policy of a state in step h, from the bounds of its actions."""
    reward, value, policy, bound, num_actions = task.reward, block.value, block.policy, block.bound, len(sizes.actions)
    for b in range(LANES):
        top = 0.0
        for a in range(num_actions):
            top = max(top, reward[state, a] + bound[a // 2, a % 2 * LANES + b])
        top = min(top, 1.0)
        best = 0
        for a in range(num_actions - 1, -1, -1):
            q = max(reward[state, a] + bound[a // 2, a % 2 * LANES + b], 0.0)
            best = a if q >= top - TOLERANCE else best
        value[h, state * LANES + b] = top
        policy[h, state * LANES + b] = best


@fast
def _evaluate(task: Task, state: int, block: Block, h: int, sizes: Sizes) -> None:
    """Value of the policy in a state in step h."""
    transition, reward, policy, worth = task.transition, task.reward, block.policy, block.worth
    for b in range(LANES):
        a = policy[h, state * LANES + b]
        total = reward[state, a]
        for z in range(len(sizes.states)):
            total += transition[state, a, z] * worth[h + 1, z * LANES + b]
        worth[h, state * LANES + b] = total


@fast
def _radius(emp: float, log_term: float) -> float:
    """Practical radius over 2^-l."""
    return 0.1 * (3.15 * math.sqrt((2.0 * emp + log_term / 8.0) * log_term) + 1.73 * log_term) + 1.0


@fast
def _radii(task: Task, block: Block, layer: int, log_term: float, sizes: Sizes) -> None:
    dim, layers, ridge = len(sizes.dim), block.layers, task.scales[layer] * task.lam
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
    for layer in range(low, high):
        _radii(task, block, layer, log_term, sizes)
    empty = _radius(0.0, log_term) / math.sqrt(task.lam) if high - low < len(task.scales) else 1e300
    for h in range(task.horizon - 2, -1, -1):
        for state in range(len(sizes.states) if h > 0 else 1):
            for pair in range(task.twos.shape[1]):
                _features(task, state, pair, block, h + 1, sizes)
                _bound_without_data(block, pair, empty, sizes)
                for layer in range(low, high):
                    _bound(block, layer, pair, sizes)
            _decide(task, state, block, h, sizes)
            _evaluate(task, state, block, h, sizes)


@fast
def _move(task: Task, block: Block, h: int, rng: Bits, sizes: Sizes) -> None:
    """Play step h: what is to be learned, and the state reached."""
    phi, cdf, value, policy, x, y, state = task.phi, task.cdf, block.value, block.policy, block.x, block.y, block.state
    for b in range(LANES):
        bits, rng[0, b], rng[1, b] = _next(rng[0, b], rng[1, b])
        y[b] = _uniform(bits)
    for b in range(LANES):
        s = state[b]
        a = policy[h, s * LANES + b]
        reached = 0
        for z in range(len(sizes.states) - 1):
            reached += y[b] >= cdf[s, a, z]
        for i in range(len(sizes.dim)):
            total = 0.0
            for z in range(len(sizes.states)):
                total += phi[s, a, z, i] * value[h + 1, z * LANES + b]
            x[i * LANES + b] = total
        y[b] = value[h + 1, reached * LANES + b]
        state[b] = reached


@fast
def _choose(block: Block, layer: int, q: float, sizes: Sizes) -> float:
    """Seeds still without a layer take this one if their features are wide in it; how many are then without."""
    dim, layers, x, s, level = len(sizes.dim), block.layers, block.x, block.s, block.level
    number, left = float(layer), 0.0
    for b in range(LANES):
        total = 0.0
        for i in range(dim):
            half = 0.0
            for j in range(i + 1):
                half += layers[layer, _entry(dim, i, j) + b] * x[j * LANES + b]
            total += half * x[i * LANES + b]
        takes = (level[b] < 0.0) & (total >= q * q)
        s[b] = total if takes else s[b]
        level[b] = number if takes else level[b]
        left += 1.0 if level[b] < 0.0 else 0.0
    return left


@fast
def _learn(task: Task, block: Block, sizes: Sizes) -> None:
    """Every seed's layer learns: P -= gain u u' and theta += gain e u."""
    dim, layers, x, u = len(sizes.dim), block.layers, block.x, block.u
    for b in range(LANES):
        layer = int(block.level[b])
        if layer < 0:
            continue
        q, error = task.scales[layer], block.y[b]
        gain = q / (1.0 + q) / block.s[b]
        for i in range(dim):
            error -= layers[layer, i * LANES + b] * x[i * LANES + b]
            total = 2.0 * layers[layer, _entry(dim, i, i) + b] * x[i * LANES + b]
            for j in range(i):
                total += layers[layer, _entry(dim, i, j) + b] * x[j * LANES + b]
            for j in range(i + 1, dim):
                total += layers[layer, _entry(dim, j, i) + b] * x[j * LANES + b]
            u[i] = 0.5 * total
        for i in range(dim):
            step = gain * u[i]
            for j in range(i):
                layers[layer, _entry(dim, i, j) + b] -= 2.0 * step * u[j]
            layers[layer, _entry(dim, i, i) + b] -= step * u[i]
            layers[layer, i * LANES + b] += step * error
        layers[layer, _entry(dim, dim, 1) + b] += q * gain * error * error


@fast
def _play(task: Task, block: Block, low: int, high: int, rng: Bits, sizes: Sizes) -> tuple[int, int]:
    """Play an episode and learn; the new range of layers. The last step has no features: there is nothing to learn."""
    for b in range(LANES):
        block.state[b] = 0
    for h in range(task.horizon - 1):
        _move(task, block, h, rng, sizes)
        for b in range(LANES):
            block.level[b] = -1.0
        layer, left = 0, 1.0
        while layer < len(task.scales) and left > 0.0:
            left = _choose(block, layer, task.scales[layer], sizes)
            layer += 1
        for b in range(LANES):
            if block.level[b] >= 0.0:
                low, high = min(low, int(block.level[b])), max(high, int(block.level[b]) + 1)
        _learn(task, block, sizes)
    return low, high


@fast
def _run(task: Task, sizes: Sizes, rng: Bits, regret: Array) -> int:
    """Add up the regret of a block of seeds; how many layers it visits in the end."""
    block, low, high = _start(task, sizes), len(task.scales), 0
    for state in range(len(sizes.states)):
        _decide(task, state, block, task.horizon - 1, sizes)
        _evaluate(task, state, block, task.horizon - 1, sizes)
    for k in range(len(task.logs)):
        _plan(task, block, low, high, task.logs[k], sizes)
        for b in range(LANES):
            regret[b] += task.best_value - block.worth[0, b]
        low, high = _play(task, block, low, high, rng, sizes)
    return high - low


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
    """Cumulative regret of every seed after all episodes, [num_seeds]."""
    num_states, num_actions, _, dim = phi.shape
    num_layers = max(1, math.ceil(1.5 * math.log2(num_episodes * horizon)))
    logs = np.log(4.0 * np.arange(1, num_episodes + 1) ** 2 * horizon**2 * num_layers / delta)
    transition = phi @ theta_star
    value = np.zeros(num_states)
    for _ in range(horizon):
        value = (reward + transition @ value).max(axis=1)
    pairs, chunks = -(-num_actions // 2), -(-num_states // CHUNK)
    chunk = -(-num_states // chunks)
    twos = np.zeros((num_states, 2 * pairs, dim, chunks * chunk))
    twos[:, :num_actions, :, :num_states] = phi.swapaxes(2, 3)
    task = Task(
        np.ascontiguousarray(phi),
        twos.reshape(num_states, pairs, 2 * dim, chunks * chunk),
        transition,
        np.ascontiguousarray(np.cumsum(transition, axis=2)[:, :, :-1]),
        np.ascontiguousarray(reward),
        float(value[0]),
        horizon,
        float(norm_bound) ** -2,
        0.25 ** np.arange(1, num_layers + 1),
        logs,
    )
    sizes = Sizes((0,) * dim, (0,) * num_states, (0,) * num_actions, (0,) * chunk)
    blocks = -(-num_seeds // LANES)
    bits = np.random.SeedSequence(seed).generate_state(2 * blocks * LANES, np.uint64).astype(np.uint64)
    rng = np.ascontiguousarray(bits.reshape(blocks, LANES, 2).swapaxes(1, 2))
    regret: Array = _run_blocks(task, *sizes, rng).reshape(-1)[:num_seeds]
    return regret
