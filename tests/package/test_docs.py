"""The documentation builds without a warning, has an entry for every public name, and what it shows works."""

import functools
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jax
import pytest
import tyro
from sphinx.util.inventory import InventoryFile

import jaxvar as jv
from experiments.speed.__main__ import VERBS
from experiments.speed.comparison import Comparison
from jaxvar import cli
from jaxvar.algorithms.catalogue import CLAIMS
from tests.helpers.examples import blocks, run_python, write_modules

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
TEMPLATES = sorted((DOCS / "templates").glob("*.sh"))
# Modules without __all__: their public names are what they define themselves.
PLAIN = ("constants", "nets", "noise", "planning", "random", "record", "ridge", "status")
LISTED = ("analysis", "audit", "calibration", "figures", "report", "schedules", "tables", "testing")
SHOWN = [ROOT / "README.md", *PAGES]


SLOW = {
    "constants",
    "data",
    "own",
    "own_classes",
    "sweeps",
    "wrappers",
}  # they play studies, or check the contract


def with_blocks(language):
    """The pages that have code blocks in a language."""
    found = [page for page in PAGES if blocks(page, language)]
    return [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in SLOW else []) for p in found]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built pages; any warning is an error."""
    out = tmp_path_factory.mktemp("site")
    options = ("-W", "--keep-going", "-n", "-q", "-d", out / "trees")
    command = [sys.executable, "-m", "sphinx", *options, DOCS, out / "html"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    assert done.returncode == 0, done.stderr
    return out / "html"


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A folder with the results of the study that the pages start from, and with the studies that they show."""
    out = tmp_path_factory.mktemp("work")
    jv.run_study(jv.read_study("quick"), out / "results" / "quick", progress=False)
    for page in PAGES:
        for text in blocks(page, "toml"):
            (out / text.splitlines()[0].removeprefix("# ")).write_text(text)
        write_modules(page, out)
    return out


def entries(site):
    """Names that have an entry, in whichever role."""
    with open(site / "objects.inv", "rb") as file:
        inventory = InventoryFile.load(file, "", os.path.join)
    return {name for role, found in inventory.items() if role.startswith("py:") for name in found}


def public_names():
    """Every name that a user can reach as ``jv.NAME`` or ``jv.MODULE.NAME``."""
    assert {n for n in jv.__all__ if inspect.ismodule(getattr(jv, n))} == {*PLAIN, *LISTED}
    found = {f"jaxvar.{name}" for name in jv.__all__}
    for name in LISTED:
        found |= {f"jaxvar.{name}.{n}" for n in getattr(jv, name).__all__}
    for name in PLAIN:
        module = getattr(jv, name)
        own = [n for n, x in vars(module).items() if getattr(x, "__module__", None) == module.__name__]
        found |= {f"jaxvar.{name}.{n}" for n in own if not n.startswith("_")}
    return found


def test_every_public_name_has_an_entry(site):
    assert public_names() - entries(site) == set()


def test_entries_say_something(site):
    """Signatures and docstrings were found, not only names."""
    page = re.sub(r"<[^>]*>", "", (site / "api" / "running.html").read_text())
    for text in ("num_seeds", "the root key", "runs per call of the compiled program", "[seeds]", "[K, H]"):
        assert text in page, text


def test_every_algorithm_is_in_the_table(site):
    page = (site / "algorithms.html").read_text()
    for claim in CLAIMS:
        assert f"#jaxvar.{claim.factory}" in page, claim.name


def test_every_command_is_in_the_reference(site):
    page = (site / "command_line.html").read_text()
    for verb in ("audit", "bench", "calibrate", "export", "figures", "list", "merge", "report", "run", "table"):
        assert f"usage: jaxvar {verb} " in page, verb
    assert "--checkpoint-seconds" in page


def test_no_page_needs_the_network_to_be_read(site):
    for path in site.rglob("*.html"):
        fetched = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]+)"', path.read_text())
        assert not fetched, (path, fetched)
        assert "\\(" not in path.read_text(), "a formula that is not MathML"


@pytest.mark.parametrize("page", [p for p in with_blocks("python") if p.id != "devices"])
def test_python_examples_run(page, quick, monkeypatch):
    """Blocks of a page run in order, as a reader pastes them: with JAX's own rules of promotion."""
    monkeypatch.chdir(quick)
    monkeypatch.syspath_prepend(quick)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        run_python(page)


