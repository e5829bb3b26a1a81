"""One run per folder: a lock that the system takes back from a process that dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from jaxvar.study.errors import RunError
from jaxvar.study.store import remove_temporaries


@contextlib.contextmanager
def locked(folder: Path, shard: tuple[int, int] = (1, 1)) -> Iterator[None]:
    """Hold the folder while a study is run into it, and clean up after runs that were killed.

    A whole run is alone. Runs of different shards (:func:`jaxvar.study.run.run_study`) share the folder, one of each.
    """
    number, total = shard
    with contextlib.ExitStack() as held:
        whole = _open(held, folder / "lock")
        is_alone = _try(whole, fcntl.LOCK_EX)
        if is_alone:
            remove_temporaries(folder)
        if total > 1:
            mine = _open(held, folder / f"lock-{number}-of-{total}")
            if not _try(whole, fcntl.LOCK_SH) or not _try(mine, fcntl.LOCK_EX):
                raise _refused(folder, whole, mine)
            _sign(mine)
        elif not is_alone:
            raise _refused(folder, whole)
        _sign(whole)
        yield


@contextlib.contextmanager
def moment(folder: Path) -> Iterator[None]:
    """Hold ``run.json`` for as long as it takes to read and write it."""
    with contextlib.ExitStack() as held:
        fcntl.flock(_open(held, folder / "lock-run"), fcntl.LOCK_EX)
        yield


def _open(held: contextlib.ExitStack, path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    held.callback(os.close, handle)
    return handle


def _try(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(handle: int) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)


def _refused(folder: Path, *handles: int) -> RunError:
    holders = [os.pread(handle, 200, 0).decode(errors="replace").strip() for handle in handles]
    holder = next((text for text in reversed(holders) if text), "another process")
    return RunError(f"another run is writing to {folder} ({holder}); wait for it, or stop it")
