"""All figures of a study, saved as files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from jaxvar.analysis.captions import algorithm_name, visible
from jaxvar.analysis.panels import by_problem, facets, pages
from jaxvar.analysis.slopes import swept
from jaxvar.analysis.summaries import BandKind
from jaxvar.figures.ends import MOST_IN_LEGEND
from jaxvar.figures.growth import against_parameter
from jaxvar.figures.look import WIDTHS, UserStyle, Width, user_style
from jaxvar.figures.problems import AxisScale, layer_occupancy, regret_curves
from jaxvar.figures.seeds import paired_differences, spread
from jaxvar.figures.style import Drawing, save
from jaxvar.files import write_whole
from jaxvar.study.result import StudyResult

_HIGHEST = 8.5  # inches of a figure, without legend and caption


def draw_study(
    result: StudyResult,
    out: str | Path,
    *,
    width: Width = "neurips",
    scale: AxisScale = "log",
    kind: BandKind = "simultaneous",
    caption: bool = True,
    style: UserStyle | None = None,
) -> list[Path]:
    """Draw regret curves, regret against each swept number, paired differences, spread over seeds, and layers.

    Paired differences need a reference and another algorithm; layers must have been recorded.

    Args:
      result: the study.
      out: folder for the files, created if needed.
      width: venue that sets the figures' width.
      scale: scale of the axes of regret curves.
      kind: kind of the bands of regret curves.
      caption: whether the pictures show their captions too.
      style: matplotlib style on top of ours: a file, a name that matplotlib knows, or a dictionary of rcParams.

    Returns:
      For each figure the paths of a PDF and a PNG, and of its caption as text and for LaTeX; last that of
      ``captions.txt``, which has all captions.
    """
    paths, captions = list[Path](), list[str]()
    with user_style(style):
        for name, drawing in _drawings(result, width, scale, kind):
            stem = Path(out) / name
            paths += save(drawing, stem, caption=caption)
            paths += [stem.with_name(f"{name}.caption.{ending}") for ending in ("txt", "tex")]
            captions.append(f"{name}: {visible(drawing.caption)}\n")
    text = "\n".join(captions)
    return [*paths, write_whole(Path(out) / "captions.txt", lambda buffer: buffer.write(text.encode()))]


def _drawings(result: StudyResult, width: Width, scale: AxisScale, kind: BandKind) -> Iterator[tuple[str, Drawing]]:
    """Yield the file name and the figure of each drawing; many environment settings take several figures."""
    number = len(set(map(algorithm_name, result.cells)))
    found, is_wide = facets(by_problem(result.cells)), WIDTHS[width] > 4

    def paged(height: float, columns: int) -> dict[str, StudyResult]:
        """Split the study so that no figure is higher than a page, if its panels have this height; by file suffix."""
        if found is not None:
            columns = len(found.columns)
        split = pages(result, min(12, columns * max(1, int(_HIGHEST / height))))
        return {f"_{i + 1}" if i else "": page for i, page in enumerate(split)}

    if number > MOST_IN_LEGEND:
        curves = paged(max(1.7, 0.5 + 0.11 * number), 2 if is_wide else 1)
    else:
        curves = paged(1.7, 3 if is_wide else 2)
    rows = paged(0.75 + 0.23 * number, 3 if is_wide else 1)
    for suffix, page in curves.items():
        yield f"regret{suffix}", regret_curves(page, width=width, scale=scale, kind=kind)
    used = set[str]()
    is_compared = result.reference is not None and len(result.algorithms) > 1
    for parameter in swept(result):
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", parameter)
        while name in used:  # two parameters may differ only in replaced characters
            name += "_"
        used.add(name)
        yield f"against_{name}", against_parameter(result, parameter, width=width)
        if is_compared:
            yield f"paired_{name}", paired_differences(result, parameter, width=width)
    if is_compared and not used:
        for suffix, page in rows.items():
            yield f"paired{suffix}", paired_differences(page, width=width)
    for suffix, page in rows.items():
        yield f"spread{suffix}", spread(page, width=width)
    for suffix, page in rows.items():
        if any("layer_rounds" in cell.records for cell in page.cells):
            yield f"layers{suffix}", layer_occupancy(page, width=width)
