"""The verbs ``figures``, ``report`` and ``table`` of the command line: they show a study that was run."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from jaxvar.analysis.summaries import BandKind as Kind
from jaxvar.commands import Folder, OrNone
from jaxvar.exit_codes import DONE, exit_code
from jaxvar.figures.look import Width
from jaxvar.figures.of_study import draw_study
from jaxvar.figures.problems import AxisScale
from jaxvar.report import write_page
from jaxvar.study.factories import RunError
from jaxvar.study.result import StudyResult, load
from jaxvar.tables import TABLES, Format, available

TableName = Literal["all", "regret", "exponents", "coverage", "occupancy", "speed"]


@exit_code
def figures(
    directory: Folder,
    width: Width = "neurips",
    scale: AxisScale = "log",
    band: Kind = "simultaneous",
    caption: bool = True,
    style: OrNone[str] = None,
    out: OrNone[Path] = None,
) -> int:
    """Draw the figures of a study that was run: PDF and PNG at a venue's width, and captions as text and LaTeX.

    Args:
      directory: Folder of a study that was run.
      width: Column or text width of a venue.
      scale: Scale of the axes of regret curves.
      band: Band around regret curves: for all rounds together, or for each by itself.
      caption: Show captions in the pictures too; text and LaTeX are written beside them in any case.
      style: Matplotlib style file, or name of a style that matplotlib knows; what it sets wins over ours.
      out: Folder for the figures; figures inside the study's own if not given.
    """
    folder = out or directory / "figures"
    with _loaded(directory) as result:
        for path in draw_study(result, folder, width=width, scale=scale, kind=band, caption=caption, style=style):
            print(path.resolve())
    return DONE


@exit_code
def report(directory: Folder, out: OrNone[Path] = None) -> int:
    """Make one HTML page of a study that was run; it opens anywhere and needs no network.

    Args:
      directory: Folder of a study that was run.
      out: The page; report.html inside the study's own folder if not given.
    """
    with _loaded(directory) as result:
        print(write_page(result, out or directory / "report.html").resolve())
    return DONE


@exit_code
def table(directory: Folder, to: Format = "text", what: TableName = "all") -> int:
    """Print the tables of a study that was run.

    Args:
      directory: Folder of a study that was run.
      to: Plain text, CSV with all digits, LaTeX (which needs the package booktabs) or Markdown.
      what: Table to print; all are those for which there are records.
    """
    with _loaded(directory) as result:
        names = available(result) if what == "all" else (what,)
        print("\n".join(TABLES[name](result).to(to) for name in names), end="")
    return DONE


@contextlib.contextmanager
def _loaded(directory: Path) -> Iterator[StudyResult]:
    """Load a study, and name its folder in errors of what uses it."""
    result = load(directory)
    try:
        yield result
    except ValueError as error:  # the study has no such records, or no seed that went well
        raise RunError(f"{directory}: {error}") from error
