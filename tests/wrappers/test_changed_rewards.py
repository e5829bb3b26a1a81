"""``corrupted`` and ``drifting``: against their twins round by round, and in everything that takes an environment."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import testing
from tests.algorithms.test_contract import Drifting as UsersBandit
from tests.helpers import cases as table
from tests.helpers.programs import trace
from tests.reference.wrappers_numpy import Adversary, turned

KEY = jax.random.key(3)
DIM, NUM_ARMS, NUM_ROUNDS = 3, 5, 40
NOISE = jv.noise.two_point(0.25)  # a power of two: rewards show exactly which noise was drawn


def bandit(fresh):
    return jv.linear_bandit(DIM, NUM_ARMS, noise=NOISE, fresh=fresh)


def played(environment):
    """A run of uniform play, whose actions do not depend on rewards."""
    return jax.tree.map(np.asarray, trace(jv.uniform(), environment, KEY, num_rounds=NUM_ROUNDS, seed=2))


@pytest.mark.parametrize(("budget", "per_round"), [(11.0, 2.0), (3.3, 0.25), (0.5, 7.0)])
def test_corruption_follows_its_twin(budget, per_round):
    """The reward lacks what the adversary takes, the budget is kept, and the records are those of the true means."""
    plain, found = played(bandit(True)), played(jv.corrupted(bandit(True), budget, per_round=per_round))
    adversary = Adversary(budget, per_round)
    mean = plain.mean[np.arange(NUM_ROUNDS), plain.action]
    taken = np.array([adversary.corruption(m) for m in mean])
    np.testing.assert_allclose(plain.reward - found.reward, taken, rtol=1e-12, atol=1e-12)
    assert 0 < np.abs(taken).sum() <= budget + 1e-12
    for name in ("arms", "mean", "action", "noise_var", "regret"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name), err_msg=name)


def test_a_full_corruption_is_the_opposite_theta():
    """Means in [-1, 1] are turned around whole by the default, which is what the docstring says."""
    opposite = played(jv.corrupted(bandit(True), 2.0 * NUM_ROUNDS))
    mean = opposite.mean[np.arange(NUM_ROUNDS), opposite.action]
    np.testing.assert_allclose(np.abs(opposite.reward + mean), 0.25, rtol=1e-12)


@pytest.mark.parametrize("fresh", [pytest.param(False, marks=pytest.mark.slow), True])
def test_drift_follows_its_twin(fresh):
    """Means, regret and rewards are those of the theta* of the round."""
    speed = 0.11
    plain, found = played(bandit(fresh)), played(jv.drifting(bandit(fresh), speed))
    noise = plain.reward - plain.mean[np.arange(NUM_ROUNDS), plain.action]
    regret = 0.0
    for k in range(NUM_ROUNDS):
        mean = plain.arms[k] @ turned(plain.instance.theta_star, speed * k)
        np.testing.assert_allclose(found.mean[k], mean, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.reward[k], mean[plain.action[k]] + noise[k], rtol=1e-12, atol=1e-14)
        regret += mean.max() - mean[plain.action[k]]
        np.testing.assert_allclose(found.regret[k], regret, rtol=1e-12)
    np.testing.assert_array_equal(found.arms, plain.arms)
    np.testing.assert_array_equal(found.noise_var, plain.noise_var)
    assert not np.allclose(found.mean, plain.mean)


@pytest.mark.slow
def test_angles_may_be_given_by_round():
    """Where the list ends, so does the run."""
    angles = np.linspace(0.0, 3.0, NUM_ROUNDS) ** 2
    environment = jv.drifting(bandit(True), jv.schedules.by_round(angles))
    found = played(environment)
    theta = played(bandit(True)).instance.theta_star
    expected = np.stack([arms @ turned(theta, angle) for arms, angle in zip(found.arms, angles, strict=True)])
    np.testing.assert_allclose(found.mean, expected, rtol=1e-12, atol=1e-14)
    assert environment.max_rounds == NUM_ROUNDS and jv.drifting(bandit(True), 0.1).max_rounds is None
    with pytest.raises(ValueError, match=f"at most {NUM_ROUNDS}, got {NUM_ROUNDS + 1}"):
        jv.run(jv.uniform(), environment, KEY, num_rounds=NUM_ROUNDS + 1)


@pytest.mark.parametrize("fresh", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "wrap", [lambda e: jv.corrupted(e, 0.0), lambda e: jv.drifting(e, 0.0)], ids=["corrupted", "drifting"]
)
def test_nothing_changed_is_the_same_to_the_bit(wrap, fresh):
    setting = {"key": KEY, "num_rounds": 60, "num_seeds": 4, "record_at": 6}
    plain, found = (jv.simulate(jv.oful(DIM), e, **setting) for e in (bandit(fresh), wrap(bandit(fresh))))
    np.testing.assert_array_equal(found.regret, plain.regret)
    np.testing.assert_array_equal(found.variance, plain.variance)


def test_numbers_are_swept():
    """One program for all budgets, and one for all speeds; each setting is what it is alone."""
    setting = {"key": KEY, "num_rounds": 30, "num_seeds": 3, "record_at": 1}
    learner = jv.oful(DIM, noise_bound=2.5)
    both = jv.drifting(jv.corrupted(bandit(False), 1.0), 0.1)
    swept = jv.simulate(learner, jv.sweep(both, budget=[0.0, 9.0], speed=[0.0, 0.3]), **setting)
    alone = jv.simulate(learner, jv.drifting(jv.corrupted(bandit(False), 9.0), 0.3), **setting)
    assert swept.regret.shape == (4, 3, 1)
    np.testing.assert_allclose(swept.regret[3], alone.regret, rtol=1e-9)
    assert len(np.unique(swept.regret.sum(axis=(1, 2)))) == 4


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: jv.drifting(UsersBandit(), 0.1), marks=pytest.mark.slow),
        lambda: jv.drifting(table._linear(arms=table.FIXED_ARMS), 0.1),
        lambda: jv.corrupted(UsersBandit(fixed_arms=True), 0.0),
    ],
    ids=["drifting-own", "drifting-fixed", "corrupted-own"],
)
def test_wrapped_environments_keep_the_contract(make):
    testing.check_environment(make())


def test_the_contract_notices_corruption():
    """It breaks the rule that rewards have the means they are said to have, and no other."""
    with pytest.raises(testing.ContractError, match="mean zero"):
        testing.check_environment(jv.corrupted(UsersBandit(), 1.0))


class PlainBandit:
    """A user's environment that is no pytree."""

    mine = UsersBandit()

    def init(self, key):
        return self.mine.init(key)

    def observe(self, instance, round, key):
        return self.mine.observe(instance, round, key)

    def pull(self, instance, observation, action, round, key):
        return self.mine.pull(instance, observation, action, round, key)


