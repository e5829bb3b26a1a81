"""Weights and features of extreme size end no run."""

import jax
import pytest

import jaxvar as jv
from experiments.published import weighted_oful


def test_a_huge_weight_does_not_lose_the_inverse() -> None:
    """Fails if a weight of 3e8 (round 6397), after which x^T P x has no digits left, ends the run of this seed."""
    problem = weighted_oful.problems(10_000)[0]
    out = jv.simulate(
        problem.algorithms["Weighted OFUL (C = 0.002, as published)"],
        problem.environment,
        key=jax.random.key(0),
        num_rounds=6500,
        num_seeds=1,
        first_seed=187,
    )
    assert out.status.tolist() == [0]


@pytest.mark.slow
def test_high_moments_that_underflow_do_not_end_a_run() -> None:
    """Fails if the smallest moments of HF-UCRL-VTR+, whose squares underflow, are taken for a lost inverse."""
    environment = jv.graded_mdp(num_states=5, num_actions=3, dim=3, mix=0.3, horizon=10)
    algorithm = jv.hf_ucrl_vtr_plus(3, 10, 1000, norm_bound=environment.norm_bound, beta_scale=0.001)
    out = jv.simulate(algorithm, environment, key=jax.random.key(0), num_episodes=400, num_seeds=1, first_seed=1000036)
    assert out.status.tolist() == [0]
