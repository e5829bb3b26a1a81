"""The contract of episodes: everything in the package keeps it, and each of its rules can be broken.

Below is also what a user writes: an episodic algorithm and a Markov decision process in plain jax.numpy.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import testing
from tests.algorithms.test_contract import broken, pytree, rows, static
from tests.helpers import cases as table

KEY = jax.random.key(11)
QUICK_ALGORITHMS = {"ucrl_vtr", "uniform"}
QUICK_ENVIRONMENTS = {"mixture", "explicit", "tabular", "riverswim", "horizon_free"}


@pytest.fixture(autouse=True)
def few_episodes(monkeypatch):
    """A rule that is broken is broken in the first two episodes."""
    monkeypatch.setattr(testing.contract, "_EPISODES", 2)


class Policy(NamedTuple):
    policy: jax.Array
    value: jax.Array | None = None


@pytree
class CountBased:
    """A user's algorithm: plans with the frequencies it has seen, and knows nothing of features."""

    prior: Any = 1.0

    def init(self, model):
        shape = (model.num_states, model.num_actions, model.num_states)
        return {"seen": jnp.full(shape, self.prior)}

    def plan(self, state, model):
        kernel = state["seen"] / state["seen"].sum(axis=2, keepdims=True)
        optimum = jv.planning.optimal_values(kernel, model.reward, model.horizon)
        return Policy(jnp.argmax(optimum.q, axis=2), optimum.value)

    def update(self, state, model, plan, step):
        return {"seen": state["seen"].at[step.state, step.action, step.next_state].add(1.0)}


class Tables(NamedTuple):
    phi: jax.Array
    reward: jax.Array
    theta_star: jax.Array
    transition: jax.Array
    initial: jax.Array
    features: jax.Array | None = None


@pytree
class Coin:
    """A user's environment: two states, and a coin of unknown bias that the second action throws."""

    bias: Any = 0.7
    reward: Any = 0.25
    horizon: int = static(default=3)

    def init(self, key):
        stay = jnp.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
        swap = stay[:, :, ::-1]
        phi = jnp.stack([stay, swap], axis=3) / jnp.sqrt(2.0)
        theta = jnp.sqrt(2.0) * jnp.stack([jnp.asarray(self.bias), 1 - jnp.asarray(self.bias)])
        reward = jnp.array([[0.0, 0.0], [1.0, 1.0]]) * self.reward
        return Tables(phi, reward, theta, phi @ theta, jnp.array([1.0, 0.0]))


def model():
    instance = jv.mixture_mdp(**table.MODEL_SIZE, model_seed=5).init(KEY)
    return jv.Model(phi=instance.phi, reward=instance.reward, horizon=table.MODEL_SIZE["horizon"])


@pytest.mark.parametrize("make", rows(table.EPISODIC_ALGORITHMS, QUICK_ALGORITHMS))
def test_algorithms_keep_the_contract(make):
    """One table, one contract: whatever holds for one algorithm holds for all."""
    testing.check_episodic_algorithm(make(), model=model())


@pytest.mark.parametrize("make", rows(table.MDPS, QUICK_ENVIRONMENTS))
def test_environments_keep_the_contract(make):
    """Rows are distributions, features are short, paths collect at most 1."""
    testing.check_episodic_environment(make())


def test_users_classes_keep_the_contract_and_run_everywhere():
    """Plain jax.numpy code is enough, and run, trace, simulate and sweep of it agree."""
    algorithm, environment = CountBased(), Coin()
    testing.check_episodic_algorithm(algorithm, model=model())
    testing.check_episodic_environment(environment)
    run = jv.run(algorithm, environment, KEY, num_episodes=20, seed=1, record_at=[5, 20])
    trace = jv.trace(algorithm, environment, KEY, num_episodes=20, seed=1)
    setting = {"key": KEY, "num_episodes": 20, "num_seeds": 3, "record_at": [5, 20]}
    result = jv.simulate(algorithm, environment, **setting)
    result.raise_if_failed()
    np.testing.assert_allclose(run.regret, trace.regret[jnp.array([4, 19])], rtol=1e-9)
    np.testing.assert_allclose(result.regret[1], run.regret, rtol=1e-9)
    swept = jv.simulate(jv.sweep(algorithm, prior=[1.0, 3.0]), jv.sweep(environment, bias=[0.7, 0.9]), **setting)
    np.testing.assert_allclose(swept.regret[0, 0], result.regret, rtol=1e-9)


def right_plan(self, state, model):
    return Policy(jnp.zeros((model.horizon, model.num_states), jnp.int32))


@pytest.mark.parametrize(
    ("rule", "methods"),
    [
        (r"policy must be \[H, S\]", {"plan": lambda self, s, m: Policy(jnp.zeros(3, jnp.int32))}),
        ("must hold integers", {"plan": lambda self, s, m: Policy(jnp.zeros((3, 3)))}),
        ("must hold actions", {"plan": lambda self, s, m: Policy(jnp.full((3, 3), 2, jnp.int32))}),
        (r"value must be \[H \+ 1, S\]", {
            "plan": lambda self, s, m: right_plan(self, s, m)._replace(value=jnp.ones(3))
        }),
        ("value must be finite", {
            "plan": lambda self, s, m: right_plan(self, s, m)._replace(value=jnp.full((4, 3), jnp.nan))
        }),
        ("shapes and types", {"update": lambda self, s, m, p, t: {"seen": s["seen"].astype(jnp.float32)}}),
        ("stay finite", {"update": lambda self, s, m, p, t: {"seen": s["seen"] / 0.0}, "plan": right_plan}),
    ],
)  # fmt: skip
def test_each_rule_of_algorithms_can_be_broken(rule, methods):
    """A contract that nothing can break promises nothing."""
    with pytest.raises(testing.ContractError, match=rule):
        testing.check_episodic_algorithm(broken(CountBased, **methods), model=model())


def changed(**fields):
    """An ``init`` whose tables differ from the right ones."""

    def init(self, key):
        found = Coin.init(self, key)
        return found._replace(**{name: change(getattr(found, name)) for name, change in fields.items()})

    return {"init": init}


@pytest.mark.parametrize(
    ("rule", "methods"),
    [
        ("transition must not be negative", changed(transition=lambda t: t.at[0, 0].add(jnp.array([0.4, -0.4])))),
        ("transition must sum to 1", changed(transition=lambda t: t * 1.1)),
        ("initial must sum to 1", changed(initial=lambda t: t * 0.5)),
        ("<phi, theta_star>", changed(theta_star=lambda t: t[::-1])),
        ("more than 1", changed(reward=lambda r: r + 0.2)),
        ("reward must not be negative", changed(reward=lambda r: r - 0.1)),
        ("at most 1 for V", changed(phi=lambda p: p * 2, theta_star=lambda t: t / 2)),
        (r"phi must be \[S, A, S, d\]", changed(phi=lambda p: p[:1])),
        ("finite", changed(reward=lambda r: r * jnp.nan)),
        (r"features must be \[S, A, length\]", changed(features=lambda _: jnp.ones((2, 2)))),
        ("no feature may be longer", changed(features=lambda _: 2 * jnp.eye(4).reshape(2, 2, 4))),
        ("linear in the features", changed(features=lambda _: jnp.ones((2, 2, 1)))),
    ],
)
def test_each_rule_of_environments_can_be_broken(rule, methods):
    """The same for environments."""
    with pytest.raises(testing.ContractError, match=rule):
        testing.check_episodic_environment(broken(Coin, **methods))
