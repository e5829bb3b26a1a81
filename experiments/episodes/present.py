"""The figures and the tables of the study."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from experiments.episodes import study
from experiments.episodes.study import Played, Results
from experiments.presentation import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    interval,
    proportion,
    write,
)

LOOKS = {
    study.UNIFORM: (GREY, ":"),
    study.AVE_PAPER: (BLACK, "--"),
    study.AVE_WIDE: (ORANGE, "-"),
    study.AVE: (VERMILION, "-"),
    study.VTR: (BLUE, "-"),
    study.VTR_WIDE: (GREEN, "-"),
    study.VTR_NARROW: (SKY, "-"),
}
BAND = "band: pointwise 95 % t interval"
NUMBERS = "mean ± half width of the 95 % t interval over the seeds"


def flatten_figure(results: Results) -> Any:
    """All on logarithmic axes, and the smallest multiplier of both algorithms on linear ones."""
    fig, (whole, zoom) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    _draw(whole, results, results.played)
    whole.set(xscale="log", yscale="log", xlim=(1, results.episodes[-1]), title="all, logarithmic axes")
    _draw(zoom, results, (study.VTR_NARROW, study.AVE))
    zoom.set(xlim=(0, results.episodes[-1]), ylim=(0, None), title="multiplier 0.01 only, linear axes")
    _legend(fig, whole)
    sizes = f"S = {study.STATES}, A = {study.ACTIONS}, d = {study.DIM}, H = {study.HORIZON}"
    fig.supxlabel(
        f"Random mixtures with concentration {study.CONCENTRATION:g}, one per seed; {sizes}; δ = {study.DELTA:g}. "
        f"Mean over {_seeds(results)} seeds,\n{BAND}. ×: multiplier of the radius's stochastic part; "
        "practical and scaled constants are not proved.",
        fontsize=9,
    )
    return fig


def riverswim_figure(both: tuple[Results, Results]) -> Any:
    """One panel for each form of RiverSwim, linear axes."""
    fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    for axis, results in zip(axes, both, strict=True):
        _draw(axis, results, results.played)
        axis.set(xlim=(0, results.episodes[-1]), ylim=(0, None), title=results.title)
        axis.locator_params(axis="x", nbins=5)
    _legend(fig, axes[0])
    fig.supxlabel(
        f"Mean over {_seeds(both[0])} seeds (left) and {_seeds(both[1])} (right), {BAND}. λ = 1/B², B = |θ*|, "
        f"δ = {study.DELTA:g}.\n×: multiplier of the radius's stochastic part; practical and scaled constants are not "
        "proved.",
        fontsize=9,
    )
    return fig


def flatten_table(results: Results) -> str:
    """Regret per episode in each period, and in all."""
    ends = study.period_ends(results.episodes[-1])
    firsts = [1, *(ends[:-1] + 1)]
    header = [f"episodes {a}-{b}" for a, b in zip(firsts, ends, strict=True)]
    rows = {}
    for label, one in results.played.items():
        parts = _cells(study.slopes(results.episodes, one.regret, ends), ".4f")
        rows[label] = [*parts, *_cells(one.regret[:, -1:], ".1f")]
    what = f"{results.title}: regret per episode, and in all; {NUMBERS}"
    return f"{what}\n{_grid([*header, 'in all'], rows)}\n\n{behind_table(results)}"


def riverswim_table(results: Results) -> str:
    """Regret per episode in each tenth of the run, one column per algorithm, and how often it fell."""
    ends = study.tenths(results.episodes[-1])
    columns = {label: study.slopes(results.episodes, one.regret, ends) for label, one in results.played.items()}
    cells = [_cells(values, ".4f") for values in columns.values()]
    firsts = [1, *(ends[:-1] + 1)]
    rows = {f"{a}-{b}": [c[i] for c in cells] for i, (a, b) in enumerate(zip(firsts, ends, strict=True))}
    rows["in all"] = [_cells(one.regret[:, -1:], ".1f")[0] for one in results.played.values()]
    rows["falls, level, rises"] = [", ".join(map(str, bends(values))) for values in columns.values()]
    what = f"{results.title}: regret per episode in each tenth of the run; {NUMBERS}"
    note = "(of the 9 differences between successive tenths, by the paired 95 % t interval of each)"
    return f"{what}\n{_grid(list(columns), rows)}\n{note}\n\n{behind_table(results)}"


def behind_table(results: Results) -> str:
    """Optimism, plans at the cap, and the confidence event."""
    rows = {}
    for label, one in results.played.items():
        if one.optimistic is not None and one.capped is not None and one.held is not None:
            held, seeds = int(one.held[:, -1].sum()), len(one.held)
            low, high = proportion(held, seeds)
            event = f"{held}/{seeds} [{100 * low:.1f}, {100 * high:.1f}] %"
            rows[label] = [f"{100 * one.optimistic.mean():.2f} %", f"{100 * one.capped.mean():.1f} %", event]
    what = "Episodes with an optimistic plan, steps to where the plan's value was 1, and seeds in which the confidence"
    more = "event held in all layers and episodes, with the Clopper-Pearson 95 % interval"
    return f"{what}\n{more}\n{_grid(['optimistic', 'value 1', 'event held'], rows)}"


def bends(values: np.ndarray) -> tuple[int, int, int]:
    """How many successive differences of ``values [seeds, periods]`` are below, about and above zero."""
    mean, half = interval(np.diff(values, axis=1))
    falls, rises = int(np.sum(mean + half < 0)), int(np.sum(mean - half > 0))
    return falls, len(mean) - falls - rises, rises


def present(out: Path, mixtures: Results, rivers: tuple[Results, Results]) -> list[Path]:
    """Write figures (PNG, PDF), tables and numbers into ``out``; returns the paths."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, fig in (("flatten", flatten_figure(mixtures)), ("riverswim", riverswim_figure(rivers))):
        paths.append(write(out / f"{name}.png", lambda b, fig=fig: fig.savefig(b, format="png", dpi=200)))
        paths.append(write(out / f"{name}.pdf", lambda b, fig=fig: fig.savefig(b, format="pdf")))
        plt.close(fig)
    for name, results in zip(("flatten", "riverswim", "riverswim_tabular"), (mixtures, *rivers), strict=True):
        arrays = _arrays(results)
        paths.append(write(out / f"{name}.npz", lambda b, arrays=arrays: np.savez_compressed(b, **arrays)))
    text = tables(mixtures, rivers)
    paths.append(write(out / "tables.txt", lambda b: b.write((text + "\n").encode()) and None))
    return paths


