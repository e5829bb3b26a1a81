"""Several processes: one simulation over the devices of all of them, with the numbers of a single process."""

import functools

import numpy as np
import pytest

from tests.helpers.processes import ROOT, finish, free_port, start
from tests.helpers.programs import quick_compilation

GAMES = ("save", "oful")


def play(folder, num_processes):
    """What each of the processes got."""
    script, port = ROOT / "tests" / "helpers" / "host_script.py", free_port()
    paths = [folder / f"{i}_of_{num_processes}.npz" for i in range(num_processes)]
    begin = functools.partial(start, script, XLA_FLAGS=quick_compilation())
    finish(*(begin(path, i, num_processes, port) for i, path in enumerate(paths)))
    results = []
    for path in paths:
        with np.load(path) as file:
            results.append(dict(file))
    return results


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return play(tmp_path_factory.mktemp("one"), 1)[0]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return play(tmp_path_factory.mktemp("two"), 2)


@pytest.mark.slow
def test_same_bits_in_one_process_and_in_two(one, two):
    # Who plays a seed leaves no trace, a rerun with more layers is everybody's, and every process gets all results.
    assert one["devices"] == 1
    records = [name for name in one if name.startswith(GAMES)]
    assert len(records) == 6
    assert one["save.capacity"] > 1
    for process in two:
        assert process["devices"] == 4 and process["local_devices"] == 2
        for name in records:
            np.testing.assert_array_equal(process[name], one[name])
    for game in GAMES:
        assert np.unique(one[f"{game}.regret"][..., -1]).size > 20  # the seeds differ


def test_processes_do_not_communicate_while_they_play(two):
    # The program spans both processes and contains no collective operation.
    for process in two:
        assert process["partitioned"]
        assert process["collectives"] == 0


def test_processes_must_agree(two):
    # Runs of different keys are not mixed silently; on its own devices a process may play what it likes.
    for process in two:
        assert "same arguments in every process" in str(process["refused"])
    assert not np.array_equal(two[0]["own"], two[1]["own"])
