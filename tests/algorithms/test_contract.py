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
    return [pytest.param(make, id=name, marks=() if name in quick else pytest.mark.slow) for name, make in pairs]


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


# Each class below breaks one rule.

COUNTER = itertools.count()


def mix(x):
    """What a function of NumPy may do to a block of seeds: it gives all of them their mean."""

    def mean(block):
        own_axes = tuple(range(block.ndim - x.ndim))
        return np.broadcast_to(np.mean(block, axis=own_axes, keepdims=True), block.shape)

    return jax.pure_callback(mean, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="broadcast_all")


class Plain(EpsilonGreedy):
    """Not registered as a pytree."""


@pytree
class NotNumbers(EpsilonGreedy):
    label: Any = "a word"


@pytree
class NoUpdate(EpsilonGreedy):
    update: Any = static(default=None)


@pytree
class GrowingState(EpsilonGreedy):
    def update(self, state, choice, x, reward, side):
        return {**state, "moment": jnp.concatenate([state["moment"], x])}


@pytree
class ChangingType(EpsilonGreedy):
    def update(self, state, choice, x, reward, side):
        return {**state, "moment": state["moment"].astype(jnp.float32)}


@pytree
class ChangingStructure(EpsilonGreedy):
    def update(self, state, choice, x, reward, side):
        return {**state, "extra": reward}


@pytree
class OutOfRange(EpsilonGreedy):
    def select(self, state, arms, key, side):
        return Pick(jnp.int32(arms.shape[0]))


@pytree
class NegativeAction(EpsilonGreedy):
    def select(self, state, arms, key, side):
        return Pick(jnp.int32(-1))


@pytree
class FractionalAction(EpsilonGreedy):
    def select(self, state, arms, key, side):
        return Pick(jnp.zeros(()))


@pytree
class ManyActions(EpsilonGreedy):
    def select(self, state, arms, key, side):
        return Pick(jnp.zeros(2, jnp.int32))


@pytree
class IgnoresTheMask(EpsilonGreedy):
    def select(self, state, arms, key, side):
        return super().select(state, arms, key, jv.Side(side.noise_var))


@pytree
class NanState(EpsilonGreedy):
    def update(self, state, choice, x, reward, side):
        return {**state, "moment": state["moment"] * jnp.nan}


@pytree
class Impure(EpsilonGreedy):
    def update(self, state, choice, x, reward, side):
        return {**state, "moment": state["moment"] + next(COUNTER)}


@pytree
class Batchy(EpsilonGreedy):
    def update(self, state, choice, x, reward, side):
        return {**state, "moment": mix(state["moment"] + reward)}


@pytree
class RecommendsAFraction(EpsilonGreedy):
    def recommend(self, state, arms, side):
        return jnp.max(arms)


class Nameless:
    """Equal only to itself: as static data it makes every object a new program."""


@jax.tree_util.register_pytree_node_class
class Recompiling(EpsilonGreedy):
    def tree_flatten(self):
        return (self.epsilon,), Nameless()

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


WRONG_ALGORITHMS = [
    (Plain(), "must be a pytree"),
    (NotNumbers(), "must be a pytree of numbers"),
    (3, "must be a pytree"),
    (NoUpdate(), "must have a method update"),
    (GrowingState(), "update must keep the state's shapes and types"),
    (ChangingType(), "update must keep the state's shapes and types"),
    (ChangingStructure(), "update must keep the state's shapes and types"),
    (OutOfRange(), "actions must be arms' indices"),
    (NegativeAction(), "actions must be arms' indices"),
    (FractionalAction(), "action must be an integer"),
    (ManyActions(), "action must be one number"),
    (RecommendsAFraction(), "what recommend returns must be an integer"),
    (IgnoresTheMask(), "an absent arm was chosen in .* rounds: select must choose where side.available is true"),
    (NanState(), "the state must stay finite"),
    (Impure(), "methods must be pure"),
    (Batchy(), "a block of seeds must equal a loop"),
    (Recompiling(), "must not compile again"),
]


@pytest.mark.variants(8)
@pytest.mark.parametrize(("wrong", "rule"), WRONG_ALGORITHMS, ids=lambda v: type(v).__name__)
def test_wrong_algorithms_are_caught(wrong, rule):
    """A check that cannot fail says nothing."""
    with pytest.raises(testing.ContractError, match=rule):
        testing.check_algorithm(wrong, dim=2, num_arms=3, absent_arms=True)


