"""Chunks: a simulation that no device could hold at once is played in parts, with the same results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

import jaxvar as jv
from jaxvar import engine
from tests.helpers.programs import watched

KEY = jax.random.key(5)
K, SEEDS = 120, 43


@jax.tree_util.register_static
class Losses:
    """A recorder of numbers that carry every rounding error of the run: loss and radius of each layer."""

    name = "losses"

    def init(self, algorithm, instance):
        return jnp.zeros(2 * getattr(algorithm, "capacity", 1))

    def update(self, memory, event, algorithm, instance):
        shape = algorithm.confidence(event.state)
        return jnp.concatenate([shape.loss, shape.beta_hat])

    def read(self, memory):
        return memory


def game(name):
    world = jv.linear_bandit(2, 4, noise=jv.noise.uniform(0.3), fresh=name == "ave_ucb")
    if name == "oful":
        return jv.oful(2), world
    return getattr(jv, name)(2, K, constants=jv.constants.practical(), capacity=3), world


def simulate(name, **options):
    record = (jv.record.regret(), jv.record.variance(), Losses())
    common = {"key": KEY, "num_rounds": K, "num_seeds": SEEDS, "record_at": 6, "recorders": record}
    return jv.simulate(*game(name), **{**common, **options})


@pytest.mark.slow  # compiled as users' programs are: without optimisation the last bits differ
@pytest.mark.parametrize("name", ["oful", "save", "ave_ucb"])
def test_same_bits_for_chunks_of_whole_blocks(name):
    # 48 is one chunk; 24 two; 16 and 8 end with a chunk that is filled up; 40 with one of three seeds.
    whole = simulate(name, chunk=48)
    assert np.unique(whole.losses[:, -1, 0]).size == SEEDS
    for chunk in (40, 24, 16, 8) if name == "oful" else (40, 8):
        part = simulate(name, chunk=chunk)
        for record in whole.records:
            np.testing.assert_array_equal(part.records[record], whole.records[record])


def test_a_device_holds_one_chunk_whatever_the_number_of_seeds(monkeypatch):
    # Ten times the seeds are ten times the calls of one program, and nothing is left on the device between them.
    play, held = engine.Program.play, []

    def weighed(*args):
        held.append(sum(x.nbytes for x in jax.live_arrays()))
        return play(*args)

    monkeypatch.setattr(engine.Program, "play", weighed)

    def needed(num_seeds):
        held.clear()
        with watched() as watch:
            result = simulate("oful", num_seeds=num_seeds, chunk=16)
        assert len(watch.calls) == len(held) == -(-num_seeds // 16)
        assert held[-1] - held[0] < result.regret[:16].nbytes  # not even the results of one chunk
        size = watch.compiled(-1).memory_analysis()
        return size.argument_size_in_bytes, size.output_size_in_bytes, size.temp_size_in_bytes

    few = needed(SEEDS)
    assert min(few) > 0
    assert needed(10 * SEEDS) == few


@pytest.mark.parametrize("num_rounds", [100, 10**4, 10**7])
def test_the_chosen_chunk_is_bounded(num_rounds):
    # Where no chunk is given, more seeds do not make a larger one, and hardly any run is dropped.
    mesh = Mesh(np.array(jax.devices()[:1]), ("runs",))
    bandit, episodes = jv.linear_bandit(2, 4), jv.riverswim(4, 6)
    for environment in (bandit, episodes):

        def chosen(total, environment=environment):
            return engine.chosen_chunk(environment, total, num_rounds, mesh)

        unit = engine.widest_block()
        most = max(chosen(10**power) for power in range(4, 9))
        for total in (10**5, 10**6, 10**7, most + 1, 3 * most // 2, most + most // 15):
            calls = -(-total // chosen(total))
            assert chosen(total) % unit == 0 and chosen(total) <= 2 * most
            assert calls * chosen(total) - total < calls * unit


def test_few_runs_are_not_filled_up_to_a_large_block():
    # Runs that nobody asked for cost as much as the others: never as many of them as of those.
    mesh = Mesh(np.array(jax.devices()[:1]), ("runs",))
    for total in range(1, 70):
        chunk = engine.chosen_chunk(jv.linear_bandit(2, 4), total, 100, mesh)
        assert total <= chunk < 2 * total or chunk == total == 1
        block = engine.block_shape(chunk, mesh)
        assert chunk % np.prod(block) == 0 and block[0] <= engine.widest_block()
