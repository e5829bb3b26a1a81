"""Simple regret: the record against plain loops over a trace, and what cannot be recorded."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.algorithms.catalogue import CLAIMS, FACTORIES
from jaxvar.study.cells import unsupported
from tests.helpers import cases as table

KEY = jax.random.key(11)
DIM, NUM_ARMS, NUM_ROUNDS = 2, 5, 240
SIMPLE = (jv.record.simple_regret(),)


def recorded(algorithm, environment, num_rounds=NUM_ROUNDS):
    result = jv.run(
        algorithm, environment, KEY, num_rounds=num_rounds, record_at=list(range(1, num_rounds + 1)), recorders=SIMPLE
    )
    assert result.status == 0
    return np.asarray(result.records["simple_regret"])


def gaps(trace, recommended):
    """The regret of the arms ``recommended [rounds]`` among those that were there."""
    there = np.ones(trace.mean.shape, bool) if trace.available is None else np.asarray(trace.available)
    best = np.where(there, trace.mean, -np.inf).max(axis=1)
    assert np.all(there[np.arange(len(best)), recommended])
    return best - np.asarray(trace.mean)[np.arange(len(best)), recommended]


def test_it_is_the_gap_of_the_best_estimate_in_the_rounds_own_set():
    """Fresh arms that come and go: a stale state, a stale set or an absent arm changes some round."""
    noise = jv.noise.two_point(0.5)
    environment = jv.linear_bandit(DIM, NUM_ARMS, fresh=True, available=3, noise=noise)
    algorithm = jv.oful(DIM, beta_scale=0.1)
    trace = jax.tree.map(np.asarray, jv.trace(algorithm, environment, KEY, num_rounds=NUM_ROUNDS))
    x = trace.arms[np.arange(NUM_ROUNDS), trace.action]
    gram = np.eye(DIM) + np.cumsum(x[:, :, None] * x[:, None], axis=0)
    theta = np.linalg.solve(gram, np.cumsum(trace.reward[:, None] * x, axis=0)[..., None])
    value = (trace.arms @ theta)[..., 0]
    expected = gaps(trace, np.where(trace.available, value, -np.inf).argmax(axis=1))
    got = recorded(algorithm, environment)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    assert 0 < np.mean(got > 0) < 0.5 and got[60:].mean() < got[:20].mean()


def done_layer(state, k, arms, alpha):
    """The estimates and active arms that SAVE recommends from after round k, by plain loops."""
    active, found = list(range(len(arms))), None
    for i in range(state.layers.count.shape[1]):
        scale = 4.0 ** -(i + 1)
        inverse, theta = state.layers.scaled_inv[k, i] / scale, state.layers.theta_hat[k, i]
        width = max(float(np.sqrt(arms[a] @ inverse @ arms[a])) for a in active)
        pred = arms @ theta
        if width > alpha and width > 2.0 ** -(i + 1):  # the layer still learns
            return (pred if found is None else found), active
        if state.layers.count[k, i] > 0:
            found = pred
        if width <= alpha:
            return (pred if found is None else found), active
        best = max(pred[a] for a in active)
        active = [a for a in active if pred[a] >= best - 2 * 2.0 ** -(i + 1) * state.beta_hat[k, i]]
    raise AssertionError("no layer ends the round")


def test_save_recommends_from_the_deepest_layer_that_is_done():
    rng = np.random.default_rng(4)
    angle = np.array([0.2, 1.4, 0.6, 1.1, 0.9])
    arms = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    noise = rng.choice([-1.0, 1.0], size=(NUM_ROUNDS, NUM_ARMS))
    mean, given = arms @ [0.6, 0.8], {"noise_var": np.ones(NUM_ROUNDS)}
    repeated = np.broadcast_to(arms, (NUM_ROUNDS, NUM_ARMS, DIM))
    algorithm = jv.save(DIM, NUM_ROUNDS, constants=jv.constants.practical(beta_scale=0.1), capacity=6, alpha=0.4)
    fresh = jv.replay_bandit(repeated, repeated @ [0.6, 0.8], noise, **given)
    trace = jax.tree.map(np.asarray, jv.trace(algorithm, fresh, KEY, num_rounds=NUM_ROUNDS))
    recommended = []
    for k in range(NUM_ROUNDS):
        pred, active = done_layer(trace.state, k, arms, 0.4)
        top = max(pred[a] for a in active)
        recommended.append(min(a for a in active if pred[a] >= top - 1e-9))
    expected = gaps(trace, np.array(recommended))
    assert set(trace.layer) == {0, 1, 2} and len(set(recommended)) > 2  # a layer is passed, and one known well enough
    np.testing.assert_allclose(recorded(algorithm, fresh), expected, atol=1e-12)
    fixed = jv.replay_bandit(arms, mean, noise, **given)
    np.testing.assert_allclose(recorded(algorithm, fixed), expected, atol=1e-12)


def test_every_algorithm_of_rounds_recommends():
    names = {claim.factory for claim in CLAIMS if claim.setting != "episodes"}
    made = {name: FACTORIES[name](**table.variants(FACTORIES[name])[""]) for name in names}
    assert all(hasattr(algorithm, "recommend") for algorithm in made.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", [claim.factory for claim in CLAIMS if claim.setting != "episodes"])
def test_without_noise_the_recommended_arm_becomes_the_best(name):
    """A wrong sign or a wrong layer would recommend another of three arms that are far apart."""
    sizes = {
        "dim": 2,
        "num_arms": 3,
        "num_rounds": 400,
        "memory": 400,
        "beta_scale": 0.05,
        "every": 1,
        "threshold": 1.0,
    }
    make = FACTORIES[name]
    options = {n: v for n, v in sizes.items() if n in table.examples.declared(make)}
    if "constants" in table.examples.declared(make):
        options["constants"] = jv.constants.practical(beta_scale=0.05)
    arms = {"arms": np.array([[-0.8, 0.0], [0.0, 0.8], [0.8, 0.3]]), "theta_star": np.array([1.0, 0.0])}
    duels = hasattr(make(**options), "pair")
    environment = jv.dueling_bandit(**arms, scale=4.0) if duels else jv.linear_bandit(**arms)
    assert np.all(recorded(make(**options), environment, 400)[-20:] == 0)


@pytest.mark.parametrize("wrap", [jv.delayed, jv.batched])
def test_wrappers_recommend_from_all_that_was_learned(wrap):
    """Not from the state that chooses, which is older."""
    late, arms = wrap(jv.oful(DIM), 3), jnp.eye(DIM)
    state = late.init()
    regression = state.learner.regression._replace(theta_hat=jnp.array([0.1, 0.7]))
    state = state._replace(learner=state.learner._replace(regression=regression))
    assert late.recommend(state, arms, jv.Side(None)) == 1
    assert late.recommend(state, arms, jv.Side(None, jnp.array([True, False]))) == 0


class Pick(NamedTuple):
    action: jax.Array


class NamesTwo:
    """An own algorithm that recommends two arms."""

    def init(self):
        return ()

    def select(self, state, arms, key, side):
        return Pick(jnp.int32(0))

    def update(self, state, choice, x, reward, side):
        return state

    def recommend(self, state, arms, side):
        return jnp.zeros(2, jnp.int32)


def test_what_cannot_be_recorded_is_said_in_a_sentence():
    environment = jv.linear_bandit(DIM, NUM_ARMS)
    with pytest.raises(ValueError, match="needs an algorithm with a method `recommend`, got UniformPlay"):
        jv.run(jv.uniform(), environment, KEY, num_rounds=3, recorders=SIMPLE)
    with pytest.raises(
        ValueError, match=r"NamesTwo\.recommend must return the index of an arm.*got an array int32\[2\]"
    ):
        jv.run(NamesTwo(), environment, KEY, num_rounds=3, recorders=SIMPLE)
    assert unsupported("simple_regret", jv.oful(DIM), environment) is None
    assert unsupported("simple_regret", jv.delayed(jv.oful(DIM), 2), environment) is None
    assert "no method `recommend`" in unsupported("simple_regret", jv.delayed(jv.uniform(), 2, dim=DIM), environment)
    assert "bandits and duels" in unsupported("simple_regret", jv.uniform(), jv.riverswim(4, 5))
    with pytest.raises(jv.StudyError, match="'simple_regret' cannot be recorded, since the algorithm has no method"):
        jv.Study(
            name="x",
            seeds=2,
            rounds=3,
            record=["regret", "simple_regret"],
            algorithms=[jv.Entry("uniform")],
            environments=[jv.Entry("linear_bandit", options={"dim": 2, "num_arms": 3})],
        ).cells()
