"""The headline experiment, small: its numbers, figure, tables, page and files."""

from pathlib import Path

import numpy as np
import pytest

from experiments.headline.__main__ import Headline, make


@pytest.mark.slow
def test_study_ends_in_figure_tables_and_page(tmp_path: Path):
    """What a newcomer gets from the first command: all files whole, all cells filled."""
    result, paths = make(Headline(seeds=8, rounds=300, out=str(tmp_path), progress=False))
    assert [p.name for p in paths] == ["regret.png", "tables.txt", "report.html"]
    assert all(p.stat().st_size > 0 for p in paths)
    assert len(result.cells) == 6 * 4
    assert all(c.regret.shape == (8, len(c.rounds)) for c in result.cells)
    assert all(np.all(np.diff(c.regret, axis=-1) >= 0) for c in result.cells)  # gaps are never negative
    paper = [c.regret for c in result.cells if c.constants == "paper"]
    assert np.array_equal(paper[0], paper[-1])  # nothing of the noise reaches the printed constants at this horizon
    tables, page = (p.read_text() for p in paths[1:])
    assert all(label in tables and label in page for label in ("SAVE (paper constants)", "Weighted OFUL+ (theorem)"))
