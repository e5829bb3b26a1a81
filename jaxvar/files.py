"""Files that are written whole or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, fill: Callable[[io.BytesIO], object]) -> Path:
    """Write what ``fill`` puts into a buffer to ``path``: under a temporary name beside it, then renamed.

    Readers see the old file or the new one. Where anything fails, the old file stays and no temporary one remains.
    """
    buffer = io.BytesIO()
    fill(buffer)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(buffer.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path
