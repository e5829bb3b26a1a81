"""The setting of Jun and Kim's repository, small: its numbers and its table."""

import numpy as np
import pytest

from experiments.published import losan


@pytest.mark.slow
def test_study_ends_in_a_table() -> None:
    """All cells are filled, regret never falls, and both noises are played by everyone."""
    rounds, regret = losan.run(losan.Options(seeds=2, rounds=4), progress=False)
    assert set(regret) == {"Gaussian", "Rademacher"}
    for labels in regret.values():
        assert all(v.shape == (2, len(rounds)) and np.all(np.diff(v, axis=-1) >= 0) for v in labels.values())
    _, _, *rows = losan.table(rounds, regret).splitlines()
    assert len(rows) == 6 and all(row.count("±") == 4 for row in rows)
