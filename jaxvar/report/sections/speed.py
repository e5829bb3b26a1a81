"""How long the cells took."""

from __future__ import annotations

import math

from jaxvar.analysis.speed import speed
from jaxvar.report.digits import duration, short
from jaxvar.report.grid import Grid
from jaxvar.report.markup import Html, tag
from jaxvar.report.table import Column, Entry, Row, name, table


def section(grid: Grid) -> Html:
    """The section."""
    rows = []
    for p in grid.places:
        found = speed(p.cell)
        rate = found.seed_rounds_per_second
        entries = [
            name(grid.settings[p.setting]),
            name(grid.curves[p.curve]),
            Entry(duration(found.seconds), found.seconds),
            Entry(short(rate) if rate else "\N{EN DASH}", rate or math.nan),
        ]
        rows.append(Row(p.setting, entries))
    if not rows:
        return Html()
    columns = [
        Column("Environment", kind="name"),
        Column("Algorithm", kind="name"),
        Column("Wall time", "compilation left out"),
        Column("Speed", f"seed-{grid.result.unit}s per second"),
    ]
    return tag(
        "section",
        tag("h2", "Wall time"),
        table("speed-table", "Time spent playing, failed seeds included.", columns, rows, grid.settings),
        id="speed",
    )
