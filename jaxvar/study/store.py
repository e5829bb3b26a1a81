"""A study's folder: files of arrays, the manifest ``run.json``, and the lock.

A file of arrays is a plain ``.npz`` (``numpy.load`` reads it) whose zip comment holds an identity, as JSON, and at its
very end the SHA-256 of every byte before. Equal arrays and identities are equal bytes. A file is read only after its
checksum was found right, nothing in it is unpickled or decompressed, and no number in it decides how much memory to
take. ``run.json`` has everything needed to repeat the study. The lock lets one run write to a folder at a time; the
system takes it back from a process that dies.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import errno
import fcntl
import hashlib
import io
import json
import math
import os
import platform
import re
import socket
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jaxlib.version
import numpy as np

from jaxvar import files, memory
from jaxvar.parameters import Array
from jaxvar.study.cells import digest, titled
from jaxvar.study.definition import Study
from jaxvar.study.factories import RunError, Table

Part = Literal["shards", "checkpoints", "timings"]
FORMAT = 1
MAX_FILE = 2**33  # bytes; a chunk of seeds is planned to be far smaller
_MAX_MANIFEST = 2**28  # bytes
_DIGEST = 64  # hexadecimal digits of a SHA-256
_NAME = re.compile(r"[A-Za-z0-9_.]{1,100}")
_HASH = re.compile(r"[0-9a-f]{20}")


class Damaged(Exception):
    """A file that is not what it should be; the message says how."""


class Stored(NamedTuple):
    """The contents of a file of arrays."""

    identity: dict[str, object]
    arrays: dict[str, Array]


def encode(identity: Table, arrays: Mapping[str, Array]) -> bytes:
    """Return the bytes of a file of arrays."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, so that equal arrays are equal bytes
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
        archive.comment = json.dumps(identity, sort_keys=True).encode() + b"0" * _DIGEST
    body = buffer.getvalue()[:-_DIGEST]
    return body + hashlib.sha256(body).hexdigest().encode()


def decode(data: bytes) -> Stored:
    """Return the contents of a file from its bytes; raises :class:`Damaged`."""
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise Damaged("its checksum does not fit its contents")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if any(e.compress_type != zipfile.ZIP_STORED or e.flag_bits & 1 for e in entries):
                raise Damaged("it holds compressed or encrypted entries")
            if sum(e.file_size for e in entries) > len(data) or len(archive.comment) <= _DIGEST:
                raise Damaged("it claims to hold more than it does")
            identity = json.loads(archive.comment[:-_DIGEST])
            named = {e.filename.removesuffix(".npy"): archive.read(e) for e in entries}
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise Damaged(f"it is no archive of arrays ({error})") from None
    if not isinstance(identity, dict) or len(named) < len(entries) or not all(map(_NAME.fullmatch, named)):
        raise Damaged("its entries have names that no study gives")
    return Stored(identity, {name: _array(name, content) for name, content in named.items()})


def _array(name: str, content: bytes) -> Array:
    file = io.BytesIO(content)
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise Damaged(f"{name} is in another format")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except (ValueError, SyntaxError) as error:
        raise Damaged(f"{name} is no array ({error})") from None
    if dtype.hasobject or dtype.kind not in "fiub" or is_fortran:
        raise Damaged(f"{name} must hold numbers, got {dtype}")
    if math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise Damaged(f"{name} is not as long as it says")
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape)


def write(path: Path, data: bytes) -> None:
    """Write a whole file or none, in a folder that is made where it is not there."""
    make_folder(path.parent)
    with files.writing(path) as file:
        file.write(data)


def read(path: Path, most: int = MAX_FILE) -> bytes:
    """Read a regular file, not what a link points to; raises :class:`Damaged`, or ``FileNotFoundError``."""
    if path.parent.is_symlink():
        raise Damaged("its folder is a link")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(f"it cannot be opened ({error.strerror})") from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Damaged("it is no regular file")
        if found.st_size > most:
            raise Damaged(f"it has {found.st_size:,} bytes, more than the {most:,} that are allowed")
        return file.read(most)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, so that they survive a loss of power."""
    if not path.is_dir():
        if path.exists():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        files.sync_folder(path.parent)


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

    def chunks(self, cell: StoredCell) -> list[int]:
        """Return the first seed of each of a cell's shards."""
        return list(range(self.first_seed, self.first_seed + self.seeds, cell.chunk))

    def write(self, folder: Path) -> None:
        """Write ``run.json``."""
        text = json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=True)
        write(folder / "run.json", text.encode() + b"\n")


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


