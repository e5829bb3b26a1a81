"""An experiment: studies that lie beside it as TOML files, and what is concluded from them.

``python -m experiments NAME`` runs the studies (or what is left of them), writes the tables and the figures, and puts
them into the experiment's own folder, where ``README.md`` and the documentation show them.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tyro

import jaxvar as jv
from experiments import tuning
from experiments.found import Found, filled, write_found
from jaxvar.figures import Drawing, save
from jaxvar.files import write_whole
from jaxvar.study.definition import Study
from jaxvar.study.factories import RunError
from jaxvar.study.result import StudyResult, failures
from jaxvar.tables import Table

FOLDER = Path(__file__).parent
COMMAND = "python -m experiments"


@dataclasses.dataclass(frozen=True)
class Conclusions:
    """Tables and figures by name; the names are those of their files."""

    tables: Mapping[str, Table]
    figures: Mapping[str, Drawing]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A folder below ``experiments`` with the studies ``*.toml``."""

    name: str
    conclude: Callable[[Mapping[str, StudyResult]], Conclusions]  # of results by the names of their files

    @property
    def folder(self) -> Path:
        """The folder of its studies, its page and what was found."""
        return FOLDER / self.name

    def studies(self) -> dict[str, Study]:
        """Read the studies, by the names of their files in alphabetical order."""
        return {path.stem: jv.read_study(path) for path in sorted(self.folder.glob("*.toml"))}

    def run(self, options: Options) -> tuple[Conclusions, dict[str, StudyResult]]:
        """Run what is left of the studies, conclude, and write tables and figures."""
        out = Path(options.out or f"results/{self.name}")
        studies = {name: sized(study, options) for name, study in self.studies().items()}
        results = play(self.name, studies, out, options.progress)
        conclusions = self.conclude(results)
        write(conclusions, out)
        return conclusions, results


def play(name: str, studies: Mapping[str, Study], out: Path, progress: bool) -> dict[str, StudyResult]:
    """Run what is left of an experiment's studies, each in its own folder below ``out``; returns results by name."""
    results = {}
    for stem, study in studies.items():
        if progress:
            print(f"{name}: {stem}", file=sys.stderr, flush=True)
        result = jv.run_study(study, out / stem, progress=progress)
        assert result is not None  # one process, which writes
        results[stem] = result
    return results


def write(conclusions: Conclusions, out: Path) -> None:
    """Write tables and figures into a folder, which is made if it is not there."""
    out.mkdir(parents=True, exist_ok=True)
    for name, table in conclusions.tables.items():
        _write(out / f"{name}.csv", table.csv())
    for name, drawing in conclusions.figures.items():
        save(drawing, out / name)


def discovered(name: str) -> Experiment:
    """Return the experiment in the folder of that name: what its ``conclude.py`` makes of its studies."""
    return Experiment(name, importlib.import_module(f"experiments.{name}.conclude").conclude)


def publish(
    name: str, conclusions: Conclusions, results: Mapping[str, StudyResult] | None = None, options: str = ""
) -> list[Path]:
    """Put figures, ``found.json`` and the tables of ``README.md`` into the folder of an experiment.

    ``options`` are those of the command that are needed to get the same again.
    """
    folder, paths = FOLDER / name, list[Path]()
    for stem, drawing in conclusions.figures.items():
        pdf, png = save(drawing, folder / stem)
        for path in (pdf, *folder.glob(f"{stem}.caption.*")):
            path.unlink()  # pages show the picture, with its caption
        paths.append(png)
    behind = {name: {k: result.config[k] for k in ("study", "runs")} for name, result in (results or {}).items()}
    paths.append(
        write_found(folder / "found.json", Found(f"{COMMAND} {name} {options}".rstrip(), behind, conclusions.tables))
    )
    readme = folder / "README.md"
    return [*paths, _write(readme, filled(readme.read_text(), conclusions.tables))]


@dataclasses.dataclass(frozen=True)
class Options:
    """Run an experiment's studies, then write its tables and figures."""

    seeds: int | None = None
    """Seeds per cell; each study's own if not given."""
    longer: float = 1.0
    """Factor of every study's rounds or episodes."""
    out: str | None = None
    """Folder for everything; results/NAME if not given. Studies that were interrupted there are resumed."""
    publish: bool = False
    """Put tables and figures into the experiment's own folder as well. Only at the size of its studies."""
    progress: bool = True
    """Show progress bars."""

    def __post_init__(self) -> None:
        if not 0 < self.longer < float("inf"):
            raise ValueError(f"longer must be positive and finite, got {self.longer!r}")
        if self.publish and (self.seeds is not None or self.longer != 1.0):
            raise ValueError("publish is for the studies as they are, without seeds and longer")


def sized(study: Study, options: Options) -> Study:
    """Return a study with the seeds and the length asked for; records given as a list keep their shares."""
    changes: dict[str, Any] = {} if options.seeds is None else {"seeds": options.seeds}
    if options.longer != 1.0:
        length = max(2, round(study.length * options.longer))
        changes["rounds" if study.rounds is not None else "episodes"] = length
        if isinstance(study.records, list | tuple):
            records = sorted({max(1, round(k * length / study.length)) for k in study.records})
            changes["records"] = type(study.records)(records)
    return dataclasses.replace(study, **changes)


def main(experiment: Experiment, argv: list[str] | None = None) -> int:
    """Return the exit code: 0 when done, 1 when a study or one of its runs failed; bad usage exits with 2."""
    start = time.perf_counter()
    options = tyro.cli(Options, prog=f"{COMMAND} {experiment.name}", args=argv)
    jv.tune_cpu()
    jv.keep_programs()
    try:
        conclusions, results = experiment.run(options)
    except (ValueError, RunError) as error:
        print(f"the experiment failed: {error}", file=sys.stderr)
        return 1
    played = [tuning.without_empty_sets(r) if name.startswith("tune") else r for name, r in results.items()]
    for line in (failed := [line for result in played for line in failures(result)]):
        print(line, file=sys.stderr)
    for table in conclusions.tables.values():
        print(f"\n{table.text()}", end="")
    print(f"\n{time.perf_counter() - start:.0f} seconds.")
    if options.publish and not failed:
        for path in publish(experiment.name, conclusions, results):
            print(f"  {path}")
    return 1 if failed else 0


def _write(path: Path, text: str) -> Path:
    return write_whole(path, lambda buffer: buffer.write(text.encode()))
