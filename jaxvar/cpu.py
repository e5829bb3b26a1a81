"""Making the most of a CPU: three settings that must be made before JAX first uses it."""

from __future__ import annotations

import os

import jax

from jaxvar import parameters

_WHOLE_LOOPS = "xla_cpu_small_while_loop_byte_threshold=1000000000"
_WIDEST_VECTORS = "--xla_cpu_prefer_vector_width=512"
_NO_LIBRARY = "--xla_cpu_experimental_ynn_fusion_type="  # of reductions: it cannot be part of a native loop


def tune_cpu(num_devices: int | None = None) -> None:
    """Make one JAX device per core, compile each scan to one native loop, and use the widest vectors there are.

    By default XLA runs the operations of a loop body one by one from a task list. Raising the size up to which it
    compiles a loop as a whole removes that cost: programs like ours, with many small operations in millions of
    rounds, become about three times faster on two cores. XLA also keeps to 256-bit vectors unless told otherwise;
    with 512 bits, where the processor has them, arms are drawn and measured about 1.5 times as fast.

    Call it before anything touches a JAX device; the ``jaxvar`` command does. It changes ``XLA_FLAGS`` and
    ``jax_num_cpu_devices`` of this process.

    One thing is known not to work with it: a loop over rounds that solves linear systems of some size (seen with
    ``jnp.linalg.solve`` of 50 x 50 matrices in a recorder) may wait for itself forever where there are several
    devices. Rank-one updates, as in :mod:`jaxvar.ridge`, need no solver; or call ``tune_cpu(1)``.

    Args:
      num_devices: devices to make; one per available core if not given.

    Raises:
      RuntimeError: if JAX has started its CPU backend already, since it would then ignore the settings.
    """
    if num_devices is None:
        num_devices = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parameters.check_count("num_devices", num_devices)
    try:
        # JAX refuses a change once it has started, but not a value that is there already: so change it twice.
        jax.config.update("jax_num_cpu_devices", num_devices + 1)
        jax.config.update("jax_num_cpu_devices", num_devices)
    except RuntimeError:
        raise RuntimeError("tune_cpu must be called before JAX is first used: its CPU backend has started") from None
    flags = os.environ.get("XLA_FLAGS", "")
    if "small_while_loop_byte_threshold" not in flags:
        flags = f"{flags} --xla_backend_extra_options={_WHOLE_LOOPS}"
    if "prefer_vector_width" not in flags:
        flags = f"{flags} {_WIDEST_VECTORS}"
    if jax.version.__version_info__ >= (0, 10) and "ynn_fusion_type" not in flags:  # XLA ends at flags it does not know
        flags = f"{flags} {_NO_LIBRARY}"
    os.environ["XLA_FLAGS"] = flags.strip()
