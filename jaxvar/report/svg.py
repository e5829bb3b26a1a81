"""Small multiples of regret curves, drawn without a script: what is printed, and what is there before a script runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxvar.figures.style import COLOURS, DASHES
from jaxvar.report.curves import Curve, Line
from jaxvar.report.markup import Html, label, tag

_WIDTH, _HEIGHT = 300, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 292, 8, 164
_LEAST_SHARE = 1e-8  # of the largest value: what is below has no place on a logarithmic axis


def look(curve: int) -> str:
    """Classes that give a curve its colour and its dashes, the same as in figures."""
    return f"curve-{curve % len(COLOURS)} dash-{curve % len(DASHES)}"


def swatch(curve: int) -> Html:
    """A sample of a curve's line."""
    line = tag("path", d="M0,6H30", class_=f"line {look(curve)}")
    return tag("svg", line, class_="swatch", viewBox="0 0 30 12", aria_hidden="true")


class Axis:
    """A scale from numbers to the picture, linear from zero or logarithmic."""

    def __init__(self, low: float, high: float, start: float, stop: float, is_log: bool):
        self.is_log = is_log
        self.low, self.high = low, high
        self.start, self.slope = start, (stop - start) / ((self._of(high) - self._of(low)) or 1.0)

    def _of(self, value: float) -> float:
        return math.log10(value) if self.is_log else value

    def __call__(self, value: float) -> float:
        """Where ``value`` is drawn."""
        inside = max(value, self.low) if self.is_log else value
        return round(self.start + (self._of(inside) - self._of(self.low)) * self.slope, 1)

    def ticks(self, about: int) -> list[float]:
        """Round numbers within the axis."""
        if self.is_log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(1, math.ceil((last - first + 1) / about))
            return [10.0**p for p in range(first, last + 1, every)]
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
        return [i * step for i in range(math.ceil(self.low / step), math.floor(self.high / step + 1e-9) + 1)]


def value_axis(lines: Sequence[Line], is_log: bool) -> Axis:
    """An axis that holds all lines and bands."""
    high = max((v for line in lines for v in (*line.line, *line.high) if v is not None), default=0.0)
    positive = [v for line in lines for v in line.line if v > 0]
    if is_log and positive:
        return Axis(max(min(positive) / 1.25, high * _LEAST_SHARE), high, _BOTTOM, _TOP, True)
    return Axis(0.0, high or 1.0, _BOTTOM, _TOP, False)


def multiple(curves: Sequence[Curve], y: Axis, *, is_log_x: bool, caption: str) -> Html:
    """The curves of one environment setting."""
    last = max(c.rounds[-1] for c in curves)
    first = min(c.rounds[0] for c in curves)
    x = Axis(first if first < last else last / 10, last, _LEFT, _RIGHT, True)
    if not is_log_x:
        x = Axis(0.0, last, _LEFT, _RIGHT, False)
    parts = [*_axes(x, y)]
    parts += [_area(c, x, y) for c in curves] + [_line(c, x, y) for c in curves]
    return tag(
        "svg", *parts, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", class_="small", role="img", aria_label=f"Regret, {caption}"
    )


def _axes(x: Axis, y: Axis) -> list[Html]:
    parts = []
    for v in y.ticks(4):
        parts.append(tag("line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y(v), y2=y(v)))
        parts.append(tag("text", tick(v), x=_LEFT - 5, y=y(v) + 4, text_anchor="end"))
    for v in x.ticks(4 if x.is_log else 3):
        parts.append(tag("line", class_="axis", x1=x(v), x2=x(v), y1=_BOTTOM, y2=_BOTTOM + 4))
        anchor = "end" if x(v) > _RIGHT - 20 else "middle"
        parts.append(tag("text", tick(v), x=x(v), y=_BOTTOM + 16, text_anchor=anchor))
    parts.append(tag("path", class_="axis", d=f"M{_LEFT},{_TOP}V{_BOTTOM}H{_RIGHT}"))
    return parts


def _line(curve: Curve, x: Axis, y: Axis) -> Html:
    path, pen = "", "M"
    for k, v in zip(curve.rounds, curve.views[0].line, strict=True):
        if y.is_log and v <= 0:
            pen = "M"
        else:
            path += f"{pen}{x(k):g},{y(v):g}"
            pen = "L"
    return tag("path", class_=f"line {look(curve.place.curve)}", data_curve=curve.place.curve, d=path)


def _area(curve: Curve, x: Axis, y: Axis) -> Html:
    line = curve.views[0]
    known = [
        (x(k), y(low), y(high))
        for k, low, high in zip(curve.rounds, line.low, line.high, strict=True)
        if low is not None and high is not None and (high > 0 or not y.is_log)
    ]
    upper = [f"{k:g},{high:g}" for k, _, high in known]
    lower = [f"{k:g},{low:g}" for k, low, _ in reversed(known)]
    path = "M" + "L".join(upper + lower) + "Z" if len(known) > 1 else ""
    return tag("path", class_=f"band fill {look(curve.place.curve)}", data_curve=curve.place.curve, d=path)


def tick(value: float) -> str:
    """A round number, short."""
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        power = math.floor(math.log10(abs(value)) + 1e-9)
        front = f"{value / 10**power:.3g}"
        exponent = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{exponent}" if front == "1" else f"{front}·10{exponent}"
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")


def legend(names: Sequence[str]) -> Html:
    """All curves with samples of their lines."""
    return tag("ul", *(tag("li", swatch(i), label(name)) for i, name in enumerate(names)), class_="legend")
