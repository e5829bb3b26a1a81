"""``python -m experiments speed``: time and memory per step beside programs written for the same task.

All contenders of a row are timed in turn within each repeat, so that a slow moment of the machine meets them all; what
counts are the ratios. Compilation is timed apart. The JAX side plays the whole study: drawing the problem, arms and
noise, every round, and recording. UCRL-AVE plays a given model; a step is its unit, and the plan is part of it.

``python -m experiments speed draws`` says what drawing fresh arms costs, beside what the algorithms do with them. It is
measured by a player that pulls the arm with the largest first coordinate and adds it up: its time is that of the arms,
their means, the noise and the regret. (Uniform play would look at no arm, and a compiler need not store what nobody
looks at.) What an algorithm takes beyond that is its own.
"""

from __future__ import annotations

import dataclasses
import importlib
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxvar as jv
from experiments.speed import numpy_loop, numpy_vector, public_library
from jaxvar import bench as package
from jaxvar import lowering, parameters
from jaxvar.algorithms.interface import Choice
from jaxvar.bench import ALGORITHMS, BANDITS, PRECISIONS, bytes_per_seed
from jaxvar.parameters import float_dtype, pytree, static
from jaxvar.study.factories import in_precision

ARM_KINDS = ("sphere", "uniform", "hypercube")
REST = 0.1  # seconds before a play: the threads of OpenMP, which Numba uses, look for more work for a while


@dataclasses.dataclass(frozen=True)
class Comparison:
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
    algorithms: tuple[str, ...] = ()
    """Which of oful, save, ave_ucb and ucrl_ave, or of all algorithms with --all; every one if none is named."""
    states: int = 6
    """States of the model that ucrl_ave plays."""
    actions: int = 4
    """Its actions."""
    features: int = 4
    """Its dimension."""
    horizon: int = 10
    """Steps per episode."""
    episodes: int = 1000
    """Episodes per seed."""
    episode_seeds: int = 256
    """Seeds of ucrl_ave; the NumPy loop plays 1."""
    layers: int | None = None
    """Layers that jaxvar stores; chosen by the algorithm if not given."""
    library: str = ""
    """A public library to compare oful with, as in ``speed libraries``; it is installed apart by pip."""
    all: bool = False
    """Print one line for each algorithm of ``jaxvar list`` instead, beside its NumPy twin in tests/reference."""
    twin_turns: int = 200
    """With --all: most rounds or episodes that a twin plays per repeat, of one seed; fewer if it is slow."""


@dataclasses.dataclass(frozen=True)
class Contender:
    """One program: how to run it, and how many rounds or steps of all seeds together a run plays."""

    name: str
    play: Callable[[], np.ndarray[Any, Any]]
    steps: int

    def timed(self) -> tuple[float, float]:
        """Run it: seconds per step, and the mean regret."""
        start = time.perf_counter()
        regret = self.play()
        return (time.perf_counter() - start) / self.steps, float(np.mean(regret))


@dataclasses.dataclass(frozen=True)
class PublicLibrary:
    """A public library's LinUCB, which plays for a given time in processes of its own."""

    name: str
    options: Comparison
    fresh: bool

    def timed(self) -> tuple[float, float]:
        """Run it: seconds per seed-round, and the mean regret."""
        size: dict[str, Any] = {
            "dim": self.options.dim,
            "num_arms": self.options.arms,
            "num_rounds": self.options.rounds,
        }
        measured = public_library.rate(self.name, **size, fresh=self.fresh)
        return 1 / measured.rate, measured.regret


@dataclasses.dataclass(frozen=True)
class Task:
    """One line of the table: what jaxvar plays, and the programs that play the same."""

    label: str
    algorithm: Any
    environment: Any
    contenders: list[Contender | PublicLibrary]


