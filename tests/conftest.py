"""Settings of every test: float64, no silent change of rank or of type, and each program compiled once."""

import contextlib
import os
from pathlib import Path

import jax
import pytest

from jaxvar.lowering import form_for

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


MOST_MEMORY = 1.5e9  # bytes; a worker that holds more forgets its programs, which it finds again on the disk


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    yield
    statm = Path("/proc/self/statm")
    if not statm.exists() or int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MOST_MEMORY:
        jax.clear_caches()


def pytest_addoption(parser):
    parser.addoption(
        "--form",
        choices=("cpu", "accelerator"),
        help="trace everything in the form for a CPU or for an accelerator, on whatever device the tests run",
    )


def pytest_configure(config):
    if hasattr(config, "cache") and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        # Workers and the processes that tests start find here what another has compiled.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(config.cache.mkdir("programs"))
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"
        jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    chosen = config.getoption("--form")
    if chosen is not None:
        form = contextlib.ExitStack()
        form.enter_context(form_for(chosen == "accelerator"))
        config.add_cleanup(form.close)
