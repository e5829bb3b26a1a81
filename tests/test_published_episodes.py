"""The published settings of episodic algorithms: constants in our scale mean what they mean in the sources'."""

import numpy as np
import pytest

from experiments.episodes import study
from experiments.published import ucrl_vtr, ucrl_wvtr


@pytest.mark.parametrize("index", [0, 1])
def test_the_bonus_is_that_of_the_notebooks(index: int) -> None:
    """Fails if the ridge, the norm bound or the range is not the notebooks' after the change of scale."""
    problem = ucrl_vtr.problems(ucrl_vtr.Options())[index]
    ours, environment = problem.algorithms[ucrl_vtr.VTR], problem.environment
    num_states, num_actions, dim, horizon = environment.num_states, 2, environment.dim, environment.horizon
    unit = horizon if index == 0 else 1  # their value over ours
    theirs = np.random.default_rng(0).uniform(0, horizon, (30, dim))  # features sum_{s'} V(s') e_{s, a, s'}
    M = np.eye(dim) + theirs.T @ theirs
    first = np.sqrt(num_states * num_actions)
    second = horizon / 2 * np.sqrt(2 * np.log(problem.episodes) + np.linalg.slogdet(M)[1])  # of stage 0
    bonus = (first + second) * np.sqrt(theirs[0] @ np.linalg.solve(M, theirs[0]))

    scaled, lam, bound = theirs / (np.sqrt(num_states) * unit), float(ours.lam), float(ours.norm_bound)
    sigma = lam * np.eye(dim) + scaled.T @ scaled
    growth = 2 * np.log(1 / float(ours.delta)) + np.linalg.slogdet(sigma)[1] - dim * np.log(lam)
    beta = float(ours.value_bound) / 2 * np.sqrt(growth) + np.sqrt(lam) * bound
    assert beta * np.sqrt(scaled[0] @ np.linalg.solve(sigma, scaled[0])) == pytest.approx(bonus / unit, rel=1e-9)
    assert (problem.episodes, float(ours.beta_scale)) == ((50_000, 10_000)[index], 1.0)


def test_the_settings_of_ucrl_wvtr() -> None:
    """Fails if a number is not the repository's."""
    problem = ucrl_wvtr.problem(ucrl_wvtr.Options())
    assert (problem.environment.num_states, problem.environment.horizon) == (10, 100)
    assert problem.episodes == 1000 and len(problem.algorithms) == 4
    for label, moments, gamma in ((ucrl_wvtr.WVTR, 4, 0.5), (ucrl_wvtr.TWO, 2, 0.5), (ucrl_wvtr.ONE, 1, 0.0)):
        one = problem.algorithms[label]
        assert (one.num_moments, one.gamma, one.fixed_radius, one.sigma_min) == (moments, gamma, 1.0, 0.01)
        assert 3 * float(one.lam) == pytest.approx(1.0)


@pytest.mark.slow
def test_they_play() -> None:
    """Fails if a setting cannot be run; UCRL-WVTR must be ahead of its own UCRL-VTR, which must beat uniform play."""
    played = study.run(ucrl_wvtr.problem(ucrl_wvtr.Options(seeds=4, episodes=100)), progress=False).played
    means = [played[x].regret[:, -1].mean() for x in (ucrl_wvtr.WVTR, ucrl_wvtr.TWO, ucrl_wvtr.ONE, ucrl_wvtr.UNIFORM)]
    assert means == sorted(means)
    small = ucrl_vtr.Options(river_seeds=2, river_episodes=20, tree_seeds=2, tree_episodes=200)
    _, tree = ucrl_vtr.problems(small)
    played = study.run(tree, progress=False).played
    assert played[ucrl_vtr.VTR].regret[:, -1].mean() < played[ucrl_vtr.UNIFORM].regret[:, -1].mean()
