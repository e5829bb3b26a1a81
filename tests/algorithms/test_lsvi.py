"""LSVI-UCB and LSVI-UCB++ in linear MDPs: what the theory says of them, and what their twins cannot show."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.parameters import pytree
from tests.algorithms.test_twin_interface import NUM_EPISODES, check_episodes
from tests.helpers.programs import trace

KEY = jax.random.key(20)
S, A, D, H = 4, 3, 3, 3  # as in check_episodes
LAM = 1e-3
ACTING = {"beta_scale": 1e-4, "floor_scale": 1e-3, "lam": LAM}  # LSVI-UCB++ with plans that change, and would rise
MAKERS = {"lsvi_ucb": jv.lsvi_ucb, "lsvi_ucb_plus": jv.lsvi_ucb_plus}
FORMS = {
    "lsvi_ucb": {"beta_scale": 0.01},
    "lsvi_ucb, stages": {"beta_scale": 0.02, "per_stage": True, "lam": 0.1},
    "lsvi_ucb, regressed": {"beta_scale": 0.01, "reward": "regressed", "value_bound": 2.0},
    "lsvi_ucb_plus, stages": {**ACTING, "per_stage": True},
    "lsvi_ucb_plus, no floors": {"beta_scale": 1e-3, "floor_scale": 0.0, "value_bound": 2.0, "ties": "lowest"},
}
each = pytest.mark.parametrize("name", [pytest.param("lsvi_ucb", marks=pytest.mark.slow), "lsvi_ucb_plus"])


def test_plans_change_only_when_a_determinant_doubled() -> None:
    """Q only falls and the lower values only rise; both stay unless log det grew by log 2 since their last change.

    The twin sums over the history: sums over next states replace it exactly, also where weights differ.
    """
    algorithm = jv.lsvi_ucb_plus(NUM_EPISODES, **ACTING)
    check_episodes("lsvi_ucb_plus", algorithm, 0)
    environment = jv.linear_mdp(S, A, D, H, model_seed=1, concentration=0.5)
    ours = trace(algorithm, environment, jax.random.key(0), num_episodes=NUM_EPISODES, seed=0)
    learner = jax.tree.map(np.asarray, ours.learner)
    assert np.all(np.diff(learner.q, axis=0) <= 0) and np.all(np.diff(learner.low, axis=0) >= 0)
    assert np.all((learner.low >= 0) & (learner.low <= learner.q) & (learner.q <= 1))

    features = np.asarray(ours.instance.features)[ours.state, ours.action] * np.asarray(ours.weight)[..., None]
    grams = LAM * np.eye(D) + np.cumsum(np.einsum("khi,khj->kij", features, features), axis=0)
    log_det = np.append(D * math.log(LAM), np.linalg.slogdet(grams)[1])  # at the start of each episode, and at the end
    last, switches = log_det[0], 0
    for k in range(1, NUM_EPISODES):  # counted from 0
        doubled = log_det[k] - last >= math.log(2)
        last, switches = (log_det[k], switches + 1) if doubled else (last, switches)
        changed = np.any(learner.q[k] != learner.q[k - 1]) or np.any(learner.low[k] != learner.low[k - 1])
        assert doubled or not changed
        np.testing.assert_allclose(learner.last[k, 0] + log_det[0], last, rtol=0, atol=1e-9)
    assert 3 <= switches <= NUM_EPISODES // 2
    assert np.any(learner.q[-1] < 0.9) and np.any(learner.low[-1] > 0)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_bonuses_that_act_follow_the_twin(form: str) -> None:
    """With the printed constants no bonus falls below 1 in so few episodes: a wrong factor would not show."""
    name = form.split(",")[0]
    check_episodes(name, MAKERS[name](NUM_EPISODES, **FORMS[form]), 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_without_features_every_pair_has_its_own(name: str) -> None:
    """A mixture has none: the twin and the algorithm then take d = S A."""
    form = ACTING if name == "lsvi_ucb_plus" else {"beta_scale": 0.01}
    check_episodes(name, MAKERS[name](NUM_EPISODES, **form), 0, make=jv.mixture_mdp)


def random_steps(seed: int, num: int) -> jv.Step:
    """Steps of ``num`` episodes that no policy chose, [num, H]."""
    rng = np.random.default_rng(seed)
    state, action, after = (rng.integers(n, size=(num, H)).astype(np.int32) for n in (S, A, S))
    stage = np.broadcast_to(np.arange(H, dtype=np.int32), (num, H))
    return jv.Step(stage, state, action, after, np.zeros((num, H)))


def last_plan(algorithm: Any, model: jv.Model, steps: jv.Step) -> Any:
    """The plan after the episodes that hold these steps."""

    def episode(state: Any, steps: jv.Step) -> tuple[Any, None]:
        plan = algorithm.plan(state, model)

        def step(state: Any, step: jv.Step) -> tuple[Any, None]:
            reward = model.reward[step.state, step.action]
            return algorithm.update(state, model, plan, step._replace(reward=reward)), None

        return jax.lax.scan(step, state, steps)

    return algorithm.plan(jax.lax.scan(episode, algorithm.init(model), steps)[0], model)


@each
def test_units_labels_and_axes_change_nothing(name: str) -> None:
    """Rewards in other units, states and actions under other numbers, and features in other axes."""
    rng = np.random.default_rng(3)
    features, reward = rng.dirichlet(np.full(D, 0.3), size=(S, A)), rng.uniform(size=(S, A)) / H
    steps = random_steps(4, 60)
    form = {"beta_scale": 3e-3} | ({"floor_scale": 1e-3} if name == "lsvi_ucb_plus" else {})

    @jax.jit
    def plan(unit: Any, features: Any, reward: Any, steps: Any) -> Any:
        algorithm = MAKERS[name](100, value_bound=unit, **form)
        model = jv.Model(phi=jnp.zeros((S, A, S, 1)), reward=unit * reward, features=features, horizon=H)
        return last_plan(algorithm, model, steps)

    found = plan(1.0, features, reward, steps)
    assert np.any(found.q < 0.99) and np.ptp(found.q) > 0.05
    close = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(plan(7.0, features, reward, steps).q, 7 * found.q, **close)
    states, actions = rng.permutation(S), rng.permutation(A)
    number, act = (np.argsort(order).astype(np.int32) for order in (states, actions))
    moved = steps._replace(state=number[steps.state], action=act[steps.action], next_state=number[steps.next_state])
    renamed = plan(1.0, features[states][:, actions], reward[states][:, actions], moved)
    np.testing.assert_allclose(renamed.q, found.q[:, states][:, :, actions], **close)
    axes, _ = np.linalg.qr(rng.normal(size=(D, D)))
    np.testing.assert_allclose(plan(1.0, features @ axes, reward, steps).q, found.q, **close)


@pytest.mark.slow
def test_without_bonus_and_ridge_it_is_certainty_equivalence() -> None:
    """One coordinate for each pair, c = 0: the values of the frequencies that were seen."""
    reward, steps = np.random.default_rng(5).uniform(size=(S, A)) / H, random_steps(6, 200)
    model = jv.Model(phi=jnp.zeros((S, A, S, 1)), reward=jnp.asarray(reward), horizon=H)
    found = last_plan(jv.lsvi_ucb(100, beta_scale=0.0, lam=1e-9), model, steps)
    counts = np.zeros((S, A, S))
    np.add.at(counts, (steps.state, steps.action, steps.next_state), 1)
    known = jv.planning.optimal_values(jnp.asarray(counts / counts.sum(axis=2, keepdims=True)), model.reward, H)
    np.testing.assert_allclose(found.q, known.q, rtol=1e-7)


def test_features_of_another_shape_are_refused() -> None:
    """One's own environment may hand out anything."""
    model = jv.Model(phi=np.zeros((S, A, S, 1)), reward=np.zeros((S, A)), features=np.zeros((A, S, 2)), horizon=H)
    with pytest.raises(ValueError, match=r"features must have shape \[S, A, d\] = \[4, 3, 'd'\], got \[3, 4, 2\]"):
        jv.lsvi_ucb(10).init(model)


