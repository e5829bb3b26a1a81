"""Which layers learned: stacked bars, with their numbers beside them."""

from __future__ import annotations

from jaxvar.analysis.occupancy import occupancy
from jaxvar.report.digits import plain
from jaxvar.report.grid import Grid
from jaxvar.report.markup import Html, tag
from jaxvar.report.table import Column, Entry, Row, name, table

_SHADES = 7  # classes of the style sheet; deeper layers share the last


def section(grid: Grid) -> Html:
    """The section; empty where layers were not recorded."""
    rows = []
    deepest = 0
    for p in grid.recorded("layer_rounds"):
        found = occupancy(p.cell)
        deepest = max(deepest, found.deepest)
        shares = [float(v) for v in found.final.estimate]
        mean = sum(layer * share for layer, share in enumerate(shares))
        entries = [
            name(grid.settings[p.setting]),
            name(grid.curves[p.curve]),
            Entry(_bar(shares)),
            Entry(" / ".join(plain(100 * share, 1) for share in shares), mean),
            Entry(str(found.deepest), found.deepest),
        ]
        rows.append(Row(p.setting, entries))
    if not rows:
        return Html()
    columns = [
        Column("Environment", kind="name"),
        Column("Algorithm", kind="name"),
        Column("Layers", "share", kind="bars"),
        Column("Shares", "%, nothing learned / layer 1 / layer 2 / ..."),
        Column("Deepest layer", "of any seed"),
    ]
    counted = "rounds" if grid.result.unit == "round" else "steps"
    caption = f"Share of all {counted} that ended in each layer, mean over the seeds."
    return tag(
        "section",
        tag("h2", "Layers"),
        _key(deepest),
        table("layers-table", caption, columns, rows, grid.settings),
        id="layers",
    )


def _shade(layer: int) -> str:
    return f"layer-{min(layer, _SHADES)}"


def _bar(shares: list[float]) -> Html:
    parts, start = [], 0.0
    for layer, share in enumerate(shares):
        width = 100 * share
        told = tag("title", f"{_name(layer)}: {plain(width, 1)} %")
        parts.append(tag("rect", told, class_=_shade(layer), x=f"{start:.3f}%", width=f"{width:.3f}%", height="100%"))
        start += width
    return tag("svg", *parts, aria_hidden="true")


def _name(layer: int) -> str:
    return f"layer {layer}" if layer else "nothing learned"


def _key(deepest: int) -> Html:
    """What the shades mean."""
    items = []
    for layer in range(min(deepest, _SHADES) + 1):
        square = tag("rect", class_=_shade(layer), width=14, height=12)
        shown = _name(layer) + (" and deeper" if layer == _SHADES < deepest else "")
        items.append(tag("li", tag("svg", square, width=14, height=12, aria_hidden="true"), shown))
    return tag("ul", *items, class_="legend")
