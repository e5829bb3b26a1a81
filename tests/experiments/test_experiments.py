"""Every experiment's page says what was found: its tables are the stored ones, and so is every number in its text."""

import functools
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import jaxvar as jv
from experiments import __main__ as everything
from experiments.experiment import Conclusions, Experiment, Options, main, sized
from experiments.found import BLOCK, filled, read_found
from jaxvar.analysis import Interval, mean_interval, sample
from jaxvar.figures import regret_curves
from jaxvar.tables import Column, Table

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/found.json"))
FINDINGS = ROOT / "docs" / "findings.md"
COUNTABLE = 12  # whole numbers up to here need no source: layers, orders, dimensions
NUMBER = re.compile(r"(?<![\w.^/])\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w^])")


def folder(name):
    return ROOT / "experiments" / name


@functools.cache
def stored(name):
    """All numbers in an experiment's tables and studies, and the constants of the presets."""
    found, values = read_found(folder(name) / "found.json"), constants()
    for table in found.tables.values():
        values |= in_text(table.caption) | {x for column in table.columns for x in in_text(column.title)}
        for cell in (cell for row in table.rows for cell in row):
            if isinstance(cell, Interval):
                values |= {cell.estimate, cell.low, cell.high, cell.half, 100 * cell.level, cell.seeds}
            elif isinstance(cell, str):
                values |= in_text(cell)
            elif cell is not None:
                values.add(cell)
    for path in [*folder(name).glob("*.toml"), *study_files(name)]:
        values |= set(numbers(tomllib.loads(path.read_text())))
    return frozenset(abs(float(x)) for x in values if x == x)


def constants():
    """Every number of every preset."""
    c = jv.constants
    presets = [preset(setting=setting) for setting in c.SETTINGS for preset in (c.paper, c.paper_fixed, c.practical)]
    return {float(getattr(preset, name)) for preset in [*presets, c.tight()] for name in c.number_names()}


def study_files(name):
    return [ROOT / "jaxvar" / "study" / "named" / f"{name}.toml"] if name == "headline" else []


def numbers(value):
    """The numbers in what TOML holds, those in texts too."""
    if isinstance(value, dict):
        value = [*value.values(), *value.keys()]
    if isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, str):
        yield from in_text(value)
    elif not isinstance(value, bool):
        yield value


def in_text(text):
    return {float(x.replace(",", "")) for x in NUMBER.findall(text)}


def is_stored(written, values):
    """Whether a number as written is one of the values, rounded to as many digits; or a share in percent."""
    plain = written.replace(",", "")
    number = float(plain)
    if "." not in plain and number <= COUNTABLE:
        return True
    decimals = len(plain.partition(".")[2])
    digits = len(plain.replace(".", "").strip("0"))
    for value in values:
        for seen in (value, 100 * value):
            if round(seen, decimals) == number or (decimals == 0 and seen and float(f"{seen:.{digits}g}") == number):
                return True
    return False


def prose(text):
    """Without tables of the harness, code, links and formulas."""
    text = BLOCK.sub("", text)
    text = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->|\]\([^)]*\)|\$[^$]*\$", " ", text, flags=re.DOTALL)
    return "\n".join(line for line in text.splitlines() if not line.startswith("|"))


def unknown(text, values):
    return [x for x in NUMBER.findall(prose(text)) if not is_stored(x, values)]


