"""Which arms are there: the laws that are drawn from, masks that are given, and what is refused.

A right law fails a test below with probability 2e-7 per number compared: 5.2 standard errors, two-sided.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.study import factories

KEY = jax.random.key(11)
ROUNDS = 4000
NUM_ARMS = 5


def masks(available, num_arms=NUM_ARMS, **options):
    """The masks of many rounds, [rounds, arms]."""
    environment = jv.linear_bandit(2, num_arms, available=available, **options)
    instance = environment.init(KEY)
    rounds = jnp.arange(1, ROUNDS + 1, dtype=jnp.int32)
    seen = jax.jit(jax.vmap(lambda k: environment.observe(instance, k, jv.random.fold_in(KEY, k))))(rounds)
    assert seen.available.dtype == bool
    return np.asarray(seen.available)


@pytest.mark.parametrize("num", [1, 2, 4, 5])
def test_a_number_of_arms_is_drawn_without_replacement(num):
    """So many in each round, every arm as often as any other, and every pair too."""
    there = masks(num)
    assert np.all(there.sum(1) == num)
    share = num / NUM_ARMS
    error = np.abs(there.mean(0) - share)
    assert np.all(error <= 5.2 * np.sqrt(share * (1 - share) / ROUNDS))
    pair = num * (num - 1) / (NUM_ARMS * (NUM_ARMS - 1))
    both = (there[:, :, None] & there[:, None]).mean(0)[np.triu_indices(NUM_ARMS, 1)]
    assert np.all(np.abs(both - pair) <= 5.2 * np.sqrt(pair * (1 - pair) / ROUNDS))


@pytest.mark.parametrize("probability", [0.05, 0.3, 0.9])
def test_arms_are_there_by_chance(probability):
    """Each by itself; where none would be, one is, and any of them as often as the others."""
    there, p = masks(probability), probability
    assert np.all(there.any(1))
    none = (1 - p) ** NUM_ARMS
    expected = p + none / NUM_ARMS
    assert np.all(np.abs(there.mean(0) - expected) < 5.2 * np.sqrt(expected * (1 - expected) / ROUNDS))
    alone = (there.sum(1) == 1).mean()
    single = NUM_ARMS * p * (1 - p) ** (NUM_ARMS - 1) + none
    assert abs(alone - single) < 5.2 * np.sqrt(single * (1 - single) / ROUNDS)


def test_arms_and_noise_do_not_depend_on_who_is_there():
    """The mask has numbers of its own: with it, the same arms and rewards as without."""
    for fresh in (False, True):
        seen = []
        for available in (None, 2, 0.5):
            environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.3), available=available, fresh=fresh)
            instance = environment.init(KEY)
            round, key = jnp.int32(4), jv.random.fold_in(KEY, 4)
            observation = environment.observe(instance, round, key)
            reward = environment.pull(instance, observation, jnp.int32(1), round, key)
            seen.append((observation.arms, observation.mean, observation.noise_var, reward))
            assert (observation.available is None) == (available is None)
        for other in seen[1:]:
            jax.tree.map(np.testing.assert_array_equal, seen[0], other)


def test_a_given_mask_is_played_back():
    """By round, or the same in all rounds."""
    rng = np.random.default_rng(0)
    arms, noise = rng.normal(size=(4, 3, 2)), np.zeros(4)
    by_round = np.array([[1, 0, 0], [1, 1, 1], [0, 1, 1], [0, 0, 1]], bool)
    for mask in (by_round, by_round[2], by_round[2].tolist(), jnp.asarray(by_round)):
        environment = jv.replay_bandit(arms, arms[:, :, 0], noise, available=mask)
        shown = [environment.observe(environment.init(KEY), jnp.int32(k), KEY).available for k in (1, 2, 3, 4)]
        np.testing.assert_array_equal(shown, np.broadcast_to(mask, (4, 3)))


@pytest.mark.parametrize("value", [0, -1, 4, True, 0.0, 1.0, 1.5, -0.2, float("nan"), "two", [1], np.ones(3, bool)])
def test_wrong_numbers_of_arms_are_refused(value):
    """The argument, what it may be, and what it was; three arms cannot be four."""
    with pytest.raises(ValueError, match=r"^available must be .*got") as found:
        jv.linear_bandit(2, 3, available=value)
    assert repr(value) in str(found.value)


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (np.ones((4, 3)), "True and False"),
        (np.ones((4, 2), bool), r"shape \[4, 3\], got \[4, 2\]"),
        (np.ones((3, 3), bool), r"shape \[4, 3\], got \[3, 3\]"),
        (np.ones(4, bool), r"shape \[3\], got \[4\]"),
        (np.ones((1, 4, 3), bool), r"\[1, 4, 3\]"),
        (np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]], bool), "at least one arm .*got none in round 3"),
        (np.zeros(3, bool), "at least one arm"),
        ([[True], [True, False]], "rows of different lengths"),
        (True, "True and False"),
        ("all", "True and False"),
    ],
)
def test_wrong_masks_are_refused(mask, said):
    """Before anything is compiled; a round without an arm by its number."""
    with pytest.raises(ValueError, match=rf"^available must .*{said}"):
        jv.replay_bandit(np.zeros((4, 3, 2)), np.zeros((4, 3)), np.zeros(4), available=mask)


def test_a_probability_can_be_swept():
    """It is a number like others; a number of arms sets the program."""
    swept = jv.sweep(jv.linear_bandit(2, 3, available=0.5), probability=[0.2, 0.8])
    assert jax.tree.leaves(swept.available)[0].shape == (2,)
    with pytest.raises(ValueError, match=r"probability must be a finite number in \(0, 1\)"):
        jv.sweep(jv.linear_bandit(2, 3, available=0.5), probability=[0.2, 1.5])


@pytest.mark.parametrize(("value", "num"), [(2, 2), (0.5, None)])
def test_a_study_takes_it(value, num):
    """As any other parameter that is declared, with the same refusals."""
    linear = factories.find_factory("linear_bandit", "environment")
    built = factories.build(linear, {"dim": 2, "num_arms": 3, "available": value}, {})
    assert built.config["available"] == value and getattr(built.target.available, "num", None) == num
    with pytest.raises(factories.StudyError, match="available must be at most the number of arms, 3, got 9"):
        factories.build(linear, {"dim": 2, "num_arms": 3, "available": 9}, {})
    with pytest.raises(factories.StudyError, match="available must not be true or false"):
        factories.build(linear, {"dim": 2, "num_arms": 3, "available": True}, {})
