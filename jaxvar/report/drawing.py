"""Pictures that need no script: axes, curves over a number, and rows of points with intervals, as SVG paths.

A :class:`Picture` holds paths and texts only; the macro ``picture`` writes any of them.
"""

from __future__ import annotations

import dataclasses
import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from jaxvar.analysis.intervals import Array
from jaxvar.figures.look import COLOURS, DASHES

Scale = Literal["linear", "log", "signed"]  # signed: logarithmic on both sides of zero
_DIGITS = 5  # significant digits in the charts' data: more than a screen shows
_LEAST_SHARE = 1e-8  # a logarithmic axis starts at this share of the largest value, or above
_ROW = 20.0  # height
_LETTER = 6.2  # width
_LONGEST = 22  # letters of a row's name
_MARGIN = 10.0  # between the ends of an axis and the points of rows


@dataclasses.dataclass(frozen=True)
class Line:
    """A line with its band; ``None`` where the band has no end."""

    line: list[float]
    low: list[float | None]
    high: list[float | None]
    what: str  # the line in words
    how: str  # the band in words

    @staticmethod
    def of(line: Array, low: Array, high: Array, what: str, how: str) -> Line:
        """Round all numbers to the digits that the page keeps."""

        def ends(values: Array) -> list[float | None]:
            return [short(v) if np.isfinite(v) else None for v in values]

        return Line([short(v) for v in line], ends(low), ends(high), what, how)


@dataclasses.dataclass(frozen=True)
class Series:
    """One curve of a chart, in each of the chart's views."""

    curve: int  # says its colour and dashes
    x: list[float]
    views: tuple[Line, ...]


@dataclasses.dataclass(frozen=True)
class Row:
    """A point with its interval, beside a name and the same numbers as text."""

    curve: int
    name: str
    value: float
    low: float
    high: float
    shown: str
    box: tuple[float, float] | None = None  # drawn thick


class Text(NamedTuple):
    """A text in a picture; ``whole`` is what it was cut from."""

    x: float
    y: float
    anchor: str
    text: str
    whole: str = ""


class Mark(NamedTuple):
    """A path that shows data of a curve."""

    look: str
    curve: int
    path: str


class Picture(NamedTuple):
    """What the macro ``picture`` writes."""

    width: float
    height: float
    grid: str
    axes: str
    texts: list[Text]
    marks: list[Mark]


def short(value: float) -> float:
    """Return a number to the digits that the page keeps."""
    return float(f"{value:.{_DIGITS}g}")


def look(curve: int) -> str:
    """Return the classes that give a curve the colour and dashes that it has in figures."""
    return f"curve-{curve % len(COLOURS)} dash-{curve % len(DASHES)}"


class Axis:
    """A scale from values to positions in a picture; a signed one is linear within ``unit`` of zero."""

    def __init__(self, low: float, high: float, start: float, stop: float, scale: Scale, unit: float = 1.0):
        self.scale, self.unit = scale, unit
        self.low, self.high = low, high
        self.start, self.slope = start, (stop - start) / ((self._of(high) - self._of(low)) or 1.0)

    def _of(self, value: float) -> float:
        if self.scale == "log":
            return math.log10(value)
        return math.asinh(value / self.unit) if self.scale == "signed" else value

    def __call__(self, value: float) -> float:
        """Return the position of ``value``."""
        inside = max(value, self.low) if self.scale == "log" else value
        return round(self.start + (self._of(inside) - self._of(self.low)) * self.slope, 1)

    def title(self, name: str) -> str:
        """Return the axis' name with its scale."""
        return name + {"linear": "", "log": " (log)", "signed": " (log on both sides of 0)"}[self.scale]

    def ticks(self, about: int) -> list[float]:
        """Return about as many round numbers within the axis."""
        if self.scale == "log":
            # Powers of ten; on a short axis also their multiples by 2 and 5; on a long one only every other.
            first, last, decades = math.log10(self.low), math.log10(self.high), math.log10(self.high / self.low)
            fronts = (1, 2, 5) if decades < about / 2.5 else (1,)
            every = max(1, math.ceil(decades / about))
            exponents = [p for p in range(math.floor(first), math.ceil(last) + 1) if p % every == 0]
            found = [front * 10.0**p for p in exponents for front in fronts]
            return [v for v in found if self.low * (1 - 1e-9) <= v <= self.high * (1 + 1e-9)]
        if self.scale == "signed":
            powers = [10.0**p for p in range(math.ceil(math.log10(self.unit)), 309)]
            inside = [v for p in powers for v in (-p, p) if self.low <= v <= self.high]
            return sorted([0.0, *inside])
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
        return [i * step for i in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)]


