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
from jaxvar.report.markup import MISSING, Html, around, clean, join, label, plain, scrolling, select, tag
from jaxvar.report.sections import Section

VIEWS = ("mean, simultaneous band", "mean, pointwise band", "median, pointwise band")
_DIGITS = 5  # significant digits in the chart's data: more than a screen shows
_MANY_SETTINGS = 12  # more pictures than this are folded away
_TABLE_ROUNDS = 12
_WIDTH, _HEIGHT = 300, 190  # of a picture
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 292, 8, 164
_LEAST_SHARE = 1e-8  # a logarithmic axis starts at this share of the largest value, or above


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


class Curves:
    """The regret curves of a study, by environment setting, and the axes they need."""

    def __init__(self, grid: Grid):
        self.grid = grid
        self.all = [_curve(place) for place in grid.recorded("regret")]
        self.settings = sorted(grouped(self.all, lambda curve: curve.place.setting).items())
        rounds = max((c.rounds for c in self.all), key=len, default=[])
        final = [c.views[0].line[-1] for c in self.all if c.views[0].line[-1] > 0]
        # Most records lie in a small part of the rounds, as with logarithmic spacing.
        self.is_log_x = len(rounds) > 4 and rounds[len(rounds) // 2] < rounds[-1] / 8
        # A linear axis would hide growth over early records, or the smallest final regret.
        self.is_log_y = self.is_log_x or (len(final) > 1 and max(final) > 100 * min(final))

    def data(self) -> dict[str, object]:
        """Return the data for the chart's script."""
        tables: dict[tuple[int, ...], int] = {}  # the recorded rounds are usually the same in all cells
        settings = []
        for setting, inside in self.settings:
            cells = [
                {
                    "curve": c.place.curve,
                    "rounds": tables.setdefault(tuple(c.rounds), len(tables)),
                    "views": [[v.line, v.low, v.high] for v in c.views],
                }
                for c in inside
            ]
            settings.append({"label": clean(self.grid.settings[setting]), "cells": cells})
        return {
            "unit": self.grid.result.unit,
            "curves": [clean(name) for name in self.grid.curves],
            "rounds": [list(rounds) for rounds in tables],
            "settings": settings,
            "views": [{"line": v.what, "band": v.how} for v in self.all[0].views] if self.all else [],
            "logX": self.is_log_x,
            "logY": self.is_log_y,
            "colours": len(COLOURS),
            "dashes": len(DASHES),
        }

    def section(self) -> Section:
        """Return the section, or a sentence if regret was not recorded."""
        if not self.all:
            return Section("regret", "Regret", [tag("p", "No cell has two seeds with a recorded regret.")])
        pictures = self._pictures()
        if len(self.settings) > _MANY_SETTINGS:
            pictures = tag("details", tag("summary", f"All {len(self.settings)} environment settings"), pictures)
        first = self.all[0].views[0]
        told = f"Cumulative pseudo-regret. Line: {first.what}. Band: {first.how}."
        swatches = []
        for i, name in enumerate(self.grid.curves):
            line = tag("path", d="M0,6H30", class_=f"line {_look(i)}")
            swatch = tag("svg", line, class_="swatch", viewBox="0 0 30 12", aria_hidden="true")
            swatches.append(tag("li", swatch, label(name)))
        chart = tag(  # empty: the script draws into it; the arrow keys move over the recorded rounds as in a slider
            "div",
            tag("div", class_="tip", id="tip", hidden=True),
            class_="chart enhanced",
            id="chart",
            hidden=True,
            tabindex=0,
            role="slider",
            aria_valuemin=min(c.rounds[0] for c in self.all),
            aria_valuemax=max(c.rounds[-1] for c in self.all),
            aria_orientation="horizontal",
            aria_label="Regret",
        )
        tables = [self._table(setting, inside) for setting, inside in self.settings]
        parts = [
            tag("p", told, class_="note", id="chart-note"),
            self._controls(),
            tag("ul", *swatches, class_="legend"),
            chart,
            pictures,
            tag("details", tag("summary", "The curves as tables"), *tables),
        ]
        return Section("regret", "Regret", parts)

    def _controls(self) -> Html:
        """Return the form that chooses what the chart shows."""
        settings = [tag("option", self.grid.settings[s], value=i) for i, (s, _) in enumerate(self.settings)]
        views = [tag("option", view, value=i) for i, view in enumerate(VIEWS)]
        log_x, log_y = (Html(f'<input type="checkbox" name="log-{a}" autocomplete="off">') for a in "xy")
        show_all, show_none = (tag("button", shown, type="button", id=f"curves-{shown}") for shown in ("all", "none"))
        return tag(
            "form",
            tag("label", "Environment ", select("setting", settings)),
            tag("label", "Curves ", select("view", views)),
            tag("label", log_x, f"log {self.grid.result.unit}s"),
            tag("label", log_y, "log regret"),
            tag("span", "Show ", show_all, " ", show_none),
            class_="controls enhanced",
            hidden=True,
        )

    def _pictures(self) -> Html:
        """Draw one small picture per environment setting; those of one environment share the vertical axis."""
        figures = []
        for setting, inside in self.settings:
            environment = inside[0].place.cell.environment
            alike = [c.views[0] for c in self.all if c.place.cell.environment == environment]
            name = self.grid.settings[setting]
            picture = _picture(inside, _value_axis(alike, self.is_log_y), is_log_x=self.is_log_x, caption=name)
            figures.append(tag("figure", tag("figcaption", label(name)), picture))
        return tag("div", *figures, class_="overview single" if len(self.settings) == 1 else "overview")

    def _table(self, setting: int, inside: Sequence[Curve]) -> Html:
        """Show the curves of one environment setting as a table, at a few of the recorded rounds."""
        rounds = sorted({k for c in inside for k in c.rounds})
        picked = [rounds[i] for i in np.unique(np.linspace(0, len(rounds) - 1, _TABLE_ROUNDS).round().astype(int))]
        names = [self.grid.result.unit, *(label(self.grid.curves[c.place.curve]) for c in inside)]
        heading = tag("tr", *(tag("th", n, scope="col", class_="number") for n in names))
        body = []
        for k in picked:
            shown = [plain(k), *(_at(c, k) for c in inside)]
            body.append(tag("tr", *(tag("td", value, class_="number") for value in shown)))
        view = inside[0].views[0]
        name = self.grid.settings[setting]
        title = join([label(name), f": {view.what} ± half width of the {view.how}"])
        return scrolling(
            tag("table", tag("caption", tag("span", title)), tag("thead", heading), tag("tbody", *body)), name
        )


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
        return MISSING.shown
    i, view = curve.rounds.index(k), curve.views[0]
    low, high = view.low[i], view.high[i]
    return around(view.line[i], (high - low) / 2) if low is not None and high is not None else plain(view.line[i], 2)


def _look(curve: int) -> str:
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
        return Axis(max(min(positive) / 1.25, high * _LEAST_SHARE), high, _BOTTOM, _TOP, True)
    return Axis(0.0, high or 1.0, _BOTTOM, _TOP, False)


def _picture(curves: Sequence[Curve], y: Axis, *, is_log_x: bool, caption: str) -> Html:
    """Draw the curves of one environment setting."""
    last = max(c.rounds[-1] for c in curves)
    first = min(c.rounds[0] for c in curves)
    x = Axis(first if first < last else last / 10, last, _LEFT, _RIGHT, True)
    if not is_log_x:
        x = Axis(0.0, last, _LEFT, _RIGHT, False)
    parts = []
    for v in y.ticks(4):
        parts.append(tag("line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y(v), y2=y(v)))
        parts.append(tag("text", _tick(v), x=_LEFT - 5, y=y(v) + 4, text_anchor="end"))
    for v in x.ticks(4 if x.is_log else 3):
        parts.append(tag("line", class_="axis", x1=x(v), x2=x(v), y1=_BOTTOM, y2=_BOTTOM + 4))
        anchor = "end" if x(v) > _RIGHT - 20 else "middle"
        parts.append(tag("text", _tick(v), x=x(v), y=_BOTTOM + 16, text_anchor=anchor))
    parts.append(tag("path", class_="axis", d=f"M{_LEFT},{_TOP}V{_BOTTOM}H{_RIGHT}"))
    for kind, path in (("band fill", _band_path), ("line", _line_path)):
        for c in curves:
            i = c.place.curve
            parts.append(tag("path", class_=f"{kind} {_look(i)}", data_curve=i, d=path(c, x, y)))
    size = f"0 0 {_WIDTH} {_HEIGHT}"
    return tag("svg", *parts, viewBox=size, class_="small", role="img", aria_label=f"Regret, {caption}")


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
