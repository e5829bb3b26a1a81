"""When the regrets without noise and with it part, beside what the constants predict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

import jaxvar as jv
from experiments.experiment import Conclusions
from experiments.switch.predict import Layer, first_adaptive, layer
from jaxvar.analysis.captions import seeds_text
from jaxvar.constants import RadiusConstants
from jaxvar.figures.look import BLUE, GREY, VERMILION, style
from jaxvar.figures.style import Drawing, finish, panels
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

Array = np.ndarray[Any, Any]

STUDIES = ("printed", "smaller", "practical")  # in the order of the tables
SHOWN = ("SAVE (paper)", "SAVE (tight)", "SAVE (paper, switch 0)", "SAVE (practical)")  # in the figure
DIMENSIONS = (2, 5, 10, 20)
DEEPEST = 12  # layer of the table and the figure; the first ones are filled in the run


@dataclasses.dataclass(frozen=True)
class Pair:
    """One algorithm without noise and with the largest noise."""

    label: str
    constants: RadiusConstants
    quiet: CellResult
    noisy: CellResult
    predicted: Layer
    facts: Mapping[str, Any]  # dim, num_rounds, noise_bound, delta

    @property
    def difference(self) -> Array:
        """Regret with noise minus regret without, seed by seed, [seeds, records]."""
        both = (self.quiet.status == 0) & (self.noisy.status == 0)
        return np.asarray(self.noisy.regret[both] - self.quiet.regret[both])

    @property
    def identical(self) -> int | None:
        """The last recorded round up to which no seed has another regret with noise than without."""
        same = np.cumprod(np.all(self.difference == 0, axis=0))
        return int(self.quiet.rounds[same.sum() - 1]) if same[0] else None

    @property
    def parted(self) -> int | None:
        """The first recorded round from which on the interval of the mean difference stays above zero."""
        above = jv.analysis.mean_interval(self.difference).low > 0
        if not above[-1]:
            return None
        below = np.flatnonzero(~above)
        return int(self.quiet.rounds[below[-1] + 1 if len(below) else 0])


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Make tables and figures of the three studies."""
    pairs = [pair for name in STUDIES for pair in pairs_of(results[name])]
    printed = pairs[0]
    tables = {"parting": _parting(pairs), "layers": _layers(printed), "dimensions": _dimensions(printed)}
    return Conclusions(tables, {"regret": _draw_rates(pairs), "layers": _draw_layers(printed)})


def pairs_of(result: StudyResult) -> list[Pair]:
    """Return the algorithms of a study, each in its two environments."""
    study = result.config["study"]
    dim = study["environment"][0]["dim"]
    found = []
    for entry in study["algorithm"]:
        cells = [cell for cell in result.cells if cell.algorithm == entry["label"]]
        quiet, noisy = sorted(cells, key=lambda cell: float(cell.environment_settings["noise.std"]))
        constants = _constants(entry["constants"])
        facts = {"num_rounds": quiet.num_rounds, "noise_bound": entry["noise_bound"], "delta": entry["delta"]}
        predicted = first_adaptive(constants, dim, **facts)
        found.append(Pair(entry["label"], constants, quiet, noisy, predicted, {"dim": dim, **facts}))
    return found


def _constants(table: str | Mapping[str, Any]) -> RadiusConstants:
    changes = {} if isinstance(table, str) else {k: v for k, v in table.items() if k != "preset"}
    preset = table if isinstance(table, str) else table["preset"]
    return dataclasses.replace(getattr(jv.constants, preset)(), **changes)


