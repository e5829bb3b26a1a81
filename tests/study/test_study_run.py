"""Running a study: whatever happens on the way, the same numbers come out; and what must not happen is said."""

import contextlib
import dataclasses
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import warnings

import jax
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.commands import Run, export_command, merge_command, run_command
from jaxvar.engine import Program
from jaxvar.study import definition, programs, run, store
from jaxvar.study.cells import cells
from jaxvar.study.result import failures, merge
from jaxvar.study.shards import Processes, Stretch
from tests.helpers.small_study import BANDIT, OFUL, SMALL_TOML, UNIFORM, arrays, small_study, stored

QUIET = {"progress": False}
LEVEL = jv.Entry(BANDIT.name, options=BANDIT.options)


def play(study, folder, **options):
    return jv.run_study(study, folder, **{**QUIET, **options})


def assert_same(ours, theirs):
    jax.tree.map(np.testing.assert_array_equal, arrays(ours), arrays(theirs))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The study, run once without interruption: its folder."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    play(small_study(), folder)
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    """A copy of that folder, to be harmed."""
    return shutil.copytree(whole, tmp_path / "copy")


@contextlib.contextmanager
def compilations():
    """A list that gets an entry for every program that is compiled."""
    found = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def interrupt_after(monkeypatch, num):
    """Let a run be stopped after ``num`` calls of a program, by a real signal."""
    calls = []
    program = Program.advance

    def spy(self, *args):
        calls.append(args)
        if len(calls) == num:
            signal.raise_signal(signal.SIGINT)
        return program(self, *args)

    monkeypatch.setattr(Program, "advance", spy)


def rounds_played(monkeypatch):
    """A list that gets the first round and the number of rounds of every call of a program."""
    played = []
    program = Program.advance
    monkeypatch.setattr(Program, "advance", lambda self, *args: played.append(args[2:]) or program(self, *args))
    return played


def test_results_are_those_of_simulate(whole):
    result = jv.load(whole)
    assert [(c.algorithm, c.environment_settings) for c in result.cells] == [
        (name, {"noise.std": std}) for std in (0.1, 0.5) for name in ("oful", "uniform")
    ]
    for cell in result.cells[::2]:
        env = jv.linear_bandit(2, 3, noise=jv.noise.two_point(cell.environment_settings["noise.std"]))
        plain = jv.simulate(
            jv.oful(2),
            env,
            key=jax.random.key(3),
            num_rounds=60,
            num_seeds=20,
            record_at=[1, 10, 20, 30, 45, 60],
            chunk=8,
            devices=jax.devices()[:1],
        )
        np.testing.assert_array_equal(cell.regret, plain.regret)
        np.testing.assert_array_equal(cell.seeds, np.arange(20))
        assert cell.seconds > 0 and not cell.status.any()


def test_everything_needed_to_repeat_is_in_run_json(whole):
    found = json.loads((whole / "run.json").read_text())
    assert jv.Study.from_config(found["study"]) == small_study()
    assert found["runs"][0]["jax"] == jax.__version__ and found["runs"][0]["devices"] == len(jax.devices())
    assert {c["chunk"] for c in found["cells"]} == {8} and found["created"] <= found["updated"]
    assert found["shards"] == stored(whole)  # SHA-256 of every file
    assert len(found["shards"]) == 4 * 3


def test_a_second_run_plays_and_compiles_nothing(whole, copy, tmp_path):
    before = stored(copy)
    play(small_study(), tmp_path / "first")  # a worker may have forgotten the programs since the fixture was played
    with compilations() as found:
        play(small_study(), copy)
        assert stored(copy) == before and not found
        play(small_study(), tmp_path / "again")  # all of it, by the programs that are there
    assert not found
    assert stored(tmp_path / "again") == before


def test_each_program_is_compiled_once_and_beside_the_others(whole, tmp_path, monkeypatch):
    compiled, together = [], threading.Barrier(2, timeout=60)
    memory = Program.memory

    def spy(self, num_rounds):
        if threading.current_thread() is not threading.main_thread():
            compiled.append(type(self.algorithm).__name__)
            together.wait()  # broken, unless both are under way at once
        return memory(self, num_rounds)

    monkeypatch.setattr(Program, "memory", spy)
    play(small_study(), tmp_path / "study")
    assert sorted(compiled) == ["Oful", "UniformPlay"]  # two cells of each
    assert stored(tmp_path / "study") == stored(whole)


