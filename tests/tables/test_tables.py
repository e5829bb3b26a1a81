"""Tables: digits by the uncertainty, hostile labels as text, and the same numbers in every form."""

import csv
import io
import re
import unicodedata

import numpy as np
import pytest

from jaxvar import tables
from jaxvar.analysis import mean_interval, median_interval
from jaxvar.analysis.captions import decimals
from jaxvar.analysis.intervals import Interval
from jaxvar.tables import Column, Table
from tests.helpers.synthetic_study import cell, curves, study, whole_study

HOSTILE = (
    "<script>alert('x')</script>",
    r"50% of $x_1^2$ & \input{/etc/passwd} #{}~",
    'quoted "label", with, commas',
    "\x1b[2J\x07bell",
    "אבג \u202eevil",
    "two\nlines\r\n\r\nand more",
    "=1+1",
    "中文",
)


def of(estimate, half, kind="half"):
    interval = Interval(estimate, estimate - half, estimate + half, 0.95, "t", "mean", 10)
    (row,) = Table("c", (Column("x", kind),), ((interval,),)).text().splitlines()[3:]
    return row


def test_digits_follow_the_uncertainty():
    assert of(1234.5678, 12.345) == "1,235 ± 12"
    assert of(1234.5678, 0.12345) == "1,234.57 ± 0.12"
    assert of(0.000123456, 0.0000123) == "0.000123 ± 0.000012"
    assert of(9.97, 0.0996) == "9.97 ± 0.10"  # rounded up to 0.10, whose two digits are 1 and 0
    assert of(123456.0, 2345.0) == "123,456 ± 2,345"
    assert of(3.14159265, 0.0) == "3.14 ± 0.00"
    assert of(0.5, 1e-17) == "0.500 ± 0.000"  # no uncertainty but that of rounding
    assert of(0.0, 0.0) == "0 ± 0"
    assert of(2.0, 0.25, "ends") == "2.00 [1.75, 2.25]"
    assert [decimals(x) for x in (0.0999, 0.095, 1.0, 99.4, 99.6)] == [2, 3, 1, 0, 0]


def test_an_interval_without_ends_is_shown_as_such():
    few = median_interval(np.arange(4.0))
    table = Table("c", (Column("median", "ends"),), ((few,), (None,)))
    assert table.text().splitlines()[3:] == ["1.50 [-∞, ∞]", ""]
    assert r"$1.50$ $[-\infty, \infty]$" in table.latex() and "--" in table.latex()
    assert table.csv() == "median,median low,median high\n1.5,-inf,inf\n,,\n"


@pytest.mark.parametrize("label", HOSTILE)
def test_hostile_labels_stay_text(label):
    result = study([cell(curves(), algorithm=label, environment=label, constants=label)] * 1)
    for name in tables.available(result):
        table = tables.TABLES[name](result)
        text = table.text()
        assert not any(unicodedata.category(c) in ("Cc", "Cf") and c != "\n" for c in text)
        _, rule, *rows = text.splitlines()[-len(table.rows) - 2 :]
        assert set(rule) == {"-", " "} and len(rows) == len(table.rows)
        back = list(csv.reader(io.StringIO(table.csv())))
        shown = f"'{label}" if label.startswith(("=", "+", "-", "@")) else label  # no formula for a spreadsheet
        assert all(row[:2] == [shown, shown] for row in back[1:]) and len({len(row) for row in back}) == 1
        check_latex(table)


def check_latex(table):
    """Every row has as many cells as columns, and nothing but our own commands is left."""
    latex = table.latex()
    body = latex.split("\\midrule\n")[1].split("\\bottomrule")[0]
    rows = body.split(" \\\\\n")[:-1]
    assert len(rows) == len(table.rows)
    assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(table.columns)}
    layout = "begin|end|caption|centering|toprule|midrule|bottomrule|pm|infty"
    letters = "textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar"
    known = rf"\\(?:{layout}|{letters})\b|\\[&%$#_{{}}\\]"
    rest = re.sub(known, "", latex)
    assert "\\" not in rest and not re.search(r"[%#~<>|]", rest)
    assert latex.count("{") - latex.count("\\{") == latex.count("}") - latex.count("\\}")


def test_wide_letters_are_aligned():
    rows = (("中文", 1), ("ab", 22), ("é" + "e\u0301", 333))
    lines = Table("c", (Column("who"), Column("n", "number")), rows).text().splitlines()[3:]
    assert lines == ["中文    1", "ab     22", "ée\u0301    333"]


