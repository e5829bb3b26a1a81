"""The program of many runs: stretches, chunks, devices and growth change what is computed when, and no number."""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

import jaxvar as jv
from jaxvar import engine
from jaxvar.engine import Program, block_shape
from jaxvar.lowering import form_for
from tests.helpers.programs import watched

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


MDP = jv.mixture_mdp(4, 3, 2, 3)
GAMES = [
    fast("oful", jv.oful(2), bandit()),
    fast("own class with a key", Coin(), bandit(fresh=True)),
    fast("run by run", jv.ave_ucb(64, K, constants="practical"), jv.linear_bandit(64, 5)),
    slow("save", jv.save(2, K, constants=jv.constants.practical(), capacity=3), bandit(fresh=True)),
    slow(
        "ucrl_ave",
        jv.ucrl_ave(2, 3, K, norm_bound=MDP.norm_bound, constants=jv.constants.practical(), capacity=3),
        MDP,
    ),
]


def one_device():
    return Mesh(np.array(jax.devices()[:1]), ("runs",))


def program(algorithm, environment, chunk=CHUNK, **options):
    words = np.asarray(jv.random.key_words(KEY))
    record = (jv.record.regret(), jv.record.variance())
    return Program(algorithm, environment, words, ROUNDS, record, chunk, one_device(), **options)


def runs(seeds=CHUNK):
    """Settings and numbers of runs: one setting, the first seeds."""
    return np.stack([np.zeros(seeds), np.zeros(seeds), np.arange(seeds)]).astype(np.int32)


def advanced(made, cuts, ids=None):
    """What is held after all rounds, played in stretches that end at ``cuts``."""
    held, first = None, 1
    for last in (*cuts, K):
        held, first = made.advance(held, runs() if ids is None else ids, first, last - first + 1), last + 1
    return jax.device_get(held)


def assert_equal(ours, theirs):
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


# --- stretches ---


@pytest.mark.parametrize(("algorithm", "environment"), GAMES)
def test_stretches_have_the_bits_of_one(algorithm, environment):
    # Cuts before, at and after recorded rounds, and stretches of a single round; the state too, not only what is read.
    made = program(algorithm, environment)
    whole = advanced(made, ())
    assert np.unique(whole.store["regret"][:, -2]).size > 1
    for cuts in ((1,), (1, 2, 3), (16, 17, 18), (59,), (30, 40)):
        for ours, theirs in zip(jax.tree.leaves(advanced(made, cuts)), jax.tree.leaves(whole), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("algorithm", "environment"), GAMES)
def test_to_play_is_to_advance_and_to_read(algorithm, environment):
    # Without a state to keep, less is computed; what is read has the same bits.
    made = program(algorithm, environment)
    played = made.play(runs(), K)
    held = advanced(made, (25,))
    for name, values in held.store.items():
        np.testing.assert_array_equal(played[name], values[:, :-1])
    np.testing.assert_array_equal(played["status"], held.carry.status)
    np.testing.assert_array_equal(played["status_round"], held.carry.status_round)


@pytest.mark.parametrize(("algorithm", "environment"), [GAMES[0], *GAMES[2:]])
def test_the_same_numbers_as_simulate(algorithm, environment):
    # The block's program is shared, so even the bits agree.
    length = {"num_episodes" if hasattr(environment, "horizon") else "num_rounds": K}
    plain = jv.simulate(
        algorithm,
        environment,
        key=KEY,
        num_seeds=CHUNK,
        record_at=ROUNDS,
        chunk=CHUNK,
        devices=jax.devices()[:1],
        **length,
    )
    held = advanced(program(algorithm, environment), (25,))
    for name, values in plain.records.items():
        np.testing.assert_array_equal(held.store[name][:, :-1], values)
    np.testing.assert_array_equal(held.carry.status, plain.status)


def test_one_program_plays_any_stretch():
    # On a CPU the number of rounds is an argument: cuts compile nothing new.
    made = program(jv.oful(2), bandit())
    with watched() as watch:
        advanced(made, (20,))
        before = watch.num_compiled()
        advanced(made, (1, 7, 30))
        assert watch.num_compiled() == before > 0


