"""What a published setting is, and how it is run and presented."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import tyro

import jaxvar as jv
from experiments.presentation import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, interval, write

COLOURS = (BLACK, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY)
ROOT_KEY = 0


@dataclasses.dataclass(frozen=True)
class Setting:
    """A bandit and who plays it."""

    environment: Any
    algorithms: dict[str, Any]  # label (with the constants' name) -> algorithm


@dataclasses.dataclass(frozen=True)
class Options:
    """A published setting, ending in a figure and a table."""

    seeds: int = 100
    """Seeds per algorithm."""
    rounds: int = 10_000
    """Rounds per seed."""
    out: str = "results/published"
    """Folder for the figure, the table and the numbers."""


def main(name: str, build: Callable[[int], Setting], arguments: Sequence[str] | None) -> int:
    """Run the setting that ``build(rounds)`` makes; exit code 0 when done, 1 when a run failed."""
    options = tyro.cli(Options, prog=f"python -m experiments.published {name}", args=arguments)
    jv.tune_cpu()
    jax.config.update("jax_enable_x64", True)  # before anything is built: leaves have the session's float type
    start = time.perf_counter()
    try:
        times, regret = run(build(options.rounds), options)
    except (ValueError, jv.SimulationError) as error:
        print(f"the study failed: {error}", file=sys.stderr)
        return 1
    paths = present(Path(options.out), name, times, regret)
    print(f"\n{name}, {options.seeds} seeds: mean ± half width of the 95 % t interval\n")
    print(f"{table(times, regret)}\n\n{time.perf_counter() - start:.0f} seconds. Written:")
    for path in paths:
        print(f"  {path.resolve()}")
    return 0


def run(setting: Setting, options: Options, progress: bool = True) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The recorded rounds, and per algorithm the regret ``[seeds, records]``."""
    times = jv.linear_spaced(options.rounds, 100)
    regret = {}
    for label, algorithm in setting.algorithms.items():
        if progress:
            print(label, flush=True)
        out = jv.simulate(
            algorithm,
            setting.environment,
            key=jax.random.key(ROOT_KEY),
            num_rounds=options.rounds,
            num_seeds=options.seeds,
            records=times,
            progress=progress,
        )
        out.raise_if_failed()
        regret[label] = out.regret
    return times, regret


def table(times: np.ndarray, regret: dict[str, np.ndarray]) -> str:
    """Regret at a tenth, at half and at the end: mean and half width of the 95 % t interval, as rows of Markdown."""
    columns = sorted({int(np.searchsorted(times, share * times[-1])) for share in (0.1, 0.5, 1.0)})
    lines = [
        "| regret after | " + " | ".join(f"{times[i]:,}" for i in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for label, values in regret.items():
        mean, half = interval(values)
        lines.append(f"| {label} | " + " | ".join(f"{mean[i]:,.1f} ± {half[i]:,.1f}" for i in columns) + " |")
    return "\n".join(lines)


def present(out: Path, name: str, times: np.ndarray, regret: dict[str, np.ndarray]) -> list[Path]:
    """Write figure, table and numbers of the setting ``name`` into ``out``; returns the paths."""
    out.mkdir(parents=True, exist_ok=True)
    fig, axis = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for i, (label, values) in enumerate(regret.items()):
        mean, half = interval(values)
        colour, style = COLOURS[i % len(COLOURS)], ("-", "--")[i // len(COLOURS) % 2]
        axis.plot(times, mean, style, color=colour, label=label)
        axis.fill_between(times, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
    axis.set(xlabel="round", ylabel="cumulative pseudo-regret", yscale="symlog", title=name)
    axis.grid(True, alpha=0.3)
    axis.legend(fontsize=8)
    text = table(times, regret)
    paths = [
        write(out / f"{name}.png", lambda b: fig.savefig(b, format="png", dpi=150)),
        write(out / f"{name}.md", lambda b: b.write((text + "\n").encode()) and None),
        write(out / f"{name}.npz", lambda b: np.savez_compressed(b, times=times, **regret)),
    ]
    plt.close(fig)
    return paths
