"""What the studies of this experiment say together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from experiments import tuning
from experiments.experiment import Conclusions
from experiments.table1 import calibrated, cost, crossing, draw, measured, sizes
from jaxvar.study.result import StudyResult

MAIN = ("noise", "dimension", "nets", "nets_dimension")  # studies whose multipliers the others choose
CHOOSING = ("tune", "tune_nets")


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Compare claims with measurements.

    Raises:
      ValueError: where a study's multiplier is not the one that the choosing studies give at their own size.
    """
    noise, nets, tune = (results[name] for name in ("noise", "nets", "tune"))
    tuned = {name: best for study in CHOOSING for name, best in tuning.chosen(results[study]).items()}
    if all(tuning.at_own_size(results[name], Path(__file__).with_name(f"{name}.toml")) for name in CHOOSING):
        main = [results[name] for name in MAIN]
        tuning.check(tuned, main)
        tuning.check(calibrated.chosen(tune), main, "calibrated")
    tables = {
        "claims": measured.claims([name for name in measured.BY_NAME if name in tuned]),
        "tuned": tuning.table(tune),
        "tuned_nets": tuning.table(results["tune_nets"]),
        "calibrated": calibrated.table(tune, tuned),
        "regret": measured.regret([noise, nets]),
        "growth": measured.growth([noise, _without_oful(nets)]),
        "dimension": measured.growth_in_dimension([results["dimension"], _without_oful(results["nets_dimension"])]),
        "cost": cost.table([results["dimension"], results["nets_dimension"]]),
        "kept": calibrated.kept(noise),
        "crossing": crossing.table(noise),
        "sizes": sizes.table(tuned["SAVE"]),
    }
    figures = {
        "noise": draw.against_noise(noise),
        "dimension": draw.against_dimension(results["dimension"]),
        "multipliers": draw.against_multiplier({**tuning.tried(tune), **tuning.tried(results["tune_nets"])}),
    }
    return Conclusions(tables, figures)


def _without_oful(result: StudyResult) -> StudyResult:
    """Return the study of an algorithm on a net without the one it is compared with."""
    return dataclasses.replace(result, cells=tuple(c for c in result.cells if not c.algorithm.startswith("OFUL ")))
