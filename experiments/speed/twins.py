"""``python -m experiments speed --all``: one line per algorithm of the catalogue, beside its NumPy twin.

Twins (``tests/reference``) are written to be read, with explicit inverses and sums over all past rounds: they say what
an algorithm costs where nobody has thought about speed, and are timed over few rounds of one seed. A twin is
``run_<factory>`` of given arrays, or a class ``Twin`` that plays round by round, as in
``tests/algorithms/test_twin_interface.py``.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxvar as jv
from experiments.speed.comparison import Comparison, machine
from jaxvar import status
from jaxvar.algorithms.catalogue import CLAIMS, FACTORIES
from tests.helpers import arguments as examples


def _declaring(parameter: str) -> tuple[str, ...]:
    return tuple(name for name, make in FACTORIES.items() if parameter in examples.declared(make))


SECTIONS = {c.factory: c.section for c in CLAIMS}
BANDITS = tuple(c.factory for c in CLAIMS if c.setting == "bandit")
DUELS = tuple(c.factory for c in CLAIMS if c.setting == "duels")
EPISODIC = tuple(c.factory for c in CLAIMS if c.setting == "episodes")
NETS = _declaring("cells")
NET_DIM = 2
HEAVY = (*NETS, *DUELS, *_declaring("num_proposals"))  # a step costs so much more that they play a share of the seeds
TWIN_SECONDS = 1.0  # about what a twin may take in a repeat; one that needs longer for a turn is timed once
NOISE_STD = 0.5

Array = np.ndarray[Any, Any]
Twin = Callable[[int], None]  # plays so many rounds or episodes


class Line(NamedTuple):
    """What is timed: an algorithm in an environment, for so many seeds and rounds or episodes of so many steps."""

    label: str
    name: str
    algorithm: Any
    environment: Any
    seeds: int
    turns: int
    steps: int = 1  # in each of them


def compare_all(options: Comparison) -> int:
    """Print the table; returns the exit code."""
    unknown = sorted(set(options.algorithms) - SECTIONS.keys())
    if unknown:
        print(f"algorithms must be among {', '.join(SECTIONS)}, got {', '.join(unknown)}", file=sys.stderr)
        return 2
    print(machine())
    print(
        f"bandits: d={options.dim}, on nets {NET_DIM}, {options.arms} arms; episodes: S={options.states}, "
        f"A={options.actions}, d={options.features}, on nets {NET_DIM}, H={options.horizon}\n"
        f"{jax.numpy.result_type(float)}, default settings with practical constants, median of {options.repeats} "
        f"interleaved repeats; a step is a round or a step of an episode, of one seed\n"
    )
    print(
        f"{'':26}{'seeds':>7}{'K':>7}{'M steps/s':>11}{'us/step':>10}{'first call s':>14}"
        f"{'twin us/step':>14}{'its K':>7}{'ratio':>9}   (jaxvar over its twin)"
    )
    notes: list[str] = []
    for line in lines(options):
        _print(options, line, notes)
    for note in dict.fromkeys(notes):
        print(note)
    return 0


def lines(options: Comparison) -> list[Line]:
    """The lines of the table; bandits with a program of their own for arms that stay have two."""
    chosen = options.algorithms or tuple(SECTIONS)
    found = []
    for name in (*BANDITS, *DUELS):
        if name in chosen:
            seeds, turns = _share(name, options.seeds, options.rounds)
            algorithm = bandit(options, name, turns)
            is_by_number = SECTIONS[name] == "K-armed bandit"
            for fresh in (False, True) if hasattr(algorithm, "with_fixed_arms") else (not is_by_number,):
                environment = arms_of(options, name, fresh)
                label = f"{name} {'fresh' if fresh else 'fixed'}"
                found.append(Line(label, name, algorithm, environment, seeds, turns))
    for name in EPISODIC:
        if name in chosen:
            seeds, turns = _share(name, options.episode_seeds, options.episodes)
            algorithm, environment = episodic(options, name, turns)
            found.append(Line(name, name, algorithm, environment, seeds, turns, options.horizon))
    return found


def _share(name: str, seeds: int, turns: int) -> tuple[int, int]:
    """Seeds, and rounds or episodes."""
    return max(1, seeds // 16) if name in HEAVY else seeds, max(1, turns // 10) if name in NETS else turns


def _make(name: str, sizes: dict[str, Any]) -> Any:
    """The algorithm with those of the sizes that its factory takes; all others play their defaults."""
    known = {**sizes, "constants": jv.constants.practical(0.1), "ties": "lowest"}
    return FACTORIES[name](**examples.arguments(FACTORIES[name], known))


def bandit(options: Comparison, name: str, num_rounds: int) -> Any:
    """An algorithm for bandits."""
    dim = NET_DIM if name in NETS else options.dim
    return _make(name, {"dim": dim, "num_arms": options.arms, "num_rounds": num_rounds, "threshold": 0.2})


def arms_of(options: Comparison, name: str, fresh: bool) -> Any:
    """Return an environment of the game and the law of rewards that an algorithm is made for."""
    dim = NET_DIM if name in NETS else options.dim
    if name in DUELS:
        return jv.dueling_bandit(dim, options.arms, fresh=fresh)
    if SECTIONS[name] == "logistic bandit":
        return jv.logistic_bandit(dim, options.arms, fresh=fresh)
    noise = jv.noise.two_point(NOISE_STD)
    if SECTIONS[name] == "K-armed bandit":
        return jv.k_armed(np.linspace(0.0, 0.5, options.arms), noise=noise)
    return jv.linear_bandit(dim, options.arms, noise=noise, fresh=fresh)


def episodic(options: Comparison, name: str, num_episodes: int) -> tuple[Any, Any]:
    """An algorithm for episodes, and one random mixture for all seeds."""
    dim = NET_DIM if name in NETS else options.features
    sizes = (options.states, options.actions, dim, options.horizon)
    make = getattr(jv, "linear_mdp" if SECTIONS[name] == "linear MDP" else "mixture_mdp")
    environment = make(*sizes, concentration=0.1, model_seed=0)
    numbers = {
        "dim": dim,
        "horizon": options.horizon,
        "num_episodes": num_episodes,
        "norm_bound": float(environment.norm_bound),
    }
    return _make(name, numbers), environment


def _print(options: Comparison, line: Line, notes: list[str]) -> None:
    length = "num_episodes" if line.name in EPISODIC else "num_rounds"
    setting: dict[str, Any] = {"num_seeds": line.seeds, "record_at": 1, length: line.turns}

    def play() -> Any:
        return jv.simulate(line.algorithm, line.environment, key=jax.random.key(0), **setting)

    start = time.perf_counter()
    out = play()
    first = time.perf_counter() - start
    failed = out.status[out.status != 0]
    if len(failed):
        cause = status.describe(int(np.bitwise_or.reduce(failed)))
        notes.append(f"{line.label}: {len(failed)} of {line.seeds} seeds failed: {cause}")
    twin, why = find_twin(line)
    ours: list[float] = []
    theirs: list[float] = []
    num = 1
    if twin is not None:  # a first, short run settles what it is given; where that is long already, it is enough
        once = _seconds(functools.partial(twin, 1))
        num = int(np.clip(TWIN_SECONDS / once, 1, min(options.twin_turns, line.turns)))
        theirs += [once / line.steps] if once > TWIN_SECONDS else []
    is_slow = bool(theirs)
    for _ in range(options.repeats):
        ours.append(_seconds(play) / (line.seeds * line.turns * line.steps))
        if twin is not None and not is_slow:
            theirs.append(_seconds(functools.partial(twin, num)) / (num * line.steps))
    each = float(np.median(ours))
    speed = f"{line.seeds:7}{line.turns:7}{1e-6 / each:11.3f}{1e6 * each:10.3f}{first:14.1f}"
    if theirs:
        other = float(np.median(theirs))
        beside = f"{1e6 * other:14.1f}{num:7}{other / each:9.1f}"
    else:
        notes.append(why)
        beside = f"{'-':>14}{'-':>7}{'-':>9}"
    print(f"{line.label:26}{speed}{beside}", flush=True)


def _seconds(play: Callable[[], Any]) -> float:
    start = time.perf_counter()
    play()
    return time.perf_counter() - start


def find_twin(line: Line) -> tuple[Twin | None, str]:
    """The twin of a line's algorithm with the same settings, or why there is none."""
    try:
        module = importlib.import_module(f"tests.reference.{line.name}_numpy")
    except ImportError as error:
        return None, f"-: no twin ({error}); run this from the root of the project, where tests/reference is"
    run, stepwise = getattr(module, f"run_{line.name}", None), getattr(module, "Twin", None)
    if run is not None:
        return (_bandit_twin if line.name in BANDITS else _episodic_twin)(line, run, _numbers(line, run)), ""
    if stepwise is None:
        return None, f"-: {module.__name__} has neither run_{line.name} nor Twin"
    settings = examples.taken(stepwise, examples.numbers(FACTORIES[line.name], line.algorithm))
    make = functools.partial(stepwise, **settings)
    play = _episodes_of if line.name in EPISODIC else _duels_of if line.name in DUELS else _rounds_of
    return play(line, make), ""