@pytree
class Below:
    """A recorder of episodes in which the lower values of LSVI-UCB++ were below Q* everywhere."""

    @property
    def name(self) -> str:
        return "below"

    def init(self, algorithm: Any, instance: Any) -> Any:
        return jnp.int32(0)

    def update(self, memory: Any, event: Any, algorithm: Any, instance: Any) -> Any:
        optimum = jv.planning.optimal_values(instance.transition, instance.reward, event.plan.low.shape[0])
        return memory + jnp.all(event.plan.low <= optimum.q + 1e-9).astype(jnp.int32)

    def read(self, memory: Any) -> Any:
        return memory


@pytest.mark.slow
@pytest.mark.parametrize("form", ["lsvi_ucb", "lsvi_ucb, stages", "lsvi_ucb_plus", "lsvi_ucb_plus, no floors"])
def test_optimism_holds_in_all_episodes(form: str) -> None:
    """2,000 seeds with the printed radii: V >= V* in all states, stages and episodes, and the lower values below Q*.

    Failures have at most the probability delta = 0.01 for each seed, so that more than 37 of 2,000 seeds have a chance
    below 1e-3 (Binomial(2000, 0.01): mean 20, standard deviation 4.4). With radii 10,000 times too small (and almost no
    ridge, which is the rest of the radii of LSVI-UCB++) more than 20 of 100 seeds fail, so that the test can.
    """
    num_seeds, num_episodes = 2000, 400
    name, per_stage = form.split(",")[0], form.endswith("stages")
    environment = jv.linear_mdp(3, 2, 2, 8, concentration=0.5)
    plus = name == "lsvi_ucb_plus"
    more = {"floor_scale": 0.0} if form.endswith("floors") else {}
    small = {"beta_scale": 1e-4, "lam": 1e-4} | ({"floor_scale": 0.0} if plus else {})

    def failed(num_seeds: int, **options: Any) -> int:
        algorithm = MAKERS[name](num_episodes, per_stage=per_stage, **options)
        recorders = (jv.record.regret(), jv.record.optimism(), *((Below(),) if plus else ()))
        result = jv.simulate(
            algorithm,
            environment,
            key=KEY,
            num_episodes=num_episodes,
            num_seeds=num_seeds,
            record_at=[num_episodes],
            recorders=recorders,
        )
        result.raise_if_failed()
        held = [result.records[what][:, 0] for what in ("optimistic", "below") if what in result.records]
        return int(np.sum(np.min(held, axis=0) < num_episodes))

    assert failed(num_seeds, **more) <= 37
    assert failed(100, **small) > 20
