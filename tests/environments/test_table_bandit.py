"""Bandits from tables and from stored data: exact means and variances, contexts as asked, and files that are checked.

Statistical limits are 5 standard errors (two-sided 6e-7 per comparison) at fixed keys.
"""

import hashlib
import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxvar as jv
from jaxvar.environments import data_bandit as stored
from jaxvar.environments.table_bandit import block_features

KEY = jax.random.key(0)
Z = 5.0
NUM = 20_000
_RNG = np.random.default_rng(0)
FEATURES = _RNG.uniform(-0.5, 0.5, (3, 2, 4))
MEANS = np.array([[0.1, 0.9], [0.0, 0.5], [1.0, 0.3]])
VARIANCES = np.array([[0.0, 0.04], [0.25, 1.0], [0.01, 0.09]])
LAWS = {"bernoulli": {}} | {law: {"variances": VARIANCES, "noise": law} for law in ("two_point", "uniform", "gaussian")}
SIZES = {"digits": (1797, 10, 90), "breast_cancer": (569, 2, 18), "wine": (178, 3, 27), "diabetes": (44, 10, 11)}


def drawn_rounds(environment, num=NUM):
    """Rows, as numbers that the first feature tells, and the rewards of both arms in many rounds."""
    instance = environment.init(KEY)

    def one(round):
        keys = jv.random.fold_in(KEY, round), jv.random.fold_in(jax.random.key(1), round)
        seen = environment.observe(instance, jnp.int32(1), keys[0])
        pulls = [environment.pull(instance, seen, jnp.int32(a), jnp.int32(1), keys[1]) for a in range(2)]
        return seen, jnp.stack(pulls)

    seen, rewards = jax.jit(jax.vmap(one))(jnp.arange(num))
    rows = np.argmax(np.asarray(seen.arms)[:, 0, :1] == FEATURES[:, 0, 0], axis=1)
    return rows, jax.tree.map(np.asarray, seen), np.asarray(rewards)


@pytest.mark.parametrize("law", LAWS)
def test_rewards_have_the_means_and_variances_of_the_table(law):
    """Rows are drawn evenly, rows are not mixed up, and each reward has the moments that the observation states."""
    environment = jv.table_bandit(FEATURES, MEANS, **LAWS[law])
    rows, seen, rewards = drawn_rounds(environment)
    assert scipy.stats.chisquare(np.bincount(rows, minlength=3)).pvalue > 1e-6
    np.testing.assert_array_equal(seen.arms, FEATURES[rows])
    np.testing.assert_array_equal(seen.mean, MEANS[rows])
    stated = MEANS * (1 - MEANS) if law == "bernoulli" else VARIANCES
    np.testing.assert_array_equal(seen.noise_var, stated[rows])
    for row, arm in np.ndindex(3, 2):
        noise = rewards[rows == row, arm] - MEANS[row, arm]
        for sample, expected in ((noise, 0.0), (noise**2, stated[row, arm])):
            assert abs(sample.mean() - expected) <= Z * sample.std() / np.sqrt(len(sample)) + 1e-12, (row, arm)
    if law == "bernoulli":
        assert set(np.unique(rewards)) == {0.0, 1.0}
    bound = {"bernoulli": 1.0, "two_point": 1.0, "uniform": 3**0.5, "gaussian": np.inf}[law]
    assert float(environment.noise_bound) == pytest.approx(bound)
    assert np.all(np.abs(rewards - seen.mean) <= bound * (1 + 1e-12))
    assert float(environment.norm_bound) == pytest.approx(np.linalg.norm(FEATURES, axis=-1).max())


@pytest.mark.parametrize("law", LAWS)
def test_noise_can_be_scaled_down(law):
    """On the same keys, deviations are s times and variances s^2 times those of the table; arms, means and R stay."""
    whole, scaled = (jv.table_bandit(FEATURES, MEANS, **LAWS[law], noise_scale=s) for s in (1.0, 0.3))
    default = jv.table_bandit(FEATURES, MEANS, **LAWS[law])
    (rows, seen, rewards), (_, weak, weaker), (_, _, same) = (drawn_rounds(e, 500) for e in (whole, scaled, default))
    stated = MEANS * (1 - MEANS) if law == "bernoulli" else VARIANCES
    np.testing.assert_array_equal(same, rewards)
    np.testing.assert_array_equal(weak.arms, seen.arms)
    np.testing.assert_array_equal(weak.mean, MEANS[rows])
    np.testing.assert_allclose(weak.noise_var, 0.09 * stated[rows], rtol=1e-12)
    np.testing.assert_allclose(weaker - MEANS[rows], 0.3 * (rewards - MEANS[rows]), rtol=1e-9, atol=1e-12)
    assert float(scaled.noise_bound) == float(whole.noise_bound)
    assert scaled.summary().variance_ratio == pytest.approx(0.09 * whole.summary().variance_ratio)


