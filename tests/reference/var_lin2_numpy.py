"""VarLin2 (Kim, Yang, Jun 2022) on a net: VarLin's set with the scales 1, 1/2, ..., 2^(-L-1) and another iota."""

import numpy as np

from .var_lin_numpy import VarLinRun, run_var_lin
from .voful2_numpy import finest, voful2_iota


def run_var_lin2(
    *given: np.ndarray, num_episodes: float, delta: float, num_scales: int | None = None, **options
) -> VarLinRun:
    """Play VarLin2 on given arrays; arguments as in `run_var_lin`."""
    dim, steps = given[2].shape[0], num_episodes * given[4].shape[1]
    if num_scales is None:
        num_scales = finest(steps, dim) + 2
    iota = voful2_iota(dim, steps, delta)
    return run_var_lin(*given, num_episodes=num_episodes, delta=delta, num_scales=num_scales, iota=iota, **options)
