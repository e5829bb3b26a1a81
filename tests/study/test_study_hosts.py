"""One study played by two processes on the loopback address, and on several devices: the bits of one process."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

from tests.helpers.small_study import stored

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUDY = """
seeds = 40
rounds = 80
records = 8
chunk = 32
[[algorithm]]
name = "save"
constants = "practical"
capacity = 1
[[algorithm]]
name = "oful"
[[environment]]
name = "linear_bandit"
dim = 2
num_arms = 4
noise = { name = "two_point", std = 0.3 }
"""
SCRIPT = """
import pathlib, sys, jax
from jaxvar.study.commands import Run, run_command
jax.config.update("jax_num_cpu_devices", int(sys.argv[3]))
process = int(sys.argv[4])
several = {"coordinator": sys.argv[5], "num_processes": 2, "process_id": process} if process >= 0 else {}
sys.exit(run_command(Run(study=sys.argv[1], out=pathlib.Path(sys.argv[2]), progress=False, **several)))
"""


def start(folder, devices, process=-1, coordinator="", text=STUDY):
    study = (folder.parents[1] if folder.parent.is_file() else folder.parent) / "study.toml"
    study.parent.mkdir(parents=True, exist_ok=True)
    study.write_text(text)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    clean |= {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    args = [study, folder, devices, process, coordinator]
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *map(str, args)],
        env=clean,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_two(folder):
    """Two processes with two devices each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    return [start(folder, 2, i, coordinator) for i in range(2)]


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


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "out"
    finish(start(folder, 1))
    return folder


@pytest.mark.slow
def test_two_processes_write_the_bytes_of_one(alone, tmp_path):
    # One layer is too few for some seeds: both processes must agree to play again with more.
    finish(*start_two(tmp_path / "out"))
    assert stored(alone) and stored(tmp_path / "out") == stored(alone)
    assert '"processes": 2' in (tmp_path / "out" / "run.json").read_text()


@pytest.mark.slow
def test_two_processes_go_on_from_what_one_left(alone, tmp_path):
    # The first process alone reads the folder; the other gets what the seeds hold from it.
    half = STUDY.replace("rounds = 80", "rounds = 40").replace("records = 8", "records = 4")
    finish(start(tmp_path / "out", 1, text=half))
    assert list((tmp_path / "out").glob("checkpoints/*/0-31.npz"))
    finish(*start_two(tmp_path / "out"))
    assert stored(alone).items() <= stored(tmp_path / "out").items()  # SAVE knows how many rounds: the 40 stay beside


@pytest.mark.slow
def test_two_processes_end_where_one_cannot_write(tmp_path):
    # Nobody waits for a process that has given up.
    (tmp_path / "file").write_text("")
    said = finish(*start_two(tmp_path / "file" / "out"), code=1)
    assert "Not a directory" in said[0] and "could not go on" in said[1]


@pytest.mark.slow
def test_begun_on_one_device_and_ended_on_four(alone, tmp_path):
    # The chunk stays what it was; who plays it leaves no trace.
    finish(start(tmp_path / "out", 4))
    assert stored(tmp_path / "out") == stored(alone)
    for path in sorted(alone.glob("shards/*/0-31.npz")):
        target = tmp_path / "mixed" / "out" / path.relative_to(alone)
        target.parent.mkdir(parents=True)
        target.write_bytes(path.read_bytes())
    (tmp_path / "mixed" / "out" / "run.json").write_bytes((alone / "run.json").read_bytes())
    finish(start(tmp_path / "mixed" / "out", 4))
    assert stored(tmp_path / "mixed" / "out") == stored(alone)
