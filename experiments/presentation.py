"""What the experiments share when they present numbers: intervals, colours, and files that are written whole."""

from __future__ import annotations

import matplotlib

from jaxvar.analysis.intervals import interval, proportion
from jaxvar.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION
from jaxvar.files import write_whole as write

matplotlib.use("Agg")  # no screen needed

__all__ = [
    "BLACK",
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "SKY",
    "VERMILION",
    "interval",
    "proportion",
    "write",
]