@pytest.mark.parametrize("num", [1, 2, 5])
def test_interrupted_and_resumed(whole, tmp_path, monkeypatch, num):
    # Ctrl-C is answered once the stretch is over; every seed-round is on disk then.
    monkeypatch.setattr(run, "stretch_for", lambda *_: Stretch(7))
    with monkeypatch.context() as patched:
        interrupt_after(patched, num)
        with pytest.raises(KeyboardInterrupt):
            play(small_study(), tmp_path / "out")
    assert list((tmp_path / "out" / "checkpoints").rglob("*.npz"))
    with pytest.raises(jv.RunError, match=r"not complete.*\n.*is not there"):
        jv.load(tmp_path / "out")
    played = rounds_played(monkeypatch)
    result = play(small_study(), tmp_path / "out")
    assert sum(num for _, num in played) == 60 * 12 - 7 * num  # nothing is played twice
    assert_same(result, jv.load(whole))
    assert stored(tmp_path / "out", ("shards", "checkpoints")) == stored(whole, ("shards", "checkpoints"))


@pytest.mark.slow
def test_more_layers_are_taken_from_the_start(tmp_path, monkeypatch):
    # One layer is too few: the chunk is played again with more, also where it was interrupted with too few or enough.
    save = jv.Entry("save", options={"constants": "practical", "capacity": 1}, record=["regret", "layer_rounds"])
    study = small_study(algorithms=[save], environments=[LEVEL], seeds=8)
    result = play(study, tmp_path / "whole")
    assert not result.cells[0].status.any() and result.cells[0].records["layer_rounds"].shape[2] > 2
    monkeypatch.setattr(run, "stretch_for", lambda *_: Stretch(7))
    for num in (1, 4):
        with monkeypatch.context() as patched:
            interrupt_after(patched, num)
            with pytest.raises(KeyboardInterrupt):
                play(study, tmp_path / str(num))
        play(study, tmp_path / str(num))
        assert stored(tmp_path / str(num)) == stored(tmp_path / "whole")


EXTENSIONS = {
    "seeds": {"seeds": 37},
    "seeds of a chunk that is there": {"seeds": 24},
    "cells": {"environments": (BANDIT, jv.Entry("linear_bandit", options={"dim": 2, "num_arms": 3}))},
    "values of a sweep": {
        "environments": (
            jv.Entry(BANDIT.name, label=BANDIT.label, options=BANDIT.options, sweep={"noise.std": [0.5, 0.2, 0.1]}),
        )
    },
    "rounds": {"rounds": 90, "records": [1, 20, 45, 60, 75, 90]},
    "rounds, other records": {"rounds": 90, "records": [5, 15, 25, 60, 75, 90]},
    "all": {"rounds": 90, "records": [1, 20, 45, 60, 75, 90], "seeds": 25, "algorithms": (UNIFORM, OFUL)},
    "words": {"question": "?", "name": "other", "algorithms": (jv.Entry("oful", label="x"), UNIFORM)},
}


@pytest.mark.variants(4)
@pytest.mark.parametrize("name", EXTENSIONS)
def test_extended_is_the_same_as_fresh(copy, tmp_path, name):
    larger = small_study(**EXTENSIONS[name])
    fresh = play(larger, tmp_path / "fresh")
    extended = play(larger, copy)
    assert_same(extended, fresh)
    assert [(c.algorithm, c.environment_settings) for c in extended.cells] == [
        (c.algorithm, c.environment_settings) for c in fresh.cells
    ]


def test_more_rounds_go_on_where_the_fewer_ended(copy, monkeypatch):
    # OFUL does not know how many rounds there are: its 60 are not played again. A study knows which cells do.
    played = rounds_played(monkeypatch)
    play(small_study(rounds=90, records=[1, 20, 45, 60, 75, 90]), copy)
    assert len(played) == 12 and set(played) == {(61, 30)}


def test_an_algorithm_that_knows_the_number_of_rounds_starts_again(tmp_path):
    entry = jv.Entry("lin_ts")
    short, long = (
        small_study(algorithms=[entry], seeds=8, rounds=n, records=[20, n], environments=[LEVEL]) for n in (60, 90)
    )
    play(short, tmp_path / "out")
    assert not list((tmp_path / "out").glob("checkpoints/*/*"))  # of no use, so not kept
    assert_same(play(long, tmp_path / "out"), play(long, tmp_path / "fresh"))


