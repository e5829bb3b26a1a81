"""Multipliers chosen on held-out seeds from one grid: the smallest that keeps the confidence event, and the best."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.table1 import labels
from jaxvar.analysis import Interval, bootstrap_interval, coverage, sample
from jaxvar.study.definition import Study
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

Array = np.ndarray[Any, Any]
SHARE = 0.99  # of the seeds; delta is 0.01


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """One algorithm with one multiplier, in all regimes."""

    multiplier: float
    regret: Array | None  # [seeds, regimes], of the last round; None where a confidence set became empty
    held: Interval | None  # share of seeds that kept the confidence event, in the worst regime; None if not recorded
    failed: int  # seeds with a failure, in all regimes

    @property
    def mean(self) -> float:
        """Geometric mean over the regimes of the mean regret; infinite where a set became empty."""
        return float("inf") if self.regret is None else float(_geometric(self.regret))

    def interval(self) -> Interval | None:
        """The same with its uncertainty."""
        return None if self.regret is None else bootstrap_interval(self.regret, _geometric, method="percentile")


@dataclasses.dataclass(frozen=True)
class Choice:
    """What the trials of one algorithm give."""

    trials: tuple[Trial, ...]  # by multiplier, the largest first

    @property
    def calibrated(self) -> Trial | None:
        """The smallest multiplier that keeps the event, as all larger ones do; None where none does or none can say."""
        kept = None
        for trial in self.trials:
            if trial.held is None or trial.held.low < SHARE:
                break
            kept = trial
        return kept

    @property
    def tuned(self) -> Trial:
        """The multiplier of least regret."""
        return min(self.trials, key=lambda trial: trial.mean)


def choices(*results: StudyResult) -> dict[str, Choice]:
    """By the algorithms' names."""
    found: dict[str, dict[float, list[CellResult]]] = {}
    for cell in (cell for result in results for cell in result.cells):
        (multiplier,) = cell.algorithm_settings.values()
        found.setdefault(cell.algorithm, {}).setdefault(float(multiplier), []).append(cell)
    return {
        name: Choice(tuple(_trial(m, c) for m, c in sorted(by.items(), reverse=True))) for name, by in found.items()
    }


def _trial(multiplier: float, cells: Sequence[CellResult]) -> Trial:
    failed = sum(int(np.sum(cell.status != 0)) for cell in cells)
    if failed:
        return Trial(multiplier, None, None, failed)
    held = [coverage(cell).share for cell in cells if "confidence" in cell.records]
    worst = min(held, key=lambda share: share.low, default=None)
    return Trial(multiplier, np.stack([sample(cell).final for cell in cells], axis=1), worst, 0)


def _geometric(regret: Array, axis: int = 0) -> Array:
    """The geometric mean over regimes, on the last axis, of the means over seeds."""
    return np.exp(np.mean(np.log(np.mean(regret, axis=axis)), axis=-1))


def is_whole(result: StudyResult, study: Study) -> bool:
    """Whether a result has the size of the study that lies beside the experiment."""
    played = result.config["study"]
    return bool(played["seeds"] == study.seeds and played["rounds"] == study.rounds)


def differences(chosen: Mapping[str, Choice], results: Iterable[StudyResult]) -> list[str]:
    """Where the studies' multipliers are not the chosen ones, as sentences."""
    found: dict[str, None] = {}
    for entry in (entry for result in results for entry in result.config["study"]["algorithm"]):
        label = labels.read(entry["label"])
        written = _written(entry)
        if label.multiplier is not None and written != label.multiplier:
            found[f"{entry['label']} is played with the multiplier {written}"] = None
        if label.kind in ("calibrated", "tuned"):
            trial = getattr(chosen[label.name], label.kind)
            wanted = None if trial is None else trial.multiplier
            if label.multiplier != wanted:
                found[f"{entry['label']} should have the multiplier {wanted}, by the studies that choose it"] = None
    return list(found)


def _written(entry: Mapping[str, Any]) -> float:
    constants = entry.get("constants")
    inside = constants.get("beta_scale", 1.0) if isinstance(constants, Mapping) else 1.0
    return float(entry.get("beta_scale", inside))


def table(chosen: Mapping[str, Choice], note: str) -> Table:
    """A row for each algorithm."""
    rows = []
    for name, choice in chosen.items():
        calibrated, tuned = choice.calibrated, choice.tuned
        below = _next(choice, calibrated)
        failing = next((t for t in choice.trials if t.failed), None)
        rows.append(
            (
                name,
                "" if calibrated is None else f"{calibrated.multiplier:g}",
                calibrated and calibrated.held,
                below and below.held,
                f"{tuned.multiplier:g}",
                tuned.interval(),
                choice.trials[0].interval(),
                tuned.held,
                "" if failing is None else f"{failing.multiplier:g}",
                None if failing is None else failing.failed,
            )
        )
    caption = (
        f"Multipliers from one grid, chosen on held-out seeds. Calibrated: the smallest at which the confidence event "
        f"held in all rounds in a share of seeds whose 95 % Clopper-Pearson interval is above {SHARE}, in the worst "
        f"regime; empty where the event is not recorded. Tuned: the one with the least geometric mean over the regimes "
        f"of the mean regret (with its 95 % bootstrap percentile interval), among those whose confidence set never "
        f"became empty. SAVE and AVE-UCB have the form of the practical constants here. {note}"
    )
    columns = (
        Column("algorithm"),
        Column("calibrated"),
        Column("event held", "ends"),
        Column("at the next smaller", "ends"),
        Column("tuned"),
        Column("geometric mean regret", "ends"),
        Column("at multiplier 1", "ends"),
        Column("event held at tuned", "ends"),
        Column("first multiplier with empty sets"),
        Column("runs with empty sets at it", "number"),
    )
    return Table(caption.strip(), columns, tuple(rows))


def _next(choice: Choice, trial: Trial | None) -> Trial | None:
    """The trial after this one, or the first."""
    after = 0 if trial is None else choice.trials.index(trial) + 1
    return choice.trials[after] if after < len(choice.trials) else None


def kept(result: StudyResult) -> Table:
    """How often the confidence event held in a study with the chosen multipliers, over its noise levels."""
    worst: dict[str, tuple[Interval, float]] = {}
    for cell in (cell for cell in result.cells if "confidence" in cell.records):
        share, level = coverage(cell).share, float(cell.environment_settings["noise.std"])
        if cell.algorithm not in worst or share.low < worst[cell.algorithm][0].low:
            worst[cell.algorithm] = share, level
    rows = []
    for label, (share, level) in worst.items():
        parts = labels.read(label)
        rows.append((parts.name, parts.constants, share, f"{level:g}" if share.estimate < 1 else "all alike"))
    caption = (
        f"Share of seeds in which the confidence event held in all {result.cells[0].num_rounds:,} rounds, with its "
        f"95 % Clopper-Pearson interval, at the noise level where it held least often."
    )
    columns = (Column("algorithm"), Column("constants"), Column("event held", "ends"), Column("noise"))
    return Table(caption, columns, tuple(rows))
