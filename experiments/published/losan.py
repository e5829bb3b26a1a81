"""Little noise and a learner who is told of much (Jun, Kim 2024, public repository).

Claim: where noise of 0.01 is announced as noise of at most 1, LOSAN's regret over 100 rounds is a quarter below OFUL's,
LOFAV's a twentieth.
"""

from __future__ import annotations

from typing import Any

import jaxvar as jv
from experiments.published import _setting

DIM, NUM_ARMS, NOISE_STD, NOISE_BOUND, DELTA = 32, 128, 0.01, 1.0, 0.2


def noises() -> dict[str, Any]:
    """Return noise by label; 100 standard deviations away, the Gaussian's clipping at R changes nothing."""
    return {
        "Gaussian": jv.noise.clipped_gaussian(NOISE_STD, bound=NOISE_BOUND),
        "Rademacher": jv.noise.two_point(NOISE_STD),
    }


def algorithms(num_rounds: int) -> dict[str, Any]:
    """Return the repository's two, and what they are to be compared with."""
    told: dict[str, Any] = {"noise_bound": NOISE_BOUND, "delta": DELTA}
    return {
        "LOSAN (theorem)": jv.losan(DIM, **told),
        "LOFAV (theorem)": jv.lofav(DIM, num_rounds, **told),
        "OFUL (theorem)": jv.oful(DIM, **told),
        "LinTS (bayes, R = 1)": jv.lin_ts(DIM, scale="bayes", noise_bound=NOISE_BOUND),
        "Greedy": jv.greedy(DIM),
        "Uniform": jv.uniform(),
        **_setting.ours(DIM, num_rounds, **told),
    }


def problems(num_rounds: int) -> tuple[_setting.Problem, ...]:
    """Return theta* and 128 fixed arms uniform on the sphere in 32 dimensions, with both noises."""
    return tuple(
        _setting.Problem(kind, jv.linear_bandit(DIM, NUM_ARMS, noise=noise), algorithms(num_rounds))
        for kind, noise in noises().items()
    )


SETTING = _setting.Setting(
    "losan",
    "round",
    length=100,
    seeds=1000,
    build=problems,
    reference="OFUL (theorem)",
    scale="linear",
    source="Jun, Kim (2024), repository",
    about="θ* and 128 fixed arms uniform on the unit sphere in 32 dimensions, noise of deviation 0.01 (Gaussian, or "
    "±0.01), told R = 1 and δ = 0.2",
)
