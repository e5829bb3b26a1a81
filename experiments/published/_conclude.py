"""The tables and the figure of a published setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.experiment import Conclusions
from experiments.published._setting import Played, Setting
from jaxvar.analysis import bootstrap_interval, mean_interval
from jaxvar.analysis.intervals import interval, proportion_interval
from jaxvar.figures import Drawing
from jaxvar.figures.look import Look, looks, plain, style
from jaxvar.figures.style import finish, panels
from jaxvar.tables import Column, Table


def conclude(setting: Setting, played: Sequence[Played]) -> Conclusions:
    """Show regret on the way, differences to the reference at the end, what is known of plans; draw the curves."""
    seeds = len(next(iter(played[0].regret.values())))
    tables = {
        setting.name: regret_table(setting, played, seeds),
        f"{setting.name}_differences": differences_table(setting, played, seeds),
    }
    if any(one.plans for one in played):
        tables[f"{setting.name}_plans"] = plans_table(played, seeds)
    return Conclusions(tables, {setting.name: curves(setting, played, seeds)})


def settings_table(settings: Sequence[Setting]) -> Table:
    """Show what is played, and how often."""
    rows = [(s.name, s.source, s.about, f"{s.length:,} {s.unit}s", s.seeds) for s in settings]
    titles = ("setting", "source", "problem", "length")
    return Table(
        "The settings, as their sources state them; the seeds are ours. Root key 0, float64.",
        (*(Column(title) for title in titles), Column("seeds", "number")),
        tuple(rows),
    )


def regret_table(setting: Setting, played: Sequence[Played], seeds: int) -> Table:
    """Show regret at a tenth, at half and at the end; of several problems, at half and at the end."""
    shares = (0.1, 0.5, 1.0) if len(played) == 1 else (0.5, 1.0)
    places = [(one, _at(one, share)) for one in played for share in shares]
    titles = [f"{setting.unit} {one.times[i]:,}" for one, i in places]
    if len(played) > 1:
        titles = [f"{one.title}, {title}" for (one, _), title in zip(places, titles, strict=True)]
    rows = [(label, *(mean_interval(one.regret[label][:, i]) for one, i in places)) for label in played[0].regret]
    caption = f"Cumulative regret, mean ± half width of the 95 % t interval over {seeds:,} seeds.{left_out(played)}"
    return Table(caption, (Column("algorithm"), *(Column(title, "half") for title in titles)), tuple(rows))


def left_out(played: Sequence[Played]) -> str:
    """Name the algorithms whose arithmetic failed and the seeds; nothing where all went well."""
    failed = [f"{label} in {', '.join(map(str, seeds))}" for one in played for label, seeds in one.left_out.items()]
    return f" Seeds left out for all, since an inverse lost its definiteness: {'; '.join(failed)}." if failed else ""


def differences_table(setting: Setting, played: Sequence[Played], seeds: int) -> Table:
    """Compare regret at the end of the last problem with the reference's on the same seeds."""
    final = {label: values[:, -1] for label, values in played[-1].regret.items()}
    reference = final[setting.reference]
    rows = []
    for label, values in final.items():
        compared: tuple[Any, ...] = (None, None, None)
        if label != setting.reference:
            fewer = int(np.sum(values < reference))
            compared = (
                mean_interval(values - reference),
                bootstrap_interval(np.stack([values, reference], axis=1), _ratio_of_means),
                proportion_interval(fewer, seeds, "share of seeds with less"),
            )
        rows.append((label, *compared, float(np.median(values)), float(values.max())))
    where = f" ({played[-1].title})" if len(played) > 1 else ""
    caption = (
        f"At {setting.unit} {played[-1].times[-1]:,}{where}, against {setting.reference} on the same {seeds:,} seeds: "
        "paired difference with its 95 % t interval, ratio of the means with its 95 % bootstrap interval, share of the "
        "seeds with less regret with its 95 % Clopper-Pearson interval; and median and largest regret of a seed."
    )
    columns = (
        Column("algorithm"),
        Column("difference", "half"),
        Column("ratio", "ends"),
        Column("seeds with less", "ends"),
        Column("median", "number"),
        Column("largest", "number"),
    )
    return Table(caption, columns, tuple(rows))


def plans_table(played: Sequence[Played], seeds: int) -> Table:
    """Show how often plans were optimistic and the confidence event held."""
    rows = [
        (label, float(optimistic.mean()), proportion_interval(int(held.sum()), seeds, "confidence event"))
        for one in played
        for label, (optimistic, held) in one.plans.items()
    ]
    caption = (
        "Share of the episodes with an optimistic plan, and of the seeds in which the confidence event held in all "
        f"layers and episodes, with its 95 % Clopper-Pearson interval over {seeds:,} seeds."
    )
    return Table(
        caption, (Column("algorithm"), Column("optimistic", "number"), Column("event held", "ends")), tuple(rows)
    )


def curves(setting: Setting, played: Sequence[Played], seeds: int) -> Drawing:
    """Draw regret against time, a panel for each problem; logarithmic axes begin after a thousandth of the run."""
    look, handles = looks(list(played[0].regret)), dict[str, Any]()
    with style():
        grid = panels(len(played), "a4", height=2.6, sharey=True)
        for axis, one in zip(grid.axes, played, strict=True):
            first = _at(one, 0.001) if setting.scale == "log" else 0
            for shift, (label, values) in enumerate(one.regret.items()):
                handles[label] = _draw(axis, one.times[first:], values[:, first:], look[label], shift)
            axis.set(xscale=setting.scale, yscale=setting.scale, xlabel=plain(setting.unit))
            grid.title(axis, one.title)
        caption = f"Mean regret over {seeds:,} seeds; pointwise 95 % band (t). Constants as the labels say."
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel="cumulative pseudo-regret")


def _draw(axis: Any, times: np.ndarray, values: np.ndarray, look: Look, shift: int) -> Any:
    """Draw one curve; markers are few, and shifted so that those of neighbours do not hide each other."""
    mean, half = interval(values)
    low = np.maximum(mean - half, 1e-3 * mean)  # above 0, for logarithmic axes
    axis.fill_between(times, low, mean + half, color=look.colour, alpha=0.2, linewidth=0)
    every = max(1, len(times) // 5)
    marked = slice(shift * every // 4 % every, None, every)
    (line,) = axis.plot(times, mean, color=look.colour, linestyle=look.dash, marker=look.marker, markevery=marked)
    return line


def _at(one: Played, share: float) -> int:
    return int(np.searchsorted(one.times, share * one.times[-1]))


def _ratio_of_means(values: np.ndarray, axis: int) -> np.ndarray:
    """Divide the first mean of ``values [..., seeds, 2]`` by the second."""
    means = values.mean(axis=axis)
    return np.asarray(means[..., 0] / means[..., 1])
