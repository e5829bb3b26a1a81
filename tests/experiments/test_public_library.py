"""What is asked of public libraries, and what is made of their answers; only the slow test installs anything."""

import itertools
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

from experiments.speed import public_library, public_player
from experiments.speed.public_library import Libraries, Rate

ANSWER = {"library": "coba", "version": "8.1.0", "rate": 5000.0, "cpu_rate": 5100.0, "regret": 12.5}


def test_the_player_is_isolated():
    # It must find the library's environment, and neither jaxvar nor the files beside it.
    command = public_library.command(Path("/there/bin/python"), {"library": "coba", "dim": 10})
    assert command[:2] == ["/there/bin/python", "-I"]
    assert Path(command[2]).name == "public_player.py" and Path(command[2]).exists()
    assert json.loads(command[3]) == {"library": "coba", "dim": 10}
    assert public_library.environment()["OMP_NUM_THREADS"] == "1"


def test_the_last_line_is_the_answer():
    # Libraries may print what they like before it.
    assert public_library.parse("a warning\n" + json.dumps(ANSWER) + "\n") == Rate(**ANSWER)
    for wrong in ("", "no result", '{"library": "coba"}'):
        with pytest.raises(RuntimeError, match="printed no result"):
            public_library.parse(wrong)


def test_processes_add_up():
    # Rates of processes add; rates per second of processor time do not.
    both = public_library.combine([Rate(**ANSWER), Rate(**{**ANSWER, "rate": 3000.0, "cpu_rate": 4900.0})])
    assert (both.rate, both.cpu_rate, both.regret) == (8000.0, 5000.0, 12.5)


def test_an_environment_is_made_once(tmp_path, monkeypatch):
    # By name, with pip, in a folder of one's choice; and again if the installation was cut short.
    steps, fails = [], [True]

    def run(step, **_):
        steps.append(step)
        failed = fails[0] and "pip" in step
        return subprocess.CompletedProcess(step, int(failed), "", "no network" if failed else "")

    monkeypatch.setattr(public_library.subprocess, "run", run)
    with pytest.raises(RuntimeError, match=r"coba could not be installed.*\n.*no network"):
        public_library.install("coba", tmp_path)
    (tmp_path / "coba").mkdir()
    fails[0] = False
    assert public_library.install("coba", tmp_path) == tmp_path / "coba" / "bin" / "python"
    assert len(steps) == 4
    assert steps[2][1:3] == ["-m", "venv"] and steps[3][1:] == ["-m", "pip", "install", "--quiet", "numpy", "coba"]
    public_library.install("coba", tmp_path)
    assert len(steps) == 4


def test_the_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("JAXVAR_LIBRARIES", str(tmp_path))
    assert public_library.cache_folder() == tmp_path
    monkeypatch.delenv("JAXVAR_LIBRARIES")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert public_library.cache_folder() == tmp_path / "jaxvar" / "libraries"


def test_libraries_take_turns_and_the_fastest_comes_first(monkeypatch, capsys):
    calls, speed = [], {"coba": 3.0, "river": 1.0, "mabwiser": 2.0}

    def rate(name, **options):
        calls.append((name, options["seed"]))
        return Rate(name, "1", speed[name], speed[name], 0.0)

    monkeypatch.setattr(public_library, "rate", rate)
    options = Libraries(libraries=("river", "coba", "mabwiser"), repeats=2)
    found = public_library.compare(options, fresh=True)
    assert [r.library for r in found] == ["coba", "mabwiser", "river"]
    assert calls == [(name, i) for i in range(2) for name in options.libraries]
    public_library.show(options, found, True)
    assert "0.333" in capsys.readouterr().out


def test_unknown_libraries_are_refused():
    with pytest.raises(ValueError, match="library"):
        public_library.rate("tensorflow")


@pytest.mark.parametrize("fresh", [False, True])
def test_the_game_is_the_same_for_all(monkeypatch, fresh):
    # A player is shown the arms and told the reward of the one it took; taking the first costs regret.
    class First:
        def __init__(self, dim, num_arms):
            assert (dim, num_arms) == (3, 4)

        def choose(self, arms):
            self.arms = arms
            assert arms.shape == (4, 3)
            return 0

        def learn(self, x, reward):
            assert (x == self.arms[0]).all() and isinstance(reward, float)

    monkeypatch.setitem(public_player.PLAYERS, "numpy", First)
    ticks = itertools.count()
    clock = types.SimpleNamespace(perf_counter=lambda: next(ticks), process_time=lambda: next(ticks) / 2)
    monkeypatch.setattr(public_player, "time", clock)
    task = {"dim": 3, "num_arms": 4, "num_rounds": 50, "fresh": fresh, "seconds": 120.5, "seed": 1}
    answer = public_player.play("numpy", **task)
    assert answer["rate"] == pytest.approx(1, rel=0.02) and answer["cpu_rate"] == pytest.approx(2, rel=0.04)
    assert 5 < answer["regret"] < 100  # of 50 rounds
    assert answer["version"]


@pytest.mark.slow
def test_a_library_is_installed_and_learns(tmp_path):
    # Needs a network. 500 rounds of uniform play would have a regret of about 350.
    found = public_library.rate("coba", dim=3, num_arms=5, num_rounds=500, seconds=10.0, processes=1, folder=tmp_path)
    assert found.library == "coba" and found.version and found.rate > 0
    assert found.regret < 60
    assert not (tmp_path / "coba" / "lib" / f"python3.{sys.version_info[1]}" / "site-packages" / "jax").exists()
