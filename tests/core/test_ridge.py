"""The identities on which one layer's recursion rests, against explicit sums and inverses."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jaxvar as jv
from jaxvar import lowering, ridge

CAPACITY = 5
BETA = jnp.linspace(0.5, 2.0, CAPACITY)  # radii
NUM_OBSERVED = 80

fixed_profile = settings(
    derandomize=True, deadline=None, max_examples=25, database=None, suppress_health_check=[HealthCheck.too_slow]
)


class Data(NamedTuple):
    """Observations of a stack of layers."""

    layer: np.ndarray  # [n]   0 where none learns
    x: np.ndarray  # [n, d]
    reward: np.ndarray  # [n]
    lam: float


@st.composite
def data(draw: Any, noise: float | None = None) -> Data:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim = draw(st.sampled_from([1, 2, 5]))
    size = draw(st.sampled_from([0.0, 0.1, 1.0])) if noise is None else noise
    x = rng.normal(size=(NUM_OBSERVED, dim))
    x *= rng.uniform(0.05, 1.0, size=(NUM_OBSERVED, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    theta = rng.normal(size=dim)
    reward = x @ theta / np.linalg.norm(theta) + size * rng.uniform(-1, 1, size=NUM_OBSERVED)
    layer = rng.integers(0, CAPACITY + 1, size=NUM_OBSERVED).astype(np.int32)
    return Data(layer, x, reward, draw(st.sampled_from([0.2, 1.0, 4.0])))


@jax.jit
def _learn_all(layer: jax.Array, x: jax.Array, reward: jax.Array, lam: jax.Array, arms: jax.Array) -> Any:
    layers = ridge.init_layers(x.shape[1], CAPACITY, lam, x.dtype)

    def step(carry: Any, observation: Any) -> Any:
        layers, stats = carry
        layers, update = ridge.observe(layers, *observation)
        stats = ridge.follow_layer(stats, layers, observation[0], update, arms, BETA[observation[0] - 1], jnp.int32(1))
        return (layers, stats), update

    stats = ridge.layer_stats(layers, arms, BETA)
    return jax.lax.scan(step, (layers, stats), (layer, x, reward))


def learn_all(data: Data, arms: np.ndarray | None = None) -> tuple[ridge.Layers, ridge.LayerStats, ridge.LayerUpdate]:
    arms = data.x[:7] if arms is None else arms
    (layers, stats), update = _learn_all(data.layer, data.x, data.reward, data.lam, arms)
    return jax.tree.map(np.asarray, (layers, stats, update))


class Explicit(NamedTuple):
    """One layer by its definition: sums over what it has learned from, each weight from an explicit inverse."""

    sigma: np.ndarray
    theta: np.ndarray
    weight2: np.ndarray  # [n_l]
    x: np.ndarray
    reward: np.ndarray


def explicit(data: Data, layer: int) -> Explicit:
    q = 4.0**-layer
    x, reward = data.x[data.layer == layer], data.reward[data.layer == layer]
    sigma, weights = q * data.lam * np.eye(x.shape[1]), []
    for row in x:
        weights.append(q / (row @ np.linalg.solve(sigma, row)))
        sigma = sigma + weights[-1] * np.outer(row, row)
    weight2 = np.array(weights)
    theta = np.linalg.solve(sigma, np.sum((weight2 * reward)[:, None] * x, axis=0))
    return Explicit(sigma, theta, weight2, x, reward)


@fixed_profile
@given(data())
def test_weight_makes_the_gain_constant(data: Data) -> None:
    """Fails if the weight is not the one with w^2 x' Sigma^-1 x = 4^-l, on which the constant 1 + q rests."""
    _, _, update = learn_all(data)
    learns = data.layer > 0
    q = 4.0 ** -data.layer[learns]
    weight2 = q * (1 + q) * update.gain[learns]
    np.testing.assert_allclose(weight2 * update.width2[learns] / q, q, rtol=1e-12)
    for layer in range(1, CAPACITY + 1):
        theirs = explicit(data, layer).weight2
        np.testing.assert_allclose(weight2[data.layer[learns] == layer], theirs, rtol=1e-9)


@fixed_profile
@given(data())
def test_state_equals_the_explicit_sums(data: Data) -> None:
    """Fails if inverse, estimate, weight sum, count or determinant departs from its definition in any layer."""
    layers, _, _ = learn_all(data)
    log_det = np.asarray(ridge.log_det(layers))
    for i in range(CAPACITY):
        q, theirs = 4.0 ** -(i + 1), explicit(data, i + 1)
        inverse = q * np.linalg.inv(theirs.sigma)
        size = np.linalg.norm(inverse)
        np.testing.assert_allclose(layers.scaled_inv[i], inverse, atol=1e-10 * size)
        np.testing.assert_allclose(layers.theta_hat[i], theirs.theta, atol=1e-10)
        np.testing.assert_allclose(layers.weight_sum[i], np.sum(theirs.weight2), rtol=1e-10)
        np.testing.assert_allclose(log_det[i], np.linalg.slogdet(theirs.sigma)[1], rtol=1e-11, atol=1e-11)
        assert layers.count[i] == len(theirs.weight2)


