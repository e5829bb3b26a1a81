"""The contract: everything in the package keeps it, and each of its rules can be broken.

Below is also what a user writes: an algorithm and an environment in plain jax.numpy.
"""

import dataclasses
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import testing
from jaxvar.algorithms.save import FixedSave
from tests.helpers import cases as table

KEY = jax.random.key(7)
QUICK_ALGORITHMS = {"max_in_p", "oful-data_free", "save", "uniform"}
QUICK_ENVIRONMENTS = {"duels", "linear-sphere-fixed"}
QUICK_WRONG = {"BiasedNoise", "WrongVariance"}


def rows(pairs, quick):
    """Cases of pairs (name, value), or (name, tuple of values); slow but for the ``quick`` ones."""
    cases = [(name, case if isinstance(case, tuple) else (case,)) for name, case in pairs]
    return [pytest.param(*case, id=name, marks=() if name in quick else pytest.mark.slow) for name, case in cases]


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    """Rounds are unrolled in the checks, and a rule that is broken is broken in the first two."""
    monkeypatch.setattr(testing.contract, "_ROUNDS", 2)
    monkeypatch.setattr(testing.contract, "_EPISODES", 2)


def static(**kwargs):
    return dataclasses.field(metadata={"static": True}, **kwargs)


def pytree(cls):
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))


class Pick(NamedTuple):
    action: jax.Array


@pytree
class EpsilonGreedy:
    """A user's algorithm: ridge regression, and a random arm with probability epsilon."""

    epsilon: Any = 0.1
    dim: int = static(default=2)
    index_type: Any = static(default=jnp.int32)

    def init(self):
        return {"gram": jnp.eye(self.dim), "moment": jnp.zeros(self.dim)}

    def select(self, state, arms, key, side):
        coin, other = jax.random.split(key)
        values = arms @ jnp.linalg.solve(state["gram"], state["moment"])
        explored = jnp.argmax(side.present(jax.random.uniform(other, values.shape)))
        best = jnp.argmax(side.present(values))
        action = jnp.where(jax.random.uniform(coin) < self.epsilon, explored, best)
        return Pick(action.astype(self.index_type))

    def update(self, state, choice, x, reward, side):
        return {"gram": state["gram"] + jnp.outer(x, x), "moment": state["moment"] + reward * x}


class Problem(NamedTuple):
    theta_star: jax.Array
    arms: jax.Array


class Seen(NamedTuple):
    arms: jax.Array
    mean: jax.Array
    noise_var: jax.Array


@pytree
class Drifting:
    """A user's environment: given directions turned by a random angle in each round, Gaussian noise."""

    std: Any = 0.2
    fixed_arms: bool = static(default=False)

    def init(self, key):
        angle = jax.random.uniform(key, maxval=2 * jnp.pi)
        return Problem(jnp.array([jnp.cos(angle), jnp.sin(angle)]), jnp.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.0]]))

    def arms(self, instance, round, key):
        if self.fixed_arms:
            return instance.arms
        a = jax.random.uniform(key, maxval=2 * jnp.pi)
        turn = jnp.array([[jnp.cos(a), -jnp.sin(a)], [jnp.sin(a), jnp.cos(a)]])
        return instance.arms @ turn

    def observe(self, instance, round, key):
        arms = self.arms(instance, round, key)
        return Seen(arms, arms @ instance.theta_star, jnp.full(3, self.std**2))

    def pull(self, instance, observation, action, round, key):
        return observation.arms[action] @ instance.theta_star + self.std * jax.random.normal(key)


@pytest.mark.parametrize("make", rows([*table.ALGORITHMS, *table.DUELING_ALGORITHMS], QUICK_ALGORITHMS))
def test_algorithms_keep_the_contract(make):
    """One table, one contract: whatever holds for one algorithm holds for all."""
    made = make()
    never_changes = isinstance(made, FixedSave)  # SAVE for a decision set that never changes
    testing.check_algorithm(made, dim=table.DIM, num_arms=table.NUM_ARMS, absent_arms=not never_changes)


@pytest.mark.parametrize("make", rows(table.ENVIRONMENTS, QUICK_ENVIRONMENTS))
def test_environments_keep_the_contract(make):
    """The same for environments, their noise's mean and variance included."""
    testing.check_environment(make())


def test_users_classes_keep_the_contract():
    """Plain jax.numpy code is enough."""
    testing.check_algorithm(EpsilonGreedy(), dim=2, num_arms=3)
    testing.check_environment(Drifting())
    testing.check_environment(Drifting(fixed_arms=True))