CHANGED = {
    "key was 3 and is 4": {"key": 4},
    "seeds was 20 and is 19": {"seeds": 19},
    "rounds was 60 and is 50": {"rounds": 50, "records": [50]},
    r"records were .* and are \[60\]": {"records": [60]},
    "chunk was 8 and is 16": {"chunk": 16},
    "precision was 'float64' and is 'float32'": {"precision": "float32"},
    "first_seed was 0 and is 8": {"first_seed": 8},
    "record was .*variance.* and is .*regret": {"record": ["regret"]},
    r"cell 'oful' on .*: algorithm.delta was 0.01 and is 0.1": {
        "algorithms": (jv.Entry("oful", options={"delta": 0.1}), UNIFORM)
    },
    "cell 'uniform' on .*: is not there any more": {"algorithms": (OFUL,)},
}


@pytest.mark.parametrize("message", CHANGED)
def test_a_changed_study_is_refused_and_harms_nothing(whole, message):
    before = stored(whole, ("", "shards", "checkpoints"))
    with pytest.raises(jv.RunError, match=f"holds another study(.|\n)*{message}"):
        play(small_study(**CHANGED[message]), whole)
    del before["lock"]
    after = stored(whole, ("", "shards", "checkpoints"))
    assert {name: after[name] for name in before} == before


def test_no_resume_refuses_a_folder_with_results(whole):
    with pytest.raises(jv.RunError, match="holds a study already"):
        play(small_study(), whole, resume=False)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-10])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def swap(path):
    shutil.copyfile(sorted(path.parents[1].glob("*/8-15.npz"))[0], path)  # a right shard of other seeds


def pickled(path):
    np.savez(path, regret=np.array([{}], object))


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [truncate, flip, swap, pickled, empty], ids=lambda f: f.__name__)
def test_a_damaged_shard_is_named_and_played_again(whole, copy, capsys, harm):
    path = sorted(copy.glob("shards/*/0-7.npz"))[1]
    harm(path)
    with pytest.raises(jv.RunError, match=str(path)):
        jv.load(copy)
    assert sorted(len(cell.seeds) for cell in jv.load(copy, partial=True).cells) == [12, 20, 20, 20]
    play(small_study(), copy)
    assert f"{path} is damaged and will be played again" in capsys.readouterr().err
    assert stored(copy) == stored(whole)


def test_a_damaged_checkpoint_is_not_gone_on_from(whole, copy, capsys):
    paths = list(copy.glob("checkpoints/*/*.npz"))
    for path in paths:
        flip(path)
    larger = small_study(rounds=90, records=[1, 20, 45, 60, 75, 90])
    assert_same(play(larger, copy), play(larger, copy.parent / "fresh"))
    said = capsys.readouterr().err
    for path in paths:
        assert f"{path} cannot be used: its checksum does not fit its contents; seeds" in said
    assert said.count("are played from the start") == len(paths)  # nothing is said of checkpoints that were never there


def test_a_run_json_that_is_no_table_or_was_edited_is_refused(copy):
    path = copy / "run.json"
    edited = {**json.loads(path.read_text()), "seeds": 24}
    for text in (json.dumps(edited), "[" * 100_000, "{", "\x00"):
        path.write_text(text)
        with pytest.raises(jv.RunError, match=r"run\.json cannot be read"):
            jv.load(copy)


@pytest.mark.parametrize("together", [True, False], ids=["one folder", "three folders"])
def test_parts_that_are_merged_are_the_whole(whole, tmp_path, together):
    folders = [tmp_path / ("out" if together else str(i)) for i in range(3)]
    for i, folder in enumerate(folders):
        part = play(small_study(), folder, shard=(i + 1, 3))
        assert together or sum(len(c.seeds) for c in part.cells) < 4 * 20
    assert merge_command(folders if not together else folders[:1], tmp_path / "merged") == 0
    assert stored(tmp_path / "merged") == stored(whole)
    assert_same(jv.load(tmp_path / "merged"), jv.load(whole))
    assert json.loads((tmp_path / "merged" / "run.json").read_text())["shards"] == stored(whole)


