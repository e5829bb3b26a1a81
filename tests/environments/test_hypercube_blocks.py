"""The lower-bound instance for a variance sequence, against its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv

KEY = jax.random.key(0)
DIM, ROUNDS, LEVELS, ORDER = 2, 600, (0.25, 1.0, 0.5), (0, 0, 1, 2)


def blocks(**options):
    return jv.hypercube_blocks(DIM, ROUNDS, LEVELS, **{"order": ORDER, **options})


def test_a_round_is_a_hypercube_in_the_coordinates_of_its_block():
    """Arms, means, variances and gaps of each round by hand, from theta* and the order alone."""
    environment = blocks(gap_multiplier=3.0)
    instance = environment.init(KEY)
    theta = np.asarray(instance.theta_star).reshape(len(LEVELS), DIM + 1)
    np.testing.assert_allclose(theta[:, 0], 1 / 3)
    rounds = np.array([300, 150, 150])
    np.testing.assert_allclose(np.abs(theta[:, 1:]), np.repeat(3 / np.sqrt(96 * rounds)[:, None], DIM, axis=1))
    cube = np.array([[1, a, b] for a in (-1, 1) for b in (-1, 1)])
    for round in range(1, 10):
        block = ORDER[(round - 1) % len(ORDER)]
        arms = np.zeros((len(cube), len(LEVELS), DIM + 1))
        arms[:, block] = LEVELS[block] * cube
        prob = cube @ theta[block]
        seen = environment.observe(instance, jnp.int32(round), KEY)
        np.testing.assert_allclose(seen.arms, arms.reshape(len(cube), -1))
        np.testing.assert_allclose(seen.mean, LEVELS[block] * prob)
        np.testing.assert_allclose(seen.noise_var, LEVELS[block] ** 2 * prob * (1 - prob))
    assert environment.dim == 9 and environment.num_arms == 4
    assert np.isclose(environment.norm_bound, np.sqrt(3)) and environment.noise_bound == 1


def test_rewards_are_zero_or_the_level_with_the_stated_mean_and_variance():
    """Over 40,000 rounds; sums of a block's noise above 4.5 standard deviations have probability below 1e-5."""
    rounds = 40_000
    environment = jv.hypercube_blocks(DIM, rounds, LEVELS, order=ORDER, gap_multiplier=100.0)
    trace = jv.trace(jv.uniform(), environment, KEY, num_rounds=rounds)
    reward, variance = np.asarray(trace.reward), np.asarray(trace.noise_var)
    noise = reward - np.asarray(trace.mean)[np.arange(rounds), trace.action]
    block = np.resize(ORDER, rounds)
    for i, level in enumerate(LEVELS):
        mine = block == i
        np.testing.assert_array_equal(np.unique(reward[mine]), [0.0, level])
        assert abs(noise[mine].sum()) < 4.5 * np.sqrt(variance[mine].sum())
        assert np.isclose(np.sum(noise[mine] ** 2) / variance[mine].sum(), 1, atol=0.05)


def test_the_lower_bound_is_half_of_uniform_play():
    """At gap multiplier 1, by hand and by the means of every round."""
    environment = blocks()
    rounds = np.array([300, 150, 150])
    by_hand = DIM * (np.array(LEVELS) * np.sqrt(rounds)).sum() / (8 * np.sqrt(6))
    assert np.isclose(environment.lower_bound, by_hand)
    mean = np.asarray(jv.trace(jv.uniform(), environment, KEY, num_rounds=ROUNDS).mean)
    assert np.isclose((mean.max(axis=1) - mean.mean(axis=1)).sum(), 2 * by_hand)


def test_one_block_is_the_hypercube_bandit():
    """Same draws, same numbers."""
    one = jv.hypercube_blocks(3, 200, [0.5], gap_multiplier=2.0)
    other = jv.hypercube_bandit(3, 200, level=0.5, gap_multiplier=2.0)
    assert np.isclose(one.lower_bound, other.lower_bound)
    mine, theirs = (jv.trace(jv.uniform(), e, KEY, num_rounds=200) for e in (one, other))
    for name in ("arms", "mean", "noise_var", "reward", "regret"):
        np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), atol=1e-12, err_msg=name)


def test_blocks_come_in_turn_unless_told_otherwise():
    """And every one of them must come."""
    np.testing.assert_array_equal(blocks(order=None).order, [0, 1, 2])
    with pytest.raises(ValueError, match="order must have every block in 600 rounds, got none of block 2"):
        blocks(order=[0, 1])
