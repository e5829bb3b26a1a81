"""The report's section on regret curves: pictures that need no script, a chart that does, and both as tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from jaxvar.analysis.intervals import Array, median_interval
from jaxvar.analysis.panels import Grid, Place, grouped
from jaxvar.analysis.summaries import band, sample
from jaxvar.figures.style import COLOURS, DASHES
from jaxvar.report.markup import around, clean, plain

VIEWS = ("mean, simultaneous band", "mean, pointwise band", "median, pointwise band")
_DIGITS = 5  # significant digits in the chart's data: more than a screen shows
_TABLE_ROUNDS = 12
_LEAST_SHARE = 1e-8  # a logarithmic axis starts at this share of the largest value, or above
_FRAME = {"left": 46, "right": 292, "top": 8, "bottom": 164}  # of the axes of a picture


@dataclasses.dataclass(frozen=True)
class Line:
    """A line with its band over the recorded rounds; ``None`` where the band has no end."""

    line: list[float]
    low: list[float | None]
    high: list[float | None]
    what: str  # the line in words
    how: str  # the band in words

    @staticmethod
    def of(line: Array, low: Array, high: Array, what: str, how: str) -> Line:
        """Round all numbers to the digits that the page keeps."""

        def ends(values: Array) -> list[float | None]:
            return [_short(v) if np.isfinite(v) else None for v in values]

        return Line([_short(v) for v in line], ends(low), ends(high), what, how)


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


@dataclasses.dataclass(frozen=True)
class Curve:
    """The regret of one cell, in each of the ``VIEWS``."""

    place: Place
    rounds: list[int]
    views: tuple[Line, ...]


def regret_section(grid: Grid) -> dict[str, object]:
    """Return the pictures and tables of all environment settings, and the data for the chart's script."""
    curves = [_curve(place) for place in grid.recorded("regret")]
    groups = sorted(grouped(curves, lambda curve: curve.place.setting).items())
    rounds = max((c.rounds for c in curves), key=len, default=[])
    final = [c.views[0].line[-1] for c in curves if c.views[0].line[-1] > 0]
    # Most records lie in a small part of the rounds, as with logarithmic spacing.
    is_log_x = len(rounds) > 4 and rounds[len(rounds) // 2] < rounds[-1] / 8
    # A linear axis would hide growth over early records, or the smallest final regret.
    is_log_y = is_log_x or (len(final) > 1 and max(final) > 100 * min(final))
    shown, charted = [], []
    tables: dict[tuple[int, ...], int] = {}  # the recorded rounds are usually the same in all cells
    for setting, inside in groups:
        environment = inside[0].place.cell.environment  # its pictures share the vertical axis
        alike = [c.views[0] for c in curves if c.place.cell.environment == environment]
        name = grid.settings[setting]
        picture = _picture(inside, _value_axis(alike, is_log_y), is_log_x)
        shown.append({"name": name, "curves": inside, "picture": picture, "table": _table(inside)})
        cells = [
            {
                "curve": c.place.curve,
                "rounds": tables.setdefault(tuple(c.rounds), len(tables)),
                "views": [[v.line, v.low, v.high] for v in c.views],
            }
            for c in inside
        ]
        charted.append({"label": clean(name), "cells": cells})
    views = curves[0].views if curves else ()
    data = {
        "unit": grid.result.unit,
        "curves": [clean(name) for name in grid.curves],
        "rounds": [list(rounds) for rounds in tables],
        "settings": charted,
        "views": [{"line": v.what, "band": v.how} for v in views],
        "logX": is_log_x,
        "logY": is_log_y,
        "colours": len(COLOURS),
        "dashes": len(DASHES),
    }
    ends = [k for c in curves for k in (c.rounds[0], c.rounds[-1])]
    return {"data": data, "settings": shown, "views": views, "choices": VIEWS, "ends": ends, "look": look}


def _table(inside: Sequence[Curve]) -> list[list[str]]:
    """Return the curves of one environment setting at a few of the recorded rounds, a row per round."""
    rounds = sorted({k for c in inside for k in c.rounds})
    picked = np.unique(np.linspace(0, len(rounds) - 1, _TABLE_ROUNDS).round().astype(int))
    return [[plain(rounds[i]), *(_at(c, rounds[i]) for c in inside)] for i in picked]


def _curve(place: Place) -> Curve:
    """Compute the regret of a cell in each of the ``VIEWS``."""
    lines = []
    for kind in ("simultaneous", "pointwise"):
        found = band(place.cell, kind=kind)
        lines.append(Line.of(found.mean, found.low, found.high, "mean over the seeds", found.describe()))
    median = median_interval(sample(place.cell).values)
    lines.append(Line.of(median.estimate, median.low, median.high, "median over the seeds", median.describe()))
    return Curve(place, [int(k) for k in place.cell.rounds], tuple(lines))


def _at(curve: Curve, k: int) -> str:
    """Return mean and half width at round ``k`` as text."""
    if k not in curve.rounds:
        return "\N{EN DASH}"
    i, view = curve.rounds.index(k), curve.views[0]
    low, high = view.low[i], view.high[i]
    return around(view.line[i], (high - low) / 2) if low is not None and high is not None else plain(view.line[i], 2)


def look(curve: int) -> str:
    """Return the classes that give a curve the colour and dashes that it has in figures."""
    return f"curve-{curve % len(COLOURS)} dash-{curve % len(DASHES)}"


class Axis:
    """A scale from values to positions in a picture: linear, or logarithmic."""

    def __init__(self, low: float, high: float, start: float, stop: float, is_log: bool):
        self.is_log = is_log
        self.low, self.high = low, high
        self.start, self.slope = start, (stop - start) / ((self._of(high) - self._of(low)) or 1.0)

    def _of(self, value: float) -> float:
        return math.log10(value) if self.is_log else value

    def __call__(self, value: float) -> float:
        """Return the position of ``value``."""
        inside = max(value, self.low) if self.is_log else value
        return round(self.start + (self._of(inside) - self._of(self.low)) * self.slope, 1)

    def ticks(self, about: int) -> list[float]:
        """Return about as many round numbers within the axis."""
        if self.is_log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(1, math.ceil((last - first + 1) / about))
            return [10.0**p for p in range(first, last + 1, every)]
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
        return [i * step for i in range(math.ceil(self.low / step), math.floor(self.high / step + 1e-9) + 1)]


def _value_axis(lines: Sequence[Line], is_log: bool) -> Axis:
    """Return a vertical axis that holds all lines and bands."""
    high = max((v for line in lines for v in (*line.line, *line.high) if v is not None), default=0.0)
    positive = [v for line in lines for v in line.line if v > 0]
    if is_log and positive:
        return Axis(max(min(positive) / 1.25, high * _LEAST_SHARE), high, _FRAME["bottom"], _FRAME["top"], True)
    return Axis(0.0, high or 1.0, _FRAME["bottom"], _FRAME["top"], False)


def _picture(curves: Sequence[Curve], y: Axis, is_log_x: bool) -> dict[str, object]:
    """Return the marks of both axes and the paths of the curves of one environment setting."""
    last = max(c.rounds[-1] for c in curves)
    first = min(c.rounds[0] for c in curves)
    start = 0.0 if not is_log_x else first if first < last else last / 10
    x = Axis(start, last, _FRAME["left"], _FRAME["right"], is_log_x)
    return {
        "frame": _FRAME,
        "y": [(y(v), _tick(v)) for v in y.ticks(4)],
        "x": [(x(v), _tick(v)) for v in x.ticks(4 if x.is_log else 3)],
        "bands": [(c.place.curve, _band_path(c, x, y)) for c in curves],
        "lines": [(c.place.curve, _line_path(c, x, y)) for c in curves],
    }


def _line_path(curve: Curve, x: Axis, y: Axis) -> str:
    """Return the path of the mean, interrupted where a logarithmic axis cannot show it."""
    path, pen = "", "M"
    for k, v in zip(curve.rounds, curve.views[0].line, strict=True):
        if y.is_log and v <= 0:
            pen = "M"
        else:
            path += f"{pen}{x(k):g},{y(v):g}"
            pen = "L"
    return path


def _band_path(curve: Curve, x: Axis, y: Axis) -> str:
    """Return the outline of the band."""
    line = curve.views[0]
    known = [
        (x(k), y(low), y(high))
        for k, low, high in zip(curve.rounds, line.low, line.high, strict=True)
        if low is not None and high is not None and (high > 0 or not y.is_log)
    ]
    upper = [f"{k:g},{high:g}" for k, _, high in known]
    lower = [f"{k:g},{low:g}" for k, low, _ in reversed(known)]
    return "M" + "L".join(upper + lower) + "Z" if len(known) > 1 else ""


def _tick(value: float) -> str:
    """Return a round number as short text: ``10³`` instead of many zeros."""
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        power = math.floor(math.log10(abs(value)) + 1e-9)
        front = f"{value / 10**power:.3g}"
        exponent = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{exponent}" if front == "1" else f"{front}·10{exponent}"
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")
