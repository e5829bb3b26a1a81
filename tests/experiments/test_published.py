"""Published settings, small: their names, numbers, tables and files."""

from pathlib import Path

import numpy as np
import pytest

import jaxvar as jv
from experiments.experiment import FOLDER, Conclusions, Options
from experiments.found import read_found
from experiments.published import __main__ as dispatch
from experiments.published._conclude import conclude
from experiments.published._setting import Played, Problem, Setting
from jaxvar.analysis import mean_interval


@pytest.mark.parametrize("name", dispatch.NAMES)
def test_a_module_is_a_setting(name: str) -> None:
    """Adding a file adds a setting; the page has a section for it, and its claims rest on enough seeds."""
    setting = dispatch.load(name)
    assert setting.name == name
    assert f"`{name}`" in (Path(dispatch.__file__).parent / "README.md").read_text()
    assert setting.seeds >= 200 or setting.slow
    for problem in setting.build(setting.length):
        assert setting.reference in problem.algorithms


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["nonsense"], "cw_oful"), (["_setting"], "cw_oful")],
)
def test_bad_usage_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names those there are."""
    assert dispatch.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cw_oful", "weighted_oful"])
def test_settings_are_those_published(name: str) -> None:
    """Sizes, theta* and noise as their sources state them; beside theirs, two that are not told the noise level."""
    (problem,) = dispatch.load(name).build(100)
    environment, dim = problem.environment, {"cw_oful": 5, "weighted_oful": 20}[name]
    assert (environment.dim, environment.num_arms, environment.kind) == (dim, 20, "uniform")
    assert environment.fixed_arms == (name == "weighted_oful")
    np.testing.assert_allclose(environment.theta_star, dim**-0.5)
    assert sum("as published" in label for label in problem.algorithms) == 2
    assert sum("(practical)" in label for label in problem.algorithms) == 2


def test_a_setting_ends_in_figure_and_tables(tmp_path: Path) -> None:
    """All files whole, all cells filled."""
    environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.1), fresh=True)
    problem = Problem("Small", environment, {"Greedy": jv.greedy(2), "OFUL": jv.oful(2)})
    setting = Setting("small", "round", 80, 256, lambda _: (problem,), reference="OFUL", source="", about="")
    found = dispatch.run(setting, Options(seeds=8, longer=0.5, out=str(tmp_path), progress=False))
    endings = ("caption.tex", "caption.txt", "csv", "npz", "pdf", "png")
    names = [*(f"small.{ending}" for ending in endings), "small_differences.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names  # no temporary file is left
    with np.load(tmp_path / "small.npz", allow_pickle=False) as saved:
        assert saved["times"][-1] == 40
        assert np.all(np.diff(saved["Small: OFUL"], axis=-1) >= 0)  # gaps are never negative
        final = mean_interval(saved["Small: OFUL"][:, -1])
    table = found.tables["small"]
    assert [column.title for column in table.columns] == ["algorithm", "round 4", "round 20", "round 40"]
    assert table.rows[1][0] == "OFUL" and table.rows[1][-1] == final and final.seeds == 8


def test_one_setting_is_published_beside_the_stored_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of the other settings stay as they are stored."""
    stored = read_found(FOLDER / "published" / "found.json").tables
    played = Conclusions({"cw_oful": stored["losan"]}, {})
    published: list[Conclusions] = []
    monkeypatch.setattr(dispatch, "run", lambda setting, options: played)
    monkeypatch.setattr(dispatch, "publish", lambda name, conclusions: published.append(conclusions) or [])
    monkeypatch.setattr("jaxvar.tune_cpu", lambda: None)  # JAX has started
    assert dispatch.main(["cw_oful", "--publish", "--out", str(tmp_path)]) == 0
    assert published[0].tables == {**stored, "cw_oful": stored["losan"]}


def test_conclusions_by_hand() -> None:
    """Differences are paired by seed; plans are counted."""
    times, ramp = np.array([1, 5, 10]), np.array([0.1, 0.5, 1.0])
    regret = {"A": np.outer([1.0, 2.0, 3.0, 6.0], ramp), "B": np.outer([2.0, 2.0, 5.0, 9.0], ramp)}
    plans = {"A": (np.array([1.0, 1.0, 1.0, 0.6]), np.array([True, True, False, True]))}
    setting = Setting("hand", "episode", 10, 4, lambda _: (), reference="A", source="", about="")
    tables = conclude(setting, [Played("By hand", times, regret, {"B": [7]}, plans)]).tables
    assert tables["hand"].caption.endswith("B in 7.")
    assert [cell.estimate for cell in tables["hand"].rows[0][1:]] == pytest.approx([0.3, 1.5, 3.0])
    (_, *none, median, largest), (label, difference, ratio, fewer, *_) = tables["hand_differences"].rows
    assert none == [None] * 3 and (median, largest) == (2.5, 6.0)
    assert label == "B" and difference.estimate == 1.5 and fewer.estimate == 0.0
    assert difference.half == pytest.approx(mean_interval(np.array([1.0, 0.0, 2.0, 3.0])).half)
    assert ratio.estimate == 1.5 and ratio.low < 1.5 < ratio.high
    ((_, optimistic, held),) = tables["hand_plans"].rows
    assert optimistic == pytest.approx(0.9) and held.estimate == 0.75


def test_the_published_radius() -> None:
    """By hand in round 2: d = 20, lam = B = 1, R = 0.5, delta = 0.1, and C in front of everything."""
    from experiments.published.weighted_oful import published

    algorithm = published(0.002, weighted=True)
    state = algorithm.init()._replace(round=np.int32(1))
    log, growth = np.log(4 * 2**2 / 0.1), np.sqrt(np.log(1 + 2 / 1.5**2))
    expected = 0.002 * (8 * np.sqrt(20 * growth * log) + 4 * np.sqrt(20) * log + 1)
    np.testing.assert_allclose(algorithm.radius_of(state), expected, rtol=1e-12)
    np.testing.assert_allclose(algorithm.weight(np.float64(0.3), np.float64(0.0004)), 50, rtol=1e-12)
    assert published(0.0008, weighted=False).weight(np.float64(0.3), np.float64(0.0004)) == 1
