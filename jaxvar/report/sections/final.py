"""Regret at the last round: means and medians with intervals, and paired differences to the reference."""

from __future__ import annotations

import math

from jaxvar.analysis.intervals import Interval, mean_interval, median_interval
from jaxvar.analysis.paired import Paired, paired, reference_of
from jaxvar.analysis.sample import percent, sample
from jaxvar.report.digits import around, between, plain
from jaxvar.report.grid import Grid, Place
from jaxvar.report.markup import Html, join, label, tag, text
from jaxvar.report.table import MISSING, Column, Entry, Row, name, table
from jaxvar.tables.render import decimals

_LEVEL = percent(0.95)


def section(grid: Grid) -> Html:
    """The section; empty where regret was not recorded."""
    places = grid.recorded("regret")
    if not places:
        return Html()
    means = {id(p): mean_interval(sample(p.cell).final) for p in places}
    compared, reasons = _compared(grid, places)
    largest: dict[int, float] = {}  # of each setting: where its axis ends
    for p in places:
        largest[p.setting] = max(float(means[id(p)].high), largest.get(p.setting, 0.0))
    rows = []
    for p in places:
        entries = [
            name(grid.settings[p.setting]),
            Entry(join([label(grid.curves[p.curve]), _constants(p)])),
            _seeds(p),
            _symmetric(means[id(p)]),
            Entry(_whisker(means[id(p)], largest[p.setting])),
            _median(p),
        ]
        if compared:
            entries += _difference(compared.get(id(p)))
        rows.append(Row(p.setting, entries))
    unit = grid.result.unit
    columns = [
        Column("Environment", kind="name"),
        Column("Algorithm", "constants", kind="name"),
        Column("Seeds"),
        Column("Mean regret", f"± {_LEVEL} t interval"),
        Column("Mean regret", "and interval, from 0", kind="bars"),
        Column("Median regret", f"[{_LEVEL} by order statistics]"),
    ]
    if compared:
        columns += [
            Column("Paired difference", f"± {_LEVEL} t interval"),
            Column("Seeds with less", f"% [{_LEVEL} Clopper-Pearson]"),
        ]
    caption = f"Cumulative pseudo-regret after the last {unit}."
    return tag(
        "section",
        tag("h2", "Final regret"),
        tag("p", *_explanation(grid, bool(compared)), class_="note"),
        table("final-table", caption, columns, rows, grid.settings),
        *(tag("p", reason, class_="note") for reason in reasons),
        id="final",
    )


def _compared(grid: Grid, places: list[Place]) -> tuple[dict[int, Paired], list[Html]]:
    """The differences that there are, and the reasons why others are not."""
    reference = grid.result.reference
    found: dict[int, Paired] = {}
    reasons = []
    for p in places:
        if reference is None or p.cell.algorithm == reference:
            continue
        try:
            found[id(p)] = paired(p.cell, reference_of(grid.result, p.cell, reference))
        except ValueError as reason:
            reasons.append(join(["No difference: ", label(str(reason)), "."]))
    return found, reasons


def _explanation(grid: Grid, is_compared: bool) -> list[Html]:
    always = "Seeds that failed are left out. Regret is summed from gaps between means, never from noisy rewards."
    if not is_compared or grid.result.reference is None:
        return [text(always)]
    before = " A paired difference is the mean over the seeds of an algorithm's regret minus that of "
    after = " in the same seed: below zero, the algorithm did better. Seeds with less are those where it did."
    return [text(always + before), label(grid.result.reference), text(after)]


def _constants(place: Place) -> Html:
    return tag("span", label(place.cell.constants), class_="unit")


def _seeds(place: Place) -> Entry:
    played = len(place.cell.seeds)
    return Entry(plain(played) if place.well == played else f"{plain(place.well)} of {plain(played)}", place.well)


def _symmetric(found: Interval) -> Entry:
    return Entry(around(float(found.estimate), float(found.half)), float(found.estimate))


def _median(place: Place) -> Entry:
    found = median_interval(sample(place.cell).final)
    estimate, half = float(found.estimate), float(found.half)
    places = decimals(half, estimate)
    is_known = math.isfinite(half)  # few seeds have no such interval
    ends = between(float(found.low), float(found.high), places) if is_known else "[none]"
    return Entry(f"{plain(estimate, places)} {ends}", estimate)


def _difference(found: Paired | None) -> list[Entry]:
    if found is None:
        return [MISSING, MISSING]
    wins = found.wins
    ends = between(100 * float(wins.low), 100 * float(wins.high), 0)
    share = Entry(f"{plain(100 * float(wins.estimate))} {ends}", float(wins.estimate))
    return [_symmetric(found.difference), share]


def _whisker(found: Interval, largest: float) -> Html:
    """A dot with its interval, on an axis from 0 to the largest of the same environment setting."""
    scale = 96 / largest if largest > 0 else 0.0
    at, low, high = (f"{2 + scale * max(0.0, float(v)):.2f}%" for v in (found.estimate, found.low, found.high))
    return tag(
        "svg",
        tag("line", class_="grid", x1="2%", x2="98%", y1="50%", y2="50%"),
        tag("line", class_="whisker", x1=low, x2=high, y1="50%", y2="50%"),
        tag("circle", class_="point", cx=at, cy="50%", r=3.5),
        aria_hidden="true",
    )
