"""Files that are written whole or not at all, and entries of CSV files that no spreadsheet runs."""

from __future__ import annotations

import contextlib
import io
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

_FORMULA_STARTS = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")  # full-width forms are read like the others


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file under a temporary name beside ``path``; it becomes ``path`` once all of it is on the disk.

    Readers see the old file or the new one. Where anything fails, the old file stays and no temporary one remains.
    """
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    try:
        with temporary.open("w+b") as file:
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
    buffer = io.BytesIO()
    fill(buffer)
    with writing(path) as file:
        file.write(buffer.getbuffer())
    return path


def sync_folder(folder: Path) -> None:
    """Let a renamed file survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