def test_numbers_are_looked_up():
    """Fails if the check of the pages below would let a wrong number pass."""
    values = {0.4837, 1929.4, 0.873, 20_000.0}
    good = "Slope 0.48, regret 1,929 or 1,900, in 87 % of seeds, layer 9, after 20,000 rounds; `0.77` is code"
    assert unknown(good, values) == []
    assert unknown("Slope 0.49, regret 1,928, in 88 % of seeds, after 21,000 rounds", values) == [
        "0.49",
        "1,928",
        "88",
        "21,000",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_page_shows_what_is_stored(name):
    """Tables, figures and numbers in the text of the page beside the experiment."""
    text, found = (folder(name) / "README.md").read_text(), read_found(folder(name) / "found.json")
    assert filled(text, found.tables) == text
    assert BLOCK.search(text), "a page shows a table"
    for part in ("**Claim", "**Command.**"):
        assert part in text or name == "calibration", part
    images = set(re.findall(r"!\[[^\]]+\]\((\w[^):]*\.png)\)", text))
    assert images and images == {path.name for path in folder(name).glob("*.png")}
    assert unknown(text, stored(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_of_the_committed_studies(name):
    """Fails if a study was changed after the experiment was run, or a claim rests on few seeds."""
    found = read_found(folder(name) / "found.json")
    files = {path.stem: path for path in [*folder(name).glob("*.toml"), *study_files(name)]}
    assert set(found.studies) == set(files)
    for stem, path in files.items():
        study = jv.read_study(path)
        assert found.studies[stem]["study"] == json.loads(json.dumps(study.to_config())), stem
        assert study.seeds >= 200 or "no claim" in (study.question or ""), stem
        assert found.studies[stem]["runs"], stem


def test_one_command_makes_all():
    """Every experiment with a stored result is among those that ``python -m experiments`` runs."""
    assert set(NAMES) == set(everything.NAMES)
    assert everything.NAMES.index("variance") < everything.NAMES.index("dimension")  # which uses its multipliers
    assert everything.run(["nothing"]) == 2


def test_an_experiment_is_found_by_its_folder(monkeypatch):
    """Names first, then options for each of them; a folder with a command of its own gets what is left."""
    called = []
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr(everything.subprocess, "run", lambda command: called.append(command[2:]) or done)
    monkeypatch.setattr(everything, "main", lambda experiment, options: called.append((experiment.name, options)) or 0)
    for words in (
        "switch",
        "switch --seeds 8",
        "speed draws --rounds 9",
        "published cw_oful",
        "switch audit --seeds 8",
    ):
        assert everything.run(words.split()) == 0
    assert called == [
        ("switch", ["--publish"]),
        ("switch", ["--seeds", "8"]),
        ["experiments.speed", "draws", "--rounds", "9"],
        ["experiments.published", "cw_oful"],
        ["experiments", "switch", "--seeds", "8"],
        ["experiments", "audit", "--seeds", "8"],
    ]


def test_findings_are_stored():
    """The documentation's page: each section names its experiments by links, and has their numbers only."""
    parts = re.split(r"^## ", FINDINGS.read_text(), flags=re.MULTILINE)
    assert len(parts) > 5
    for part in parts[1:]:
        names = set(re.findall(r"experiments/(\w+)/README\.md", part)) & set(NAMES)
        assert names, part.splitlines()[0]
        values = set().union(*(stored(name) for name in names))
        assert unknown(part, values) == [], part.splitlines()[0]


def test_every_experiment_is_in_the_findings():
    text = FINDINGS.read_text()
    assert [name for name in NAMES if f"experiments/{name}/README.md" not in text] == []


TINY = """
seeds = 3
rounds = 40
records = [20, 40]

[[algorithm]]
name = "oful"

[[environment]]
name = "linear_bandit"
dim = 2
num_arms = 3
noise = { name = "two_point", std = 0.1 }
"""


def conclude(results):
    result = results["tiny"]
    values = tuple((cell.algorithm, mean_interval(sample(cell).final)) for cell in result.cells)
    table = Table("Regret of 3 seeds.", (Column("algorithm"), Column("regret", "half")), values)
    return Conclusions({"regret": table}, {"curves": regret_curves(result)})


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """An experiment in a folder of its own."""
    monkeypatch.setattr("experiments.experiment.FOLDER", tmp_path)
    monkeypatch.setattr("jaxvar.tune_cpu", lambda: None)  # JAX has started
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tiny.toml").write_text(TINY)
    (tmp_path / "mine" / "README.md").write_text("# Mine\n\n<!-- table: regret -->\nold\n<!-- end -->\n\nText.\n")
    return Experiment("mine", conclude)


def test_an_experiment_from_study_to_page(tiny, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(tiny, ["--out", str(out), "--no-progress", "--publish"]) == 0
    assert "Regret of 3 seeds." in capsys.readouterr().out
    figure = {f"curves.{ending}" for ending in ("pdf", "png", "caption.txt", "caption.tex")}
    assert {p.name for p in out.iterdir()} == {"tiny", "regret.csv", *figure}
    assert {p.name for p in tiny.folder.iterdir()} == {"tiny.toml", "README.md", "found.json", "curves.png"}
    found, result = read_found(tiny.folder / "found.json"), jv.load(out / "tiny")
    (cell,) = result.cells
    assert found.tables["regret"] == conclude({"tiny": result}).tables["regret"]
    assert found.tables["regret"].rows[0][1].estimate == cell.regret[:, -1].mean()
    assert found.studies["tiny"]["study"]["rounds"] == 40
    page = (tiny.folder / "README.md").read_text()
    assert "| OFUL" in page or "| oful" in page
    assert "old" not in page and page.endswith("<!-- end -->\n\nText.\n")
    assert main(tiny, ["--out", str(out), "--no-progress", "--publish"]) == 0  # nothing is left to play
    again = read_found(tiny.folder / "found.json")
    assert (again.tables, again.studies["tiny"]["study"]) == (found.tables, found.studies["tiny"]["study"])


def test_other_sizes(tiny):
    """More seeds and longer; published is only what the committed studies give."""
    longer = sized(tiny.studies()["tiny"], Options(seeds=5, longer=2.5))
    assert (longer.seeds, longer.rounds, list(longer.records)) == (5, 100, [50, 100])
    with pytest.raises(ValueError, match="publish is for the studies as they are"):
        Options(seeds=5, publish=True)
    with pytest.raises(ValueError, match="longer must be positive and finite, got 0"):
        Options(longer=0)
    with pytest.raises(SystemExit, match="2"):
        main(tiny, ["--longer", "-1"])


def test_unknown_table_of_a_page():
    with pytest.raises(ValueError, match="there is no table named 'b', only a"):
        filled("<!-- table: b -->\n<!-- end -->", {"a": Table("", (), ())})
