"""All figures of a study, saved as files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from jaxvar.analysis.captions import visible
from jaxvar.analysis.panels import pages
from jaxvar.analysis.slopes import swept
from jaxvar.analysis.summaries import BandKind
from jaxvar.figures.growth import against_parameter
from jaxvar.figures.problems import AxisScale, layer_occupancy, regret_curves
from jaxvar.figures.style import Drawing, Width, save
from jaxvar.files import write_whole
from jaxvar.study.result import StudyResult


def draw_study(
    result: StudyResult,
    out: str | Path,
    *,
    width: Width = "neurips",
    scale: AxisScale = "log",
    kind: BandKind = "simultaneous",
) -> list[Path]:
    """Draw regret curves, regret against each swept number, and layer occupancy if it was recorded.

    Args:
      result: the study.
      out: folder for the files, created if needed.
      width: venue that sets the figures' width.
      scale: scale of the axes of regret curves.
      kind: kind of the bands of regret curves.

    Returns:
      The paths of a PDF and a PNG for each figure, and of ``captions.txt``.
    """
    paths, captions = list[Path](), list[str]()
    for name, drawing in _drawings(result, width, scale, kind):
        paths += save(drawing, Path(out) / name)
        captions.append(f"{name}: {visible(drawing.caption)}\n")
    text = "\n".join(captions)
    return [*paths, write_whole(Path(out) / "captions.txt", lambda buffer: buffer.write(text.encode()))]


def _drawings(result: StudyResult, width: Width, scale: AxisScale, kind: BandKind) -> Iterator[tuple[str, Drawing]]:
    """Yield the file name and the figure of each drawing; many environment settings take several figures."""
    for i, page in enumerate(pages(result)):
        yield f"regret{_suffix(i)}", regret_curves(page, width=width, scale=scale, kind=kind)
    used = set[str]()
    for parameter in swept(result):
        name = "against_" + re.sub(r"[^A-Za-z0-9_-]+", "_", parameter)
        while name in used:  # two parameters may differ only in replaced characters
            name += "_"
        used.add(name)
        yield name, against_parameter(result, parameter, width=width)
    for i, page in enumerate(pages(result)):
        if any("layer_rounds" in cell.records for cell in page.cells):
            yield f"layers{_suffix(i)}", layer_occupancy(page, width=width)


def _suffix(i: int) -> str:
    """Return the suffix of the file name of page ``i``; the first page has none."""
    return f"_{i + 1}" if i else ""
