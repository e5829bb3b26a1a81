"""How time grows with the size of a problem: ``python -m experiments speed growth --folder out``.

One quantity at a time is varied around a base point: rounds, stored layers, dimension, arms, seeds; time per
seed-round is the median of repeats in which all sizes and algorithms take turns, in wall time and in processor time.
Compilation, tracing included, is timed apart as rounds, seeds and the size of a sweep grow. For UCRL-AVE a round is a
step of an episode, arms are actions, and the dimension is that of the mixture.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxvar as jv
from experiments.speed.kernels import traced

LAYERED = ("save", "ave_ucb", "ucrl_ave")
ALGORITHMS = (*LAYERED, "oful")
HORIZON, STATES = 10, 6
# Okabe and Ito: safe for the colour-blind
COLOURS = {"save": "#0072B2", "ave_ucb": "#009E73", "oful": "#D55E00", "ucrl_ave": "#CC79A7"}
LABELS = {"save": "SAVE", "ave_ucb": "AVE-UCB", "oful": "OFUL", "ucrl_ave": "UCRL-AVE"}
AXES = {
    "rounds": "rounds K",
    "layers": "stored layers",
    "dim": "dimension d",
    "arms": "arms (actions of UCRL-AVE)",
    "seeds": "seeds",
    "compile_rounds": "rounds K",
    "compile_seeds": "seeds",
    "compile_sweep": "settings of a sweep",
}


@dataclasses.dataclass(frozen=True)
class Growth:
    """Measure how time grows with rounds, layers, dimension, arms, seeds and the size of a sweep."""

    folder: str
    """Where the numbers and the figures go."""
    algorithms: tuple[str, ...] = ("save", "ave_ucb", "oful", "ucrl_ave")
    """Which of save, ave_ucb, oful and ucrl_ave."""
    rounds: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6, 10**7)
    """Rounds (steps, in episodes) to compare."""
    layers: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Stored layers."""
    dims: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    """Dimensions."""
    arms: tuple[int, ...] = (2, 5, 20, 100, 500)
    """Arms, or actions."""
    seeds: tuple[int, ...] = (1, 4, 16, 64, 256, 1024, 4096)
    """Seeds."""
    sweeps: tuple[int, ...] = (1, 4, 16, 64, 256)
    """Settings of a sweep; compilation only."""
    base_rounds: int = 2000
    """Rounds where they are not varied."""
    base_seeds: int = 256
    """Seeds where they are not varied; fewer where rounds are many."""
    most_seed_rounds: int = 20_000_000
    """A play of many rounds has as many seeds as make this product, but at least one per device."""
    repeats: int = 3
    """Interleaved repeats; the median counts."""
    scale: float = 1.0
    """Multiplies every size above except the layers: 0.01 is a trial of seconds."""


@dataclasses.dataclass(frozen=True)
class Point:
    """One size of one quantity for one algorithm."""

    quantity: str
    algorithm: str
    value: int
    rounds: int
    seeds: int
    dim: int
    arms: int
    layers: int | None = None  # stored; chosen by the algorithm if not given
    sweep: int = 1


@dataclasses.dataclass(frozen=True)
class Measured:
    """A point with its times: per seed-round, or of the whole compilation, in seconds."""

    point: Point
    wall: tuple[float, ...]  # one per repeat
    cpu: tuple[float, ...]

    def row(self) -> dict[str, Any]:
        """As one flat dictionary, with medians."""
        medians = {"wall_median": float(np.median(self.wall)), "cpu_median": float(np.median(self.cpu))}
        return {**dataclasses.asdict(self.point), **medians, "wall": list(self.wall), "cpu": list(self.cpu)}


