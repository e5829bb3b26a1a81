"""Differences from a reference algorithm, seed by seed: both algorithms met the same problem, arms and noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from jaxvar.analysis.captions import cell_name
from jaxvar.analysis.intervals import RESAMPLES, Interval, bootstrap_interval, mean_interval, proportion_interval
from jaxvar.analysis.summaries import sample
from jaxvar.study.result import CellResult, StudyResult

Standing = Literal["best", "not separable", "worse", "not comparable"]


@dataclasses.dataclass(frozen=True)
class Paired:
    """Differences between a cell and the reference's cell at the last round."""

    cell: CellResult
    reference: CellResult
    record: str
    difference: Interval  # mean difference, Student's t
    bootstrap: Interval  # mean difference, bootstrap BCa
    wins: Interval  # share of seeds with less than the reference
    ties: int  # number of seeds with exactly as much
    seeds: int  # number of seeds that both cells have and that failed in neither
    unmatched: int  # number of seeds that only one cell has
    left_out: int  # number of seeds that both cells have and that failed in one of them


def paired(
    cell: CellResult,
    reference: CellResult,
    record: str = "regret",
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Paired:
    """Compare two cells of the same environment and setting over the seeds that they have in common.

    Raises:
      ValueError: the environments or the last rounds differ, or fewer than 2 common seeds did not fail.
    """
    both = f"{cell_name(cell)}, and {cell_name(reference)}"
    if _problem(cell) != _problem(reference):
        raise ValueError(f"{both}: a paired difference needs the same environment with the same setting")
    if cell.rounds[-1] != reference.rounds[-1]:
        raise ValueError(
            f"{both}: a paired difference needs the same last round, got {cell.rounds[-1]} and {reference.rounds[-1]}"
        )
    mine, theirs = sample(cell, record), sample(reference, record)
    common, i, j = np.intersect1d(mine.seeds, theirs.seeds, assume_unique=True, return_indices=True)
    matched = np.intersect1d(cell.seeds, reference.seeds, assume_unique=True)
    if len(common) < 2:
        raise ValueError(
            f"{both}: a paired difference needs at least 2 common seeds that did not fail, got {len(common)}"
        )
    difference = mine.curves[i, -1] - theirs.curves[j, -1]
    return Paired(
        cell=cell,
        reference=reference,
        record=record,
        difference=mean_interval(difference, level),
        bootstrap=bootstrap_interval(difference, level=level, resamples=resamples, seed=seed),
        wins=proportion_interval(int(np.sum(difference < 0)), len(common), "share of seeds with less", level),
        ties=int(np.sum(difference == 0)),
        seeds=len(common),
        unmatched=len(np.union1d(cell.seeds, reference.seeds)) - len(matched),
        left_out=len(matched) - len(common),
    )


def against_reference(
    result: StudyResult,
    reference: str | None = None,
    record: str = "regret",
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Paired, ...]:
    """Compare every cell of the other algorithms with the reference in the same environment, in the study's order.

    Args:
      result: the study.
      reference: label of the algorithm to compare with; None takes the study's reference.
      record: name of the record to compare, at the last round.
      level: level of the intervals.
      resamples: number of bootstrap resamples.
      seed: seed of the resampling.
    """
    label = result.reference if reference is None else reference
    if label is None:
        raise ValueError(f"reference must be one of {', '.join(map(repr, result.algorithms))}: the study has none")
    if label not in result.algorithms:
        raise ValueError(f"reference must be one of {', '.join(map(repr, result.algorithms))}, got {label!r}")
    return tuple(
        paired(cell, reference_of(result, cell, label), record, level=level, resamples=resamples, seed=seed)
        for cell in result.cells
        if cell.algorithm != label
    )


def standings(cells: Sequence[CellResult], record: str = "regret", *, level: float = 0.95) -> tuple[Standing, ...]:
    """Compare the cells of one environment setting with the one of smallest mean; returns a word for each of them.

    A cell is worse if the t interval of its paired difference to the best lies above zero. The ``k - 1`` intervals have
    the level ``1 - (1 - level) / (k - 1)`` (Bonferroni), so that the cell of smallest expectation is called worse with
    probability ``1 - level`` at most, although the best was chosen by the same seeds.
    """
    means = [sample(cell, record).curves[:, -1].mean() for cell in cells]
    best = cells[int(np.argmin(means))]
    each = 1 - (1 - level) / max(1, len(cells) - 1)

    def standing(cell: CellResult) -> Standing:
        if cell is best:
            return "best"
        try:
            found = paired(cell, best, record, level=each, resamples=1)  # no bootstrap interval is needed
        except ValueError:
            return "not comparable"
        return "worse" if found.difference.low > 0 else "not separable"

    return tuple(map(standing, cells))


def reference_of(result: StudyResult, cell: CellResult, label: str) -> CellResult:
    """Return the reference's cell in the same environment, with the same settings if the reference was swept too."""
    found = [c for c in result.cells if c.algorithm == label and _problem(c) == _problem(cell)]
    if len(found) > 1:
        found = [c for c in found if all(cell.algorithm_settings.get(k) == v for k, v in c.algorithm_settings.items())]
    if len(found) != 1:
        raise ValueError(
            f"{cell_name(cell)}: a paired difference needs one cell of the reference {label!r} in the same environment "
            f"and setting, got {len(found)}"
        )
    return found[0]


def _problem(cell: CellResult) -> tuple[str, dict[str, object]]:
    """Return the environment with its settings, to compare cells by."""
    return cell.environment, dict(cell.environment_settings)
