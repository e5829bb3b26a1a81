"""What is run: five algorithms on one grid of noise levels, all on the same seeds, arms and noise."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

import jaxvar as jv

NOISE_LEVELS = (0.0, 0.1, 0.3, 1.0)
NOISE_BOUND = 1.0  # R: what the algorithms are told, whatever the noise is
DIM, NUM_ARMS, DELTA, ROOT_KEY = 5, 20, 0.01, 0


@dataclasses.dataclass(frozen=True)
class Headline:
    """Regret against rounds at four noise levels, ending in a figure and a table."""

    seeds: int = 256
    """Seeds per algorithm and noise level."""
    rounds: int = 20_000
    """Rounds per seed."""
    out: str = "results/headline"
    """Folder for the figure, the table and the numbers."""


def algorithms(num_rounds: int) -> dict[str, Any]:
    """Label (with the constants' name) -> algorithm."""
    shared: dict[str, Any] = {"noise_bound": NOISE_BOUND, "delta": DELTA}
    practical = jv.constants.practical()
    return {
        "SAVE (paper constants)": jv.save(DIM, num_rounds, **shared),
        "SAVE (practical)": jv.save(DIM, num_rounds, constants=practical, explore="optimistic", **shared),
        "AVE-UCB (practical)": jv.ave_ucb(DIM, num_rounds, constants=practical, **shared),
        "OFUL (theorem)": jv.oful(DIM, **shared),
        "Greedy": jv.greedy(DIM),
    }


def run(options: Headline, progress: bool = True) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The recorded rounds, and per algorithm the regret ``[noise levels, seeds, records]``."""
    environment = jv.linear_bandit(DIM, NUM_ARMS, noise=jv.noise.two_point(0.0))
    levels = jv.sweep(environment, std=list(NOISE_LEVELS))
    rounds = jv.log_spaced(options.rounds, 60)
    regret = {}
    for label, algorithm in algorithms(options.rounds).items():
        if progress:
            print(label, flush=True)
        out = jv.simulate(
            algorithm,
            levels,
            key=jax.random.key(ROOT_KEY),
            num_rounds=options.rounds,
            num_seeds=options.seeds,
            records=rounds,
            progress=progress,
        )
        out.raise_if_failed()
        regret[label] = out.regret
    return rounds, regret
