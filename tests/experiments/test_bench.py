"""Programs that ``python -m experiments speed`` compares with play the same game; ``jaxvar bench`` prints its lines."""

import jax
import numpy as np
import pytest

import jaxvar as jv
from experiments.speed import numpy_loop, numpy_vector
from experiments.speed.comparison import Comparison, bandit_game, compare, episodic_game
from jaxvar import bench as package

SIZE = {"dim": 4, "num_arms": 8, "num_rounds": 400}


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", ["save", *(pytest.param(n, marks=pytest.mark.slow) for n in ("oful", "ave_ucb"))])
def test_rival_has_the_same_mean_regret(name, fresh):
    """A rival that plays another algorithm would make every ratio meaningless.

    Independent samples of 256 and 512 seeds; their means differ by more than 5 standard errors with probability below
    1e-6 in each of the six cases.
    """
    options = Comparison(dim=SIZE["dim"], arms=SIZE["num_arms"], rounds=SIZE["num_rounds"], seeds=512)
    algorithm, environment = bandit_game(options, name, fresh)
    out = jv.simulate(algorithm, environment, key=jax.random.key(1), num_rounds=400, num_seeds=512, record_at=1)
    ours = out.regret[:, -1]
    theirs = getattr(numpy_vector, name)(**SIZE, num_seeds=256, fresh=fresh, seed=1)
    error = np.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs))
    assert abs(ours.mean() - theirs.mean()) < 5 * error


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", ["oful", "save", "ave_ucb"])
def test_numba_rival_is_right_at_every_dimension(name, fresh):
    """Unrolled and not: the program that one seed's loops become has other branches above d = 12."""
    from experiments.speed import numba_bandits

    for dim in (4, 14):
        size = {"dim": dim, "num_arms": 9, "num_rounds": 400, "fresh": fresh}
        one, other = (
            getattr(m, name)(**size, num_seeds=256, seed=i) for i, m in enumerate((numba_bandits, numpy_vector))
        )
        assert abs(one.mean() - other.mean()) < 5 * np.sqrt(one.var() / 256 + other.var() / 256)


def test_loop_plays_as_the_vectorised_one():
    """The two NumPy programs share little code; the same bound on a smaller sample."""
    one = numpy_loop.save(**SIZE, num_seeds=48, fresh=True, seed=2)
    other = numpy_vector.save(**SIZE, num_seeds=256, fresh=True, seed=3)
    assert abs(one.mean() - other.mean()) < 5 * np.sqrt(one.var() / 48 + other.var() / 256)


def assert_same_mean_regret(options, rival, num_seeds, rival_seeds):
    """The bound of the test above, for UCRL-AVE on the one model that all programs play."""
    algorithm, environment = episodic_game(options)
    instance = jax.tree.map(np.asarray, environment.init(jax.random.key(0)))
    length = {"num_episodes": options.episodes}
    out = jv.simulate(algorithm, environment, key=jax.random.key(1), num_seeds=num_seeds, record_at=1, **length)
    ours = out.regret[:, -1]
    size = {"horizon": options.horizon, "norm_bound": float(algorithm.norm_bound), "delta": 0.01, **length}
    model = (instance.phi, instance.reward, instance.theta_star)
    theirs = rival(*model, **size, num_seeds=rival_seeds, seed=1)
    error = np.sqrt(ours.var() / num_seeds + theirs.var() / rival_seeds)
    assert abs(ours.mean() - theirs.mean()) < 5 * error


@pytest.mark.slow
def test_episodic_rival_has_the_same_mean_regret():
    """96 seeds of ours against 12 of the NumPy loop."""
    options = Comparison(states=4, actions=3, features=2, horizon=4, episodes=150)
    assert_same_mean_regret(options, numpy_loop.ucrl_ave, 96, 12)


@pytest.mark.slow
def test_episodic_numba_rival_has_the_same_mean_regret():
    """256 seeds of either."""
    from experiments.speed import numba_episodes

    assert_same_mean_regret(Comparison(episodes=200), numba_episodes.ucrl_ave, 256, 256)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5, 3, 4, 6), (35, 2, 2, 4), (3, 2, 13, 4)], ids=["plain", "chunks", "rolled"])
def test_numba_rival_of_episodes_is_right_in_every_branch(sizes):
    """The sizes reach them all: odd actions, successors in three chunks, quadratic forms that are not unrolled."""
    from experiments.speed import numba_episodes

    states, actions, features, horizon = sizes
    options = Comparison(states=states, actions=actions, features=features, horizon=horizon, episodes=150)
    assert_same_mean_regret(options, numba_episodes.ucrl_ave, 256, 200)  # 200 seeds do not fill the last block


@pytest.mark.slow
def test_bench_prints_a_row_per_algorithm(capsys):
    """The command runs with Numba, and names versions and devices."""
    options = Comparison(
        dim=3, arms=4, rounds=50, seeds=16, repeats=1, algorithms=("oful", "ucrl_ave"), episodes=20, episode_seeds=16
    )
    assert compare(options) == 0
    printed = capsys.readouterr().out
    assert "numba" in printed and "steps/s" in printed and printed.count("oful f") == 2
    assert printed.count("numba, 1 per core") == 2 and printed.count("numba, in lanes") == 1


def test_package_prints_a_line_per_program(capsys):
    """Without Numba or anything else beside the package; SAVE and AVE-UCB are not asked for here."""
    assert package.bench(package.Bench(algorithms=("oful", "ucrl_ave"), seeds=8, rounds=20, dim=2, arms=3)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "jaxvar" in lines[0] and "device" in lines[0] and "float64" in lines[-4] and "float32" in lines[-4]
    assert [line.split()[0] for line in lines[-3:]] == ["oful", "oful", "ucrl_ave"]
    for line in lines[-3:]:
        double, large, single, small = line.split()[-4:]
        assert float(double) > 0 and float(single) > 0
        assert int(large.replace(",", "")) > int(small.replace(",", "")) > 8


def test_package_refuses_unknown_names(capsys):
    assert package.bench(package.Bench(algorithms=("greedy",))) == 2
    assert "'oful', 'save', 'ave_ucb', 'ucrl_ave', got 'greedy'" in capsys.readouterr().err
