"""What the theory says about SAVE, and what must not change its results."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.parameters import pytree
from tests.helpers.problems import replay, two_point, unit_arms
from tests.helpers.programs import trace

run = functools.partial(jax.jit, static_argnames=("num_rounds", "record_at"))(jv.run)


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize("explore", ["widest", "first", "random", "optimistic"])
def test_without_noise_estimates_approach_the_truth(explore: str) -> None:
    """Fails if a layer is fed with wrong weights or rewards: its error is at most 2^-l |theta*| in the norm of Sigma.

    Without noise |theta_l - theta*|_Sigma = sqrt(q) |theta*|_{q Sigma^-1} <= 2^-l, so <a, theta_l> is off by at most
    2^-l times the width; a passed layer has widths up to 2^-l, hence 4^-l.
    """
    num_rounds, dim = 4000, 2
    arms, theta = unit_arms(0, num_rounds, 12, dim), unit_arms(1, dim)
    algorithm = jv.save(dim, num_rounds, constants=jv.constants.practical(1e-3), explore=explore, capacity=7)
    result = trace(algorithm, replay(arms, theta, np.zeros(num_rounds)), jax.random.key(0), num_rounds=num_rounds)
    assert result.status == 0
    layers = jax.tree.map(lambda v: np.asarray(v[-1]), result.state.layers)
    deepest = int(np.max(result.layer))
    assert deepest >= 4
    error = layers.theta_hat - theta
    for i in range(deepest):
        q = 4.0 ** -(i + 1)
        assert error[i] @ np.linalg.solve(layers.scaled_inv[i], error[i]) <= 1 + 1e-9  # |.|_Sigma^2 / q
        width2 = np.einsum("nd,de,ne->n", arms[-1], layers.scaled_inv[i], arms[-1]) / q
        assert np.all(np.abs(arms[-1] @ error[i]) <= np.sqrt(q * width2) + 1e-12)
    assert np.linalg.norm(error[0]) > 4 * np.linalg.norm(error[1]) > 16 * np.linalg.norm(error[2])
    assert np.linalg.norm(error[2]) < 0.02


@pytree
class Survivors:
    """A recorder for fixed arms: whether the best one has always been active, and how many are."""

    name = "survivors"

    def init(self, algorithm: Any, instance: Any) -> jax.Array:
        return jnp.array([1, instance.arms.shape[0]], jnp.int32)

    def update(self, memory: jax.Array, event: Any, algorithm: Any, instance: Any) -> jax.Array:
        active = event.state.active
        best = active[jnp.argmax(jnp.sum(instance.arms * instance.theta_star[None], axis=1))]
        return jnp.stack([memory[0] & best.astype(jnp.int32), jnp.sum(active, dtype=jnp.int32)])

    def read(self, memory: jax.Array) -> jax.Array:
        return memory


@pytest.mark.parametrize(
    ("constants", "num_rounds"),
    [
        (jv.constants.paper(), 3000),
        slow(jv.constants.paper_fixed(), 9000),
        (jv.constants.tight(), 1000),
    ],
)
def test_best_arm_survives_and_the_confidence_event_holds(constants: Any, num_rounds: int) -> None:
    """Fails if a radius is too small or elimination too harsh.

    The event fails with probability at most delta = 1e-6 per seed: a false alarm in 200 seeds has probability below
    2e-4 with proved constants. Noise so small makes the radii small enough for arms to be dropped within these rounds.
    """
    num_seeds, bound = 200, 1e-4
    result = jv.simulate(
        jv.save(2, num_rounds, noise_bound=bound, delta=1e-6, constants=constants),
        jv.linear_bandit(2, 6, noise=jv.noise.two_point(bound)),
        key=jax.random.key(2),
        num_rounds=num_rounds,
        num_seeds=num_seeds,
        record_at=1,
        recorders=(jv.record.confidence(), Survivors()),
    )
    result.raise_if_failed()
    best_survived, num_active = result.survivors[:, -1].T
    assert result.confidence.all()
    assert best_survived.all()
    assert np.mean(num_active < 6) > 0.5  # and not because nothing was dropped


def explicit_event(algorithm: Any, state: Any, theta: np.ndarray) -> np.ndarray:
    """``|theta_hat - theta*|_Sigma <= beta`` by explicit matrices, ``[rounds, capacity]``."""
    q = 4.0 ** -np.arange(1, algorithm.capacity + 1)
    error = np.asarray(state.layers.theta_hat) - theta
    sigma = q[:, None, None] * np.linalg.inv(np.asarray(state.layers.scaled_inv))
    return np.einsum("kld,klde,kle->kl", error, sigma, error) <= np.asarray(state.beta_hat) ** 2


def test_recorded_confidence_event_is_the_explicit_one() -> None:
    """Fails if the recorder's identity misses a term: here the radius is so small that the event does fail."""
    num_rounds, dim = 600, 3
    arms, theta = unit_arms(3, num_rounds, 8, dim), unit_arms(4, dim)
    environment = replay(arms, theta, two_point(5, num_rounds, 0.5))
    constants = dataclasses.replace(jv.constants.practical(1e-3), bias_coef=np.asarray(0.2))
    algorithm = jv.save(dim, num_rounds, constants=constants, capacity=5)
    key = jax.random.key(0)
    result = trace(algorithm, environment, key, num_rounds=num_rounds)
    every = tuple(range(1, num_rounds + 1))
    recorded = jv.run(
        algorithm, environment, key, num_rounds=num_rounds, record_at=every, recorders=(jv.record.confidence(),)
    )
    explicit = np.logical_and.accumulate(explicit_event(algorithm, result.state, theta), axis=0)
    assert not explicit[-1].all()
    np.testing.assert_array_equal(recorded.records["confidence"], explicit)


