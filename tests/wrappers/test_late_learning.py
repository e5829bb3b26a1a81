"""``delayed`` and ``batched``: against their twins round by round, and in everything that takes an algorithm."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import testing
from tests.algorithms.test_contract import EpsilonGreedy, Pick
from tests.helpers.programs import trace
from tests.helpers.twins import draw_arms, drawn
from tests.reference import oful_numpy, wrappers_numpy

KEY = jax.random.key(3)
DIM, NUM_ARMS, NUM_ROUNDS, SEED = 3, 6, 120, 4
ENVIRONMENT = jv.linear_bandit(DIM, NUM_ARMS, noise=jv.noise.two_point(0.3))
PRACTICAL = jv.constants.practical(beta_scale=0.2)


def oful():
    return jv.oful(DIM)


def save():
    return jv.save(DIM, NUM_ROUNDS, alpha=0.02, capacity=6, constants=PRACTICAL)


def twin_of(algorithm):
    if isinstance(algorithm, type(save())):
        numbers = {name: float(getattr(PRACTICAL, name)) for name in jv.constants.number_names()}
        return wrappers_numpy.SaveByRounds(
            dim=DIM, alpha=0.02, noise_bound=1.0, delta=0.01, constants=numbers, ties="random"
        )
    radius = {"noise_bound": 1.0, "delta": 0.01, "theta_bound": 1.0, "radius": "determinant", "norm_bound": 1.0}
    return oful_numpy.Twin(
        dim=DIM, lam=1.0, ties="random", tie_tolerance=1e-9, beta_scale=1.0, fixed_radius=None, **radius
    )


def problem(fixed):
    rng = np.random.default_rng(1)
    theta, arms = draw_arms(rng, DIM, NUM_ARMS, (0.5, 1.0), None if fixed else NUM_ROUNDS)
    arms[..., -1, :] = arms[..., 0, :]  # a tie
    noise = 0.3 * rng.choice([-1.0, 1.0], size=(NUM_ROUNDS, NUM_ARMS))
    return jv.replay_bandit(arms, arms @ theta, noise, noise_var=noise**2)


CASES = {
    "delayed-oful": (lambda: jv.delayed(oful(), 7), lambda: wrappers_numpy.Late(twin_of(oful()), 7), True),
    "delayed-save": (lambda: jv.delayed(save(), 7), lambda: wrappers_numpy.Late(twin_of(save()), 7), True),
    "batched-oful": (lambda: jv.batched(oful(), 9), lambda: wrappers_numpy.Frozen(twin_of(oful()), 9), True),
    "batched-save": (lambda: jv.batched(save(), 9), lambda: wrappers_numpy.Frozen(twin_of(save()), 9), False),
}


@pytest.mark.parametrize("case", CASES)
def test_follows_its_twin(case):
    """A reward that is a round early or late, or a choice by a fresh state, changes actions or estimates."""
    make, make_twin, fixed = CASES[case]
    ours = jax.tree.map(np.asarray, trace(make(), problem(fixed), KEY, num_rounds=NUM_ROUNDS, seed=SEED))
    assert ours.status == 0
    twin, u, different = make_twin(), drawn(KEY, SEED, NUM_ROUNDS), 0
    for k in range(NUM_ROUNDS):
        action = twin.select(ours.arms[k], u[k], None)
        assert action == ours.action[k], f"round {k + 1}: the twin plays {action}, the algorithm {ours.action[k]}"
        twin.update(ours.arms[k, action], ours.reward[k], ours.noise_var[k])
        for path, value in twin.learned().estimates().items():
            found = functools.reduce(getattr, path.split("."), ours.state.learner)[k]
            np.testing.assert_allclose(found, value, rtol=1e-8, atol=1e-10, err_msg=f"{path} after round {k + 1}")
        different += k > 0 and ours.action[k] != ours.action[k - 1]
    assert different > 5, "a run that always plays one arm says little"


@pytest.mark.parametrize("make", [oful, pytest.param(save, marks=pytest.mark.slow)])
@pytest.mark.parametrize("wrap", [lambda a: jv.delayed(a, 0), lambda a: jv.batched(a, 1)], ids=["delayed", "batched"])
def test_nothing_late_is_the_same_to_the_bit(make, wrap):
    """Also with the form for fixed arms, which is used only then."""
    setting = {"key": KEY, "num_rounds": 60, "num_seeds": 4, "record_at": 6}
    plain = jv.simulate(make(), ENVIRONMENT, **setting)
    found = jv.simulate(wrap(make()), ENVIRONMENT, **setting)
    found.raise_if_failed()
    np.testing.assert_array_equal(found.regret, plain.regret)
    np.testing.assert_array_equal(found.variance, plain.variance)


def test_the_state_is_unchanged_until_the_first_reward_arrives():
    """By a choice among the leaves of two states, so whatever ``update`` does with zeros is not seen."""
    found = trace(jv.delayed(oful(), 7), problem(True), KEY, num_rounds=NUM_ROUNDS, seed=SEED)
    for name, first in oful().init()._asdict().items():
        for x, y in zip(jax.tree.leaves(getattr(found.state.learner, name)), jax.tree.leaves(first), strict=True):
            np.testing.assert_array_equal(x[:7], np.broadcast_to(y, (7, *y.shape)), err_msg=name)
    np.testing.assert_array_equal(found.state.learner.round[6:9], [0, 1, 2])


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "make",
    [
        lambda: jv.delayed(jv.oful(2), 1),
        lambda: jv.batched(jv.oful(2), 2),
        lambda: jv.delayed(EpsilonGreedy(), 1),
        lambda: jv.delayed(jv.batched(jv.lin_ts(2, 50), 2), 1),
    ],
    ids=["delayed-oful", "batched-oful", "delayed-own", "nested"],
)
def test_wrapped_algorithms_keep_the_contract(make, monkeypatch):
    monkeypatch.setattr(testing.contract, "_ROUNDS", 3)
    testing.check_algorithm(make(), dim=2, num_arms=3)


class Plain:
    """A user's class that is no pytree, without a ``dim``, whose choice has an entry for each arm."""

    def __init__(self, epsilon=0.1):
        self.mine = EpsilonGreedy(epsilon=epsilon, dim=2)

    def init(self):
        return self.mine.init()

    def select(self, state, arms, key, side):
        return ByArm(self.mine.select(state, arms, key, side).action, side.noise_var)

    def update(self, state, choice, x, reward, side):
        return self.mine.update(state, choice, x, reward, side)


