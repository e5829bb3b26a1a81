"""``run_study``: from a study to a folder of results, in as many runs as it takes."""

from __future__ import annotations

import contextlib
import dataclasses
import math
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
from jax.sharding import Mesh
from tqdm import tqdm

from jaxvar import engine, files, parameters
from jaxvar.engine import Program, is_accelerator
from jaxvar.files import Damaged
from jaxvar.game import violated_assumptions
from jaxvar.memory import free_memory, human_bytes
from jaxvar.study import store
from jaxvar.study.cells import Cell
from jaxvar.study.definition import Study
from jaxvar.study.factories import RunError, error_at, in_precision
from jaxvar.study.limits import check_sizes
from jaxvar.study.own import cost, try_round
from jaxvar.study.result import StudyResult, at_length, differences, load
from jaxvar.study.shards import Hooks, Processes, Shorter, Stopped, Task, mesh_for, play, read_shard, stretch_for
from jaxvar.study.store import Manifest, StoredCell

_MEMORY_SHARE = 0.8  # of the free memory that a chunk may take: other processes need some too
_COPIES = 3  # of what a chunk holds, on the host while it is written


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
            sentences += [*cost(cell.algorithm), *cost(cell.environment)]
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
        self.key_data = np.array([self.study.key >> 32, self.study.key % 2**32], np.uint32)
        self.checksums: dict[str, str] = {}  # of the shards of this run; empty text where one is not finished
        self.programs: dict[tuple[str, int], Program] = {}  # by cell and chunk
        self.smaller_chunks: dict[tuple[str, int], int | None] = {}  # likewise

    def go(self, resume: bool, force: bool) -> None:
        """Choose chunks, and play what is not there yet."""
        with contextlib.ExitStack() as stack:
            self.stop_asked = stack.enter_context(_stop_signals())

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
            chunks = []
            each = zip(self.processes.agree(stored).tolist(), self.study.cells, strict=True)
            bar = {"unit": "cell", "total": len(stored), "leave": False, "disable": not self.shows_progress}
            for chunk, cell in tqdm(each, desc="compiling", **bar):
                chunks.append(chunk or self._chosen_chunk(cell))
            run = store.this_run(self.devices, self.study.precision)
            manifest = dataclasses.replace(store.new_manifest(self.study, chunks), runs=(run,))
            if before is not None:
                runs = before.runs if before.runs[-1:] == (run,) else (*before.runs, run)
                if len(runs) > 1 and any(r.get("jax") != run["jax"] for r in runs):
                    self._say(f"{self.folder} was begun with other versions: the last digits of its shards may differ")
                manifest = dataclasses.replace(manifest, created=before.created, runs=runs, shards=before.shards)
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
            return dataclasses.replace(before, shards={})  # those that still fit are found again
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
        for cell, stored, share in zip(self.study.cells, manifest.cells, self._shares(manifest), strict=True):
            is_there = [self.processes.agree_on_number(self._is_there(manifest, stored, first)) for first in share]
            missing.append([first for first, there in zip(share, is_there, strict=True) if not there])
            if missing[-1] and self._smaller_chunk(cell, stored.chunk) is not None:
                raise RunError(f"cell {cell.title}: {self._needs(cell, stored.chunk)}")
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

    def _chosen_chunk(self, cell: Cell) -> int:
        """Return the seeds per shard of a cell that has none yet."""
        given, mesh = self.study.chunk, Mesh(np.array(self.devices), ("runs",))
        chunk = given or engine.chosen_chunk(cell.environment, self.study.seeds, self.study.length, mesh)
        while (smaller := self._smaller_chunk(cell, chunk)) is not None:
            if given is not None or smaller == 0:
                hint = f"a chunk of {smaller} would fit" if smaller else "not even a few seeds would fit"
                raise RunError(f"cell {cell.title}: {self._needs(cell, chunk)}; {hint}")
            self._say(f"cell {cell.title}: {self._needs(cell, chunk)}; {smaller} seeds at a time are played instead")
            chunk = smaller
        return chunk

    def _smaller_chunk(self, cell: Cell, chunk: int) -> int | None:
        """Return None if a chunk fits into the memory, else one that may; 0 if none does."""
        if self.processes.agree_on_number(self.stop_asked()):  # a program was compiled since the last time
            raise KeyboardInterrupt
        key = (cell.hash, chunk)
        if key not in self.smaller_chunks:
            needed, free = self._memory(cell, chunk)
            smaller = -1
            if free is not None and needed > _MEMORY_SHARE * free:
                widest = engine.block_shape(1 << 20, mesh_for(1 << 20, self.devices[:1]))[0]
                unit = len(self.devices) * min(widest, chunk) if chunk > len(self.devices) else 1
                smaller = min(int(chunk * _MEMORY_SHARE * free / needed), chunk - 1) // unit * unit
            agreed = self.processes.agree_on_number(smaller)
            self.smaller_chunks[key] = None if agreed < 0 else agreed
        return self.smaller_chunks[key]

    def _memory(self, cell: Cell, chunk: int) -> tuple[int, int | None]:
        """Return the bytes that a chunk needs, and the bytes that are free."""
        program = self._program(cell, chunk)
        stretch = stretch_for(program, self.study.length, self.checkpoint_seconds)
        needed = program.memory(stretch.next(self.study.length))  # on one device
        if not is_accelerator(program.mesh):  # all devices share one memory
            held = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(program.shapes))
            needed = needed * program.mesh.size + _COPIES * held
        return needed, free_memory(program.mesh)

    def _needs(self, cell: Cell, chunk: int) -> str:
        needed, free = self._memory(cell, chunk)
        sizes = human_bytes(needed), human_bytes(free or 0)
        return f"{chunk} seeds at a time need {sizes[0]} of memory, and {sizes[1]} are free"

    def _program(self, cell: Cell, chunk: int) -> Program:
        key = (cell.hash, chunk)
        if key not in self.programs:
            self.programs[key] = Program(
                algorithm=cell.algorithm,
                environment=cell.environment,
                key_data=self.key_data,
                rounds=self.study.recorded,
                recorders=cell.recorders,
                chunk=chunk,
                mesh=mesh_for(chunk, self.devices),
            )
        return self.programs[key]

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
                program = self._program(cell, stored.chunk)
                stretch = stretch_for(program, length, self.checkpoint_seconds)
                save_due = _timer(self.checkpoint_seconds)
                for first in firsts:
                    task = Task(program, self.folder, stored, first, length, keep=stored.hash in lasting)

                    def advanced(num_rounds: int, num_seeds: int = min(stored.chunk, end - first)) -> None:
                        bar.update(num_rounds * num_seeds)

                    try:
                        sha256 = play(task, Hooks(self.processes, stretch, advanced, save_due, self.stop_asked))
                    except Stopped:
                        raise KeyboardInterrupt from None
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
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def note(number: int, frame: types.FrameType | None) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
