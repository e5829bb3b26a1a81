"""The figure and the table of the study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from experiments.headline.study import DIM, NOISE_BOUND, NOISE_LEVELS, NUM_ARMS
from experiments.presentation import BLACK, BLUE, GREEN, PURPLE, VERMILION, interval, write

COLOURS = (BLACK, BLUE, GREEN, VERMILION, PURPLE)
STYLES = ("--", "-", "-", "-", ":")


def figure(rounds: np.ndarray, regret: dict[str, np.ndarray]) -> Any:
    """One panel per noise level, both axes logarithmic, mean and 95 % band."""
    fig, axes = plt.subplots(1, len(NOISE_LEVELS), figsize=(11, 3.3), sharex=True, sharey=True, layout="constrained")
    seeds = next(iter(regret.values())).shape[1]
    for i, (axis, level) in enumerate(zip(axes, NOISE_LEVELS, strict=True)):
        for (label, values), colour, style in zip(regret.items(), COLOURS, STYLES, strict=True):
            mean, half = interval(values[i])
            axis.plot(rounds, mean, style, color=colour, label=label, linewidth=1.6)
            axis.fill_between(rounds, np.maximum(mean - half, 1e-2), mean + half, color=colour, alpha=0.2, linewidth=0)
        axis.set(xscale="log", yscale="log", title=f"noise ±{level:g}" if level else "no noise", xlabel="round")
        axis.grid(True, which="major", alpha=0.3)
    axes[0].set(ylabel="cumulative pseudo-regret", ylim=(0.3, None), xlim=(1, rounds[-1]))
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)
    fig.supxlabel(
        f"Mean over {seeds} seeds, band: pointwise 95 % t interval. d = {DIM}, {NUM_ARMS} fixed unit arms, "
        f"R = {NOISE_BOUND:g} known to all; constants as labelled.",
        fontsize=8,
    )
    return fig


def table(rounds: np.ndarray, regret: dict[str, np.ndarray]) -> str:
    """Final regret: mean and half width of the 95 % t interval."""
    width = max(map(len, regret)) + 2
    lines = [
        f"Regret after {rounds[-1]:,} rounds: mean ± half width of the 95 % t interval over the seeds",
        "".ljust(width) + "".join(f"noise ±{level:g}".rjust(20) for level in NOISE_LEVELS),
    ]
    for label, values in regret.items():
        cells = []
        for i in range(len(NOISE_LEVELS)):
            mean, half = interval(values[i, :, -1])
            cells.append(f"{mean:,.1f} ± {half:,.1f}".rjust(20))
        lines.append(label.ljust(width) + "".join(cells))
    return "\n".join(lines)


def present(out: Path, rounds: np.ndarray, regret: dict[str, np.ndarray]) -> list[Path]:
    """Write figure (PNG, PDF), table and numbers into ``out``; returns the paths."""
    out.mkdir(parents=True, exist_ok=True)
    fig = figure(rounds, regret)
    text = table(rounds, regret)
    paths = [
        write(out / "regret.png", lambda b: fig.savefig(b, format="png", dpi=200)),
        write(out / "regret.pdf", lambda b: fig.savefig(b, format="pdf")),
        write(out / "table.txt", lambda b: b.write((text + "\n").encode()) and None),
        write(out / "regret.npz", lambda b: np.savez_compressed(b, rounds=rounds, noise=NOISE_LEVELS, **regret)),
    ]
    plt.close(fig)
    return paths
