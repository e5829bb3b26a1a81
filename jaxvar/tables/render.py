"""A table and its output as text, CSV, LaTeX and Markdown; the uncertainty sets the number of digits."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import re
import textwrap
import unicodedata
from pathlib import Path
from typing import Literal

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.captions import decimals, latex, visible
from jaxvar.analysis.intervals import Interval
from jaxvar.files import csv_entry, write_whole

Format = Literal["text", "csv", "latex", "markdown"]
Kind = Literal["text", "number", "half", "ends"]
Number = int | float | np.integer | np.floating
Entry = str | Number | Interval | None
WIDTH = 120  # of captions in text


@dataclasses.dataclass(frozen=True)
class Column:
    """A column: text, numbers, or intervals as ``mean ± half width`` (half) or as ``estimate [low, high]`` (ends)."""

    title: str
    kind: Kind = "text"


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of entries: text, a number, an :class:`jaxvar.analysis.Interval` of one number, or None if empty."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"rows must have {len(self.columns)} cells, got {len(row)}: {row!r}")

    def to(self, form: Format) -> str:
        """Return the table in a format, with a line break at the end."""
        forms = {"text": self.text, "csv": self.csv, "latex": self.latex, "markdown": self.markdown}
        return forms[parameters.check_choice("to", form, tuple(forms))]()

    def save(self, path: Path) -> Path:
        """Write the table as text, CSV, LaTeX or Markdown, by the ending of ``path``, whole or not at all."""
        forms = {".txt": self.text, ".csv": self.csv, ".tex": self.latex, ".md": self.markdown}
        written = forms[path.suffix]().encode()
        return write_whole(path, lambda buffer: buffer.write(written))

    def text(self) -> str:
        """Return the caption and the aligned columns, for a terminal."""
        titles = [visible(column.title) for column in self.columns]
        cells = [[_shown(v, c.kind) for v, c in zip(row, self.columns, strict=True)] for row in self.rows]
        widths = [max(map(_width, column)) for column in zip(titles, *cells, strict=True)]
        lines = textwrap.wrap(visible(self.caption), WIDTH)
        for row in (titles, ["-" * w for w in widths], *cells):
            parts = []
            for entry, width, column in zip(row, widths, self.columns, strict=True):
                space = " " * (width - _width(entry))
                parts.append(entry + space if column.kind == "text" else space + entry)
            lines.append("  ".join(parts).rstrip())
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        """Return the caption and a table in GitHub's Markdown; all text is escaped."""
        lines = [_marked_down(visible(self.caption)), ""]
        lines += ["| " + " | ".join(_marked_down(visible(column.title)) for column in self.columns) + " |"]
        lines += ["|" + "|".join("---" if column.kind == "text" else "---:" for column in self.columns) + "|"]
        for row in self.rows:
            cells = (_marked_down(_shown(v, c.kind)) for v, c in zip(row, self.columns, strict=True))
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Return a header and rows with all digits; an interval takes three columns, None is empty, text no formula."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        header = []
        for column in self.columns:
            wide = column.kind in ("half", "ends")
            header += [column.title, f"{column.title} low", f"{column.title} high"] if wide else [column.title]
        writer.writerow(map(csv_entry, header))
        for row in self.rows:
            line: list[object] = []
            for value, column in zip(row, self.columns, strict=True):
                if isinstance(value, Interval):
                    line += [repr(float(x)) for x in (value.estimate, value.low, value.high)]
                elif value is None:
                    line += [""] * (3 if column.kind in ("half", "ends") else 1)
                elif isinstance(value, str):
                    line.append(csv_entry(value))
                else:
                    line.append(repr(value.item() if isinstance(value, np.generic) else value))
            writer.writerow(line)
        return out.getvalue()

    def latex(self) -> str:
        """Return a floating table that needs the LaTeX package booktabs; all text is escaped."""
        kinds = "".join("l" if column.kind == "text" else "r" for column in self.columns)
        titles = " & ".join(latex(column.title) for column in self.columns)
        lines = [
            r"\begin{table}",
            rf"\caption{{{latex(self.caption)}}}",
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


def _parts(value: Number | Interval, kind: Kind) -> tuple[str, ...]:
    """Return the rounded numbers of an entry: one number, mean and half width, or estimate, low and high."""
    if not isinstance(value, Interval):
        whole = isinstance(value, int | np.integer)
        return (f"{value:,}" if whole else f"{value:,.{decimals(0.0, float(value))}f}",)
    estimate, low, high = float(value.estimate), float(value.low), float(value.high)
    half = (high - low) / 2
    places = decimals(half, estimate)
    shown = (estimate, half) if kind == "half" else (estimate, low, high)
    return tuple("-∞" if x == -math.inf else "∞" if x == math.inf else f"{x:,.{places}f}" for x in shown)


def _shown(value: Entry, kind: Kind) -> str:
    """Return an entry as plain text."""
    if value is None:
        return ""
    if kind == "text" or isinstance(value, str):
        return visible(str(value))
    parts = _parts(value, kind)
    return {"number": "{}", "half": "{} ± {}", "ends": "{} [{}, {}]"}[kind].format(*parts)


def _latex(value: Entry, kind: Kind) -> str:
    """Return an entry in LaTeX; braces around a comma avoid the space after punctuation."""
    if value is None:
        return "--"
    if kind == "text" or isinstance(value, str):
        return latex(str(value))
    parts = [part.replace(",", "{,}").replace("∞", r"\infty") for part in _parts(value, kind)]
    return {"number": "${}$", "half": r"${} \pm {}$", "ends": "${}$ $[{}, {}]$"}[kind].format(*parts)


def _marked_down(text: str) -> str:
    """Escape the special characters of Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>$|])", r"\\\1", text)


def _width(text: str) -> int:
    """Return the number of columns that a terminal needs for the text."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)
