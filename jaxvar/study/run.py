"""``run_study``: from a study to a folder of results, in as many sittings as it takes."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from jaxvar import parameters, random
from jaxvar.engine import Program, block_shape, is_accelerator
from jaxvar.game import violated_assumptions
from jaxvar.study import plan, store
from jaxvar.study.cells import Cell, cells
from jaxvar.study.changes import can_go_on, changes
from jaxvar.study.company import Company
from jaxvar.study.definition import Study
from jaxvar.study.errors import RunError
from jaxvar.study.load import load
from jaxvar.study.lock import locked, moment
from jaxvar.study.manifest import (
    Manifest,
    StoredCell,
    checkpoint_path,
    new_manifest,
    read_manifest,
    shard_path,
    stored_cell,
    this_run,
    timing_path,
)
from jaxvar.study.pace import EvenPace, Pace
from jaxvar.study.playing import Stopped, Task, Watch, play
from jaxvar.study.precision import in_precision
from jaxvar.study.result import StudyResult
from jaxvar.study.shards import Shorter, identity, mine, read_shard

_STRETCH = 1.0  # seconds per call of a program: how long Ctrl-C may have to wait


def run_study(
    study: Study,
    out: str | Path,
    *,
    resume: bool = True,
    shard: tuple[int, int] = (1, 1),
    devices: Sequence[jax.Device] | None = None,
    progress: bool = True,
    checkpoint_seconds: float = 30.0,
) -> StudyResult | None:
    """Run a study into a folder, or what is left of it.

    Every finished chunk of seeds of a cell is a file; long ones leave checkpoints on the way. So a run may be killed at
    any moment, and the next call goes on: with the same numbers, to the last bit, as a run that was never interrupted.
    A study with more seeds, rounds or cells than the folder's is an extension of it; any other change is refused.

    Args:
      study: what to run.
      out: the folder.
      resume: whether the folder may hold a part of the study already.
      shard: ``(i, n)``: play the i-th of n parts, counted from 1, as a member of a job array does. Parts may go to one
        folder or to several, which :func:`jaxvar.study.merge.merge` joins.
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
    number, total = (parameters.check_count(f"shard[{i}]", x) for i, x in enumerate(shard))
    parameters.check_count("shard[0]", number, high=total)
    parameters.check_positive("checkpoint_seconds", checkpoint_seconds)
    folder = Path(out)
    with in_precision(study.precision), _writable(folder):
        run = _Run(study, folder, (number, total), list(devices or jax.devices()), progress, checkpoint_seconds)
        run.go(resume)
        return load(folder, partial=total > 1) if run.company.is_writer else None


