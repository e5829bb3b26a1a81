"""Numbers as text, with as many digits as the tables of a study have."""

from __future__ import annotations

from jaxvar.tables.render import decimals

_MINUS = "\N{MINUS SIGN}"


def plain(value: float, places: int = 0) -> str:
    """``value`` with so many decimal places, and with commas between thousands."""
    return f"{round(value, places) + 0.0:,.{places}f}".replace("-", _MINUS)  # no minus before a zero


def around(value: float, half: float) -> str:
    """A value and the half width of its symmetric interval."""
    places = decimals(half, value)
    return f"{plain(value, places)} ± {plain(half, places)}"


def between(low: float, high: float, places: int) -> str:
    """An interval by its ends."""
    return f"[{plain(low, places)}, {plain(high, places)}]"


def short(value: float) -> str:
    """Three digits of a positive number, with the letters that speeds are told in."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """A time in its largest units."""
    if seconds < 60:
        return f"{seconds:#.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
