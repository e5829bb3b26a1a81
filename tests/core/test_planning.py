"""Exact planning and the draw of the next state, against enumerations, loops and exact fractions."""

import functools
import itertools
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import jaxvar as jv
from jaxvar import blocks, lowering

S, A, H = 3, 2, 3  # few enough to enumerate all policies and all paths
SMALLEST, LARGEST = {64: 2.0**-33, 32: 2.0**-24}, {64: 1 - 2.0**-33, 32: 1 - 2.0**-24}  # of the uniform numbers

optimal = functools.partial(jax.jit, static_argnames="horizon")(jv.planning.optimal_values)
largest = functools.partial(jax.jit, static_argnames="horizon")(jv.planning.largest_return)
policy_values, expectation, variance = map(
    jax.jit, (jv.planning.policy_values, jv.planning.expectation, jv.planning.conditional_variance)
)


def rows_of(weights: np.ndarray) -> np.ndarray:
    """Distributions on the last axis from integers; where all are zero, the last state is certain."""
    weights = np.where(weights.sum(-1, keepdims=True) > 0, weights, np.eye(weights.shape[-1], dtype=int)[-1])
    return weights / weights.sum(-1, keepdims=True)


def random_tables(seed: int, num_states: int, num_actions: int, *batch: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    transition = rows_of(rng.integers(0, 5, (*batch, num_states, num_actions, num_states)))
    return transition, rng.uniform(size=(*batch, num_states, num_actions))


kernels = arrays(int, (S, A, S), elements=st.integers(0, 4)).map(rows_of)
rewards = arrays(float, (S, A), elements=st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 1.0]))
values = arrays(float, (S,), elements=st.floats(0, 1))
many = settings(max_examples=60, deadline=None, derandomize=True)


def forward_values(transition: np.ndarray, reward: np.ndarray, policies: np.ndarray, first: int) -> np.ndarray:
    """What the policies ``[N, H, S]`` earn from stage ``first`` on, by pushing distributions forward: ``[N, S]``."""
    num, horizon, states = policies.shape
    here = np.broadcast_to(np.eye(states), (num, states, states))  # where one is, for each state one began in
    total = np.zeros((num, states))
    for h in range(first, horizon):
        chosen = policies[:, h]
        total += np.einsum("nbs,ns->nb", here, reward[np.arange(states), chosen])
        here = np.einsum("nbs,nst->nbt", here, transition[np.arange(states), chosen])
    return total


@functools.cache
def all_policies() -> np.ndarray:
    return np.array(list(itertools.product(range(A), repeat=H * S))).reshape(-1, H, S)


@many
@given(kernels, rewards)
def test_optimal_values_are_the_best_of_all_policies(transition: np.ndarray, reward: np.ndarray) -> None:
    """Fails if an action, a state or a stage is left out, or if a value is that of another stage."""
    best = optimal(transition, reward, horizon=H)
    for h in range(H + 1):
        np.testing.assert_allclose(
            best.value[h], forward_values(transition, reward, all_policies(), h).max(axis=0), rtol=0, atol=1e-13
        )
    for h, s, a in np.ndindex(H, S, A):
        after = sum(transition[s, a, t] * float(best.value[h + 1, t]) for t in range(S))
        assert abs(float(best.q[h, s, a]) - reward[s, a] - after) < 1e-13


@many
@given(kernels, rewards, arrays(np.int32, (H, S), elements=st.integers(0, A - 1)))
def test_policy_values_are_what_a_policy_earns(transition: np.ndarray, reward: np.ndarray, policy: np.ndarray) -> None:
    """Fails if regret were measured with another stage's or another state's action."""
    value = policy_values(transition, reward, policy)
    expected = [forward_values(transition, reward, policy[None], h)[0] for h in range(H + 1)]
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-13)


@many
@given(kernels, values)
def test_expectation_and_variance_by_fractions(transition: np.ndarray, value: np.ndarray) -> None:
    """Fails if a next state is left out or the variance is not centred at the mean of its own pair."""
    mean, spread = expectation(transition, value), variance(transition, value)
    for s, a in np.ndindex(S, A):
        row, numbers = [Fraction(p) for p in transition[s, a]], [Fraction(v) for v in value]
        exact = sum(p * v for p, v in zip(row, numbers, strict=True))
        squares = sum(p * v * v for p, v in zip(row, numbers, strict=True))
        assert abs(float(mean[s, a]) - exact) < 1e-15
        assert abs(float(spread[s, a]) - (squares - exact**2)) < 1e-15


@many
@given(kernels, rewards)
def test_largest_return_over_all_paths(transition: np.ndarray, reward: np.ndarray) -> None:
    """Fails if a path of probability 0 counts or a possible one does not: the bound on total reward rests on it."""

    def best(s: int, steps: int) -> float:
        if steps == 0:
            return 0.0
        pairs = itertools.product(range(A), range(S))
        return max(reward[s, a] + best(t, steps - 1) for a, t in pairs if transition[s, a, t] > 0)

    np.testing.assert_allclose(
        largest(transition, reward, horizon=H), [best(s, H) for s in range(S)], rtol=0, atol=1e-13
    )