def compare(options: Comparison) -> int:
    """Print the table; returns the exit code."""
    chosen = options.algorithms or ALGORITHMS
    unknown = sorted(set(chosen) - set(ALGORITHMS))
    if unknown:
        print(f"algorithms must be among {', '.join(ALGORITHMS)}, got {', '.join(unknown)}", file=sys.stderr)
        return 2
    print(machine())
    print(
        f"bandits: d={options.dim}, {options.arms} arms, K={options.rounds}, {options.seeds} seeds; episodes: "
        f"S={options.states}, A={options.actions}, d={options.features}, H={options.horizon}, K={options.episodes}, "
        f"{options.episode_seeds} seeds\n{jax.numpy.result_type(float)}, practical constants x0.1, "
        f"median of {options.repeats} interleaved repeats; a step is a round or a step of an episode, of one seed\n"
    )
    header = f"{'':16}{'program':20}{'M steps/s':>12}{'us/step':>10}{'regret':>10}{'first call s':>14}"
    print(header + f"{'ratio':>9}   (jaxvar over it)")
    for fresh in (False, True):
        for name in BANDITS:
            if name in chosen:
                _row(options, task_of(options, name, fresh))
    if "ucrl_ave" in chosen:
        _row(options, task_of(options, "ucrl_ave"))
    return 0


def task_of(options: Comparison, name: str, fresh: bool = False) -> Task:
    """Return an algorithm's line: jaxvar first, then Numba if it is installed, then the others."""
    return _bandit(options, name, fresh) if name in BANDITS else _episodes(options)


def _row(options: Comparison, task: Task) -> None:
    contenders = task.contenders
    first, regret = {}, {}
    for c in contenders:
        start = time.perf_counter()
        _, regret[c.name] = c.timed()
        first[c.name] = time.perf_counter() - start
    times: dict[str, list[float]] = {c.name: [] for c in contenders}
    for _ in range(options.repeats):
        for c in contenders:
            time.sleep(REST)
            times[c.name].append(c.timed()[0])
    ours = float(np.median(times["jaxvar"]))
    label = task.label
    for c in contenders:
        each = float(np.median(times[c.name]))
        ratio = "" if c.name == "jaxvar" else f"{each / ours:9.2f}"
        speed = f"{1e-6 / each:12.3f}{1e6 * each:10.3f}"
        print(f"{label:16}{c.name:20}{speed}{regret[c.name]:10.1f}{first[c.name]:14.1f}{ratio}", flush=True)
        label = ""
    size, peak = bytes_per_seed(task.algorithm, task.environment), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{'':16}jaxvar carries {size:,} bytes per seed; peak of this process {peak / 1024:,.0f} MB\n", flush=True)


def _bandit(options: Comparison, name: str, fresh: bool) -> Task:
    size: dict[str, Any] = {"dim": options.dim, "num_arms": options.arms, "num_rounds": options.rounds}
    ours, environment = bandit_game(options, name, fresh)

    def contender(label: str, module: Any, seeds: int) -> Contender:
        play = getattr(module, name)
        return Contender(label, lambda: play(**size, num_seeds=seeds, fresh=fresh, seed=0), seeds * options.rounds)

    numba = _numba("numba_bandits")
    contenders: list[Contender | PublicLibrary] = [
        *_jaxvar(lambda: bandit_game(options, name, fresh), options.seeds, options.rounds, 1, "num_rounds")
    ]
    if numba is not None:
        contenders.append(contender("numba, 1 per core", numba, options.seeds))
    contenders.append(contender("numpy, vectorised", numpy_vector, min(256, options.seeds)))
    contenders.append(contender("numpy, loop", numpy_loop, min(2, options.seeds)))
    if name == "oful" and options.library:
        contenders.append(PublicLibrary(options.library, options, fresh))
    return Task(f"{name} {'fresh' if fresh else 'fixed'}", ours, environment, contenders)


