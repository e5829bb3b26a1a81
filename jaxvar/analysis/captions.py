"""Names and sentences for captions, tables and messages: cells, settings, seeds, constants and rounded numbers."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping

import numpy as np

from jaxvar.study.result import CellResult

_JOINERS = "\u200c\u200d"  # join letters in several scripts, and do not change the direction of text


def value_text(value: object) -> str:
    """Return a swept value as short text."""
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def settings_text(settings: Mapping[str, object]) -> str:
    """Return swept values as ``dim = 4, noise.std = 0.1``."""
    return ", ".join(f"{name} = {value_text(value)}" for name, value in settings.items())


def named(label: str, settings: Mapping[str, object]) -> str:
    """Return a label followed by its settings, if there are any."""
    return ", ".join(filter(None, (label, settings_text(settings))))


def algorithm_name(cell: CellResult) -> str:
    """Return the algorithm's label with its swept values."""
    return named(cell.algorithm, cell.algorithm_settings)


def environment_name(cell: CellResult) -> str:
    """Return the environment's label with its swept values."""
    return named(cell.environment, cell.environment_settings)


def cell_name(cell: CellResult) -> str:
    """Return the names of algorithm and environment, for messages."""
    return f"{algorithm_name(cell)} in {environment_name(cell)}"


def span(numbers: Iterable[int]) -> str:
    """Return numbers as ``256``, or as ``250 to 256`` if they differ."""
    found = sorted(set(numbers))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def percent(level: float) -> str:
    """Return a level as ``95 %``."""
    return f"{100 * level:g} %"


def decimals(uncertainty: float, value: float = 0.0) -> int:
    """Return the decimal places that show two significant digits of an uncertainty.

    If the uncertainty is zero, infinite or lost in the rounding of ``value``, they show three digits of ``value``.
    """
    if not math.isfinite(uncertainty) or uncertainty <= 1e-12 * abs(value):
        size, digits = abs(value), 3
    else:
        size, digits = uncertainty, 2
    if size == 0 or not math.isfinite(size):
        return 0
    return max(0, min(12, digits - 1 - math.floor(math.log10(float(f"{size:.{digits - 1}e}")))))


def seeds_text(seeds: Iterable[int], left_out: int) -> str:
    """Return ``256 seeds``, followed by the number of failed seeds that were left out, if any."""
    number = span(seeds)
    failed = f" ({left_out:,} failed and left out, in all cells)" if left_out else ""
    return f"{number} seed{'' if number == '1' else 's'}{failed}"


def constants_text(cells: Iterable[CellResult]) -> str:
    """Return the constants of each algorithm: ``Constants: paper for SAVE; theorem for OFUL.``."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        found.setdefault(cell.constants, {})[cell.algorithm] = None
    if len(found) == 1:
        return f"Constants: {next(iter(found))}."
    parts = [f"{name} for {', '.join(labels)}" for name, labels in found.items()]
    return f"Constants: {'; '.join(parts)}."


def visible(text: object) -> str:
    """Return text on one line, with control and formatting characters written as ``<U+202E>``."""
    line = " ".join(str(text).split())
    return "".join(
        f"<U+{ord(c):04X}>" if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in _JOINERS else c for c in line
    )