class _Run:
    """One sitting."""

    def __init__(
        self,
        study: Study,
        folder: Path,
        shard: tuple[int, int],
        devices: list[jax.Device],
        progress: bool,
        checkpoint_seconds: float,
    ) -> None:
        self.study, self.folder, self.shard, self.devices = study, folder, shard, devices
        self.progress, self.checkpoint_seconds = progress, checkpoint_seconds
        self.company = Company(devices)
        self.cells = cells(study)
        self.key_data = np.asarray(random.key_words(jax.random.key(study.key)))
        self.checksums: dict[str, str] = {}

    def _warn(self) -> None:
        """Say once where a theorem's assumption is violated, and in which cell first."""
        found = dict[str, str]()
        for cell in self.cells:
            for sentence in violated_assumptions(cell.algorithm, cell.environment, self.study.length):
                found.setdefault(sentence, cell.title)
        for sentence, title in found.items():
            warnings.warn(f"{title}: {sentence}", UserWarning, stacklevel=4)

    def go(self, resume: bool) -> None:
        """Plan, and play what is not there yet."""
        if self.company.is_writer:
            self._warn()
        with contextlib.ExitStack() as held:
            self.company.writes(lambda: self._enter(held))
            manifest, todo = self._prepared(resume)
            try:
                self._play(manifest, todo)
            except BaseException:
                with contextlib.suppress(OSError, RunError):  # what ends the run is said, not what follows from it
                    if self.company.is_writer:
                        self._note_checksums()
                raise
            self.company.writes(self._note_checksums)

    def _enter(self, held: contextlib.ExitStack) -> None:
        store.make_folder(self.folder)
        held.enter_context(locked(self.folder, self.shard))

    def _prepared(self, resume: bool) -> tuple[Manifest, list[list[int]]]:
        """``run.json`` as it is from now on, and the first seeds of the chunks that each cell lacks."""
        before: Manifest | None = None
        with contextlib.ExitStack() as held:

            def look() -> None:
                nonlocal before
                held.enter_context(moment(self.folder))
                before = self._before(resume)

            self.company.writes(look)
            known = {} if before is None else {cell.hash: cell.chunk for cell in before.cells}
            hashes = [stored_cell(self.study, cell, 1).hash for cell in self.cells]
            there = self.company.agreed(np.array([known.get(h, 0) for h in hashes], np.int32)).tolist()
            chunks = [size or self._planned(cell) for size, cell in self._bar(zip(there, self.cells, strict=True))]
            made = tuple(stored_cell(self.study, cell, chunk) for cell, chunk in zip(self.cells, chunks, strict=True))
            manifest = self._with_history(new_manifest(self.study, made), before)
            self.company.writes(lambda: manifest.write(self.folder))
        todo = []
        for i, cell in enumerate(manifest.cells):
            firsts = [f for j, f in enumerate(manifest.chunks(cell)) if mine(i, j, self.shard)]
            is_missing = [self.company.agreed_number(not self._is_there(manifest, cell, first)) for first in firsts]
            todo.append([first for first, lacks in zip(firsts, is_missing, strict=True) if lacks])
            if todo[-1] and self._too_large(self.cells[i], cell.chunk) is not None:
                raise RunError(f"cell {cell.title}: {self._needs(self.cells[i], cell.chunk)}")
        return manifest, todo

    def _bar(self, each: Any) -> Any:
        """Programs are compiled while a study is planned, which may take a while."""
        shown = self.progress and self.company.is_writer
        return tqdm(each, desc="planning", unit="cell", total=len(self.cells), disable=not shown, leave=False)

    def _before(self, resume: bool) -> Manifest | None:
        """The folder's ``run.json``, if this study may go on from it."""
        if not (self.folder / "run.json").exists():
            return None
        if not resume:
            raise RunError(f"{self.folder} holds a study already; resume it, or name another folder")
        before = read_manifest(self.folder)
        if found := changes(self.study, before):
            raise RunError(
                f"{self.folder} holds another study, and only seeds, rounds and cells may be added; what changed:\n  "
                + "\n  ".join(found)
                + "\nname another folder for it"
            )
        return before

    def _with_history(self, manifest: Manifest, before: Manifest | None) -> Manifest:
        run = this_run(self.devices, self.study.precision)
        if before is None:
            return dataclasses.replace(manifest, runs=(run,))
        runs = before.runs if before.runs[-1:] == (run,) else (*before.runs, run)
        if len(runs) > 1 and any(r.get("jax") != run["jax"] for r in runs):
            self._say(f"{self.folder} was begun with other versions: the last digits of its shards may differ")
        return dataclasses.replace(manifest, created=before.created, runs=runs, shards=before.shards)

    def _is_there(self, manifest: Manifest, cell: StoredCell, first: int) -> bool:
        """Whether a shard needs no playing; only the writer looks."""
        if not self.company.is_writer:
            return False
        path = shard_path(self.folder, cell, first)
        try:
            self._finished(path, read_shard(self.folder, manifest, cell, first).sha256)
        except FileNotFoundError:
            return False
        except Shorter:
            return False
        except store.Damaged as error:
            self._say(f"{path} is damaged and will be played again: {error}")
            return False
        return True

    def _finished(self, path: Path, sha256: str) -> None:
        self.checksums[str(path.relative_to(self.folder))] = sha256

    def _note_checksums(self) -> None:
        with moment(self.folder):
            manifest = read_manifest(self.folder)
            manifest.updated_now(shards={**manifest.shards, **self.checksums}).write(self.folder)

    def _planned(self, cell: Cell) -> int:
        """Seeds per shard of a cell that has none yet."""
        given = self.study.chunk
        chunk = given or plan.chosen_chunk(cell.environment, self.study.seeds, self.study.length, self.devices)
        while (smaller := self._too_large(cell, chunk)) is not None:
            if given is not None or smaller == 0:
                raise RunError(
                    f"cell {cell.title}: {self._needs(cell, chunk)}; "
                    + (f"a chunk of {smaller} would fit" if smaller else "not even a few seeds would fit")
                )
            self._say(f"cell {cell.title}: {self._needs(cell, chunk)}; {smaller} seeds at a time are played instead")
            chunk = smaller
        return chunk

    def _too_large(self, cell: Cell, chunk: int) -> int | None:
        """None if a chunk fits into the memory, else one that may."""
        needed, free = self._memory(cell, chunk)
        smaller = -1
        if free is not None and needed > plan.SHARE * free:
            widest = block_shape(1 << 20, plan.mesh_for(1 << 20, self.devices[:1]))[0]
            unit = len(self.devices) * min(widest, chunk) if chunk > len(self.devices) else 1
            smaller = plan.fitting_chunk(chunk, needed, free, unit)
        agreed = self.company.agreed_number(smaller)
        return None if agreed < 0 else agreed

    def _memory(self, cell: Cell, chunk: int) -> tuple[int, int | None]:
        program = self._program(cell, chunk)
        return plan.needed_memory(program, self._pace(chunk).next(self.study.length)), plan.free_memory(program.mesh)

    def _needs(self, cell: Cell, chunk: int) -> str:
        needed, free = self._memory(cell, chunk)
        words = plan.in_words(needed), plan.in_words(free or 0)
        return f"{chunk} seeds at a time need {words[0]} of memory, and {words[1]} are free"

    def _program(self, cell: Cell, chunk: int) -> Program:
        mesh = plan.mesh_for(chunk, self.devices)
        return Program(
            algorithm=cell.algorithm,
            environment=cell.environment,
            key_data=self.key_data,
            rounds=self.study.recorded,
            recorders=cell.recorders,
            chunk=chunk,
            mesh=mesh,
        )

    def _pace(self, chunk: int) -> Pace:
        if is_accelerator(plan.mesh_for(chunk, self.devices)):
            return EvenPace(self.study.length)
        return Pace(chunk, min(_STRETCH, self.checkpoint_seconds / 2))

    def _play(self, manifest: Manifest, todo: list[list[int]]) -> None:
        length, kept = manifest.num_rounds, can_go_on(self.study)
        end = manifest.first_seed + manifest.seeds
        mine_all = sum(
            min(cell.chunk, end - first)
            for i, cell in enumerate(manifest.cells)
            for j, first in enumerate(manifest.chunks(cell))
            if mine(i, j, self.shard)
        )
        left = sum(min(c.chunk, end - f) for c, firsts in zip(manifest.cells, todo, strict=True) for f in firsts)
        bar = tqdm(
            total=mine_all * length,
            initial=(mine_all - left) * length,
            unit=f"seed-{manifest.unit}",
            unit_scale=True,
            smoothing=0.1,
            disable=not (self.progress and self.company.is_writer),
        )
        with bar, _asked_to_stop() as stop_asked:
            for cell, stored, firsts in zip(self.cells, manifest.cells, todo, strict=True):
                if not firsts:
                    continue
                bar.set_description(stored.algorithm[:30], refresh=False)
                program, pace = self._program(cell, stored.chunk), self._pace(stored.chunk)
                saver = _Timer(self.checkpoint_seconds)
                for first in firsts:
                    num_seeds = min(stored.chunk, end - first)

                    def advanced(num_rounds: int, num_seeds: int = num_seeds) -> None:
                        bar.update(num_rounds * num_seeds)

                    task = Task(
                        program=program,
                        seeds=np.arange(first, first + stored.chunk),
                        num_rounds=length,
                        shard=shard_path(self.folder, stored, first),
                        checkpoint=checkpoint_path(self.folder, stored, first),
                        timing=timing_path(self.folder, stored, first),
                        identity=identity(stored, first),
                        keep=stored.hash in kept,
                    )
                    try:
                        sha256 = play(task, Watch(self.company, pace, advanced, saver.is_due, stop_asked))
                    except Stopped:
                        raise KeyboardInterrupt from None
                    self._finished(task.shard, sha256)
                    if self.company.agreed_number(stop_asked()):
                        raise KeyboardInterrupt

    def _say(self, text: str) -> None:
        if self.company.is_writer:
            print(text, file=sys.stderr)


class _Timer:
    """Says once in a while that it is time."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._last = seconds, time.monotonic()

    def is_due(self) -> bool:
        """Whether as many seconds are over since it last was."""
        if time.monotonic() - self._last < self._seconds:
            return False
        self._last = time.monotonic()
        return True


@contextlib.contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, or SIGTERM came; the second Ctrl-C is an ordinary one."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def note(number: int, frame: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """A full disk, or a folder that nobody may write to, in a sentence."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise RunError(
            f"cannot write to {folder}: {error.strerror or error}{where}; "
            "the shards that were finished are intact, and the same command goes on from them"
        ) from error