def test_stored_tasks_without_noise():
    """In both kinds of tasks the reward then is the mean."""
    for task in ("wine", "diabetes"):
        still = jv.trace(jv.uniform(), jv.data_bandit(task, 0.0), KEY, num_rounds=20)
        means = np.take_along_axis(np.asarray(still.mean), np.asarray(still.action)[:, None], 1)[:, 0]
        np.testing.assert_array_equal(still.reward, means)
        assert not np.any(still.noise_var)


def test_given_contexts_are_played_in_their_order():
    """The arms of round k are those of row contexts[k - 1], regret is that of the table, and no round comes after."""
    rows = np.array([2, 0, 0, 1, 2, 1, 1])
    environment = jv.table_bandit(FEATURES, MEANS, contexts=rows)
    assert (environment.max_rounds, environment.num_contexts, environment.fixed_arms) == (7, 3, False)
    trace = jv.trace(jv.uniform(), environment, KEY, num_rounds=7)
    np.testing.assert_array_equal(trace.arms, FEATURES[rows])
    gaps = MEANS.max(axis=1)[rows] - MEANS[rows, np.asarray(trace.action)]
    np.testing.assert_allclose(trace.regret, np.cumsum(gaps), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=r"num_rounds must be .* at most 7, got 8"):
        jv.trace(jv.uniform(), environment, KEY, num_rounds=8)


def test_a_table_is_a_replay_of_its_rounds():
    """Fails if a learner meets other arms or rewards in a table than in the arrays that a trace of it holds."""
    environment = jv.table_bandit(FEATURES, MEANS, VARIANCES)
    algorithm = jv.oful(4, noise_bound=1.0)
    trace = jax.tree.map(np.asarray, jv.trace(algorithm, environment, KEY, num_rounds=60, seed=2))
    each = np.arange(60)
    noise = trace.reward - trace.mean[each, trace.action]
    again = jv.replay_bandit(trace.arms, trace.mean, noise, noise_var=trace.noise_var)
    replayed = jv.trace(algorithm, again, KEY, num_rounds=60, seed=2)
    np.testing.assert_array_equal(replayed.action, trace.action)
    np.testing.assert_allclose(replayed.regret, trace.regret, rtol=1e-12)
    assert len({tuple(arms[0]) for arms in trace.arms}) == 3  # contexts come and go


def test_one_context_has_fixed_arms():
    """The algorithm is then handed the arms once, and they are those of every round."""
    environment = jv.table_bandit(FEATURES[:1], MEANS[:1], VARIANCES[:1])
    assert environment.fixed_arms
    np.testing.assert_array_equal(environment.init(KEY).arms, FEATURES[0])
    trace = jv.trace(jv.oful(4), environment, KEY, num_rounds=5)
    np.testing.assert_array_equal(trace.arms, np.broadcast_to(FEATURES[0], (5, 2, 4)))


def test_rows_become_blocks():
    """Arm k has the row in its own block and zeros elsewhere."""
    rows = np.array([[1.0, 0.5], [0.25, 0.0]])
    expected = np.array([[[1, 0.5, 0, 0, 0, 0], [0, 0, 1, 0.5, 0, 0], [0, 0, 0, 0, 1, 0.5]],
                         [[0.25, 0, 0, 0, 0, 0], [0, 0, 0.25, 0, 0, 0], [0, 0, 0, 0, 0.25, 0]]])  # fmt: skip
    np.testing.assert_array_equal(block_features(rows, 3), expected)
    environment = jv.table_bandit(rows, np.full((2, 3), 0.5))
    assert (environment.dim, environment.num_arms, environment.num_contexts) == (6, 3, 2)
    np.testing.assert_array_equal(environment.features, expected)


def test_the_summary_by_hand():
    """One coordinate, two contexts: everything can be computed on paper."""
    features = np.array([[[1.0], [0.5]], [[1.0], [0.0]]])
    means, variances = np.array([[0.4, 0.6], [0.2, 0.0]]), np.array([[0.01, 0.04], [0.16, 0.09]])
    found = jv.table_bandit(features, means, variances).summary()
    theta = (0.4 + 0.5 * 0.6 + 0.2) / 2.25  # 0.4
    np.testing.assert_allclose(found.best_theta, [theta])
    errors = means - theta * features[..., 0]  # (0, 0.4), (-0.2, 0)
    assert found.misspecification == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert found.largest_error == pytest.approx(0.4)
    assert found.linear_regret == pytest.approx((0.6 - 0.4) / 2)  # it prefers the first arm in both
    assert found.uniform_regret == pytest.approx((0.1 + 0.1) / 2)
    assert found.variance_ratio == pytest.approx((0.04 + 0.16) / 2 / 0.16)
    second = jv.table_bandit(features, means, variances, contexts=[1, 1, 1]).summary()
    assert second.misspecification == pytest.approx(0, abs=1e-12)
    assert jv.table_bandit(features, means, variances * 0).summary().variance_ratio == 0


