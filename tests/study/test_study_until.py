"""Studies that get more seeds until their comparisons are decided: stages, decisions, resuming, and what is refused."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import jaxvar as jv
from jaxvar import files, until
from jaxvar.commands import Run, run_command
from jaxvar.engine import Program
from jaxvar.report import page
from jaxvar.study import store
from tests.helpers.small_study import BANDIT, OFUL, SMALL_TOML, UNIFORM, small_study, stored
from tests.helpers.synthetic_study import cell, study

TWIN = jv.Entry("oful", label="twin", options={"delta": 0.0101})  # of OFUL, which has 0.01: never separated
LEVEL = jv.Entry(BANDIT.name, label="bandit", options=BANDIT.options)


def staged_study(**changes):
    """Uniform play is separated from OFUL by 16 seeds of 60 rounds; the twin never is."""
    given = {"seeds": 16, "algorithms": (OFUL, UNIFORM, TWIN), "environments": (LEVEL,), "reference": "oful"}
    return small_study(**{**given, **changes})


def play(folder, **changes):
    given = {"study": staged_study(), "max_seeds": 40, "progress": False}
    return jv.run_until_separated(out=folder, **{**given, **changes})


def rule_of(folder):
    return json.loads((folder / "run.json").read_text())["stopping"]


def calls(monkeypatch):
    """A list that gets an entry for every call of a program."""
    found, program = [], Program.advance
    monkeypatch.setattr(Program, "advance", lambda self, *args: found.append(args) or program(self, *args))
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The study after all stages: its folder."""
    folder = tmp_path_factory.mktemp("until") / "out"
    play(folder)
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    """A copy of that folder, to be harmed."""
    return shutil.copytree(whole, tmp_path / "copy")


def test_stages_decide_and_stop_at_the_limit(whole, tmp_path):
    rule, result = rule_of(whole), jv.load(whole)
    assert rule["stages"] == [16, 32, 40] and rule["error_rate"] == 0.05 and rule["tolerance"] is None
    uniform, twin = rule["comparisons"]
    assert (uniform["algorithm"], uniform["environment"], uniform["verdict"]) == ("uniform", "bandit", "more")
    assert uniform["seeds"] == 16 and (twin["verdict"], twin["seeds"]) == ("open", None)
    assert {len(c.seeds) for c in result.cells} == {40} and result.config["stopping"] == rule
    assert rule["sentence"] == (
        "Seeds were added in 3 stages (16, 32, 40; limit 40) to separate the differences from oful in mean regret "
        "after 60 rounds from zero: 1 of 2 comparisons decided (open: twin in bandit); error rate at most 5 % for all "
        "of them together, by intervals that allow for moderate skewness."
    )
    jv.run_study(staged_study(seeds=40), tmp_path / "at once", progress=False)
    assert stored(whole) == stored(tmp_path / "at once")
    assert "stopping" not in json.loads((tmp_path / "at once" / "run.json").read_text())


def test_a_second_run_plays_nothing_and_decides_the_same(copy, monkeypatch):
    before, rule, played = stored(copy), rule_of(copy), calls(monkeypatch)
    result = play(copy)
    assert not played and stored(copy) == before
    assert rule_of(copy) == rule == result.config["stopping"]


def test_everything_decided_at_the_first_stage_plays_no_other(whole, tmp_path):
    result = play(tmp_path, compare=["uniform"])
    assert len(result.cells[0].seeds) == 16 and len(rule_of(tmp_path)["comparisons"]) == 1
    assert stored(tmp_path).items() < stored(whole).items()
    assert "in 1 stage (16; limit 40)" in rule_of(tmp_path)["sentence"]
    assert "1 of 1 comparisons decided; error" in rule_of(tmp_path)["sentence"]


