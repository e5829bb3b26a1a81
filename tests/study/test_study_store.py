"""Files of arrays: whole, named by their contents, and refused where they are anything else."""

import hashlib
import io
import os
import zipfile

import numpy as np
import pytest

from jaxvar import files
from jaxvar.study.factories import RunError
from jaxvar.study.store import locked

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b.c": np.array([True, False]), "d": np.zeros((0, 2), np.int32)}
IDENTITY = {"cell": "x", "round": 3}


def sealed(body, comment=b"{}"):
    """Any archive with a right checksum: what a forger would make."""
    with zipfile.ZipFile(body, "a") as archive:
        archive.comment = comment + b"0" * 64
    data = body.getvalue()[:-64]
    return data + hashlib.sha256(data).hexdigest().encode()


def archive(entries, compression=zipfile.ZIP_STORED):
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", compression) as file:
        for name, content in entries:
            file.writestr(name, content)
    return body


def npy(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def test_what_is_written_is_read():
    identity, arrays = files.decode_arrays(files.encode_arrays(IDENTITY, ARRAYS))
    assert identity == IDENTITY and list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_equal_contents_are_equal_bytes_and_plain_numpy_reads_them(tmp_path):
    data = files.encode_arrays(IDENTITY, ARRAYS)
    assert data == files.encode_arrays(dict(reversed(IDENTITY.items())), {k: v.copy() for k, v in ARRAYS.items()})
    (tmp_path / "x.npz").write_bytes(data)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["a"], ARRAYS["a"])


def test_every_flipped_bit_and_every_cut_is_noticed():
    data = files.encode_arrays(IDENTITY, {"a": np.arange(3)})
    for i in range(len(data)):
        for changed in (data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :], data[:i]):
            with pytest.raises(files.Damaged):
                files.decode_arrays(changed)


def test_a_bomb_is_not_decompressed():
    # 128 MB of zeros in 128 kB, with a right checksum.
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file, file.open("a.npy", "w") as entry:
        for _ in range(128):
            entry.write(bytes(2**20))
    data = sealed(body)
    assert len(data) < 2**18
    with pytest.raises(files.Damaged, match="compressed"):
        files.decode_arrays(data)


FORGED = {
    "pickle": ([("a.npy", npy(np.array([{}], object), allow_pickle=True))], "must hold numbers"),
    "text": ([("a.npy", npy(np.array(["x"])))], "must hold numbers"),
    "a claim of petabytes": (
        [("a.npy", npy(np.zeros(3)).replace(b"(3,), }" + b" " * 10, b"(99999999999,), }"))],
        "not as long",
    ),
    "path": ([("../../a.npy", npy(np.zeros(3)))], "names"),
    "absolute path": ([("/etc/a.npy", npy(np.zeros(3)))], "names"),
    "no array": ([("a.npy", b"import os")], "no array"),
    "code in the header": ([("a.npy", npy(np.zeros(3)).replace(b"(3,)", b"f(),"))], "no array"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_entries_are_refused(name):
    entries, message = FORGED[name]
    with pytest.raises(files.Damaged, match=message):
        files.decode_arrays(sealed(archive(entries)))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_entries_that_overlap_or_repeat_are_refused():
    with pytest.raises(files.Damaged):
        files.decode_arrays(sealed(archive([("a.npy", npy(np.zeros(3)))] * 2)))


@pytest.mark.parametrize("comment", [b"[1]", b"{", b"\xff"])
def test_identities_that_are_no_table_are_refused(comment):
    with pytest.raises(files.Damaged):
        files.decode_arrays(sealed(archive([("a.npy", npy(np.zeros(3)))]), comment))


def test_files_that_are_no_files_are_refused(tmp_path):
    (tmp_path / "real").write_bytes(b"1")
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "pipe")
    for path, message in (("link", "is a link"), ("pipe", "regular")):
        with pytest.raises(files.Damaged, match=message):
            files.read(tmp_path / path)
    with pytest.raises(files.Damaged, match="more than"):
        files.read(tmp_path / "real", 0)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "x"
    files.write(path, b"old")
    with pytest.raises(ZeroDivisionError), files.writing(path) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["x"]


def test_leftovers_are_removed_and_nothing_else(tmp_path):
    names = ["run.json", "shards/a/0-7.npz", "notes.tmp", "mine/.x.tmp"]
    leftovers = [".run.json.host.1.tmp", "shards/a/.0-7.npz.host.2.tmp", "checkpoints/a/.0-7.npz.host.3.tmp"]
    for name in names + leftovers:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    with locked(tmp_path):
        pass
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert left == sorted([*names, "lock"])


def test_one_run_per_folder_and_one_of_each_shard(tmp_path):
    with locked(tmp_path):
        for shard in ((1, 1), (2, 3)):
            with (
                pytest.raises(RunError, match=rf"another run is writing to .* \(process {os.getpid()} on"),
                locked(tmp_path, shard),
            ):
                pass
    with locked(tmp_path, (1, 3)), locked(tmp_path, (2, 3)):
        for shard in ((1, 1), (2, 3)):
            with pytest.raises(RunError, match="another run is writing"), locked(tmp_path, shard):
                pass
    with locked(tmp_path):  # all is free again
        pass
