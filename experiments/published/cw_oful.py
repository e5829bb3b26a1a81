"""Fresh arms and Gaussian noise without corruption (He, Zhou, Zhang, Gu 2022, public notebook).

Claim: with fresh random arms exploration costs and gains nothing: the wider the constant radius, the larger the regret.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import jaxvar as jv
from experiments.published import _setting

DIM, NUM_ARMS, NOISE_STD = 5, 20, 0.1


def algorithms(num_rounds: int) -> dict[str, Any]:
    """The notebook's three, and OFUL and CW-OFUL with the radius of their theorems."""
    told: dict[str, Any] = {"noise_bound": NOISE_STD, "delta": 0.01}  # a Gaussian is sub-Gaussian with its deviation
    return {
        "Greedy (radius 0)": jv.greedy(DIM),
        "OFUL (radius 1, as published)": jv.oful(DIM, fixed_radius=1.0),
        "CW-OFUL (radius 1.5, threshold 0.2, as published)": jv.cw_oful(DIM, 0.2, fixed_radius=1.5),
        "CW-OFUL (radius 1, threshold 0.2)": jv.cw_oful(DIM, 0.2, fixed_radius=1.0),
        "OFUL (theorem, R = 0.1)": jv.oful(DIM, **told),
        "CW-OFUL (theorem without corruption, R = 0.1, threshold 0.2)": jv.cw_oful(DIM, 0.2, **told),
    }


def setting(num_rounds: int) -> _setting.Setting:
    """The problem and its players."""
    return _setting.Setting(
        environment=jv.linear_bandit(
            DIM,
            NUM_ARMS,
            arms="uniform",
            fresh=True,
            theta_star=np.full(DIM, DIM**-0.5),
            noise=jv.noise.clipped_gaussian(NOISE_STD, bound=1.0),  # ten deviations: clipped once in 1e23 draws
        ),
        algorithms=algorithms(num_rounds),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when done, 1 when a run failed."""
    return _setting.main("cw_oful", setting, arguments)


if __name__ == "__main__":
    sys.exit(main())