def test_parts_of_different_studies_are_not_merged(whole, tmp_path):
    play(small_study(seeds=8, algorithms=[UNIFORM]), tmp_path / "other", shard=(1, 2))
    with pytest.raises(jv.RunError, match="different studies"):
        merge([whole, tmp_path / "other"], tmp_path / "merged")


@pytest.mark.slow
def test_a_chunk_that_does_not_fit_is_refused_or_made_smaller(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(programs, "free_memory", lambda mesh: 40_000)
    with pytest.raises(
        jv.RunError, match=r"64 seeds at a time need [\d.]+ KiB of memory, and 39.1 KiB are free; a chunk"
    ):
        play(small_study(chunk=64, algorithms=[UNIFORM]), tmp_path / "given")
    assert not list(tmp_path.glob("given/shards/*"))
    result = play(small_study(chunk=None, seeds=64, algorithms=[UNIFORM]), tmp_path / "chosen")
    assert "seeds at a time are played instead" in capsys.readouterr().err
    assert {c["chunk"] for c in result.config["cells"]} < {8, 16, 24, 32}
    monkeypatch.setattr(programs, "free_memory", lambda mesh: 10)
    with pytest.raises(jv.RunError, match="not even a few seeds would fit"):
        play(small_study(chunk=None, seeds=64, algorithms=[UNIFORM]), tmp_path / "none")


SPHERE = {"dim": 2, "num_arms": 3, "noise": {"name": "two_point", "std": 0.5}}
VIOLATIONS = {
    "noise": (
        jv.Entry("oful", options={"noise_bound": 0.25}),
        {},
        "'oful' on 'linear_bandit': Oful was told noise_bound=0.25 (R), and LinearBandit has noise_bound=0.5: "
        "its theorem does not hold",
    ),
    "norm": (
        jv.Entry("oful", options={"radius": "data_free", "norm_bound": 1.0}),
        {"norm_bound": 2.0},
        "'oful' on 'linear_bandit': Oful was told norm_bound=1 (a bound on norms), and LinearBandit has norm_bound=2: "
        "its theorem does not hold",
    ),
    "rounds": (
        jv.Entry("save", options={"num_rounds": 10}),
        {},
        "'save' on 'linear_bandit': Save was built for num_rounds=10 and plays 60: "
        "its theorem says nothing about the rest",
    ),
}


def warnings_of(study, folder):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(study, folder)
    return [w for w in caught if issubclass(w.category, UserWarning)]


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violated_assumption_is_one_warning_with_both_numbers(tmp_path, name):
    entry, options, sentence = VIOLATIONS[name]
    problem = jv.Entry("linear_bandit", options={**SPHERE, **options})
    study = small_study(algorithms=[entry, UNIFORM], environments=[problem], seeds=8)
    (warning,) = warnings_of(study, tmp_path / "out")
    assert str(warning.message) == sentence and warning.filename == __file__
    kept = {key: value for key, value in entry.options.items() if key == "radius"}
    right = jv.Entry(entry.name, options=kept)  # what it is told by default, or by the environment
    fine = small_study(algorithms=[right, UNIFORM], environments=[problem], seeds=8)
    assert not warnings_of(fine, tmp_path / "fine")


def test_a_violation_of_many_cells_is_said_once_and_names_the_first(tmp_path):
    entry = jv.Entry("oful", options={"noise_bound": 0.25}, sweep={"delta": [0.1, 0.2]})
    noises = jv.Entry("linear_bandit", options=SPHERE, sweep={"noise.std": [0.1, 0.5, 1.0]})
    study = small_study(algorithms=[entry], environments=[noises], seeds=8)
    found = [str(w.message) for w in warnings_of(study, tmp_path)]
    assert [text.split(":")[0] for text in found] == [
        f"'oful' with delta = 0.1 on 'linear_bandit' with noise.std = {std}" for std in (0.5, 1.0)
    ]
    for bound, text in zip((0.5, 1), found, strict=True):
        assert "noise_bound=0.25 " in text and f"noise_bound={bound}:" in text


def test_cells_are_built_once(toml, tmp_path, monkeypatch):
    # With the study, and once more for twice the rounds: to know which cells a longer study would go on from.
    made = []
    monkeypatch.setattr(definition, "cells", lambda study: made.append(study.length) or cells(study))
    assert run_command(Run(study=str(toml), out=tmp_path / "out", progress=False)) == 0
    assert made == [60, 120]
    assert run_command(Run(study=str(toml), out=tmp_path / "out", progress=False)) == 0  # nothing is left to play
    assert made == [60, 120, 60]


def test_a_second_run_with_the_same_versions_is_not_listed_again(copy):
    play(small_study(seeds=24), copy)
    assert len(json.loads((copy / "run.json").read_text())["runs"]) == 1


@pytest.fixture
def toml(tmp_path):
    """The study as a file."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL_TOML)
    return path


@pytest.mark.slow
def test_ten_thousand_seeds_of_a_million_rounds_are_planned_in_little_memory():
    # 200 records of each: what a chunk needs, by its compiled program, is far from what all seeds would.
    study = small_study(seeds=10_000, rounds=10**6, records=200, chunk=None, environments=[LEVEL])
    devices = jax.devices()
    some = programs.Programs(study, devices, Processes(devices), 30.0, False, lambda: False, print)
    for cell in study.cells:
        needed, free = some._memory(cell, some.chosen_chunk(cell))
        assert 0 < needed < 2**25 and needed < free


def test_failed_seeds_are_named_and_the_study_finishes(whole, toml, tmp_path, capsys):
    # A regularisation whose inverse float64 cannot hold: OFUL's seeds fail, and the others are what they were.
    toml.write_text(SMALL_TOML.replace('name = "oful"', 'name = "oful"\nlam = 1e-300'))
    assert run_command(Run(study=str(toml), out=tmp_path / "out", progress=False)) == 1
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 2 and all(
        "oful on two noise levels" in line and "20 of 20 seeds failed" in line for line in error
    )
    assert "the first of them seed 0 in round 60: rounding has taken the digits of an inverse" in error[0]
    result = jv.load(tmp_path / "out")
    assert result.cells[0].status.all() and not result.cells[1].status.any()
    np.testing.assert_array_equal(result.cells[1].regret, jv.load(whole).cells[1].regret)


def test_a_failure_is_a_line_with_cell_seed_round_and_cause(whole):
    result = jv.load(whole)
    status = np.zeros(20, np.int32)
    status[3] = jv.status.NONFINITE
    cell = result.cells[1]
    object.__setattr__(cell, "status", status)
    object.__setattr__(cell, "status_round", 7 * status)
    (line,) = failures(result)
    assert "uniform on two noise levels" in line and "noise.std" in line and "1 of 20 seeds" in line
    assert "seed 3 in round 14: a NaN or an infinite number appeared" in line


def test_a_folder_that_cannot_be_written_to(toml, capsys):
    assert run_command(Run(study=str(toml), out=toml / "out", progress=False)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"cannot write to {toml}/out: Not a directory" in line


def test_a_full_disk_ends_with_a_sentence_and_the_finished_shards(whole, toml, tmp_path, capsys):
    # A file system of a few pages: the real thing.
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", small]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a file system")
    try:
        assert run_command(Run(study=str(toml), out=small, progress=False)) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert f"cannot write to {small}: No space left on device" in line and "were finished are intact" in line
        there = stored(small)
        assert there and there.items() < stored(whole).items()
        assert not list(small.rglob("*.tmp"))
        subprocess.run(["mount", "-o", "remount,size=1m", small], check=True)
        assert run_command(Run(study=str(toml), out=small, progress=False)) == 0  # room was made
        assert stored(small) == stored(whole)
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_file_that_may_not_grow_is_a_full_disk_too(toml, tmp_path, capsys):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))  # less than a shard has
    try:
        code = run_command(Run(study=str(toml), out=tmp_path / "out", progress=False))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert code == 1 and "File too large" in capsys.readouterr().err
    assert not [p for p in (tmp_path / "out").rglob("*") if p.name.endswith(".tmp")]


def test_the_command_runs_the_study_of_a_file(whole, toml, tmp_path, capsys):
    assert jv.read_study(toml) == small_study()
    assert run_command(Run(study=str(toml), out=tmp_path / "out", progress=False)) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out'}\n"
    assert stored(tmp_path / "out") == stored(whole)
    assert run_command(Run(study=str(toml), out=tmp_path / "out", seeds=24, progress=False)) == 0
    assert len(jv.load(tmp_path / "out").cells[0].seeds) == 24


def test_the_command_repeats_a_study_from_its_run_json(whole, tmp_path):
    """With the same cells, chunks and bytes, also from a copy of the file under another name."""
    copied = shutil.copy(whole / "run.json", tmp_path / "copied.json")
    assert jv.read_study(copied) == jv.read_study(whole / "run.json") == small_study()
    assert run_command(Run(study=str(copied), out=tmp_path / "again", progress=False)) == 0
    assert stored(tmp_path / "again") == stored(whole)


def test_a_repeated_study_keeps_the_chunk_that_was_chosen(tmp_path):
    """Sums depend on the chunk in their last digits."""
    study = small_study(chunk=None)
    store.new_manifest(study, [12] * 4).write(tmp_path)
    assert jv.read_study(tmp_path / "run.json") == dataclasses.replace(study, chunk=12)
    store.new_manifest(study, [12, 12, 12, 8]).write(tmp_path)
    assert jv.read_study(tmp_path / "run.json") == study


def test_a_damaged_run_json_is_refused_in_a_sentence(whole, toml, tmp_path, capsys):
    text = (whole / "run.json").read_text()
    unknown = re.sub(r'"name": "oful"', '"name": "unknown"', text)
    for content in (text[:200], "{}", "[]", "", toml.read_text(), unknown):
        path = tmp_path / "run.json"
        path.write_text(content)
        assert run_command(Run(study=str(path), out=tmp_path / "out")) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"jaxvar: {path}") and said.count("\n") == 1 and not (tmp_path / "out").exists()
    assert run_command(Run(study=str(tmp_path / "none.json"), out=tmp_path / "out")) == 2
    assert "there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shard": "3/2"}, "shard must be I/N"),
        ({"shard": "a"}, "shard must be I/N"),
        ({"seeds": 0}, "seeds must be"),
        ({"rounds": 10}, "--rounds 10: the study small records round 60; give at least as many rounds"),
        ({"study": "smal"}, "no such file"),
    ],
)
def test_bad_usage_has_exit_code_two(toml, tmp_path, capsys, options, message):
    assert run_command(Run(**{"study": str(toml), "out": tmp_path / "out", **options})) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_xarray_has_every_number_under_its_name(whole):
    result = jv.load(whole)
    data = result.to_xarray()
    assert data.regret.dims == ("cell", "seed", "round") and data.sizes["cell"] == 4
    cell = data.where((data.algorithm == "oful") & (data["environment.noise.std"] == 0.5), drop=True)
    np.testing.assert_array_equal(cell.regret[0].sel(round=45), result.cells[2].regret[:, 4])


def test_what_a_cell_lacks_is_nan_in_xarray(tmp_path):
    entries = (jv.Entry("uniform", record=["regret"]), jv.Entry("oful", record=["regret", "confidence"]))
    data = play(small_study(algorithms=entries, seeds=8, environments=[LEVEL]), tmp_path).to_xarray()
    assert data.confidence.dims == ("cell", "seed", "round", "confidence_0")
    assert (
        np.isnan(data.confidence[0]).all() and np.isfinite(data.confidence[1]).all() and np.isfinite(data.regret).all()
    )


@pytest.mark.parametrize("to", ["csv", "netcdf", "npz"])
def test_exports_hold_every_number(whole, tmp_path, to):
    result = jv.load(whole)
    path = tmp_path / "file"
    assert export_command(whole, to, path) == 0 and os.listdir(tmp_path) == ["file"]
    want = np.stack([cell.regret for cell in result.cells])
    if to == "csv":
        import csv

        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == want.size and rows[0]["algorithm"] == "oful"
        np.testing.assert_array_equal([float(r["regret"]) for r in rows], want.ravel())
        last = rows[-1]
        assert (last["seed"], last["round"], last["environment.noise.std"], last["status"]) == ("19", "60", "0.5", "0")
    elif to == "netcdf":
        import xarray

        with xarray.open_dataset(path, engine="h5netcdf") as data:
            np.testing.assert_array_equal(data.regret, want)
            assert list(data.algorithm.values) == ["oful", "uniform"] * 2
            assert json.loads(data.attrs["config"])["study"]["name"] == "small"
    else:
        with np.load(path, allow_pickle=False) as file:
            np.testing.assert_array_equal(np.stack([file[f"cell_{i}.regret"] for i in range(4)]), want)
            assert json.loads(str(file["study"]))["cells"][3]["algorithm"] == "uniform"
