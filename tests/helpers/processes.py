"""Real processes: fresh interpreters whose environment says nothing about JAX but what a test tells them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def clean_environment(**more):
    """The variables of this process without those of JAX and XLA, and with the project and ``more``."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    return {**clean, "PYTHONPATH": str(ROOT), **more}


def output(*args, **more):
    """Standard output of a fresh interpreter that must end well; ``more`` are variables."""
    command = [sys.executable, *map(str, args)]
    done = subprocess.run(command, env=clean_environment(**more), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(*args, **more):
    """A fresh interpreter on the CPU, under way; ``more`` are variables."""
    return subprocess.Popen(
        [sys.executable, *map(str, args)],
        env=clean_environment(JAX_PLATFORMS="cpu", **more),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*processes, code=0):
    """Wait for all of them; returns what they wrote to standard error."""
    said = []
    try:
        for process in processes:
            _, errors = process.communicate(timeout=600)
            assert process.returncode == code, errors
            said.append(errors)
        return said
    finally:
        for process in processes:
            process.kill()  # one that waits for another that has failed
            process.communicate()


def free_port():
    """A port of the loopback address that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
