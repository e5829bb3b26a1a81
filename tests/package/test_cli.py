"""The command is quick where it only says something, and the package imports no more than it needs."""

import csv
import dataclasses
import io
import signal
import subprocess
import sys

import pytest

import jaxvar as jv
from jaxvar import cli, listing, tables
from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.commands import Run, _changed
from jaxvar.files import csv_entry
from jaxvar.study import store
from jaxvar.study.export import export
from jaxvar.study.toml import read_study
from jaxvar.theory.calibrate import Calibrate
from jaxvar.theory.calibration import seeds_needed
from tests.helpers import synthetic_study


def python(code):
    """Run code in an interpreter of its own; return what it printed."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"], ["version"], ["list", "--help"]], ids=str)
def test_words_that_need_no_jax_do_not_import_it(words):
    """It takes longer than all the rest."""
    code = f"""
import sys
from jaxvar.cli import main
try:
    code = main({words!r})
except SystemExit as end:
    code = end.code
assert code == 0, code
assert not {{"jax", "numpy", "matplotlib"}} & set(sys.modules)
"""
    assert python(code)


def test_the_overview_has_every_verb(capsys):
    assert cli.main([]) == 0
    bare = capsys.readouterr().out
    assert cli.main(["--help"]) == 0
    assert capsys.readouterr().out == bare
    for name, verb in cli.VERBS.items():
        assert f"  {name} " in bare and verb.about.split()[0] in bare
    assert max(map(len, bare.splitlines())) <= cli.WIDTH


def test_the_version_is_that_of_the_package(capsys):
    for words in (["--version"], ["version"]):
        assert cli.main(words) == 0
        assert capsys.readouterr().out == f"{jv.__version__}\n"


def test_an_unknown_verb_is_refused(capsys):
    assert cli.main(["kernels"]) == 2
    assert "unknown verb 'kernels'; the verbs are audit, bench" in capsys.readouterr().err


@pytest.fixture
def jax_has_started(monkeypatch):
    monkeypatch.setattr(cli, "tune_cpu", lambda: None)


@pytest.mark.usefixtures("jax_has_started")
@pytest.mark.parametrize("name", cli.VERBS)
def test_every_verb_has_its_help(name, capsys):
    """Modules and functions are named by text there, which no type checker reads."""
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main([name, "--help"])
    text = capsys.readouterr().out
    assert text.startswith(f"usage: jaxvar {name} ")
    assert "{None" not in text and "(default: )" not in text and "options options" not in text


def test_the_seeds_that_a_calibration_needs_are_those_in_its_help():
    options = Calibrate()
    assert seeds_needed(options.delta, options.level) == 368


@pytest.mark.usefixtures("jax_has_started")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("rnu", 2, "unknown verb 'rnu' (did you mean run?)"),
        ("run quick --checkpoint-seconds nan", 2, "--checkpoint-seconds must be a number above 0, got nan"),
        ("run quick --checkpoint-seconds=-1", 2, "--checkpoint-seconds must be a number above 0, got -1.0"),
        ("run quick --episodes 5", 2, "--episodes: the study quick plays rounds; give --rounds instead"),
        ("run quick --rounds 0", 2, "rounds must be an integer of at least 1"),
        ("run quick --shard 3/2", 2, "--shard must be I/N"),
        ("run quikc", 2, "did you mean 'quick'?"),
        ("merge --out none", 2, "merge needs folders to join"),
        ("bench --repeats 0", 2, "--repeats must be an integer of at least 1, got 0"),
        ("bench --algorithms svae", 2, "did you mean 'save'?"),
        ("bench --algorithms", 2, "--algorithms must name one at least of oful"),
        ("report none", 1, "there is no folder none"),
        ("figures none", 1, "there is no folder none"),
        ("table none", 1, "there is no folder none"),
        ("export none", 1, "there is no folder none"),
        ("report .", 1, ". holds no study: there is no run.json in it"),
    ],
)
def test_errors_of_a_user_are_sentences(words, code, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words.split()) == code
    said = capsys.readouterr().err
    assert said.startswith("jaxvar: ") and message in said and not list(tmp_path.iterdir())


def test_a_misspelt_option_is_answered_with_the_right_one(capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(["list", "--too", "csv"])
    assert "--to " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("records", "recorded"), [(50, 20), ({"spacing": "log", "number": 60}, 14), (None, 20), ([1, 9], 2)]
)
def test_fewer_rounds_have_fewer_records(records, recorded):
    study = dataclasses.replace(read_study("quick"), records=records)
    assert len(_changed(study, Run(study="quick", rounds=20)).recorded) == recorded


def test_records_that_are_rounds_are_not_left_out():
    study = dataclasses.replace(read_study("quick"), records=[1, 500])
    with pytest.raises(jv.StudyError, match="--rounds 20: the study quick records round 500; give at least as many"):
        _changed(study, Run(study="quick", rounds=20))


def test_a_device_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    words = ["run", "quick", "--device", "tpu", "--out", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-m", "jaxvar.cli", *words], capture_output=True, text=True)
    assert done.returncode == 2 and "--device tpu: JAX finds none here, only cpu;" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_package_imports_no_library_that_it_does_not_need():
    code = """
