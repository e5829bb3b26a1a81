"""Published settings, small: their names, numbers and files."""

import importlib
from pathlib import Path

import numpy as np
import pytest

import jaxvar as jv
from experiments.published import __main__ as dispatch
from experiments.published import _setting


@pytest.mark.parametrize("name", dispatch.NAMES)
def test_a_module_is_a_setting(name: str) -> None:
    """Adding a file adds a setting; the README has a section for it."""
    assert callable(importlib.import_module(f"experiments.published.{name}").main)
    assert name in (Path(dispatch.__file__).parent / "README.md").read_text()


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["_setting"]])
def test_unknown_names_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The message names those there are."""
    assert dispatch.main(arguments) == 2
    assert "cw_oful" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cw_oful", "weighted_oful"])
def test_settings_are_those_published(name: str) -> None:
    """Sizes, theta* and noise as their sources state them."""
    found = importlib.import_module(f"experiments.published.{name}").setting(100)
    environment, dim = found.environment, {"cw_oful": 5, "weighted_oful": 20}[name]
    assert (environment.dim, environment.num_arms, environment.kind) == (dim, 20, "uniform")
    assert environment.fixed_arms == (name == "weighted_oful")
    np.testing.assert_allclose(environment.theta_star, dim**-0.5)
    assert sum("as published" in label for label in found.algorithms) == 2


def test_a_setting_ends_in_figure_and_table(tmp_path: Path) -> None:
    """All files whole, all cells filled."""
    environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.1), fresh=True)
    small = _setting.Setting(environment, {"Greedy": jv.greedy(2), "OFUL": jv.oful(2)})
    times, regret = _setting.run(small, _setting.Options(seeds=8, rounds=40), progress=False)
    assert times[-1] == 40 and all(v.shape == (8, len(times)) for v in regret.values())
    assert all(np.all(np.diff(v, axis=-1) >= 0) for v in regret.values())  # gaps are never negative
    paths = _setting.present(tmp_path, "small", times, regret)
    assert sorted(p.name for p in paths) == ["small.md", "small.npz", "small.png"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in paths)  # no temporary file is left
    header, _, *rows = (tmp_path / "small.md").read_text().splitlines()
    assert header == "| regret after | 4 | 20 | 40 |"
    assert [row.count("±") for row in rows] == [3, 3]
    with np.load(tmp_path / "small.npz", allow_pickle=False) as saved:
        assert np.array_equal(saved["OFUL"], regret["OFUL"])


def test_the_published_radius() -> None:
    """By hand in round 2: d = 20, lam = B = 1, R = 0.5, delta = 0.1, and C in front of everything."""
    from experiments.published.weighted_oful import published

    algorithm = published(0.002, weighted=True)
    state = algorithm.init()._replace(round=np.int32(1))
    log, growth = np.log(4 * 2**2 / 0.1), np.sqrt(np.log(1 + 2 / 1.5**2))
    expected = 0.002 * (8 * np.sqrt(20 * growth * log) + 4 * np.sqrt(20) * log + 1)
    np.testing.assert_allclose(algorithm.radius(state), expected, rtol=1e-12)
    np.testing.assert_allclose(algorithm.weight(np.float64(0.3), np.float64(0.0004)), 50, rtol=1e-12)
    assert published(0.0008, weighted=False).weight(np.float64(0.3), np.float64(0.0004)) == 1
