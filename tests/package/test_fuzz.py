"""A few cases of :mod:`tests.fuzz`, whose program plays thousands, and the program itself."""

import os
import time

import pytest

from tests import fuzz

CASES = {"flip": 40, "file": 25, "factory": 80}


@pytest.mark.slow
def test_a_few_cases_find_nothing():
    found = {(kind, i): outcome for kind, i, outcome in fuzz.play(fuzz.shuffled(CASES), seed=1, seconds=6)}
    assert {case: outcome.finding for case, outcome in found.items() if outcome.finding} == {}
    assert {outcome.word for (kind, _), outcome in found.items() if kind == "flip"} == {"refused"}
    assert {kind for kind, _ in found} == set(CASES)  # as many as there was time for


def hang(connection, base):
    connection.send(None)
    time.sleep(100)


def die(connection, base):
    connection.send(None)
    connection.recv()
    os._exit(3)


@pytest.mark.parametrize(("target", "said"), [(hang, "no answer"), (die, "exit code 3")])
def test_a_process_that_is_lost_is_a_finding_and_another_one_is_started(target, said, monkeypatch, tmp_path):
    monkeypatch.setattr(fuzz, "PATIENCE", 0.2)
    worker = fuzz.Worker(tmp_path, target)
    for number in range(2):
        assert said in worker.run("flip", 0, number).finding
    assert worker.process is None


def test_findings_are_printed_with_what_repeats_them(monkeypatch, capsys):
    outcomes = [("flip", 0, fuzz.Outcome("refused")), ("file", 7, fuzz.Outcome("found", "a traceback"))]
    for shown, code in ((outcomes, 1), (outcomes[:1], 0)):
        monkeypatch.setattr(fuzz, "play", lambda *args, shown=shown: iter(shown))
        assert fuzz.main(["--flips", "1", "--files", "1", "--factories", "0", "--seed", "3"]) == code
        assert ("--seed 3 --only file:7: a traceback" in capsys.readouterr().out) == bool(code)