def test_a_stretch_of_known_length_has_the_same_bits():
    # An accelerator gets a loop of known length, which is another program.
    made = program(jv.oful(2), bandit())
    known = jax.device_get(made._program(K, known=True)(*made._args(runs(), 1, K, None)))
    for name, values in made.play(runs(), K).items():
        np.testing.assert_array_equal(known[name][:, :-1] if known[name].ndim > 1 else known[name], values)
    with form_for(True):
        text = str(made.traced(K).jaxpr)
    assert f"length={K}" in text and "while[" not in text


def test_what_is_held_has_the_announced_shapes():
    # Checkpoints are read back by them.
    for algorithm, environment in ((jv.oful(2), bandit()), (Coin(), bandit(fresh=True))):
        made = program(algorithm, environment)
        held = made.advance(None, runs(), 1, 3)
        assert jax.tree.map(lambda x: (x.shape, x.dtype), held) == jax.tree.map(
            lambda x: (x.shape, x.dtype), made.shapes
        )


def test_memory_is_that_of_the_compiled_program():
    # More runs need more of it, and every number of them some.
    small, large = (program(jv.oful(2), bandit(), chunk).memory(K) for chunk in (16, 64))
    held = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(program(jv.oful(2), bandit(), 64).shapes))
    assert 0 < small < large and large >= held


# --- runs, chunks and blocks ---


def test_runs_do_not_depend_on_their_neighbours():
    # Any order, a run twice: the same bits. Another chunk is another program: the same numbers to rounding.
    made = program(jv.oful(2), bandit())
    whole = made.play(runs(), K)
    order = np.random.default_rng(0).permutation(CHUNK)
    order[0] = order[1]
    mixed = made.play(runs()[:, order], K)
    assert_equal(jax.device_get(mixed), jax.tree.map(lambda x: x[order], jax.device_get(whole)))
    for chunk in (8, 24):
        made = program(jv.oful(2), bandit(), chunk)
        part = jax.device_get(made.play(runs(chunk), K))
        num = min(chunk, CHUNK)
        for name, x in jax.device_get(whole).items():
            np.testing.assert_allclose(part[name][:num], x[:num], rtol=1e-9, atol=1e-9)


@pytest.mark.variants(3)
@pytest.mark.parametrize("block", [(1, 1), (2, 1), (4, 1), (16, 1), (16,), (2, 4)])
def test_the_shape_of_a_block_changes_nothing(block):
    # To rounding: other blocks are other vector code.
    whole = program(jv.oful(2), bandit()).play(runs(), K)
    other = program(jv.oful(2), bandit(), block=block).play(runs(), K)
    for name in whole:
        np.testing.assert_allclose(other[name], whole[name], rtol=1e-9, atol=1e-9)


def test_settings_are_chosen_by_number():
    # Each run names its algorithm's and its environment's setting.
    algorithm, environment = jv.oful(2), bandit()
    deltas, stds = np.array([0.01, 0.2]), np.array([0.05, 0.3, 0.5])
    where = jax.tree.leaves(jax.tree_util.tree_map_with_path(lambda path, _: jax.tree_util.keystr(path), algorithm))
    there = jax.tree.leaves(jax.tree_util.tree_map_with_path(lambda path, _: jax.tree_util.keystr(path), environment))
    made = program(
        algorithm,
        environment,
        algorithm_values={where.index(".delta"): deltas},
        environment_values={there.index(".noise.schedule.std"): stds},
    )
    ids = np.stack(np.unravel_index(np.arange(16), (2, 3, 4)))[:, :16].astype(np.int32)
    together = jax.device_get(made.play(ids, K))
    for i, j in ((0, 0), (0, 2), (1, 0)):
        noise = jv.noise.uniform(stds[j])
        alone = program(jv.oful(2, delta=deltas[i]), jv.linear_bandit(2, 3, noise=noise)).play(runs(), K)
        mine = np.flatnonzero((ids[0] == i) & (ids[1] == j))
        for name, values in alone.items():
            np.testing.assert_allclose(together[name][mine], values[: len(mine)], rtol=1e-9, atol=1e-12)


def test_a_chunk_must_be_shared_out_evenly():
    # Devices play equal shares.
    assert block_shape(16, one_device()) == (8, 1) and block_shape(12, one_device()) == (4, 1)
    mesh = types.SimpleNamespace(size=3, devices=np.array(jax.devices()[:1]))
    with pytest.raises(ValueError, match="chunk must be a multiple of the 3 devices, got 16"):
        block_shape(16, mesh)


