"""Files appear whole or not at all, and are read only where they are what they should be."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jaxvar.files import Damaged, check_sum, decode_table, encode_arrays, encode_table, write_whole, writing


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


def make_link(path):
    path.symlink_to("/dev/null")


@pytest.mark.parametrize(
    ("make", "kind"), [(os.mkdir, "folder"), (os.mkfifo, "device"), (make_link, "link")], ids=["folder", "pipe", "link"]
)
def test_only_regular_files_are_replaced(tmp_path, make, kind):
    path = tmp_path / "table.txt"
    make(path)
    before, called = path.lstat(), []
    with pytest.raises(FileExistsError, match=f"a {kind}.* is not replaced by a file") as caught:
        write_whole(path, called.append)  # nothing is computed for it either
    with pytest.raises(FileExistsError), writing(path):
        called.append("writing")
    assert caught.value.filename == str(path) and not called
    assert os.listdir(tmp_path) == ["table.txt"] and path.lstat() == before


def test_a_link_under_the_temporary_name_is_not_written_through(tmp_path):
    (tmp_path / "kept").write_text("kept")
    with writing(tmp_path / "x") as file:
        name = Path(file.name)
    name.symlink_to(tmp_path / "kept")
    write_whole(tmp_path / "x", lambda buffer: buffer.write(b"new"))
    assert (tmp_path / "kept").read_text() == "kept" and (tmp_path / "x").read_bytes() == b"new"


def test_every_flipped_bit_and_every_cut_of_a_table_is_noticed():
    data = encode_table({"seconds": 1.5, "name": "é"})
    assert decode_table(data) == ({"seconds": 1.5, "name": "é"}, True)
    for i in range(8 * len(data)):
        changed = bytearray(data)
        changed[i // 8] ^= 1 << i % 8
        with contextlib.suppress(Damaged):
            assert not decode_table(bytes(changed))[1]  # the name of the checksum itself was hit
    for i in range(len(data)):
        with pytest.raises(Damaged):
            decode_table(data[:i])


def test_a_checksum_is_checked_piece_by_piece(tmp_path):
    data = encode_arrays({"a": 1}, {"x": np.arange(300_000.0)})  # more than one piece
    (tmp_path / "x").write_bytes(data)
    check_sum(tmp_path / "x")
    for changed in (data + b"0", data[:-1], data[:10], b"", data[:2_000_000] + b"!" + data[2_000_001:]):
        (tmp_path / "x").write_bytes(changed)
        with pytest.raises(Damaged, match="checksum"):
            check_sum(tmp_path / "x")


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
