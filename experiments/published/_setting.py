"""What a published setting is, and how it is played."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

import jaxvar as jv
from experiments.episodes import study

ROOT_KEY = study.ROOT_KEY
MOST_FAILED = 0.01  # of the seeds: weights without a floor, as published, can break the arithmetic


class Problem(NamedTuple):
    """An environment and who plays it."""

    title: str
    environment: Any
    algorithms: dict[str, Any]  # label (with the constants' name) -> algorithm


@dataclasses.dataclass(frozen=True)
class Setting:
    """A source's problems, their size, and whom the others are compared with."""

    name: str  # of its module, its tables and its figure
    unit: Literal["round", "episode"]
    length: int  # rounds or episodes
    seeds: int
    build: Callable[[int], tuple[Problem, ...]]  # of the length; called when the float type is known
    reference: str  # label of an algorithm
    source: str
    about: str  # the problem, as the source states it
    scale: Literal["log", "linear"] = "log"  # of the figure's axes
    slow: bool = False  # not among those that are published together


class Played(NamedTuple):
    """A problem, played by all."""

    title: str
    times: np.ndarray  # [records]   rounds or episodes
    regret: dict[str, np.ndarray]  # label -> [seeds, records]
    left_out: dict[str, list[int]]  # label -> seeds in which it failed, which are nobody's in regret
    plans: dict[
        str, tuple[np.ndarray, np.ndarray]
    ]  # label -> [seeds] share of optimistic plans, whether the event held


def play(setting: Setting, seeds: int, length: int, progress: bool = True) -> tuple[Played, ...]:
    """Everyone in every problem."""
    run = _episodes if setting.unit == "episode" else _rounds
    return tuple(run(problem, seeds, length, progress) for problem in setting.build(length))


def _rounds(problem: Problem, seeds: int, length: int, progress: bool) -> Played:
    times = np.unique(np.concatenate([jv.log_spaced(length, 40), jv.linear_spaced(length, 10)]))
    regret, left_out, went_well = {}, dict[str, list[int]](), np.ones(seeds, bool)
    for label, algorithm in problem.algorithms.items():
        if progress:
            print(f"{problem.title}: {label}", flush=True)
        out = jv.simulate(
            algorithm,
            problem.environment,
            key=jax.random.key(ROOT_KEY),
            num_rounds=length,
            num_seeds=seeds,
            record_at=times.tolist(),
            progress=progress,
        )
        failed = np.flatnonzero(out.status)
        if len(failed) > MOST_FAILED * seeds:
            out.raise_if_failed()
        if len(failed):
            left_out[label] = [int(out.seeds[i]) for i in failed]
            went_well[failed] = False
        regret[label] = out.regret
    return Played(problem.title, times, {label: values[went_well] for label, values in regret.items()}, left_out, {})


def _episodes(problem: Problem, seeds: int, length: int, progress: bool) -> Played:
    title, environment, algorithms = problem
    results = study.run(study.Problem(title, environment, seeds, length, algorithms), progress)
    regret = {label: one.regret for label, one in results.played.items()}
    plans = {
        label: (one.optimistic, one.held[:, -1])
        for label, one in results.played.items()
        if one.optimistic is not None and one.held is not None
    }
    return Played(title, results.episodes, regret, {}, plans)


def ours(dim: int, num_rounds: int, **told: Any) -> dict[str, Any]:
    """The algorithms that are not told the noise level, with practical constants, as rows beside the sources'."""
    constants = jv.constants.practical()
    return {
        "AVE-UCB (practical)": jv.ave_ucb(dim, num_rounds, constants=constants, **told),
        "SAVE (practical)": jv.save(dim, num_rounds, constants=constants, explore="optimistic", **told),
    }
