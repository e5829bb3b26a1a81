"""Algorithms and environments as pytrees."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.pytrees import pytree, static


def pair(decorate):
    """Two classes with the same fields that compute different things."""

    class First:
        number: Any
        size: int = static()

        def value(self):
            return self.number

    class Second:
        number: Any
        size: int = static()

        def value(self):
            return -self.number

    return decorate(First), decorate(Second)


def test_classes_with_the_same_fields_are_told_apart():
    """JAX looks structures up by hash first, and only in some processes do two hashes meet: so ask for equality."""
    one, other = (cls(number=1.0, size=2) for cls in pair(pytree))
    assert jax.tree.structure(one) != jax.tree.structure(other)
    assert jax.tree.structure(one) == jax.tree.structure(dataclasses.replace(one, number=3.0))
    assert jax.tree.structure(one) != jax.tree.structure(dataclasses.replace(one, size=3))


def test_our_algorithms_are_told_apart():
    """These two have all their fields in common."""
    one, other = (make(2, 64, num_scales=4) for make in (jv.voful, jv.voful2))
    assert jax.tree.structure(one) != jax.tree.structure(other)


def test_leaves_keep_their_names_and_classes_come_back():
    """Names are what error messages and sweeps go by; any object may stand for a leaf on the way."""
    one = pair(pytree)[0](number=jnp.ones(3), size=2)
    (path, leaf), *rest = jax.tree_util.tree_flatten_with_path(one)[0]
    assert jax.tree_util.keystr(path) == ".number" and leaf is one.number and not rest
    back = jax.tree.map(lambda _: object, one)
    assert type(back) is type(one) and back.number is object and back.size == 2


class Pull(NamedTuple):
    action: Any


def always(index):
    """A user's class that always pulls one arm; the index is not among its fields."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Always:
        unused: Any

        def init(self):
            return ()

        def select(self, state, arms, key, side):
            return Pull(jnp.int32(index))

        def update(self, state, choice, x, reward, side):
            return ()

    return Always(jnp.zeros(()))


def test_users_classes_get_programs_of_their_own():
    """Registered by JAX itself they may have equal structures; simulate must not run one for the other."""
    arms, theta = np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([1.0, 0.0])
    environment = jv.linear_bandit(arms=arms, theta_star=theta)
    algorithms = [always(i % 2) for i in range(8)]
    assert jax.tree.structure(algorithms[0]) == jax.tree.structure(algorithms[1]), "JAX tells them apart by itself now"
    for i, algorithm in enumerate(algorithms):
        out = jv.simulate(algorithm, environment, key=jax.random.key(0), num_rounds=3, num_seeds=1, records=1)
        assert out.regret[0, -1] == pytest.approx(3.0 * (i % 2))
