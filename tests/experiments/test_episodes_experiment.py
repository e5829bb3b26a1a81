"""The episodes experiment, small: its numbers, figures, tables and files."""

from pathlib import Path

import numpy as np
import pytest

import jaxvar as jv
from experiments.episodes import study
from experiments.episodes.present import behind_table, bends, flatten_table, present, riverswim_table
from experiments.episodes.study import Episodes, Problem, Results
from experiments.presentation import proportion

OPTIONS = Episodes(seeds=8, episodes=20)


def play(problem: Problem, *labels: str) -> Results:
    """With some of the algorithms: most of the time goes into compiling them."""
    return study.run(problem._replace(algorithms={x: problem.algorithms[x] for x in labels}), progress=False)


def check(results: Results, seeds: int) -> None:
    for label, one in results.played.items():
        assert one.regret.shape == (seeds, len(results.episodes))
        assert np.all(np.diff(one.regret, axis=-1) >= 0)  # gaps are never negative
        assert (one.held is None) == (label == study.UNIFORM)


@pytest.mark.slow
def test_study_ends_in_figures_and_tables(tmp_path: Path):
    """All files whole, all cells filled."""
    mixtures = play(study.flatten(OPTIONS), study.VTR, study.VTR_NARROW, study.AVE)
    river = play(study.riverswim(OPTIONS)[0], study.UNIFORM, study.VTR, study.VTR_WIDE)
    check(mixtures, 8)
    check(river, 2)

    rivers = (river, river)
    paths = present(tmp_path, mixtures, rivers)
    figures = {f"{name}.{kind}" for name in ("flatten", "riverswim") for kind in ("png", "pdf")}
    numbers = {"flatten.npz", "riverswim.npz", "riverswim_tabular.npz"}
    assert {p.name for p in paths} == figures | numbers | {"tables.txt"}
    assert all(p.stat().st_size > 0 for p in paths)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in paths)  # no temporary file is left
    with np.load(tmp_path / "flatten.npz", allow_pickle=False) as saved:
        assert np.array_equal(saved[f"{study.AVE} regret"], mixtures.played[study.AVE].regret)
    with np.load(tmp_path / "riverswim.npz", allow_pickle=False) as saved:
        assert f"{study.VTR} held" in saved and f"{study.UNIFORM} held" not in saved

    rows = flatten_table(mixtures).split("\n\n")[0].splitlines()[2:]
    assert len(rows) == len(mixtures.played) and all(row.count("±") == len(study.PERIODS) + 1 for row in rows)
    rows = riverswim_table(river).split("\n\n")[0].splitlines()[2:]
    assert [row.count("±") for row in rows] == [len(river.played)] * 11 + [0, 0]
    assert behind_table(river).count("2/2 [15.8, 100.0] %") == len(river.played) - 1
    assert "nan" not in (tmp_path / "tables.txt").read_text()


@pytest.mark.slow
def test_all_algorithms_play():
    """Printed constants: every value is at its cap but that of the end and of the last stage, a known reward."""
    for problem, seeds in zip((study.flatten(OPTIONS), *study.riverswim(OPTIONS)), (8, 2, 2), strict=True):
        results = study.run(problem, progress=False)
        check(results, seeds)
        paper = results.played.get(study.AVE_PAPER)
        if paper is not None:
            assert (
                np.all(paper.capped == 1 - 2 / study.HORIZON) and np.all(paper.optimistic == 1) and np.all(paper.held)
            )


def test_slopes_are_regret_per_episode():
    """Regret 3 k up to episode 4, then nothing: 3 per episode, then 0; periods may differ in length."""
    episodes = np.array([1, 2, 4, 10])
    regret = np.array([[3.0, 6.0, 12.0, 12.0], [3.0, 6.0, 12.0, 18.0]])
    assert np.array_equal(study.slopes(episodes, regret, np.array([4, 10])), [[3.0, 0.0], [3.0, 1.0]])
    assert set(study.period_ends(1000)) | set(study.tenths(1000)) <= set(study.recorded(1000))
    assert list(study.period_ends(1000)) == [100, 300, 1000]


def test_bends_are_counted():
    """A sure fall, a sure rise, and one the seeds disagree about; then falls only, paired in spite of the spread."""
    assert bends(np.array([[3.0, 1.0, 2.0, 3.0], [3.1, 1.2, 2.1, 1.0], [3.0, 1.1, 2.2, 2.4]])) == (1, 1, 1)
    levels = np.array([0.0, 100.0, 200.0])[:, None]
    assert bends(levels - np.arange(5) + np.array([[0.0], [0.1], [0.2]])) == (4, 0, 0)


def test_proportion_is_clopper_pearsons():
    """With all of n true the lower end is (alpha / 2)^(1 / n); 5 of 10 is the textbook's [0.187, 0.813]."""
    low, high = proportion(256, 256)
    assert np.isclose(low, 0.025 ** (1 / 256)) and high == 1
    assert np.allclose(proportion(5, 10), (0.1870860, 0.8129140), atol=1e-6)


def test_label_says_the_preset():
    """A multiplier of its own, as the label says, and all other numbers of the preset for episodes."""
    mine, preset = jv.constants.practical(0.01), jv.constants.practical(setting="episodes")
    differing = [name for name in jv.constants.number_names() if getattr(mine, name) != getattr(preset, name)]
    assert differing == ["beta_scale"]


@pytest.mark.parametrize("options", [{"seeds": 1}, {"episodes": 9}])
def test_too_small_a_study_is_refused(options: dict[str, int]):
    with pytest.raises(ValueError, match="2 seeds and 10 episodes"):
        Episodes(**options)