@pytest.mark.variants(1)
@pytest.mark.parametrize("fixed", [False, True])
def test_users_classes_run_everywhere(fixed):
    """run, trace, simulate and sweep of a user's own classes agree with each other."""
    algorithm, environment = EpsilonGreedy(), Drifting(fixed_arms=fixed)
    run = jv.run(algorithm, environment, KEY, num_rounds=30, seed=1, record_at=[10, 30])
    trace = jv.trace(algorithm, environment, KEY, num_rounds=30, seed=1)
    setting = {"key": KEY, "num_rounds": 30, "num_seeds": 3, "record_at": [10, 30]}
    result = jv.simulate(algorithm, environment, **setting)
    result.raise_if_failed()
    np.testing.assert_allclose(run.regret, trace.regret[jnp.array([9, 29])], rtol=1e-9)
    np.testing.assert_allclose(result.regret[1], run.regret, rtol=1e-9)
    swept = jv.simulate(jv.sweep(algorithm, epsilon=[0.1, 0.9]), jv.sweep(environment, std=[0.2, 0.4]), **setting)
    assert swept.regret.shape == (2, 2, 3, 2)
    np.testing.assert_allclose(swept.regret[0, 0], result.regret, rtol=1e-9)
    np.testing.assert_allclose(swept.variance[:, 1], 4 * swept.variance[:, 0], rtol=1e-9)
    assert np.any(swept.regret[1] != swept.regret[0])


@pytest.mark.slow
def test_users_algorithm_meets_ours():
    """A user's algorithm in our environment, and ours in a user's."""
    setting = {"key": KEY, "num_rounds": 20, "num_seeds": 2, "record_at": 2}
    jv.simulate(EpsilonGreedy(), jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.1)), **setting).raise_if_failed()
    jv.simulate(jv.oful(2), Drifting(fixed_arms=True), **setting).raise_if_failed()
    jv.simulate(jv.oful(2), Drifting(), **setting).raise_if_failed()


@pytest.mark.parametrize("index_type", [jnp.int64, jnp.uint32])
def test_any_integer_is_an_action(index_type):
    """What jnp.argmax returns depends on the session; the contract asks for an integer only, so any must run."""
    jv.run(EpsilonGreedy(index_type=index_type), Drifting(), KEY, num_rounds=3, record_at=1)


# Each algorithm and environment below breaks one rule.

COUNTER = itertools.count()


def mix(x):
    """What a function of NumPy may do to a block of seeds: it gives all of them their mean."""

    def mean(block):
        own_axes = tuple(range(block.ndim - x.ndim))
        return np.broadcast_to(np.mean(block, axis=own_axes, keepdims=True), block.shape)

    return jax.pure_callback(mean, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="broadcast_all")


def broken(base, **methods):
    """A user's class with some methods replaced."""
    return pytree(type("Broken", (base,), {**methods, "__annotations__": {}}))()


def learns(update):
    """A user's algorithm whose next state is ``update(state, x, reward)``."""
    return broken(EpsilonGreedy, update=lambda self, state, choice, x, reward, side: update(state, x, reward))


def pulls(action):
    """A user's algorithm that pulls ``action(arms)``."""
    return broken(EpsilonGreedy, select=lambda self, state, arms, key, side: Pick(action(arms)))


def ignore_the_mask(self, state, arms, key, side):
    return EpsilonGreedy.select(self, state, arms, key, jv.Side(side.noise_var))


class Plain(EpsilonGreedy):
    """Not registered as a pytree."""


@pytree
class NotNumbers(EpsilonGreedy):
    label: Any = "a word"


class Nameless:
    """Equal only to itself: as static data it makes every object a new program."""


@jax.tree_util.register_pytree_node_class
class Recompiling(EpsilonGreedy):
    def tree_flatten(self):
        return (self.epsilon,), Nameless()

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


KEPT = "update must keep the state's shapes and types"
WRONG_ALGORITHMS = {
    "Plain": (Plain(), "must be a pytree"),
    "NotNumbers": (NotNumbers(), "must be a pytree of numbers"),
    "int": (3, "must be a pytree"),
    "NoUpdate": (broken(EpsilonGreedy, update=None), "must have a method update"),
    "GrowingState": (learns(lambda s, x, r: {**s, "moment": jnp.concatenate([s["moment"], x])}), KEPT),
    "ChangingType": (learns(lambda s, x, r: {**s, "moment": s["moment"].astype(jnp.float32)}), KEPT),
    "ChangingStructure": (learns(lambda s, x, r: {**s, "extra": r}), KEPT),
    "OutOfRange": (pulls(lambda arms: jnp.int32(arms.shape[0])), "actions must be arms' indices"),
    "NegativeAction": (pulls(lambda arms: jnp.int32(-1)), "actions must be arms' indices"),
    "FractionalAction": (pulls(lambda arms: jnp.zeros(())), "action must be an integer"),
    "ManyActions": (pulls(lambda arms: jnp.zeros(2, jnp.int32)), "action must be one number"),
    "RecommendsAFraction": (
        broken(EpsilonGreedy, recommend=lambda self, state, arms, side: jnp.max(arms)),
        "what recommend returns must be an integer",
    ),
    "IgnoresTheMask": (
        broken(EpsilonGreedy, select=ignore_the_mask),
        "an absent arm was chosen in .* rounds: select must choose where side.available is true",
    ),
    "NanState": (learns(lambda s, x, r: {**s, "moment": s["moment"] * jnp.nan}), "the state must stay finite"),
    "Impure": (learns(lambda s, x, r: {**s, "moment": s["moment"] + next(COUNTER)}), "methods must be pure"),
    "Batchy": (learns(lambda s, x, r: {**s, "moment": mix(s["moment"] + r)}), "a block of seeds must equal a loop"),
    "Recompiling": (Recompiling(), "must not compile again"),
}