def growth(options: Growth) -> Path:
    """Measure everything; writes ``growth.json`` and one figure per quantity, returns the path of the numbers."""
    unknown = sorted(set(options.algorithms) - set(ALGORITHMS))
    if unknown:
        raise ValueError(f"algorithms must be among {', '.join(ALGORITHMS)}, got {', '.join(unknown)}")
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for points in speed_points(options):
        rows += [m.row() for m in measure(points, options.repeats, _player)]
        jax.clear_caches()
    for points in compile_points(options):
        rows += [m.row() for m in measure(points, options.repeats, _compiler)]
    content = {"machine": _machine(), "options": dataclasses.asdict(options), "rows": rows}
    path = folder / "growth.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    figures(content, folder)
    return path


def speed_points(options: Growth) -> list[list[Point]]:
    """One list per quantity."""
    ours = options.algorithms
    lists = {
        "rounds": [_point(options, "rounds", a, v, rounds=v) for v in _sizes(options, options.rounds) for a in ours],
        "layers": [_point(options, "layers", a, v, layers=v) for v in options.layers for a in ours if a in LAYERED],
        "dim": [_point(options, "dim", a, v, dim=v) for v in _sizes(options, options.dims, 2) for a in ours],
        "arms": [_point(options, "arms", a, v, arms=v) for v in _sizes(options, options.arms, 2) for a in ours],
        "seeds": [_point(options, "seeds", a, v, seeds=v) for v in _sizes(options, options.seeds) for a in ours],
    }
    return [points for points in lists.values() if points]


def compile_points(options: Growth) -> list[list[Point]]:
    """One list per quantity that compilation may depend on."""
    sizes = {"rounds": options.rounds, "seeds": options.seeds, "sweep": options.sweeps}
    return [
        [
            _point(options, f"compile_{name}", a, v, **{name: v})
            for v in _sizes(options, values)
            for a in options.algorithms
        ]
        for name, values in sizes.items()
    ]


def measure(points: list[Point], repeats: int, prepare: Callable[[Point], Callable[[], int]]) -> list[Measured]:
    """Time all points in turn, ``repeats`` times; ``prepare(point)()`` does it once and says how many rounds it was."""
    runs = [prepare(p) for p in points]
    wall, cpu = np.zeros((2, len(points), repeats))
    for repeat in range(repeats):
        for i, run in enumerate(runs):
            start, busy = time.perf_counter(), time.process_time()
            num = run()
            wall[i, repeat] = (time.perf_counter() - start) / num
            cpu[i, repeat] = (time.process_time() - busy) / num
    return [Measured(p, tuple(w.tolist()), tuple(c.tolist())) for p, w, c in zip(points, wall, cpu, strict=True)]


def _player(point: Point) -> Callable[[], int]:
    """Play the point, compiled already."""
    algorithm, environment, setting = _game(point)
    turns = setting.get("num_rounds") or HORIZON * setting["num_episodes"]

    def play() -> int:
        jv.simulate(algorithm, environment, **setting).raise_if_failed()
        return int(turns * point.seeds)

    play()
    return play


def _compiler(point: Point) -> Callable[[], int]:
    """Trace and compile the program of the point, which is not played."""
    algorithm, environment, setting = _game(point)
    turns = setting.get("num_rounds") or setting["num_episodes"]

    def compile_anew() -> int:
        jax.clear_caches()
        traced(algorithm, environment, point.seeds, turns, jax.devices()[0]).lower().compile()
        return 1

    return compile_anew


