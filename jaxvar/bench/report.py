"""``jaxvar bench``: time and memory per seed-round, side by side with programs written for the same task.

All contenders of a row are timed in turn within each repeat, so that a slow moment of the machine meets them all; what
counts are the ratios. Compilation is timed apart. The JAX side plays the whole study: drawing the problem, arms and
noise, every round, and recording.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import resource
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import jaxvar as jv

ALGORITHMS = ("oful", "save", "ave_ucb")


@dataclasses.dataclass(frozen=True)
class Bench:
    """Compare jaxvar with NumPy and Numba programs of the same algorithms."""

    dim: int = 10
    """Dimension of the arms."""
    arms: int = 20
    """Arms per decision set."""
    rounds: int = 2000
    """Rounds per seed."""
    seeds: int = 1024
    """Seeds of jaxvar and of Numba; per repeat vectorised NumPy plays at most 256 of them, the NumPy loop 2."""
    repeats: int = 5
    """Interleaved repeats; the median counts."""
    algorithms: tuple[str, ...] = ALGORITHMS
    """Which of oful, save and ave_ucb."""


@dataclasses.dataclass(frozen=True)
class Contender:
    """One program: how to run it, and how many seeds a run plays."""

    name: str
    play: Callable[[], np.ndarray[Any, Any]]
    seeds: int


def bench(options: Bench) -> int:
    """Print the table; returns the exit code."""
    print(_machine())
    print(
        f"d={options.dim}, {options.arms} arms, K={options.rounds}, {options.seeds} seeds, "
        f"{jax.numpy.result_type(float)}, practical constants, median of {options.repeats} interleaved repeats\n"
    )
    header = f"{'':16}{'program':18}{'M seed-rounds/s':>16}{'us/seed-round':>15}{'regret':>10}{'first call s':>14}"
    print(header + f"{'ratio':>8}   (jaxvar over it)")
    for fresh in (False, True):
        for algorithm in options.algorithms:
            _row(options, algorithm, fresh)
    return 0


def _row(options: Bench, algorithm: str, fresh: bool) -> None:
    contenders = _contenders(options, algorithm, fresh)
    first, regret = {}, {}
    for c in contenders:
        start = time.perf_counter()
        regret[c.name] = float(np.mean(c.play()))
        first[c.name] = time.perf_counter() - start
    times: dict[str, list[float]] = {c.name: [] for c in contenders}
    for _ in range(options.repeats):
        for c in contenders:
            start = time.perf_counter()
            c.play()
            times[c.name].append((time.perf_counter() - start) / (c.seeds * options.rounds))
    ours = float(np.median(times["jaxvar"]))
    label = f"{algorithm} {'fresh' if fresh else 'fixed'}"
    for c in contenders:
        each = float(np.median(times[c.name]))
        ratio = "" if c.name == "jaxvar" else f"{each / ours:8.2f}"
        speed = f"{1e-6 / each:16.3f}{1e6 * each:15.3f}"
        print(f"{label:16}{c.name:18}{speed}{regret[c.name]:10.1f}{first[c.name]:14.1f}{ratio}", flush=True)
        label = ""
    print(f"{'':16}{_memory(options, algorithm, fresh)}\n", flush=True)


def _contenders(options: Bench, algorithm: str, fresh: bool) -> list[Contender]:
    size: dict[str, Any] = {"dim": options.dim, "num_arms": options.arms, "num_rounds": options.rounds}
    ours, environment = _ours(options, algorithm, fresh)

    def play_ours() -> np.ndarray[Any, Any]:
        out = jv.simulate(
            ours, environment, key=jax.random.key(0), num_rounds=options.rounds, num_seeds=options.seeds, records=1
        )
        out.raise_if_failed()
        return out.regret[:, -1]

    contenders = [Contender("jaxvar", play_ours, options.seeds)]
    try:
        from jaxvar.bench import numba_parallel
    except ImportError:
        print("(Numba is not installed: pip install numba to compare with it)")
    else:
        numba = getattr(numba_parallel, algorithm)
        contenders.append(
            Contender(
                "numba, 1 per core", lambda: numba(**size, num_seeds=options.seeds, fresh=fresh, seed=0), options.seeds
            )
        )
    from jaxvar.bench import numpy_loop, numpy_vector

    vector, loop = getattr(numpy_vector, algorithm), getattr(numpy_loop, algorithm)
    some, few = min(256, options.seeds), min(2, options.seeds)
    return [
        *contenders,
        Contender("numpy, vectorised", lambda: vector(**size, num_seeds=some, fresh=fresh, seed=0), some),
        Contender("numpy, loop", lambda: loop(**size, num_seeds=few, fresh=fresh, seed=0), few),
    ]


def _ours(options: Bench, algorithm: str, fresh: bool) -> tuple[Any, Any]:
    environment = jv.linear_bandit(options.dim, options.arms, noise=jv.noise.two_point(0.5), fresh=fresh)
    if algorithm == "oful":
        return jv.oful(options.dim, ties="lowest"), environment
    factories: dict[str, Any] = {"save": jv.save, "ave_ucb": jv.ave_ucb}
    constants = jv.constants.practical()
    return factories[algorithm](options.dim, options.rounds, constants=constants, ties="lowest"), environment


def _memory(options: Bench, algorithm: str, fresh: bool) -> str:
    """State that one seed carries from round to round, and the peak of the whole process so far."""
    ours, environment = _ours(options, algorithm, fresh)
    from jaxvar import runner

    words = jv.random.key_words(jax.random.key(0))
    carried = jax.eval_shape(
        lambda a, e: runner.begin(a, e, words, jax.numpy.int32(0), runner.DEFAULT_RECORDERS), ours, environment
    )
    size = sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(carried))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"jaxvar carries {size:,} bytes per seed; peak of this process {peak:,.0f} MB"


def _machine() -> str:
    try:
        import numba

        numba_version = numba.__version__
    except ImportError:
        numba_version = "not installed"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"jaxvar {jv.__version__}, jax {jax.__version__}, numpy {np.__version__}, numba {numba_version}, "
        f"Python {platform.python_version()}; {platform.processor() or platform.machine()}, {cores} cores, "
        f"{len(jax.devices())} {jax.devices()[0].platform} devices"
    )
