"""UCRL-WVTR where its authors ran it (Huang et al. 2024): RiverSwim with one unknown current.

Their code has the identity for a ridge, on features that are not normalised; on ours, which are divided by sqrt(3), the
same regression has the ridge 1/3. Radius, gamma and the smallest standard deviation are theirs.
"""

from __future__ import annotations

import jaxvar as jv
from experiments.published import _setting

WVTR, TWO, ONE = "UCRL-WVTR (M = 4)", "without high moments (M = 2)", "UCRL-VTR (M = 1, γ = 0)"
UNIFORM = "Uniform play"


def problems(num_episodes: int) -> tuple[_setting.Problem, ...]:
    """Return RiverSwim with S = 10 and H = 100, and its players with radius 1."""
    river = jv.riverswim()

    def wvtr(num_moments: int, gamma: float) -> object:
        return jv.ucrl_wvtr(
            river.dim, river.horizon, fixed_radius=1.0, lam=1 / 3, num_moments=num_moments, sigma_min=0.01, gamma=gamma
        )

    players = {UNIFORM: jv.uniform(), ONE: wvtr(1, 0.0), TWO: wvtr(2, 0.5), WVTR: wvtr(4, 0.5)}
    return (_setting.Problem("RiverSwim, mixture: S = 10, H = 100, d = 3", river, players),)


SETTING = _setting.Setting(
    "ucrl_wvtr",
    "episode",
    length=1_000,
    seeds=208,
    build=problems,
    reference=WVTR,
    source="Huang, Zhong, Wang, Yang (2024), repository",
    about="RiverSwim with one unknown current: S = 10, H = 100, d = 3; radius 1, γ = 0.5, smallest deviation 0.01",
)
