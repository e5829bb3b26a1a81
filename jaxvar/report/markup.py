"""HTML that cannot be broken by what it says: every string is escaped unless it is :class:`Html` already."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

_CONTROLS = {c: "\N{REPLACEMENT CHARACTER}" for c in [*range(9), 11, 12, *range(14, 32), 127, *range(0xD800, 0xE000)]}


class Html(str):
    """Markup, made by the functions below."""

    __slots__ = ()


def clean(value: str) -> str:
    """``value`` without characters that no page can hold."""
    return value.translate(_CONTROLS)


def text(value: str) -> Html:
    """``value`` as text, escaped."""
    return value if isinstance(value, Html) else Html(html.escape(clean(value)))


def join(parts: Iterable[str], between: str = "") -> Html:
    """Several pieces in a row."""
    return Html(text(between).join(map(text, parts)))


def tag(name: str, /, *children: str, **attributes: Any) -> Html:
    """``<name attributes>children</name>``.

    Attributes that are ``None`` or ``False`` are left out, ``True`` gives the bare name; ``class_`` is ``class``, and
    other underscores are hyphens.
    """
    given = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        given.append(f" {key}" if value is True else f' {key}="{text(str(value))}"')
    return Html(f"<{name}{''.join(given)}>{join(children)}</{name}>")


def label(value: str) -> Html:
    """A name that a user chose: what it holds of right-to-left text does not reach its neighbours."""
    return tag("bdi", value)


def embed(data: Any) -> Html:
    """JSON for a ``<script>`` element, in ASCII and with nothing that a parser of HTML could take for its own."""
    written = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Html(written.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