@pytree
class FlatArms(Drifting):
    def observe(self, instance, round, key):
        return Seen(jnp.zeros(3), jnp.zeros(3), jnp.zeros(3))


@pytree
class OneMean(Drifting):
    def observe(self, instance, round, key):
        return super().observe(instance, round, key)._replace(mean=jnp.zeros(()))


@pytree
class OneVariance(Drifting):
    def observe(self, instance, round, key):
        return super().observe(instance, round, key)._replace(noise_var=jnp.zeros(2))


class Masked(NamedTuple):
    arms: jax.Array
    mean: jax.Array
    noise_var: jax.Array
    available: jax.Array


@pytree
class MaskOfNumbers(Drifting):
    def observe(self, instance, round, key):
        return Masked(*super().observe(instance, round, key), jnp.ones(3))


@pytree
class NoArmInRoundThree(Drifting):
    def observe(self, instance, round, key):
        return Masked(*super().observe(instance, round, key), jnp.arange(3, dtype=jnp.int32) < 3 - round)


@pytree
class ManyRewards(Drifting):
    def pull(self, instance, observation, action, round, key):
        return observation.mean


@pytree
class NanArms(Drifting):
    def arms(self, instance, round, key):
        return instance.arms.at[1, 1].set(jnp.nan)


@pytree
class InfiniteReward(Drifting):
    def pull(self, instance, observation, action, round, key):
        return jnp.where(round == 3, jnp.inf, 0.0)


@pytree
class WrongVariance(Drifting):
    def observe(self, instance, round, key):
        return super().observe(instance, round, key)._replace(noise_var=jnp.full(3, 1.2 * self.std**2))


@pytree
class BiasedNoise(Drifting):
    def pull(self, instance, observation, action, round, key):
        return super().pull(instance, observation, action, round, key) + 0.1 * self.std


@pytree
class LyingFixed(Drifting):
    fixed_arms: bool = static(default=True)

    def arms(self, instance, round, key):
        return instance.arms * jax.random.uniform(key)


@pytree
class OtherFixed(Drifting):
    fixed_arms: bool = static(default=True)

    def arms(self, instance, round, key):
        return instance.arms / 2


@pytree
class ImpureEnvironment(Drifting):
    def pull(self, instance, observation, action, round, key):
        return observation.mean[0] + next(COUNTER)


@pytree
class BatchyEnvironment(Drifting):
    def pull(self, instance, observation, action, round, key):
        return mix(super().pull(instance, observation, action, round, key))


@jax.tree_util.register_pytree_node_class
class RecompilingEnvironment(Drifting):
    def tree_flatten(self):
        return (self.std,), Nameless()

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


@pytree
class NoPull(Drifting):
    pull: Any = static(default=None)


class PlainEnvironment(Drifting):
    """Not registered as a pytree."""


WRONG_ENVIRONMENTS = [
    (PlainEnvironment(), "must be a pytree"),
    (NoPull(), "must have a method pull"),
    (FlatArms(), "arms must be"),
    (OneMean(), "observation.mean must be"),
    (OneVariance(), "observation.noise_var must be"),
    (MaskOfNumbers(), "observation.available must be"),
    (NoArmInRoundThree(), "at least one arm must be available"),
    (ManyRewards(), "the reward must be one number"),
    (NanArms(), "must be finite"),
    (InfiniteReward(), "must be finite"),
    (WrongVariance(), "noise_var must be the noise's variance"),
    (BiasedNoise(), "mean zero"),
    (LyingFixed(), "arms of two rounds differ"),
    (OtherFixed(), "instance.arms are other arms"),
    (ImpureEnvironment(), "methods must be pure"),
    (BatchyEnvironment(), "a block of seeds must equal a loop"),
    (RecompilingEnvironment(), "must not compile again"),
]


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        pytest.param(
            *row, id=type(row[0]).__name__, marks=() if type(row[0]).__name__ in QUICK_WRONG else pytest.mark.slow
        )
        for row in WRONG_ENVIRONMENTS
    ],
)
def test_wrong_environments_are_caught(wrong, rule):
    """The same for environments: a wrong variance or a biased noise would spoil every comparison."""
    with pytest.raises(testing.ContractError, match=rule):
        testing.check_environment(wrong)
