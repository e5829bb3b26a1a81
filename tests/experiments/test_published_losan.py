"""The setting of Jun and Kim's repository, small: it can be played."""

import numpy as np
import pytest

from experiments.published._setting import play
from experiments.published.losan import SETTING


@pytest.mark.slow
def test_both_noises_are_played() -> None:
    """Everyone plays both, and regret never falls."""
    played = play(SETTING, seeds=2, length=4, progress=False)
    assert [one.title for one in played] == ["Gaussian", "Rademacher"]
    for one in played:
        assert len(one.regret) == 8
        assert all(v.shape == (2, len(one.times)) and np.all(np.diff(v, axis=-1) >= 0) for v in one.regret.values())