def test_a_tolerance_decides_on_algorithms_that_play_alike(tmp_path):
    result = play(tmp_path, tolerance=0.5)
    verdicts = [(c["verdict"], c["seeds"]) for c in result.config["stopping"]["comparisons"]]
    assert verdicts[0] == ("more", 16) and verdicts[1][0] == "equal" and verdicts[1][1] < 40
    assert "or show that they are within 50 % of its mean" in rule_of(tmp_path)["sentence"]


@pytest.mark.parametrize("num", [2, 8, 14])
def test_interrupted_and_resumed(whole, tmp_path, monkeypatch, num):
    # Three cells have two shards at stage 1, two more at stage 2 and one at stage 3: stopped within each of them.
    program, done = Program.advance, []

    def stop(self, *args):
        done.append(args)
        if len(done) == num:
            raise KeyboardInterrupt
        return program(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Program, "advance", stop)
        with pytest.raises(KeyboardInterrupt):
            play(tmp_path)
    assert stored(tmp_path).items() < stored(whole).items()
    if num > 6:  # the rule is kept from the first stage on
        assert [c["verdict"] for c in rule_of(tmp_path)["comparisons"]] == ["more", "open"]
    play(tmp_path)
    assert stored(tmp_path) == stored(whole) and rule_of(tmp_path) == rule_of(whole)


def test_seeds_that_were_there_before_are_judged_stage_by_stage(whole, tmp_path):
    # A plain run with more seeds than the limit comes first: decisions are those of the stages.
    jv.run_study(staged_study(seeds=48), tmp_path, progress=False)
    result = play(tmp_path)
    assert rule_of(tmp_path) == rule_of(whole) and len(result.cells[0].seeds) == 48


def test_a_plain_run_keeps_the_rule(copy):
    rule = rule_of(copy)
    jv.run_study(staged_study(seeds=48), copy, progress=False)
    assert rule_of(copy) == rule
    other = staged_study(seeds=48, key=4, algorithms=(UNIFORM, OFUL))
    jv.run_study(other, copy, force=True, progress=False)  # another study: the decisions are not about it
    assert "stopping" not in json.loads((copy / "run.json").read_text())


def test_another_rule_is_refused_or_said(copy):
    before = (copy / "run.json").read_bytes()
    with pytest.raises(jv.RunError, match=r"another rule.*\n  error_rate was 0\.05 and is 0\.1\n.*--force"):
        play(copy, error_rate=0.1)
    with pytest.raises(jv.RunError, match=r"stages was \[16, 32, 40\] and is \[16, 32, 64\]"):
        play(copy, max_seeds=64)
    assert (copy / "run.json").read_bytes() == before
    for _ in range(2):  # it is said from now on
        play(copy, error_rate=0.1, force=True)
        assert "not guaranteed since another rule was used in this folder before" in rule_of(copy)["sentence"]


def test_a_damaged_rule_is_refused_with_a_sentence(copy):
    found = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_bytes(files.encode_table({**found, "stopping": [1]}))
    with pytest.raises(jv.RunError, match=r"cannot be read: its stopping is \[1\]"):
        store.read_manifest(copy)


def test_the_report_says_that_seeds_were_added(whole):
    result = jv.load(whole)
    text = page(result)
    assert rule_of(whole)["sentence"] in text and "are not corrected for this" in text
    assert "are not corrected for this" not in page(dataclasses.replace(result, config={}))


def test_failed_seeds_are_left_out_of_decisions():
    # All seeds that did well agree; the failed ones would not.
    rng = np.random.default_rng(0)
    regret = rng.exponential(size=(20, 1)) + 10
    status = np.zeros(20, np.int32)
    status[[3, 4]] = 1
    mine = cell(np.where(status[:, None] == 1, np.nan, regret + 1), status=status)
    comparison = until.Comparison("SAVE", "sphere", 0, 1)

    def verdict(first, end):
        result = study([first, cell(regret, algorithm="OFUL")])
        return until._decide(comparison, result, end, end, 0.01, None).verdict

    assert verdict(mine, 20) == "more"
    assert verdict(mine, 1) == "open"  # too few
    assert verdict(cell(regret, status=np.ones(20, np.int32)), 20) == "open"
    late = regret + np.where(np.arange(20) < 10, 0, 5)[:, None]
    assert verdict(cell(late), 10) == "open" and verdict(cell(late), 20) == "more"  # only seeds of the stage count


