"""Fresh arms and Gaussian noise without corruption (He, Zhou, Zhang, Gu 2022, public notebook).

Claim: with fresh random arms exploration costs and gains nothing: the wider the constant radius, the larger the regret.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import jaxvar as jv
from experiments.published import _setting

DIM, NUM_ARMS, NOISE_STD, NOISE_BOUND = 5, 20, 0.1, 1.0


def algorithms(num_rounds: int) -> dict[str, Any]:
    """Return the notebook's three, OFUL and CW-OFUL with the radius of their theorems, and ours."""
    told: dict[str, Any] = {"noise_bound": NOISE_STD, "delta": 0.01}  # a Gaussian is sub-Gaussian with its deviation
    return {
        "Greedy (radius 0)": jv.greedy(DIM),
        "OFUL (radius 1, as published)": jv.oful(DIM, fixed_radius=1.0),
        "CW-OFUL (radius 1.5, threshold 0.2, as published)": jv.cw_oful(DIM, 0.2, fixed_radius=1.5),
        "CW-OFUL (radius 1, threshold 0.2)": jv.cw_oful(DIM, 0.2, fixed_radius=1.0),
        "OFUL (theorem, R = 0.1)": jv.oful(DIM, **told),
        "CW-OFUL (theorem without corruption, R = 0.1, threshold 0.2)": jv.cw_oful(DIM, 0.2, **told),
        **_setting.ours(DIM, num_rounds, noise_bound=NOISE_BOUND, delta=0.01),
    }


def problems(num_rounds: int) -> tuple[_setting.Problem, ...]:
    """Return the one problem and its players."""
    environment = jv.linear_bandit(
        DIM,
        NUM_ARMS,
        arms="uniform",
        fresh=True,
        theta_star=np.full(DIM, DIM**-0.5),
        noise=jv.noise.clipped_gaussian(NOISE_STD, bound=NOISE_BOUND),  # ten deviations: clipped once in 1e23 draws
    )
    return (_setting.Problem("Fresh arms, d = 5", environment, algorithms(num_rounds)),)


SETTING = _setting.Setting(
    "cw_oful",
    "round",
    length=10_000,
    seeds=256,
    build=problems,
    reference="OFUL (radius 1, as published)",
    source="He, Zhou, Zhang, Gu (2022), notebook",
    about="d = 5, 20 fresh arms with coordinates uniform in ±1/√d, θ* = (1, ..., 1)/√d, Gaussian noise of deviation "
    "0.1, no corruption",
)
