"""What every caption says in the same words, how many seeds and which constants; and labels that stay text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from jaxvar.analysis.sample import span
from jaxvar.study.result import CellResult


def seeds_text(seeds: Iterable[int], left_out: int) -> str:
    """``256 seeds``, and how many failed ones are not among them."""
    number = span(seeds)
    failed = f" ({left_out:,} failed and left out, in all cells)" if left_out else ""
    return f"{number} seed{'' if number == '1' else 's'}{failed}"


def constants_text(cells: Iterable[CellResult]) -> str:
    """Which algorithms have which constants: ``Constants: paper for SAVE; theorem for OFUL.``."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        found.setdefault(cell.constants, {})[cell.algorithm] = None
    if len(found) == 1:
        return f"Constants: {next(iter(found))}."
    parts = [f"{name} for {', '.join(labels)}" for name, labels in found.items()]
    return f"Constants: {'; '.join(parts)}."


_JOINERS = "\u200c\u200d"  # of letters in several scripts; they turn nothing around


def visible(text: object) -> str:
    """Text on one line, in which control and formatting characters are written out so that none acts."""
    line = " ".join(str(text).split())
    return "".join(
        f"<U+{ord(c):04X}>" if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in _JOINERS else c for c in line
    )
