"""Choosing among arms gives the same whether values come as one array or as a list of rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvar import ties


@pytest.mark.parametrize("num_arms", [1, 5, 20])
@pytest.mark.parametrize("rule", ties.RULES)
def test_rows_choose_as_arrays_do(rule, num_arms, monkeypatch):
    rng = np.random.default_rng(num_arms)
    values = jnp.asarray(rng.integers(0, 4, size=(num_arms, 64)).astype(float))  # with many ties
    allowed = jnp.asarray(rng.random((num_arms, 64)) < 0.7)
    words = jnp.asarray(rng.integers(0, 2**32, size=(2, 64), dtype=np.uint32))
    kinds = []

    def choose(values, allowed):
        kinds.append(type(values) is list)
        action = ties.pick(ties.best(values, allowed, 1e-9), words, rule)
        return action, ties.take(values, action), ties.largest(values)

    whole = ties.platform_rows(choose, values, allowed)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *args, default, **_: default(*args))
    apart = ties.platform_rows(choose, values, allowed)
    assert kinds[-1] and not all(kinds)
    for one, other in zip(whole, apart, strict=True):
        np.testing.assert_array_equal(one, other)
