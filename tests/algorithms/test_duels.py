"""Duels: the law of outcomes, the regret of pairs, what masks and bad algorithms do, and studies of them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxvar as jv
from jaxvar.algorithms import vacdb
from tests.algorithms import test_twin_interface as twins
from tests.reference import vacdb_numpy

KEY = jax.random.key(3)
ROUNDS = 60
SIZES = {"dim": 2, "num_arms": 3}


@pytest.mark.parametrize("link", ["logistic", "linear"])
def test_outcomes_have_their_law_and_regret_is_that_of_both_arms(link):
    arms = np.array([[0.9, 0.0], [0.0, 0.6], [-0.5, -0.5]])
    theta, scale = np.array([0.6, 0.8]), 0.25 if link == "linear" else 3.0
    environment = jv.dueling_bandit(arms=arms, theta_star=theta, scale=scale, link=link)
    traces = jax.jit(jax.vmap(lambda seed: jv.trace(jv.uniform(), environment, KEY, num_rounds=ROUNDS, seed=seed)))(
        jnp.arange(100)
    )
    first, second, won = (np.asarray(x).ravel() for x in (traces.action, traces.rival, traces.reward))
    value = scale * arms @ theta
    ahead = value[first] - value[second]
    p = 0.5 + ahead if link == "linear" else vacdb_numpy.mu(ahead)
    np.testing.assert_allclose(np.ravel(traces.noise_var), p * (1 - p), rtol=1e-12)
    regret = 2 * value.max() - value[first] - value[second]
    np.testing.assert_allclose(np.asarray(traces.regret)[:, -1], regret.reshape(-1, ROUNDS).sum(axis=1), rtol=1e-12)
    # Nine pairs, each by an exact binomial test: together a false alarm once in 1,000 keys.
    for i in range(3):
        for j in range(3):
            here = (first == i) & (second == j)
            assert stats.binomtest(int(won[here].sum()), int(here.sum()), p[here][0]).pvalue > 1e-3 / 9, (i, j)
    assert stats.chisquare(np.bincount(3 * first + second, minlength=9)).pvalue > 1e-3


def test_probabilities_outside_of_0_and_1_are_refused():
    with pytest.raises(ValueError, match=r"scale must be at most 0\.25 for the linear link.*got 1"):
        jv.dueling_bandit(2, 3, link="linear")
    jv.dueling_bandit(2, 3, link="linear", scale=0.25)


def test_a_bandit_algorithm_is_told_what_it_lacks():
    with pytest.raises(ValueError, match="'pair' to play the dueling environment DuelingBandit, got Oful"):
        jv.run(jv.oful(2), jv.dueling_bandit(2, 3), KEY, num_rounds=5)
    with pytest.raises(ValueError, match="'select' to play the bandit environment LinearBandit, got Vacdb"):
        jv.run(jv.vacdb(2, 5), jv.linear_bandit(2, 3), KEY, num_rounds=5)


def test_an_absent_arm_in_a_pair_is_a_status(monkeypatch):
    environment = jv.dueling_bandit(2, 3, available=1)
    assert jv.run(jv.uniform(), environment, KEY, num_rounds=20).status == 0
    monkeypatch.setattr(jv.Side, "mask", lambda self, num: jnp.ones(num, bool))
    assert jv.run(jv.uniform(), environment, KEY, num_rounds=21).status == jv.status.ABSENT


def test_arms_that_lose_by_much_are_dropped_as_by_the_twin():
    """With a radius of its deterministic part and a large ridge some arms go and others stay once a layer is passed."""
    options = {"beta_scale": 0.0, "kappa": 2.0, "capacity": 8, "memory": twins.NUM_DUELS}
    algorithm = jv.vacdb(twins.DIM, twins.NUM_DUELS, **options)
    for seed in (0, 5):
        twins.check_duels("vacdb", algorithm, False, seed)


def test_maximum_likelihood_solves_its_equation_also_where_every_duel_was_won():
    rng = np.random.default_rng(0)
    for ridge in (1e-4, 1e-2, 1.0):
        for won in (np.ones(5), rng.integers(0, 2, 5).astype(float)):
            z, weight = rng.normal(size=(5, 3)), rng.uniform(0.1, 1.0, 5)
            theta, found = vacdb.maximum_likelihood(jnp.zeros(3), z, weight, weight * won, ridge)
            left = ridge * theta + z.T @ (weight * (vacdb_numpy.mu(z @ theta) - won))
            assert found and np.abs(left).max() < 1e-12
            np.testing.assert_allclose(theta, vacdb_numpy.maximum_likelihood(z, weight, won, ridge), rtol=1e-8)


def test_the_ellipsoids_before_the_first_duel():
    """Layer l has the ridge 4^-l, and its inverse is stored in other units."""
    sets = (algorithm := jv.vacdb(2, 200, capacity=5)).confidence(algorithm.init())
    for i, inverse in enumerate(sets.sigma_inv):
        np.testing.assert_allclose(inverse, 4.0 ** (i + 1) * np.eye(2))
    sets = (algorithm := jv.max_in_p(2, 200, lam=0.5)).confidence(algorithm.init())
    np.testing.assert_allclose(sets.sigma_inv, 2 * np.eye(2)[None])
    assert sets.beta_hat.shape == (1,)


@pytest.mark.slow
@pytest.mark.parametrize("make", [jv.vacdb, jv.max_in_p])
def test_the_ellipsoids_hold_theta_star(make):
    """At most 1 % of 2,000 seeds may miss; a false alarm once in 10,000 keys even if all of that 1 % were used."""
    environment = jv.dueling_bandit(2, 4, scale=1.0)
    algorithm = make(2, 200, delta=0.01)

    def misses(seed):
        trace = jv.trace(algorithm, environment, KEY, num_rounds=200, seed=seed)
        sets = jax.vmap(algorithm.confidence)(trace.state)
        away = sets.theta_hat - trace.instance.theta_star[None, None]
        distance2 = jnp.sum(away * jnp.linalg.solve(sets.sigma_inv, away[..., None])[..., 0], axis=-1)
        return jnp.any(distance2 > sets.beta_hat**2)

    missed = int(jnp.sum(jax.lax.map(jax.jit(misses), jnp.arange(2000))))
    assert stats.binomtest(missed, 2000, 0.01, alternative="greater").pvalue > 1e-4


def test_a_study_of_duels_is_a_study(tmp_path):
    study = jv.Study(
        name="duels",
        seeds=8,
        rounds=40,
        records=4,
        algorithms=[jv.Entry("uniform"), jv.Entry("max_in_p", options={"beta_scale": 0.01})],
        environments=[jv.Entry("dueling_bandit", options=SIZES, sweep={"scale": [1.0, 3.0]})],
        reference="uniform",
    )
    result = jv.run_study(study, tmp_path / "study", progress=False)
    assert study.kind == "duels" and len(result.cells) == 4
    assert all(np.all(cell.status == 0) and np.all(np.diff(cell.records["regret"]) >= 0) for cell in result.cells)
    with pytest.raises(jv.StudyError, match="linear_bandit is for bandits, in rounds, but the study for duels"):
        dataclasses.replace(study, environments=[*study.environments, jv.Entry("linear_bandit", options=SIZES)])
    with pytest.raises(jv.StudyError, match="oful is for bandits, in rounds, but the study for duels"):
        dataclasses.replace(study, algorithms=[jv.Entry("oful")], reference=None)
