"""Arrays on disk that are whole or not there, and that say what they are.

A file is a plain ``.npz`` (``numpy.load`` reads it) whose zip comment holds an identity, as JSON, and at its very end
the SHA-256 of every byte before. Equal arrays and identities are equal bytes. Nothing of a file is looked at before
its checksum was found right, nothing in it is unpickled or decompressed, and no number in it is trusted to say how
much memory to take.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import socket
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

MAX_FILE = 2**33  # bytes; a chunk of seeds is planned to be far smaller
_DIGEST = 64  # hexadecimal digits of a SHA-256
_NAME = re.compile(r"[A-Za-z0-9_.]{1,100}")
_TEMPORARY = re.compile(r"\..+\.tmp")


class Damaged(Exception):
    """A file that is not what it should be; the message says how."""


class Stored(NamedTuple):
    """What a file holds."""

    identity: dict[str, Any]
    arrays: dict[str, np.ndarray[Any, Any]]


def encode(identity: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """The bytes of a file."""
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
    """What the bytes of a file hold; raises :class:`Damaged`."""
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


def _array(name: str, content: bytes) -> np.ndarray[Any, Any]:
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
    """Write a whole file or none."""
    with writing(path) as file:
        file.write(data)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A file to fill: under a temporary name, which becomes ``path`` once all of it is on the disk."""
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    try:
        with temporary.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def read(path: Path, most: int = MAX_FILE) -> bytes:
    """The bytes of a regular file, not of what a link points to; raises :class:`Damaged`, or ``FileNotFoundError``."""
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
    """Make a folder and those above it, for good."""
    if not path.is_dir():
        if path.exists():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def remove_temporaries(folder: Path) -> None:
    """Remove what killed runs left half written in a study's folder; only who holds its lock may do so."""
    for path in _files(folder):
        if _TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    for place in (folder, *(folder / part for part in ("shards", "checkpoints", "timings"))):
        if place.is_dir() and not place.is_symlink():
            for path in sorted(place.iterdir()):
                if path.is_dir() and not path.is_symlink() and place != folder:
                    yield from sorted(path.iterdir())
                else:
                    yield path


def _sync_folder(folder: Path) -> None:
    """A rename is on the disk once its folder is."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
