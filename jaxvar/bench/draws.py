"""``jaxvar draws``: what drawing fresh arms costs, beside what the algorithms do with them.

Drawing is measured by uniform play: its time is that of the arms, their means, the noise and the regret, since it
looks at nothing. What an algorithm takes beyond that is its own. All lines of a table are timed in turn within each
repeat.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import jax
import numpy as np

import jaxvar as jv
from jaxvar.bench.report import BANDITS, Bench, bandit_game, machine

KINDS = ("sphere", "uniform", "hypercube")
PRECISIONS = ("float64", "float32")


@dataclasses.dataclass(frozen=True)
class Draws:
    """Compare the cost of drawing arms with that of the algorithms."""

    dim: int = 10
    """Dimension of the arms."""
    arms: int = 20
    """Arms per decision set."""
    rounds: int = 2000
    """Rounds per seed."""
    seeds: int = 256
    """Seeds."""
    repeats: int = 5
    """Interleaved repeats; the median counts."""


def draws(options: Draws) -> int:
    """Print the table; returns the exit code."""
    print(machine())
    print(
        f"d={options.dim}, {options.arms} fresh arms, K={options.rounds}, {options.seeds} seeds, "
        f"median of {options.repeats} interleaved repeats\n"
    )
    names = "".join(f"{name:>10}" for name in BANDITS)
    print(f"{'':24}{'drawing':>10}{names}   us per seed-round; the algorithms' own time, without drawing")
    asked = jax.config.read("jax_enable_x64")
    try:
        for precision in PRECISIONS:
            jax.config.update("jax_enable_x64", precision == "float64")
            for kind in KINDS:
                drawing, *own = _times(options, kind)
                cells = "".join(f"{1e6 * t:10.3f}" for t in (drawing, *own))
                print(f"{precision:12}{kind:12}{cells}", flush=True)
    finally:
        jax.config.update("jax_enable_x64", asked)
    return 0


def _times(options: Draws, kind: str) -> list[float]:
    """Seconds per seed-round: of drawing, then of each algorithm beyond it."""
    size = Bench(dim=options.dim, arms=options.arms, rounds=options.rounds, seeds=options.seeds)
    environment = jv.linear_bandit(options.dim, options.arms, noise=jv.noise.two_point(0.5), arms=kind, fresh=True)
    algorithms: list[Any] = [jv.uniform(), *(bandit_game(size, name, True)[0] for name in BANDITS)]

    def play(algorithm: Any) -> None:
        setting: dict[str, Any] = {"num_rounds": options.rounds, "num_seeds": options.seeds, "records": 1}
        jv.simulate(algorithm, environment, key=jax.random.key(0), **setting).raise_if_failed()

    for algorithm in algorithms:
        play(algorithm)
    times = np.empty((options.repeats, len(algorithms)))
    for repeat in times:
        for i, algorithm in enumerate(algorithms):
            start = time.perf_counter()
            play(algorithm)
            repeat[i] = time.perf_counter() - start
    drawing, *whole = (float(t) for t in np.median(times, axis=0) / (options.rounds * options.seeds))
    return [drawing, *(t - drawing for t in whole)]
