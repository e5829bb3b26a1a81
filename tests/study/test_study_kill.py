"""A study whose process is killed at random moments, and one that is asked to stop: real processes, real signals."""

import random
import signal
import time

import pytest

from tests.helpers.processes import finish, start
from tests.helpers.small_study import stored

STUDY = """
seeds = 64
rounds = 3000
records = 10
chunk = 8
[[algorithm]]
name = "uniform"
[[algorithm]]
name = "greedy"
[[environment]]
name = "linear_bandit"
dim = 2
num_arms = 3
noise = { name = "two_point", std = 0.3 }
"""
KEPT = ("shards", "checkpoints")


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """``command(folder, *options)``: starts the study, with compiled programs kept from one process to the next."""
    place = tmp_path_factory.mktemp("kill")
    (place / "study.toml").write_text(STUDY)

    def begin(folder, *options):
        own = ["--out", folder, "--cache", place / "cache", "--no-progress", "--checkpoint-seconds", "0.01"]
        return start("-m", "jaxvar.cli", "run", place / "study.toml", *own, *options)

    return begin


@pytest.fixture(scope="module")
def whole(command, tmp_path_factory):
    """The study's folder after a run that nothing disturbed, and how long it played."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    finish(command(tmp_path_factory.mktemp("warm") / "out"))  # so that the programs are in the cache
    process = command(folder)
    wait_for(process, lambda: (folder / "run.json").exists())
    began = time.monotonic()
    finish(process)
    return folder, time.monotonic() - began


def wait_for(process, happened):
    while process.poll() is None and not happened():
        time.sleep(0.001)


def kill_until_done(command, whole, folder, rng, kills):
    """Run the study again and again, each time killed at a random moment, until it is done.

    Returns how often it was killed, and how often of these after it had written something.
    """
    reference, seconds = whole
    done = written = 0
    while done < kills:
        before = stored(folder, KEPT) if folder.exists() else {}
        process = command(folder)
        # Most moments are while it plays and writes, some from the very start on.
        if rng.random() < 0.8:
            wait_for(process, lambda before=before: folder.exists() and names(folder) - before.keys())
            time.sleep(rng.uniform(0, seconds / 4))
        else:
            time.sleep(rng.uniform(0, 3))
        ended = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert not ended or process.returncode == 0, errors
        assert stored(folder, ("shards",)).items() <= {**stored(reference), **temporaries(folder)}.items()
        if ended:
            return done, written
        done += 1
        written += stored(folder, KEPT) != before
    finish(command(folder))
    return done, written


def names(folder):
    """Of all files, without a look into those that may be gone by now."""
    return {str(path.relative_to(folder)) for part in KEPT for path in (folder / part).glob("*/*")}


def temporaries(folder):
    return {name: digest for name, digest in stored(folder, KEPT).items() if name.endswith(".tmp")}


def check_same(whole, folder):
    assert stored(folder, KEPT) == stored(whole[0], KEPT)
    assert not [path for path in folder.rglob("*") if path.name.endswith(".tmp")]


def test_killed_three_times(command, whole, tmp_path):
    kill_until_done(command, whole, tmp_path / "out", random.Random(0), 3)
    check_same(whole, tmp_path / "out")


@pytest.mark.slow
def test_killed_fifty_times(command, whole, tmp_path):
    # Byte for byte what an undisturbed run leaves, whenever it was killed; a study that ends too early is begun anew.
    rng, kills, written, attempt = random.Random(1), 0, 0, 0
    while kills < 50:
        folder = tmp_path / str(attempt)
        done, in_time = kill_until_done(command, whole, folder, rng, 50 - kills)
        check_same(whole, folder)
        kills, written, attempt = kills + done, written + in_time, attempt + 1
    print(f"{kills} kills, {written} of them after something was written, in {attempt} studies")
    assert written > 20


def test_ctrl_c_then_a_second_run_while_the_first_lives(command, whole, tmp_path):
    # Asked to stop, it says how to go on; while it lives, no other run gets in.
    folder = tmp_path / "out"
    first = command(folder)
    wait_for(first, lambda: names(folder))
    first.send_signal(signal.SIGSTOP)  # so that it is there for as long as we need it
    second = command(folder)
    _, errors = second.communicate(timeout=600)
    assert second.returncode == 1
    assert f"another run is writing to {folder} (process {first.pid} on" in errors
    first.send_signal(signal.SIGINT)
    first.send_signal(signal.SIGCONT)
    _, errors = first.communicate(timeout=600)
    assert first.returncode == 130
    assert f"the same command resumes from what is in {folder}" in errors and "Traceback" not in errors
    finish(command(folder))
    check_same(whole, folder)