def _parting(pairs: list[Pair]) -> Table:
    rows = []
    for pair in pairs:
        ratio = _ratio(pair)
        difference = jv.analysis.mean_interval(pair.difference[:, -1])
        predicted = round(pair.predicted.end, -int(np.log10(pair.predicted.end)) + 2)
        rounds = (pair.predicted.number, int(predicted), pair.identical, pair.parted, pair.quiet.num_rounds)
        noisy = jv.analysis.mean_interval(pair.noisy.regret[:, -1])
        rows.append((pair.label, float(pair.constants.switch), *rounds, noisy, difference, ratio))
    caption = (
        "From which round on SAVE has less regret without noise than with noise 1: predicted, when the first layer "
        "that adapts is full, and measured, the first recorded round from which on the 95 % t interval of the "
        "difference, paired by seed, stays above 0; none where it does not within the rounds played. Regrets are "
        "identical up to a recorded round if they are so in every seed "
        f"({seeds_text([len(p.quiet.seeds) for p in pairs], 0)})."
    )
    columns = (
        Column("constants"),
        Column("switch", "number"),
        Column("first layer to adapt", "number"),
        Column("predicted round", "number"),
        Column("identical up to round", "number"),
        Column("measured round", "number"),
        Column("rounds played", "number"),
        Column("regret, noise 1", "half"),
        Column("noise 1 minus noise 0", "half"),
        Column("noise 0 over noise 1", "ends"),
    )
    return Table(caption, columns, tuple(rows))


def _ratio(pair: Pair) -> jv.analysis.Interval:
    """Return the ratio of the mean regrets at the last round, resampled by seed."""
    final = np.stack([pair.quiet.regret[:, -1], pair.noisy.regret[:, -1]], axis=1)

    def ratio(values: Array, axis: int) -> Array:
        means = values.mean(axis=axis)
        return np.asarray(means[..., 0] / means[..., 1])

    return jv.analysis.bootstrap_interval(final, ratio, method="percentile", resamples=2000)


def _predicted(pair: Pair, numbers: range) -> list[Layer]:
    return [layer(number, pair.constants, **pair.facts) for number in numbers]


def _ends(pair: Pair, number: int) -> Array:
    """Return the round in which each seed has filled a layer, of those that have gone further."""
    counts = pair.quiet.records["layer_rounds"][:, -1].astype(np.float64)  # [seeds, 1 + capacity]
    filled = counts[:, number + 1 :].sum(axis=1) > 0
    return np.asarray(counts[filled, 1 : number + 1].sum(axis=1))


def _layers(pair: Pair) -> Table:
    rows = []
    for one in _predicted(pair, range(1, DEEPEST + 1)):
        ends = _ends(pair, one.number)
        measured = jv.analysis.mean_interval(ends) if len(ends) > 1 else None
        ratio = jv.analysis.mean_interval(ends / one.end) if len(ends) > 1 else None
        uses = "yes" if one.uses_variance else "no"
        drops = (one.drops_without_noise, one.drops_with_noise)
        rows.append((one.number, round(one.end), measured, ratio, len(ends), uses, *drops))
    caption = (
        f"{pair.label} in {pair.quiet.environment} without noise: the round in which each layer is full, by the law of "
        "the determinant and as the mean over the seeds that filled it, and the smallest gap at which an arm is "
        "dropped then. Unit arms have gaps of at most 2."
    )
    columns = (
        Column("layer", "number"),
        Column("full, predicted", "number"),
        Column("full, measured", "half"),
        Column("measured over predicted", "half"),
        Column("seeds", "number"),
        Column("uses the empirical variance"),
        Column("smallest gap dropped, noise 0", "number"),
        Column("smallest gap dropped, noise 1", "number"),
    )
    return Table(caption, columns, tuple(rows))


def _dimensions(pair: Pair) -> Table:
    """Predict the same for other dimensions."""
    known = {name: pair.facts[name] for name in ("noise_bound", "delta")}
    presets = [jv.constants.paper(), jv.constants.paper_fixed(), jv.constants.tight(), jv.constants.practical()]
    rows = []
    for constants in presets:
        firsts = [first_adaptive(constants, dim, **known) for dim in DIMENSIONS]
        rows.append((constants.label, firsts[0].number, *(float(f"{one.end:.2e}") for one in firsts)))
    caption = (
        "Predicted number of rounds before SAVE adapts to the variance, for unit arms with gaps of about 1, R = 1 and "
        f"delta = {known['delta']:g}, by dimension."
    )
    columns = (Column("constants"), Column("first layer to adapt, d = 2", "number"))
    return Table(caption, columns + tuple(Column(f"d = {dim}", "number") for dim in DIMENSIONS), tuple(rows))


