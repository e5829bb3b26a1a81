"""Few arms and many are compared by different code, which must agree."""

import jax
import numpy as np
import pytest

from jaxvar import ties

SIZES = (1, 2, 3, 8, 9, 40)


@pytest.mark.parametrize("num", SIZES)
def test_lowest_and_largest_are_numpys(num):
    """With a batch of seeds at the end; no candidate at all gives index 0."""
    rng = np.random.default_rng(num)
    values = rng.normal(size=(num, 500))
    candidates = rng.random((num, 500)) < rng.random(500)
    candidates[:, :3] = np.array([False, True, False])  # none, all, none
    np.testing.assert_array_equal(jax.jit(ties.largest)(values), values.max(0))
    np.testing.assert_array_equal(jax.jit(ties.lowest)(candidates), candidates.argmax(0))


@pytest.mark.parametrize("num", SIZES)
def test_nothing_but_what_is_allowed_is_best(num):
    """Within the tolerance of the best allowed value, and NaN is never among the best."""
    rng = np.random.default_rng(num)
    values = rng.integers(0, 3, (num, 500)) + 1e-12 * rng.normal(size=(num, 500))
    allowed = rng.random((num, 500)) < 0.7
    top = np.where(allowed, values, -np.inf).max(0)
    best = jax.jit(lambda v, a: ties.best(v, a, 1e-9))(values, allowed)
    np.testing.assert_array_equal(best, allowed & (values > top - 0.5))
    assert not np.any(jax.jit(lambda v, a: ties.best(v, a, 1e-9))(np.full_like(values, np.nan), allowed))
