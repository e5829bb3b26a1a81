"""The program that ``jaxvar.simulate`` compiles, for a device that need not be there.

XLA's compilers for GPUs and TPUs run on any machine: a GPU is described by its facts (``h100_sxm.txtpb``), a TPU by the
name of its topology. They come with the plugins, ``pip install 'jaxvar[cuda12]'`` and ``pip install 'jaxvar[tpu]'``.
"""

from __future__ import annotations

import importlib.resources
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxvar import engine, game, random, records

_FACTS = importlib.resources.files("jaxvar.bench").joinpath("h100_sxm.txtpb")
CUDA = "12.9.0"
"""The version of CUDA, and of its driver, that programs for a GPU are compiled for: the last one of CUDA 12."""


class Device(NamedTuple):
    """What a program is compiled for, and the facts that bound its speed; None where there is no such bound."""

    name: str
    platform: str
    bandwidth: float | None  # bytes per second between the chip and its memory
    cache: int  # bytes on the chip; what fits may never be moved at all


def devices() -> dict[str, Device]:
    """Every device by the name the command knows it by."""
    facts = dict(re.findall(r"(memory_bandwidth|l2_cache_size): (\d+)", _FACTS.read_text()))
    return {
        "h100": Device("H100 SXM", "cuda", float(facts["memory_bandwidth"]), int(facts["l2_cache_size"])),
        "tpu_v5e": Device("TPU v5e", "tpu", 819e9, 128 * 2**20),
        "cpu": Device("this CPU", "cpu", None, 0),
    }


def _gpu_facts() -> str:
    """The facts of the GPU with versions of CUDA, without which the compiler makes graphs for the oldest one."""
    names = ("driver_version", "runtime_version", "compile_time_toolkit_version")
    versions = "".join(f'\n  {name}: "{CUDA}"' for name in names)
    return _FACTS.read_text().replace("gpu_device_info {", "gpu_device_info {" + versions, 1)


class MissingCompiler(RuntimeError):
    """The compiler for a device is not installed, or does not start."""


def target(device: Device) -> jax.Device:
    """A JAX device to compile for.

    Raises:
      MissingCompiler: if its plugin is not installed or does not start.
    """
    if device.platform == "cpu":
        return jax.local_devices(backend="cpu")[0]
    from jax.experimental import topologies

    try:
        if device.platform == "cuda":
            found = topologies.get_topology_desc(
                platform="cuda", topology_name="", topology="1x1x1", target_config=_gpu_facts()
            )
        else:
            # Without these libtpu looks for the machine it runs on, which is none of its kind.
            os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
            os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
            os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-1")
            found = topologies.get_topology_desc("v5e:1x1", platform="tpu")
    except (RuntimeError, ValueError, NotImplementedError, ImportError) as error:
        extra = {"cuda": "cuda12", "tpu": "tpu"}[device.platform]
        raise MissingCompiler(
            f"no compiler for {device.name}; where it is not installed, pip install 'jaxvar[{extra}]' ({error})"
        ) from error
    return found.devices[0]


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Make ``float32`` or ``float64`` the float type of what is built inside."""
    before = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    jax.config.update("jax_enable_x64", name == "float64")
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def traced(algorithm: Any, environment: Any, num_seeds: int, num_turns: int, device: jax.Device) -> Any:
    """Return the traced program of ``simulate`` for one call that plays all of ``num_seeds`` seeds, not yet compiled.

    Args:
      algorithm: as for ``simulate``.
      environment: as for ``simulate``.
      num_seeds: seeds of the call.
      num_turns: rounds, or episodes where the environment is episodic.
      device: from :func:`target`.

    Returns:
      A ``jax.stages.Traced``: it has a ``jaxpr``, and ``lower().compile()`` makes the program.
    """
    program = engine.Program(
        algorithm=algorithm,
        environment=environment,
        key_data=np.asarray(random.key_words(jax.random.key(0))),
        rounds=records.record_rounds(1, num_turns),
        recorders=game.DEFAULT_RECORDERS,
        chunk=num_seeds,
        mesh=Mesh(np.array([device]), ("runs",)),
    )
    return program.traced(num_turns)


def equations(jaxpr: Any, length: int) -> int:
    """Equations in the body of the scan over ``length`` rounds, with those of all it calls; of several the most.

    A measure of the traced program: it hardly changes with the version of the compiler.
    """
    bodies = [
        e.params["jaxpr"].jaxpr for e in _walk(jaxpr) if e.primitive.name == "scan" and e.params["length"] == length
    ]
    if not bodies:
        raise ValueError(f"the program must have a scan of length {length}, got none")
    return max(sum(1 for _ in _walk(body)) for body in bodies)


def _walk(jaxpr: Any) -> Iterator[Any]:
    """Every equation, those of called programs included."""
    for equation in jaxpr.eqns:
        inner = [x for x in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr) if _is_jaxpr(x)]
        yield equation
        for x in inner:
            yield from _walk(getattr(x, "jaxpr", x))


def _is_jaxpr(x: Any) -> bool:
    return hasattr(x, "eqns") or hasattr(getattr(x, "jaxpr", None), "eqns")
