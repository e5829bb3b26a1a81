"""Published settings, small: their names, numbers and files."""

import importlib
from pathlib import Path

import numpy as np
import pytest

import jaxvar as jv
from experiments.published import setting
from experiments.published.__main__ import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_a_setting(name: str) -> None:
    """Adding a file adds a setting; the README has a section for it."""
    found = importlib.import_module(f"experiments.published.{name}").SETTING
    assert isinstance(found, setting.Setting)
    assert found.algorithms(found.num)
    assert f"`{name}`" in (Path(setting.__file__).parent / "README.md").read_text()


def test_a_setting_ends_in_figure_and_table(tmp_path: Path) -> None:
    """All files whole, all cells filled."""
    environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.1), fresh=True)
    small = setting.Setting("nobody", environment, lambda num: {"Greedy": jv.greedy(2), "OFUL": jv.oful(2)}, 40, 8)
    times, regret = setting.run(small, small.num, small.seeds, progress=False)
    assert times[-1] == 40 and all(v.shape == (8, len(times)) for v in regret.values())
    assert all(np.all(np.diff(v, axis=-1) >= 0) for v in regret.values())  # gaps are never negative
    paths = setting.present(tmp_path, "small", times, regret)
    assert (
        sorted(p.name for p in tmp_path.iterdir())
        == sorted(p.name for p in paths)
        == ["small.md", "small.npz", "small.png"]
    )
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
