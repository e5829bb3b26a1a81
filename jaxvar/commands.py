"""The verbs ``run``, ``merge`` and ``export`` of the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import jax
import jax.extend.backend
import tyro

from jaxvar.cli import keep_programs
from jaxvar.exit_codes import DONE, FAILED, exit_code
from jaxvar.study import hosts
from jaxvar.study.definition import Study
from jaxvar.study.export import Format, export
from jaxvar.study.factories import StudyError
from jaxvar.study.result import StudyResult, failures, load, merge
from jaxvar.study.run import run_study
from jaxvar.study.toml import read_study
from jaxvar.until import run_until_separated, verdicts

T = TypeVar("T")
OrNone = Annotated[T | None, tyro.conf.arg(help_behavior_hint="")]  # no "default: None" in the help
Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
_RULE = ("max_seeds", "error_rate", "compare", "tolerance")  # options of --until-separated


@dataclasses.dataclass(frozen=True)
class Run:
    """Run a study into a folder of results, or resume one that was interrupted."""

    study: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY")]
    """A TOML file, the run.json of a study to repeat, or a study that comes with jaxvar: headline, episodes, quick."""
    out: OrNone[Path] = None
    """The folder; results/NAME if not given. A folder that holds a part of the same study is resumed."""
    seeds: OrNone[int] = None
    """Number of seeds, instead of the study's."""
    rounds: OrNone[int] = None
    """Number of rounds, instead of the study's."""
    episodes: OrNone[int] = None
    """Number of episodes, instead of the study's."""
    chunk: OrNone[int] = None
    """Seeds per shard, instead of the study's."""
    precision: OrNone[Literal["float64", "float32"]] = None
    """Type of all numbers, instead of the study's."""
    until_separated: bool = False
    """Double the seeds until all mean regrets are separated from the reference's, or --max-seeds are played."""
    max_seeds: OrNone[int] = None
    """Most seeds, with --until-separated."""
    error_rate: float = 0.05
    """Probability of a false decision among all comparisons together, with --until-separated."""
    compare: Annotated[tuple[str, ...], tyro.conf.arg(help_behavior_hint="")] = ()
    """Labels of the algorithms to compare with the reference, with --until-separated; all if not given."""
    tolerance: OrNone[float] = None
    """Share of the reference's regret, with --until-separated: a difference shown to be smaller counts as decided."""
    resume: bool = True
    """Resume a study that was interrupted. With --no-resume a folder that holds results is refused."""
    force: bool = False
    """Use a folder that holds another study: cells that are the same are kept, all others played anew. With
    --until-separated, also decide anew by another rule."""
    shard: Annotated[str, tyro.conf.arg(metavar="I/N")] = "1/1"
    """Play only part I of N, as a member of a job array."""
    device: OrNone[Literal["cpu", "gpu", "tpu"]] = None
    """Kind of device; JAX's choice if not given."""
    cache: OrNone[Path] = None
    """Keep compiled programs in this folder, for the next process; the user's folder for caches if not given."""
    no_cache: tyro.conf.FlagCreatePairsOff[bool] = False
    """Neither keep compiled programs nor use those that were kept."""
    checkpoint_seconds: float = 30.0
    """Seconds of work that may be lost when the process is killed."""
    progress: bool = True
    """Show a progress bar."""
    distributed: bool = False
    """Be one of several processes that play the study together, as Slurm or MPI start them."""
    coordinator: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT", help_behavior_hint="")] = None
    """Address of the first of these processes, where neither Slurm nor MPI says so."""
    num_processes: OrNone[int] = None
    """Number of these processes, where neither Slurm nor MPI says so."""
    process_id: OrNone[int] = None
    """Number of this process, from 0, where neither Slurm nor MPI says so."""


@exit_code
def run_command(options: Run) -> int:
    """Run a study; returns an exit code."""
    shard = _shard(options.shard)
    _check_until(options)
    if not 0 < options.checkpoint_seconds < math.inf:
        raise StudyError(f"--checkpoint-seconds must be a number above 0, got {options.checkpoint_seconds}")
    # JAX is configured first, since reading a study makes arrays.
    if options.device is not None:
        jax.config.update("jax_platforms", {"gpu": "cuda"}.get(options.device, options.device))
    if options.no_cache:
        jax.config.update("jax_enable_compilation_cache", False)
    elif options.cache is not None:
        keep_programs(options.cache)
    is_told = options.distributed or options.coordinator is not None
    if not is_told and (options.num_processes is not None or options.process_id is not None):
        raise StudyError(
            "--num-processes and --process-id are for several processes: give --coordinator HOST:PORT too, the same "
            "for all of them, or --distributed under Slurm or MPI"
        )
    address = (options.coordinator, options.num_processes, options.process_id)
    with hosts.joined(*address) if is_told else contextlib.nullcontext():
        _check_device(options)
        study = _changed(read_study(options.study), options)
        out = options.out or Path("results") / study.name
        try:
            result = _result(options, study, out, shard)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped; the same command resumes from what is in {out}") from None
    if result is None:  # another process writes
        return DONE
    failed = failures(result)
    for line in failed:
        print(line, file=sys.stderr)
    if options.until_separated:
        print("\n".join(verdicts(result)), file=sys.stderr)
    print(out)
    return FAILED if failed else DONE


