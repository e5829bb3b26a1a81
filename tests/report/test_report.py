"""The report's HTML, without a browser: its numbers, its size, and what becomes of text and of missing results."""

import base64
import dataclasses
import hashlib
import html
import html.parser
import json
import re
import subprocess
import sys
from collections import Counter

import jinja2
import numpy as np
import pytest
from scipy import stats

from jaxvar import show, status
from jaxvar.analysis.captions import settings_text
from jaxvar.figures.look import COLOURS, DASHES
from jaxvar.report import page, write_page
from jaxvar.report.drawing import Axis
from jaxvar.report.markup import around, between, clean, duration, ends, plain, short, templates
from jaxvar.report.page import outline
from jaxvar.study.definition import Entry, Study
from jaxvar.study.run import run_study
from tests.helpers.synthetic_study import cell, curves, study, whole_study

FORBIDDEN = ("<script", "</script", "<!--", "]]>", "\u2028", "\u2029")


class Reader(html.parser.HTMLParser):
    """Tables by id as lists of rows, and the text of scripts, styles and paragraphs."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.scripts, self.styles, self.ids, self.words, self.definition = {}, [], [], [], [], None
        self.rows, self.open = None, []
        self.feed(text)

    def handle_starttag(self, name, attributes):
        given = dict(attributes)
        self.open.append(name)
        self.ids += [given["id"]] if "id" in given else []
        if name == "table":
            self.rows = self.tables.setdefault(given.get("id"), [])
        elif name == "tr":
            self.rows.append([])
        elif name in ("td", "th"):
            self.rows[-1].append("")
        elif given.get("id") == "study-definition":
            self.definition = ""
        elif name in ("script", "style"):
            (self.scripts if name == "script" else self.styles).append("")

    def handle_endtag(self, name):
        while self.open and self.open.pop() != name:
            pass

    def handle_data(self, text):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += text
        elif self.open and self.open[-1] == "style":
            self.styles[-1] += text
        else:
            self.words.append(text)
            if self.definition == "":
                self.definition = text
            if self.rows and self.rows[-1] and {"td", "th"} & set(self.open):
                self.rows[-1][-1] += text

    def column(self, table, number):
        return [row[number] for row in self.tables[table][1:]]


def number(text):
    """The first number of a text, and half a unit of its last digit."""
    found = re.search(r"−?\d[\d,]*(?:\.\d+)?", text).group().replace("−", "-").replace(",", "")
    return float(found), 0.5 * 10.0 ** -len(found.partition(".")[2])


def charts(read):
    """The data of the charts, by key."""
    return {chart["key"]: chart for chart in json.loads(read.scripts[0])["charts"]}


@pytest.fixture(scope="module")
def result():
    return whole_study(algorithms=("SAVE", "AVE-UCB", "OFUL"))


@pytest.fixture(scope="module")
def read(result):
    return Reader(page(result))


def test_final_regret_and_differences_are_those_of_the_seeds(result, read):
    """Means, t intervals, medians and paired differences, computed here anew."""
    rows = read.tables["final-table"][1:]
    assert len(rows) == len(result.cells)
    for row, found in zip(rows, result.cells, strict=True):
        final = found.regret[:, -1]
        half = stats.t.ppf(0.975, len(final) - 1) * stats.sem(final)
        assert row[4] == around(final.mean(), half)
        assert number(row[5])[0] == pytest.approx(np.median(final), abs=number(row[5])[1])
        reference = next(
            c for c in result.cells if c.algorithm == "OFUL" and c.environment_settings == found.environment_settings
        )
        if found is reference:
            assert row[6:] == ["–", "–"]
        else:
            difference = final - reference.regret[:, -1]
            assert row[6] == around(difference.mean(), stats.t.ppf(0.975, len(final) - 1) * stats.sem(difference))
            assert number(row[7])[0] == round(100 * np.mean(difference < 0))


def test_other_sections_have_the_numbers_of_the_study(result, read):
    """Exponents by a fit of our own, coverage by counting, layers by shares, speed by division."""
    for found, shown in zip(result.cells, read.column("rounds-table", 2), strict=True):
        late = found.rounds >= found.num_rounds / 10
        slope = np.polyfit(np.log(found.rounds[late]), np.log(found.regret.mean(0)[late]), 1)[0]
        assert number(shown)[0] == pytest.approx(slope, abs=1.01 * number(shown)[1])
    levels = np.array([0.1, 0.3, 1.0])
    for algorithm, shown in zip(result.algorithms, read.column("slope-table-1", 2), strict=True):
        means = [c.regret[:, -1].mean() for c in result.cells if c.algorithm == algorithm]
        assert number(shown)[0] == pytest.approx(np.polyfit(np.log(levels), np.log(means), 1)[0], abs=number(shown)[1])
    for found, held, share in zip(
        result.cells, read.column("coverage-table", 2), read.column("coverage-table", 3), strict=True
    ):
        count = int(found.records["confidence"][:, -1].all(1).sum())
        exact = stats.binomtest(count, 40).proportion_ci(0.95, method="exact")
        assert held == f"{count} of 40"
        assert share == f"{100 * count / 40:.1f} {between(100 * exact.low, 100 * exact.high, 1)}"
    for found, shares in zip(result.cells, read.column("layers-table", 3), strict=True):
        counts = found.records["layer_rounds"][:, -1].mean(0)
        expected = (100 * counts / counts.sum())[: np.flatnonzero(counts)[-1] + 1]
        np.testing.assert_allclose([float(v) for v in shares.split(" / ")], expected, atol=0.051)
    assert set(read.column("speed-table", 3)) == {"20 k"}  # 40 seeds, 1000 rounds, 2 seconds


def test_embedded_curves_are_means_with_bands(result, read):
    """What the chart draws, to the digits that are kept."""
    data = charts(read)["regret"]
    names = dict(data["names"])
    drawn = [(s["label"], c) for s in data["settings"] for c in s["cells"]]
    assert [(setting, names[c["curve"]]) for setting, c in drawn] == [
        (settings_text(c.environment_settings), c.algorithm) for c in result.cells
    ]
    for found, (_, curve) in zip(result.cells, drawn, strict=True):
        assert data["xs"][curve["x"]] == found.rounds.tolist()
        line, low, high = map(np.array, curve["views"][1])
        half = stats.t.ppf(0.975, 39) * stats.sem(found.regret, axis=0)
        np.testing.assert_allclose(line, found.regret.mean(0), rtol=1e-4)
        np.testing.assert_allclose(high - low, 2 * half, rtol=1e-3)
        np.testing.assert_allclose(curve["views"][2][0], np.median(found.regret, axis=0), rtol=1e-4)
        simultaneous = curve["views"][0]
        assert np.all(np.array(simultaneous[2]) >= high) and np.all(np.array(simultaneous[1]) <= low)


def test_question_is_charted_first(result, read):
    """Mean and median of the final regret over what was swept, with the intervals of the table."""
    assert read.ids[:2] == ["question", "regret"]
    data = charts(read)["question-0"]
    assert data["points"] and data["logX"] and [s["label"] for s in data["settings"]] == ["sphere"]
    assert dict(data["names"]) == dict(enumerate(result.algorithms))
    for drawn in data["settings"][0]["cells"]:
        assert data["xs"][drawn["x"]] == [0.1, 0.3, 1.0]
        final = [c.regret[:, -1] for c in result.cells if c.algorithm == result.algorithms[drawn["curve"]]]
        half = [stats.t.ppf(0.975, 39) * stats.sem(v) for v in final]
        line, low, high = map(np.array, drawn["views"][0])
        np.testing.assert_allclose(line, np.mean(final, axis=1), rtol=1e-4)
        np.testing.assert_allclose(high - low, 2 * np.array(half), rtol=1e-3)
        np.testing.assert_allclose(drawn["views"][1][0], np.median(final, axis=1), rtol=1e-4)


def test_two_swept_numbers_have_a_chart_each():
    """Panels are the values of the other one; what an algorithm does not have, it keeps at all values."""
    cells = [
        cell(curves(i, scale=1 + scale), algorithm=name, algorithm_settings=own, environment_settings={"dim": dim})
        for dim in (2, 4)
        for i, (name, own, scale) in enumerate(
            [("SAVE", {"delta": 0.1}, 1), ("SAVE", {"delta": 0.2}, 2), ("OFUL", {}, 3)]
        )
    ]
    found = charts(Reader(page(study(cells))))
    dims, deltas = found["question-0"], found["question-1"]
    name = settings_text({"delta": 0.1})
    assert [n for _, n in dims["names"]] == [f"SAVE, {name}", f"SAVE, {settings_text({'delta': 0.2})}", "OFUL"]
    assert [n for _, n in deltas["names"]] == ["SAVE", "OFUL"]
    assert [s["label"] for s in deltas["settings"]] == [settings_text({"dim": 2}), settings_text({"dim": 4})]
    for i, setting in enumerate(deltas["settings"]):
        swept, kept = (c["views"][0][0] for c in setting["cells"])
        means = [c.regret[:, -1].mean() for c in cells[3 * i : 3 * i + 3]]
        np.testing.assert_allclose([*swept, *kept], [means[0], means[1], means[2], means[2]], rtol=1e-4)


def test_pictures_of_rows_say_the_numbers_of_the_seeds(result, read):
    """Differences and quantiles for every algorithm and setting; final regret where nothing was swept."""
    shown = Counter(read.words)
    for found in result.cells:
        final = found.regret[:, -1]
        low, median, high = np.quantile(final, [0.05, 0.5, 0.95])
        assert shown[ends(median, low, high)] >= 1
    for text in read.column("final-table", 6):
        assert text == "–" or shown[text] >= 2  # in the table and in the picture
    still = Reader(page(study([cell(curves(1), algorithm="OFUL"), cell(curves(2), algorithm="SAVE")])))
    assert set(charts(still)) == {"regret"} and still.ids[0] == "question"
    assert all(Counter(still.words)[text] >= 2 for text in still.column("final-table", 4))


def test_standings_are_in_the_table(read):
    """The best of each setting, and the rule in words."""
    assert read.column("final-table", 2) == ["best", "", ""] * 3
    assert "Bonferroni" in " ".join(read.words)


def test_axes_have_round_numbers_in_range():
    """Also on a logarithmic axis within a decade, and on one with both signs."""
    assert Axis(2, 8, 0, 100, "log").ticks(4) == [2, 5]
    assert Axis(1, 1e6, 0, 100, "log").ticks(3) == [1, 100, 1e4, 1e6]
    signed = Axis(-20, 5000, 0, 100, "signed", unit=2.0)
    ticks = signed.ticks(6)
    assert ticks == [-10, 0, 10, 100, 1000]
    places = [signed(v) for v in (-20, *ticks, 5000)]
    assert places == sorted(places) and (places[0], places[-1]) == (0, 100)


def test_page_fetches_nothing_and_allows_only_its_own_script_and_style(result):
    """The policy holds their hashes; no address of any server is in the page but the name of SVG itself."""
    text = page(result)
    read = Reader(text)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    policy = html.unescape(policy)
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for source in (read.styles[0], read.scripts[1]):
        assert base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() in policy
    assert set(re.findall(r"https?://[^\s\"'<]*", text)) == {"http://www.w3.org/2000/svg"}
    assert " style=" not in text and not re.search(r"\son\w+=", text.partition("</style>")[2].partition("<script")[0])
    assert len(read.ids) == len(set(read.ids))


def test_large_page_is_small_enough():
    """Ten algorithms at ten settings with a hundred records: below 2 MB."""
    rng = np.random.default_rng(0)
    rounds = np.arange(1, 101) * 1000
    cells = [
        cell(
            np.cumsum(rng.gamma(2.0, 30.0 + i, size=(4, 100)), axis=1),
            rounds=rounds,
            num_rounds=100_000,
            algorithm=f"algorithm with a long name, number {i}",
            environment_settings={"noise.std": float(level)},
        )
        for level in np.geomspace(0.01, 1, 10)
        for i in range(10)
    ]
    assert len(page(study(cells, reference=cells[0].algorithm)).encode()) < 2_000_000


def test_failed_seeds_are_named_and_left_out():
    """With round and cause; a cell without two good seeds has no numbers, and a missing difference has its reason."""
    broken = np.zeros(40, np.int32)
    broken[[3, 7]] = status.NONFINITE
    rounds = np.where(broken > 0, 120, 0)
    regret = curves()
    regret[[3, 7]] = np.nan
    one = cell(regret, status=broken, status_round=rounds)
    lost = cell(curves(), algorithm="OFUL", status=np.full(40, status.PRECISION), status_round=np.full(40, 5))
    text = page(study([one, lost, cell(curves(1), algorithm="greedy")], reference="OFUL"))
    read = Reader(text)
    causes = [row[2:] for row in read.tables["failures-table"][1:]]
    assert causes[0] == [status.describe(status.NONFINITE), "2 of 40", "3 (120), 7 (120)"]
    assert causes[1][:2] == [status.describe(status.PRECISION), "40 of 40"] and causes[1][2].endswith("and 28 more")
    final = read.tables["final-table"][1:]
    assert [row[3] for row in final] == ["38 of 40", "40"]
    good = regret[broken == 0, -1]
    assert final[0][4] == around(good.mean(), stats.t.ppf(0.975, 37) * stats.sem(good))
    words = " ".join(read.words)
    assert "42 of 120 runs failed" in words and "No difference: " in words and "got 0 of 40" in words
    assert "NaN" not in text.replace(status.describe(status.NONFINITE), "")


def test_little_results_make_a_page_too():
    """No cells, no regret, one seed, few seeds, one record, zero regret, episodes."""
    empty = page(study([]))
    none = Reader(empty)
    assert set(re.findall(r'href="#([^"]+)"', empty)) <= set(none.ids)
    assert "The study has no cells yet." in none.words and set(none.tables) == set()
    bare = dataclasses.replace(cell(curves()), records={"variance": curves()})
    assert "No cell has two seeds with a recorded regret." in Reader(page(study([bare]))).words
    assert "final-table" not in Reader(page(study([cell(curves(seeds=1))]))).tables
    few = Reader(page(study([cell(curves(seeds=3))], unit="episode")))
    assert few.column("final-table", 4)[0].endswith("[none]") and "1 algorithm in 1 setting of " in few.words
    zero = Reader(page(study([cell(np.zeros((4, 1))), cell(np.ones((4, 1)), algorithm="OFUL")])))
    assert [number(v)[0] for v in zero.column("final-table", 4)] == [0, 1]
    assert zero.column("rounds-table", 2) == ["–", "–"]


def test_wrong_numbers_are_refused():
    """A NaN in a seed that claims to have gone well is no result."""
    regret = curves()
    regret[5, 2] = np.nan
    with pytest.raises(ValueError, match=r"SAVE in sphere: 'regret' must be finite, got nan in seed 5 at round 10"):
        page(study([cell(regret)]))


@pytest.mark.parametrize("attack", [*FORBIDDEN, '" onload="x', "' x", "&amp;", "\x00", "\ud800"])
def test_markup_holds_any_text(attack):
    """What goes in comes out, and nothing of it is markup."""
    shown = attack.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    source = '{% from "macros.html" import label, name %}<p title="{{ x }}">{{ x }}{{ label(x) }}</p>{{ name(x) }}'
    read = Reader(f"<table><tr>{clean(templates().from_string(source).render(x=attack))}</tr></table>")
    assert "".join(read.words) == 3 * shown and read.open == []
    embedded = templates().from_string("{{ x|tojson }}").render(x={"name": attack})
    assert json.loads(embedded) == {"name": attack} and not any(f in embedded for f in (*FORBIDDEN, "<", ">", "&"))


def test_templates_refuse_numbers_and_names_that_are_missing():
    """JSON has no NaN, and a page must not hold one; a misspelt name must not become an empty place in a page."""
    with pytest.raises(ValueError, match="JSON"):
        templates().from_string("{{ x|tojson }}").render(x=[float("nan")])
    with pytest.raises(jinja2.UndefinedError, match="mispelt"):
        templates().from_string("{{ mispelt }}").render()


def test_outline_is_json_in_short_lines():
    """It reads back as what it was, NumPy's numbers included, and breaks only what is long."""
    value = {"short": [1, {"a": "b"}], "long": [f"number {i}" for i in range(40)], "deep": {"x": [[0.5] * 40]}}
    text = outline(value)
    assert json.loads(text) == value and '\n  "short": [1, {"a": "b"}],\n' in text
    assert max(map(len, text.splitlines())) <= 100
    assert json.loads(outline({"n": np.float64(0.5), "a": np.arange(3), 3: (), "none": None})) == {
        "n": 0.5,
        "a": [0, 1, 2],
        "3": [],
        "none": None,
    }


