"""The studies of the atlas, by size: on which problems, for how long; and a study as a TOML file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

import jaxvar as jv
from experiments.atlas.players import BANDITS, EPISODES, MODES, OPTIMISTIC, Entry, Player, entries
from jaxvar.study.definition import Study
from jaxvar.study.factories import public_factories

GRID = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001, 0.0)
HELD_OUT = 1_000_000  # the first seed of the studies that tune
LONG_RATIOS = (1, 10, 100, 1000)
RATIOS = (1, 3, 10, 30, 100, 300, 1000)  # R / sigma; everyone is told R = 1, but for tasks made of data
MIXES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
NUM_ARMS = 20
KINDS: dict[str, tuple[str, dict[str, object]]] = {
    "sphere": ("sphere", {"arms": "sphere"}),
    "cube": ("corners of the cube", {"arms": "hypercube"}),
    "fresh": ("fresh arms", {"fresh": True}),
}
SHAPES = {"constant": "constant noise", "two_level": "two levels", "bursts": "bursts", "by_arm": "noise by arm"}


class Task(NamedTuple):
    """What algorithms are told of a task made of data."""

    title: str
    theta_bound: float  # B, of the best linear fit
    noise_bound: float  # R


TASKS = {
    "diabetes": Task("diabetes", 3.25, 0.291),
    "wine": Task("wine", 5.57, 1.0),
    "breast_cancer": Task("breast cancer", 10.55, 1.0),
}


@dataclasses.dataclass(frozen=True)
class Size:
    """The size of an atlas: rounds and seeds of a cell, and the problems."""

    rounds: int
    episodes: int
    seeds: int
    tuning_rounds: int  # 0: multipliers are those that were published
    problems: tuple[tuple[str, str, tuple[int, ...]], ...]  # kind of arms, shape of noise, dimensions
    mixtures: tuple[tuple[int, int], ...] = ()  # dimension and horizon of the episodes
    tasks: tuple[str, ...] = ()
    long: int = 0  # rounds of a longer map of the sphere with constant noise, d = 5
    ratios: tuple[int, ...] = RATIOS
    modes: tuple[str, ...] = tuple(MODES)
    question: str = "Do algorithms that adapt to the variance of the noise help in practice, and from which size on?"


def _all(*dims: int) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    return tuple((kind, shape, dims) for shape in SHAPES for kind in KINDS)


_FEW = (("sphere", "constant", (2, 5)), ("sphere", "two_level", (5,)), ("fresh", "constant", (5,)))
_SPHERE = (("sphere", "constant", (2, 5, 10)),)
_ALL = _all(2, 5, 10)
_ONE_BY_ONE = tuple(one for one in _ALL if "sphere" in one or "constant" in one)  # arms and noise, not their products
_MIXTURES = ((2, 5), (2, 20), (4, 5), (4, 20))
_DATA = tuple(TASKS)
SIZES = {
    "piece": Size(
        *(3_000, 0, 200, 0, (("sphere", "constant", (5,)),)),
        ratios=(1, 10, 100, 1000),
        modes=("provable", "tuned"),
        question="Who has the least regret when the bound R that all are told is 1 to 1000 times the noise: algorithms "
        "that adapt to its variance, or those that do not?",
    ),
    "quick": Size(3_000, 1_000, 200, 2_000, _FEW, ((2, 5), (2, 20)), _DATA),
    "hour": Size(10_000, 3_000, 200, 10_000, _ONE_BY_ONE, _MIXTURES, _DATA, long=100_000),
    "night": Size(100_000, 30_000, 200, 30_000, _ALL, _MIXTURES, _DATA, long=1_000_000),
    "gpu": Size(10_000_000, 100_000, 1_000, 100_000, _SPHERE, _MIXTURES),
}


def _noise(shape: str, ratio: float, dim: int) -> object:
    """Return the standard deviation or the schedule of a shape whose mean square is 1 / ratio^2."""
    if shape == "constant":
        return 1.0 / ratio
    levels = {"name": shape, "low": 1.0 / (3 * ratio), "high": 3.0 / ratio}  # 0.1 * 3^2 + 0.9 / 3^2 = 1
    own: dict[str, dict[str, object]] = {
        "two_level": {"prob_high": 0.1},
        "bursts": {"period": 100, "length": 10},
        "by_arm": {"direction": [1.0, *[0.0] * (dim - 1)]},
    }
    return {**levels, **own[shape]}


def ratio_of(setting: Mapping[str, object], task: str = "") -> float:
    """Return R / sigma of a setting of the noise, with three digits."""
    if "noise_scale" in setting:
        return float(f"{TASKS[task].noise_bound / (table_noise(task) * float(str(setting['noise_scale']))):.3g}")
    std = setting["noise.std"]
    return float(f"{3 / std['high'] if isinstance(std, Mapping) else 1 / float(str(std)):.3g}")


def table_noise(task: str) -> float:
    """Return sigma of a task as it is stored: the root of the mean variance over its table."""
    table = jv.data_bandit(task)
    means = np.asarray(table.means, float)
    variances = means * (1 - means) if table.variances is None else np.asarray(table.variances, float)
    return float(np.sqrt(variances.mean()))


def _bandit(kind: str, shape: str, dim: int, values: Sequence[int]) -> dict[str, object]:
    levels = [_noise(shape, ratio, dim) for ratio in values]
    noise = {"name": "two_point", "std": levels[0]}
    own = {"name": "linear_bandit", "label": f"d = {dim}", "dim": dim, "num_arms": NUM_ARMS, **KINDS[kind][1]}
    return {**own, "noise": noise, "sweep": {"noise.std": levels}}


def _task(task: str) -> dict[str, object]:
    """Return a task at R / sigma = 3, or the least that it has, and then at 10, 30, ... up to 1000."""
    least = TASKS[task].noise_bound / table_noise(task)
    values = [max(3.0, least), *(ratio for ratio in RATIOS if ratio > max(3.0, least))]
    scales = [float(f"{least / ratio:.6g}") for ratio in values]
    own = {"name": "data_bandit", "label": f"d = {jv.data_bandit(task).dim}", "task": task}
    return {**own, "noise_scale": scales[0], "sweep": {"noise_scale": scales}}


def left_out() -> list[str]:
    """Return the bandit algorithms that tasks made of data leave out: they cannot be told a bound of theta* above 1."""
    known = public_factories()
    return [name for name, player in BANDITS.items() if "theta_bound" not in known[player.factory].parameters]


def _mixture(dim: int, horizon: int, mixes: Sequence[float]) -> dict[str, object]:
    own = {"name": "graded_mdp", "label": f"d = {dim}, H = {horizon}", "dim": dim, "horizon": horizon}
    return {**own, "num_states": 4, "num_actions": 3, "mix": mixes[0], "sweep": {"mix": list(mixes)}}


def record_times(last: int) -> list[int]:
    """Return 100, 300, 1000, ... up to the last round: the rows of a map."""
    found = [front * 10**power for power in range(2, 8) for front in (1, 3)]
    return [k for k in found if k < last] + [last]


def tuning_studies(size: Size) -> dict[str, Study]:
    """Return the studies that choose multipliers: every multiplier of the grid, on seeds that no map uses."""
    if not size.tuning_rounds:
        return {}
    dims = sorted({dim for _, _, some in size.problems for dim in some})
    players = {
        "tune": (BANDITS, "rounds", size.tuning_rounds, [_bandit("sphere", "constant", max(dims), (1, 100))]),
        "tune_episodes": (EPISODES, "episodes", size.episodes, [_mixture(2, 20, (0.0, 0.3))]),
    }
    return {
        name: Study.from_config(
            {
                "name": f"atlas, {name.replace('_', ' ')}",
                "question": "Which multiplier of the radius leaves the least regret?",
                "seeds": size.seeds,
                "first_seed": HELD_OUT,
                unit: length,
                "records": [length],
                "record": ["regret"],
                "algorithm": [_swept(label, player) for label, player in some.items()],
                "environment": problems,
            }
        )
        for name, (some, unit, length, problems) in players.items()
    }


def _swept(name: str, player: Player) -> dict[str, object]:
    own: dict[str, object] = {"name": player.factory, "label": name, **player.options}
    path = "constants.beta_scale" if player.layered else player.multiplier
    if player.layered:
        own |= {**OPTIMISTIC.get(player.factory, {}), "constants": "practical"}
    grid = [x for x in GRID if x > 0 or player.multiplier == "beta_scale"]
    return {**own, "sweep": {path: grid}}


def map_names(size: Size) -> list[str]:
    """Return the names of the studies that the maps are read from."""
    return [
        *(f"{kind}_{shape}" for kind, shape, _ in size.problems),
        *(["sphere_constant_long"] if size.long else []),
        *(f"data_{task}" for task in size.tasks),
        *(["episodes"] if size.mixtures else []),
    ]


def shown(players: Mapping[str, Player], tuned: Mapping[str, float], size: Size) -> list[Entry]:
    """Return the entries that are shown with some of the constants of a size."""
    found = [
        dataclasses.replace(entry, modes=tuple(mode for mode in entry.modes if mode in size.modes))
        for entry in entries(players, tuned)
    ]
    return [entry for entry in found if entry.modes]


def map_studies(size: Size, tuned: Mapping[str, float], names: Sequence[str] = ()) -> dict[str, Study]:
    """Return the studies that the maps are read from, or those of some names: one for each kind of arms and noise."""
    bandits, rounds = shown(BANDITS, tuned, size), ("rounds", size.rounds, size.seeds)
    dims = {f"{kind}_{shape}": some for kind, shape, some in size.problems}
    found = {}
    for name in (name for name in map_names(size) if not names or name in names):
        kind, _, shape = name.partition("_")
        if name == "episodes":
            problems = [_mixture(dim, horizon, MIXES) for dim, horizon in size.mixtures]
            length = ("episodes", size.episodes, size.seeds)
            found[name] = _study("episodes of graded MDPs", length, shown(EPISODES, tuned, size), problems)
        elif kind == "data":
            told = {"noise_bound": TASKS[shape].noise_bound, "theta_bound": TASKS[shape].theta_bound}
            some = [
                dataclasses.replace(entry, options={**entry.options, **told})
                for entry in bandits
                if entry.name not in left_out()
            ]
            found[name] = _study(f"data, {TASKS[shape].title}", rounds, some, [_task(shape)])
        elif name == "sphere_constant_long":
            problems = [_bandit("sphere", "constant", 5, LONG_RATIOS)]
            found[name] = _study("sphere, constant noise, long", ("rounds", size.long, size.seeds), bandits, problems)
        else:
            # A level three times sigma must not exceed R.
            values = [ratio for ratio in size.ratios if shape == "constant" or ratio >= 3]
            problems = [_bandit(kind, shape, dim, values) for dim in dims[name]]
            found[name] = _study(f"{KINDS[kind][0]}, {SHAPES[shape]}", rounds, bandits, problems)
    return found


def _study(name: str, length: tuple[str, int, int], some: list[Entry], problems: list[dict[str, object]]) -> Study:
    unit, last, seeds = length
    record = ["regret"] if unit == "rounds" else ["regret", "variance"]
    algorithms = []
    linear = problems[0].get("task", "diabetes") == "diabetes"  # the event is about a theta* that the others lack
    for entry in some:
        one = {"name": entry.player.factory, "label": entry.label, **entry.options}
        algorithms.append({**one, "record": ["regret", "confidence"]} if entry.player.event and linear else one)
    return Study.from_config(
        {
            "name": f"atlas, {name}",
            "question": "Who has the least regret, and from which size on?",
            "seeds": seeds,
            unit: last,
            "records": record_times(last),
            "record": record,
            "algorithm": algorithms,
            "environment": problems,
        }
    )


def as_toml(study: Study) -> str:
    """Return a study as the text of a TOML file."""
    lines, tables = list[str](), list[str]()
    for key, value in study.to_config().items():
        if key not in ("algorithm", "environment"):
            lines.append(f"{key} = {_toml(value)}")
            continue
        assert isinstance(value, list)
        for entry in value:
            tables += ["", f"[[{key}]]", *(f"{_toml_key(k)} = {_toml(v)}" for k, v in entry.items())]
    return "\n".join([*lines, *tables]) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _toml_key(key: str) -> str:
    return key if key.replace("_", "").isalnum() else json.dumps(key)