@pytest.mark.parametrize("explore", ["optimistic", *map(slow, ("widest", "first", "random"))])
@pytest.mark.parametrize("ties", ["lowest", "random"])
def test_fixed_arms_are_a_shortcut_only(explore: str, ties: str) -> None:
    """Fails if the one-layer path drops, keeps or pulls another arm than the general path in any round."""
    num_rounds, dim, num_arms = 2500, 3, 10
    arms, theta = unit_arms(6, num_arms, dim), unit_arms(7, dim)
    arms[::3] *= 0.2
    noise = two_point(8, num_rounds, 0.1)
    algorithm = jv.save(dim, num_rounds, constants=jv.constants.practical(0.01), explore=explore, ties=ties, capacity=7)
    repeated = np.broadcast_to(arms, (num_rounds, num_arms, dim))
    short, general = (
        trace(algorithm, replay(a, theta, noise), jax.random.key(1), num_rounds=num_rounds) for a in (arms, repeated)
    )
    assert not short.state.active[-1].all() and int(short.layer.max()) >= 4
    np.testing.assert_array_equal(short.action, general.action)
    np.testing.assert_array_equal(short.layer, general.layer)
    np.testing.assert_allclose(short.weight, general.weight, rtol=1e-10)
    np.testing.assert_allclose(short.state.beta_hat, general.state.beta_hat, rtol=1e-10)
    np.testing.assert_allclose(short.state.loss, general.state.layers.loss, rtol=1e-10)


