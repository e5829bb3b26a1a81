"""The verbs ``run``, ``merge`` and ``export`` of the command line: exit codes and sentences instead of tracebacks."""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, ParamSpec

import jax
import tyro

from jaxvar.study.export import Format, export
from jaxvar.study.factories import RunError, StudyError
from jaxvar.study.result import failures, load, merge
from jaxvar.study.run import run_study
from jaxvar.study.toml import read_study

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
P = ParamSpec("P")


def _exit_code(command: Callable[P, int]) -> Callable[P, int]:
    """Make ``command`` return an exit code and print a sentence where it would raise an error."""

    @functools.wraps(command)
    def call(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return command(*args, **kwargs)
        except StudyError as error:
            print(f"jaxvar: {error}", file=sys.stderr)
            return USAGE
        except (RunError, ImportError) as error:
            print(f"jaxvar: {error}", file=sys.stderr)
        except OSError as error:
            print(f"jaxvar: {error.strerror or error}: {error.filename or ''}", file=sys.stderr)
        return FAILED

    return call


@dataclasses.dataclass(frozen=True)
class Run:
    """Run a study, or what is left of it, into a folder of results."""

    study: tyro.conf.Positional[str]
    """A TOML file, the run.json of a study to repeat, or a study that comes with jaxvar: headline, episodes, quick."""
    out: Path | None = None
    """The folder; results/NAME if not given. A folder that holds a part of the same study is resumed."""
    seeds: int | None = None
    """Number of seeds, instead of the study's."""
    rounds: int | None = None
    """Number of rounds, instead of the study's."""
    episodes: int | None = None
    """Number of episodes, instead of the study's."""
    chunk: int | None = None
    """Seeds per shard, instead of the study's."""
    precision: Literal["float64", "float32"] | None = None
    """Type of all numbers, instead of the study's."""
    resume: bool = True
    """Resume a study that was interrupted. With --no-resume a folder that holds results is refused."""
    force: bool = False
    """Use a folder that holds another study: cells that are the same are kept, all others played anew."""
    shard: Annotated[str, tyro.conf.arg(metavar="I/N")] = "1/1"
    """Play only part I of N, as a member of a job array."""
    device: Literal["cpu", "gpu", "tpu"] | None = None
    """Kind of device; JAX's choice if not given."""
    cache: Path | None = None
    """Keep compiled programs in this folder, for the next process."""
    checkpoint_seconds: float = 30.0
    """Seconds of work that may be lost when the process is killed."""
    progress: bool = True
    """Show a progress bar."""
    distributed: bool = False
    """Be one of several processes that play the study together, as Slurm or MPI start them."""
    coordinator: str | None = None
    """HOST:PORT of the first of these processes, where neither Slurm nor MPI says so."""
    num_processes: int | None = None
    """Number of these processes, where neither Slurm nor MPI says so."""
    process_id: int | None = None
    """Number of this process, from 0, where neither Slurm nor MPI says so."""


@_exit_code
def run_command(options: Run) -> int:
    """Run a study; returns an exit code."""
    shard = _shard(options.shard)
    _set_up(options)  # first, since reading a study makes arrays
    study = read_study(options.study)
    names = ("seeds", "rounds", "episodes", "chunk", "precision")
    if changes := {name: value for name in names if (value := getattr(options, name)) is not None}:
        study = dataclasses.replace(study, **changes)
    out = options.out or Path("results") / study.name
    try:
        result = run_study(
            study,
            out,
            resume=options.resume,
            force=options.force,
            shard=shard,
            progress=options.progress,
            checkpoint_seconds=options.checkpoint_seconds,
        )
    except KeyboardInterrupt:
        print(f"\nstopped; the same command goes on from what is in {out}", file=sys.stderr)
        return INTERRUPTED
    if result is None:  # another process writes
        return DONE
    failed = failures(result)
    for line in failed:
        print(line, file=sys.stderr)
    print(out)
    return FAILED if failed else DONE


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", text)
    if not found or int(found[1]) > int(found[2]):
        raise StudyError(f"shard must be I/N with I from 1 to N, such as 3/8, got {text!r}")
    return int(found[1]), int(found[2])


def _set_up(options: Run) -> None:
    """Configure JAX before it starts."""
    if options.device is not None:
        jax.config.update("jax_platforms", {"gpu": "cuda"}.get(options.device, options.device))
    if options.cache is not None:
        jax.config.update("jax_compilation_cache_dir", str(options.cache.resolve()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    if options.distributed or options.coordinator is not None:
        jax.distributed.initialize(options.coordinator, options.num_processes, options.process_id)


@_exit_code
def merge_command(folders: tyro.conf.Positional[tuple[Path, ...]], out: Path) -> int:
    """Join the parts of a study that were run into several folders.

    Args:
      folders: folders of results.
      out: where everything is afterwards; may be one of them.
    """
    manifest = merge(folders, out)
    total = sum(len(manifest.chunks(cell)) for cell in manifest.cells)
    print(f"{out}: {len(manifest.shards)} of {total} shards")
    return DONE


@_exit_code
def export_command(folder: tyro.conf.Positional[Path], to: Format = "csv", out: Path | None = None) -> int:
    """Write a study's results to one file.

    Args:
      folder: folder of results.
      to: tidy CSV, netCDF (pip install xarray h5netcdf h5py), or one npz.
      out: the file; the study's name in the current folder if not given.
    """
    print(export(load(folder), to, out))
    return DONE
