"""A study's folder: the manifest ``run.json``, the timings, and the lock.

``run.json`` has everything needed to repeat the study, and the checksums of its shards. Every file of a folder has a
checksum of its own (:mod:`jaxvar.files`), and none is reached through a link. The lock lets one run write to a folder
at a time; the system takes it back from a process that dies.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import os
import platform
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jaxlib.version
import numpy as np

from jaxvar import __version__, files, memory
from jaxvar.files import Damaged
from jaxvar.study.cells import digest, titled
from jaxvar.study.definition import MAX_QUESTION, Study, check_study_name, check_text
from jaxvar.study.factories import RunError, Table, short

Part = Literal["shards", "checkpoints", "timings"]
PARTS: tuple[Part, ...] = ("checkpoints", "timings", "shards")  # the shard last: it says that all else is there
FORMAT = 2
OLD_FORMAT = 1  # its run.json and timings have no checksums
_MAX_MANIFEST = 2**28  # bytes
_MAX_TIMING = 1000  # bytes
_HASH = re.compile(r"[0-9a-f]{20}")
_SHARD = re.compile(r"shards/[0-9a-f]{20}/[0-9]{1,10}-[0-9]{1,10}\.npz")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class StoredCell:
    """A cell as ``run.json`` has it."""

    hash: str  # of the cell; names its folders
    chunk: int  # seeds per shard
    algorithm: str
    environment: str
    algorithm_settings: Table
    environment_settings: Table
    constants: str
    record: tuple[str, ...]
    config: Table

    @property
    def title(self) -> str:
        """Labels and settings, for messages."""
        player = titled(self.algorithm, self.algorithm_settings)
        return f"{player} on {titled(self.environment, self.environment_settings)}"

    @property
    def has_own_environment(self) -> bool:
        """Whether its environment is a class of a user's own, or an object."""
        environment = self.config.get("environment")
        return isinstance(environment, Mapping) and ":" in str(environment.get("name"))

    def path(self, folder: Path, part: Part, first: int) -> Path:
        """Return the file that holds the shard, the checkpoint or the timing of the chunk of seeds from ``first``."""
        ending = "json" if part == "timings" else "npz"
        return folder / part / self.hash / f"{first}-{first + self.chunk - 1}.{ending}"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """A study's ``run.json``."""

    study: Mapping[str, Any]  # its configuration, as TOML has it
    study_hash: str
    unit: str  # "round" or "episode"
    num_rounds: int  # or episodes
    rounds: tuple[int, ...]  # the recorded ones
    seeds: int
    first_seed: int
    cells: tuple[StoredCell, ...]
    created: str
    updated: str
    runs: tuple[Table, ...]  # versions and devices, one entry for each change of them
    shards: Mapping[str, str]  # file -> SHA-256
    format: int = FORMAT
    stopping: Table | None = None  # rule and decisions of jaxvar.until, if it chose the number of seeds

    def table(self) -> dict[str, object]:
        """Return the manifest as JSON has it: without a rule where none was used."""
        found = dataclasses.asdict(self)
        return found if self.stopping is not None else {k: v for k, v in found.items() if k != "stopping"}

    def chunks(self, cell: StoredCell) -> list[int]:
        """Return the first seed of each of a cell's shards."""
        return list(range(self.first_seed, self.first_seed + self.seeds, cell.chunk))

    def write(self, folder: Path) -> None:
        """Write ``run.json``, in the newest format."""
        data = files.encode_table({**self.table(), "format": FORMAT})
        if len(data) > _MAX_MANIFEST:
            raise RunError(
                f"run.json would have {len(data):,} bytes, and {_MAX_MANIFEST:,} are allowed; split the study"
            )
        files.write(folder / "run.json", data)


def new_manifest(study: Study, chunks: Sequence[int]) -> Manifest:
    """Return the ``run.json`` of a study that was not run yet; ``chunks`` are the seeds per shard of each cell."""
    stored = tuple(
        StoredCell(
            hash=cell.hash,
            chunk=chunk,
            algorithm=cell.algorithm_label,
            environment=cell.environment_label,
            algorithm_settings=cell.algorithm_settings,
            environment_settings=cell.environment_settings,
            constants=cell.constants,
            record=cell.record,
            config=cell.config,
        )
        for cell, chunk in zip(study.cells, chunks, strict=True)
    )
    return Manifest(
        study=study.to_config(),
        study_hash=digest(study.to_config()),
        unit=study.unit,
        num_rounds=study.length,
        rounds=tuple(study.recorded.tolist()),
        seeds=study.seeds,
        first_seed=study.first_seed,
        cells=stored,
        created=now(),
        updated=now(),
        runs=(),
        shards={},
    )