def test_the_reference_that_was_swept_too_has_the_same_setting():
    swept = [jv.Entry("oful", label=label, options={"lam": lam}, sweep={"delta": [0.01, 0.1]}) for label, lam in
             (("one", 1.0), ("other", 2.0))]  # fmt: skip
    found = until._comparisons(staged_study(algorithms=swept, reference="one"), ())
    assert [(c.algorithm, c.cell, c.reference) for c in found] == [
        ("other, failure probability δ = 0.01", 2, 0),
        ("other, failure probability δ = 0.1", 3, 1),
    ]
    with pytest.raises(
        jv.StudyError, match="'uniform' on 'bandit': a comparison needs one cell of the reference 'one'"
    ):
        until._comparisons(staged_study(algorithms=[*swept, UNIFORM], reference="one"), ())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"study": staged_study(reference=None)}, "must have a reference to compare with; .* reference = 'oful'"),
        ({"study": staged_study(algorithms=(OFUL,))}, "another algorithm than its reference 'oful'"),
        ({"study": staged_study(seeds=15)}, "seeds must be .* got 15"),
        ({"compare": ["unifrm"]}, "there is no algorithm to compare with 'oful' .* 'unifrm'; did you mean 'uniform'"),
        ({"compare": ["oful"]}, "there is no algorithm to compare with 'oful' .* 'oful'"),
        ({"max_seeds": 15}, "max_seeds must be .* got 15"),
        ({"max_seeds": 2**31}, "seeds must be"),
        ({"error_rate": 0.0}, r"error_rate must be a finite number in \(0, 1\), got 0"),
        ({"tolerance": 1.5}, r"tolerance must be a finite number in \(0, 1\), got 1.5"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_played(tmp_path, changes, message):
    with pytest.raises(jv.StudyError, match=message):
        play(tmp_path / "out", **changes)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def toml(tmp_path):
    """OFUL against uniform play at two noise levels, as a file with a reference."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL_TOML.replace("key = 3", 'key = 3\nreference = "uniform"'))
    return path


def test_the_command(toml, tmp_path, capsys):
    options = {"study": str(toml), "out": tmp_path / "out", "until_separated": True, "max_seeds": 40}
    assert run_command(Run(**options)) == 0
    found = capsys.readouterr()
    assert found.out == f"{tmp_path / 'out'}\n"
    oful = "OFUL in two noise levels, noise (standard deviation) = 0.1"
    assert f"stage 1 of 2, 20 seeds: 0 of 2 comparisons decided (open: {oful};" in found.err
    assert f"{oful}: less regret than uniform, decided by 20 seeds\n" in found.err
    assert found.err.endswith(rule_of(tmp_path / "out")["sentence"] + "\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until_separated": True}, "--until-separated needs a limit: give it with --max-seeds"),
        ({"until_separated": True, "max_seeds": 32, "shard": "1/2"}, "--until-separated plays whole stages"),
        ({"max_seeds": 32}, "--max-seeds is an option of --until-separated, which was not given"),
        ({"error_rate": 0.1}, "--error-rate is an option of"),
        ({"compare": ("oful",)}, "--compare is an option of"),
        ({"tolerance": 0.1}, "--tolerance is an option of"),
        ({"until_separated": True, "max_seeds": 8}, "max_seeds must be"),
    ],
)
def test_options_that_do_not_go_together(toml, tmp_path, capsys, options, message):
    assert run_command(Run(study=str(toml), out=tmp_path / "out", **options)) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()
