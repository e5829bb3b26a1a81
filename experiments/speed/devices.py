"""Throughput on one and on several CPU devices: ``python -m experiments speed devices``.

How many devices there are is settled when JAX starts, so each number of devices has an interpreter of its own. All of
them compile first; then they are asked in turn to play once, so that a slow moment of the machine meets them all.
What counts is the ratio within each repeat.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np

import jaxvar as jv
from experiments.speed.comparison import BANDITS, Comparison, bandit_game

ROOT = Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Devices:
    """Compare the speed of a simulation on different numbers of CPU devices."""

    counts: tuple[int, ...] = (1, 2)
    """Numbers of devices; ratios are to the first."""
    algorithm: str = "save"
    """One of oful, save and ave_ucb."""
    fresh: bool = False
    """Draw the arms anew in each round."""
    dim: int = 10
    """Dimension of the arms."""
    arms: int = 20
    """Arms per decision set."""
    rounds: int = 2000
    """Rounds per seed."""
    seeds: int = 1024
    """Seeds per repeat."""
    repeats: int = 5
    """Interleaved repeats; the median counts."""


@dataclasses.dataclass(frozen=True)
class Row:
    """The speed on one number of devices."""

    devices: int
    rate: float  # seed-rounds per second, the median over the repeats
    ratio: float  # to the first number of devices: the median over the repeats,
    low: float  # the least,
    high: float  # and the largest


def devices(options: Devices) -> list[Row]:
    """Measure each of ``options.counts``."""
    if options.algorithm not in BANDITS:
        raise ValueError(f"algorithm must be among {', '.join(BANDITS)}, got {options.algorithm!r}")
    if not options.counts or min(options.counts) < 1:
        raise ValueError(f"counts must be numbers of devices from 1 on, got {options.counts!r}")
    task = json.dumps(dataclasses.asdict(options))
    command = [sys.executable, "-m", "experiments.speed.devices"]
    servers = [
        subprocess.Popen([*command, str(n), task], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for n in options.counts
    ]
    try:
        for server, count in zip(servers, options.counts, strict=True):
            found = _ask(server, "start")
            if found != count:
                raise RuntimeError(f"JAX made {found:g} devices where {count} were asked for")
        times = np.array([[_ask(server, "play") for server in servers] for _ in range(options.repeats)])
    finally:
        for server in servers:
            server.communicate()  # closes its input, upon which it ends
    rates = options.seeds * options.rounds / times
    ratios = rates / rates[:, :1]
    return [
        Row(n, float(np.median(rates[:, i])), float(np.median(r)), float(r.min()), float(r.max()))
        for i, (n, r) in enumerate(zip(options.counts, ratios.T, strict=True))
    ]


def show(options: Devices, rows: list[Row]) -> None:
    """Print the rows as a table."""
    kind = "fresh" if options.fresh else "fixed"
    print(
        f"{options.algorithm}, {kind} arms, d={options.dim}, {options.arms} arms, K={options.rounds}, "
        f"{options.seeds} seeds, float64, median of {options.repeats} interleaved repeats"
    )
    print(f"{'devices':>8}{'M seed-rounds/s':>18}{'ratio':>8}   (least and largest of the repeats)")
    for row in rows:
        print(f"{row.devices:8d}{1e-6 * row.rate:18.3f}{row.ratio:8.2f}   ({row.low:.2f} to {row.high:.2f})")


def _ask(server: subprocess.Popen[str], what: str) -> float:
    if server.stdin is None or server.stdout is None:
        raise RuntimeError("the server has no pipes")
    server.stdin.write(what + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    if not answer:
        raise RuntimeError(f"an interpreter with its own devices ended with code {server.wait()}")
    return float(answer)


def _serve(count: int, task: str) -> None:
    """Answer requests until the input ends: the number of devices, once all is compiled; the seconds of one play."""
    jv.tune_cpu(count)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    options = Devices(**json.loads(task))
    sizes = Comparison(dim=options.dim, arms=options.arms, rounds=options.rounds)
    algorithm, environment = bandit_game(sizes, options.algorithm, options.fresh)

    def play() -> None:
        key = jax.random.key(0)
        out = jv.simulate(
            algorithm, environment, key=key, num_rounds=options.rounds, num_seeds=options.seeds, record_at=1
        )
        out.raise_if_failed()

    for line in sys.stdin:
        start = time.perf_counter()
        play()
        print(jax.device_count() if line.strip() == "start" else time.perf_counter() - start, flush=True)


if __name__ == "__main__":  # the interpreter of one number of devices
    _serve(int(sys.argv[1]), sys.argv[2])
