"""Several processes that play one study together: they find each other, and all end once one of them is lost.

JAX by itself waits for a lost process for more than a minute, and then aborts. So every process leaves a sign of life
once a second, among the keys and values that ``jax.distributed`` shares, and looks for those of the others. A process
that was silent for :data:`LOST` seconds is named, and the others end. Where the first process is lost, which holds the
keys, JAX aborts the others at once: they say so when they get the signal of the abort.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import jax
from jax._src import distributed  # the shared keys and values are not public

from jaxvar.study.factories import RunError, StudyError

BEAT = 1.0  # seconds between two signs of life
LOST = 15  # beats without one after which a process is given up
_JAX_SECONDS = 25  # after which JAX gives a process up
_ALIVE, _DONE = "jaxvar/alive/", "jaxvar/done/"  # keys, followed by the number of the process
_EXIT_CODE = 1  # of a process that ends since another is lost
_HOW = "give --coordinator HOST:PORT, --num-processes N and --process-id I, or start the processes by Slurm or MPI"


@contextlib.contextmanager
def joined(coordinator: str | None, num_processes: int | None, process_id: int | None) -> Iterator[None]:
    """Be one of several processes within, and end with a sentence if another one is lost.

    Args:
      coordinator: ``HOST:PORT`` of the first process; JAX asks Slurm or MPI if it is not given.
      num_processes: number of processes; likewise.
      process_id: number of this process, from 0; likewise.

    Raises:
      StudyError: if these are wrong, or neither Slurm nor MPI knows those that were not given.
      RunError: if the other processes cannot be reached.
    """
    _check(coordinator, num_processes, process_id)
    ctypes.CDLL(None).signal(int(signal.SIGABRT), _ON_ABORT)
    try:
        if "heartbeat_timeout_seconds" in inspect.signature(jax.distributed.initialize).parameters:
            jax.distributed.initialize(coordinator, num_processes, process_id, heartbeat_timeout_seconds=_JAX_SECONDS)
        else:
            jax.distributed.initialize(coordinator, num_processes, process_id)
    except ValueError as error:
        reason = f"neither Slurm nor MPI says where the other processes are ({str(error).rstrip('.')})"
        raise StudyError(f"{reason}; {_HOW}") from None
    except RuntimeError as error:
        raise RunError(f"the other processes cannot be reached: {error}") from None
    _HAVE_JOINED.set()
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))  # JAX took it
    has_left = threading.Event()
    threading.Thread(target=_watch, args=[has_left], daemon=True).start()
    try:
        yield
        _set(f"{_DONE}{distributed.global_state.process_id}", "")
    except (StudyError, RunError, OSError, KeyboardInterrupt):
        raise
    except Exception:
        time.sleep((LOST + 2) * BEAT)  # a program fails where a process is lost: then the watch ends this one too
        raise
    finally:
        has_left.set()


def _check(coordinator: str | None, num_processes: int | None, process_id: int | None) -> None:
    """Refuse an address and numbers that cannot be right."""
    if num_processes is not None and num_processes < 1:
        raise StudyError(f"--num-processes must be at least 1, got {num_processes}")
    if process_id is not None and not 0 <= process_id < (num_processes or 2**31):
        most = "" if num_processes is None else f" to {num_processes - 1} where --num-processes is {num_processes}"
        raise StudyError(f"--process-id must be from 0{most}, got {process_id}")
    if coordinator is None:
        return
    found = re.fullmatch(r"(.+):(\d{1,5})", coordinator)
    if not found or not 0 < int(found[2]) < 2**16:
        raise StudyError(f"--coordinator must be HOST:PORT of the first process, like node0:4321, got {coordinator!r}")
    try:
        socket.getaddrinfo(found[1].strip("[]"), int(found[2]))
    except OSError as error:
        raise StudyError(f"--coordinator: the host {found[1]!r} cannot be found ({error.strerror})") from None
    if process_id == 0:
        try:
            socket.create_server(("", int(found[2]))).close()
        except OSError:
            raise StudyError(f"--coordinator: port {found[2]} of this machine is in use; name another one") from None


def _watch(has_left: threading.Event) -> None:
    """Leave signs of life and look for those of the others; end this process if one is lost."""
    mine, num = distributed.global_state.process_id, distributed.global_state.num_processes
    news: dict[int, str] = {}  # the last sign of life of each process
    silent = [0] * num  # beats since then
    while not has_left.wait(BEAT):
        try:
            _set(f"{_ALIVE}{mine}", f"{time.monotonic()} on {socket.gethostname()}")
            found, done = _get(_ALIVE), _get(_DONE)
            heard = {i for i in range(num) if i in done or found.get(i) != news.get(i)}
            news |= found
        except Exception:  # the first process does not answer
            heard = set(range(1, num))
        for i in {*range(num)} - {mine}:
            silent[i] = 0 if i in heard else silent[i] + 1
            if silent[i] >= LOST and not has_left.is_set():
                name = " ".join(["process", str(i), *news.get(i, "").split()[1:]])
                _end(f"{name} gave no sign of life for {LOST * BEAT:g} seconds")


def _set(key: str, value: str) -> None:
    client: Any = distributed.global_state.client
    client.key_value_set(key, value, allow_overwrite=True)


def _get(prefix: str) -> dict[int, str]:
    """Return the values of all processes that have one, by their numbers."""
    client: Any = distributed.global_state.client
    return {int(key.rpartition("/")[2]): value for key, value in client.key_value_dir_get(prefix)}


def _say_why_aborted(signal_number: int) -> None:
    """Say why JAX aborts this process, and which one is lost."""
    address = distributed.global_state.coordinator_address or ""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except (OSError, ValueError):
        _end(f"process 0 at {address}, which the others need, does not answer")
    if not _HAVE_JOINED.is_set():
        _end("the other processes did not join in time: start each of them with the same number of processes")
    _end("JAX aborted this process, and the lines above say why")


def _end(why: str) -> None:
    """End this process at once: its main thread may wait for a lost one for ever."""
    resume = "start all processes again by the same command, and they resume from what is stored"
    print(f"\njaxvar: {why}. All processes end; {resume}.", file=sys.stderr, flush=True)
    os._exit(_EXIT_CODE)


_HAVE_JOINED = threading.Event()
_ON_ABORT = ctypes.CFUNCTYPE(None, ctypes.c_int)(_say_why_aborted)  # not Python's handler: it runs where JAX aborts
