"""The figures of :mod:`jaxvar.bench.growth`: one per quantity, both axes logarithmic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

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
