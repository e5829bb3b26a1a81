"""``python -m experiments atlas``: who has the least regret, over R / sigma and rounds; ends in a page and a figure."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import tyro

import jaxvar as jv
from experiments import tuning
from experiments.atlas.conclude import conclude, findings
from experiments.atlas.maps import Atlas
from experiments.atlas.page import write_page
from experiments.atlas.studies import SIZES, as_toml, map_names, map_studies, tuning_studies
from experiments.experiment import FOLDER, Conclusions, play, publish
from jaxvar.figures import save
from jaxvar.study.definition import Study
from jaxvar.study.factories import RunError
from jaxvar.study.result import StudyResult

PAGE = "atlas.html"


@dataclasses.dataclass(frozen=True)
class Options:
    """Run the studies of an atlas, then write its page and its figure."""

    size: Literal["piece", "quick", "hour", "night", "gpu"] = "quick"
    """About 6e7, 1e9, 1e10, 3e11 and 7e12 seed-rounds, up to K = 3,000 (piece and quick), 10,000, 100,000 and
    10,000,000; hour and night have one map that is ten times as long. A piece is one map; it tunes nothing."""
    out: str | None = None
    """Folder for everything; results/atlas/SIZE if not given. Studies that were interrupted there are resumed."""
    maps: tuple[str, ...] = ()
    """Names of the studies to run, such as sphere_constant, or of a kind of them, such as data; all if not given."""
    publish: bool = False
    """Put page, figure, studies and tables into the experiment's own folder as well."""
    progress: bool = True
    """Show progress bars."""


def wanted_names(asked: tuple[str, ...], names: list[str]) -> list[str]:
    """Return the studies that some names, or kinds such as ``data``, stand for; all if none is asked for."""
    found = []
    for word in asked or names:
        some = [word] if word in names else [name for name in names if name.startswith(f"{word}_")]
        if not some:
            raise ValueError(f"maps must be some of {', '.join(names)}, got {word}")
        found += some
    return found


def run(options: Options) -> tuple[Atlas, Conclusions, dict[str, StudyResult]]:
    """Run what is left of the studies: first those that tune, then the maps with the multipliers that they choose."""
    size, out = SIZES[options.size], Path(options.out or f"results/atlas/{options.size}")
    if options.publish and options.size == "piece":
        raise ValueError("publish is for whole maps, got the size piece; use quick, hour, night or gpu")
    wanted = wanted_names(options.maps, map_names(size))
    if options.progress:
        print(f"atlas: {size.question}", file=sys.stderr, flush=True)
    tuned = play("atlas", tuning_studies(size), out, options.progress)
    best = {name: value for tune in tuned.values() for name, value in tuning.chosen(tune).items()}
    best = best or tuning.found_in(FOLDER / "atlas" / "found.json")
    results = play("atlas", map_studies(size, best, wanted), out, options.progress)
    atlas = Atlas.of(results, best, options.size)
    conclusions = conclude(atlas, tuned)
    write_studies({**tuned, **results}, out)
    write_page(atlas, out / PAGE, str(out))
    for name, drawing in conclusions.figures.items():
        save(drawing, out / name)
    return atlas, conclusions, {**tuned, **results}


def write_studies(results: Mapping[str, StudyResult], folder: Path) -> None:
    """Write the studies that were played as files."""
    for name, result in results.items():
        text = as_toml(Study.from_config(result.config["study"]))
        (folder / f"{name}.toml").write_text(text, "utf-8")


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
    for table in conclusions.tables.values() if options.size != "piece" else ():
        print(f"\n{table.text()}", end="")
    print("\n" + "\n".join(findings(atlas)))
    page = Path(options.out or f"results/atlas/{options.size}") / PAGE
    print(f"\n{time.perf_counter() - start:.0f} seconds. The page:\n  {page.resolve()}")
    if options.publish:
        folder = FOLDER / "atlas"
        for path in folder.glob("*.toml"):
            path.unlink()
        write_studies(results, folder)
        made = publish("atlas", conclusions, results, f"--size {options.size} --publish")
        for path in [*made, write_page(atlas, folder / PAGE)]:
            print(f"  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
