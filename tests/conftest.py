"""Settings of every test: float64, no silent change of rank or of type, and each program compiled once."""

import contextlib
import ctypes
import gc
import os

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from jaxvar.cli import tune_cpu
from jaxvar.lowering import form_for

# Whole loops, as the command has them. Quick tests play few rounds, so XLA may leave out what makes long runs fast:
# that halves the time of compiling. Slow tests have it.
tune_cpu(1)
QUICK_COMPILATION = " --xla_backend_optimization_level=0"
if jax.version.__version_info__ < (0, 11):  # newer versions of XLA do not know it, and end where they do not
    QUICK_COMPILATION += " --xla_cpu_use_fusion_emitters=false"

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


gc.set_threshold(100_000, 20, 20)  # a worker holds millions of objects, and looking through them is a tenth of its time
MOST_MEMORY = 1_500_000_000  # bytes that a worker holds between tests; a test may need another gigabyte


def pytest_runtest_teardown():
    """Give a worker's memory back, and forget its programs: they are on the disk."""
    if not os.path.exists("/proc/self/statm"):
        return
    with open("/proc/self/statm", "rb") as sizes:  # not pathlib, which tests replace
        held = int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if held > MOST_MEMORY:
        jax.clear_caches()
        if hasattr(ctypes.CDLL(None), "malloc_trim"):
            ctypes.CDLL(None).malloc_trim(0)


def pytest_addoption(parser):
    parser.addoption(
        "--form",
        choices=("cpu", "accelerator"),
        help="trace everything in the form for a CPU or for an accelerator, on whatever device the tests run",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark all cases slow but the first n of a test that is marked ``variants(n)``."""
    seen = {}
    for item in items:
        mark, test = item.get_closest_marker("variants"), item.nodeid.split("[")[0]
        seen[test] = seen.get(test, 0) + 1
        if mark is not None and seen[test] > mark.args[0]:
            item.add_marker(pytest.mark.slow)


def pytest_configure(config):
    if config.getoption("markexpr") != "slow" and QUICK_COMPILATION not in os.environ["XLA_FLAGS"]:
        os.environ["XLA_FLAGS"] += QUICK_COMPILATION
    os.environ.setdefault("JAXVAR_CACHE", "off")  # not into the user's folder
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


@pytest.fixture
def compiled_anew():
    """Keep no programs: a compiler without its device cannot read one again."""
    folder = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    yield
    jax.config.update("jax_compilation_cache_dir", folder)
    compilation_cache.reset_cache()
