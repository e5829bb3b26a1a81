"""Choices: few arms and many are compared by different code, which must agree; ties in whatever units."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvar import lowering
from jaxvar.algorithms import bandit as ties

SIZES = (1, 2, 3, 8, 9, 40)


@pytest.mark.parametrize("num", SIZES)
def test_lowest_and_largest_are_numpys(num):
    """Of many columns at once; no candidate at all gives index 0."""
    rng = np.random.default_rng(num)
    values = rng.normal(size=(num, 500))
    candidates = rng.random((num, 500)) < rng.random(500)
    candidates[:, :3] = np.array([False, True, False])  # none, all, none
    np.testing.assert_array_equal(jax.jit(lowering.largest)(values), values.max(0))
    np.testing.assert_array_equal(jax.jit(lowering.lowest)(candidates), candidates.argmax(0))


def best_of(unit):
    """The candidates among the rows of each column, [num, columns]."""
    return jax.jit(jax.vmap(lambda v, a: ties.best(v, a, 1e-9, unit), in_axes=1, out_axes=1))


@pytest.mark.parametrize("num", SIZES)
def test_nothing_but_what_is_allowed_is_best(num):
    """Within the tolerance of the best allowed value, and NaN is never among the best."""
    rng = np.random.default_rng(num)
    values = rng.integers(0, 3, (num, 500)) + 1e-12 * rng.normal(size=(num, 500))
    allowed = rng.random((num, 500)) < 0.7
    top = np.where(allowed, values, -np.inf).max(0)
    best = best_of(1)(values, allowed)
    np.testing.assert_array_equal(best, allowed & (values > top - 0.5))
    assert not np.any(best_of(1)(np.full_like(values, np.nan), allowed))


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("num", SIZES)
def test_ties_do_not_depend_on_the_units(num, scale):
    """Values and unit in other units are the same candidates; with a unit of 1 throughout, 1e-30 ties everything."""
    rng = np.random.default_rng(num)
    values = rng.integers(-2, 3, (num, 500)) + 1e-12 * rng.normal(size=(num, 500))
    everything = np.ones((num, 500), bool)
    expected = best_of(1.0)(values, everything)
    np.testing.assert_array_equal(best_of(scale)(scale * values, everything), expected)
    if num > 1:
        assert not np.all(expected)


@pytest.mark.parametrize("rule", ties.RULES)
@pytest.mark.parametrize("num", SIZES)
def test_a_pick_is_a_candidate_and_every_candidate_is_picked(num, rule):
    """The lowest one, or each as often as the others."""
    rng = np.random.default_rng(num)
    candidates = rng.random(num) < 0.5
    candidates[rng.integers(num)] = True
    words = jnp.asarray(rng.integers(0, 2**32, (4000, 2), dtype=np.uint32))
    picked = np.asarray(jax.jit(jax.vmap(lambda w: ties.pick(jnp.asarray(candidates), w, rule)))(words))
    assert np.all(candidates[picked])
    if rule == "lowest":
        assert np.all(picked == np.flatnonzero(candidates)[0])
    else:
        counts, many = np.bincount(picked, minlength=num)[candidates], candidates.sum()
        assert np.all(np.abs(counts - 4000 / many) < 5.5 * np.sqrt(4000 / many))


def test_a_pick_where_there_is_no_candidate():
    """A seed that has met a NaN still gets an index that exists."""
    words = jnp.zeros(2, jnp.uint32)
    for num in SIZES:
        for rule in ties.RULES:
            assert 0 <= int(ties.pick(jnp.zeros(num, bool), words, rule)) < num
