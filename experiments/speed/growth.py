"""How time grows with the size of a problem, beside Numba: ``python -m experiments speed growth --folder out``.

One size at a time is varied around the base point of ``python -m experiments speed``. At each point jaxvar and the
Numba program of the same algorithm play in turn, and the medians of their times per seed-round count; for UCRL-AVE a
round is a step of an episode. The first call of each, which compiles, is timed apart. The Numba programs compile once
per dimension (those of episodes once per size), jaxvar once per point. Seeds and rounds are fewer where a round is
expensive. All numbers go to ``growth.json``; points that the folder has already stay, unless they are measured again.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict

import jax
import numpy as np

from experiments.speed.comparison import ALGORITHMS, BANDITS, REST, Comparison, Task, machine, task_of
from jaxvar.figures.look import ink, looks, style
from jaxvar.figures.style import Drawing, finish, panels, save
from jaxvar.files import write_whole

LABELS = {"oful": "OFUL", "save": "SAVE", "ave_ucb": "AVE-UCB", "ucrl_ave": "UCRL-AVE"}
LANES = 128  # seeds that fill the vector lanes of the episodic Numba program on two cores
FLOPS_PER_SECOND = 25e9  # of jaxvar on two cores, about; used to choose sizes


class Axis(NamedTuple):
    """A size that is varied."""

    label: str
    values: tuple[int, ...]  # for bandits
    episodic: tuple[int, ...]  # for UCRL-AVE; empty where it has no such size
    fresh: bool = False  # whether fresh arms are measured too


AXES = {
    "dim": Axis("dimension d", (4, 8, 16, 32, 64, 128), (2, 4, 8, 16, 32), fresh=True),
    "arms": Axis("arms", (10, 100, 1000, 10_000), (), fresh=True),
    "layers": Axis("layers stored by jaxvar", (4, 6, 8, 12, 16), (5, 8, 12, 16)),
    "seeds": Axis("seeds", (1, 16, 256, 4096, 65_536), (128, 1024, 8192, 65_536)),
    "states": Axis("states S", (), (4, 10, 20, 50, 100)),
    "actions": Axis("actions A", (), (2, 4, 8, 16, 32)),
    "horizon": Axis("steps per episode H", (), (5, 10, 20, 50, 100)),
}


@dataclasses.dataclass(frozen=True)
class Growth:
    """Measure how time per seed-round grows with each size of a problem, beside the Numba programs."""

    folder: str
    """Folder of growth.json and of the figure."""
    axis: tuple[str, ...] = ()
    """Sizes to vary, among dim, arms, layers, seeds, states, actions and horizon; all if none is named."""
    algorithms: tuple[str, ...] = ()
    """Algorithms, among oful, save, ave_ucb and ucrl_ave; all if none is named."""
    values: tuple[int, ...] = ()
    """Values of the sizes; those listed in experiments/speed/growth.py if none is named."""
    seconds: float = 1.0
    """Rough time of one play of jaxvar on two quiet cores, which sets seeds and rounds; 0.05 makes a trial."""
    repeats: int = 3
    """Interleaved repeats; the median counts."""


class Row(TypedDict):
    """A point and its times, as in growth.json."""

    axis: str
    algorithm: str
    fresh: bool  # arms; False for UCRL-AVE
    value: int
    sizes: dict[str, int | None]  # those of the comparison that count here
    repeats: int
    jaxvar: list[float]  # seconds per seed-round, one for each repeat
    numba: list[float]
    jaxvar_cpu: list[float]  # the same in processor time
    numba_cpu: list[float]
    first_call: list[float]  # seconds of the first call of jaxvar and of Numba
    regret: list[float]  # mean regret of jaxvar and of Numba, with other random numbers
    ratio: float  # jaxvar's speed over Numba's


class Content(TypedDict):
    """The file growth.json."""

    machine: str
    rows: list[Row]


class Point(NamedTuple):
    """One value of one size for one algorithm."""

    axis: str
    algorithm: str
    fresh: bool
    value: int
    options: Comparison


def growth(options: Growth) -> Path:
    """Measure all points, print a line for each, write the numbers and the figure, and return the numbers' path."""
    chosen = list(points(options))
    if importlib.util.find_spec("numba") is None:
        raise ValueError("growth is measured beside Numba, which is not installed: pip install numba")
    path = Path(options.folder) / "growth.json"
    content = read(path) if path.exists() else Content(machine=machine(), rows=[])
    if content["machine"] != machine():
        raise ValueError(
            f"{path} was measured with {content['machine']}; this is {machine()}. "
            "Name another --folder, or delete the file"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    print(f"{machine()}\nmedian of {options.repeats} interleaved repeats; a ratio above 1: jaxvar is faster\n")
    print(f"{'':10}{'':16}{'value':>8}{'turns':>8}{'seeds':>8}{'us/round':>11}{'Numba':>11}{'ratio':>8}", end="")
    print(f"{'by CPU':>8}{'first call s':>14}{'Numba':>8}{'regret':>10}{'Numba':>10}", flush=True)
    for point in chosen:
        row = measure(point, options.repeats)
        kept = [r for r in content["rows"] if _place(r) != _place(row)]
        content["rows"] = sorted([*kept, row], key=_place)
        text = json.dumps(content, indent=1)
        write_whole(path, lambda buffer, text=text: buffer.write(f"{text}\n".encode()))
        print(_line(row), flush=True)
        jax.clear_caches()
    save(figure(content), path.with_name("ratios"))
    return path


def read(path: Path) -> Content:
    """Read growth.json."""
    content = json.loads(path.read_text())
    if "options" in content:
        raise ValueError(f"{path} is of an older version, which did not compare with Numba: delete it")
    return Content(machine=content["machine"], rows=content["rows"])


def points(options: Growth) -> Iterator[Point]:
    """Yield the points to measure."""
    for name, given, known in (("axis", options.axis, AXES), ("algorithms", options.algorithms, ALGORITHMS)):
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ValueError(f"{name} must be among {', '.join(known)}, got {', '.join(unknown)}")
    for axis in options.axis or AXES:
        for algorithm in options.algorithms or ALGORITHMS:
            values = AXES[axis].values if algorithm in BANDITS else AXES[axis].episodic
            if not values or (axis == "layers" and algorithm == "oful"):
                continue
            for fresh in (False, True) if AXES[axis].fresh and algorithm in BANDITS else (False,):
                for value in options.values or values:
                    sizes = sized(axis, algorithm, fresh, value, options.seconds)
                    yield Point(axis, algorithm, fresh, value, sizes)


def sized(axis: str, algorithm: str, fresh: bool, value: int, seconds: float) -> Comparison:
    """Return the sizes of a point: as many seeds and rounds as jaxvar plays in about ``seconds``."""
    if algorithm in BANDITS:
        base = Comparison(**{axis: value})
        layers = 1 if algorithm == "oful" or (algorithm == "save" and not fresh) else base.layers or 4
        each_arm = base.dim * (40 + layers * base.dim) if fresh else 4 * base.dim + 10 * layers
        flops, unit, steps = 3 * layers * base.dim**2 + base.arms * each_arm, 16, 1
    else:
        base = Comparison(**{"features" if axis == "dim" else axis: value})
        each_layer = base.features * (base.features + 2)
        flops = base.states * base.actions * (2 * base.states * base.features + (base.layers or 5) * each_layer)
        unit, steps = LANES, base.horizon
    total = seconds * FLOPS_PER_SECOND / flops / steps  # rounds or episodes of all seeds
    if axis == "seeds":
        seeds, turns = value, min(max(int(total / value), 16 if steps > 1 else 256), 200_000)
    else:
        turns = min(max(int(total / 512), 256 // steps), 2000)
        seeds = min(max(int(total / turns) // unit, 1) * unit, 4096)
        turns = min(turns, max(int(total / seeds), 16))
    lengths = {"rounds": turns, "seeds": seeds} if steps == 1 else {"episodes": turns, "episode_seeds": seeds}
    return dataclasses.replace(base, **lengths)


def measure(point: Point, repeats: int) -> Row:
    """Play the point by both programs in turn, and return its row."""
    task: Task = task_of(point.options, point.algorithm, point.fresh)
    both = task.contenders[:2]
    first, regret = [], []
    for contender in both:
        start = time.perf_counter()
        regret.append(contender.timed()[1])
        first.append(time.perf_counter() - start)
    wall, cpu = np.zeros((2, 2, repeats))
    for repeat in range(repeats):
        for i, contender in enumerate(both):
            time.sleep(REST)
            start, busy = time.perf_counter(), time.process_time()
            wall[i, repeat] = contender.timed()[0]
            cpu[i, repeat] = (time.process_time() - busy) * wall[i, repeat] / (time.perf_counter() - start)
    names = ("dim", "arms", "rounds", "seeds")
    if point.algorithm not in BANDITS:
        names = ("states", "actions", "features", "horizon", "episodes", "episode_seeds")
    return Row(
        axis=point.axis,
        algorithm=point.algorithm,
        fresh=point.fresh,
        value=point.value,
        sizes={name: getattr(point.options, name) for name in (*names, "layers")},
        repeats=repeats,
        jaxvar=wall[0].tolist(),
        numba=wall[1].tolist(),
        jaxvar_cpu=cpu[0].tolist(),
        numba_cpu=cpu[1].tolist(),
        first_call=first,
        regret=regret,
        ratio=float(np.median(wall[1]) / np.median(wall[0])),
    )


def _place(row: Row) -> tuple[int, int, bool, int]:
    """Return what makes a row the same point as another, in the order of the file."""
    return list(AXES).index(row["axis"]), ALGORITHMS.index(row["algorithm"]), row["fresh"], row["value"]


def _name(row: Row) -> str:
    """Return the name of the curve that the row is a point of."""
    kind = "" if row["algorithm"] not in BANDITS else ", fresh arms" if row["fresh"] else ", fixed arms"
    return LABELS[row["algorithm"]] + kind


def _line(row: Row) -> str:
    """Return the row as a line of the printed table."""
    sizes = row["sizes"]
    turns, seeds = (sizes.get(a, sizes.get(b)) for a, b in (("rounds", "episodes"), ("seeds", "episode_seeds")))
    ours, theirs, our_cpu, their_cpu = (
        1e6 * float(np.median(v)) for v in (row["jaxvar"], row["numba"], row["jaxvar_cpu"], row["numba_cpu"])
    )
    kind = "" if row["algorithm"] not in BANDITS else " fresh" if row["fresh"] else " fixed"
    (first, other), (regret, other_regret) = row["first_call"], row["regret"]
    return (
        f"{row['axis']:10}{row['algorithm'] + kind:16}{row['value']:8}{turns:8}{seeds:8}{ours:11.3f}{theirs:11.3f}"
        f"{row['ratio']:8.2f}{their_cpu / our_cpu:8.2f}{first:14.1f}{other:8.1f}{regret:10.2f}{other_regret:10.2f}"
    )


def _curves(rows: list[Row]) -> Mapping[str, list[Row]]:
    """Return the rows of each curve, by its name."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(_name(row), []).append(row)
    return found


def figure(content: Content) -> Drawing:
    """Draw the ratios against each size, a panel for each."""
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    rows = content["rows"]
    look = looks(list(_curves(rows)))
    shown = [axis for axis in AXES if any(row["axis"] == axis for row in rows)]
    with style():
        grid = panels(len(shown), "icml_wide", height=1.9, sharey=True)
        handles = {}
        for axis, panel in zip(shown, grid.axes, strict=True):
            panel.axhline(1.0, color=ink(), linewidth=0.8)
            panel.set(xscale="log", yscale="log", xlabel=AXES[axis].label)
            panel.yaxis.set_major_formatter(ScalarFormatter())
            panel.yaxis.set_minor_formatter(NullFormatter())
            panel.set_yticks([0.25, 0.5, 1, 2, 4])
            values = AXES[axis].values or AXES[axis].episodic
            panel.set_xticks(values, [f"{v // 1000}k" if v >= 1000 else str(v) for v in values])
            panel.xaxis.set_minor_formatter(NullFormatter())
            for name, mine in _curves([row for row in rows if row["axis"] == axis]).items():
                colour, dash, marker = look[name]
                x, y = [row["value"] for row in mine], [row["ratio"] for row in mine]
                handles[name] = panel.plot(x, y, color=colour, linestyle=dash, marker=marker)[0]
        caption = (
            "Speed of jaxvar over that of the Numba program of the same algorithm; above the line at 1, jaxvar is "
            f"faster. Medians of {min(row['repeats'] for row in rows)} interleaved repeats. {content['machine']}."
        )
        names = [name for name in look if name in handles]
        return finish(grid.figure, [handles[name] for name in names], names, caption, ylabel="ratio of speeds")


def tables(content: Content) -> str:
    """Return a table for each size in Markdown: microseconds of jaxvar per seed-round, and the ratio of speeds."""
    parts = []
    for axis in AXES:
        curves = _curves([row for row in content["rows"] if row["axis"] == axis])
        values = sorted({row["value"] for mine in curves.values() for row in mine})
        if not values:
            continue
        lines = [
            f"| {AXES[axis].label} | " + " | ".join(f"{v:,}" for v in values) + " |",
            "|---" * (len(values) + 1) + "|",
        ]
        for name, mine in curves.items():
            found = {row["value"]: f"{1e6 * np.median(row['jaxvar']):.3g} ({row['ratio']:.2f})" for row in mine}
            lines.append(f"| {name} | " + " | ".join(found.get(v, "") for v in values) + " |")
        parts.append("\n".join(lines) + "\n")
    first = np.array([row["first_call"] for row in content["rows"]])
    calls = (
        f"First calls, compilation included, took {first[:, 0].min():.1f} to {first[:, 0].max():.1f} s for jaxvar, and "
        f"up to {first[:, 1].max():.1f} s for Numba. {content['machine']}.\n"
    )
    return "\n".join([*parts, calls])