def _episodes(options: Comparison) -> Task:
    ours, environment = episodic_game(options)
    instance = jax.tree.map(np.asarray, environment.init(jax.random.key(0)))
    model = (instance.phi, instance.reward, instance.theta_star)
    size: dict[str, Any] = {
        "horizon": options.horizon,
        "num_episodes": options.episodes,
        "norm_bound": float(ours.norm_bound),
        "delta": float(ours.delta),
    }

    def contender(label: str, module: Any, seeds: int) -> Contender:
        def play() -> np.ndarray[Any, Any]:
            return np.asarray(module.ucrl_ave(*model, **size, num_seeds=seeds, seed=0))

        return Contender(label, play, seeds * options.episodes * options.horizon)

    numba = _numba("numba_episodes")
    seeds = options.episode_seeds
    contenders: list[Contender | PublicLibrary] = [
        *_jaxvar(lambda: episodic_game(options), seeds, options.episodes, options.horizon, "num_episodes")
    ]
    if numba is not None:
        contenders.append(contender("numba, in lanes", numba, seeds))
    contenders.append(contender("numpy, loop", numpy_loop, 1))
    return Task("ucrl_ave", ours, environment, contenders)


def _jaxvar(game: Callable[[], Any], seeds: int, turns: int, steps: int, length: str) -> list[Contender]:
    setting: dict[str, Any] = {"num_seeds": seeds, "record_at": 1, length: turns}

    def contender(precision: str) -> Contender:
        with in_precision(precision):
            algorithm, environment = game()

        def play() -> np.ndarray[Any, Any]:
            with in_precision(precision):
                out = jv.simulate(algorithm, environment, key=jax.random.key(0), **setting)
            out.raise_if_failed()
            return out.regret[:, -1]

        return Contender("jaxvar" if precision == "float64" else f"jaxvar, {precision}", play, seeds * turns * steps)

    return [contender(precision) for precision in PRECISIONS]


def _numba(module: str) -> Any:
    try:
        return importlib.import_module(f"experiments.speed.{module}")
    except ImportError:
        print("(Numba is not installed: pip install numba to compare with it)")
        return None


def bandit_game(options: Comparison, name: str, fresh: bool) -> tuple[Any, Any]:
    """The algorithm and the environment of a bandit's line."""
    algorithm, environment = package.bandit_game(name, options.dim, options.arms, options.rounds, fresh=fresh)
    return _with_layers(algorithm, options.layers), environment


def episodic_game(options: Comparison) -> tuple[Any, Any]:
    """UCRL-AVE and one random mixture for all seeds."""
    sizes = (options.states, options.actions, options.features, options.horizon, options.episodes)
    algorithm, environment = package.episodic_game(*sizes)
    return _with_layers(algorithm, options.layers), environment


def _with_layers(algorithm: Any, layers: int | None) -> Any:
    stored = hasattr(algorithm, "capacity") and layers is not None
    return parameters.replace(algorithm, capacity=layers) if stored else algorithm


def machine() -> str:
    """Versions and the machine, in a line."""
    try:
        numba = importlib.import_module("numba").__version__
    except ImportError:
        numba = "not installed"
    return f"numba {numba}, {package.machine()}"


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
            for kind in ARM_KINDS:
                drawing, *own = _times(options, kind)
                cells = "".join(f"{1e6 * t:10.3f}" for t in (drawing, *own))
                print(f"{precision:12}{kind:12}{cells}", flush=True)
    finally:
        jax.config.update("jax_enable_x64", asked)
    return 0


def _times(options: Draws, kind: str) -> list[float]:
    """Seconds per seed-round: of drawing, then of each algorithm beyond it."""
    size = Comparison(dim=options.dim, arms=options.arms, rounds=options.rounds, seeds=options.seeds)
    environment = jv.linear_bandit(options.dim, options.arms, noise=jv.noise.two_point(0.5), arms=kind, fresh=True)
    algorithms: list[Any] = [Glance(dim=options.dim), *(bandit_game(size, name, True)[0] for name in BANDITS)]

    def play(algorithm: Any) -> None:
        setting: dict[str, Any] = {"num_rounds": options.rounds, "num_seeds": options.seeds, "record_at": 1}
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
