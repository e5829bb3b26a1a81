"""The report's charts: final regret over what was swept, regret curves, paired differences, and the spread over seeds.

A chart of curves has a picture for each environment setting that needs no script, and data for the script that draws
one of them large. A chart of rows is pictures only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from jaxvar.analysis.captions import algorithm_name, environment_name, named, parameter_word, settings_text
from jaxvar.analysis.intervals import Interval, mean_interval, median_interval
from jaxvar.analysis.paired import Paired
from jaxvar.analysis.panels import Grid, Place, grouped
from jaxvar.analysis.slopes import swept, swept_value, without
from jaxvar.analysis.summaries import band, sample
from jaxvar.report.drawing import Line, Picture, Row, Series, curves_picture, rows_picture, short, value_range
from jaxvar.report.markup import around, clean, ends, plain
from jaxvar.study.result import StudyResult

_TABLE_ROUNDS = 12
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_NUMBERS = (int, float, np.number)
Cell = tuple[str, tuple[float, ...]]  # of a table: the text, and the numbers in it


@dataclasses.dataclass(frozen=True)
class Panel:
    """The part of a chart that is about one environment setting."""

    name: str
    series: tuple[Series, ...]
    environment: str  # its panels share the vertical axis


@dataclasses.dataclass(frozen=True)
class Curves:
    """A chart of curves."""

    key: str
    about: str  # a sentence
    x: str  # name of the horizontal axis
    reading: str  # comes before a value of it: "round ", "noise.std = "
    y: str
    choices: tuple[str, ...]  # names of the views
    names: Mapping[int, str]  # of the curves
    panels: tuple[Panel, ...]
    is_log: tuple[bool, bool]  # the axes at first
    is_points: bool  # intervals at few points instead of bands

    @property
    def views(self) -> tuple[Line, ...]:
        """Any curve in each of the views, for their descriptions."""
        return self.panels[0].series[0].views

    @property
    def ends(self) -> list[float]:
        """First and last value of the horizontal axis in any panel."""
        values = [x for panel in self.panels for one in panel.series for x in one.x]
        return [min(values), max(values)]

    def pictures(self) -> list[Picture]:
        """Draw each panel in the first view."""
        drawn, titles, (is_log_x, is_log_y) = list[Picture](), (self.x, self.y), self.is_log
        for panel in self.panels:
            alike = [one.views[0] for p in self.panels if p.environment == panel.environment for one in p.series]
            height = value_range(alike, is_log_y)
            drawn.append(curves_picture(panel.series, height, titles, is_log_x=is_log_x, is_points=self.is_points))
        return drawn

    def data(self) -> dict[str, object]:
        """Return everything that the script needs."""
        tables: dict[tuple[float, ...], int] = {}  # the recorded rounds are usually the same in all cells
        panels = [
            {
                "label": clean(panel.name),
                "cells": [
                    {
                        "curve": one.curve,
                        "x": tables.setdefault(tuple(one.x), len(tables)),
                        "views": [[v.line, v.low, v.high] for v in one.views],
                    }
                    for one in panel.series
                ],
            }
            for panel in self.panels
        ]
        return {
            "key": self.key,
            "about": clean(self.about),
            "x": clean(self.x),
            "reading": clean(self.reading),
            "y": self.y,
            "names": [[curve, clean(name)] for curve, name in self.names.items()],
            "xs": [list(values) for values in tables],
            "settings": panels,
            "views": [{"line": v.what, "band": v.how} for v in self.views],
            "logX": self.is_log[0],
            "logY": self.is_log[1],
            "points": self.is_points,
        }

    def table(self, panel: Panel) -> list[list[Cell]]:
        """Return the curves of a panel in the first view, at a few values of the horizontal axis: a row for each."""
        xs = sorted({x for one in panel.series for x in one.x})
        picked = np.unique(np.linspace(0, len(xs) - 1, _TABLE_ROUNDS).round().astype(int))
        return [[(plain(xs[i]), (xs[i],)), *(_at(one, xs[i]) for one in panel.series)] for i in picked]


def _at(one: Series, x: float) -> Cell:
    """Return mean and half width at ``x`` as text, and the mean with its ends."""
    if x not in one.x:
        return "\N{EN DASH}", ()
    i, view = one.x.index(x), one.views[0]
    value, low, high = view.line[i], view.low[i], view.high[i]
    if low is None or high is None:
        return plain(value, 2), (value,)
    return around(value, (high - low) / 2), (value, low, high)


def regret_curves(grid: Grid) -> Curves | None:
    """Return the chart of regret over the rounds, with a panel for each environment setting."""
    places = grid.recorded("regret")
    if not places:
        return None
    groups = sorted(grouped(places, lambda place: place.setting).items())
    panels = [
        Panel(grid.settings[i], tuple(map(_over_rounds, inside)), inside[0].cell.environment) for i, inside in groups
    ]
    rounds = max((one.x for panel in panels for one in panel.series), key=len)
    # Most records lie in a small part of the rounds, as with logarithmic spacing.
    is_log_x = len(rounds) > 4 and rounds[len(rounds) // 2] < rounds[-1] / 8
    unit = grid.result.unit
    return Curves(
        key="regret",
        about="Cumulative pseudo-regret.",
        x=f"{unit}s",
        reading=f"{unit} ",
        y="regret",
        choices=("mean, simultaneous band", "mean, pointwise band", "median, pointwise band"),
        names={p.curve: grid.curves[p.curve] for p in sorted(places, key=lambda place: place.curve)},
        panels=tuple(panels),
        # A linear axis would hide growth over early records, or the smallest final regret.
        is_log=(is_log_x, is_log_x or _is_wide([one.views[0].line[-1] for p in panels for one in p.series], 100)),
        is_points=False,
    )


def _is_wide(values: Sequence[float], ratio: float) -> bool:
    """Return whether a linear axis would hide the smallest of the positive values."""
    positive = [v for v in values if v > 0]
    return len(positive) > 1 and max(positive) > ratio * min(positive)


def _over_rounds(place: Place) -> Series:
    """Return the regret of a cell over the rounds: mean with each kind of band, and median."""
    lines = []
    for kind in ("simultaneous", "pointwise"):
        found = band(place.cell, kind=kind)
        lines.append(Line.of(found.mean, found.low, found.high, "mean over the seeds", found.describe()))
    median = median_interval(sample(place.cell).values)
    lines.append(Line.of(median.estimate, median.low, median.high, "median over the seeds", median.describe()))
    return Series(place.curve, [int(k) for k in place.cell.rounds], tuple(lines))


def question_charts(grid: Grid) -> list[Curves]:
    """Return a chart of the final regret for every swept number."""
    places = grid.recorded("regret")
    usable = dataclasses.replace(grid.result, cells=tuple(p.cell for p in places))
    charts = [_over_parameter(usable, places, parameter, i) for i, parameter in enumerate(swept(usable))]
    return [chart for chart in charts if chart is not None]


def _over_parameter(result: StudyResult, places: Sequence[Place], parameter: str, number: int) -> Curves | None:
    """Return the chart of the final regret over one parameter, with a panel for each setting of all others.

    An algorithm without the parameter is drawn at all its values, if the environments do not have it either.
    """

    def environment(place: Place) -> str:
        cell = without(place.cell, parameter)
        is_told = cell.environment_settings and len(result.environments) == 1
        return settings_text(cell.environment_settings) if is_told else environment_name(cell)

    panels, looks = list[Panel](), dict[str, int]()
    for name, inside in grouped(places, environment).items():
        values = sorted({float(v) for p in inside if isinstance(v := swept_value(p.cell, parameter), _NUMBERS)})
        if len(values) < 2:
            continue
        series = []
        for label, group in grouped(inside, lambda place: algorithm_name(without(place.cell, parameter))).items():
            at = {swept_value(p.cell, parameter): p for p in group}
            points = [(v, at.get(v, at.get(None))) for v in values]
            curve = looks.setdefault(label, group[0].curve)
            series.append(_over_values(curve, [(v, p) for v, p in points if p is not None]))
        panels.append(Panel(name, tuple(series), inside[0].cell.environment))
    if not panels:
        return None
    title = parameter_word(parameter)
    xs = [x for panel in panels for one in panel.series for x in one.x]
    final = [v for panel in panels for one in panel.series for v in one.views[0].line]
    return Curves(
        key=f"question-{number}",
        about=f"Cumulative pseudo-regret after the last {result.unit}, against {title}.",
        x=title,
        reading=f"{title} = ",
        y=f"regret after the last {result.unit}",
        choices=("mean", "median"),
        names={curve: label for label, curve in looks.items()},
        panels=tuple(panels),
        is_log=(min(xs) > 0 and max(xs) > 8 * min(xs), _is_wide(final, 20)),
        is_points=True,
    )


def _over_values(curve: int, points: Sequence[tuple[float, Place]]) -> Series:
    """Return the final regret of some cells at the values of a parameter: mean and median."""
    final = [sample(place.cell).final for _, place in points]
    lines = []
    for interval, what in ((mean_interval, "mean over the seeds"), (median_interval, "median over the seeds")):
        found = list(map(interval, final))
        line, low, high = (np.array([getattr(f, name) for f in found]) for name in ("estimate", "low", "high"))
        lines.append(Line.of(line, low, high, what, found[0].describe()))
    return Series(curve, [short(v) for v, _ in points], tuple(lines))


def final_rows(grid: Grid) -> list[tuple[str, Picture]]:
    """Return a picture of the mean final regret by algorithm, for each environment setting."""
    found = [(place, mean_interval(sample(place.cell).final)) for place in grid.recorded("regret")]
    return _by_setting(grid, [_row(grid, *one) for one in found], "regret")


def difference_rows(grid: Grid, differences: Sequence[tuple[Place, Paired]]) -> list[tuple[str, Picture]]:
    """Return a picture of the paired differences, for each environment setting."""
    rows = [_row(grid, place, found.difference) for place, found in differences]
    title = f"regret minus that of {named(grid.result.reference or '', {})}"
    return _by_setting(grid, rows, title, is_difference=True)


def _row(grid: Grid, place: Place, mean: Interval) -> tuple[int, Row]:
    """Return a mean with its interval as a row, and the setting that it belongs to."""
    shown = around(mean.estimate, mean.half)
    return place.setting, Row(place.curve, grid.curves[place.curve], mean.estimate, mean.low, mean.high, shown)


def spread_rows(grid: Grid) -> list[tuple[str, Picture]]:
    """Return a picture of the quantiles of the final regret over the seeds, for each environment setting."""

    def row(place: Place) -> Row:
        low, box_low, median, box_high, high = map(float, np.quantile(sample(place.cell).final, _QUANTILES))
        name, shown = grid.curves[place.curve], ends(median, low, high)
        return Row(place.curve, name, median, low, high, shown, (box_low, box_high))

    return _by_setting(grid, [(p.setting, row(p)) for p in grid.recorded("regret")], "regret of a seed")


def _by_setting(
    grid: Grid, rows: Sequence[tuple[int, Row]], title: str, *, is_difference: bool = False
) -> list[tuple[str, Picture]]:
    groups = sorted(grouped(rows, lambda pair: pair[0]).items())
    return [
        (grid.settings[setting], rows_picture([row for _, row in group], title, is_difference=is_difference))
        for setting, group in groups
    ]