def test_means_and_variances_can_be_swept():
    """Half the variance in one program; the bound is the largest over the settings."""
    base = jv.table_bandit(FEATURES, MEANS, VARIANCES)
    swept = jv.sweep(base, variances=[VARIANCES, VARIANCES / 4])
    assert (swept.dim, swept.num_arms, swept.num_contexts) == (4, 2, 3)
    assert float(swept.noise_bound) == 1.0
    found = jv.simulate(jv.oful(4), swept, key=KEY, num_rounds=30, num_seeds=3, record_at=[30])
    alone = jv.simulate(jv.oful(4), base, key=KEY, num_rounds=30, num_seeds=3, record_at=[30])
    np.testing.assert_allclose(found.regret[0], alone.regret, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("task", stored.TASKS)
def test_stored_tasks(task):
    """Sizes, ranges and the numbers that the documentation rests on."""
    environment = jv.data_bandit(task)
    assert (environment.num_contexts, environment.num_arms, environment.dim) == SIZES[task]
    assert float(environment.norm_bound) == pytest.approx(1, abs=1e-6)
    found = environment.summary()
    assert 0 < found.variance_ratio < 0.5 and found.linear_regret < found.uniform_regret / 10
    if task == "diabetes":  # linear, with noise that differs by a factor of five between patients
        np.testing.assert_allclose(found.best_theta, environment.theta_star, rtol=1e-4)
        assert found.misspecification < 1e-6 and found.linear_regret < 1e-6
        std = np.sqrt(environment.variances)
        assert std.max() / std.min() > 5 and float(environment.noise_bound) == pytest.approx(std.max())
    else:  # probabilities of classes; block features
        np.testing.assert_allclose(environment.means.sum(axis=1), 1, atol=1e-5)
        blocks = environment.features.reshape(*SIZES[task][:2], SIZES[task][1], 9)
        assert np.all(np.any(blocks != 0, axis=3) == np.eye(SIZES[task][1], dtype=bool))
        assert 0.1 < found.misspecification < 0.2


def test_uniform_play_has_the_regret_that_is_stated():
    """The whole way through the simulator: contexts, blocks and means fit together (100 seeds, 5 standard errors)."""
    environment = jv.data_bandit("wine")
    found = jv.simulate(jv.uniform(), environment, key=KEY, num_rounds=200, num_seeds=100, record_at=1)
    per_round = found.regret[:, -1] / 200
    error = per_round.mean() - environment.summary().uniform_regret
    assert abs(error) < Z * per_round.std() / np.sqrt(100)


def test_files_are_small_and_those_that_were_stored(tmp_path, monkeypatch):
    """A file that was changed or truncated is refused before anything of it is read."""
    paths = {task: stored._FOLDER / f"{task}.npz" for task in stored.TASKS}
    assert {path.name for path in stored._FOLDER.iterdir()} == {path.name for path in paths.values()}
    sizes = [path.stat().st_size for path in paths.values()]
    assert max(sizes) < 300_000 and sum(sizes) < 600_000
    content = paths["wine"].read_bytes()
    assert hashlib.sha256(content).hexdigest() == stored._DIGESTS["wine"]
    monkeypatch.setattr(stored, "_FOLDER", tmp_path)
    for wrong in (content[:-1], content[:100] + bytes([content[100] ^ 1]) + content[101:]):
        (tmp_path / "wine.npz").write_bytes(wrong)
        with pytest.raises(RuntimeError, match=r"wine\.npz is not the file that jaxvar came with"):
            jv.data_bandit("wine")


@pytest.mark.slow
def test_the_script_makes_the_stored_fits(tmp_path, capsys):
    """Up to what another version of scikit-learn may change in the last digits."""
    pytest.importorskip("sklearn")
    script = Path(__file__).parents[2] / "scripts" / "make_data.py"
    spec = importlib.util.spec_from_file_location("make_data", script)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.main(tmp_path)
    printed = capsys.readouterr().out
    for task in stored.TASKS:
        assert f'"{task}": "' in printed
        with np.load(tmp_path / f"{task}.npz", allow_pickle=False) as file:
            ours = stored._read(task)
            assert set(file.files) == set(ours)
            for name, array in ours.items():
                np.testing.assert_allclose(file[name], array, rtol=1e-3, atol=1e-4)
