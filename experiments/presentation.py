"""What the experiments share when they present numbers: intervals, colours, and files that are written whole."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
from scipy import stats

matplotlib.use("Agg")  # no screen needed

# Okabe and Ito: safe for the colour-blind
BLACK, GREY, BLUE, SKY = "#000000", "#999999", "#0072B2", "#56B4E9"
GREEN, ORANGE, VERMILION, PURPLE = "#009E73", "#E69F00", "#D55E00", "#CC79A7"


def interval(values: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the first axis, and the half width of its pointwise t interval."""
    n = len(values)
    return values.mean(0), stats.t.ppf(0.5 + level / 2, n - 1) * values.std(0, ddof=1) / np.sqrt(n)


def proportion(count: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a probability, of which ``count`` of ``total`` trials came true."""
    found = stats.binomtest(count, total).proportion_ci(level, method="exact")
    return float(found.low), float(found.high)


def write(path: Path, fill: Callable[[io.BytesIO], None]) -> Path:
    """Write a whole file or none: to a temporary name, then rename."""
    buffer = io.BytesIO()
    fill(buffer)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(buffer.getvalue())
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return path
