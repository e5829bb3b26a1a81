"""One study played by two processes on the loopback address, and on several devices: the bits of one process."""

import socket

import pytest

from jaxvar.commands import Run, run_command
from tests.helpers import processes
from tests.helpers.processes import finish
from tests.helpers.small_study import stored

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
import os, pathlib, signal, sys, jax
from jaxvar.study import hosts, run
from jaxvar.commands import Run, run_command
if sys.argv[6:] == ["dies"]:
    played, play = [], run.play
    def play_once(*args):
        played.append(args)
        return play(*args) if len(played) == 1 else os.kill(os.getpid(), signal.SIGKILL)
    run.play = play_once
if sys.argv[6:]:
    hosts.LOST = 5
jax.config.update("jax_num_cpu_devices", int(sys.argv[3]))
process = int(sys.argv[4])
several = {"coordinator": sys.argv[5], "num_processes": 2, "process_id": process} if process >= 0 else {}
sys.exit(run_command(Run(study=sys.argv[1], out=pathlib.Path(sys.argv[2]), progress=False, **several)))
"""


def start(folder, devices, process=-1, coordinator="", *more, text=STUDY):
    study = (folder.parents[1] if folder.parent.is_file() else folder.parent) / "study.toml"
    study.parent.mkdir(parents=True, exist_ok=True)
    study.write_text(text)
    return processes.start("-c", SCRIPT, study, folder, devices, process, coordinator, *more)


def start_two(folder, dies=None):
    """Two processes with two devices each; the one with the number ``dies`` plays one shard and is killed."""
    coordinator = f"127.0.0.1:{processes.free_port()}"
    fates = [[] if dies is None else ["dies" if i == dies else "lives"] for i in range(2)]
    return [start(folder, 2, i, coordinator, *fates[i]) for i in range(2)]


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


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_process_is_named_and_all_resume(alone, tmp_path, lost):
    # One process is killed. The other would wait for it: it ends by itself and says which one is gone.
    both = start_two(tmp_path / "out", dies=lost)
    try:
        both[lost].communicate(timeout=600)
        _, said = both[1 - lost].communicate(timeout=30)
    finally:
        for process in both:
            process.kill()
    assert [process.returncode for process in both] == ([-9, 1] if lost == 0 else [1, -9])
    assert f"jaxvar: process {lost} " in said and "start all processes again by the same command" in said
    assert "Traceback" not in said
    finish(*start_two(tmp_path / "out"))
    assert stored(tmp_path / "out") == stored(alone)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_processes": 2}, "give --coordinator HOST:PORT too"),
        ({"process_id": 0}, "give --coordinator HOST:PORT too"),
        ({"coordinator": "nonsense"}, "--coordinator must be HOST:PORT of the first process, like node0:4321, got"),
        ({"coordinator": "node0:70000"}, "--coordinator must be HOST:PORT"),
        ({"coordinator": "no.such.host.invalid:4321"}, "the host 'no.such.host.invalid' cannot be found"),
        ({"coordinator": "127.0.0.1:1", "num_processes": 0}, "--num-processes must be at least 1, got 0"),
        ({"coordinator": "127.0.0.1:1", "num_processes": 2, "process_id": 2}, "--process-id must be from 0 to 1"),
    ],
    ids=str,
)
def test_wrong_addresses_are_refused_in_a_sentence(options, message, tmp_path, capsys):
    assert run_command(Run(study="quick", out=tmp_path / "out", progress=False, **options)) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_port_that_is_taken_is_refused_in_a_sentence(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        address = {"coordinator": f"127.0.0.1:{port}", "num_processes": 2, "process_id": 0}
        assert run_command(Run(study="quick", out=tmp_path / "out", progress=False, **address)) == 2
    assert f"port {port} of this machine is in use" in capsys.readouterr().err