import sys
import jaxvar as jv
assert "jax" not in sys.modules
assert callable(jv.simulate) and jv.save.__module__ == "jaxvar.algorithms.save"
assert not {"numba", "scipy", "matplotlib", "optax", "tests", "experiments"} & set(sys.modules), sys.modules.keys()
"""
    python(code)


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "before",
    ["pass", "import jaxvar.simulate, jaxvar.run", "from jaxvar.study.run import run_study", "from jaxvar import *"],
)
def test_public_names_do_not_depend_on_what_was_imported_before(before):
    """``run`` and ``simulate`` are functions, although modules have these names too."""
    code = f"""
{before}
import inspect
import jaxvar as jv
assert inspect.isfunction(jv.simulate) and inspect.isfunction(jv.run)
assert inspect.ismodule(jv.audit) and inspect.ismodule(jv.random) and inspect.ismodule(jv.record)
assert set(jv.__all__) <= set(dir(jv)) and all(hasattr(jv, name) for name in jv.__all__)
assert not hasattr(jv, "no_such_name")
from jaxvar import ridge, simulate
assert inspect.isfunction(simulate) and inspect.ismodule(ridge)
"""
    python(code)


@pytest.mark.parametrize("value", ["SAVE", "-0.5", "+1e3", "-inf", "1-2", " =1", "", -0.5, None], ids=repr)
def test_entries_that_are_no_formulas_are_left_alone(value):
    assert csv_entry(value) is value


@pytest.mark.parametrize("value", ["@SUM(A1)", "+cmd|1", "-2+3", "\t=1", "\r=1", "\n=1", "\uff1d1"], ids=ascii)
def test_entries_that_are_formulas_get_an_apostrophe(value):
    assert csv_entry(value) == f"'{value}"


def test_no_csv_holds_a_formula(tmp_path):
    """A spreadsheet would run it when the file is opened."""
    label = '=HYPERLINK("http://host")'
    cells = [synthetic_study.cell(synthetic_study.curves(seeds=4), algorithm=label)]
    result = synthetic_study.study(cells)
    claims = [dataclasses.replace(CLAIMS[0], name=label)]
    texts = {
        "export": export(result, "csv", tmp_path / "out.csv").read_bytes().decode(),
        "table": tables.TABLES["regret"](result).to("csv"),
        "list": listing.listing("csv", claims),
    }
    for name, text in texts.items():
        entries = [entry for row in csv.reader(io.StringIO(text, newline="")) for entry in row]
        assert f"'{label}" in entries and label not in entries, name


TINY = """
seeds = 8
rounds = 20
algorithm = [{ name = "uniform" }, { name = "greedy" }]
environment = [{ name = "linear_bandit", dim = 2, num_arms = 3, noise = { name = "two_point", std = 0.3 } }]
"""


def raises_sigterm(when):
    """Code that runs a study, and gets SIGTERM while JAX is imported, the study is read, or programs are compiled."""
    asked = {
        "import": "sys.meta_path.insert(0, types.SimpleNamespace(find_spec=stop))",
        "read": "from jaxvar import commands; commands.read_study = stop",
        "compile": "from jaxvar.study import programs as p; f = p.mesh_for; p.mesh_for = lambda *a: stop() or f(*a)",
    }
    return f"""
import os, signal, sys, types
from jaxvar import cli

def stop(*args):
    os.kill(os.getpid(), {int(signal.SIGTERM)})

{asked[when]}
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("when", ["import", "read", "compile"])
def test_sigterm_before_anything_is_played_ends_in_a_sentence(when, tmp_path):
    folder = tmp_path / "out"
    (tmp_path / "study.toml").write_text(TINY)
    words = ["run", str(tmp_path / "study.toml"), "--no-progress", "--out", str(folder)]
    done = subprocess.run([sys.executable, "-c", raises_sigterm(when), *words], capture_output=True, text=True)
    assert done.returncode == 130 and "Traceback" not in done.stderr, done.stderr
    said = (
        f"jaxvar: stopped; the same command resumes from what is in {folder}"
        if when == "compile"
        else "jaxvar: stopped"
    )
    assert said in done.stderr
    if when == "compile":
        with store.locked(folder):  # the process holds it no more, and a study that has no run.json begins anew
            assert not (folder / "run.json").exists()
