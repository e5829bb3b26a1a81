"""The report's sections with a table each: final regret, exponents, coverage, layers, wall time and failed seeds."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from jaxvar.analysis.captions import decimals, percent
from jaxvar.analysis.intervals import Interval, mean_interval, median_interval
from jaxvar.analysis.paired import Paired, paired, reference_of
from jaxvar.analysis.panels import Grid, Place
from jaxvar.analysis.slopes import Slope, slope_in_rounds, slopes_in, swept
from jaxvar.analysis.summaries import coverage, occupancy, sample, speed
from jaxvar.report.markup import (
    MISSING,
    Column,
    Entry,
    Html,
    Row,
    around,
    between,
    duration,
    join,
    label,
    name,
    plain,
    short,
    table,
    tag,
)
from jaxvar.status import describe

_LEVEL = percent(0.95)
_LATE = 10  # exponents in the rounds leave out the first tenth of the rounds
_SHADES = 7  # classes of the style sheet; deeper layers share the last one
_LISTED_SEEDS = 12  # failed seeds that are listed per cell and cause
_LISTED_REASONS = 6
_WHO = (Column("Environment", kind="name"), Column("Algorithm", kind="name"))


class Section(NamedTuple):
    """A section of the page: its id, its heading and what follows."""

    key: str
    heading: str
    parts: list[Html]

    def html(self) -> Html:
        """Return the section as markup."""
        return tag("section", tag("h2", self.heading), *self.parts, id=self.key)


def note(*parts: str) -> Html:
    """Return a paragraph of explanation."""
    return tag("p", *parts, class_="note")


def final_section(grid: Grid) -> Section | None:
    """Show the regret at the last round: means, medians and paired differences; None if it was not recorded."""
    places = grid.recorded("regret")
    if not places:
        return None
    means = {id(p): mean_interval(sample(p.cell).final) for p in places}
    compared, reasons = _compared(grid, places)
    largest: dict[int, float] = {}  # of each environment setting: the end of its axis
    for p in places:
        largest[p.setting] = max(float(means[id(p)].high), largest.get(p.setting, 0.0))
    rows = []
    for p in places:
        played = len(p.cell.seeds)
        entries = [
            name(grid.settings[p.setting]),
            Entry(join([label(grid.curves[p.curve]), tag("span", label(p.cell.constants), class_="unit")])),
            Entry(plain(played) if p.well == played else f"{plain(p.well)} of {plain(played)}", p.well),
            _symmetric(means[id(p)]),
            Entry(_whisker(means[id(p)], largest[p.setting])),
            _median(p),
        ]
        if compared:
            entries += _difference(compared.get(id(p)))
        rows.append(Row(p.setting, entries))
    columns = [
        Column("Environment", kind="name"),
        Column("Algorithm", "constants", kind="name"),
        Column("Seeds"),
        Column("Mean regret", f"± {_LEVEL} t interval"),
        Column("Mean regret", "and interval, from 0", kind="bars"),
        Column("Median regret", f"[{_LEVEL} by order statistics]"),
    ]
    explained = ["Failed seeds are left out. Regret adds up gaps between means, not noisy rewards."]
    if compared:
        columns += [
            Column("Paired difference", f"± {_LEVEL} t interval"),
            Column("Seeds with less", f"% [{_LEVEL} Clopper-Pearson]"),
        ]
        explained += [
            " A paired difference is the mean over the seeds of the algorithm's regret minus that of ",
            label(grid.result.reference or ""),
            " in the same seed. Below zero, the algorithm did better. Seeds with less are the seeds in which it did.",
        ]
    caption = f"Cumulative pseudo-regret after the last {grid.result.unit}."
    shown = table("final-table", caption, columns, rows, grid.settings)
    return Section("final", "Final regret", [note(*explained), shown, *map(note, reasons)])


def _compared(grid: Grid, places: list[Place]) -> tuple[dict[int, Paired], list[Html]]:
    """Return the paired differences by ``id(place)``, and the reasons why others could not be computed."""
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


def _symmetric(found: Interval) -> Entry:
    """Return the mean with the half width of its interval."""
    return Entry(around(float(found.estimate), float(found.half)), float(found.estimate))


def _median(place: Place) -> Entry:
    """Return the median with its interval."""
    found = median_interval(sample(place.cell).final)
    estimate, half = float(found.estimate), float(found.half)
    places = decimals(half, estimate)
    ends = between(float(found.low), float(found.high), places) if math.isfinite(half) else "[none]"  # too few seeds
    return Entry(f"{plain(estimate, places)} {ends}", estimate)


def _difference(found: Paired | None) -> list[Entry]:
    """Return the paired difference and the share of seeds with less."""
    if found is None:
        return [MISSING, MISSING]
    wins = found.wins
    ends = between(100 * float(wins.low), 100 * float(wins.high), 0)
    return [_symmetric(found.difference), Entry(f"{plain(100 * float(wins.estimate))} {ends}", float(wins.estimate))]


def _whisker(found: Interval, largest: float) -> Html:
    """Draw a dot with its interval, on an axis from 0 to the largest value of the same environment setting."""
    scale = 96 / largest if largest > 0 else 0.0
    at, low, high = (f"{2 + scale * max(0.0, float(v)):.2f}%" for v in (found.estimate, found.low, found.high))
    return tag(
        "svg",
        tag("line", class_="grid", x1="2%", x2="98%", y1="50%", y2="50%"),
        tag("line", class_="whisker", x1=low, x2=high, y1="50%", y2="50%"),
        tag("circle", class_="point", cx=at, cy="50%", r=3.5),
        aria_hidden="true",
    )


def exponents_section(grid: Grid) -> Section | None:
    """Show log-log slopes of the regret in the rounds and in every swept number; None if it was not recorded."""
    places = grid.recorded("regret")
    if not places:
        return None
    unit = grid.result.unit
    columns = [*_WHO, Column("Exponent", f"[{_LEVEL} bootstrap percentile]"), Column("Points", "used of all")]
    late = [
        _row(grid, p, *_exponent(slope_in_rounds(p.cell, burn_in=max(1, p.cell.num_rounds // _LATE)))) for p in places
    ]
    parts = [table("rounds-table", f"Exponent of the mean regret in {unit}s.", columns, late, grid.settings)]
    usable = dataclasses.replace(grid.result, cells=tuple(p.cell for p in places))
    for parameter in swept(usable):
        slopes = slopes_in(usable, parameter)
        others = list(dict.fromkeys(s.environment for s in slopes))  # environments without the parameter
        rows = [
            Row(others.index(s.environment), [name(s.environment), name(s.algorithm), *_exponent(s)]) for s in slopes
        ]
        caption = f"Exponent of the mean final regret in {parameter}."
        parts.append(table(f"slope-table-{len(parts)}", caption, columns, rows, others))
        reasons = list(dict.fromkeys(reason for slope in slopes for reason in slope.excluded))  # each reason once
        if reasons:
            more = f"; and {len(reasons) - _LISTED_REASONS} more" if len(reasons) > _LISTED_REASONS else ""
            parts.append(note("Left out: ", label("; ".join(reasons[:_LISTED_REASONS])), more + "."))
    explained = (
        f"Least-squares slopes on logarithmic axes. The slope in {unit}s uses the recorded {unit}s after the first "
        "tenth; the slope in a swept parameter uses all its values. A slope describes this range. It is not an "
        "asymptotic rate."
    )
    return Section("exponents", "Exponents", [note(explained), *parts])


def _exponent(found: Slope) -> list[Entry]:
    """Return the exponent with its interval, and the number of points used."""
    points = Entry(f"{int(found.used.sum())} of {len(found.used)}", int(found.used.sum()))
    if found.slope is None:
        return [MISSING, points]
    low, high, value = float(found.slope.low), float(found.slope.high), float(found.slope.estimate)
    places = min(3, decimals((high - low) / 2, value))
    return [Entry(f"{plain(value, places)} {between(low, high, places)}", value), points]


def coverage_section(grid: Grid) -> Section | None:
    """Show how often the confidence event held; None if it was not recorded."""
    rows = []
    for p in grid.recorded("confidence"):
        found = coverage(p.cell)
        share, low, high = (float(v) for v in (found.share.estimate, found.share.low, found.share.high))
        layers = ", ".join(plain(100 * float(v), 1) for v in found.by_layer)
        entries = [
            Entry(f"{plain(found.held)} of {plain(found.seeds)}", found.held),
            Entry(f"{plain(100 * share, 1)} {between(100 * low, 100 * high, 1)}", share),
            Entry(layers, float(found.by_layer.min())),
        ]
        rows.append(_row(grid, p, *entries))
    if not rows:
        return None
    columns = [
        *_WHO,
        Column("Held", "seeds"),
        Column("Coverage", f"% of seeds [{_LEVEL} Clopper-Pearson]"),
        Column("Layer by layer", "% of seeds, from layer 1"),
    ]
    explained = (
        "The confidence event holds in a seed if the true parameter lies in the confidence set of every layer after "
        f"every {grid.result.unit}."
    )
    caption = "Seeds in which the confidence event held to the end."
    shown = table("coverage-table", caption, columns, rows, grid.settings)
    return Section("coverage", "Coverage", [note(explained), shown])


def layers_section(grid: Grid) -> Section | None:
    """Show the share of rounds in each layer as stacked bars and numbers; None if it was not recorded."""
    rows = []
    deepest = 0
    for p in grid.recorded("layer_rounds"):
        found = occupancy(p.cell)
        deepest = max(deepest, found.deepest)
        shares = [float(v) for v in found.final.estimate]
        bars, start = [], 0.0
        for layer, share in enumerate(shares):
            title = tag("title", f"{_layer_name(layer)}: {plain(100 * share, 1)} %")
            place = {"x": f"{start:.3f}%", "width": f"{100 * share:.3f}%", "height": "100%"}
            bars.append(tag("rect", title, class_=_shade(layer), **place))
            start += 100 * share
        entries = [
            Entry(tag("svg", *bars, aria_hidden="true")),
            Entry(
                " / ".join(plain(100 * share, 1) for share in shares),
                sum(layer * share for layer, share in enumerate(shares)),
            ),
            Entry(str(found.deepest), found.deepest),
        ]
        rows.append(_row(grid, p, *entries))
    if not rows:
        return None
    legend = []
    for layer in range(min(deepest, _SHADES) + 1):
        square = tag("rect", class_=_shade(layer), width=14, height=12)
        shown = _layer_name(layer) + (" and deeper" if layer == _SHADES < deepest else "")
        legend.append(tag("li", tag("svg", square, width=14, height=12, aria_hidden="true"), shown))
    columns = [
        *_WHO,
        Column("Layers", "share", kind="bars"),
        Column("Shares", "%, nothing learned / layer 1 / layer 2 / ..."),
        Column("Deepest layer", "of any seed"),
    ]
    counted = "rounds" if grid.result.unit == "round" else "steps"
    caption = f"Share of all {counted} that ended in each layer, mean over the seeds."
    bars_table = table("layers-table", caption, columns, rows, grid.settings)
    return Section("layers", "Layers", [tag("ul", *legend, class_="legend"), bars_table])


def _shade(layer: int) -> str:
    return f"layer-{min(layer, _SHADES)}"


def _layer_name(layer: int) -> str:
    return f"layer {layer}" if layer else "nothing learned"


def speed_section(grid: Grid) -> Section | None:
    """Show the wall time of each cell; None if there are no cells."""
    rows = []
    for p in grid.places:
        found = speed(p.cell)
        rate = found.seed_rounds_per_second
        rows.append(
            _row(grid, p, Entry(duration(found.seconds), found.seconds), Entry(short(rate), rate) if rate else MISSING)
        )
    if not rows:
        return None
    unit = grid.result.unit
    columns = [*_WHO, Column("Wall time", "without compilation"), Column("Speed", f"seed-{unit}s per second")]
    caption = "Wall time of each cell, including failed seeds."
    return Section("speed", "Wall time", [table("speed-table", caption, columns, rows, grid.settings)])


def failures_section(grid: Grid) -> Section:
    """Show the failed seeds by cell and cause."""
    rows = []
    for place in grid.places:
        cell, status = place.cell, np.asarray(place.cell.status)
        for code in np.unique(status[status != 0]):
            failed = np.flatnonzero(status == code)
            listed = [f"{cell.seeds[i]} ({plain(int(cell.status_round[i]))})" for i in failed[:_LISTED_SEEDS]]
            if len(failed) > _LISTED_SEEDS:
                listed.append(f"and {len(failed) - _LISTED_SEEDS:,} more")
            count = Entry(f"{len(failed):,} of {len(status):,}", len(failed))
            rows.append(_row(grid, place, Entry(describe(int(code))), count, Entry(", ".join(listed))))
    if not rows:
        return Section("failures", "Failed seeds", [tag("p", "None.")])
    columns = [
        *_WHO,
        Column("Cause", kind="name"),
        Column("Failed", "seeds"),
        Column("Which", f"seed (first {grid.result.unit} of the failure)", kind="name"),
    ]
    caption = "Seeds whose run reported a failure; they are left out of all other numbers."
    return Section("failures", "Failed seeds", [table("failures-table", caption, columns, rows, grid.settings)])


def _row(grid: Grid, place: Place, *entries: Entry) -> Row:
    """Return a row that starts with the names of the cell's environment and algorithm."""
    return Row(place.setting, [name(grid.settings[place.setting]), name(grid.curves[place.curve]), *entries])
