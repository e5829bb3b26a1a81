"""The published settings of episodic algorithms: constants in our scale mean what they mean in the sources'."""

import numpy as np
import pytest

from experiments.published import ucrl_vtr, ucrl_vtr_riverswim, ucrl_wvtr
from experiments.published._setting import Setting, play


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("setting", [ucrl_vtr_riverswim.SETTING, ucrl_vtr.SETTING], ids=lambda s: s.name)
def test_the_bonus_is_that_of_the_notebooks(setting: Setting, stage: int) -> None:
    """Fails if the ridge, the norm bound or the range is not the notebooks' after the change of scale."""
    (problem,) = setting.build(setting.length)
    ours, environment = problem.algorithms[ucrl_vtr.VTR], problem.environment
    num_states, num_actions, dim, horizon = environment.num_states, 2, environment.dim, environment.horizon
    unit = horizon if setting.slow else 1  # their value over ours
    theirs = np.random.default_rng(0).uniform(0, horizon, (30, dim))  # features sum_{s'} V(s') e_{s, a, s'}
    M = np.eye(dim) + theirs.T @ theirs
    first = np.sqrt(num_states * num_actions)
    second = (horizon - stage) / 2 * np.sqrt(2 * np.log(setting.length) + np.linalg.slogdet(M)[1])
    bonus = (first + second) * np.sqrt(theirs[0] @ np.linalg.solve(M, theirs[0]))

    scaled, lam, bound = theirs / (np.sqrt(num_states) * unit), float(ours.lam), float(ours.norm_bound)
    sigma = lam * np.eye(dim) + scaled.T @ scaled
    growth = 2 * np.log(1 / float(ours.delta)) + np.linalg.slogdet(sigma)[1] - dim * np.log(lam)
    left = 1 - stage / horizon if ours.radius == "stage" else 1
    beta = left * float(ours.value_bound) / 2 * np.sqrt(growth) + np.sqrt(lam) * bound
    assert beta * np.sqrt(scaled[0] @ np.linalg.solve(sigma, scaled[0])) == pytest.approx(bonus / unit, rel=1e-9)
    assert (setting.length, float(ours.beta_scale)) == (50_000 if setting.slow else 10_000, 1.0)


def test_the_settings_of_ucrl_wvtr() -> None:
    """Fails if a number is not the repository's."""
    (problem,) = ucrl_wvtr.SETTING.build(ucrl_wvtr.SETTING.length)
    assert (problem.environment.num_states, problem.environment.horizon) == (10, 100)
    assert ucrl_wvtr.SETTING.length == 1000 and len(problem.algorithms) == 4
    for label, moments, gamma in ((ucrl_wvtr.WVTR, 4, 0.5), (ucrl_wvtr.TWO, 2, 0.5), (ucrl_wvtr.ONE, 1, 0.0)):
        one = problem.algorithms[label]
        assert (one.num_moments, one.gamma, one.fixed_radius, one.sigma_min) == (moments, gamma, 1.0, 0.01)
        assert 3 * float(one.lam) == pytest.approx(1.0)


@pytest.mark.slow
def test_they_play() -> None:
    """Fails if a setting cannot be run; UCRL-WVTR must be ahead of its own UCRL-VTR, which must beat uniform play."""
    (river,) = play(ucrl_wvtr.SETTING, seeds=4, length=100, progress=False)
    order = (ucrl_wvtr.WVTR, ucrl_wvtr.TWO, ucrl_wvtr.ONE, ucrl_wvtr.UNIFORM)
    means = [river.regret[label][:, -1].mean() for label in order]
    assert means == sorted(means)
    assert all(optimistic.shape == held.shape == (4,) for optimistic, held in river.plans.values())
    (tree,) = play(ucrl_vtr.SETTING, seeds=2, length=200, progress=False)
    assert tree.regret[ucrl_vtr.VTR][:, -1].mean() < tree.regret[ucrl_vtr.UNIFORM][:, -1].mean()