@pytest.mark.variants(8)
@pytest.mark.parametrize(("wrong", "rule"), WRONG_ALGORITHMS.values(), ids=WRONG_ALGORITHMS)
def test_wrong_algorithms_are_caught(wrong, rule):
    """A check that cannot fail says nothing."""
    with pytest.raises(testing.ContractError, match=rule):
        testing.check_algorithm(wrong, dim=2, num_arms=3, absent_arms=True)


class Masked(NamedTuple):
    arms: jax.Array
    mean: jax.Array
    noise_var: jax.Array
    available: jax.Array


def shows(change):
    """A user's environment that shows ``change(observation, round)``."""

    def observe(self, instance, round, key):
        return change(Drifting.observe(self, instance, round, key), round)

    return broken(Drifting, observe=observe)


def pays(change):
    """A user's environment whose reward is ``change(reward, observation, round)``."""

    def pull(self, instance, observation, action, round, key):
        return change(Drifting.pull(self, instance, observation, action, round, key), observation, round)

    return broken(Drifting, pull=pull)


def offers(arms, **fields):
    """A user's environment with the arms ``arms(arms of the instance, key)``."""
    made = broken(Drifting, arms=lambda self, instance, round, key: arms(instance.arms, key))
    return dataclasses.replace(made, **fields)


class PlainEnvironment(Drifting):
    """Not registered as a pytree."""


@jax.tree_util.register_pytree_node_class
class RecompilingEnvironment(Drifting):
    def tree_flatten(self):
        return (self.std,), Nameless()

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


WRONG_ENVIRONMENTS = {
    "PlainEnvironment": (PlainEnvironment(), "must be a pytree"),
    "NoPull": (broken(Drifting, pull=None), "must have a method pull"),
    "FlatArms": (shows(lambda seen, round: Seen(jnp.zeros(3), jnp.zeros(3), jnp.zeros(3))), "arms must be"),
    "OneMean": (shows(lambda seen, round: seen._replace(mean=jnp.zeros(()))), "observation.mean must be"),
    "OneVariance": (shows(lambda seen, round: seen._replace(noise_var=jnp.zeros(2))), "observation.noise_var must be"),
    "MaskOfNumbers": (shows(lambda seen, round: Masked(*seen, jnp.ones(3))), "observation.available must be"),
    "NoArmInRoundThree": (
        shows(lambda seen, round: Masked(*seen, jnp.arange(3, dtype=jnp.int32) < 3 - round)),
        "at least one arm must be available",
    ),
    "ManyRewards": (pays(lambda reward, seen, round: seen.mean), "the reward must be one number"),
    "NanArms": (offers(lambda arms, key: arms.at[1, 1].set(jnp.nan)), "must be finite"),
    "InfiniteReward": (pays(lambda reward, seen, round: jnp.where(round == 3, jnp.inf, 0.0)), "must be finite"),
    "WrongVariance": (
        shows(lambda seen, round: seen._replace(noise_var=1.2 * seen.noise_var)),
        "noise_var must be the noise's variance",
    ),
    "BiasedNoise": (pays(lambda reward, seen, round: reward + 0.1 * jnp.sqrt(seen.noise_var[0])), "mean zero"),
    "LyingFixed": (
        offers(lambda arms, key: arms * jax.random.uniform(key), fixed_arms=True),
        "arms of two rounds differ",
    ),
    "OtherFixed": (offers(lambda arms, key: arms / 2, fixed_arms=True), "instance.arms are other arms"),
    "ImpureEnvironment": (pays(lambda reward, seen, round: seen.mean[0] + next(COUNTER)), "methods must be pure"),
    "BatchyEnvironment": (pays(lambda reward, seen, round: mix(reward)), "a block of seeds must equal a loop"),
    "RecompilingEnvironment": (RecompilingEnvironment(), "must not compile again"),
}


@pytest.mark.parametrize(("wrong", "rule"), rows(WRONG_ENVIRONMENTS.items(), QUICK_WRONG))
def test_wrong_environments_are_caught(wrong, rule):
    """The same for environments: a wrong variance or a biased noise would spoil every comparison."""
    with pytest.raises(testing.ContractError, match=rule):
        testing.check_environment(wrong)
