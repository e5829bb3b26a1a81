"""UCRL-VTR where its authors ran it (Ayoub et al. 2020): RiverSwim with tabular features."""

from __future__ import annotations

import jaxvar as jv
from experiments.published import _setting, ucrl_vtr


def problems(num_episodes: int) -> tuple[_setting.Problem, ...]:
    """Return RiverSwim with S = 5, H = 20, d = 50 and rewards divided by H, and its players."""
    river = jv.riverswim(features="tabular")
    algorithms = ucrl_vtr.players(river, num_episodes, unit=river.horizon, value_bound=1.0)
    return (_setting.Problem("RiverSwim, tabular: S = 5, H = 20, d = 50", river, algorithms),)


SETTING = _setting.Setting(
    "ucrl_vtr_riverswim",
    "episode",
    length=50_000,
    seeds=200,
    build=problems,
    reference=ucrl_vtr.VTR,
    source="Ayoub, Jia, Szepesvari, Wang, Yang (2020), notebook",
    about="RiverSwim, tabular features: S = 5, H = 20, d = 50; λ = 1, δ = 1/K, |θ*| ≤ √(S A)",
    slow=True,
)
