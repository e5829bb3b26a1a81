"""All figures of a study, as files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from jaxvar.analysis.bands import Kind
from jaxvar.analysis.captions import visible
from jaxvar.analysis.slopes import swept
from jaxvar.figures.against_parameter import against_parameter
from jaxvar.figures.occupancy import layer_occupancy
from jaxvar.figures.problems import pages
from jaxvar.figures.regret_curves import AxisScale, regret_curves
from jaxvar.figures.save import save
from jaxvar.figures.style import Drawing, Width
from jaxvar.files import write_whole
from jaxvar.study.result import StudyResult


def draw_study(
    result: StudyResult,
    out: str | Path,
    *,
    width: Width = "neurips",
    scale: AxisScale = "log",
    kind: Kind = "simultaneous",
) -> list[Path]:
    """Draw regret curves, regret against each swept number and layer occupancy, as far as they were recorded.

    Args:
      result: the study.
      out: folder, which is made where it is missing.
      width: of which venue.
      scale: of the axes of regret curves.
      kind: of their bands.

    Returns:
      The paths: a PDF and a PNG of each figure, and ``captions.txt``.
    """
    paths, captions = list[Path](), list[str]()
    for name, drawing in _drawings(result, width, scale, kind):
        paths += save(drawing, Path(out) / name)
        captions.append(f"{name}: {visible(drawing.caption)}\n")
    text = "\n".join(captions)
    return [*paths, write_whole(Path(out) / "captions.txt", lambda buffer: buffer.write(text.encode()))]


def _drawings(result: StudyResult, width: Width, scale: AxisScale, kind: Kind) -> Iterator[tuple[str, Drawing]]:
    """Names of files, and figures; many problems are spread over several."""
    for i, page in enumerate(pages(result)):
        yield f"regret{_number(i)}", regret_curves(page, width=width, scale=scale, kind=kind)
    used = set[str]()
    for parameter in swept(result):
        name = "against_" + re.sub(r"[^A-Za-z0-9_-]+", "_", parameter)
        while name in used:  # names may differ in what is no letter
            name += "_"
        used.add(name)
        yield name, against_parameter(result, parameter, width=width)
    if any("layer_rounds" in cell.records for cell in result.cells):
        for i, page in enumerate(pages(result)):
            if any("layer_rounds" in cell.records for cell in page.cells):
                yield f"layers{_number(i)}", layer_occupancy(page, width=width)


def _number(i: int) -> str:
    return f"_{i + 1}" if i else ""
