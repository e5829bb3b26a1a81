"""Tables of the page: plain HTML that the page's script makes sortable, and narrows to one environment setting."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

from jaxvar.report.markup import Html, join, label, tag

_MANY_ROWS = 12  # from here on a table can be narrowed to one setting


@dataclasses.dataclass(frozen=True)
class Column:
    """What stands in a column: its heading, its unit, and how it is set."""

    heading: str
    unit: str = ""
    kind: Literal["name", "number", "bars"] = "number"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One entry: what is shown, and the number it is sorted by (text by itself if ``None``, last if NaN)."""

    shown: str
    order: float | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """One row, and the number of the environment setting it belongs to."""

    setting: int
    entries: Sequence[Entry]


MISSING = Entry("\N{EN DASH}", math.nan)


def name(value: str) -> Entry:
    """An entry that is a label."""
    return Entry(label(value))


def table(
    key: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    settings: Sequence[str],
    kind: str = "Environment",
) -> Html:
    """A table that scrolls by itself where it is wider than the page.

    ``key`` is its id, ``settings`` all labels, and ``kind`` what they are of.
    """
    heading = tag("tr", *(_heading(column) for column in columns))
    body = []
    for i, row in enumerate(rows):
        entries = (_entry(c, e) for c, e in zip(columns, row.entries, strict=True))
        is_again = i > 0 and rows[i - 1].setting == row.setting
        body.append(tag("tr", *entries, class_="again" if is_again else None, data_setting=row.setting))
    drawn = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", heading),
        tag("tbody", *body),
        class_="sortable",
        id=key,
    )
    used = sorted({row.setting for row in rows})
    narrow = (
        _filter(key, kind, [(i, settings[i]) for i in used]) if len(rows) > _MANY_ROWS and len(used) > 1 else Html()
    )
    return join([narrow, tag("div", drawn, class_="scroll", tabindex=0, role="region", aria_label=caption)])


def _heading(column: Column) -> Html:
    unit = tag("span", column.unit, class_="unit") if column.unit else Html()
    head = tag("span", column.heading, class_="head")
    return tag("th", head, unit, scope="col", class_=column.kind, data_fixed=column.kind == "bars")


def _entry(column: Column, entry: Entry) -> Html:
    order = None if entry.order is None else "" if math.isnan(entry.order) else f"{entry.order:.9g}"
    return tag("td", entry.shown, class_=column.kind, data_sort=order)


def _filter(key: str, kind: str, settings: Sequence[tuple[int, str]]) -> Html:
    options = [tag("option", "all", value=""), *(tag("option", s, value=i) for i, s in settings)]
    choice = tag("label", f"{kind} ", tag("select", *options, name="setting", autocomplete="off"))
    return tag("form", choice, class_="controls filter", data_table=key, hidden=True)
