"""Devices: how many there are, and how the CPU is set up, changes speed and nothing else."""

import functools
import os

import numpy as np
import pytest

from tests.helpers.processes import ROOT, output
from tests.helpers.programs import quick_compilation

ALGORITHMS = ("save", "ave_ucb", "oful", "ucrl_ave")

interpreter = functools.partial(output, JAX_PLATFORMS="cpu")


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """``played(devices, chunk)``: the results of the script, each played once."""
    results = {}

    def get(devices, chunk):
        if (devices, chunk) not in results:
            path = tmp_path_factory.mktemp("devices") / "result.npz"
            script = ROOT / "tests" / "helpers" / "device_script.py"
            interpreter(script, path, devices, chunk, XLA_FLAGS=quick_compilation())
            with np.load(path) as file:
                results[devices, chunk] = dict(file)
        return results[devices, chunk]

    return get


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
def test_same_bits_on_any_number_of_devices(played, devices):
    # Runs are independent: with the same chunk, who plays them leaves no trace in the numbers.
    one, many = played(1, 32), played(devices, 32)
    assert one["devices"] == 1 and many["devices"] == devices
    for name in ALGORITHMS:
        assert np.unique(one[name][:, -1]).size > 20  # the seeds differ
        np.testing.assert_array_equal(one[name], many[name])
    for played_here in (one, many):  # nor does it matter who holds them between two stretches
        np.testing.assert_array_equal(played_here["stretches"], one["oful"][:32])


@pytest.mark.slow
def test_same_values_for_another_chunk(played):
    # 16 runs on four devices are smaller blocks: other vector code, the same values.
    one, many = played(1, 32), played(4, 16)
    for name in ALGORITHMS:
        np.testing.assert_allclose(one[name], many[name], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_devices_do_not_communicate(played):
    # The program is split over the devices and contains no collective operation.
    four = played(4, 32)
    assert four["partitioned"]
    assert four["collectives"] == 0


@pytest.mark.slow
def test_tuned_cpu_plays_the_same(played):
    # One device per core and whole loops: faster, and the same values.
    plain, tuned = played(1, 32), played("tuned", 0)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert tuned["devices"] == cores
    assert "xla_cpu_small_while_loop_byte_threshold" in str(tuned["flags"])
    assert "xla_cpu_small_while_loop_byte_threshold" not in str(plain["flags"])
    for name in ALGORITHMS:
        np.testing.assert_allclose(plain[name], tuned[name], rtol=1e-9, atol=1e-9)


def test_tune_cpu_keeps_other_flags_and_may_be_called_twice():
    # Settings that are already there stay, and a second call adds nothing.
    code = """
import os, jax, jaxvar as jv
jv.tune_cpu(3)
jv.tune_cpu(3)
print(jax.device_count(), os.environ["XLA_FLAGS"])
"""
    count, *flags = interpreter("-c", code, XLA_FLAGS="--xla_cpu_enable_fast_math=false").split()
    assert count == "3"
    assert flags[0] == "--xla_cpu_enable_fast_math=false"
    assert len(flags) == len(set(flags)) and flags[1].count("small_while_loop_byte_threshold") == 1
    assert flags[2:3] == ["--xla_cpu_prefer_vector_width=512"]


@pytest.mark.parametrize("before", ["pass", "jax.config.update('jax_num_cpu_devices', 1)"])
def test_tune_cpu_refuses_once_jax_has_started(before):
    # JAX would ignore the settings from then on, silently.
    code = f"""
import os, jax, jaxvar as jv
{before}
jax.devices()
try:
    jv.tune_cpu(1)
except RuntimeError as error:
    print("refused:", error, os.environ.get("XLA_FLAGS"))
"""
    out = interpreter("-c", code)
    assert "refused: tune_cpu must be called before JAX is first used" in out
    assert out.strip().endswith("None")  # and nothing was changed


def test_import_changes_no_setting():
    # A library that is imported must not decide the precision, the devices or the flags of its user's process.
    code = """
import os, jax
from jax._src import xla_bridge
before, environment = dict(jax.config.values), dict(os.environ)
import jaxvar
assert dict(jax.config.values) == before
assert dict(os.environ) == environment
assert not xla_bridge.backends_are_initialized()
print(jax.config.jax_enable_x64, jax.device_count(), os.environ.get("XLA_FLAGS"))
"""
    assert interpreter("-c", code).split() == ["False", "1", "None"]
