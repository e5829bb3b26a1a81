"""The command is quick where it only says something, and the package imports no more than it needs."""

import csv
import dataclasses
import io
import subprocess
import sys

import pytest

import jaxvar as jv
from jaxvar import cli, listing, tables
from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.files import csv_entry
from jaxvar.study.export import export
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


@pytest.mark.parametrize("name", cli.VERBS)
def test_every_verb_has_its_help(name, monkeypatch, capsys):
    """Modules and functions are named by text there, which no type checker reads."""
    monkeypatch.setattr(cli, "tune_cpu", lambda: None)  # JAX has started already
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main([name, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: jaxvar {name} ")


def test_the_package_imports_no_library_that_it_does_not_need():
    code = """
import sys
import jaxvar as jv
assert "jax" not in sys.modules
assert callable(jv.simulate) and jv.save.__module__ == "jaxvar.algorithms.save"
assert not {"numba", "scipy", "matplotlib", "optax", "tests", "experiments"} & set(sys.modules), sys.modules.keys()
"""
    python(code)


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