# Options of a twin that follow from others, and numbers that only its tests need.
_DERIVED = {"alpha", "gamma", "iota", "num_layers", "tie_tolerance"}


def _numbers(line: Line, run: Callable[..., Any]) -> dict[str, Any]:
    """The settings of the algorithm that its twin takes; the K of its theorem is that of jaxvar's run."""
    algorithm = line.algorithm
    parameters = inspect.signature(run).parameters.values()
    names = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} - _DERIVED
    if any(p.kind is p.VAR_KEYWORD for p in parameters):  # passed on to a twin whose settings are the algorithm's own
        own = vars(algorithm).keys() - _DERIVED
        names |= own - {"dim", "horizon", "num_rounds", "num_exponents"}
    numbers: dict[str, Any] = {}
    for name in names:
        if name in ("horizon", "num_rounds", "num_episodes"):
            numbers[name] = float(line.turns)
        elif name == "constants":
            numbers[name] = {n: float(getattr(algorithm.constants, n)) for n in jv.constants.number_names()}
        elif not callable(value := getattr(algorithm, name, len)):  # a method of that name is no setting
            numbers[name] = value if value is None or isinstance(value, str | bool | int) else float(value)
    return numbers


def _bandit_twin(line: Line, run: Callable[..., Any], numbers: dict[str, Any]) -> Twin:
    dim, num_arms = line.environment.dim, line.environment.num_arms
    asked = {p.name for p in inspect.signature(run).parameters.values() if p.kind is p.KEYWORD_ONLY}
    samples = line.name in ("lin_ts", "weighted_lin_ts", "lin_vdts")
    told_last = line.name in ("confidence_ball", "cw_oful", "sup_lin_ucb", "weighted_oful", "weighted_oful_plus")

    def play(num: int) -> None:
        rng = np.random.default_rng(0)
        arms, means, noise, noise_var = _bandit_arrays(line, num, rng)
        given = [arms, means, noise, *([noise_var] if told_last else []), rng.uniform(size=num)]
        if samples:
            given.append(rng.normal(size=(num, dim)))
        proposals = 8 * num_arms  # as many as FGTS-VA makes by default
        arrays: dict[str, Callable[[], Array]] = {
            "noise_var": lambda: noise_var,
            "normals": lambda: rng.normal(size=(num, proposals, dim)),
            "proposed": lambda: rng.uniform(size=(num, proposals)),
            "accepted": lambda: rng.uniform(size=(num, proposals)),
        }
        run(*given, **{name: make() for name, make in arrays.items() if name in asked}, **numbers)

    return play


