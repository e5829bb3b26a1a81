"""The programs that ``jaxvar bench`` compares with play the same game."""

import jax
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.bench import numpy_loop, numpy_vector
from jaxvar.bench.report import Bench, bandit_game, bench

SIZE = {"dim": 4, "num_arms": 8, "num_rounds": 400}


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", ["oful", "save", "ave_ucb"])
def test_rival_has_the_same_mean_regret(name, fresh):
    """A rival that plays another algorithm would make every ratio meaningless.

    Independent samples of 256 and 512 seeds; their means differ by more than 5 standard errors with probability below
    1e-6 in each of the six cases.
    """
    options = Bench(dim=SIZE["dim"], arms=SIZE["num_arms"], rounds=SIZE["num_rounds"], seeds=512)
    algorithm, environment = bandit_game(options, name, fresh)
    out = jv.simulate(algorithm, environment, key=jax.random.key(1), num_rounds=400, num_seeds=512, records=1)
    ours = out.regret[:, -1]
    theirs = getattr(numpy_vector, name)(**SIZE, num_seeds=256, fresh=fresh, seed=1)
    error = np.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs))
    assert abs(ours.mean() - theirs.mean()) < 5 * error


def test_loop_plays_as_the_vectorised_one():
    """The two NumPy programs share little code; the same bound on a smaller sample."""
    one = numpy_loop.save(**SIZE, num_seeds=48, fresh=True, seed=2)
    other = numpy_vector.save(**SIZE, num_seeds=256, fresh=True, seed=3)
    assert abs(one.mean() - other.mean()) < 5 * np.sqrt(one.var() / 48 + other.var() / 256)


@pytest.mark.slow
def test_bench_prints_a_row_per_algorithm(capsys):
    """The command runs with Numba, and names versions and devices."""
    assert bench(Bench(dim=3, arms=4, rounds=50, seeds=16, repeats=1, algorithms=("oful",))) == 0
    printed = capsys.readouterr().out
    assert "numba" in printed and "steps/s" in printed and printed.count("oful f") == 2
