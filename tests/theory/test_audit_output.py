"""What an audit shows and returns: tables, figures, the page, and the exit code of the command."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxvar.cli import main
from jaxvar.theory import martingales
from jaxvar.theory.audit import page, slack_figure
from jaxvar.theory.statement import Outcome, Statement, counterexamples, finding, table


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command tunes the CPU, which a process can do only before JAX has started; and one stream will do."""
    monkeypatch.setattr("jaxvar.cli.tune_cpu", lambda: None)
    monkeypatch.setattr(martingales, "STREAMS", martingales.STREAMS[:1])


NASTY = "<script>alert(1)</script> & $x_1$"


def made_up() -> Outcome:
    def one(case: str, key: str, failure: float, claim: Any, ratios: Any) -> Any:
        ratios = np.asarray(ratios, float)
        when = np.where(ratios > 1, 3, 0)
        peaks = np.stack([ratios, when, np.ones_like(ratios), ratios, np.ones_like(ratios)], axis=1)
        return finding("group", case, Statement(key, f"{key} {NASTY}", "lemma:x", failure, claim, "why"), peaks)

    good, bad = np.full(250, 0.5), np.r_[np.full(100, 2.0), np.full(150, 0.25)]
    return Outcome(
        (
            one(NASTY, "sure", 0.0, "holds", good),
            one(NASTY, "likely", 0.1, "holds", bad),
            one("b", "known", 0.0, "fails", bad),
            one("b", "unknown", 0.1, "open", bad),
            one("b", "silent", 0.1, "holds", np.full(250, -1.0)),
        ),
        "250 seeds.",
    )


def test_only_what_is_claimed_counts_as_broken() -> None:
    outcome = made_up()
    assert [f.statement.key for f in outcome.broken] == ["likely"]
    verdicts = [outcome.verdict(f) for f in outcome.findings]
    assert verdicts == ["holds", "BROKEN", "fails as known", "fails", "nothing to judge"]
    assert outcome.each_alarm == pytest.approx(outcome.alarm / 3)


def test_tables_have_every_number() -> None:
    outcome = made_up()
    rows = list(csv.DictReader(io.StringIO(table(outcome, "group").csv())))
    assert [row["verdict"] for row in rows] == [outcome.verdict(f) for f in outcome.findings]
    assert (rows[1]["broken"], rows[1]["seeds"], float(rows[1]["frequency"])) == ("100", "250", 0.4)
    assert float(rows[1]["frequency low"]) < 0.4 < float(rows[1]["frequency high"])
    assert [float(rows[1][name]) for name in ("median", "99 %", "largest")] == [0.25, 2.0, 2.0]
    assert rows[4]["frequency"] == rows[4]["median"] == ""
    assert [row["may fail"] for row in rows][:2] == ["never", "10 %"]
    found = counterexamples(outcome)
    assert found is not None
    assert [row[3] for row in found.rows] == ["layer 1, round 3 of seed 0: 2 > 1"] * 3
    assert r"\toprule" in table(outcome, "group").latex()


def test_the_figure_has_a_row_for_each_statement_that_was_judged() -> None:
    drawing = slack_figure(made_up(), "group")
    axis = drawing.figure.axes[0]
    assert len(axis.get_yticks()) == 4
    assert axis.get_xscale() == "log"
    assert "250 seeds" in drawing.caption
    silent = Outcome(made_up().findings[-1:], "")
    with pytest.raises(ValueError, match="nothing was judged"):
        slack_figure(silent, "group")


def test_the_page_is_one_file_and_escapes_what_it_is_told() -> None:
    text = page(made_up())
    assert "<script>alert" not in text
    assert "http://" not in text
    assert "https://" not in text
    assert "1 statements that should hold are broken." in text
    assert text.count("<tr") == 1 + 5 + 1 + 3  # two tables with their headings


def run(out: Path | None, rounds: int, *more: str) -> int:
    size = ["--statements", "martingales", "--seeds", "200", "--rounds", str(rounds), "--no-progress"]
    return main(["audit", *size, *([] if out is None else ["--out", str(out)]), *more])


def test_the_command_writes_everything_and_returns_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "new", 60) == 0
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert names == {f"audit-martingales.{e}" for e in ("txt", "csv", "tex", "pdf", "png")} | {"audit.html"}
    out = capsys.readouterr().out
    assert "Theorem 2.1, constants 16 and 6" in out
    assert "5 findings" in out


def test_the_command_returns_1_where_a_claim_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails if a broken claim goes unnoticed: the tight pair divided by 300."""
    monkeypatch.setattr(martingales, "TIGHT", tuple(x / 300 for x in martingales.TIGHT))
    assert run(None, 61) == 1  # another number of rounds: the program of 60 has the right pair
    assert "broken: martingales, independent: Theorem 2.1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--seeds", "199"], "seeds must be an integer of at least 200, got 199"),
        (["--rounds", "9"], "rounds must be an integer of at least 10, got 9"),
        (["--delta", "1.5"], "delta must be a finite number in (0, 1), got 1.5"),
        (["--statements", "lema"], "statements must be one of 'martingales', 'layer', 'save', 'episodes'"),
        (["--seed-key", "-1"], "seed_key must be an integer of at least 0"),
    ],
    ids=lambda x: x[0] if isinstance(x, list) else "",
)
def test_bad_options_are_refused_in_a_sentence(
    more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "--no-progress", *more]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file" / "below", 60) == 1
    assert "Not a directory" in capsys.readouterr().err