def read_manifest(folder: Path) -> Manifest:
    """Read the ``run.json`` of a folder; raises :class:`RunError` where there is none, or a wrong one."""
    path = folder / "run.json"
    try:
        found = json.loads(read(path, _MAX_MANIFEST))
        cells = tuple(StoredCell(**{**cell, "record": tuple(cell["record"])}) for cell in found["cells"])
        manifest = Manifest(**{**found, "cells": cells, "runs": tuple(found["runs"])})
        _check(manifest)
    except FileNotFoundError:
        raise RunError(f"{folder} holds no study: there is no run.json in it") from None
    except (Damaged, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    return manifest


def _check(manifest: Manifest) -> None:
    """Refuse a manifest in which a path, a size or a label is not as a study would have written it."""
    if manifest.format != FORMAT:
        raise ValueError(f"its format is {manifest.format!r}, and this version of jaxvar reads {FORMAT}")
    for name in ("num_rounds", "seeds", "first_seed"):
        value = getattr(manifest, name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
            raise ValueError(f"{name} is {value!r}")
    rounds = np.asarray(manifest.rounds)
    if rounds.ndim != 1 or rounds.dtype.kind != "i" or rounds.size == 0 or np.any(np.diff(rounds, prepend=0) <= 0):
        raise ValueError("rounds do not increase")
    for cell in manifest.cells:
        if not isinstance(cell.hash, str) or not _HASH.fullmatch(cell.hash):
            raise ValueError(f"a cell's hash is {cell.hash!r}")
        if not isinstance(cell.chunk, int) or not 0 < cell.chunk < 2**31:
            raise ValueError(f"a cell's chunk is {cell.chunk!r}")
        for mapping in (cell.algorithm_settings, cell.environment_settings, cell.config):
            if not isinstance(mapping, dict):
                raise ValueError(f"a cell's settings are {mapping!r}")
        for text in (cell.algorithm, cell.environment, cell.constants, *cell.record):
            if not isinstance(text, str):
                raise ValueError(f"a cell's label is {text!r}")
    if (num_shards := sum(-(-manifest.seeds // cell.chunk) for cell in manifest.cells)) > memory.MAX_CALLS:
        raise ValueError(f"its chunks make {num_shards:,} shards, and at most {memory.MAX_CALLS:,} are allowed")
    if not isinstance(manifest.study, dict) or not isinstance(manifest.shards, dict):
        raise ValueError("its study is no table")


def this_run(devices: Sequence[jax.Device], precision: str) -> dict[str, object]:
    """Return the versions and devices of this process, as ``run.json`` lists them."""
    return {
        "jaxvar": version(),
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


def version() -> str:
    """Return the version of jaxvar."""
    from jaxvar import __version__

    return __version__


def now() -> str:
    """Return date and time."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@contextlib.contextmanager
def locked(folder: Path, shard: tuple[int, int] = (1, 1)) -> Iterator[None]:
    """Hold the folder while a study is run into it, and remove the half-written files of runs that were killed.

    A whole run is alone. Runs of different shards (:func:`jaxvar.study.run.run_study`) share the folder, one of each.
    """
    number, total = shard
    with contextlib.ExitStack() as stack:
        whole = _open_lock(stack, folder / "lock")
        is_alone = _try_lock(whole, fcntl.LOCK_EX)
        if is_alone:
            places = [folder, *(p for part in ("shards", "checkpoints", "timings") for p in _folders(folder / part))]
            for path in (path for place in places for path in place.glob(".*.tmp")):
                path.unlink(missing_ok=True)
        if total > 1:
            mine = _open_lock(stack, folder / f"lock-{number}-of-{total}")
            if not _try_lock(whole, fcntl.LOCK_SH) or not _try_lock(mine, fcntl.LOCK_EX):
                raise _refused(folder, whole, mine)
            _sign(mine)
        elif not is_alone:
            raise _refused(folder, whole)
        _sign(whole)
        yield


@contextlib.contextmanager
def manifest_locked(folder: Path) -> Iterator[None]:
    """Hold ``run.json`` for as long as it takes to read and write it."""
    with contextlib.ExitStack() as stack:
        fcntl.flock(_open_lock(stack, folder / "lock-run"), fcntl.LOCK_EX)
        yield


def _folders(place: Path) -> list[Path]:
    """Return a folder and the folders in it, without links."""
    found = [place, *(place.iterdir() if place.is_dir() and not place.is_symlink() else ())]
    return [path for path in found if path.is_dir() and not path.is_symlink()]


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


def _sign(handle: int) -> None:
    """Write into a lock who holds it."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)


def _refused(folder: Path, *handles: int) -> RunError:
    holders = [os.pread(handle, 200, 0).decode(errors="replace").strip() for handle in handles]
    holder = next((text for text in reversed(holders) if text), "another process")
    return RunError(f"another run is writing to {folder} ({holder}); wait for it, or stop it")