def test_a_certain_transition_has_no_variance() -> None:
    """Fails if rounding gives certain transitions a variance: regret bounds of deterministic problems use its zero."""
    targets = np.random.default_rng(0).integers(0, 4, (4, 3))
    value = np.array([0.1, 1 / 3, 0.7, 1.0 - 1e-16])
    assert np.all(np.asarray(variance(np.eye(4)[targets], value)) == 0)


def test_small_variances_keep_their_digits() -> None:
    """Fails for the difference of squares: values near 1 that differ by 1e-9 leave it nothing but rounding errors."""
    value = 1 - 1e-9 * np.array([0.0, 1.0, 3.0])
    row = [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
    numbers = [Fraction(v) for v in value]
    mean = sum(p * v for p, v in zip(row, numbers, strict=True))
    exact = float(sum(p * (v - mean) ** 2 for p, v in zip(row, numbers, strict=True)))
    got = variance(np.broadcast_to(np.array(row, float), (3, 1, 3)), value)
    np.testing.assert_allclose(got, exact, rtol=1e-6)


@pytest.mark.parametrize("num_states", [1, 32, 33])
def test_any_number_of_states(num_states: int) -> None:
    """Fails if the sums written out for up to 32 states and the reductions beyond do not agree with NumPy."""
    transition, reward = random_tables(num_states, num_states, 2)
    policy = np.random.default_rng(1).integers(0, 2, (4, num_states)).astype(np.int32)
    best, value = np.zeros(num_states), np.zeros(num_states)
    got, played = optimal(transition, reward, horizon=4), policy_values(transition, reward, policy)
    for h in reversed(range(4)):
        mean = transition @ best
        centred = best[None, None] - mean[:, :, None]
        spread = np.sum(transition * centred**2, axis=2)
        np.testing.assert_allclose(expectation(transition, best), mean, rtol=0, atol=1e-13)
        np.testing.assert_allclose(variance(transition, best), spread, rtol=0, atol=1e-13)
        q = reward + mean
        best, value = q.max(1), (reward + transition @ value)[np.arange(num_states), policy[h]]
        np.testing.assert_allclose(got.q[h], q, rtol=0, atol=1e-13)
        np.testing.assert_allclose(got.value[h], best, rtol=0, atol=1e-13)
        np.testing.assert_allclose(played[h], value, rtol=0, atol=1e-13)
    assert not np.any(got.value[4]) and not np.any(played[4])


def test_a_batch_of_one_table_shares_the_others() -> None:
    """Fails if the table that differs in a batch, or one that all of it share, is broadcast along a wrong axis."""
    transition, reward = random_tables(2, 3, 3, 3)  # the batch is as long as the other axes, so that mix-ups fit
    policy = np.random.default_rng(3).integers(0, 3, (3, 4, 3)).astype(np.int32)
    value = np.random.default_rng(4).uniform(size=(3, 3))
    functions: list[tuple[Any, list[Any]]] = [
        (lambda p, r: jv.planning.optimal_values(p, r, 4), [transition, reward]),
        (lambda p, r: jv.planning.largest_return(p, r, 4), [transition, reward]),
        (jv.planning.policy_values, [transition, reward, policy]),
        (jv.planning.conditional_variance, [transition, value]),
        (jv.planning.expectation, [transition, value]),
    ]
    for function, args in functions:
        single = jax.jit(function)
        for mapped in np.eye(len(args), dtype=bool):
            given_args = [x if m else x[0] for x, m in zip(args, mapped, strict=True)]
            batch = jax.jit(jax.vmap(function, in_axes=[0 if m else None for m in mapped]))(*given_args)
            for i in range(3):
                one = single(*(x[i] if m else x for x, m in zip(given_args, mapped, strict=True)))
                for b, o in zip(jax.tree.leaves(batch), jax.tree.leaves(one), strict=True):
                    np.testing.assert_allclose(b[i], o, rtol=0, atol=1e-14)


def test_float32_stays_float32() -> None:
    """Fails if a table of another type is promoted, or if sums lose more than rounding."""
    transition, reward = random_tables(5, 4, 2)
    policy, value = np.ones((5, 4), np.int32), np.linspace(0, 1, 4)
    single = [x.astype(np.float32) for x in (transition, reward, value)]
    pairs = [
        (optimal(*single[:2], horizon=5), optimal(transition, reward, horizon=5)),
        (largest(*single[:2], horizon=5), largest(transition, reward, horizon=5)),
        (policy_values(*single[:2], policy), policy_values(transition, reward, policy)),
        (expectation(single[0], single[2]), expectation(transition, value)),
        (variance(single[0], single[2]), variance(transition, value)),
    ]
    for got, expected in pairs:
        for g, e in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            assert g.dtype == np.float32 and e.dtype == np.float64
            np.testing.assert_allclose(g, e, rtol=1e-6, atol=1e-7)


# --- the draw of a state ---


def unit_rows(num_states: int, num_rows: int, dtype: Any) -> np.ndarray:
    """Distributions ``[S, N]`` whose sums are exact in any float type: multiples of 1 / 1024, many of them zero."""
    rng = np.random.default_rng([6, num_states])
    weights = rng.dirichlet(np.full(num_states, 0.3), size=num_rows)
    return (rng.multinomial(1024, weights) / 1024).T.astype(dtype)


def draw(rows: Any, u: Any) -> np.ndarray:
    """The states drawn from ``rows [S, N]`` by the numbers ``u [N]``, as a block of N seeds draws them."""

    def of_block(*given: jax.Array) -> jax.Array:
        return blocks.over_seeds(lowering.draw_state, u.shape, given, (True, True))[0]

    return np.asarray(jax.jit(of_block)(rows, u))


def draw_both(monkeypatch: Any, row: np.ndarray, u: np.ndarray) -> list[np.ndarray]:
    """By the sum written out and by the cumulative one."""
    states = []
    for unroll in (row.shape[0], row.shape[0] - 1):
        monkeypatch.setattr(lowering, "_UNROLL", unroll)
        states.append(draw(row, u))
    return states


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num_states", [5, 40])
def test_both_ways_to_draw_invert_the_distribution(monkeypatch: Any, num_states: int, dtype: Any) -> None:
    """Fails if one of the two sums is shifted by a state, or gives the edge between two states to the wrong one."""
    rows = unit_rows(num_states, 20, dtype)
    u = np.arange(2048).astype(dtype) / 2048  # every edge, and the middles between them
    expected = np.stack([np.searchsorted(np.cumsum(row), u, side="right") for row in rows.T])
    grid = (np.repeat(rows, len(u), axis=1), np.tile(u, rows.shape[1]))
    for states in draw_both(monkeypatch, *grid):
        assert states.dtype == np.int32
        np.testing.assert_array_equal(states.reshape(expected.shape), expected)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("num_states", [5, 40])
def test_no_state_of_probability_zero_is_drawn(monkeypatch: Any, num_states: int, bits: int) -> None:
    """Fails if rounding lets the smallest or the largest uniform number leave the states that can be reached."""
    rng = np.random.default_rng([7, num_states])
    rows = rng.dirichlet(np.full(num_states, 0.2), size=400)
    rows[:, :2], rows[::2, -2:] = 0, 0  # zeros at the start, and at the end of every other row
    rows[rows < 1e-3] = 0
    rows[np.arange(len(rows)), 2] += 0.1
    scale = 1 + 1e-6 * np.arange(-1, 2)[np.arange(len(rows)) % 3]  # sums a little below and above 1
    rows = (rows / rows.sum(1, keepdims=True) * scale[:, None]).astype(f"float{bits}")
    possible = rows > 0
    first, last = possible.argmax(1), num_states - 1 - possible[:, ::-1].argmax(1)
    for u, edge in ((0, first), (SMALLEST[bits], first), (LARGEST[bits], last), (1, last)):
        for states in draw_both(monkeypatch, rows.T, np.full(len(rows), u, rows.dtype)):
            np.testing.assert_array_equal(states, edge)
    words = jax.random.bits(jax.random.key(8), (64, len(rows)), np.uint32)
    u = np.asarray(jv.random.uniform(words, rows.dtype))
    for states in draw_both(monkeypatch, np.tile(rows.T, 64), u.reshape(-1)):
        assert np.all(rows[np.tile(np.arange(len(rows)), 64), states] > 0)


def test_words_give_the_uniform_numbers_assumed_here() -> None:
    """Fails if the ends of the uniform numbers tested above are not those that are drawn."""
    for bits in (32, 64):
        ends = jv.random.uniform(np.array([0, 2**32 - 1], np.uint32), f"float{bits}")
        assert [float(x) for x in ends] == [SMALLEST[bits], LARGEST[bits]]


@pytest.mark.parametrize("num_states", [5, 40])
def test_frequencies(num_states: int) -> None:
    """Fails if states are drawn from another law; by chance with probability 1e-6 (chi-square, fixed key)."""
    num = 50_000
    row = np.arange(num_states) % 4 / np.sum(np.arange(num_states) % 4)
    u = jv.random.uniform(jax.random.bits(jax.random.key(num_states), (num,), np.uint32), np.float64)
    states = draw(jnp.broadcast_to(row[:, None], (num_states, num)), u)
    counts, expected = np.bincount(states, minlength=num_states), num * row
    assert not np.any(counts[row == 0])
    statistic = np.sum((counts - expected)[row > 0] ** 2 / expected[row > 0])
    assert statistic < stats.chi2.isf(1e-6, np.count_nonzero(row) - 1)
