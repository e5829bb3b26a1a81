"""A finished study's folder: damage to any of its files is noticed, and nothing in it leads elsewhere."""

import contextlib
import itertools
import json
import os
import random
import shutil

import numpy as np
import pytest

import jaxvar as jv
from jaxvar import files
from jaxvar.study import shards, store
from jaxvar.study.export import export
from jaxvar.study.result import merge
from tests.helpers.small_study import BANDIT, small_study, stored
from tests.helpers.synthetic_study import cell, study

LEVEL = jv.Entry(BANDIT.name, options=BANDIT.options)
KEPT = ("shards", "checkpoints")


def one_level(**changes):
    """Two cells of one shard each."""
    return small_study(**{"seeds": 8, "environments": [LEVEL], **changes})


def play(folder, **changes):
    return jv.run_study(one_level(**changes), folder, progress=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of the finished study."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    play(folder)
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    """A copy of it, to be harmed."""
    return shutil.copytree(whole, tmp_path / "copy")


def rewrite(folder, change):
    """Change ``run.json`` and give it a right checksum, as a forger would."""
    table, is_signed = files.decode_table((folder / "run.json").read_bytes())
    assert is_signed
    change(table)
    (folder / "run.json").write_bytes(files.encode_table(table))


def forge(path, **arrays):
    """Change arrays of a shard and give it a right checksum."""
    identity, found = files.decode_arrays(path.read_bytes())
    path.write_bytes(files.encode_arrays(identity, {**found, **arrays}))


def unlisted(folder):
    """Let ``run.json`` know of no shard, as after a kill."""
    rewrite(folder, lambda table: table["shards"].clear())


def test_every_file_of_a_finished_study_has_a_checksum_or_is_empty(whole):
    sizes = {str(p.relative_to(whole)): p.stat().st_size for p in whole.rglob("*") if p.is_file()}
    parts = {name.split("/")[0] for name, size in sizes.items() if size}
    assert parts == {"run.json", "shards", "timings", "checkpoints"}
    assert {name for name, size in sizes.items() if not size} == {"lock", "lock-run"}


def test_no_flipped_bit_goes_unnoticed(copy):
    rng = random.Random(5)
    paths = sorted(p for p in copy.rglob("*") if p.is_file() and p.stat().st_size)
    assert len(paths) == 1 + 3 * 2
    for path, _ in itertools.product(paths, range(30)):
        data = path.read_bytes()
        i, bit = rng.randrange(len(data)), rng.randrange(8)
        path.write_bytes(data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :])
        with pytest.raises(jv.RunError) as caught:
            jv.load(copy)
        assert str(path) in str(caught.value)
        path.write_bytes(data)
    jv.load(copy)


def swap_hashes(table):
    first, second = table["cells"]
    first["hash"], second["hash"] = second["hash"], first["hash"]


def resize(seeds, chunk):
    def change(table):
        table["seeds"] = table["study"]["seeds"] = seeds
        table["study_hash"] = store.digest(table["study"])
        for part in table["cells"]:
            part["chunk"] = chunk

    return change


