"""How often the confidence event held."""

from __future__ import annotations

from jaxvar.analysis.coverage import coverage
from jaxvar.analysis.sample import percent
from jaxvar.report.digits import between, plain
from jaxvar.report.grid import Grid
from jaxvar.report.markup import Html, tag
from jaxvar.report.table import Column, Entry, Row, name, table


def section(grid: Grid) -> Html:
    """The section; empty where the event was not recorded."""
    rows = []
    for p in grid.recorded("confidence"):
        found = coverage(p.cell)
        share, low, high = (float(v) for v in (found.share.estimate, found.share.low, found.share.high))
        layers = ", ".join(plain(100 * float(v), 1) for v in found.by_layer)
        entries = [
            name(grid.settings[p.setting]),
            name(grid.curves[p.curve]),
            Entry(f"{plain(found.held)} of {plain(found.seeds)}", found.held),
            Entry(f"{plain(100 * share, 1)} {between(100 * low, 100 * high, 1)}", share),
            Entry(layers, float(found.by_layer.min())),
        ]
        rows.append(Row(p.setting, entries))
    if not rows:
        return Html()
    columns = [
        Column("Environment", kind="name"),
        Column("Algorithm", kind="name"),
        Column("Held", "seeds"),
        Column("Coverage", f"% of seeds [{percent(0.95)} Clopper-Pearson]"),
        Column("Layer by layer", "% of seeds, from layer 1"),
    ]
    note = "The event: the true parameter lies in the confidence set of every layer after every round of the run."
    return tag(
        "section",
        tag("h2", "Coverage"),
        tag("p", note, class_="note"),
        table("coverage-table", "Seeds in which the confidence event held to the end.", columns, rows, grid.settings),
        id="coverage",
    )