def tables(mixtures: Results, rivers: tuple[Results, Results]) -> str:
    """All of them."""
    return "\n\n\n".join([flatten_table(mixtures), *map(riverswim_table, rivers)])


def _draw(axis: Any, results: Results, labels: Iterable[str]) -> None:
    for label in labels:
        (colour, style), (mean, half) = LOOKS[label], interval(results.played[label].regret)
        axis.plot(
            results.episodes, mean, style, color=colour, label=label, linewidth=1.8, zorder=3 if style == ":" else 2
        )
        low = np.maximum(mean - half, 1e-2 * mean)  # above 0, for logarithmic axes
        axis.fill_between(results.episodes, low, mean + half, color=colour, alpha=0.2, linewidth=0)
    axis.set(xlabel="episode", ylabel="cumulative regret")
    axis.grid(True, which="major", alpha=0.3)


def _legend(fig: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=10)


def _seeds(results: Results) -> int:
    return len(next(iter(results.played.values())).regret)


def _cells(values: np.ndarray, form: str) -> list[str]:
    """Mean and half width for each column of ``values [seeds, columns]``."""
    return [f"{mean:,{form}} ± {half:,{form}}" for mean, half in zip(*interval(values), strict=True)]


def _grid(header: list[str], rows: dict[str, list[str]]) -> str:
    first = max(map(len, rows)) + 2
    widths = [max(map(len, column)) + 3 for column in zip(header, *rows.values(), strict=True)]
    lines = [("", header), *rows.items()]
    return "\n".join(a.ljust(first) + "".join(c.rjust(w) for c, w in zip(b, widths, strict=True)) for a, b in lines)


def _arrays(results: Results) -> dict[str, np.ndarray]:
    arrays = {"episodes": results.episodes}
    for label, one in results.played.items():
        for name in Played._fields:
            value = getattr(one, name)
            if value is not None:
                arrays[f"{label} {name}"] = value
    return arrays
