"""Chunks: a simulation that no device could hold at once is played in parts, with the same results."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv

module = importlib.import_module("jaxvar.simulate")
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
    common = {"key": KEY, "num_rounds": K, "num_seeds": SEEDS, "records": 6, "record": record}
    return jv.simulate(*game(name), **{**common, **options})


@pytest.mark.parametrize(
    "name", ["oful", *(pytest.param(name, marks=pytest.mark.slow) for name in ("save", "ave_ucb"))]
)
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
    program, calls, held = module._program, [], []

    def spy(*args, **kwargs):
        held.append(sum(x.nbytes for x in jax.live_arrays()))
        calls.append((args, kwargs))
        return program(*args, **kwargs)

    monkeypatch.setattr(module, "_program", spy)

    def needed(num_seeds):
        calls.clear()
        held.clear()
        result = simulate("oful", num_seeds=num_seeds, chunk=16)
        assert len(calls) == -(-num_seeds // 16)
        assert held[-1] - held[0] < result.regret[:16].nbytes  # not even the results of one chunk
        args, kwargs = calls[-1]
        size = program.lower(*args, **kwargs).compile().memory_analysis()
        return size.argument_size_in_bytes, size.output_size_in_bytes, size.temp_size_in_bytes

    few = needed(SEEDS)
    assert min(few) > 0
    assert needed(10 * SEEDS) == few


@pytest.mark.parametrize("num_rounds", [100, 10**4, 10**7])
def test_the_chosen_chunk_is_bounded(num_rounds):
    # Where no chunk is given, more seeds do not make a larger one.
    def chosen(total):
        return module.sizes(total, num_rounds, None, jax.devices()[:1], 8)

    assert chosen(10**5) == chosen(10**6) == chosen(10**7)
