"""What every caption says in the same words: how many seeds, and which constants."""

from __future__ import annotations

from collections.abc import Iterable

from jaxvar.analysis.sample import span
from jaxvar.study.result import CellResult


def seeds_text(seeds: Iterable[int], left_out: int) -> str:
    """``256 seeds``, and how many failed ones are not among them."""
    number = span(seeds)
    failed = f" ({left_out:,} failed and left out, in all cells)" if left_out else ""
    return f"{number} seed{'' if number == '1' else 's'}{failed}"


def constants_text(cells: Iterable[CellResult]) -> str:
    """Which algorithms have which constants: ``Constants: paper (SAVE), theorem (OFUL).``."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        found.setdefault(cell.constants, {})[cell.algorithm] = None
    if len(found) == 1:
        return f"Constants: {next(iter(found))}."
    parts = [f"{name} ({', '.join(labels)})" for name, labels in found.items()]
    return f"Constants: {'; '.join(parts)}."
