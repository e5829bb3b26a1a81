"""Settings of every test: float64, and no silent change of rank or of type."""

import contextlib

import jax

from jaxvar.lowering import form_for

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_addoption(parser):
    parser.addoption(
        "--form",
        choices=("cpu", "accelerator"),
        help="trace everything in the form for a CPU or for an accelerator, on whatever device the tests run",
    )


def pytest_configure(config):
    chosen = config.getoption("--form")
    if chosen is not None:
        form = contextlib.ExitStack()
        form.enter_context(form_for(chosen == "accelerator"))
        config.add_cleanup(form.close)