def _point(options: Growth, quantity: str, algorithm: str, value: int, **sizes: int) -> Point:
    rounds = sizes.get("rounds", _scaled(options, options.base_rounds))
    most = max(options.most_seed_rounds * options.scale // rounds, jax.device_count(), 1)
    episodic = algorithm == "ucrl_ave"
    base = {
        "rounds": rounds,
        "seeds": int(min(_scaled(options, options.base_seeds), most)),
        "dim": 4 if episodic else 10,
        "arms": 4 if episodic else 20,
    }
    return Point(quantity=quantity, algorithm=algorithm, value=value, **{**base, **sizes})


def _game(point: Point) -> tuple[Any, Any, dict[str, Any]]:
    """Algorithm, environment, and the arguments of the simulation."""
    common: dict[str, Any] = {"ties": "lowest"}
    setting: dict[str, Any] = {"key": jax.random.key(0), "num_seeds": point.seeds, "record_at": 1}
    algorithm: Any
    environment: Any
    if point.algorithm == "ucrl_ave":
        episodes = max(point.rounds // HORIZON, 1)
        environment = jv.mixture_mdp(STATES, point.arms, point.dim, HORIZON, concentration=0.1, model_seed=0)
        common |= {"norm_bound": environment.norm_bound, "constants": jv.constants.practical(0.1)}
        algorithm = jv.ucrl_ave(point.dim, HORIZON, episodes, **{"capacity": point.layers, **common})
        setting["num_episodes"] = episodes
    else:
        environment = jv.linear_bandit(point.dim, point.arms, noise=jv.noise.two_point(0.5))
        setting["num_rounds"] = point.rounds
        if point.algorithm == "oful":
            algorithm = jv.oful(point.dim, **common)
        else:
            factory: Any = getattr(jv, point.algorithm)
            constants = jv.constants.practical(0.1)
            algorithm = factory(point.dim, point.rounds, constants=constants, capacity=point.layers, **common)
    if point.sweep > 1:
        algorithm = jv.sweep(algorithm, delta=np.linspace(0.01, 0.1, point.sweep))
    return algorithm, environment, setting


def _sizes(options: Growth, values: tuple[int, ...], least: int = 1) -> list[int]:
    return sorted({max(_scaled(options, v), least) for v in values})


def _scaled(options: Growth, value: int) -> int:
    return max(round(value * options.scale), 1)


def _machine() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "jaxvar": jv.__version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "processor": platform.processor() or platform.machine(),
        "cores": cores,
        "devices": [str(d) for d in jax.devices()],
        "float": str(jax.numpy.result_type(float)),
    }


def figures(content: dict[str, Any], folder: Path) -> list[Path]:
    """Draw every quantity in ``content`` (as in ``growth.json``) into ``folder``; returns the paths of the PNGs."""
    quantities = dict.fromkeys(row["quantity"] for row in content["rows"])
    return [_figure(content, name, folder / f"{name}.png") for name in quantities]


def _figure(content: dict[str, Any], quantity: str, path: Path) -> Path:
    from matplotlib.figure import Figure  # no screen needed

    fig = Figure(figsize=(5.5, 3.8), layout="constrained")
    axis = fig.add_subplot()
    rows = [row for row in content["rows"] if row["quantity"] == quantity]
    compiles = quantity.startswith("compile_")
    unit = 1.0 if compiles else 1e6
    for name in dict.fromkeys(row["algorithm"] for row in rows):
        mine = [row for row in rows if row["algorithm"] == name]
        values = [row["value"] for row in mine]
        wall = unit * np.array([row["wall"] for row in mine])
        cpu = unit * np.array([row["cpu_median"] for row in mine])
        axis.plot(values, np.median(wall, axis=1), "o-", color=COLOURS[name], label=LABELS[name], markersize=3)
        axis.fill_between(values, wall.min(1), wall.max(1), color=COLOURS[name], alpha=0.2, linewidth=0)
        axis.plot(values, cpu, ":", color=COLOURS[name])
    what = "seconds to trace and compile" if compiles else "µs per seed-round (step of UCRL-AVE)"
    axis.set(xscale="log", yscale="log", xlabel=AXES[quantity], ylabel=what)
    axis.grid(True, which="major", alpha=0.3)
    machine, repeats = content["machine"], content["options"]["repeats"]
    axis.set_title(
        f"Solid: wall time, median and range of {repeats} interleaved repeats; dotted: processor time.\n"
        f"jax {machine['jax']}, {machine['float']}, {machine['cores']} cores",
        fontsize=7,
    )
    handles, labels = axis.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=8)
    fig.savefig(path, dpi=200)
    return path