def explicit_variance(theirs: Explicit) -> float:
    """The sum under the current estimate, in extended precision."""
    residual = theirs.reward.astype(np.longdouble) - theirs.x.astype(np.longdouble) @ theirs.theta
    return float(np.sum(theirs.weight2 * residual**2))


@fixed_profile
@given(data())
def test_variance_sum_is_the_one_under_the_current_estimate(data: Data) -> None:
    """Fails if the sum is taken under the estimates of the past, or if q lam |theta|^2 is not taken off the loss."""
    layers, _, update = learn_all(data)
    variance = np.asarray(ridge.empirical_variance(layers))
    for i in range(CAPACITY):
        theirs = explicit(data, i + 1)
        np.testing.assert_allclose(variance[i], explicit_variance(theirs), rtol=1e-9, atol=1e-14)
        last = np.flatnonzero(data.layer == i + 1)
        if len(last):
            np.testing.assert_allclose(update.variance_sum[last[-1]], variance[i], rtol=1e-12, atol=1e-16)


@functools.partial(jax.jit, static_argnames="dim")
def _fill(q: jax.Array, x: jax.Array, reward: jax.Array, lam: jax.Array, *, dim: int) -> Any:
    """One layer that learns, as in the algorithms, only where the width is above 2^-l: its state, and each w^2."""
    layer = jax.tree.map(lambda v: v[0], ridge.init_layers(dim, 1, lam, x.dtype))

    def step(layer: Any, observation: Any) -> Any:
        x, reward = observation
        wide = ridge.width2(layer.root, x) > q * q
        layer, update = ridge.learn(layer, jnp.where(wide, q, 0.0), x, reward)
        return layer, q * (1 + q) * update.gain

    return jax.lax.scan(step, layer, (x, reward))


def fill(level: int, dim: int, lam: float, noise: float, num: int, seed: int) -> tuple[Any, np.ndarray, Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num, dim))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    reward = x @ np.full(dim, dim**-0.5) + noise * rng.choice([-1.0, 1.0], size=num)
    layer, weight2 = jax.tree.map(np.asarray, _fill(4.0**-level, x, reward, lam, dim=dim))
    return layer, weight2, x, reward


def variance_errors(level: int, lam: float, num: int, seed: int) -> tuple[float, float]:
    """Relative errors of the variance sum of a filled layer with noise 1e-8: from the loss, and by expansion."""
    layer, weight2, x, reward = fill(level, 2, lam, 1e-8, num, seed)
    theta = layer.theta_hat
    ours = layer.loss - 4.0**-level * lam * np.sum(theta * theta)
    residual = reward.astype(np.longdouble) - x.astype(np.longdouble) @ theta.astype(np.longdouble)
    true = float(np.sum(weight2 * residual**2))
    gram, moment = (weight2[:, None] * x).T @ x, np.sum((weight2 * reward)[:, None] * x, axis=0)
    expansion = np.sum(weight2 * reward**2) - 2 * theta @ moment + theta @ gram @ theta
    return abs(ours - true) / true, abs(expansion - true) / true


@pytest.mark.parametrize("lam", [0.5, 1.0, 2.0])
def test_variance_sum_keeps_its_digits_where_the_expansion_loses_them(lam: float) -> None:
    """Fails if the sum is formed as S_rr - 2 theta'b + theta'(sum w^2 x x')theta, all large and nearly equal.

    A filled layer has width^2 down by 16^l. With little noise the sum is then about 16^-l of the loss but 256^-l of
    S_rr, and as much is lost in the difference: at l = 6, eight digits of sixteen against all of them.
    """
    ours, _ = np.transpose([variance_errors(3, lam, 2000, seed) for seed in range(5)])
    assert ours.max() < 1e-9
    ours, expansion = np.transpose([variance_errors(6, lam, 150_000, seed) for seed in range(5)])
    assert ours.max() < 1e-5
    assert np.median(expansion) > 0.05