def _result(options: Run, study: Study, out: Path, shard: tuple[int, int]) -> StudyResult | None:
    names = ("resume", "force", "progress", "checkpoint_seconds", *(_RULE if options.until_separated else ()))
    given: dict[str, Any] = {name: getattr(options, name) for name in names}
    if options.until_separated:
        return run_until_separated(study, out, **given)
    return run_study(study, out, shard=shard, **given)


def _check_until(options: Run) -> None:
    """Refuse options that do not go together with --until-separated, or not without it."""
    if options.until_separated:
        if options.max_seeds is None:
            raise StudyError("--until-separated needs a limit: give it with --max-seeds")
        if options.shard != "1/1":
            raise StudyError(f"--until-separated plays whole stages, and --shard only a part of them, {options.shard}")
        return
    for name in _RULE:
        if getattr(options, name) != getattr(Run, name):
            raise StudyError(f"--{name.replace('_', '-')} is an option of --until-separated, which was not given")


def _changed(study: Study, options: Run) -> Study:
    """Return the study with what the options change; no more rounds are recorded than are played."""
    names = ("seeds", "rounds", "episodes", "chunk", "precision")
    changes: dict[str, object] = {name: value for name in names if (value := getattr(options, name)) is not None}
    unit = f"{study.unit}s"
    other = "episodes" if unit == "rounds" else "rounds"
    if other in changes:
        raise StudyError(f"--{other}: the study {study.name} plays {unit}; give --{unit} instead")
    length, records = changes.get(unit), study.records
    if isinstance(length, int) and length > 0 and records is not None:
        number = records["number"] if isinstance(records, Mapping) else records
        if isinstance(number, int) and number > length:
            print(f"records: {length} at most, not {number}, since {length} {unit} are played", file=sys.stderr)
            changes["records"] = {**records, "number": length} if isinstance(records, Mapping) else length
        elif not isinstance(number, int) and max(number) > length:
            raise StudyError(
                f"--{unit} {length}: the study {study.name} records {study.unit} {max(number)}; give at least as many "
                f"{unit}, or change records in the study's file"
            )
    return dataclasses.replace(study, **changes) if changes else study  # type: ignore[arg-type]


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", text)
    if not found or int(found[1]) > int(found[2]):
        raise StudyError(f"--shard must be I/N with I from 1 to N, such as 3/8, got {text!r}")
    return int(found[1]), int(found[2])


def _check_device(options: Run) -> None:
    """Refuse a kind of device that is not there."""
    if options.device is None:
        return
    try:
        jax.devices()
    except (RuntimeError, AssertionError):  # an assertion of JAX fails where the plugin is not installed
        jax.config.update("jax_platforms", None)
        jax.extend.backend.clear_backends()
        found = " and ".join(sorted({device.platform for device in jax.devices()}))
        hint = "leave --device out, or install JAX for it (pip install 'jax[cuda13]', 'jax[tpu]')"
        raise StudyError(f"--device {options.device}: JAX finds none here, only {found}; {hint}") from None


@exit_code
def merge_command(
    folders: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="FOLDER [FOLDER ...]", help_behavior_hint="(required)"),
    ],
    out: Path,
) -> int:
    """Join the parts of a study that were run into several folders.

    Args:
      folders: Folders with parts of the study.
      out: Folder that holds everything afterwards; may be one of them.
    """
    if not folders:
        raise StudyError("merge needs folders to join: jaxvar merge FOLDER [FOLDER ...] --out PATH")
    manifest = merge(folders, out)
    total = sum(len(manifest.chunks(cell)) for cell in manifest.cells)
    print(f"{out}: {len(manifest.shards)} of {total} shards")
    return DONE


@exit_code
def export_command(folder: Folder, to: Format = "csv", out: OrNone[Path] = None) -> int:
    """Write a study's results to one file.

    Args:
      folder: Folder of a study that was run.
      to: Tidy CSV, netCDF (pip install xarray h5netcdf h5py), or one npz.
      out: The file; the study's name in the current folder if not given.
    """
    print(export(load(folder), to, out))
    return DONE
