"""Pages from the templates in ``assets``, and numbers as text.

Templates escape every value that they are given, and refuse names that they are not given.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import math
from pathlib import Path
from typing import TYPE_CHECKING

from jaxvar import __version__
from jaxvar.analysis.captions import decimals

if TYPE_CHECKING:
    import jinja2

_ASSETS = importlib.resources.files("jaxvar.report") / "assets"
_CONTROLS = {c: "\N{REPLACEMENT CHARACTER}" for c in [*range(9), 11, 12, *range(14, 32), 127, *range(0xD800, 0xE000)]}


def clean(value: str) -> str:
    """Replace the characters that are not allowed in a page."""
    return value.translate(_CONTROLS)


def render(template: str, scripts: tuple[str, ...], own: Path | None = None, /, **content: object) -> str:
    """Return a whole page with our style sheet and the named ``scripts`` inside: it loads nothing else.

    ``own`` is a folder with a template of one's own, and with the script and the style sheet of the same name.
    """
    import jinja2

    style, script, made = _asset("report.css"), "".join(map(_asset, scripts)), templates()
    if own is not None:
        style += (own / template).with_suffix(".css").read_text("utf-8")
        script += (own / template).with_suffix(".js").read_text("utf-8")
        assert made.loader is not None
        made = made.overlay(loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(own), made.loader]))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    inside = {"version": __version__, "style": style, "script": script, "policy": policy}
    return clean(made.get_template(template).render(content, **inside))


@functools.cache
def templates() -> jinja2.Environment:
    """Return the templates, which know the functions below."""
    import jinja2  # only pages need it

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("jaxvar.report", "assets"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    made.globals.update({f.__name__: f for f in (plain, around, between, ends, short, duration, count)})
    return made


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def _hash(source: str) -> str:
    """Return the hash by which the browser recognises a style sheet or script of ours."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode('utf-8')).digest()).decode()}'"


def plain(value: float, places: int = 0) -> str:
    """Return ``value`` with ``places`` decimal places and commas between thousands."""
    return f"{round(float(value), places) + 0.0:,.{places}f}".replace("-", "\N{MINUS SIGN}")  # no minus before a zero


def around(value: float, half: float) -> str:
    """Return a value and the half width of its symmetric interval: ``1,235 ± 12``."""
    places = decimals(half, value)
    return f"{plain(value, places)} ± {plain(half, places)}"


def between(low: float, high: float, places: int) -> str:
    """Return the two ends of an interval: ``[0.5, 1.2]``."""
    return f"[{plain(low, places)}, {plain(high, places)}]"


def ends(value: float, low: float, high: float, places: int | None = None, most: int = 12) -> str:
    """Return a value with the ends of its interval: ``0.81 [0.50, 1.20]``.

    If ``places`` is not given, the width of the interval sets the decimal places, up to ``most``.
    """
    if places is None:
        places = min(most, decimals((high - low) / 2, value))
    shown = between(low, high, places) if math.isfinite(high - low) else "[none]"  # too few seeds
    return f"{plain(value, places)} {shown}"


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


def count(number: int, noun: str) -> str:
    """Return a number of things: ``1 cell``, ``1,200 cells``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
