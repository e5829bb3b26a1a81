"""``python -m experiments atlas``: who has the least regret, over R / sigma and rounds; ends in a page and a figure."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path
from typing import Literal

import tyro

import jaxvar as jv
from experiments import tuning
from experiments.atlas.conclude import conclude
from experiments.atlas.maps import Atlas
from experiments.atlas.page import write_page
from experiments.atlas.studies import SIZES, as_toml, map_studies, tuning_studies
from experiments.experiment import FOLDER, Conclusions, publish
from jaxvar.figures import save
from jaxvar.study.definition import Study
from jaxvar.study.factories import RunError
from jaxvar.study.result import StudyResult

PAGE = "atlas.html"


@dataclasses.dataclass(frozen=True)
class Options:
    """Run the studies of an atlas, then write its page and its figure."""

    size: Literal["quick", "hour", "night", "gpu"] = "quick"
    """About 7e8, 2e10, 2e11 and 7e12 seed-rounds, up to K = 3,000, 10,000, 100,000 and 10,000,000."""
    out: str | None = None
    """Folder for everything; results/atlas/SIZE if not given. Studies that were interrupted there are resumed."""
    maps: tuple[str, ...] = ()
    """Names of the studies to run, such as sphere_constant; all if not given."""
    publish: bool = False
    """Put page, figure, studies and tables into the experiment's own folder as well."""
    progress: bool = True
    """Show progress bars."""


def run(options: Options) -> tuple[Atlas, Conclusions, dict[str, StudyResult]]:
    """Run what is left of the studies: first those that tune, then the maps with the multipliers that they choose."""
    size, out = SIZES[options.size], Path(options.out or f"results/atlas/{options.size}")
    names = [*(f"{kind}_{shape}" for kind, shape, _ in size.problems), "episodes"]
    wanted = options.maps or names
    if not set(wanted) <= set(names):
        raise ValueError(f"maps must be some of {', '.join(names)}, got {', '.join(wanted)}")

    def played(studies: dict[str, Study]) -> dict[str, StudyResult]:
        found = {}
        for name, study in studies.items():
            if options.progress:
                print(f"atlas: {name}", file=sys.stderr, flush=True)
            result = jv.run_study(study, out / name, progress=options.progress)
            assert result is not None  # one process, which writes
            found[name] = result
        return found

    tuned = played(tuning_studies(size))
    best = {name: value for tune in tuned.values() for name, value in tuning.chosen(tune).items()}
    results = played({name: study for name, study in map_studies(size, best).items() if name in wanted})
    atlas = Atlas.of(results, best, options.size)
    conclusions = conclude(atlas, tuned)
    write_page(atlas, out / PAGE)
    for name, drawing in conclusions.figures.items():
        save(drawing, out / name)
    return atlas, conclusions, {**tuned, **results}


def main(argv: list[str] | None = None) -> int:
    """Return the exit code: 0 when done, 1 when a study failed."""
    options = tyro.cli(Options, prog="python -m experiments atlas", args=argv)
    jv.tune_cpu()
    jv.keep_programs()
    start = time.perf_counter()
    try:
        atlas, conclusions, results = run(options)
    except (ValueError, RunError) as error:
        print(f"the atlas failed: {error}", file=sys.stderr)
        return 1
    for table in conclusions.tables.values():
        print(f"\n{table.text()}", end="")
    print(f"\n{time.perf_counter() - start:.0f} seconds.")
    if options.publish:
        folder = FOLDER / "atlas"
        for path in folder.glob("*.toml"):
            path.unlink()
        for name, result in results.items():
            text = as_toml(Study.from_config(result.config["study"]))
            (folder / f"{name}.toml").write_text(text, "utf-8")
        for path in [*publish("atlas", conclusions, results), write_page(atlas, folder / PAGE)]:
            print(f"  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