@pytest.mark.parametrize("fresh", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_too_small_a_capacity_is_reported_and_repaired(fresh: bool) -> None:
    """Fails if a run that needs a layer that is not stored says nothing, or if the rerun differs from a good run."""
    num_rounds, dim = 1500, 2
    environment = jv.linear_bandit(dim, 6, noise=jv.noise.uniform(0.1), fresh=fresh)
    few, enough = (
        jv.save(dim, num_rounds, constants=jv.constants.practical(0.01), capacity=capacity) for capacity in (2, 6)
    )
    key = jax.random.key(3)
    assert int(run(few, environment, key, num_rounds=num_rounds, record_at=1).status) & jv.status.CAPACITY
    assert int(run(enough, environment, key, num_rounds=num_rounds, record_at=1).status) == 0
    results = [
        jv.simulate(
            a,
            environment,
            key=key,
            num_rounds=num_rounds,
            num_seeds=8,
            recorders=(jv.record.regret(), jv.record.layer_rounds()),
        )
        for a in (few, enough)
    ]
    assert [r.capacity for r in results] == [6, 6]
    for r in results:
        r.raise_if_failed()
    for name in ("regret", "layer_rounds"):
        np.testing.assert_array_equal(results[0].records[name], results[1].records[name])


@pytest.mark.parametrize("factory", [jv.save, slow(jv.ave_ucb)])
@pytest.mark.parametrize("fresh", [False, True])
def test_layers_that_are_never_reached_need_not_be_stored(factory: Any, fresh: bool) -> None:
    """Fails if the number of stored layers gets into the logarithms or into the indices."""
    num_rounds, dim = 400, 2
    arms, theta = unit_arms(9, *((num_rounds,) if fresh else ()), 7, dim), unit_arms(10, dim)
    environment = replay(arms, theta, two_point(11, num_rounds, 0.1))
    few, all_of_them = (
        trace(
            factory(dim, num_rounds, constants=jv.constants.practical(0.01), capacity=capacity),
            environment,
            jax.random.key(4),
            num_rounds=num_rounds,
        )
        for capacity in (5, 13)  # L = ceil(1.5 log2 400) = 13
    )
    assert few.status == 0 and few.layer.max() >= 2
    np.testing.assert_array_equal(few.action, all_of_them.action)
    np.testing.assert_array_equal(few.layer, all_of_them.layer)
    np.testing.assert_allclose(few.weight, all_of_them.weight, rtol=1e-12)
    np.testing.assert_allclose(few.state.beta_hat, all_of_them.state.beta_hat[:, :5], rtol=1e-12)


@pytest.mark.parametrize("fresh", [False, True])
def test_order_of_the_arms_does_not_matter(fresh: bool) -> None:
    """Fails if an arm's place, not its values, decides: arms of different lengths never tie, so the same win."""
    num_rounds, dim, num_arms = 1500, 3, 9
    rng = np.random.default_rng(12)
    arms, theta = unit_arms(13, *((num_rounds,) if fresh else ()), num_arms, dim), unit_arms(14, dim)
    arms *= rng.uniform(0.2, 1.0, size=(*arms.shape[:-1], 1))
    noise, order = two_point(15, num_rounds, 0.1), rng.permutation(num_arms)
    algorithm = jv.save(dim, num_rounds, constants=jv.constants.practical(0.01), ties="lowest", capacity=7)
    straight, permuted = (
        trace(algorithm, replay(a, theta, noise), jax.random.key(5), num_rounds=num_rounds)
        for a in (arms, arms[..., order, :])
    )
    np.testing.assert_array_equal(straight.action, order[np.asarray(permuted.action)])
    np.testing.assert_array_equal(straight.layer, permuted.layer)
    np.testing.assert_allclose(straight.regret, permuted.regret, rtol=1e-10)


@pytest.mark.parametrize("ties", ["lowest", "random"])
def test_equal_arms_are_told_apart_by_the_tie_rule_alone(ties: str) -> None:
    """Fails if rounding picks among copies: the lowest copy is always pulled, or each of them about as often."""
    num_rounds, dim = 1200, 2
    arms, theta = np.tile(unit_arms(16, 4, dim), (3, 1)), unit_arms(17, dim)
    algorithm = jv.save(dim, num_rounds, constants=jv.constants.practical(0.01), ties=ties, capacity=7)
    result = trace(
        algorithm, replay(arms, theta, two_point(18, num_rounds, 0.1)), jax.random.key(6), num_rounds=num_rounds
    )
    copies = np.bincount(np.asarray(result.action) // 4, minlength=3)
    if ties == "lowest":
        assert copies[0] == num_rounds
    else:  # 400 each with a standard deviation of 16: 7 of them happen by chance once in 1e11 times
        assert np.all(np.abs(copies - num_rounds / 3) < 115)
