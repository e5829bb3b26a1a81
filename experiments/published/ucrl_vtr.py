"""UCRL-VTR where its authors ran it (Ayoub et al. 2020): DeepTree. RiverSwim is in ``ucrl_vtr_riverswim``.

Their code has lambda = 1, delta = 1 / K, |theta*| <= sqrt(S A), the range H - h in the radius of stage h, counted from
0 (``radius="stage"``), and values clipped at H. Features are not normalised there. On features divided by sqrt(S) and
values divided by u the same regression has the ridge ``1 / (S u^2)`` and the norm bound ``sqrt(S) sqrt(S A)``: that is
what is played here, with u = H on RiverSwim, whose rewards are divided by H, and u = 1 on DeepTree, whose rewards are
as published.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import jaxvar as jv
from experiments.published import _setting

VTR, UNIFORM = "UCRL-VTR (as published)", "Uniform play"


def problems(num_episodes: int) -> tuple[_setting.Problem, ...]:
    """Return DeepTree and its players."""
    tree = jv.deep_tree(features="reduced")
    algorithms = players(tree, num_episodes, unit=1, value_bound=tree.horizon)
    return (_setting.Problem("DeepTree: S = 15, H = 2", tree, algorithms),)


def players(environment: Any, num_episodes: int, *, unit: float, value_bound: float) -> dict[str, Any]:
    """Return uniform play, and UCRL-VTR where ``unit`` of the published rewards are 1 here."""
    num_states, num_actions = environment.num_states, environment.num_actions
    published = jv.ucrl_vtr(
        environment.dim,
        norm_bound=np.sqrt(num_states) * np.sqrt(num_states * num_actions),
        lam=1 / (num_states * unit**2),
        delta=1 / num_episodes,
        value_bound=value_bound,
        radius="stage",
    )
    return {UNIFORM: jv.uniform(), VTR: published}


SETTING = _setting.Setting(
    "ucrl_vtr",
    "episode",
    length=10_000,
    seeds=256,
    build=problems,
    reference=VTR,
    source="Ayoub, Jia, Szepesvari, Wang, Yang (2020), notebook",
    about="DeepTree: S = 15, H = 2; λ = 1, δ = 1/K, |θ*| ≤ √(S A)",
)
