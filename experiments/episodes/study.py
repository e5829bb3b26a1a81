"""What is run: UCRL-AVE and UCRL-VTR with several constants, on random mixtures and on RiverSwim."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxvar as jv

STATES, ACTIONS, DIM, HORIZON, CONCENTRATION = 6, 4, 4, 10, 0.02  # of the random mixtures
DELTA, ROOT_KEY = 0.01, 0
PERIODS = (0.1, 0.3, 1.0)  # of the episodes: where the regret on the mixtures is read
AVE_PAPER, AVE, AVE_WIDE = "UCRL-AVE (paper constants)", "UCRL-AVE (practical, ×0.01)", "UCRL-AVE (practical, ×0.1)"
VTR, VTR_WIDE, VTR_NARROW, UNIFORM = "UCRL-VTR (theorem)", "UCRL-VTR (×0.1)", "UCRL-VTR (×0.01)", "Uniform play"


@dataclasses.dataclass(frozen=True)
class Episodes:
    """Regret against episodes on random mixtures and on RiverSwim, ending in two figures and two tables."""

    seeds: int = 256
    """Seeds on the random mixtures; a quarter of them on RiverSwim, a sixteenth on its tabular form."""
    episodes: int = 1_000
    """Episodes on the random mixtures; twice as many on RiverSwim, four times as many on its tabular form."""
    out: str = "results/episodes"
    """Folder for the figures, the tables and the numbers."""

    def __post_init__(self) -> None:
        if self.seeds < 2 or self.episodes < 10:
            raise ValueError(f"needs 2 seeds and 10 episodes or more, got {self.seeds} and {self.episodes}")


class Played(NamedTuple):
    """One algorithm on one problem. Uniform play has no values, so nothing is known of them."""

    regret: np.ndarray  # [seeds, records]
    optimistic: np.ndarray | None  # [seeds]   share of the episodes with an optimistic plan
    capped: np.ndarray | None  # [seeds]   share of the steps after which the plan expected all there is: V = 1
    held: np.ndarray | None  # [seeds, records]   whether the confidence event has held in all layers so far


class Problem(NamedTuple):
    """Who plays what, how often and how long."""

    title: str
    environment: Any
    seeds: int
    episodes: int
    algorithms: dict[str, Any]


class Results(NamedTuple):
    """One problem, played."""

    title: str
    episodes: np.ndarray  # [records]
    played: dict[str, Played]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CappedSteps:
    """A recorder: how many steps so far led to a state where the plan's value was 1, the most there is."""

    name = "capped"

    def init(self, algorithm: Any, instance: Any) -> jax.Array:
        return jnp.int32(0)

    def update(self, memory: jax.Array, event: Any, algorithm: Any, instance: Any) -> jax.Array:
        return memory + jnp.sum(event.reward >= 1, dtype=jnp.int32)

    def read(self, memory: jax.Array) -> jax.Array:
        return memory


def flatten(options: Episodes) -> Problem:
    """Near-deterministic random mixtures, a model of its own for each seed."""
    environment = jv.mixture_mdp(STATES, ACTIONS, DIM, HORIZON, concentration=CONCENTRATION)
    algorithms = {
        UNIFORM: jv.uniform(),
        AVE_PAPER: _ave(environment, options.episodes, jv.constants.paper()),
        AVE_WIDE: _ave(environment, options.episodes, jv.constants.practical(0.1)),
        VTR: _vtr(environment, 1.0),
        VTR_NARROW: _vtr(environment, 0.01),
        AVE: _ave(environment, options.episodes, jv.constants.practical(0.01)),
    }
    return Problem("Random mixtures", environment, options.seeds, options.episodes, algorithms)


def riverswim(options: Episodes) -> tuple[Problem, Problem]:
    """RiverSwim with one unknown current, and with an unknown law in every state."""
    current, tabular = jv.riverswim(), jv.riverswim(features="tabular")
    return (
        _river("RiverSwim, mixture: S = 10, H = 100, d = 3", current, options, fewer=4, longer=2),
        _river("RiverSwim, tabular: S = 5, H = 20, d = 50", tabular, options, fewer=16, longer=4),
    )


def run(problem: Problem, progress: bool = True) -> Results:
    """Play every algorithm."""
    episodes = recorded(problem.episodes)
    played = {}
    for label, algorithm in problem.algorithms.items():
        if progress:
            print(f"{problem.title}: {label}", flush=True)
        plans = hasattr(algorithm, "confidence")
        behind = (jv.record.optimism(), CappedSteps(), jv.record.confidence()) if plans else ()
        out = jv.simulate(
            algorithm,
            problem.environment,
            key=jax.random.key(ROOT_KEY),
            num_episodes=problem.episodes,
            num_seeds=problem.seeds,
            record_at=episodes,
            recorders=(jv.record.regret(), *behind),
            chunk=_chunk(problem.seeds),
            progress=progress,
        )
        out.raise_if_failed()
        played[label] = Played(out.regret, None, None, None)
        if plans:
            steps = problem.episodes * problem.environment.horizon
            optimistic, capped = out.optimistic[:, -1] / problem.episodes, out.capped[:, -1] / steps
            played[label] = Played(out.regret, optimistic, capped, out.confidence.all(axis=-1))
    return Results(problem.title, episodes, played)


def recorded(num_episodes: int) -> np.ndarray:
    """The episodes to record: for logarithmic and linear axes, the ends of the periods and of the tenths."""
    ends = [period_ends(num_episodes), tenths(num_episodes)]
    return np.unique(np.concatenate([jv.log_spaced(num_episodes, 60), jv.linear_spaced(num_episodes, 100), *ends]))


def period_ends(num_episodes: int) -> np.ndarray:
    """The last episodes of the periods."""
    return np.round(np.array(PERIODS) * num_episodes).astype(np.int32)


def tenths(num_episodes: int) -> np.ndarray:
    """The last episodes of the tenths of a run."""
    return jv.linear_spaced(num_episodes, 10)


def slopes(episodes: np.ndarray, regret: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Regret per episode between the ``ends``, ``[seeds, len(ends)]``; the first period begins with episode 1."""
    at_ends = regret[:, np.searchsorted(episodes, ends)]
    return np.diff(at_ends, axis=1, prepend=0.0) / np.diff(ends, prepend=0)


def _chunk(seeds: int) -> int | None:
    """Few seeds are shared out evenly among the devices: filled up to whole blocks, some would play for nothing."""
    devices = jax.local_device_count()
    return -(-seeds // devices) * devices if seeds <= 8 * devices else None


def _ave(environment: Any, num_episodes: int, constants: Any) -> Any:
    sizes = (environment.dim, environment.horizon, num_episodes)
    return jv.ucrl_ave(*sizes, norm_bound=environment.norm_bound, delta=DELTA, constants=constants)


def _vtr(environment: Any, beta_scale: float) -> Any:
    return jv.ucrl_vtr(environment.dim, norm_bound=environment.norm_bound, delta=DELTA, beta_scale=beta_scale)


def _river(title: str, environment: Any, options: Episodes, *, fewer: int, longer: int) -> Problem:
    episodes = longer * options.episodes
    algorithms = {
        UNIFORM: jv.uniform(),
        VTR: _vtr(environment, 1.0),
        VTR_WIDE: _vtr(environment, 0.1),
        VTR_NARROW: _vtr(environment, 0.01),
        AVE: _ave(environment, episodes, jv.constants.practical(0.01)),
    }
    return Problem(title, environment, max(options.seeds // fewer, 2), episodes, algorithms)
