"""The verbs ``figures``, ``report`` and ``table`` of the command line: they show a study that was run."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import tyro

from jaxvar.analysis.summaries import BandKind as Kind
from jaxvar.figures.of_study import draw_study
from jaxvar.figures.problems import AxisScale
from jaxvar.figures.style import Width
from jaxvar.report import write_page
from jaxvar.study.result import StudyResult, load
from jaxvar.tables import TABLES, Format, available

TableName = Literal["all", "regret", "exponents", "coverage", "occupancy", "speed"]


def figures(
    directory: tyro.conf.Positional[Path],
    width: Width = "neurips",
    scale: AxisScale = "log",
    band: Kind = "simultaneous",
    caption: bool = True,
    style: str | None = None,
    out: Path | None = None,
) -> int:
    """Draw the figures of a study that was run: PDF and PNG at a venue's width, and captions as text and LaTeX.

    Args:
      directory: folder of the study.
      width: column or text width of a venue.
      scale: scale of the axes of regret curves.
      band: band around regret curves: for each round by itself, or for all together.
      caption: whether the pictures show their captions too; text and LaTeX are written beside them in any case.
      style: matplotlib style file, or name of a style that matplotlib knows; what it sets wins over ours.
      out: folder for the figures; by default, figures inside the study's own.
    """

    def draw(result: StudyResult) -> None:
        folder = out or directory / "figures"
        for path in draw_study(result, folder, width=width, scale=scale, kind=band, caption=caption, style=style):
            print(path.resolve())

    return _with_study(directory, draw)


def report(directory: tyro.conf.Positional[Path], out: Path | None = None) -> int:
    """Make one HTML page of a study that was run; it opens anywhere and needs no network.

    Args:
      directory: folder of the study.
      out: path of the page; by default, report.html inside the study's own folder.
    """
    return _with_study(directory, lambda result: print(write_page(result, out or directory / "report.html").resolve()))


def table(directory: tyro.conf.Positional[Path], to: Format = "text", what: TableName = "all") -> int:
    """Print the tables of a study that was run.

    Args:
      directory: folder of the study.
      to: plain text, CSV with all digits, LaTeX (which needs the package booktabs) or Markdown.
      what: table to print; all are those for which there are records.
    """

    def show(result: StudyResult) -> None:
        names = available(result) if what == "all" else (what,)
        print("\n".join(TABLES[name](result).to(to) for name in names), end="")

    return _with_study(directory, show)


def _with_study(directory: Path, use: Callable[[StudyResult], None]) -> int:
    """Load a study and use it; return exit code 1, and print why, if that fails."""
    try:
        use(load(directory))
    except (ValueError, OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