def read_manifest(folder: Path, name: str = "run.json") -> Manifest:
    """Read the ``run.json`` of a folder; raises :class:`RunError` where there is none, or a wrong one."""
    path = folder / name
    try:
        found, is_signed = files.decode_table(files.read(path, _MAX_MANIFEST))
        if not is_signed and found.get("format") != OLD_FORMAT:
            raise Damaged("it has no checksum")
        cells = tuple(StoredCell(**{**cell, "record": tuple(cell["record"])}) for cell in found["cells"])
        manifest = Manifest(**{**found, "cells": cells, "runs": tuple(found["runs"])})
        _check(manifest)
    except FileNotFoundError:
        if not folder.is_dir():
            raise RunError(f"there is no folder {folder}; name the one that the study was run into") from None
        raise RunError(f"{folder} holds no study: there is no run.json in it") from None
    except (Damaged, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    _folders(folder)  # refuses links
    return manifest


def _check(manifest: Manifest) -> None:
    """Refuse a manifest in which a hash, a name, a size or a label is not as a study would have written it."""
    if manifest.format not in (OLD_FORMAT, FORMAT):
        raise ValueError(f"its format is {short(manifest.format)}, and this version of jaxvar reads {FORMAT}")
    study = manifest.study
    if not isinstance(study, dict) or not isinstance(manifest.shards, dict):
        raise ValueError("its study is no table")
    if manifest.study_hash != digest(study):
        raise ValueError("its study_hash is not that of its study")
    check_study_name(study.get("name"))
    if study.get("question", "") != "":
        check_text("question", study["question"], most=MAX_QUESTION, lines=True)
    if study.get("reference") is not None:
        check_text("reference", study["reference"])
    if manifest.unit not in ("round", "episode"):
        raise ValueError(f"its unit is {short(manifest.unit)}")
    for name, inside in (("num_rounds", f"{manifest.unit}s"), ("seeds", "seeds"), ("first_seed", "first_seed")):
        value = getattr(manifest, name)
        least = 0 if name == "first_seed" else 1
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**31:
            raise ValueError(f"{name} is {short(value)}")
        if value != study.get(inside):
            raise ValueError(f"{name} is {value}, but {inside} of its study is {short(study.get(inside))}")
    rounds = np.asarray(manifest.rounds)
    if rounds.ndim != 1 or rounds.dtype.kind != "i" or rounds.size == 0 or np.any(np.diff(rounds, prepend=0) <= 0):
        raise ValueError("rounds do not increase")
    if not isinstance(manifest.stopping, dict | None):
        raise ValueError(f"its stopping is {short(manifest.stopping)}")
    if not all(isinstance(run, dict) for run in manifest.runs):
        raise ValueError("its runs are no tables")
    for name, sha256 in manifest.shards.items():
        if not _SHARD.fullmatch(name) or not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            raise ValueError(f"its shards have the entry {short(name)}: {short(sha256)}")
    for cell in manifest.cells:
        _check_cell(cell, study)
    if (num_shards := sum(-(-manifest.seeds // cell.chunk) for cell in manifest.cells)) > memory.MAX_CALLS:
        raise ValueError(f"its chunks make {num_shards:,} shards, and at most {memory.MAX_CALLS:,} are allowed")
    hashes = [cell.hash for cell in manifest.cells]
    if not hashes:
        raise ValueError("it has no cells")
    if len(set(hashes)) < len(hashes):
        raise ValueError("two of its cells have the same hash")


def _check_cell(cell: StoredCell, study: Table) -> None:
    numbers = {"config": cell.config, "key": study.get("key"), "precision": study.get("precision")}
    if not isinstance(cell.hash, str) or not _HASH.fullmatch(cell.hash):
        raise ValueError(f"a cell's hash is {short(cell.hash)}")
    if cell.hash != digest({**numbers, "record": cell.record}):
        raise ValueError(f"the hash {cell.hash} of a cell is not that of its arguments, key, precision and records")
    if not isinstance(cell.chunk, int) or not 0 < cell.chunk < 2**31:
        raise ValueError(f"a cell's chunk is {short(cell.chunk)}")
    for table in (cell.algorithm_settings, cell.environment_settings, cell.config, *cell.config.values()):
        if not isinstance(table, dict):
            raise ValueError(f"a cell's settings are {short(table)}")
    for text in (cell.algorithm, cell.environment, *cell.record):
        check_text("a cell's label", text)
    check_text("a cell's constants", cell.constants, most=MAX_QUESTION)


def read_seconds(path: Path, *, is_old: bool = False) -> float:
    """Read how long a chunk took to play; 0 where there is no such file, :class:`RunError` where it is damaged."""
    try:
        table, is_signed = files.decode_table(files.read(path, _MAX_TIMING))
        seconds = table.get("seconds")
        if not is_signed and not is_old:
            raise Damaged("it has no checksum")
        if not isinstance(seconds, int | float) or not 0 <= seconds < 1e12:
            raise Damaged("it holds no number of seconds")
    except FileNotFoundError:
        return 0.0
    except Damaged as error:
        raise RunError(f"{path} is damaged: {error}. Delete it to go on without this time") from None
    return float(seconds)


def write_seconds(path: Path, seconds: float) -> None:
    """Write how long a chunk took to play."""
    files.write(path, files.encode_table({"seconds": round(seconds, 6)}))


def sign_seconds(folder: Path, manifest: Manifest) -> None:
    """Give the timings of a folder of the old format their checksums."""
    for cell in manifest.cells:
        for path in (cell.path(folder, "timings", first) for first in manifest.chunks(cell)):
            if path.exists():
                write_seconds(path, read_seconds(path, is_old=True))


def this_run(devices: Sequence[jax.Device], precision: str) -> dict[str, object]:
    """Return the versions and devices of this process, as ``run.json`` lists them."""
    return {
        "jaxvar": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": jaxlib.version.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "device": devices[0].device_kind,
        "devices": len(devices),
        "processes": jax.process_count(),
        "precision": precision,
    }


def now() -> str:
    """Return date and time."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@contextlib.contextmanager
def locked(folder: Path, shard: tuple[int, int] = (1, 1)) -> Iterator[None]:
    """Hold the folder while a study is run into it, and remove the half-written files of runs that were killed.

    A whole run is alone. Runs of different shards (:func:`jaxvar.study.run.run_study`) share the folder, one of each.
    """
    number, total = shard
    places = [folder, *_folders(folder)]
    with contextlib.ExitStack() as stack:
        whole = _open_lock(stack, folder / "lock")
        is_alone = _try_lock(whole, fcntl.LOCK_EX)
        if is_alone:
            for path in (path for place in places for path in place.glob(".*.tmp")):
                path.unlink(missing_ok=True)
        if total > 1:
            mine = _open_lock(stack, folder / f"lock-{number}-of-{total}")
            if not _try_lock(whole, fcntl.LOCK_SH) or not _try_lock(mine, fcntl.LOCK_EX):
                raise _refused(folder, whole, mine)
            _sign(stack, mine)
        elif not is_alone:
            raise _refused(folder, whole)
        _sign(stack, whole)
        yield


@contextlib.contextmanager
def manifest_locked(folder: Path) -> Iterator[None]:
    """Hold ``run.json`` for as long as it takes to read and write it."""
    with contextlib.ExitStack() as stack:
        fcntl.flock(_open_lock(stack, folder / "lock-run"), fcntl.LOCK_EX)
        yield


def _folders(folder: Path) -> list[Path]:
    """Return the folders below a study's folder that hold its files; refuse links, and anything else in their place."""
    places = [folder / part for part in PARTS if os.path.lexists(folder / part)]
    for place in list(places):
        if place.is_dir() and not place.is_symlink():
            places += [path for path in place.iterdir() if path.is_dir() or path.is_symlink()]
    for place in places:
        if place.is_symlink() or not place.is_dir():
            raise RunError(
                f"{place} must be a folder, not a link or a file; move it away, or put the files themselves there"
            )
        if place.parent != folder:
            with os.scandir(place) as entries:
                wrong = [e.path for e in entries if not e.is_file(follow_symlinks=False)]
            for path in filter(os.path.lexists, wrong):  # another run may have removed one
                raise RunError(
                    f"{path} must be a file, not a link or a folder; delete it, or put the file itself there"
                )
    return places


def _open_lock(stack: contextlib.ExitStack, path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    stack.callback(os.close, handle)
    return handle


def _try_lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(stack: contextlib.ExitStack, handle: int) -> None:
    """Write into a lock who holds it, and let the end of the stack empty it."""
    stack.callback(os.ftruncate, handle, 0)
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)


def _refused(folder: Path, *handles: int) -> RunError:
    holders = [os.pread(handle, 200, 0).decode(errors="replace").strip() for handle in handles]
    holder = next((text for text in reversed(holders) if text), "another process")
    return RunError(f"another run is writing to {folder} ({holder}); wait for it, or stop it")