def _rounds_of(line: Line, make: Callable[[], Any]) -> Twin:
    """A twin that plays round by round."""
    sizes = {"dim": line.environment.dim, "num_arms": line.environment.num_arms}

    def play(num: int) -> None:
        rng = np.random.default_rng(0)
        arms, means, noise, noise_var = _bandit_arrays(line, num, rng)
        twin = make()
        draws = {
            name: getattr(rng, law)(size=(num, *(sizes.get(n, n) for n in shape)))
            for name, (law, _, shape) in {"u": ("uniform", 0, ()), **getattr(twin, "draws", {})}.items()
        }
        for k in range(num):
            numbers = {name: values[k] for name, values in draws.items()}
            if "numbers" in inspect.signature(twin.select).parameters:  # of arms that are known by these
                numbers["numbers"] = np.arange(sizes["num_arms"])
            action = twin.select(arms[k], noise_var=noise_var[k], **numbers)
            twin.update(arms[k, action], means[k, action] + noise[k, action], noise_var[k, action])

    return play


def _duels_of(line: Line, make: Callable[[], Any]) -> Twin:
    """A twin that plays duel by duel."""

    def play(num: int) -> None:
        rng = np.random.default_rng(0)
        arms, means, _, _ = _bandit_arrays(line, num, rng)
        twin = make()
        for k in range(num):
            first, second = twin.pair(arms[k], rng.uniform())
            won = rng.uniform() < _logistic(means[k, first] - means[k, second])
            twin.update(arms[k, first] - arms[k, second], float(won))

    return play


