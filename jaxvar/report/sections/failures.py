"""Seeds that failed, by cell and cause."""

from __future__ import annotations

import numpy as np

from jaxvar.report.digits import plain
from jaxvar.report.grid import Grid, Place
from jaxvar.report.markup import Html, tag
from jaxvar.report.table import Column, Entry, Row, name, table
from jaxvar.status import describe

_LISTED = 12  # seeds that are named per cell and cause


def section(grid: Grid) -> Html:
    """The section."""
    rows = [row for place in grid.places for row in _rows(grid, place)]
    if not rows:
        return tag("section", tag("h2", "Failed seeds"), tag("p", "None."), id="failures")
    columns = [
        Column("Environment", kind="name"),
        Column("Algorithm", kind="name"),
        Column("Cause", kind="name"),
        Column("Failed", "seeds"),
        Column("Which", f"seed (first {grid.result.unit} of the failure)", kind="name"),
    ]
    caption = "Seeds whose run reported a failure; they are left out of all other numbers."
    return tag(
        "section",
        tag("h2", "Failed seeds"),
        table("failures-table", caption, columns, rows, grid.settings),
        id="failures",
    )


def _rows(grid: Grid, place: Place) -> list[Row]:
    cell = place.cell
    status = np.asarray(cell.status)
    rows = []
    for code in np.unique(status[status != 0]):
        failed = np.flatnonzero(status == code)
        which = ", ".join(f"{cell.seeds[i]} ({plain(int(cell.status_round[i]))})" for i in failed[:_LISTED])
        more = f", and {len(failed) - _LISTED:,} more" if len(failed) > _LISTED else ""
        entries = [
            name(grid.settings[place.setting]),
            name(grid.curves[place.curve]),
            Entry(describe(int(code))),
            Entry(f"{len(failed):,} of {len(status):,}", len(failed)),
            Entry(which + more),
        ]
        rows.append(Row(place.setting, entries))
    return rows