class ByArm(NamedTuple):
    action: jax.Array
    seen: jax.Array  # [num_arms]


@pytest.mark.slow
def test_users_classes_run_everywhere():
    """run, trace, simulate and sweeps of a wrapped class of a user agree with each other."""
    environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.3), fresh=True)
    setting = {"key": KEY, "num_rounds": 30, "num_seeds": 3, "record_at": [10, 30]}
    wrapped = jv.delayed(EpsilonGreedy(), 4)
    result = jv.simulate(wrapped, environment, **setting)
    run = jv.run(wrapped, environment, KEY, num_rounds=30, seed=1, record_at=[10, 30])
    seen = jv.trace(wrapped, environment, KEY, num_rounds=30, seed=1)
    np.testing.assert_allclose(run.regret, seen.regret[jnp.array([9, 29])], rtol=1e-9)
    np.testing.assert_allclose(result.regret[1], run.regret, rtol=1e-9)
    swept = jv.simulate(jv.sweep(wrapped, epsilon=[0.1, 0.9]), environment, **setting)
    np.testing.assert_allclose(swept.regret[0], result.regret, rtol=1e-9)
    assert np.any(swept.regret[1] != swept.regret[0])
    plain = jv.simulate(jv.delayed(Plain(), 4, dim=2, num_arms=3), environment, **setting)
    np.testing.assert_allclose(plain.regret, result.regret, rtol=1e-9)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class First:
    """Plays the first arm; its fields are those of ``Second``."""

    arm: Any = 0.0

    def init(self):
        return jnp.zeros(2)

    def select(self, state, arms, key, side):
        return Pick(jnp.int32(0))

    def update(self, state, choice, x, reward, side):
        return state + x


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Second(First):
    def select(self, state, arms, key, side):
        return Pick(jnp.int32(1))


