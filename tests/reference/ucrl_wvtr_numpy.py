"""UCRL-WVTR (Huang, Zhong, Wang, Yang 2024), linear case: the loop of HF-UCRL-VTR+ with a constant radius."""

import numpy as np

from .hf_ucrl_vtr_plus_numpy import MomentRun, run_moments


def run_ucrl_wvtr(
    *given: np.ndarray,
    fixed_radius: float = 1.0,
    lam: float = 1.0,
    num_moments: int = 4,
    sigma_min: float = 0.01,
    gamma: float = 0.5,
    value_bound: float = 1.0,
    ties: str = "lowest",
    tie_tolerance: float = 1e-9,
) -> MomentRun:
    """Play UCRL-WVTR on given arrays, those of `ucrl_vtr_numpy.run_ucrl_vtr`."""
    return run_moments(
        *given,
        beta=[fixed_radius] * given[4].shape[0],
        lam=lam,
        num_moments=num_moments,
        alpha=sigma_min,
        gamma=gamma,
        value_bound=value_bound,
        ties=ties,
        tie_tolerance=tie_tolerance,
    )
