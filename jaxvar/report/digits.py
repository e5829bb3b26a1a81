"""Numbers with as many digits as their uncertainty leaves them."""

from __future__ import annotations

import math

_MINUS = "\N{MINUS SIGN}"


def plain(value: float, decimals: int = 0) -> str:
    """``value`` rounded to ``decimals`` (below zero: to tens, hundreds, ...), with commas between thousands."""
    rounded = round(value, decimals)
    return f"{rounded + 0.0:,.{max(0, decimals)}f}".replace("-", _MINUS)


def decimals_of(half: float) -> int:
    """Decimals that show two digits of an interval's half width."""
    return 1 - math.floor(math.log10(half)) if half > 0 and math.isfinite(half) else 2


def around(value: float, half: float) -> str:
    """A value and the half width of its symmetric interval."""
    decimals = decimals_of(half)
    return f"{plain(value, decimals)} ± {plain(half, decimals)}"


def between(low: float, high: float, decimals: int) -> str:
    """An interval by its ends."""
    return f"[{plain(low, decimals)}, {plain(high, decimals)}]"


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