def test_examples_of_settings_run():
    """In a process of their own, since they come before JAX starts."""
    code = "\n".join(blocks(DOCS / "devices.md", "python"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [p for p in SHOWN if blocks(p, "toml")], ids=lambda p: p.stem)
def test_studies_are_right(page, tmp_path, monkeypatch):
    """Each is read, and with it every argument of every cell is checked."""
    write_modules(page, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for text in blocks(page, "toml"):
        path = tmp_path / text.splitlines()[0].removeprefix("# ")
        assert path.suffix == ".toml", "the first line names the file"
        path.write_text(text)
        jv.read_study(path)


def commands(page, begin="jaxvar"):
    """The arguments of a page's command lines that begin so, in blocks and within sentences."""
    lines = [line for text in blocks(page, "bash") for line in text.splitlines()]
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    lines += [re.sub(r"\s+", " ", found) for found in re.findall(r"`([^`]+)`", text)]
    found = [f"{line} " for line in lines if f"{line} ".startswith(f"{begin} ")]
    given = (line.removeprefix(begin).strip().removesuffix("&") for line in found)
    return [words for words in (tuple(shlex.split(line, comments=True)) for line in given) if words or " " in begin]


@pytest.fixture
def parse(monkeypatch):
    """Parses a command line as ``jaxvar`` does, and does nothing with it."""
    real = cli.load_verb

    def only_parse(name):
        target, run = real(name)
        return (_idle(target), None) if run is None else (target, lambda options: 0)

    monkeypatch.setattr(cli, "load_verb", only_parse)
    monkeypatch.setattr(cli, "tune_cpu", lambda: None)  # JAX has started already
    return lambda words: cli.main(list(words))


def _idle(verb):
    @functools.wraps(verb)
    def call(*args, **kwargs):
        return 0

    return call


def test_commands_exist_with_their_options(parse):
    found = {(page.name, *words) for page in SHOWN for words in commands(page)}
    assert len(found) > 20
    for page, *words in found:
        if words[1:]:
            assert parse(words) == 0, (page, words)
        else:  # a verb by itself is only mentioned
            with pytest.raises(SystemExit, match=r"^0$"):
                parse([*words, "--help"])
        if words[0] == "run" and not any(w.endswith((".toml", ".json")) for w in words):
            jv.read_study(next(w for w in words[1:] if w in ("quick", "headline", "episodes")))


@pytest.mark.slow
def test_commands_of_a_study_of_ones_own_run(quick, monkeypatch, capsys):
    """One after the other, in the folder with the class and the study."""
    monkeypatch.chdir(quick)
    monkeypatch.syspath_prepend(quick)
    monkeypatch.setattr(cli, "tune_cpu", lambda: None)
    shown = [line for text in blocks(DOCS / "own.md", "bash") for line in text.splitlines()]
    assert [line.split()[1] for line in shown] == ["run", "table", "figures", "report", "run"]
    for line in shown:
        assert cli.main([*line.split()[1:], *(["--no-progress"] if line.split()[1] == "run" else [])]) == 0, line
    assert r"\begin{tabular}" in capsys.readouterr().out


def test_commands_of_experiments_exist_with_their_options():
    """``python -m experiments speed [VERB] [OPTIONS]``, in blocks and within sentences."""
    begin = "python -m experiments speed"
    found = {words for page in SHOWN for words in commands(page, begin)}
    assert {words[:1] for words in found} >= {(), ("draws",), ("growth",), ("kernels",), ("precision",), ("devices",)}
    for verb, *options in (words if words[:1] and words[0] in VERBS else ("", *words) for words in found):
        tyro.cli(VERBS.get(verb, Comparison), args=options)


def test_wrong_commands_are_noticed(parse):
    """The test above can fail."""
    with pytest.raises(SystemExit):
        parse(["run", "quick", "--sseds", "3"])


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda p: p.stem)
def test_templates_say_what_jaxvar_understands(template, tmp_path, parse):
    """Run for real, with a ``jaxvar`` and a ``srun`` that only say what they were asked."""
    assert subprocess.run(["bash", "-n", template]).returncode == 0
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "jaxvar").write_text('#!/bin/sh\nprintf "%s\\n" "$*" >>"$CALLS"\n')
    (tools / "srun").write_text('#!/bin/sh\nexec "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    out = tmp_path / "out"
    for i in (1, 2):
        (out / f"part-{i}").mkdir(parents=True)
    (out / "whole").mkdir()
    calls = tmp_path / "calls"
    slurm = {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "8"}
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "CALLS": str(calls), **slurm}
    arguments = ["out"] if template.stem == "slurm_merge" else ["quick", "out"]
    subprocess.run(["bash", template, *arguments], check=True, env=environment, cwd=tmp_path)
    said = [line.split() for line in calls.read_text().splitlines()]
    assert said
    for words in said:
        assert parse(words) == 0, words
    expected = {
        "slurm_array": "run quick --shard 2/8 --out out/part-2",
        "slurm_merge": "merge out/part-1 out/part-2 --out out/whole",
        "slurm_distributed": "run quick --distributed",
    }
    assert " ".join(said[0]).startswith(expected[template.stem])


def test_templates_end_where_an_argument_is_missing():
    for template in TEMPLATES:
        done = subprocess.run(["bash", template], capture_output=True, text=True)
        assert done.returncode != 0 and "name " in done.stderr
