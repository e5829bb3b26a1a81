"""``run_study``: from a study to a folder of results, in as many runs as it takes."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
import numpy as np
from tqdm import tqdm

from jaxvar import files, parameters
from jaxvar.cli import handling_signals
from jaxvar.engine import is_pytree
from jaxvar.files import Damaged
from jaxvar.game import violated_assumptions
from jaxvar.study import store
from jaxvar.study.definition import Study
from jaxvar.study.factories import RunError, error_at, in_precision
from jaxvar.study.limits import check_sizes
from jaxvar.study.own import try_round
from jaxvar.study.programs import Programs
from jaxvar.study.result import StudyResult, at_length, differences, load
from jaxvar.study.shards import Hooks, Processes, Shorter, Task, play, read_shard, stretch_for
from jaxvar.study.store import Manifest, StoredCell


def run_study(
    study: Study,
    out: str | Path,
    *,
    resume: bool = True,
    force: bool = False,
    shard: tuple[int, int] = (1, 1),
    devices: Sequence[jax.Device] | None = None,
    progress: bool = True,
    checkpoint_seconds: float = 30.0,
) -> StudyResult | None:
    """Run a study into a folder, or what is left of it.

    Every finished chunk of seeds of a cell is a file; long ones leave checkpoints on the way. So a run may be killed at
    any moment, and the next call resumes it: with the same numbers, to the last bit, as a run that was never
    interrupted. A study with more seeds, rounds or cells than the folder's is an extension of it; any other change is
    refused.

    Args:
      study: what to run.
      out: the folder.
      resume: whether the folder may hold a part of the study already.
      force: whether the folder may hold another study: cells that are the same are kept, all others played anew.
      shard: ``(i, n)``: play the i-th of n parts, counted from 1, as a member of a job array does. Parts may go to one
        folder or to several, which :func:`jaxvar.study.result.merge` joins.
      devices: devices to use; all of the default backend if not given. Under ``jax.distributed`` every process makes
        the same call, and the first one writes.
      progress: show a progress bar.
      checkpoint_seconds: how much work may be lost.

    Returns:
      The results as :func:`jaxvar.load` reads them (of one part: as far as they are there). None in processes that do
      not write.

    Raises:
      RunError: in a sentence, if the study cannot be run or its results cannot be written.
      KeyboardInterrupt: after Ctrl-C or SIGTERM, once everything that was played is on disk.
    """
    with error_at():
        if not isinstance(study, Study) or not isinstance(out, str | Path):
            raise ValueError(f"study and out must be a jaxvar.Study and a path, got {type(study)} and {type(out)}")
        if not isinstance(shard, tuple | list) or len(shard) != 2:
            raise ValueError(f"shard must be two integers, as in (1, 8), got {parameters.shown(shard)}")
        number, total = (parameters.check_count(f"shard[{i}]", x) for i, x in enumerate(shard))
        parameters.check_count("shard[0]", number, high=total)
        parameters.check_positive("checkpoint_seconds", checkpoint_seconds)
        used = parameters.check_devices(devices)
    folder = Path(out)
    try:
        with in_precision(study.precision):
            run = _Run(study, folder, (number, total), used, progress, checkpoint_seconds)
            check_sizes(study, folder, run.devices)
            notes = _notes(study)
            if run.processes.is_writer:
                for sentence in notes:
                    warnings.warn(sentence, UserWarning, stacklevel=2)
            run.go(resume, force)
            return load(folder, partial=total > 1) if run.processes.is_writer else None
    except OSError as error:  # a full disk, or a folder that nobody may write to
        where = f" ({error.filename})" if error.filename else ""
        raise RunError(
            f"cannot write to {folder}: {error.strerror or error}{where}; "
            "the shards that were finished are intact, and the same command goes on from them"
        ) from error


def _notes(study: Study) -> list[str]:
    """Return a sentence for each violated assumption of a theorem and each object that is no pytree.

    A round of each pair of labels with an own class is tried first: one that cannot be played is refused.
    """
    pairs, found = set[tuple[str, str]](), dict[str, str]()  # sentence -> the first cell that it is about
    for cell in study.cells:
        sentences = violated_assumptions(cell.algorithm, cell.environment, study.length)
        pair = (cell.algorithm_label, cell.environment_label)
        if cell.is_own and pair not in pairs:
            pairs.add(pair)
            with error_at(what=cell.title):
                try_round(cell.algorithm, cell.environment, cell.recorders)
            sentences += [
                f"{type(target).__name__} is no pytree, so its numbers are built into the program and every setting is "
                "compiled by itself; jax.tree_util.register_dataclass makes it one"
                for target in (cell.algorithm, cell.environment)
                if not is_pytree(target)
            ]
        for sentence in sentences:
            found.setdefault(sentence, cell.title)
    return [f"{title}: {sentence}" for sentence, title in found.items()]


@dataclasses.dataclass
class _Run:
    """One run of a study, in one process or as one of several."""

    study: Study
    folder: Path
    shard: tuple[int, int]
    devices: list[jax.Device]
    progress: bool
    checkpoint_seconds: float

    def __post_init__(self) -> None:
        self.processes = Processes(self.devices)
        self.shows_progress = self.progress and self.processes.is_writer
        self.checksums: dict[str, str] = {}  # of the shards of this run; empty text where one is not finished

    def go(self, resume: bool, force: bool) -> None:
        """Choose chunks, and play what is not there yet."""
        with contextlib.ExitStack() as stack:
            self.stop_asked = stack.enter_context(_stop_signals())
            given = (self.study, self.devices, self.processes, self.checkpoint_seconds, self.shows_progress)
            self.programs = Programs(*given, self.stop_asked, self._say)

            def enter() -> None:
                files.make_folder(self.folder)
                stack.enter_context(store.locked(self.folder, self.shard))

            self.processes.write(enter)
            manifest = self._manifest(resume, force)
            missing = self._missing(manifest)
            self.processes.write(self._write_checksums)  # without those of shards that are played again
            try:
                self._play(manifest, missing)
            except BaseException:
                with contextlib.suppress(OSError, RunError):  # the first error is reported, not what follows from it
                    if self.processes.is_writer:
                        self._write_checksums()
                raise
            self.processes.write(self._write_checksums)

    def _manifest(self, resume: bool, force: bool) -> Manifest:
        """Write ``run.json`` as it is from now on, and return it."""
        before: Manifest | None = None
        with contextlib.ExitStack() as stack:

            def look() -> None:
                nonlocal before
                stack.enter_context(store.manifest_locked(self.folder))
                before = self._stored_before(resume, force)

            self.processes.write(look)
            known = {} if before is None else {cell.hash: cell.chunk for cell in before.cells}
            stored = np.array([known.get(cell.hash, 0) for cell in self.study.cells], np.int32)
            agreed = self.processes.agree(stored).tolist()
            each = list(zip(agreed, self.study.cells, strict=True))
            self.programs.compile([(cell, self.programs.first_chunk(cell)) for chunk, cell in each if not chunk])
            chunks = [chunk or self.programs.chosen_chunk(cell) for chunk, cell in each]
            run = store.this_run(self.devices, self.study.precision)
            manifest = dataclasses.replace(store.new_manifest(self.study, chunks), runs=(run,))
            if before is not None:
                runs = before.runs if before.runs[-1:] == (run,) else (*before.runs, run)
                if len(runs) > 1 and any(r.get("jax") != run["jax"] for r in runs):
                    self._say(f"{self.folder} was begun with other versions: the last digits of its shards may differ")
                manifest = dataclasses.replace(
                    manifest, created=before.created, runs=runs, shards=before.shards, stopping=before.stopping
                )
            self.processes.write(lambda: manifest.write(self.folder))
        return manifest

    def _stored_before(self, resume: bool, force: bool) -> Manifest | None:
        """Return the folder's ``run.json``, if this study may resume or extend it; None if there is none."""
        if not (self.folder / "run.json").exists():
            return None
        if not resume:
            raise RunError(f"{self.folder} holds a study already; resume it, or name another folder")
        before = store.read_manifest(self.folder)
        if before.format == store.OLD_FORMAT:
            store.sign_seconds(self.folder, before)
        found = differences(self.study, before)
        if found and force:
            return dataclasses.replace(before, shards={}, stopping=None)  # shards that still fit are found again
        if found:
            raise RunError(
                f"{self.folder} holds another study, and only seeds, rounds and cells may be added; what changed:\n  "
                + "\n  ".join(found)
                + "\nname another folder for it, or play it anew in this one with --force (force=True)"
            )
        return before

    def _shares(self, manifest: Manifest) -> list[list[int]]:
        """Return the first seeds of those chunks of each cell that this run plays, dealt in turn."""
        number, total = self.shard
        return [
            [first for j, first in enumerate(manifest.chunks(cell)) if (i + j) % total == number - 1]
            for i, cell in enumerate(manifest.cells)
        ]

    def _missing(self, manifest: Manifest) -> list[list[int]]:
        """Return the first seeds of those chunks of this run that have to be played, for each cell."""
        missing = []
        for stored, share in zip(manifest.cells, self._shares(manifest), strict=True):
            is_there = [self.processes.agree_on_number(self._is_there(manifest, stored, first)) for first in share]
            missing.append([first for first, there in zip(share, is_there, strict=True) if not there])
        each = zip(self.study.cells, manifest.cells, missing, strict=True)
        to_play = [(cell, stored.chunk) for cell, stored, firsts in each if firsts]
        self.programs.compile(to_play)
        for cell, chunk in to_play:
            if self.programs.fitting_chunk(cell, chunk) < chunk:
                raise RunError(f"cell {cell.title}: {self.programs.needs(cell, chunk)}")
        return missing

    def _is_there(self, manifest: Manifest, cell: StoredCell, first: int) -> bool:
        """Return whether a shard needs no playing; only the writer looks."""
        if not self.processes.is_writer:
            return False
        path = cell.path(self.folder, "shards", first)
        self._finished(path, "")
        try:
            self._finished(path, read_shard(self.folder, manifest, cell, first).sha256)
        except (FileNotFoundError, Shorter):
            return False
        except Damaged as error:
            self._say(f"{path} is damaged and will be played again: {error}")
            return False
        return True

    def _finished(self, path: Path, sha256: str) -> None:
        self.checksums[str(path.relative_to(self.folder))] = sha256

    def _write_checksums(self) -> None:
        with store.manifest_locked(self.folder):
            manifest = store.read_manifest(self.folder)
            shards = {k: v for k, v in {**manifest.shards, **self.checksums}.items() if v}
            dataclasses.replace(manifest, updated=store.now(), shards=shards).write(self.folder)

    def _play(self, manifest: Manifest, missing: list[list[int]]) -> None:
        length, end = manifest.num_rounds, manifest.first_seed + manifest.seeds
        lasting = self._hashes_at_any_length() if any(missing) else set[str]()

        def num_seeds(chunks: list[list[int]]) -> int:
            return sum(min(c.chunk, end - f) for c, firsts in zip(manifest.cells, chunks, strict=True) for f in firsts)

        total, left = num_seeds(self._shares(manifest)), num_seeds(missing)
        bar = tqdm(
            total=total * length,
            initial=(total - left) * length,
            unit=f"seed-{manifest.unit}",
            unit_scale=True,
            smoothing=0.1,
            disable=not self.shows_progress,
        )
        with bar:
            for cell, stored, firsts in zip(self.study.cells, manifest.cells, missing, strict=True):
                if not firsts:
                    continue
                bar.set_description(stored.algorithm[:30], refresh=False)
                program = self.programs.program(cell, stored.chunk)
                stretch = stretch_for(program, length, self.checkpoint_seconds)
                save_due = _timer(self.checkpoint_seconds)
                for first in firsts:
                    task = Task(program, self.folder, stored, first, length, keep=stored.hash in lasting)

                    def advanced(num_rounds: int, num_seeds: int = min(stored.chunk, end - first)) -> None:
                        bar.update(num_rounds * num_seeds)

                    sha256 = play(task, Hooks(self.processes, stretch, advanced, save_due, self.stop_asked))
                    self._finished(task.path("shards"), sha256)
                    if self.processes.agree_on_number(self.stop_asked()):
                        raise KeyboardInterrupt

    def _hashes_at_any_length(self) -> set[str]:
        """Return the hashes of the cells that do not depend on the number of rounds: more rounds would resume them."""
        try:
            longer = at_length(self.study, 2 * self.study.length)
        except ValueError:  # an environment does not last that long
            return set()
        return {cell.hash for cell in self.study.cells} & {cell.hash for cell in longer.cells}

    def _say(self, text: str) -> None:
        if self.processes.is_writer:
            print(text, file=sys.stderr)


def _timer(seconds: float) -> Callable[[], bool]:
    """Return a function that is true once in as many seconds."""
    last = time.monotonic()

    def is_due() -> bool:
        nonlocal last
        if time.monotonic() - last < seconds:
            return False
        last = time.monotonic()
        return True

    return is_due


@contextlib.contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that is true once Ctrl-C was pressed or SIGTERM came; a second Ctrl-C interrupts at once."""
    asked = threading.Event()

    def note(number: int, frame: types.FrameType | None) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with handling_signals(note):
        yield asked.is_set
