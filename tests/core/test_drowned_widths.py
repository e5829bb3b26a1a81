"""Widths smaller than their own rounding: an inverse that is positive definite is not reported as lost."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from experiments.published import weighted_oful
from jaxvar import ridge


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_that_underflow_do_not_make_a_width_negative(dtype: Any) -> None:
    """Fails if the positive terms of x^T P x are flushed to zero, the negative one is not, and the rest goes on."""
    inverse = np.array([[5.88, 0, -4], [0, 5.52, -4], [-4, -4, 5.74]])  # x^T P x of (1, 1, 1): 1.88 + 1.52 - 2.26
    assert np.linalg.eigvalsh(inverse)[0] > 0.03
    x = np.full(3, np.sqrt(np.finfo(dtype).tiny / 2.25), dtype)
    before = ridge.init_ridge(3, 1, dtype)._replace(sigma_inv=jnp.asarray(inverse, dtype))
    learn = jax.jit(functools.partial(ridge.regress, lam=0.1))
    after, seen = learn(before, jnp.asarray(x), jnp.asarray(x[0]))
    assert seen.width2 == 0 and seen.gain == 0 and seen.step == 0
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, after, before)))
    _, turned = learn(before._replace(sigma_inv=-before.sigma_inv / 100), jnp.ones(3, dtype), x[0])
    assert turned.width2 < 0  # an inverse that is really lost still shows


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
