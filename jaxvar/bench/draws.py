"""``jaxvar draws``: what drawing fresh arms costs, beside what the algorithms do with them.

Drawing is measured by a player that pulls the arm with the largest first coordinate and adds it up: its time is that
of the arms, their means, the noise and the regret. (Uniform play would look at no arm, and a compiler need not store
what nobody looks at.) What an algorithm takes beyond that is its own. All lines of a table are timed in turn within
each repeat.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxvar as jv
from jaxvar import lowering
from jaxvar.algorithms.interface import Choice
from jaxvar.bench.report import BANDITS, Bench, bandit_game, machine
from jaxvar.parameters import float_dtype, pytree, static

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


@pytree
class Glance:
    """Pulls the arm with the largest first coordinate; remembers the sum of what it pulled, and nothing else."""

    dim: int = static()

    def init(self) -> jax.Array:
        """Zero."""
        return jnp.zeros(self.dim, float_dtype())

    def select(self, state: jax.Array, arms: jax.Array, key: jax.Array, side: Any) -> Choice:
        """One look at each arm."""
        return _glance(arms)

    def update(self, state: jax.Array, choice: Choice, x: jax.Array, reward: jax.Array, side: Any) -> jax.Array:
        """One addition."""
        return state + x


def _glance(arms: jax.Array) -> Choice:
    action = lowering.lowest(arms[:, 0] >= jnp.max(arms[:, 0], axis=0)[None])
    zero = jnp.zeros_like(action)
    return Choice(action, zero, zero.astype(arms.dtype), zero)


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
    algorithms: list[Any] = [Glance(dim=options.dim), *(bandit_game(size, name, True)[0] for name in BANDITS)]

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