def _bandit_arrays(line: Line, num: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Arms, means, noise and its variances for so many rounds."""
    dim, num_arms = line.environment.dim, line.environment.num_arms
    theta = _unit(rng.normal(size=dim))
    shape = (num, num_arms) if not line.environment.fixed_arms else (1, num_arms)
    arms = np.broadcast_to(_unit(rng.normal(size=(*shape, dim))), (num, num_arms, dim))
    if SECTIONS.get(line.name) == "logistic bandit":
        means = _logistic(arms @ theta)
        return arms, means, (rng.uniform(size=means.shape) < means) - means, means * (1 - means)
    noise = NOISE_STD * rng.choice([-1.0, 1.0], (num, num_arms))
    return arms, arms @ theta, noise, np.full((num, num_arms), NOISE_STD**2)


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _unit(x: Array) -> Array:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _episodic_twin(line: Line, run: Callable[..., Any], numbers: dict[str, Any]) -> Twin:
    instance = jax.tree.map(np.asarray, jax.jit(line.environment.init)(jax.random.key(0)))
    num_states, horizon = instance.phi.shape[0], line.environment.horizon

    def play(num: int) -> None:
        rng = np.random.default_rng(0)
        model = (instance.phi, instance.reward, instance.theta_star, np.zeros(num, int))
        run(*model, rng.uniform(size=(num, horizon)), rng.uniform(size=(num, horizon, num_states)), **numbers)

    return play


def _episodes_of(line: Line, make: Callable[[], Any]) -> Twin:
    """A twin that plays episode by episode."""
    instance = jax.tree.map(np.asarray, jax.jit(line.environment.init)(jax.random.key(0)))
    (num_states, _), horizon = instance.reward.shape, line.environment.horizon

    def play(num: int) -> None:
        rng = np.random.default_rng(0)
        twin = make()
        asks = "features" in inspect.signature(twin.plan).parameters
        told = {"features": instance.features} if asks else {}
        for _ in range(num):
            u, state = rng.uniform(size=(horizon, num_states)), 0
            policy = twin.plan(instance.phi, instance.reward, horizon, u, **told)
            for h in range(horizon):
                action = policy[h, state]
                after = rng.choice(num_states, p=instance.transition[state, action])
                twin.update(h, state, action, after, instance.reward[state, action])
                state = after

    return play
