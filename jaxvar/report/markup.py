"""The building blocks of pages: escaped HTML elements, sortable tables, and numbers as text.

Every string is escaped unless it is :class:`Html` already.
"""

from __future__ import annotations

import dataclasses
import html
import json
import math
from collections.abc import Iterable, Sequence
from typing import Literal

from jaxvar.analysis.captions import decimals

_CONTROLS = {c: "\N{REPLACEMENT CHARACTER}" for c in [*range(9), 11, 12, *range(14, 32), 127, *range(0xD800, 0xE000)]}
_MANY_ROWS = 12  # larger tables can be filtered by environment setting


class Html(str):
    """Markup that needs no escaping."""

    __slots__ = ()


def clean(value: str) -> str:
    """Replace the characters that are not allowed in a page."""
    return value.translate(_CONTROLS)


def text(value: str) -> Html:
    """Escape ``value``, unless it is markup already."""
    return value if isinstance(value, Html) else Html(html.escape(clean(value)))


def join(parts: Iterable[str], between: str = "") -> Html:
    """Join texts and markup, with ``between`` between them."""
    return Html(text(between).join(map(text, parts)))


def tag(name: str, /, *children: str, **attributes: str | float | None) -> Html:
    """Return ``<name attributes>children</name>``.

    Attributes that are ``None`` or ``False`` are left out, and ``True`` gives the bare name. ``class_`` stands for
    ``class``; other underscores become hyphens.
    """
    given = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        given.append(f" {key}" if value is True else f' {key}="{text(str(value))}"')
    return Html(f"<{name}{''.join(given)}>{join(children)}</{name}>")


def label(value: str) -> Html:
    """Return a name chosen by the user, isolated so that right-to-left text in it does not affect its neighbours."""
    return tag("bdi", value)


def embed(data: object) -> Html:
    """Return data as JSON for a ``<script>`` element, with the special characters of HTML escaped."""
    written = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Html(written.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


@dataclasses.dataclass(frozen=True)
class Column:
    """A column's heading, the unit below it, and the kind of its entries."""

    heading: str
    unit: str = ""
    kind: Literal["name", "number", "bars"] = "number"


@dataclasses.dataclass(frozen=True)
class Entry:
    """The text of an entry, and the number to sort it by: ``None`` sorts by the text, NaN sorts last."""

    shown: str
    order: float | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """A row's entries, and the index of its environment setting."""

    setting: int
    entries: Sequence[Entry]


MISSING = Entry("\N{EN DASH}", math.nan)


def name(value: str) -> Entry:
    """Return an entry that holds a name chosen by the user."""
    return Entry(label(value))


def table(
    key: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    settings: Sequence[str],
    kind: str = "Environment",
) -> Html:
    """Return a table that scrolls by itself if it is wider than the page.

    The page's script makes it sortable, and lets readers filter long tables by setting.

    Args:
      key: id of the table.
      caption: caption of the table.
      columns: columns of the table.
      rows: rows of the table.
      settings: names of all settings; rows refer to them by index.
      kind: what the settings belong to.
    """
    heading = [
        tag(
            "th",
            tag("span", column.heading, class_="head"),
            tag("span", column.unit, class_="unit") if column.unit else Html(),
            scope="col",
            class_=column.kind,
            data_fixed=column.kind == "bars",
        )
        for column in columns
    ]
    body = []
    for i, row in enumerate(rows):
        entries = []
        for column, entry in zip(columns, row.entries, strict=True):
            order = None if entry.order is None else "" if math.isnan(entry.order) else f"{entry.order:.9g}"
            entries.append(tag("td", entry.shown, class_=column.kind, data_sort=order))
        is_again = i > 0 and rows[i - 1].setting == row.setting
        body.append(tag("tr", *entries, class_="again" if is_again else None, data_setting=row.setting))
    parts = [tag("caption", tag("span", caption)), tag("thead", tag("tr", *heading)), tag("tbody", *body)]
    drawn = scrolling(tag("table", *parts, class_="sortable", id=key), caption)
    used = sorted({row.setting for row in rows})
    if len(rows) <= _MANY_ROWS or len(used) == 1:
        return drawn
    options = [tag("option", "all", value=""), *(tag("option", settings[i], value=i) for i in used)]
    choice = tag("label", f"{kind} ", select("setting", options))
    return join([tag("form", choice, class_="controls filter", data_table=key, hidden=True), drawn])


def scrolling(content: Html, name: str) -> Html:
    """Return a region that scrolls sideways if its content is wider than the page."""
    return tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=name)


def select(name: str, options: Sequence[Html]) -> Html:
    """Return a list to choose from."""
    return tag("select", *options, name=name, autocomplete="off")


def plain(value: float, places: int = 0) -> str:
    """Return ``value`` with ``places`` decimal places and commas between thousands."""
    return f"{round(value, places) + 0.0:,.{places}f}".replace("-", "\N{MINUS SIGN}")  # no minus before a zero


def around(value: float, half: float) -> str:
    """Return a value and the half width of its symmetric interval: ``1,235 ± 12``."""
    places = decimals(half, value)
    return f"{plain(value, places)} ± {plain(half, places)}"


def between(low: float, high: float, places: int) -> str:
    """Return the two ends of an interval: ``[0.5, 1.2]``."""
    return f"[{plain(low, places)}, {plain(high, places)}]"


def short(value: float) -> str:
    """Return three digits of a positive number with the suffix k, M or G: ``1.23 k``."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """Return a time in its largest units: ``2 h 1 min``."""
    if seconds < 60:
        return f"{seconds:#.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
