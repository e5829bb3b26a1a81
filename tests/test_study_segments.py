"""Stretches: rounds played in several calls are the rounds of one call."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

import jaxvar as jv
from jaxvar.study.segments import Program, block_shape

K, CHUNK = 60, 16
ROUNDS = np.array([1, 2, 17, 40, 60], np.int32)
KEY = jax.random.key(4)


@jax.tree_util.register_static
class Coin:
    """An algorithm from outside the package that carries a random key."""

    def init(self):
        return jax.random.key(11), jnp.int32(0)

    def select(self, state, arms, key, side):
        action = jax.random.randint(state[0], (), 0, arms.shape[0])
        return jv.Choice(action, jnp.int32(0), jnp.zeros(()), jnp.int32(0))

    def update(self, state, choice, x, reward, side):
        return jax.random.fold_in(state[0], choice.action), state[1] + 1


def bandit(**options):
    return jv.linear_bandit(2, 3, noise=jv.noise.uniform(0.3), **options)


def fast(name, *values):
    return pytest.param(*values, id=name)


def slow(name, *values):
    return pytest.param(*values, id=name, marks=pytest.mark.slow)


GAMES = [
    fast("oful", jv.oful(2), bandit()),
    fast("own class with a key", Coin(), bandit(fresh=True)),
    slow("save", jv.save(2, K, constants=jv.constants.practical(), capacity=3), bandit(fresh=True)),
    slow("ucrl_ave", jv.ucrl_ave(2, 3, K, constants=jv.constants.practical(), capacity=3), jv.mixture_mdp(4, 3, 2, 3)),
]


def program(algorithm, environment):
    mesh = Mesh(np.array(jax.devices()[:1]), ("runs",))
    words = np.asarray(jv.random.key_words(KEY))
    record = (jv.record.regret(), jv.record.variance())
    return Program(algorithm, environment, words, ROUNDS, record, block_shape(CHUNK, mesh), CHUNK, mesh)


def play(made, cuts):
    held, first = None, 1
    for last in (*cuts, K):
        held, first = made.play(held, np.arange(CHUNK), first, last - first + 1), last + 1
    return jax.device_get(held)


@pytest.mark.parametrize(("algorithm", "environment"), GAMES)
def test_stretches_have_the_bits_of_one(algorithm, environment):
    # Cuts before, at and after recorded rounds, and stretches of a single round; the state too, not only what is read.
    made = program(algorithm, environment)
    whole = play(made, ())
    assert np.unique(whole.store["regret"][:, -2]).size > 1
    for cuts in ((1,), (1, 2, 3), (16, 17, 18), (59,), (30, 40)):
        for ours, theirs in zip(jax.tree.leaves(play(made, cuts)), jax.tree.leaves(whole), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("algorithm", "environment"), [GAMES[0], *GAMES[2:]])
def test_the_same_numbers_as_simulate(algorithm, environment):
    # The block's program is shared, so even the bits agree.
    length = {"num_episodes" if hasattr(environment, "horizon") else "num_rounds": K}
    plain = jv.simulate(
        algorithm,
        environment,
        key=KEY,
        num_seeds=CHUNK,
        records=ROUNDS,
        chunk=CHUNK,
        devices=jax.devices()[:1],
        **length,
    )
    held = play(program(algorithm, environment), (25,))
    for name, values in plain.records.items():
        np.testing.assert_array_equal(held.store[name][:, :-1], values)
    np.testing.assert_array_equal(held.carry.status, plain.status)