def _draw_rates(pairs: list[Pair]) -> Drawing:
    """Draw regret per round between records, against the rounds."""
    shown = [pair for label in SHOWN for pair in pairs if pair.label == label]
    handles: dict[str, Any] = {}
    with style():
        grid = panels(len(shown), "neurips", least=2.7, height=1.8)
        for axis, pair in zip(grid.axes, shown, strict=True):
            for name, cell, colour, dash in (
                ("noise 1", pair.noisy, VERMILION, "-"),
                ("noise 0", pair.quiet, BLUE, (0, (5, 1.5))),
            ):
                middle, rate = _rates(cell)
                (handles[name],) = axis.plot(middle, rate.estimate, color=colour, linestyle=dash)
                axis.fill_between(middle, rate.low, rate.high, color=colour, alpha=0.2, linewidth=0)
            handles["predicted to part"] = axis.axvline(pair.predicted.end, color=GREY, linestyle=(0, (1, 1)))
            axis.set(xscale="log", xlabel="round")
            axis.set_ylim(bottom=0)
            grid.title(axis, pair.label)
        seeds = seeds_text([len(pair.quiet.seeds) for pair in shown], 0)
        caption = (
            f"Mean regret per round between records over {seeds}, with pointwise 95 % t bands, on two random arms in "
            "two dimensions. The dotted line is where the first layer that adapts is predicted to be full. The runs "
            "have different lengths."
        )
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel="regret per round")


def _rates(cell: CellResult, bins: int = 60) -> tuple[Array, jv.analysis.Interval]:
    """Return regret per round between some of the records, about evenly spaced in the logarithm."""
    wanted = np.geomspace(cell.rounds[0], cell.rounds[-1], bins + 1)
    index = np.unique(np.searchsorted(cell.rounds, wanted).clip(max=len(cell.rounds) - 1))
    rounds, regret = cell.rounds[index].astype(np.float64), cell.regret[:, index]
    rate = np.diff(regret, axis=1) / np.diff(rounds)
    return np.sqrt(rounds[1:] * rounds[:-1]), jv.analysis.mean_interval(rate)


def _draw_layers(pair: Pair) -> Drawing:
    """Draw measured and predicted ends of layers, and the gaps they can see."""
    found = _predicted(pair, range(1, DEEPEST + 1))
    numbers = [one.number for one in found]
    measured = [(n, _ends(pair, n)) for n in range(1, DEEPEST + 1)]
    measured = [(n, ends) for n, ends in measured if len(ends) > 1]
    with style():
        grid = panels(2, "neurips", least=2.7, height=2.1)
        left, right = grid.axes
        (law,) = left.plot(numbers, [one.end for one in found], color=GREY)
        means = [jv.analysis.mean_interval(ends) for _, ends in measured]
        points = left.errorbar(
            [n for n, _ in measured],
            [mean.estimate for mean in means],
            yerr=[mean.half for mean in means],
            color="black",
            marker="o",
            linestyle="none",
            capsize=1.5,
        )
        left.set(yscale="log", xlabel="layer", ylabel="round in which it is full")
        (noisy,) = right.plot(numbers, [one.drops_with_noise for one in found], color=VERMILION, marker="s")
        (quiet,) = right.plot(
            numbers, [one.drops_without_noise for one in found], color=BLUE, marker="o", linestyle=(0, (5, 1.5))
        )
        largest = right.axhline(2.0, color="black", linestyle=(0, (1, 1)))
        right.set(yscale="log", xlabel="layer", ylabel="smallest gap dropped")
        handles = {"predicted": law, "measured": points, "noise 1": noisy, "noise 0": quiet, "largest gap": largest}
        seeds = seeds_text([len(pair.quiet.seeds)], 0)
        caption = (
            f"{pair.label}, d = {pair.facts['dim']}. Left: when a layer is full, by the law of the determinant and as "
            f"the mean over {seeds} with 95 % t intervals (smaller than the points). Right: the smallest gap at which "
            "an arm is dropped by then, from the radius; above the dotted line no arm is ever dropped."
        )
        return finish(grid.figure, list(handles.values()), list(handles), caption)
