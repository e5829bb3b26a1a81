"""Tables of a study as text, CSV, LaTeX and Markdown."""

from jaxvar.tables.of_study import TABLES, available, coverage, exponents, final_regret, occupancy, speed
from jaxvar.tables.render import Column, Format, Table

__all__ = [
    "TABLES",
    "Column",
    "Format",
    "Table",
    "available",
    "coverage",
    "exponents",
    "final_regret",
    "occupancy",
    "speed",
]
