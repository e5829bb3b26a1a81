"""What goes wrong inside a compiled run is reported: which seed, in which round, and why."""

import dataclasses
import functools
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import ridge

KEY = jax.random.key(1)
BAD_ROUND, BAD_SEED, NUM_ROUNDS = 17, 2, 24
ALGORITHMS = {
    "save": lambda: jv.save(2, NUM_ROUNDS, capacity=3),
    "ave_ucb": lambda: jv.ave_ucb(2, NUM_ROUNDS, capacity=3),
    "oful": lambda: jv.oful(2),
}
WHERE = ("reward", "mean", "arm", "other arm")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Faulty:
    """Right but for one entry of one round of one seed; all are leaves, so that one program serves every case."""

    mark: Any  # what that seed draws
    bad: Any
    where: Any  # index into WHERE, or -1

    def init(self, key):
        return jax.random.uniform(key)

    def _bad(self, instance, round, where):
        wrong = (instance == self.mark) & (round == BAD_ROUND) & (self.where == WHERE.index(where))
        return jnp.where(wrong, self.bad, 0.0)

    def observe(self, instance, round, key):
        angle = 2 * jnp.pi * jax.random.uniform(key, (3,))
        arms = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
        mean = arms @ jnp.array([0.6, 0.8]) + jnp.array([0.0, 1.0, 0.0]) * self._bad(instance, round, "mean")
        arms = arms + self._bad(instance, round, "arm")
        arms = arms.at[2].add(self._bad(instance, round, "other arm"))
        return jv.Observation(arms, mean, jnp.full(3, 0.01), jnp.full(3, 0.1))

    def pull(self, instance, observation, action, round, key):
        noise = 0.1 * jnp.where(jax.random.bernoulli(key), 1.0, -1.0)
        return jnp.array([0.5, 0.6, 0.7])[action] + noise + self._bad(instance, round, "reward")


def faulty(where, bad=np.nan):
    root = jv.random.fold_in(jv.random.fold_in(KEY, BAD_SEED), 0)  # the key of the seed's instance
    return Faulty(jax.random.uniform(root), jnp.asarray(bad), jnp.int32(-1 if where is None else WHERE.index(where)))


@functools.cache
def jitted(play, name):
    """Status and its round of one seed, as a function of the environment and the seed."""
    return jax.jit(lambda env, s: play(ALGORITHMS[name](), env, KEY, num_rounds=NUM_ROUNDS, seed=s)[-2:])


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("where", WHERE)
def test_nan_in_a_simulation(name, where):
    """Only the seed that met the NaN fails, with the right round and cause; its neighbours do not notice."""
    algorithm = ALGORITHMS[name]()
    setting = {"key": KEY, "num_rounds": NUM_ROUNDS, "num_seeds": 4, "record_at": 4}
    result = jv.simulate(algorithm, faulty(where), **setting)
    expected = np.where(np.arange(4) == BAD_SEED, jv.status.NONFINITE, 0)
    np.testing.assert_array_equal(result.status & jv.status.NONFINITE, expected)
    np.testing.assert_array_equal(result.status_round, np.where(expected, BAD_ROUND, 0))
    assert np.all(np.isfinite(result.regret[np.arange(4) != BAD_SEED]))
    with pytest.raises(jv.SimulationError, match=rf"1 of 4.*\n.*seed {BAD_SEED}: round {BAD_ROUND}, .*NaN"):
        result.raise_if_failed()
    clean = jv.simulate(algorithm, faulty(None), **setting)
    clean.raise_if_failed()
    np.testing.assert_allclose(np.delete(result.regret, BAD_SEED, 0), np.delete(clean.regret, BAD_SEED, 0), rtol=1e-9)


@pytest.mark.variants(6)
@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("where", WHERE)
def test_nan_in_a_run_and_a_trace(name, where):
    """The same for one seed: status and round are part of what run and trace return."""
    for play in (jv.run, jv.trace):
        for seed in (BAD_SEED, BAD_SEED + 1):
            result = jitted(play, name)(faulty(where), seed)
            expected = (jv.status.NONFINITE, BAD_ROUND) if seed == BAD_SEED else (0, 0)
            assert (int(result[0]) & jv.status.NONFINITE, int(result[1])) == expected


def test_infinity_is_reported_like_nan():
    """An infinite reward is no better than a missing one."""
    result = jv.simulate(jv.oful(2), faulty("reward", np.inf), key=KEY, num_rounds=NUM_ROUNDS, num_seeds=4, record_at=1)
    assert result.status[BAD_SEED] == jv.status.NONFINITE and result.status_round[BAD_SEED] == BAD_ROUND


@pytest.mark.parametrize("fresh", [pytest.param(False, marks=pytest.mark.slow), True])
def test_capacity(monkeypatch, fresh):
    """Too few stored layers: run says so where it is compiled, simulate stores more, and says so where it cannot."""
    algorithm = jv.save(2, 400, capacity=1, constants=jv.constants.practical())
    environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.1), fresh=fresh)
    run = jax.jit(lambda a, e: jv.run(a, e, KEY, num_rounds=120, record_at=1))(algorithm, environment)
    assert int(run.status) == jv.status.CAPACITY and 1 < int(run.status_round) <= 120
    setting = {"key": KEY, "num_rounds": 120, "num_seeds": 2, "record_at": 1}
    result = jv.simulate(algorithm, environment, **setting)
    result.raise_if_failed()
    assert result.capacity == 5 and not result.status.any()
    monkeypatch.setattr(ridge, "MAX_LAYERS", 1)
    stuck = jv.simulate(algorithm, environment, **setting)
    assert stuck.capacity == 1 and np.all(stuck.status == jv.status.CAPACITY)
    assert stuck.status_round[0] == int(run.status_round)
    with pytest.raises(jv.SimulationError, match=r"2 of 2.*\n.*seed 0: round .*capacity"):
        stuck.raise_if_failed()


def test_failures_of_a_sweep_name_the_setting():
    """With many settings a seed's number alone does not say which run failed."""
    swept = jv.sweep(jv.oful(2), lam=[1.0, 3.0])
    result = jv.simulate(swept, faulty("reward"), key=KEY, num_rounds=NUM_ROUNDS, num_seeds=4, record_at=1)
    with pytest.raises(
        jv.SimulationError, match=r"2 of 8.*\n.*seed 2 at .*lam.*1\.0.*round 17.*\n.*lam.*3\.0.*round 17"
    ):
        result.raise_if_failed()


def test_a_long_list_of_failures_is_cut():
    """Ten lines say enough."""
    sim = importlib.import_module("jaxvar.simulate")
    ones = np.ones(25, np.int32)
    result = sim.SimulationResult(np.arange(1), {}, ones, ones, np.arange(25), (), 25, None)
    with pytest.raises(jv.SimulationError, match="25 of 25") as error:
        result.raise_if_failed()
    assert len(str(error.value).splitlines()) == 12 and str(error.value).endswith("and 15 more")


def test_describe():
    """Every bit alone, together, none, and one that nobody has defined."""
    assert jv.status.describe(0) == "no failure"
    assert "capacity" in jv.status.describe(jv.status.CAPACITY)
    assert "NaN" in jv.status.describe(jv.status.NONFINITE)
    assert "digits" in jv.status.describe(jv.status.PRECISION)
    assert "empty" in jv.status.describe(jv.status.EMPTY)
    assert jv.status.describe(jv.status.CAPACITY | jv.status.NONFINITE).count(";") == 1
    assert jv.status.describe(128) == "unknown status bits 128"
