"""A table: for the terminal, as CSV, LaTeX and Markdown, its digits chosen by the uncertainty."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import re
import textwrap
import unicodedata
from typing import Any, Literal

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.captions import visible
from jaxvar.analysis.intervals import Interval
from jaxvar.listing import escape

Format = Literal["text", "csv", "latex", "markdown"]
Kind = Literal["text", "number", "half", "ends"]
WIDTH = 120  # of captions in text


@dataclasses.dataclass(frozen=True)
class Column:
    """A column: text, numbers, or intervals shown as ``mean ± half width`` or as ``estimate [low, high]``."""

    title: str
    kind: Kind = "text"


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of cells: text, a number, an :class:`jaxvar.analysis.Interval` of one number, or None for nothing."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"rows must have {len(self.columns)} cells, got {len(row)}: {row!r}")

    def to(self, form: Format) -> str:
        """Rendered, with a line break at the end."""
        forms = {"text": self.text, "csv": self.csv, "latex": self.latex, "markdown": self.markdown}
        return forms[parameters.check_choice("to", form, tuple(forms))]()

    def text(self) -> str:
        """Aligned for a terminal, below the caption."""
        titles = [visible(column.title) for column in self.columns]
        cells = [[_shown(v, c.kind) for v, c in zip(row, self.columns, strict=True)] for row in self.rows]
        widths = [max(map(_width, column)) for column in zip(titles, *cells, strict=True)]
        lines = textwrap.wrap(visible(self.caption), WIDTH)
        for row in ([titles], [["-" * w for w in widths]], cells):
            for one in row:
                parts = [_pad(v, w, c.kind) for v, w, c in zip(one, widths, self.columns, strict=True)]
                lines.append("  ".join(parts).rstrip())
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        """A table of GitHub's Markdown below the caption; all text is escaped."""
        lines = [_marked_down(visible(self.caption)), ""]
        lines += ["| " + " | ".join(_marked_down(visible(column.title)) for column in self.columns) + " |"]
        lines += ["|" + "|".join("---" if column.kind == "text" else "---:" for column in self.columns) + "|"]
        for row in self.rows:
            cells = (_marked_down(_shown(v, c.kind)) for v, c in zip(row, self.columns, strict=True))
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """A header and all digits; an interval has three columns, and what is not there is empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        header = []
        for column in self.columns:
            wide = column.kind in ("half", "ends")
            header += [column.title, f"{column.title} low", f"{column.title} high"] if wide else [column.title]
        writer.writerow(header)
        for row in self.rows:
            line: list[Any] = []
            for value, column in zip(row, self.columns, strict=True):
                if column.kind in ("half", "ends"):
                    line += ["", "", ""] if value is None else [_digits(x) for x in _ends(value)]
                else:
                    line.append("" if value is None else value if isinstance(value, str) else _digits(value))
            writer.writerow(line)
        return out.getvalue()

    def latex(self) -> str:
        """A floating table that needs the package booktabs; all text is escaped."""
        kinds = "".join("l" if column.kind == "text" else "r" for column in self.columns)
        titles = " & ".join(_escaped(column.title) for column in self.columns)
        lines = [
            r"\begin{table}",
            rf"\caption{{{_escaped(self.caption)}}}",
            r"\centering",
            rf"\begin{{tabular}}{{{kinds}}}",
            r"\toprule",
            rf"{titles} \\",
            r"\midrule",
        ]
        for row in self.rows:
            cells = [_latex(v, c.kind) for v, c in zip(row, self.columns, strict=True)]
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def _ends(value: Interval) -> tuple[float, float, float]:
    return float(value.estimate), float(value.low), float(value.high)


def _digits(value: Any) -> str:
    """All digits of a number, as short as they can be."""
    return repr(value.item() if isinstance(value, np.generic | np.ndarray) else value)


def decimals(uncertainty: float, value: float = 0.0) -> int:
    """Decimal places that show two significant digits of an uncertainty; without one, three of the value.

    An uncertainty that is lost in the rounding of the value is none.
    """
    if not math.isfinite(uncertainty) or uncertainty <= 1e-12 * abs(value):
        size, digits = abs(value), 3
    else:
        size, digits = uncertainty, 2
    if size == 0 or not math.isfinite(size):
        return 0
    return max(0, min(12, digits - 1 - math.floor(math.log10(float(f"{size:.{digits - 1}e}")))))


def _parts(value: Any, kind: Kind) -> tuple[str, ...]:
    """The numbers of a cell, rounded: one, mean and half width, or estimate, low and high."""
    if kind == "number":
        return (f"{value:,}" if isinstance(value, int | np.integer) else f"{value:,.{decimals(0.0, value)}f}",)
    estimate, low, high = _ends(value)
    half = (high - low) / 2
    places = decimals(half, estimate)
    shown = (estimate, half) if kind == "half" else (estimate, low, high)
    return tuple("-∞" if x == -math.inf else "∞" if x == math.inf else f"{x:,.{places}f}" for x in shown)


def _shown(value: Any, kind: Kind) -> str:
    """A cell in text."""
    if value is None:
        return ""
    if kind == "text":
        return visible(str(value))
    parts = _parts(value, kind)
    return {"number": "{}", "half": "{} ± {}", "ends": "{} [{}, {}]"}[kind].format(*parts)


def _latex(value: Any, kind: Kind) -> str:
    """A cell in LaTeX; braces around a comma keep it from being set as punctuation."""
    if value is None:
        return "--"
    if kind == "text":
        return _escaped(str(value))
    parts = [part.replace(",", "{,}").replace("∞", r"\infty") for part in _parts(value, kind)]
    return {"number": "${}$", "half": r"${} \pm {}$", "ends": "${}$ $[{}, {}]$"}[kind].format(*parts)


def _escaped(text: str) -> str:
    return escape(visible(text)).replace("±", r"$\pm$")


def _marked_down(text: str) -> str:
    """Text in which Markdown sees nothing of its own."""
    return re.sub(r"([\\`*_{}\[\]<>$|])", r"\\\1", text)


def _width(text: str) -> int:
    """Columns that a terminal takes for it."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _pad(text: str, width: int, kind: Kind) -> str:
    space = " " * (width - _width(text))
    return text + space if kind == "text" else space + text
