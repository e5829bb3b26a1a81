"""The headline experiment, small: its numbers, figure, table and files."""

from pathlib import Path

import numpy as np

from experiments.headline.present import present, table
from experiments.headline.study import NOISE_LEVELS, Headline, run
from experiments.presentation import interval


def test_study_ends_in_figure_and_table(tmp_path: Path):
    """What a newcomer gets from the first command: all files whole, all cells filled."""
    rounds, regret = run(Headline(seeds=8, rounds=300), progress=False)
    assert all(v.shape == (len(NOISE_LEVELS), 8, len(rounds)) for v in regret.values())
    assert all(np.all(np.diff(v, axis=-1) >= 0) for v in regret.values())  # gaps are never negative
    paper = regret["SAVE (paper constants)"]
    assert np.array_equal(paper[0], paper[-1])  # nothing of the noise reaches the printed constants at this horizon
    paths = present(tmp_path, rounds, regret)
    assert {p.name for p in paths} == {"regret.png", "regret.pdf", "table.txt", "regret.npz"}
    assert all(p.stat().st_size > 0 for p in paths)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in paths)  # no temporary file is left
    header, *rows = table(rounds, regret).splitlines()[1:]
    assert len(rows) == len(regret) and all(line.count("±") == len(NOISE_LEVELS) for line in (header, *rows))
    with np.load(tmp_path / "regret.npz", allow_pickle=False) as saved:
        assert np.array_equal(saved["Greedy"], regret["Greedy"])


def test_interval_is_students():
    """n = 4, so the half width is 3.182 standard errors: a normal quantile would give 1.96."""
    mean, half = interval(np.array([1.0, 2.0, 3.0, 4.0]))
    assert mean == 2.5
    assert np.isclose(half, 3.182446 * np.std([1, 2, 3, 4], ddof=1) / 2)
