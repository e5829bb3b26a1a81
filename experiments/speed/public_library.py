"""The fastest public library that plays a linear bandit, beside jaxvar: ``python -m experiments speed libraries``.

Libraries are installed by name with pip, each into an environment of its own in a cache folder, so that they meet
neither jaxvar nor each other. Each plays LinUCB with one parameter vector for all arms, one process per core, for a
bounded time (:mod:`experiments.speed.public_player`).
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from experiments.speed.public_player import PLAYERS
from jaxvar import parameters

FASTEST = "contextualbandits"  # of those in LIBRARIES, when they were last compared side by side
LIBRARIES = tuple(sorted(PLAYERS))
PLAYER = Path(__file__).with_name("public_player.py")


@dataclasses.dataclass(frozen=True)
class Rate:
    """How fast a library plays."""

    library: str
    version: str
    rate: float  # seed-rounds per second, of all processes together
    cpu_rate: float  # seed-rounds per second of processor time: what counts where the machine is busy
    regret: float  # of the first seed of each process, mean; a check that something is learned


@dataclasses.dataclass(frozen=True)
class Libraries:
    """Compare public libraries with each other."""

    libraries: tuple[str, ...] = LIBRARIES
    """Which of bayesianbandits, coba, contextualbandits, mabwiser and river."""
    dim: int = 10
    """Dimension of the arms."""
    arms: int = 20
    """Arms per decision set."""
    rounds: int = 2000
    """Rounds per seed."""
    seconds: float = 5.0
    """How long each library plays in each repeat."""
    repeats: int = 3
    """Interleaved repeats; the median counts."""
    folder: str = ""
    """Where the environments are kept; a cache folder if not given."""


def rate(
    library: str = FASTEST,
    *,
    dim: int = 10,
    num_arms: int = 20,
    num_rounds: int = 2000,
    fresh: bool = False,
    seconds: float = 5.0,
    processes: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
) -> Rate:
    """Play LinUCB of ``library`` and measure it.

    Args:
      library: one of :data:`LIBRARIES`.
      dim: d.
      num_arms: arms per decision set, uniform on the unit sphere.
      num_rounds: rounds per seed.
      fresh: draw the arms anew in each round.
      seconds: how long to play.
      processes: how many at once, each with its own seeds; one per available core if not given.
      seed: of the first process; the others count on from there.
      folder: where the environments are kept; see :func:`cache_folder`.

    Returns:
      The rate of all processes together. The first call for a library installs it, which takes a minute and a network.
    """
    parameters.check_choice("library", library, LIBRARIES)
    python = install(library, folder)
    task = {"library": library, "dim": dim, "num_arms": num_arms, "num_rounds": num_rounds, "fresh": fresh}
    started = [
        subprocess.Popen(
            command(python, {**task, "seconds": seconds, "seed": seed + i}),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(_cores() if processes is None else processes)
    ]
    ended = [(process, *process.communicate()) for process in started]
    for process, _, errors in ended:
        if process.returncode != 0:
            raise RuntimeError(f"{library} ended with code {process.returncode}:\n{errors}")
    return combine([parse(printed) for _, printed, _ in ended])


def compare(options: Libraries, fresh: bool) -> list[Rate]:
    """The median rates of several libraries, played in turn within each repeat; the fastest comes first."""
    found: dict[str, list[Rate]] = {name: [] for name in options.libraries}
    size: dict[str, Any] = {"dim": options.dim, "num_arms": options.arms, "num_rounds": options.rounds, "fresh": fresh}
    for repeat in range(options.repeats):
        for name, rates in found.items():
            rates.append(rate(name, **size, seconds=options.seconds, seed=repeat, folder=options.folder or None))
    middle = [
        dataclasses.replace(
            rates[0],
            rate=float(np.median([r.rate for r in rates])),
            cpu_rate=float(np.median([r.cpu_rate for r in rates])),
            regret=float(np.mean([r.regret for r in rates])),
        )
        for rates in found.values()
    ]
    return sorted(middle, key=lambda r: -r.cpu_rate)


def cache_folder() -> Path:
    """``$JAXVAR_LIBRARIES``, or ``jaxvar/libraries`` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("JAXVAR_LIBRARIES") or Path(cache) / "jaxvar" / "libraries")


def install(library: str, folder: str | Path | None = None) -> Path:
    """The Python of an environment that has ``library``; made if it is not there."""
    home = (cache_folder() if folder is None else Path(folder)) / library
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():  # an environment whose installation was cut short is made again
        for step in (
            [sys.executable, "-m", "venv", "--clear", str(home)],
            [str(python), "-m", "pip", "install", "--quiet", "numpy", library],
        ):
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{library} could not be installed: {' '.join(step)}\n{done.stdout}{done.stderr}")
        ready.touch()
    return python


def command(python: Path, task: dict[str, Any]) -> list[str]:
    """How the player is started: isolated, so that it finds the library's environment and nothing else."""
    return [str(python), "-I", str(PLAYER), json.dumps(task)]


def environment() -> dict[str, str]:
    """One thread per process: the processes share the cores already."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(threads, "1")}


def parse(printed: str) -> Rate:
    """What the player says in its last line."""
    lines = printed.strip().splitlines()
    try:
        return Rate(**json.loads(lines[-1]))
    except (IndexError, TypeError, ValueError) as error:
        raise RuntimeError(f"the player printed no result: {printed!r}") from error


def combine(rates: list[Rate]) -> Rate:
    """Processes that played at the same time, as one."""
    return dataclasses.replace(
        rates[0],
        rate=sum(r.rate for r in rates),
        cpu_rate=float(np.mean([r.cpu_rate for r in rates])),
        regret=float(np.mean([r.regret for r in rates])),
    )


def show(options: Libraries, rates: list[Rate], fresh: bool) -> None:
    """Print a table; the ratio is to the fastest, by processor time."""
    print(f"{'fresh' if fresh else 'fixed'} arms, d={options.dim}, {options.arms} arms, {_cores()} processes")
    print(f"{'library':20}{'version':10}{'seed-rounds/s':>15}{'per CPU s':>12}{'ratio':>8}{'regret':>10}")
    for r in rates:
        speed = f"{r.rate:15,.0f}{r.cpu_rate:12,.0f}{r.cpu_rate / rates[0].cpu_rate:8.3f}"
        print(f"{r.library:20}{r.version:10}{speed}{r.regret:10.1f}")
    print()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compare_libraries(options: Libraries) -> None:
    """Compare with fixed and with fresh arms, and print both tables."""
    for fresh in (False, True):
        show(options, compare(options, fresh), fresh)
