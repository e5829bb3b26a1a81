"""Files appear whole or not at all."""

import os
import subprocess
import sys

import pytest

from jaxvar.files import write_whole


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "table.txt"
    path.write_text("old and much longer")
    assert write_whole(path, lambda buffer: buffer.write(b"new")) == path
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["table.txt"]


def test_failures_leave_the_old_file_alone(tmp_path):
    path = tmp_path / "table.txt"
    path.write_text("old")

    def fails(buffer):
        buffer.write(b"half")
        raise RuntimeError("no more ink")

    with pytest.raises(RuntimeError):
        write_whole(path, fails)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["table.txt"]


def test_what_cannot_take_the_name_leaves_no_temporary_file(tmp_path):
    (tmp_path / "table.txt").mkdir()  # a folder cannot be replaced by a file
    with pytest.raises(OSError):
        write_whole(tmp_path / "table.txt", lambda buffer: buffer.write(b"new"))
    assert os.listdir(tmp_path) == ["table.txt"]


def test_a_write_that_breaks_off_leaves_no_temporary_file(tmp_path):
    """A process that may write 1000 bytes per file meets the same error in mid-file as on a full disk."""
    script = (
        "import resource, signal, sys; from pathlib import Path; from jaxvar.files import write_whole\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_whole(Path(sys.argv[1]), lambda buffer: buffer.write(bytes(5000)))\n"
    )
    done = subprocess.run([sys.executable, "-B", "-c", script, tmp_path / "big"], capture_output=True, text=True)
    assert done.returncode == 1 and "File too large" in done.stderr
    assert os.listdir(tmp_path) == []