def test_a_users_class_need_not_be_a_pytree():
    setting = {"num_rounds": 10, "record_at": [10]}
    ours, theirs = (
        jv.run(jv.uniform(), jv.drifting(jv.corrupted(e, 3.0), 0.2), KEY, **setting)
        for e in (UsersBandit(), PlainBandit())
    )
    np.testing.assert_array_equal(ours.regret, theirs.regret)


def test_facts_are_passed_on_as_far_as_they_are_true():
    spoiled, moving = jv.corrupted(bandit(False), 5.0, per_round=1.5), jv.drifting(bandit(False), 0.1)
    assert (spoiled.dim, spoiled.num_arms, spoiled.fixed_arms, spoiled.max_rounds) == (DIM, NUM_ARMS, True, None)
    assert float(spoiled.noise_bound) == 1.75 and float(jv.corrupted(bandit(False), 0.5).noise_bound) == 0.75
    assert float(moving.noise_bound) == 0.25 and moving.fixed_arms
    assert not hasattr(jv.corrupted(UsersBandit(), 1.0), "noise_bound")
    with pytest.warns(UserWarning, match=r"Oful was told noise_bound=1 \(R\), and Corrupted has noise_bound=1.75"):
        jv.game.check_call(jv.oful(DIM), spoiled, KEY, 5, None, ())
    with pytest.raises(ValueError, match="instance with `theta_star`"):
        jv.run(jv.oful(DIM), moving, KEY, num_rounds=5, recorders=(jv.record.confidence(),))


class NoTheta(NamedTuple):
    arms: jax.Array


class WithoutTheta(PlainBandit):
    def init(self, key):
        return NoTheta(jnp.eye(2))


BAD = [
    (lambda: jv.corrupted(bandit(False), -1.0), r"budget must be a finite number in \[0, inf\), got -1.0"),
    (lambda: jv.corrupted(bandit(False), float("nan")), r"budget must be a finite number in \[0, inf\), got nan"),
    (lambda: jv.corrupted(bandit(False), "1"), r"budget must be one number in \[0, inf\), got '1'"),
    (lambda: jv.corrupted(bandit(False), 1, per_round=0.0), r"per_round must be a finite number in \(0, inf\), got 0"),
    (lambda: jv.corrupted(jv.oful(DIM), 1.0), "environment must be a bandit environment with the methods init, obs"),
    (lambda: jv.drifting(jv.riverswim(3, 4), 0.1), "environment must be a bandit .*, which is for episodes"),
    (lambda: jv.drifting(bandit(False), float("inf")), r"schedule must be a finite number in \(-inf, inf\), got inf"),
    (lambda: jv.drifting(bandit(False), "fast"), r"schedule must be one number in \(-inf, inf\), got 'fast'"),
    (lambda: jv.drifting(jv.linear_bandit(1, 2), 0.1), "environment must have instances with a theta_star of length 2"),
    (lambda: jv.drifting(WithoutTheta(), 0.1), "environment must have instances with a theta_star .* WithoutTheta"),
    (lambda: jv.drifting(table._replay(True), 0.1), "environment must have means that are <a, theta_star> .* Replay"),
    (lambda: jv.drifting(jv.hypercube_bandit(2, 50), 0.1), "environment must have noise whose variance .* Hypercube"),
    (
        lambda: jv.corrupted(jv.sweep(bandit(False), norm_bound=[1.0, 2.0]), 1.0),
        "environment must be one setting, got a sweep of LinearBandit; wrap first",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=rf"^{message}"):
        make()