@fixed_profile
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([1, 2, 5]))
def test_a_layer_takes_no_more_than_its_bound(seed: int, lam: float, dim: int) -> None:
    """Fails if weights exceed 1 or the count is wrong: n log(1 + q) <= d log(1 + n / (d q lam)) for unit arms."""
    for level in (1, 2, 3):
        layer, weight2, _, _ = fill(level, dim, lam, 0.1, 8000, seed)
        q, count = 4.0**-level, int(layer.count)
        assert count == np.sum(weight2 > 0)
        assert np.all(weight2 <= 1 + 1e-12)
        assert 0 < count <= dim * np.log1p(count / (q * dim * lam)) / np.log1p(q)
        # The bound is not idle: the layer has been filled, which takes d log(1 / q^2) / log(1 + q) at lam = 1.
        assert count >= 0.5 * dim * np.log(1 / (q * q * lam)) / np.log1p(q)


@fixed_profile
@given(data(), st.integers(0, 2**32 - 1))
def test_followed_statistics_equal_fresh_ones(data: Data, seed: int) -> None:
    """Fails if the statistics of fixed arms move with another gain, step or direction than their layer."""
    arms = np.random.default_rng(seed).normal(size=(7, data.x.shape[1]))
    layers, stats, _ = learn_all(data, arms)
    for i, (width2, upper, pred) in enumerate(zip(*ridge.layer_stats(layers, arms, BETA), strict=True)):
        np.testing.assert_allclose(stats.width2[i], width2, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(stats.upper[i], upper, rtol=1e-9)
        if layers.count[i] > 0:
            np.testing.assert_allclose(upper, pred + BETA[i] * np.sqrt(width2 * 4.0 ** (i + 1)), rtol=1e-10)
        np.testing.assert_allclose(stats.pred[i], pred, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(width2, np.einsum("nd,de,ne->n", arms, layers.scaled_inv[i], arms), rtol=1e-10)
        np.testing.assert_allclose(pred, arms @ layers.theta_hat[i], rtol=1e-10, atol=1e-13)


@functools.partial(jax.jit, static_argnames="dim")
def _learn_with_fixed_arms(layer: jax.Array, x: jax.Array, reward: jax.Array, arms: jax.Array, *, dim: int) -> Any:
    """The layered algorithms' own bookkeeping of fixed arms."""
    algorithm = jv.ave_ucb(dim, 1000, capacity=CAPACITY).with_fixed_arms(arms)

    def step(state: Any, observation: Any) -> Any:
        layer, x, reward = observation
        choice = jv.Choice(jnp.int32(0), layer, jnp.ones(()), jnp.int32(0))
        return algorithm.update(state, choice, x, reward, jv.Side(jnp.zeros(()))), None

    return jax.lax.scan(step, algorithm.init(), (layer, x, reward))[0]


@fixed_profile
@given(data(), st.integers(0, 2**32 - 1))
def test_a_layered_algorithm_keeps_the_statistics_of_every_layer(data: Data, seed: int) -> None:
    """Fails if another layer's statistics move than those of the layer that learned."""
    arms = np.random.default_rng(seed).normal(size=(7, data.x.shape[1]))
    state = _learn_with_fixed_arms(data.layer, data.x, data.reward, arms, dim=data.x.shape[1])
    found = ridge.layer_stats(state.layers, arms, state.beta_hat)
    for i, (width2, upper, pred) in enumerate(zip(*found, strict=True)):
        np.testing.assert_allclose(state.stats.width2[i], width2, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(state.stats.upper[i], upper, rtol=1e-9)
        np.testing.assert_allclose(state.stats.pred[i], pred, rtol=1e-10, atol=1e-12)


@jax.jit
def _regress_all(x: jax.Array, y: jax.Array, lam: jax.Array, arms: jax.Array) -> Any:
    def step(carry: Any, observation: Any) -> Any:
        regression, update = ridge.regress(carry[0], *observation)
        return (regression, ridge.follow(carry[1], regression, update, arms, jnp.int32(1))), update

    start = ridge.init_ridge(x.shape[1], lam, x.dtype)
    return jax.lax.scan(step, (start, ridge.arm_stats(start, arms)), (x, y))


@fixed_profile
@given(data(), st.integers(0, 2**32 - 1))
def test_plain_regression_equals_the_explicit_sums(data: Data, seed: int) -> None:
    """Fails if inverse, estimate, loss, determinant, an update or the arms' statistics depart from their definition."""
    arms = np.random.default_rng(seed).normal(size=(7, data.x.shape[1]))
    (ours, stats), update = jax.tree.map(np.asarray, _regress_all(data.x, data.reward, data.lam, arms))
    gram = data.lam * np.eye(data.x.shape[1]) + data.x.T @ data.x
    theta = np.linalg.solve(gram, data.x.T @ data.reward)
    residual = data.reward - data.x @ theta
    np.testing.assert_allclose(ours.sigma_inv, np.linalg.inv(gram), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours.theta_hat, theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ours.loss, residual @ residual + data.lam * theta @ theta, rtol=1e-9)
    np.testing.assert_allclose(ours.log_det, np.linalg.slogdet(gram / data.lam)[1], rtol=1e-10)
    np.testing.assert_allclose(stats.width2, np.einsum("nd,de,ne->n", arms, np.linalg.inv(gram), arms), rtol=1e-9)
    np.testing.assert_allclose(stats.pred, arms @ theta, rtol=1e-9, atol=1e-11)
    before = gram - np.outer(data.x[-1], data.x[-1])
    direction = np.linalg.solve(before, data.x[-1])
    np.testing.assert_allclose(update.direction[-1], direction, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(update.width2[-1], data.x[-1] @ direction, rtol=1e-9)
    np.testing.assert_allclose(update.gain[-1], 1 / (1 + data.x[-1] @ direction), rtol=1e-9)
    np.testing.assert_allclose(update.step[-1], update.gain[-1] * update.error[-1], rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "bits"),
    [({}, 0), ({"error": np.nan}, jv.status.NONFINITE), ({"width2": np.inf}, jv.status.NONFINITE)],
)
def test_one_rule_for_failures(change: dict[str, float], bits: int) -> None:
    """Fails if a NaN or an infinite number is not reported, or a healthy observation is."""
    one = jnp.ones(())
    update = ridge.Update(jnp.ones(2), one, one, one, one)._replace(**{n: jnp.asarray(v) for n, v in change.items()})
    assert int(ridge.failure(update)) == bits
    assert int(ridge.failure(update, np.inf)) == jv.status.NONFINITE


def test_a_layer_says_where_a_width_underflows() -> None:
    """Fails if an observation whose weight would be infinite is learned in silence; without a layer none is."""
    layers = ridge.init_layers(2, 3, 1, np.float32)
    for layer, bits in ((2, jv.status.PRECISION), (0, 0)):
        after, update = ridge.observe(layers, jnp.int32(layer), jnp.full(2, 1e-30, np.float32), jnp.float32(0.5))
        assert int(ridge.layer_failure(update, 1.0)) == bits
        np.testing.assert_array_equal(after.scaled_inv, layers.scaled_inv)


@fixed_profile
@given(data(), st.integers(0, CAPACITY))
def test_only_the_named_layer_learns(data: Data, layer: int) -> None:
    """Fails if layer 0 (none) changes anything, or if a masked step leaks into another layer by one bit."""
    layers, _, _ = learn_all(data)
    after, update = ridge.observe(layers, jnp.int32(layer), data.x[0], jnp.asarray(data.reward[0]))
    for name in ("root", "theta_hat", "loss", "weight_sum", "count"):
        for i in range(CAPACITY):
            assert np.array_equal(getattr(layers, name)[i], getattr(after, name)[i]) == (i + 1 != layer), (name, i)
    np.testing.assert_array_equal(layers.lam, after.lam)
    assert (float(update.gain) > 0) == (layer > 0)


@fixed_profile
@given(data(), st.sampled_from([1e-12, 1.0, 1e6]))
def test_only_the_first_column_sees_what_was_learned(data: Data, times: float) -> None:
    """Fails if the reflection misses the first axis: rounding in the other columns would reach a played arm's width."""
    inverse = ridge.init_inverse(data.x.shape[1], data.lam, data.x.dtype)
    matrix = data.lam * np.eye(data.x.shape[1])
    for x in data.x[:20]:
        inverse, direction, width2 = jax.jit(ridge.learn_inverse)(inverse, x, times)
        np.testing.assert_allclose(direction, np.linalg.solve(matrix, x), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(width2, x @ np.linalg.solve(matrix, x), rtol=1e-8)
        matrix = matrix + times * np.outer(x, x)
        seen = np.asarray(inverse.root.T @ x)
        np.testing.assert_allclose(np.abs(seen[1:]), 0, atol=1e-13 * np.linalg.norm(inverse.root))
        np.testing.assert_allclose(inverse.matrix, np.linalg.inv(matrix), rtol=1e-7, atol=1e-9 / data.lam)
    np.testing.assert_allclose(inverse.log_det, np.linalg.slogdet(matrix / data.lam)[1], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("dim", [1, 2, 12, 13, 16, 17, 32, 35])
def test_lengths_under_roots_of_every_size(dim: int) -> None:
    """Fails if a column is left out, or counted twice, where sums are written out or looped over."""
    rng = np.random.default_rng(dim)
    arms, root = rng.normal(size=(4, dim)), rng.normal(size=(dim, dim))
    expected = np.sum((arms @ root) ** 2, axis=1)
    for accelerator, alone in ((False, False), (True, False), (False, True)):
        with lowering.form_for(accelerator, alone):
            np.testing.assert_allclose(lowering.square_lengths(arms, jnp.asarray(root)), expected, rtol=1e-12)
