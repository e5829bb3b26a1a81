"""Programs for an accelerator are traced in a form of their own, which decides like the CPU's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.batching import form_for, on_accelerator, seeds_last
from jaxvar.bench.report import Bench, bandit_game, episodic_game
from jaxvar.written_out import written_out

SMALL = Bench(dim=3, arms=4, rounds=120, states=3, actions=2, features=2, horizon=3, episodes=30)
NUM_SEEDS = 8


def played(accelerator, algorithm, environment, **length):
    recorders = (jv.record.regret(), jv.record.layer_rounds(), jv.record.confidence())
    with form_for(accelerator):
        out = jv.simulate(
            algorithm, environment, key=jax.random.key(3), num_seeds=NUM_SEEDS, records=5, record=recorders, **length
        )
    out.raise_if_failed()
    return out


def assert_alike(*game, **length):
    cpu, other = (played(accelerator, *game, **length) for accelerator in (False, True))
    np.testing.assert_allclose(other.regret, cpu.regret, rtol=1e-9, atol=1e-12)  # a sum may have another order
    np.testing.assert_array_equal(other.layer_rounds, cpu.layer_rounds)
    np.testing.assert_array_equal(other.confidence, cpu.confidence)


@pytest.mark.parametrize("fresh", [False, True], ids=["fixed", "fresh"])
@pytest.mark.parametrize("name", ["save", pytest.param("ave_ucb", marks=pytest.mark.slow)])
def test_both_forms_decide_alike(name, fresh):
    """Fails if an arm, a layer or a radius differs anywhere in the runs."""
    assert_alike(*bandit_game(SMALL, name, fresh), num_rounds=SMALL.rounds)


def test_both_forms_plan_alike():
    """The same for episodes."""
    assert_alike(*episodic_game(SMALL), num_episodes=SMALL.episodes)


@pytest.mark.parametrize("batch", [(), (5,), (2, 5)])
def test_arithmetic_entry_by_entry_is_the_function(batch):
    """Every kind of operation that may stand in such a function; batches on trailing axes."""

    @written_out
    def function(matrix, vector, flags):
        index = jnp.arange(vector.shape[0], dtype=jnp.int32).reshape(-1, *(1,) * (vector.ndim - 1))
        top = jnp.max(jnp.where(flags, vector, -jnp.inf), axis=0)
        first = jnp.min(jnp.where(vector >= top[None], index, 3), axis=0)
        product = jnp.sum(matrix * vector[None], axis=1)
        both = jnp.concatenate([product[:1], jnp.sqrt(jnp.abs(product[1:]))])
        return jnp.stack([top, jnp.sum(both, axis=0)]), first, jnp.moveaxis(matrix, 0, 1), jnp.any(flags, axis=0)

    kernel = seeds_last(function)
    rng = np.random.default_rng(0)
    args = [rng.normal(size=(*batch, 2, 3)), rng.normal(size=(*batch, 3)), rng.normal(size=(*batch, 3)) > -1]
    mapped = kernel
    for _ in batch:
        mapped = jax.vmap(mapped)
    with form_for(False):
        expected = mapped(*args)
    with form_for(True):
        found = mapped(*args)
        text = str(jax.make_jaxpr(mapped)(*args))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(y, x, rtol=1e-14), expected, found)
    assert "reduce" not in text  # it really is the other form


def test_what_cannot_be_written_out_is_named():
    """A sort has no form entry by entry."""
    with form_for(True), pytest.raises(NotImplementedError, match="'sort'"):
        seeds_last(written_out(lambda x: jnp.sort(x, axis=0)))(np.zeros(3))


def test_the_form_is_that_of_the_platform():
    """Unless one is asked for."""
    assert not on_accelerator("cpu") and on_accelerator("tpu")
    with form_for(True):
        assert on_accelerator("cpu")
    assert not on_accelerator("cpu")
