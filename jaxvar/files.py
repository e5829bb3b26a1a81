"""Files that are written whole or not at all, and read only where they are what they should be.

A file of arrays is a plain ``.npz`` (``numpy.load`` reads it) whose zip comment holds an identity, as JSON, and at its
very end the SHA-256 of every byte before. Equal arrays and identities are equal bytes. A file is read only after its
checksum was found right, nothing in it is unpickled or decompressed, and no number in it decides how much memory to
take. A table is JSON whose last entry is the SHA-256 of its own text, with zeros in the place of the digits.
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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from jaxvar.parameters import Array

MAX_FILE = 2**33  # bytes
_WRONG_SUM = "its checksum does not fit its contents"
_DIGEST = 64  # hexadecimal digits of a SHA-256
_ZEROS = b"0" * _DIGEST
_TABLE_END = b'"\n}\n'  # what follows the checksum of a table
_PIECE = 2**20  # bytes read at a time
_NAME = re.compile(r"[A-Za-z0-9_.]{1,100}")  # of an array
_FORMULA_STARTS = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")  # full-width forms are read like the others


class Damaged(Exception):
    """A file that is not what it should be; the message says how."""


class Stored(NamedTuple):
    """The contents of a file of arrays."""

    identity: dict[str, object]
    arrays: dict[str, Array]


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file under a temporary name beside ``path``; it becomes ``path`` once all of it is on the disk.

    Readers see the old file or the new one. Where anything fails, the old file stays and no temporary one remains.
    Only a regular file is replaced: a link, a folder or a device is refused before anything is written.
    """
    check_target(path)
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        with temporary.open("x+b") as file:  # a new file, never one that a link of this name leads to
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, fill: Callable[[io.BytesIO], object]) -> Path:
    """Write what ``fill`` puts into a buffer to ``path``, whole or not at all."""
    check_target(path)
    buffer = io.BytesIO()
    fill(buffer)
    with writing(path) as file:
        file.write(buffer.getbuffer())
    return path


def write(path: Path, data: bytes) -> None:
    """Write a whole file or none, in a folder that is made where it is not there."""
    make_folder(path.parent)
    with writing(path) as file:
        file.write(data)


def check_target(path: Path) -> None:
    """Refuse a path at which there is anything but a regular file; raises ``FileExistsError``."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = "link" if stat.S_ISLNK(mode) else "folder" if stat.S_ISDIR(mode) else "device, pipe or socket"
        sentence = f"a {kind} is there and is not replaced by a file; name another file or remove it"
        raise FileExistsError(errno.EEXIST, sentence, str(path))


def sync_folder(folder: Path) -> None:
    """Let a renamed file survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, so that they survive a loss of power."""
    if not path.is_dir():
        if path.exists() or path.is_symlink():  # a file, or a link that leads nowhere
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def read(path: Path, most: int = MAX_FILE) -> bytes:
    """Read a regular file, not what a link points to; raises :class:`Damaged`, or ``FileNotFoundError``."""
    with _opened(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)  # of ``most`` bytes, Python would take all at once


def check_sum(path: Path) -> None:
    """Refuse a file that does not end with the SHA-256 of all bytes before; holds a small piece of it at a time.

    Raises :class:`Damaged`, or ``FileNotFoundError``.
    """
    with _opened(path, MAX_FILE) as file:
        left, found = os.fstat(file.fileno()).st_size - _DIGEST, hashlib.sha256()
        file.seek(max(left, 0))
        wanted = file.read()
        if not re.fullmatch(rb"[0-9a-f]{64}", wanted):  # a file that was cut or made longer need not be read whole
            raise Damaged("it does not end with its checksum")
        file.seek(0)
        while left > 0 and (piece := file.read(min(left, _PIECE))):
            found.update(piece)
            left -= len(piece)
        if wanted != found.hexdigest().encode():
            raise Damaged(_WRONG_SUM)


@contextlib.contextmanager
def _opened(path: Path, most: int) -> Iterator[IO[bytes]]:
    """Open a regular file of at most so many bytes."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = "it is a link" if error.errno == errno.ELOOP else f"it cannot be opened ({error.strerror})"
        raise Damaged(reason) from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Damaged("it is no regular file")
        if found.st_size > most:
            raise Damaged(f"it has {found.st_size:,} bytes, more than the {most:,} that are allowed")
        yield file


def encode_arrays(identity: Mapping[str, object], arrays: Mapping[str, Array]) -> bytes:
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


def decode_arrays(data: bytes) -> Stored:
    """Return the contents of a file from its bytes; raises :class:`Damaged`."""
    body = data[:-_DIGEST]
    if hashlib.sha256(body).hexdigest().encode() != data[-_DIGEST:]:
        raise Damaged(_WRONG_SUM)
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


def encode_table(table: Mapping[str, object]) -> bytes:
    """Return the bytes of a table."""
    text = json.dumps({**table, "sha256": _ZEROS.decode()}, indent=1, ensure_ascii=True).encode() + b"\n"
    return _with_sum(text)


def decode_table(data: bytes) -> tuple[dict[str, Any], bool]:
    """Return a table from its bytes, and whether it has a checksum, which then is right; raises :class:`Damaged`."""
    try:
        table = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is no JSON ({error})") from None
    if not isinstance(table, dict):
        raise Damaged("it holds no table")
    if "sha256" not in table:
        return table, False
    if _with_sum(data) != data:
        raise Damaged(_WRONG_SUM)
    del table["sha256"]
    return table, True


def _with_sum(text: bytes) -> bytes:
    """Return the text of a table with the right digits in the place of those it has."""
    body = text[: -_DIGEST - len(_TABLE_END)]
    return body + hashlib.sha256(body + _ZEROS + _TABLE_END).hexdigest().encode() + _TABLE_END


def csv_entry(value: object) -> object:
    """Return an entry for a CSV file; text that a spreadsheet would run as a formula gets an apostrophe before it.

    A label such as ``=HYPERLINK(...)`` is then shown as text. Numbers stay as they are, also negative ones.
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA_STARTS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
