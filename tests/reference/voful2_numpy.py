"""VOFUL2 (Kim, Yang, Jun 2022) on a net: VOFUL's set with the scales 1, 1/2, ..., 2^(-L-1) and another iota."""

import math

import numpy as np

from .voful_numpy import NetRun, run_voful


def finest(steps: float, dim: int) -> int:
    """L = max(1, floor(log2(1 + K / d)))."""
    return max(1, math.floor(math.log2(1.0 + steps / dim)))


def voful2_iota(dim: int, steps: float, delta: float) -> float:
    """128 log((12 K 2^L)^(d + 2) / delta), in the form that does not overflow."""
    return 128.0 * ((dim + 2) * math.log(12.0 * steps * 2.0 ** finest(steps, dim)) - math.log(delta))


def run_voful2(*given: np.ndarray, horizon: float, delta: float, num_scales: int | None = None, **options) -> NetRun:
    """Play VOFUL2 on given arrays; arguments as in `run_voful`."""
    dim = given[0].shape[2]
    if num_scales is None:
        num_scales = finest(horizon, dim) + 2
    iota = voful2_iota(dim, horizon, delta)
    return run_voful(*given, horizon=horizon, delta=delta, num_scales=num_scales, iota=iota, **options)
