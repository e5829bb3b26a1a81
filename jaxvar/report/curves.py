"""Lines and bands over the recorded rounds, as the page's charts take them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxvar.analysis.bands import band
from jaxvar.analysis.intervals import median_interval
from jaxvar.analysis.sample import sample
from jaxvar.report.grid import Place

VIEWS = ("mean, simultaneous band", "mean, pointwise band", "median, pointwise band")
_DIGITS = 5  # significant ones: more than any screen shows, and half the size


@dataclasses.dataclass(frozen=True)
class Line:
    """A line with its band over the recorded rounds; ``None`` where a band has no end."""

    line: list[float]
    low: list[float | None]
    high: list[float | None]
    what: str  # of the line, in words
    how: str  # of the band


@dataclasses.dataclass(frozen=True)
class Curve:
    """One cell, in each of the ``VIEWS``."""

    place: Place
    rounds: list[int]
    views: tuple[Line, ...]


def curve(place: Place) -> Curve:
    """The regret of a cell."""
    lines = []
    for kind in ("simultaneous", "pointwise"):
        found = band(place.cell, kind=kind)
        lines.append(_line(found.mean, found.low, found.high, "mean over the seeds", found.describe()))
    median = median_interval(sample(place.cell).values)
    lines.append(_line(median.estimate, median.low, median.high, "median over the seeds", median.describe()))
    return Curve(place, [int(k) for k in place.cell.rounds], tuple(lines))


def _line(line: Any, low: Any, high: Any, what: str, how: str) -> Line:
    return Line([_short(v) for v in line], [_end(v) for v in low], [_end(v) for v in high], what, how)


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _end(value: float) -> float | None:
    return _short(value) if np.isfinite(value) else None


def is_log_spaced(curves: list[Curve]) -> bool:
    """Whether most records lie in a small part of the rounds, as those with logarithmic spacing do."""
    rounds = max((c.rounds for c in curves), key=len)
    return len(rounds) > 4 and rounds[len(rounds) // 2] < rounds[-1] / 8


def is_spread(curves: list[Curve]) -> bool:
    """Whether a linear axis would hide something: growth over early records, or the smallest final regret."""
    final = [c.views[0].line[-1] for c in curves if c.views[0].line[-1] > 0]
    return is_log_spaced(curves) or (len(final) > 1 and max(final) > 100 * min(final))