def test_digits_follow_the_uncertainty():
    """Two digits of the half width; small and large numbers alike."""
    assert around(1234.567, 12.3) == "1,235 ± 12"
    assert around(1234.567, 123.4) == "1,235 ± 123"
    assert around(-0.012345, 0.00123) == "−0.0123 ± 0.0012"
    assert around(5.0, 0.0) == "5.00 ± 0.00"  # three digits of the value where nothing is uncertain
    assert plain(-0.001, 1) == "0.0" and plain(999_999.5) == "1,000,000"
    assert between(-0.5, 1234.56, 1) == "[−0.5, 1,234.6]"
    assert [short(v) for v in (12.0, 1234.0, 2.5e6, 3e9)] == ["12", "1.23 k", "2.5 M", "3 G"]
    assert [duration(v) for v in (0.0123, 59.94, 61.0, 7300.0)] == ["0.0123 s", "59.9 s", "1 min 1 s", "2 h 1 min"]


def test_style_sheet_has_a_look_for_every_curve_of_the_figures(read):
    """As many colours and dashes as figures have, so that a curve looks the same in both."""
    for kind, looks in (("curve", COLOURS), ("dash", DASHES)):
        found = {int(i) for i in re.findall(rf"\.{kind}-(\d+) ", read.styles[0])}
        assert found | {0} == set(range(len(looks)))
    colours = dict(re.findall(r"--curve-(\d): (?:var\(--light, )?(#\w{6})", read.styles[0]))
    assert [colours[str(i)] for i in range(len(COLOURS))] == [c.lower() for c in COLOURS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study that was really run."""
    out = tmp_path_factory.mktemp("study")
    arms = Entry("linear_bandit", options={"dim": 2, "num_arms": 3, "noise": {"name": "two_point", "std": 0.1}})
    small = Study(name="really run", seeds=4, rounds=20, algorithms=(Entry("uniform"),), environments=(arms,))
    run_study(small, out, progress=False)
    return out


def test_command_makes_the_page_of_a_folder(folder, tmp_path, capsys):
    """Beside the results or where it is asked for; the study in it is the study that was run."""
    command = [sys.executable, "-m", "jaxvar.cli", "report", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert show.report(folder, tmp_path / "x.html") == 0
    for printed, path in ((done.stdout, folder / "report.html"), (capsys.readouterr().out, tmp_path / "x.html")):
        assert printed == f"{path}\n"
        read = Reader(path.read_text("utf-8"))
        assert read.column("final-table", 2) == ["4"] and "really run" in read.words
        definition = Study.from_config(json.loads(read.definition))
        assert definition.to_config() == json.loads((folder / "run.json").read_text())["study"]
        assert "jaxvar run run.json --out again" in read.words and path.stat().st_size < 250_000


def test_page_offers_no_command_for_objects_of_a_program(result):
    """Their description cannot build them again."""
    stored = {"study": {"name": "x", "algorithm": [{"name": "mine:Mine", "object": {}}]}}
    words = Reader(page(dataclasses.replace(result, config=stored))).words
    assert "jaxvar run run.json --out again" not in words and any("objects in Python" in w for w in words)


def test_command_says_what_is_wrong(folder, tmp_path, capsys):
    """In one sentence, with exit code 1, and with nothing left behind."""
    assert show.report(tmp_path) == 1
    assert f"{tmp_path} holds no study" in capsys.readouterr().err
    assert show.report(folder, tmp_path / "no" / "x.html") == 1
    assert "No such file or directory" in capsys.readouterr().err
    assert show.report(folder, tmp_path) == 1
    assert "a folder is there" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert list(tmp_path.parent.glob(f".{tmp_path.name}*")) == []


def test_page_is_written_whole(result, tmp_path):
    """In UTF-8, with nothing left beside it."""
    path = write_page(result, tmp_path / "report.html")
    assert path.read_text("utf-8") == page(result)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
