"""The ``jaxvar`` command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import jax
import tyro

from jaxvar.analysis.summaries import BandKind as Kind
from jaxvar.audit.command import Audit, audit_command
from jaxvar.bench.catalogue import bench_all
from jaxvar.bench.draws import Draws, draws
from jaxvar.bench.growth import Growth, growth
from jaxvar.bench.kernels import Kernels, kernels
from jaxvar.bench.report import Bench, bench
from jaxvar.calibration.command import Calibrate, calibrate_command
from jaxvar.cpu import tune_cpu
from jaxvar.figures.of_study import draw_study
from jaxvar.figures.problems import AxisScale
from jaxvar.figures.style import Width
from jaxvar.listing import Format, listing
from jaxvar.study.commands import Run, export_command, merge_command, run_command
from jaxvar.study.result import StudyResult
from jaxvar.tables import TABLES, available
from jaxvar.tables import Format as TableFormat

TableName = Literal["all", "regret", "exponents", "coverage", "occupancy", "speed"]
_DEFAULT_AUDIT = Audit()
_DEFAULT_BENCH = Bench()
_DEFAULT_CALIBRATE = Calibrate()
_DEFAULT_DRAWS = Draws()
_DEFAULT_KERNELS = Kernels()


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit code (2 for bad usage)."""
    tune_cpu()
    jax.config.update("jax_enable_x64", True)
    commands: dict[str, Callable[..., int]] = {
        "audit": _audit,
        "bench": _bench,
        "calibrate": _calibrate,
        "draws": _draws,
        "export": export_command,
        "figures": _figures,
        "growth": _growth,
        "kernels": _kernels,
        "list": _list,
        "merge": merge_command,
        "report": _report,
        "run": _run,
        "table": _table,
        "version": _version,
    }
    return tyro.extras.subcommand_cli_from_dict(commands, args=argv, prog="jaxvar")


def _audit(options: tyro.conf.OmitArgPrefixes[Audit] = _DEFAULT_AUDIT) -> int:
    """Judge the paper's statements on simulated runs; exit code 1 where one that should hold is broken."""
    return audit_command(options)


def _bench(options: tyro.conf.OmitArgPrefixes[Bench] = _DEFAULT_BENCH) -> int:
    """Print time and memory per seed-round beside NumPy and Numba programs of the same algorithms."""
    return bench_all(options) if options.all else bench(options)


def _calibrate(options: tyro.conf.OmitArgPrefixes[Calibrate] = _DEFAULT_CALIBRATE) -> int:
    """Find the smallest multiplier of the radius that keeps the confidence event as often as promised."""
    return calibrate_command(options)


def _draws(options: tyro.conf.OmitArgPrefixes[Draws] = _DEFAULT_DRAWS) -> int:
    """Print what drawing fresh arms costs, beside what the algorithms do with them."""
    return draws(options)


def _figures(
    directory: tyro.conf.Positional[Path],
    width: Width = "neurips",
    scale: AxisScale = "log",
    band: Kind = "simultaneous",
    out: Path | None = None,
) -> int:
    """Draw the figures of a study that was run: PDF and PNG at a venue's width, and their captions.

    Args:
      directory: of the study.
      width: the column or text width of a venue.
      scale: of the axes of regret curves.
      band: around regret curves: for each round by itself, or for all together.
      out: folder for the figures; by default, figures inside the study's own.
    """
    return _of_study(directory, lambda result: _draw(result, out or directory / "figures", width, scale, band))


def _draw(result: StudyResult, out: Path, width: Width, scale: AxisScale, band: Kind) -> None:
    for path in draw_study(result, out, width=width, scale=scale, kind=band):
        print(path.resolve())


def _growth(options: tyro.conf.OmitArgPrefixes[Growth]) -> int:
    """Measure how time grows with rounds, layers, dimension, arms and seeds; numbers and figures go to a folder."""
    print(growth(options))
    return 0


def _kernels(options: tyro.conf.OmitArgPrefixes[Kernels] = _DEFAULT_KERNELS) -> int:
    """Print kernels per round and memory of the programs compiled for an accelerator, which need not be there."""
    jax.config.update("jax_platforms", "cpu")  # a compiler's plugin would else look for its hardware, and complain
    return kernels(options)


def _list(to: Format = "text") -> int:
    """Print the algorithms with what is claimed of them, in the order of the paper's comparison tables.

    Args:
      to: plain text, CSV with every field, or LaTeX.
    """
    print(listing(to), end="")
    return 0


def _report(directory: tyro.conf.Positional[Path], out: Path | None = None) -> int:
    """Make one HTML page of a study that was run, which opens anywhere and needs no network.

    Args:
      directory: of the study.
      out: where the page goes; by default, report.html inside the study's own folder.
    """
    from jaxvar.report import write_page

    return _of_study(directory, lambda result: print(write_page(result, out or directory / "report.html").resolve()))


def _run(options: tyro.conf.OmitArgPrefixes[Run]) -> int:
    """Run a study, or what is left of it, into a folder of results."""
    return run_command(options)


def _table(directory: tyro.conf.Positional[Path], to: TableFormat = "text", what: TableName = "all") -> int:
    """Print the tables of a study that was run.

    Args:
      directory: of the study.
      to: plain text, CSV with all digits, LaTeX (which needs the package booktabs) or Markdown.
      what: which table; all are those for which there are records.
    """
    return _of_study(directory, lambda result: print(_tables(result, to, what), end=""))


def _tables(result: StudyResult, to: TableFormat, what: TableName) -> str:
    names = available(result) if what == "all" else (what,)
    return "\n".join(TABLES[name](result).to(to) for name in names)


def _of_study(directory: Path, use: Callable[[StudyResult], None]) -> int:
    """Load a study and do something with it; exit code 1, with a sentence, where that fails."""
    from jaxvar.study.result import load

    try:
        use(load(directory))
    except (ValueError, OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _version() -> int:
    """Print the version."""
    from jaxvar import __version__

    print(__version__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
