"""Growth exponents: log-log slopes of the regret in the rounds and in whatever numbers were swept."""

from __future__ import annotations

import dataclasses

from jaxvar.analysis.sample import percent
from jaxvar.analysis.slopes import Slope, slope_in_rounds, slopes_in, swept
from jaxvar.report.digits import between, plain
from jaxvar.report.grid import Grid
from jaxvar.report.markup import Html, label, tag
from jaxvar.report.table import MISSING, Column, Entry, Row, name, table
from jaxvar.tables.render import decimals

_LATE = 10  # the exponent in the rounds leaves out the first tenth of them


def section(grid: Grid) -> Html:
    """The section; empty where regret was not recorded."""
    places = grid.recorded("regret")
    if not places:
        return Html()
    unit = grid.result.unit
    late = [
        Row(p.setting, [name(grid.settings[p.setting]), name(grid.curves[p.curve]), *_exponent(slope)])
        for p in places
        if (slope := slope_in_rounds(p.cell, burn_in=max(1, p.cell.num_rounds // _LATE)))
    ]
    columns = [
        Column("Environment", kind="name"),
        Column("Algorithm", kind="name"),
        Column("Exponent", f"[{percent(0.95)} bootstrap percentile]"),
        Column("Points", "used of all"),
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
        key = f"slope-table-{len(parts)}"
        parts += [table(key, caption, columns, rows, others), *_excluded(slopes)]
    note = (
        f"Least-squares slopes on logarithmic axes: in {unit}s over the recorded ones after the first tenth, in a "
        "swept parameter over its values. A slope describes this range, and is no asymptotic rate."
    )
    return tag("section", tag("h2", "Exponents"), tag("p", note, class_="note"), *parts, id="exponents")


def _exponent(found: Slope) -> list[Entry]:
    points = Entry(f"{int(found.used.sum())} of {len(found.used)}", int(found.used.sum()))
    if found.slope is None:
        return [MISSING, points]
    low, high, value = float(found.slope.low), float(found.slope.high), float(found.slope.estimate)
    places = min(3, decimals((high - low) / 2, value))
    return [Entry(f"{plain(value, places)} {between(low, high, places)}", value), points]


def _excluded(slopes: tuple[Slope, ...]) -> list[Html]:
    """Each reason once: mostly they are the same for all algorithms."""
    reasons = dict.fromkeys(reason for slope in slopes for reason in slope.excluded)
    shown = list(reasons)[:6]
    more = f"; and {len(reasons) - len(shown)} more" if len(reasons) > len(shown) else ""
    return [tag("p", "Left out: ", label("; ".join(shown)), more + ".", class_="note")] if reasons else []
