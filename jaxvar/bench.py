"""``jaxvar bench``: how fast this machine plays SAVE and UCRL-AVE, in about ten seconds.

The whole simulation is timed: drawing the problem, arms and noise, every round, and recording. Nearly all of the ten
seconds is compilation, of all programs side by side.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, NamedTuple

import jax
import numpy as np
import tyro

from jaxvar import __version__, constants, engine, game, parameters
from jaxvar.algorithms.ave_ucb import ave_ucb
from jaxvar.algorithms.ellipsoid import oful
from jaxvar.algorithms.interface import Algorithm, EpisodicAlgorithm
from jaxvar.algorithms.save import save
from jaxvar.algorithms.ucrl_ave import UcrlAve, ucrl_ave
from jaxvar.environments import noise
from jaxvar.environments.linear_bandit import LinearBandit, linear_bandit
from jaxvar.environments.random_mdp import MixtureMdp, mixture_mdp
from jaxvar.exit_codes import DONE, exit_code
from jaxvar.memory import num_bytes
from jaxvar.simulate import simulate
from jaxvar.study.factories import error_at, in_precision

BANDITS = ("oful", "save", "ave_ucb")
PRECISIONS = ("float64", "float32")
ALGORITHMS = (*BANDITS, "ucrl_ave")
STATES, ACTIONS, FEATURES, HORIZON = 6, 4, 4, 10  # of the model that UCRL-AVE plays


@dataclasses.dataclass(frozen=True)
class Bench:
    """Print how many steps per second this machine plays; no other library is needed."""

    algorithms: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = ("save", "ucrl_ave")
    """Algorithms to play, among oful, save, ave_ucb and ucrl_ave."""
    seeds: int = 256
    """Seeds of the bandits; UCRL-AVE plays a quarter of them."""
    rounds: int = 1000
    """Rounds per seed; UCRL-AVE plays a tenth as many episodes of ten steps."""
    dim: int = 10
    """Dimension of the arms."""
    arms: int = 20
    """Arms per decision set."""
    repeats: int = 3
    """Timed repeats after compilation; the median is printed."""


class Task(NamedTuple):
    """One line of the table."""

    label: str
    algorithm: Algorithm | EpisodicAlgorithm
    environment: LinearBandit | MixtureMdp
    num_seeds: int
    num_turns: int  # rounds, or episodes
    num_steps: int  # in each of them


@exit_code
def bench(options: Bench) -> int:
    """Print one line per program and return the exit code."""
    with error_at():
        if not options.algorithms:
            raise ValueError(f"--algorithms must name one at least of {', '.join(ALGORITHMS)}")
        for name in options.algorithms:
            parameters.check_choice("--algorithms", name, ALGORITHMS)
        for name in ("seeds", "rounds", "dim", "arms", "repeats"):
            parameters.check_count(f"--{name}", getattr(options, name))
        both = []
        for precision in PRECISIONS:
            with in_precision(precision):
                both.append(tasks(options))
    print(machine())
    print(
        f"bandits: d={options.dim}, {options.arms} arms, K={options.rounds}; episodes: S={STATES}, A={ACTIONS}, "
        f"d={FEATURES}, H={HORIZON}, K={max(1, options.rounds // HORIZON)}\n"
        f"million steps a second, median of {options.repeats} repeats, and bytes that a seed carries\n"
        "a step is a round, or a step of an episode, of one seed\n"
    )
    print(f"{'':16}{'seeds':>8}" + "".join(f"{name:>12}{'bytes':>10}" for name in PRECISIONS), flush=True)
    with ThreadPoolExecutor() as threads:  # the first call compiles
        for found, precision in zip(both, PRECISIONS, strict=True):
            list(threads.map(functools.partial(seconds_of, precision=precision), found))
    for line in zip(*both, strict=True):
        cells = ""
        for task, precision in zip(line, PRECISIONS, strict=True):
            each = float(np.median([seconds_of(task, precision) for _ in range(options.repeats)]))
            speed = task.num_seeds * task.num_turns * task.num_steps / each
            with in_precision(precision):
                size = bytes_per_seed(task.algorithm, task.environment)
            cells += f"{1e-6 * speed:12.3f}{size:10,}"
        print(f"{line[0].label:16}{line[0].num_seeds:8,}{cells}", flush=True)
    return DONE


def tasks(options: Bench) -> list[Task]:
    """Return the lines of the table: bandits with fixed and with fresh arms, then UCRL-AVE."""
    found = []
    for name in BANDITS:
        for kind in ("fixed", "fresh") if name in options.algorithms else ():
            players = bandit_game(name, options.dim, options.arms, options.rounds, fresh=kind == "fresh")
            found.append(Task(f"{name} {kind}", *players, options.seeds, options.rounds, 1))
    if "ucrl_ave" in options.algorithms:
        num_episodes = max(1, options.rounds // HORIZON)
        mixture = episodic_game(STATES, ACTIONS, FEATURES, HORIZON, num_episodes)
        found.append(Task("ucrl_ave", *mixture, max(1, options.seeds // 4), num_episodes, HORIZON))
    return found


def seconds_of(task: Task, precision: str) -> float:
    """Play a task in a precision and return the seconds it took, []."""
    episodic = isinstance(task.environment, MixtureMdp)
    start = time.perf_counter()
    with in_precision(precision):
        simulate(
            task.algorithm,
            task.environment,
            key=jax.random.key(0),
            num_seeds=task.num_seeds,
            num_rounds=None if episodic else task.num_turns,
            num_episodes=task.num_turns if episodic else None,
            record_at=1,
        ).raise_if_failed()
    return time.perf_counter() - start


def bandit_game(name: str, dim: int, num_arms: int, num_rounds: int, *, fresh: bool) -> tuple[Algorithm, LinearBandit]:
    """Return a bandit algorithm with practical constants, and its environment."""
    environment = linear_bandit(dim, num_arms, noise=noise.two_point(0.5), fresh=fresh)
    if name == "oful":
        return oful(dim, ties="lowest"), environment
    layered = save if name == "save" else ave_ucb
    return layered(dim, num_rounds, constants=constants.practical(0.1), ties="lowest"), environment


def episodic_game(
    num_states: int, num_actions: int, dim: int, horizon: int, num_episodes: int
) -> tuple[UcrlAve, MixtureMdp]:
    """Return UCRL-AVE with practical constants, and one random mixture for all seeds."""
    environment = mixture_mdp(num_states, num_actions, dim, horizon, concentration=0.1, model_seed=0)
    radius, norm_bound = constants.practical(0.1), environment.norm_bound
    return ucrl_ave(dim, horizon, num_episodes, norm_bound=norm_bound, constants=radius, ties="lowest"), environment


def bytes_per_seed(algorithm: object, environment: object) -> int:
    """Return the bytes that one seed carries from round to round."""
    keys, rules = game.seed_keys(np.zeros(2, np.uint32), np.int32(0)), engine.game_of(environment)
    _, carried = jax.eval_shape(lambda a, e: rules.begin(a, e, keys, game.DEFAULT_RECORDERS), algorithm, environment)
    return num_bytes(carried)


def machine() -> str:
    """Return versions, processor and devices in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"jaxvar {__version__}, jax {jax.__version__}, numpy {np.__version__}, Python {platform.python_version()}; "
        f"{platform.processor() or platform.machine()}, {cores} cores, "
        f"{len(jax.devices())} {jax.devices()[0].device_kind} device(s)"
    )
