"""What the studies of this experiment say together."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping

import numpy as np

from experiments.experiment import Conclusions, Experiment, Options
from experiments.table1 import cost, crossing, draw, measured, multipliers, sizes
from jaxvar import status
from jaxvar.study.result import StudyResult

MAIN = ("noise", "dimension", "nets", "nets_dimension")  # studies whose multipliers the others choose
CHOOSING = ("tune", "tune_nets")


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Claims beside measurements.

    Raises:
      ValueError: where a study's multiplier is not the one that the choosing studies give at their own size.
    """
    chosen = multipliers.choices(*(results[name] for name in CHOOSING))
    wrong = multipliers.differences(chosen, [results[name] for name in MAIN])
    beside = EXPERIMENT.studies()
    if wrong and all(multipliers.is_whole(results[name], beside[name]) for name in CHOOSING):
        raise ValueError(f"the multipliers of the studies must be the chosen ones: {'; '.join(wrong)}")
    note = f"At this size others would be chosen than the studies use: {'; '.join(wrong)}." if wrong else ""
    if note:
        print(note, file=sys.stderr)
    names = [name for name in measured.BY_NAME if name in chosen]
    two_dimensional = [results["noise"], _without_oful(results["nets"])]
    tables = {
        "claims": measured.claims(names),
        "multipliers": multipliers.table(chosen, note),
        "regret": measured.regret([results["noise"], results["nets"]]),
        "growth": measured.growth(two_dimensional),
        "dimension": measured.growth_in_dimension([results["dimension"], _without_oful(results["nets_dimension"])]),
        "cost": cost.table([results["dimension"], results["nets_dimension"]]),
        "kept": multipliers.kept(results["noise"]),
        "crossing": crossing.table(results["noise"]),
        "sizes": sizes.table(chosen["SAVE"].tuned.multiplier),
    }
    figures = {
        "noise": draw.against_noise(results["noise"]),
        "dimension": draw.against_dimension(results["dimension"]),
        "multipliers": draw.against_multiplier(chosen),
    }
    return Conclusions(tables, figures)


def _without_oful(result: StudyResult) -> StudyResult:
    """The study of an algorithm on a net without the one it is compared with."""
    return dataclasses.replace(result, cells=tuple(c for c in result.cells if not c.algorithm.startswith("OFUL ")))


@dataclasses.dataclass(frozen=True)
class Table1(Experiment):
    """An experiment in which a confidence set may become empty where multipliers are tried: that rules them out."""

    def run(self, options: Options) -> tuple[Conclusions, dict[str, StudyResult]]:
        """As every experiment; what was ruled out is in the tables, and no failure."""
        conclusions, results = super().run(options)
        return conclusions, {**results, "tune_nets": _usable(results["tune_nets"])}


def _usable(result: StudyResult) -> StudyResult:
    return dataclasses.replace(result, cells=tuple(c for c in result.cells if not np.any(c.status == status.EMPTY)))


EXPERIMENT = Table1("table1", conclude)