def _apart(values: Iterable[float], axis: Axis) -> list[tuple[float, float]]:
    """Return those of some values whose texts do not touch, with their positions; those near zero come first."""
    found = list[tuple[float, float]]()
    for value in sorted(values, key=abs):
        at, letters = axis(value), len(tick_text(value))
        if all(abs(at - other) >= 4 + _LETTER * (letters + len(tick_text(v))) / 2 for v, other in found):
            found.append((value, at))
    return found


def tick_text(value: float) -> str:
    """Return a round number as short text: ``10³`` instead of many zeros."""
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        power = math.floor(math.log10(abs(value)) + 1e-9)
        front = f"{value / 10**power:.3g}".replace("-", "\N{MINUS SIGN}")
        exponent = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{exponent}" if front == "1" else f"{front}·10{exponent}"
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")


def value_range(lines: Sequence[Line], is_log: bool) -> tuple[float, float, Scale]:
    """Return the ends of an axis that holds all lines and bands, and its scale: linear if no value is positive."""
    high = max((v for line in lines for v in (*line.line, *line.high) if v is not None), default=0.0)
    positive = [v for line in lines for v in line.line if v > 0]
    if is_log and positive:
        return max(min(positive) / 1.25, high * _LEAST_SHARE), high, "log"
    return 0.0, high or 1.0, "linear"


def curves_picture(
    series: Sequence[Series],
    y_range: tuple[float, float, Scale],
    titles: tuple[str, str],
    *,
    is_log_x: bool,
    is_points: bool,
) -> Picture:
    """Return the picture of some curves: lines with bands, or points with intervals that lines connect."""
    left, right, top, bottom = 48.0, 290.0, 22.0, 164.0
    inset = 14.0 if is_points else 0.0
    y = Axis(y_range[0], y_range[1], bottom, top, y_range[2])
    inside = [v for one in series for v in one.x if v > 0 or not is_log_x] or [1.0]
    first, last = min(inside), max(inside)
    if not is_points:  # rounds: from 0, or from the first record
        first = 0.0 if not is_log_x else first if first < last else last / 10
    x = Axis(first, last, left + inset, right - inset, "log" if is_log_x else "linear")
    marks = [Mark(f"band fill {look(one.curve)}", one.curve, _band_path(one, x, y)) for one in series if not is_points]
    shift = -(len(series) - 1)  # intervals of several curves stand side by side
    for one in series:
        line = _visible(one, x, y)
        path = "".join(f"{pen}{x(k) + is_points * shift:g},{y(v):g}" for pen, k, v, _, _ in line)
        marks.append(Mark(f"line {look(one.curve)}", one.curve, path))
        if is_points:
            bars = [(k, low, high) for _, k, _, low, high in line if low is not None and high is not None]
            path = "".join(f"M{x(k) + shift:g},{min(y(low), bottom):g}V{y(high):g}" for k, low, high in bars)
            marks.append(Mark(f"whisker {look(one.curve)}", one.curve, path))
            path = "".join(f"M{x(k) + shift:g},{y(v):g}h.01" for _, k, v, _, _ in line)
            marks.append(Mark(f"point {look(one.curve)}", one.curve, path))
            shift += 2
    rules = [(v, y(v)) for v in y.ticks(4)]
    stops = _apart(sorted(set(inside)), x) if is_points else [(v, x(v)) for v in x.ticks(4 if is_log_x else 3)]
    texts = [Text(left - 5, at + 4, "end", tick_text(v)) for v, at in rules]
    texts += [Text(at, bottom + 15, "end" if at > right - 15 else "middle", tick_text(v)) for v, at in stops]
    texts += [
        Text(0, 11, "start", y.title(titles[1])),
        Text((left + right) / 2, bottom + 31, "middle", *_fitted(x.title(titles[0]), 44)),
    ]
    axes = f"M{left:g},{top:g}V{bottom:g}H{right:g}" + "".join(f"M{at:g},{bottom:g}v4" for _, at in stops)
    grid = "".join(f"M{left:g},{at:g}H{right:g}" for _, at in rules)
    return Picture(300, 200, grid, axes, texts, [mark for mark in marks if mark.path])


