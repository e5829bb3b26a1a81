"""``python -m experiments headline``: run the study of that name, then make its figures, its tables and its page."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import tyro

import jaxvar as jv
from experiments.experiment import publish
from experiments.headline.conclude import conclude
from jaxvar.figures import draw_study
from jaxvar.files import write_whole
from jaxvar.report import write_page
from jaxvar.study.factories import RunError
from jaxvar.study.result import failures
from jaxvar.tables import TABLES, available


@dataclasses.dataclass(frozen=True)
class Headline:
    """Regret against rounds at four noise levels, ending in figures, tables and a page."""

    seeds: int = 256
    """Seeds per algorithm and noise level."""
    rounds: int = 20_000
    """Rounds per seed."""
    out: str = "results/headline"
    """Folder for everything; a study that was interrupted there is resumed."""
    publish: bool = False
    """Put tables and figures into the experiment's own folder as well. Only at the sizes that are the default."""
    progress: bool = True
    """Show a progress bar."""

    def __post_init__(self) -> None:
        if self.publish and (self.seeds, self.rounds) != (Headline.seeds, Headline.rounds):
            raise ValueError("publish is for the study as it is, without seeds and rounds")


def make(options: Headline) -> tuple[jv.StudyResult, list[Path]]:
    """Run the study or what is left of it; returns its result, and the figure, the tables and the page."""
    study = dataclasses.replace(jv.read_study("headline"), seeds=options.seeds, rounds=options.rounds)
    out = Path(options.out)
    result = jv.run_study(study, out, progress=options.progress)
    assert result is not None  # one process, which writes
    figures = draw_study(result, out / "figures")
    text = "\n".join(TABLES[name](result).to("text") for name in available(result))
    tables = write_whole(out / "tables.txt", lambda buffer: buffer.write(text.encode()))
    return result, [figures[1], tables, write_page(result, out / "report.html")]


def main() -> int:
    """Return the exit code: 0 when done, 1 when the study or one of its runs failed."""
    options = tyro.cli(Headline, prog="python -m experiments headline")
    jv.tune_cpu()
    jv.keep_programs()
    start = time.perf_counter()
    try:
        result, paths = make(options)
    except (ValueError, RunError) as error:
        print(f"the study failed: {error}", file=sys.stderr)
        return 1
    for line in (failed := failures(result)):
        print(line, file=sys.stderr)
    print(
        f"\n{TABLES['regret'](result).to('text')}\n{time.perf_counter() - start:.0f} seconds. Figure, tables and page:"
    )
    for path in paths:
        print(f"  {path.resolve()}")
    if options.publish and not failed:
        publish("headline", conclude(result), {"headline": result})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