FORGED = {
    "hashes": (swap_hashes, "is not that of its arguments"),
    "record": (lambda t: t["cells"][0].update(record=["regret"]), "is not that of its arguments"),
    "twins": (lambda t: t["cells"].append(t["cells"][0]), "two of its cells have the same hash"),
    "no hash": (lambda t: t["cells"][0].update(hash="../../../../etc"), "a cell's hash is"),
    "study": (lambda t: t["study"].update(question="Which?"), "study_hash is not that of its study"),
    "seeds": (lambda t: t.update(seeds=4), "seeds is 4, but seeds of its study is 8"),
    "no seeds": (resize(0, 8), "seeds is 0"),
    "negative seeds": (lambda t: t.update(seeds=-1), "seeds is -1"),
    "many shards": (resize(2**31 - 1, 8), "its chunks make"),
    "no cells": (lambda t: t.update(cells=[]), "it has no cells"),
    "rounds": (lambda t: t.update(rounds=[3, 2]), "rounds do not increase"),
    "rounds a word": (lambda t: t.update(rounds="x"), "rounds do not increase"),
    "unit": (lambda t: t.update(unit="x"), "its unit is 'x'"),
    "runs": (lambda t: t.update(runs=["x"]), "its runs are no tables"),
    "path": (lambda t: t["shards"].update({"../../x": "0" * 64}), "its shards have the entry '../../x'"),
    "sum": (lambda t: t["shards"].update({n: 3 for n in t["shards"]}), "its shards have the entry"),
    "label": (lambda t: t["cells"][0].update(algorithm="x" * 10_000_000), "at most 200 characters, got 10000000"),
    "settings": (lambda t: t["cells"][0].update(algorithm_settings=[]), "a cell's settings are"),
    "format": (lambda t: t.update(format=99), "its format is 99"),
    "unknown": (lambda t: t.update(unknown=1), "unknown"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_run_json_that_contradicts_itself_is_refused(copy, what):
    change, message = FORGED[what]
    rewrite(copy, change)
    with pytest.raises(jv.RunError, match=f"run.json cannot be read: .*{message}") as caught:
        jv.load(copy)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", ["../../evil", "/abs/evil", "..", ".hidden", "a\\b", "a\nb", "", "x" * 201, 3, None])
def test_a_name_never_becomes_a_path(copy, tmp_path, monkeypatch, name):
    def rename(table):
        table["study"]["name"] = name
        table["study_hash"] = store.digest(table["study"])

    rewrite(copy, rename)
    with pytest.raises(jv.RunError, match=r"run.json cannot be read: name must"):
        jv.load(copy)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="name must"):  # a result that was made by hand
        export(study([cell(np.ones((2, 7)))], name=name), "csv")
    assert os.listdir(tmp_path) == ["copy"]


def test_a_checksum_cannot_be_left_out(copy):
    for path in (copy / "run.json", next(copy.glob("timings/*/*"))):
        data = path.read_bytes()
        table = json.loads(data)
        del table["sha256"]
        path.write_text(json.dumps(table))
        with pytest.raises(jv.RunError, match=f"{path} .*it has no checksum"):
            jv.load(copy)
        path.write_bytes(data)


def test_a_shard_with_other_numbers_is_refused_though_its_checksum_is_right(whole, copy, capsys):
    path = next(copy.glob("shards/*/*"))
    forge(path, regret=np.zeros((8, 6)))
    with pytest.raises(jv.RunError, match=f"{path}: its checksum is not the one that run.json has"):
        jv.load(copy)
    play(copy)
    assert f"{path} is damaged and will be played again" in capsys.readouterr().err
    assert stored(copy) == stored(whole)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_belongs_to_seeds_that_failed(copy, value):
    unlisted(copy)
    path = next(copy.glob("shards/*/*"))
    regret = files.decode_arrays(path.read_bytes()).arrays["regret"].copy()
    regret[3, 2] = value
    forge(path, regret=regret)
    with pytest.raises(jv.RunError, match=f"{path}: regret holds NaN or infinite numbers of seeds that did not fail"):
        jv.load(copy)
    forge(path, status=np.array([0, 0, 0, 2, 0, 0, 0, 0], np.int32))
    assert sum(c.status.sum() for c in jv.load(copy).cells) == 2


def test_an_own_environment_may_not_know_its_variances(copy):
    unlisted(copy)
    path = next(copy.glob("shards/*/*"))
    forge(path, variance=np.full((8, 6), np.nan))
    manifest = store.read_manifest(copy)
    (one,) = [c for c in manifest.cells if c.hash == path.parent.name]
    with pytest.raises(files.Damaged, match="variance holds NaN"):
        shards.read_shard(copy, manifest, one, 0)
    own = {**one.config, "environment": {"name": "mine:Mine"}}
    object.__setattr__(one, "config", own)
    assert np.isnan(shards.read_shard(copy, manifest, one, 0).arrays["variance"]).all()


def test_files_that_are_too_large_are_not_read(copy):
    shard = next(copy.glob("shards/*/*"))
    for target, limit in ((shard, r"\d\d,\d{3}"), (copy / "run.json", "268,435,456")):
        data = target.read_bytes()
        os.truncate(target, 7 * 2**30)
        with pytest.raises(
            jv.RunError, match=rf"{target}.* 7,516,192,768 bytes, more than the {limit} that are allowed"
        ):
            jv.load(copy)
        target.write_bytes(data)


def test_a_checkpoint_that_was_made_longer_is_not_read(copy, monkeypatch):
    path, other = copy.glob("checkpoints/*/*")
    other.unlink()
    os.truncate(path, 7 * 2**30)
    monkeypatch.setattr(files, "_PIECE", None)  # no piece of it can be read
    with pytest.raises(jv.RunError, match=f"{path} is damaged: it does not end with its checksum"):
        jv.load(copy)


def test_the_largest_shard_is_not_too_large(whole):
    manifest = store.read_manifest(whole)
    one = manifest.cells[0]
    object.__setattr__(one, "record", ("regret", "variance", "layer_rounds", "confidence"))
    object.__setattr__(one, "chunk", 100)
    wide = {"layer_rounds": np.zeros((100, 6, 201), np.int32), "confidence": np.ones((100, 6, 200), bool)}
    flat = {name: np.zeros((100, 6)) for name in ("regret", "variance")}
    ends = {name: np.zeros(100, np.int64) for name in ("seeds", "status", "status_round")}
    data = files.encode_arrays(shards.identity(one, 0), {**wide, **flat, **ends, "rounds": np.zeros(6, np.int32)})
    assert len(data) < shards._most_bytes(manifest, one)


def test_a_damaged_timing_or_checkpoint_may_be_deleted(copy):
    for part, message in (
        ("timings", "Delete it to go on without this time"),
        ("checkpoints", "Delete it; only a study"),
    ):
        path = next(copy.glob(f"{part}/*/*"))
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(jv.RunError, match=f"{path} is damaged: .*{message}"):
            jv.load(copy)
        path.unlink()
        jv.load(copy)
    assert sorted(c.seconds > 0 for c in jv.load(copy).cells) == [False, True]


def age(folder):
    """Write the folder as versions without checksums did."""
    table = json.loads((folder / "run.json").read_text())
    del table["sha256"]
    (folder / "run.json").write_text(json.dumps({**table, "format": 1}, indent=1) + "\n")
    for path in folder.glob("timings/*/*"):
        path.write_text(json.dumps({"seconds": json.loads(path.read_text())["seconds"]}) + "\n")


def test_an_old_folder_loads_with_a_warning_until_it_is_rewritten(whole, copy, tmp_path):
    seconds = [c.seconds for c in jv.load(whole).cells]
    age(copy)
    with pytest.warns(UserWarning, match="was written before run.json had a checksum"):
        assert [c.seconds for c in jv.load(copy).cells] == seconds
    merge([copy], tmp_path / "merged")
    play(shutil.copytree(copy, tmp_path / "resumed"))
    merge([copy], copy)
    for folder in (tmp_path / "merged", tmp_path / "resumed", copy):
        assert json.loads((folder / "run.json").read_text())["format"] == 2
        assert [c.seconds for c in jv.load(folder).cells] == seconds and stored(folder) == stored(whole)


@pytest.mark.parametrize("name", ["shards", "timings", "checkpoints", "shards/CELL", "shards/CELL/0-7.npz", "run.json"])
def test_links_inside_a_folder_are_not_followed(copy, tmp_path, name):
    cell = next(copy.glob("shards/*")).name
    path = copy / name.replace("CELL", cell)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    before = stored(tmp_path, ("elsewhere",))
    for use in (jv.load, lambda folder: play(folder, seeds=16), lambda folder: merge([folder], folder)):
        with pytest.raises(jv.RunError, match=f"{path} .*link"):
            use(copy)
    assert stored(tmp_path, ("elsewhere",)) == before and path.is_symlink()


def test_a_folder_in_the_place_of_a_shard_is_refused_before_anything_is_played(copy):
    path = next(copy.glob("shards/*/*"))
    path.unlink()
    path.mkdir()
    with pytest.raises(jv.RunError, match=f"{path} must be a file"):
        play(copy)


def test_a_link_to_the_whole_folder_works(whole, copy, tmp_path):
    (tmp_path / "link").symlink_to(copy)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    play(tmp_path / "link")
    assert stored(tmp_path / "link") == stored(whole)
    assert len(jv.load(tmp_path / "link").cells) == 2
    with pytest.raises(jv.RunError, match=f"cannot write to {tmp_path / 'nowhere'}: Not a directory"):
        play(tmp_path / "nowhere")


class Killed(BaseException):
    """The end of a process: nothing is written from then on."""


def test_a_kill_at_any_write_of_an_extension_resumes_to_the_same_bytes(copy, tmp_path, monkeypatch, capsys):
    longer = {"rounds": 90, "records": [1, 20, 45, 60, 75, 90]}
    fresh = shutil.copytree(copy, tmp_path / "fresh")
    play(fresh, **longer)
    writing, count = files.writing, 0

    def until(most):
        @contextlib.contextmanager
        def limited(path):
            nonlocal count
            count += 1
            if count > most:
                raise Killed
            with writing(path) as file:
                yield file

        return limited

    for most in itertools.count():
        folder, count = shutil.copytree(copy, tmp_path / str(most)), 0
        with monkeypatch.context() as patch:
            patch.setattr(files, "writing", until(most))
            with contextlib.suppress(Killed):
                play(folder, **longer)
        finished = count <= most
        play(folder, **longer)
        assert stored(folder, KEPT) == stored(fresh, KEPT)
        if finished:
            break
    assert most > 6 and "damaged" not in capsys.readouterr().err