def _visible(one: Series, x: Axis, y: Axis) -> list[tuple[str, float, float, float | None, float | None]]:
    """Return the points that the axes can show, each after the pen's command: M where the line is interrupted."""
    found, pen = [], "M"
    for k, v, low, high in zip(one.x, one.views[0].line, one.views[0].low, one.views[0].high, strict=True):
        if (y.scale == "log" and v <= 0) or (x.scale == "log" and k <= 0):
            pen = "M"
        else:
            found.append((pen, k, v, low, high))
            pen = "L"
    return found


def _band_path(one: Series, x: Axis, y: Axis) -> str:
    """Return the outline of the band."""
    line = one.views[0]
    known = [
        (x(k), y(low), y(high))
        for k, low, high in zip(one.x, line.low, line.high, strict=True)
        if low is not None and high is not None and (high > 0 or y.scale != "log")
    ]
    upper = [f"{k:g},{high:g}" for k, _, high in known]
    lower = [f"{k:g},{low:g}" for k, low, _ in reversed(known)]
    return "M" + "L".join(upper + lower) + "Z" if len(known) > 1 else ""


def rows_picture(rows: Sequence[Row], title: str, *, is_difference: bool = False) -> Picture:
    """Return a picture with a row per point: name, point with interval, numbers; differences have a line at zero."""
    names = [_fitted(row.name, _LONGEST) for row in rows]
    width, top = 420.0, 6.0
    bottom = top + _ROW * len(rows)
    left = 12 + _LETTER * max(_columns(name) for name, _ in names)
    right = width - 12 - _LETTER * max(len(row.shown) for row in rows)
    low, high = min(row.low for row in rows), max(row.high for row in rows)
    largest = max(-low, high)
    sizes = [size for row in rows if (size := max(abs(row.value), (row.high - row.low) / 2)) > 0]
    unit = max(min(sizes, default=1.0), largest * _LEAST_SHARE)
    scale: Scale = "linear"
    if is_difference and largest > 40 * unit:
        scale = "signed"
    elif not is_difference and 0 < low < high / 40:
        scale = "log"
    if scale != "log":
        low, high = min(low, 0.0), max(high, 0.0)
        high = high if high > low else low + 1.0
    x = Axis(low, high, left + _MARGIN, right - _MARGIN, scale, unit)
    stops = _apart(x.ticks(4), x)
    texts, marks = list[Text](), list[Mark]()
    for i, (row, (name, whole)) in enumerate(zip(rows, names, strict=True)):
        y = top + _ROW * (i + 0.5)
        texts += [Text(left - 6, y + 4, "end", name, whole), Text(width - 2, y + 4, "end", row.shown)]
        spans = [("whisker", row.low, row.high), *([("box", *row.box)] if row.box else [])]
        paths = [(kind, f"M{x(a):g},{y:g}H{x(b):g}") for kind, a, b in spans]
        paths.append(("point", f"M{x(row.value):g},{y:g}h.01"))
        marks += [Mark(f"{kind} {look(row.curve)}", row.curve, path) for kind, path in paths]
    texts += [Text(at, bottom + 15, "middle", tick_text(v)) for v, at in stops]
    texts.append(Text((left + right) / 2, bottom + 31, "middle", *_fitted(x.title(title), 60)))
    axes = f"M{left:g},{bottom:g}H{right:g}" + "".join(f"M{at:g},{bottom:g}v4" for _, at in stops)
    if is_difference:
        axes += f"M{x(0.0):g},{top:g}V{bottom:g}"
    grid = "".join(f"M{at:g},{top:g}V{bottom:g}" for _, at in stops)
    return Picture(width, bottom + 36, grid, axes, texts, marks)


def _columns(letters: Iterable[str]) -> int:
    """Return the width of a text in letters; ideographs are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in letters)


def _fitted(text: str, most: int) -> tuple[str, str]:
    """Return a text cut to a width, and the whole text if it was cut."""
    cut = text
    while _columns(cut) > most:
        cut = cut[: min(len(cut) - 1, most)]
    return (text, "") if cut == text else (cut[:-1] + "\N{HORIZONTAL ELLIPSIS}", text)
