"""What a published setting is, and how it is played."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

import jaxvar as jv

ROOT_KEY = 0
RECORDS = {"round": (40, 10), "episode": (60, 100)}  # numbers of records, in equal ratios and in equal steps
MOST_FAILED = {"round": 0.01, "episode": 0.0}  # of the seeds: weights without a floor can break the arithmetic


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
    """Play every problem with all of its algorithms."""
    return tuple(_play(problem, setting.unit, seeds, length, progress) for problem in setting.build(length))


def _play(problem: Problem, unit: str, seeds: int, length: int, progress: bool) -> Played:
    in_log, evenly = RECORDS[unit]
    times = np.unique(np.concatenate([jv.log_spaced(length, in_log), jv.linear_spaced(length, evenly)]))
    played = Played(problem.title, times, {}, {}, {})
    went_well = np.ones(seeds, bool)
    for label, algorithm in problem.algorithms.items():
        if progress:
            print(f"{problem.title}: {label}", flush=True)
        plans = unit == "episode" and hasattr(algorithm, "confidence")
        out = jv.simulate(
            algorithm,
            problem.environment,
            key=jax.random.key(ROOT_KEY),
            num_seeds=seeds,
            record_at=times.tolist(),
            recorders=(jv.record.regret(), *((jv.record.optimism(), jv.record.confidence()) if plans else ())),
            chunk=_chunk(seeds),
            progress=progress,
            **{f"num_{unit}s": length},
        )
        failed = np.flatnonzero(out.status)
        if len(failed) > MOST_FAILED[unit] * seeds:
            out.raise_if_failed()
        if len(failed):
            played.left_out[label] = [int(out.seeds[i]) for i in failed]
            went_well[failed] = False
        played.regret[label] = out.regret
        if plans:
            played.plans[label] = (out.optimistic[:, -1] / length, out.confidence.all(axis=-1)[:, -1])
    return played._replace(regret={label: values[went_well] for label, values in played.regret.items()})


def _chunk(seeds: int) -> int | None:
    """Share few seeds out evenly among the devices: filled up to whole blocks, some would play for nothing."""
    devices = jax.local_device_count()
    return -(-seeds // devices) * devices if seeds <= 8 * devices else None


def ours(dim: int, num_rounds: int, **told: Any) -> dict[str, Any]:
    """Return the algorithms that are not told the noise level, with practical constants, to be shown beside theirs."""
    constants = jv.constants.practical()
    return {
        "AVE-UCB (practical)": jv.ave_ucb(dim, num_rounds, constants=constants, **told),
        "SAVE (practical)": jv.save(dim, num_rounds, constants=constants, explore="optimistic", **told),
    }
