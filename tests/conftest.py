"""Settings of every test: float64, no silent change of rank or of type, and each program compiled once."""

import contextlib
import gc
import os

import jax

from jaxvar.cpu import tune_cpu
from jaxvar.lowering import form_for

# Whole loops, as the command has them. Quick tests play few rounds, so XLA may leave out what makes long runs fast:
# that halves the time of compiling. Slow tests have it.
tune_cpu(1)
QUICK_COMPILATION = " --xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


gc.set_threshold(100_000, 20, 20)  # a worker holds millions of objects, and looking through them is a tenth of its time
MOST_MAPS = 8_000  # pieces of memory that a process holds; a compiled program has some 240 of them


def pytest_runtest_teardown():
    """Forget the programs of a worker that holds too many: at 65,530 maps Linux ends it. They are on the disk."""
    if os.path.exists("/proc/self/maps"):
        with open("/proc/self/maps", "rb") as maps:  # not pathlib, which tests replace
            held = sum(1 for _ in maps)
        if held > MOST_MAPS:
            jax.clear_caches()


def pytest_addoption(parser):
    parser.addoption(
        "--form",
        choices=("cpu", "accelerator"),
        help="trace everything in the form for a CPU or for an accelerator, on whatever device the tests run",
    )


def pytest_configure(config):
    if config.getoption("markexpr") != "slow" and QUICK_COMPILATION not in os.environ["XLA_FLAGS"]:
        os.environ["XLA_FLAGS"] += QUICK_COMPILATION
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
