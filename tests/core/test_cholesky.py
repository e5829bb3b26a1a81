"""Cholesky factors and what they solve, beside NumPy's."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaxvar import cholesky
from jaxvar.blocks import over_seeds

fixed_profile = settings(
    derandomize=True, deadline=None, max_examples=25, database=None, suppress_health_check=[HealthCheck.too_slow]
)
factor = jax.jit(cholesky.factor)


@st.composite
def data(draw: Any) -> tuple[np.ndarray, float]:
    """Observations ``[60, d]`` of sizes over four decades, some zero, and a ridge."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    xs = rng.normal(size=(60, draw(st.sampled_from([1, 2, 5])))) * 10.0 ** rng.uniform(-3, 1, size=(60, 1))
    xs[rng.random(60) < 0.1] = 0.0
    return xs, draw(st.sampled_from([1e-3, 1.0, 30.0]))


@fixed_profile
@given(data())
def test_factor_is_numpys(given: tuple[np.ndarray, float]) -> None:
    """The unique lower triangular root with a positive diagonal."""
    xs, lam = given
    matrix = lam * np.eye(xs.shape[1]) + xs.T @ xs
    ours, wanted = np.asarray(factor(matrix)), np.linalg.cholesky(matrix)
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-13 * np.linalg.cond(matrix) * np.abs(wanted).max())
    np.testing.assert_array_equal(np.triu(ours, 1), 0.0)


def test_over_seeds_each_has_its_own() -> None:
    """The same lines must be right with seeds at the end."""
    rng = np.random.default_rng(1)
    x, roots = rng.normal(size=(3, 4)), rng.normal(size=(3, 3, 4))
    matrix = np.einsum("ijs,kjs->iks", roots, roots) + np.eye(3)[..., None]
    lower = np.stack([np.linalg.cholesky(matrix[..., s]) for s in range(4)], axis=-1)
    for function, args, alone in (
        (cholesky.factor, (matrix,), lambda s: cholesky.factor(matrix[..., s])),
        (cholesky.solve, (lower, x), lambda s: np.linalg.solve(matrix[..., s], x[:, s])),
        (cholesky.solve, (lower, roots), lambda s: np.linalg.solve(matrix[..., s], roots[..., s])),
    ):
        together, differs = over_seeds(function, (4,), args, (True,) * len(args))
        assert differs and together.shape[-1] == 4
        for s in range(4):
            np.testing.assert_allclose(together[..., s], alone(s), rtol=1e-12, atol=1e-14, err_msg=function.__name__)


def test_an_indefinite_matrix_is_not_given_a_root() -> None:
    """NaN, which the algorithms report, and no plausible numbers."""
    assert np.isnan(np.asarray(cholesky.factor(jnp.array([[1.0, 2.0], [2.0, 1.0]])))).any()
