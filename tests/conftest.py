"""Settings of every test: float64, and no silent change of rank or of type."""

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Right, but long: left out of the quick run as if marked where they stand.
LONG = (
    "test_bench.py::test_episodic_rival_has_the_same_mean_regret",
    "test_chunks.py::test_same_bits_for_chunks_of_whole_blocks[save]",
    "test_devices.py::test_same_bits_on_any_number_of_devices[4]",
    "test_episodes_experiment.py::test_study_ends_in_figures_and_tables",
    "test_episodic_contract.py::test_algorithms_keep_the_contract[ucrl_ave-practical]",
    "test_hosts.py::",
    "test_kernels.py::test_the_command_prints_a_line_per_program",
    "test_mixture_rivals.py::test_one_moment_is_ucrl_vtr",
    "test_save_theory.py::test_too_small_a_capacity_is_reported_and_repaired[True]",
    "test_status.py::test_capacity[True]",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if any(name in item.nodeid for name in LONG):
            item.add_marker(pytest.mark.slow)