def test_float32_has_wider_blocks():
    # As many runs as fit into a vector.
    assert engine.widest_block() == 8
    with jax.enable_x64(False):
        assert engine.widest_block() == 16 and block_shape(32, one_device()) == (16, 1)


def test_large_problems_are_played_run_by_run():
    # By dimension, or by arms that never change; fresh arms are drawn faster side by side.
    few, many = (jv.linear_bandit(2, num) for num in (255, 256))
    fresh = jv.linear_bandit(2, 256, fresh=True)
    shapes = [block_shape(16, one_device(), jv.oful(2), environment) for environment in (few, many, fresh)]
    assert shapes == [(8, 1), (), (8, 1)]
    assert [block_shape(16, one_device(), jv.oful(dim), few) for dim in (63, 64)] == [(8, 1), ()]
    alone = [block_shape(1, one_device(), jv.oful(2), environment) for environment in (few, many, fresh)]
    assert alone == [(1,), (), (1,)]
    assert block_shape(1, one_device(), jv.oful(64), few) == ()
    assert block_shape(16, one_device(), object(), object()) == (8, 1)  # anybody's own


@pytest.mark.parametrize("fresh", [False, True], ids=["fixed", "fresh"])
def test_runs_of_a_large_problem_are_those_of_one_seed(fresh):
    # Whose sums have another order.
    algorithm, environment = jv.ave_ucb(64, K, constants="practical"), jv.linear_bandit(64, 5, fresh=fresh)
    found = program(algorithm, environment).play(runs(), K)["regret"]
    for seed in (0, CHUNK - 1):
        one = jv.run(algorithm, environment, KEY, num_rounds=K, seed=seed, record_at=ROUNDS.tolist())
        np.testing.assert_allclose(found[seed], one.regret, rtol=1e-9)


@pytest.mark.parametrize("fresh", [False, True], ids=["fixed", "fresh"])
@pytest.mark.parametrize("dim", [10, 16])
@pytest.mark.parametrize("made", [jv.oful, jv.save, jv.ave_ucb], ids=lambda made: made.__name__)
def test_a_seed_by_itself_is_that_of_many(made, dim, fresh):
    # A device that has one run fills its lanes with arms.
    algorithm = made(dim) if made is jv.oful else made(dim, 300, constants="practical")
    play = functools.partial(jv.simulate, algorithm, jv.linear_bandit(dim, 20, fresh=fresh), key=KEY, num_rounds=300)
    many, one = play(num_seeds=16), play(num_seeds=1, first_seed=3)
    np.testing.assert_allclose(one.regret[0], many.regret[3], rtol=1e-9)


# --- growth ---


def test_growth():
    # Asked for by a status, in steps, up to what is wanted or possible.
    made = program(jv.save(2, 400, capacity=1, constants=jv.constants.practical()), bandit())
    grown = made.grown()
    assert grown.algorithm.capacity == 5 and grown.environment is made.environment and made.algorithm.capacity == 1
    assert made.grown(7).algorithm.capacity == 9
    assert program(jv.oful(2), bandit()).grown() is None
    most = dataclasses.replace(made, algorithm=jv.save(2, 400, capacity=200))
    assert most.grown() is None and not engine.can_grow(most.algorithm)
    full, fine = np.array([0, jv.status.CAPACITY | jv.status.NONFINITE]), np.array([0, jv.status.NONFINITE])
    assert engine.needs_capacity(full, made.algorithm) and not engine.needs_capacity(fine, made.algorithm)
    assert not engine.needs_capacity(full, most.algorithm) and not engine.needs_capacity(full, jv.oful(2))


@pytest.mark.slow
def test_more_capacity_than_needed_changes_no_choice():
    # What a run would have played with more layers from the start is what it plays when it is played again.
    small = jv.save(2, 400, capacity=1, constants=jv.constants.practical())
    made = program(small, bandit(fresh=True))
    assert np.any(np.asarray(made.play(runs(), K)["status"]) & jv.status.CAPACITY)
    once, twice = made.grown(), made.grown(9)
    assert (once.algorithm.capacity, twice.algorithm.capacity) == (5, 9)
    for name, values in once.play(runs(), K).items():
        np.testing.assert_allclose(twice.play(runs(), K)[name], values, rtol=1e-12, atol=1e-12)