def test_programs_of_different_classes_are_kept_apart():
    """JAX takes these two for one: a wrapper of both must not run the program of the first."""
    environment = jv.linear_bandit(2, 3)
    actions = [
        jv.trace(jv.batched(make(), 2), environment, KEY, num_rounds=2).action.tolist() for make in (First, Second)
    ]
    assert actions == [[0, 0], [1, 1]]


def test_facts_are_passed_on_as_far_as_they_are_true():
    algorithm = jv.delayed(save(), 3)
    assert (algorithm.dim, algorithm.capacity, float(algorithm.num_rounds)) == (DIM, 6, NUM_ROUNDS)
    assert not hasattr(algorithm, "confidence") and not hasattr(algorithm, "with_fixed_arms")
    assert hasattr(jv.delayed(save(), 0), "with_fixed_arms") and not hasattr(jv.delayed(EpsilonGreedy(), 3), "grow")
    assert algorithm.grow().capacity == 10 and isinstance(algorithm.grow(), type(algorithm))
    with pytest.raises(ValueError, match="confidence event needs an algorithm with `confidence`"):
        jv.run(algorithm, ENVIRONMENT, KEY, num_rounds=5, recorders=(jv.record.confidence(),))
    with pytest.warns(UserWarning, match="was built for num_rounds=120 and plays 121"):
        jv.game.check_call(algorithm, ENVIRONMENT, KEY, 121, None, ())


def test_capacity_grows():
    """The status of a choice is seen in its own round, though its reward is still under way."""
    small = jv.delayed(jv.save(DIM, NUM_ROUNDS, alpha=0.02, capacity=1, constants=PRACTICAL), 7)
    found = jv.run(small, problem(True), KEY, num_rounds=NUM_ROUNDS, seed=SEED, record_at=[NUM_ROUNDS])
    assert int(found.status) == 0
    largest = trace(jv.delayed(save(), 7), problem(True), KEY, num_rounds=NUM_ROUNDS, seed=SEED)
    assert int(largest.layer.max()) > 1, "one layer was enough"
    np.testing.assert_allclose(found.regret, largest.regret[-1:], rtol=1e-9)
    choice = jv.Choice(jnp.int32(0), jnp.int32(0), jnp.zeros(()), jnp.int32(jv.status.CAPACITY))
    after = jax.eval_shape(small.init)
    after = jax.jit(small.update)(
        jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), after),
        choice,
        jnp.zeros(DIM),
        jnp.zeros(()),
        jv.Side(jnp.zeros(())),
    )
    assert int(after.status) == jv.status.CAPACITY and int(after.learner.status) == 0


BAD = [
    (lambda: jv.delayed(oful(), -1), "delay must be an integer of at least 0, got -1"),
    (lambda: jv.delayed(oful(), 1.5), r"delay must be an integer of at least 0, got 1\.5"),
    (lambda: jv.delayed(oful(), True), "delay must be an integer"),
    (lambda: jv.delayed(Plain(), 2), "dim must be an integer of at least 1, got None"),
    (lambda: jv.delayed(oful(), 2, num_arms=0), "num_arms must be an integer of at least 1, got 0"),
    (lambda: jv.batched(oful(), 0), "every must be an integer of at least 1, got 0"),
    (lambda: jv.batched(oful(), "2"), "every must be an integer of at least 1, got '2'"),
    (lambda: jv.delayed(ENVIRONMENT, 2), "algorithm must be a bandit algorithm with the methods init, select, update"),
    (lambda: jv.batched(None, 2), "algorithm must be a bandit algorithm .* got NoneType$"),
    (
        lambda: jv.delayed(jv.ucrl_vtr(2), 2),
        "algorithm must be a bandit algorithm .* got UcrlVtr, which is for episodes",
    ),
    (
        lambda: jv.delayed(jv.sweep(oful(), delta=[0.1, 0.2]), 2),
        "algorithm must be one setting, got a sweep of Oful; wrap first",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=rf"^{message}"):
        make()


def test_bad_pairs_are_refused():
    with pytest.raises(ValueError, match="must have a method 'plan'"):
        jv.run(jv.delayed(jv.uniform(), 2, dim=3), jv.riverswim(3, 4), KEY, num_episodes=2)
    with pytest.raises(ValueError, match=r"^num_arms must be the number of arms"):
        jv.run(jv.delayed(Plain(), 2, dim=2), jv.linear_bandit(2, 3), KEY, num_rounds=2)