def test_final_regret_has_the_numbers_of_the_analysis():
    result = whole_study(("A", "B"), levels=(0.1, 1.0))
    table = tables.final_regret(result)
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert len(rows) == 4
    for row, one in zip(rows, result.cells, strict=True):
        expected = mean_interval(one.regret[:, -1])
        assert float(row["mean"]) == expected.estimate and float(row["mean low"]) == expected.low
        assert float(row["median"]) == np.median(one.regret[:, -1]) and row["seeds"] == "40"
        assert (row["difference"] == "") == (one.algorithm == "B")  # the reference has none to itself
    assert float(rows[0]["difference"]) == pytest.approx(
        (result.cells[0].regret - result.cells[1].regret)[:, -1].mean()
    )
    for part in ("1,000 rounds", "40 seeds", "95 % t interval", "order statistics", "to B on the same seeds"):
        assert part in table.caption
    assert table.caption.endswith("Constants: paper for A; practical for B.")
    alone = tables.final_regret(study(result.cells))
    assert len(alone.columns) == len(table.columns) - 2 and "Difference" not in alone.caption


def test_every_table_says_seeds_interval_and_constants():
    result = whole_study(("A", "B"))
    failed = np.zeros(40, np.int32)
    failed[:3] = 1
    first = result.cells[0]
    broken = cell(
        first.regret,
        algorithm="A",
        environment_settings=first.environment_settings,
        records=first.records,
        status=failed,
    )
    result = study([broken, *result.cells[1:]], reference="B")
    assert tables.available(result) == ("regret", "exponents", "coverage", "occupancy", "speed")
    for name in tables.available(result):
        caption = tables.TABLES[name](result).caption
        assert "Constants: practical for A, B; paper for A." in caption
        assert "interval" in caption
        if name != "speed":  # which counts what was played
            assert "37 to 40 seeds (3 failed and left out, in all cells)" in caption
    assert tables.available(study([cell(curves())])) == ("regret", "exponents", "speed")
    with pytest.raises(ValueError, match="confidence was recorded in no cell"):
        tables.coverage(study([cell(curves())]))


def test_exponents_name_what_they_leave_out():
    zero = cell(np.zeros((40, 7)), environment_settings={"dim": 8})
    cells = [cell(curves(scale=d), environment_settings={"dim": d}) for d in (2, 4)]
    table = tables.exponents(study([*cells, zero]))
    assert [row[3] for row in table.rows] == ["dimension d", "round", "round", "round"]
    assert table.rows[0][4].estimate == pytest.approx(1)
    assert table.rows[0][6] == "dimension d = 8: the mean regret is not positive"
    assert table.rows[3][4] is None and table.rows[3][5] == 0
    assert table.columns[-1].title == "not used" and tables.exponents(study(cells)).columns[-1].title == "points"


def test_occupancy_and_coverage_and_speed():
    result = whole_study(("A", "B"), levels=(0.1,))
    shares = tables.occupancy(result)
    assert [c.title for c in shares.columns[3:]] == ["nothing learned", "layer 1", "layer 2"]
    assert shares.rows[0][-1] is None and shares.rows[1][-1].estimate == pytest.approx(0.5)
    held = tables.coverage(result)
    assert [(row[3], row[4]) for row in held.rows] == [(40, 40), (39, 40)]
    assert tables.speed(result).rows[0][3:] == (40, 1000, 2.0, 20000.0)


def test_markdown_is_a_table_whatever_labels_hold():
    """Every row has as many bars as the header; nothing of a label is markup."""
    rows = tuple((label, 1.5) for label in HOSTILE)
    lines = Table("A *caption*", (Column("a|b"), Column("x", "number")), rows).markdown().splitlines()
    assert lines[0] == r"A \*caption\*" and lines[2:4] == [r"| a\|b | x |", "|---|---:|"]
    assert len(lines) == 4 + len(HOSTILE)
    for line in lines[4:]:
        assert len(re.findall(r"(?<!\\)\|", line)) == 3 and line.endswith(" | 1.50 |")
        assert not re.search(r"(?<!\\)[<>$`*_]", line)


def test_wrong_rows_and_forms_are_refused():
    with pytest.raises(ValueError, match="rows must have 1 cells, got 2"):
        Table("c", (Column("x"),), (("a", "b"),))
    with pytest.raises(ValueError, match="to must be one of 'text', 'csv', 'latex', 'markdown', got 'html'"):
        Table("c", (), ()).to("html")
