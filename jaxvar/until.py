"""``run_until_separated``: a study that gets more seeds, in stages, until its paired comparisons are decided.

The rule and its proof are in :mod:`jaxvar.analysis.sequential`. Decisions are a function of the stored seeds alone: a
run that was interrupted takes the same ones when it is resumed. ``run.json`` keeps the rule and the decisions, under
``stopping``.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from jaxvar import parameters
from jaxvar.analysis.captions import named, percent
from jaxvar.analysis.sequential import FEWEST_SEEDS, Verdict, judge, stage_errors, stage_seeds
from jaxvar.analysis.summaries import sample
from jaxvar.study import store
from jaxvar.study.cells import Cell
from jaxvar.study.definition import Study
from jaxvar.study.factories import RunError, StudyError, check_name, error_at, short
from jaxvar.study.result import StudyResult, differences
from jaxvar.study.run import run_study

_LISTED = 5  # open comparisons in a sentence


@dataclasses.dataclass(frozen=True)
class Comparison:
    """An algorithm and the reference in one environment setting, and what was decided on them."""

    algorithm: str  # with its swept values
    environment: str  # likewise
    cell: int  # index of the algorithm's cell in the study
    reference: int  # index of the reference's cell
    verdict: Verdict = "open"
    seeds: int | None = None  # of the stage that decided

    @property
    def name(self) -> str:
        """Algorithm and environment, for messages."""
        return f"{self.algorithm} in {self.environment}"


@dataclasses.dataclass(frozen=True)
class Rule:
    """When to stop adding seeds; chosen before the first stage."""

    error_rate: float
    tolerance: float | None
    stages: list[int]  # seeds after each of them; the last one is the limit
    reference: str
    length: str  # "500 rounds": the regret after them is compared
    compared: list[str]  # names of the comparisons

    def sentence(self, number: int, comparisons: Sequence[Comparison], replaced: bool) -> str:
        """Describe the rule and its outcome after stage ``number``, for the report."""
        played = ", ".join(f"{seeds:,}" for seeds in self.stages[:number])
        within = (
            "" if self.tolerance is None else f" or show that they are within {percent(self.tolerance)} of its mean"
        )
        doubt = "" if not replaced else ", not guaranteed since another rule was used in this folder before"
        return (
            f"Seeds were added in {number} stage{'' if number == 1 else 's'} ({played}; limit {self.stages[-1]:,}) to "
            f"separate the differences from {self.reference} in mean regret after {self.length} from zero{within}: "
            f"{_left(comparisons)}; error rate at most {percent(self.error_rate)} for all of them together{doubt}, "
            "by intervals that allow for moderate skewness."
        )


def run_until_separated(
    study: Study,
    out: str | Path,
    *,
    max_seeds: int,
    error_rate: float = 0.05,
    compare: Sequence[str] = (),
    tolerance: float | None = None,
    resume: bool = True,
    force: bool = False,
    devices: Sequence[jax.Device] | None = None,
    progress: bool = True,
    checkpoint_seconds: float = 30.0,
) -> StudyResult:
    """Run a study into a folder, with more and more seeds until its comparisons are decided or a limit is reached.

    The mean regret of every other algorithm at the last round is compared with that of the study's reference, in the
    same environment and the same seeds. The seeds double from ``study.seeds`` to ``max_seeds``, in all cells. Each
    stage may spend the share of ``error_rate`` that its new seeds are of ``max_seeds``, divided by the number of
    comparisons, and decides those whose interval at that level excludes zero. So the probability that any decision is
    wrong is at most ``error_rate`` if differences are normal. Intervals are corrected for skewness; with heavy tails
    it was up to three times as high in simulations. Algorithms that play alike are never separated, and use all seeds
    unless a tolerance is given.

    Args:
      study: what to run; it must have a reference, and 16 seeds or more.
      out: the folder, as for :func:`jaxvar.run_study`. If it holds a part of the study already, its seeds are used.
      max_seeds: most seeds to play.
      error_rate: probability of a false decision, for all comparisons and stages together.
      compare: labels of the algorithms to compare with the reference; all others if none is given.
      tolerance: share of the reference's mean regret. A difference that is shown to be smaller counts as decided.
      resume: whether the folder may hold a part of the study already.
      force: whether the folder may hold another study, or decisions by another rule.
      devices: devices to use; all of the default backend if not given.
      progress: show a progress bar, and a line for each stage.
      checkpoint_seconds: how much work may be lost.

    Returns:
      The results with all seeds. ``config["stopping"]`` has the rule, a sentence about it, and for each comparison its
      ``verdict`` (the algorithm has ``less`` or ``more`` regret than the reference, an ``equal`` one within the
      tolerance, or the comparison is still ``open``) with the number of ``seeds`` that decided it.

    Raises:
      StudyError: if there is nothing to compare, or an argument is out of range.
      RunError: if the study cannot be run, or the folder has decisions by another rule.
      KeyboardInterrupt: after Ctrl-C or SIGTERM; the same call resumes.
    """
    with error_at():
        parameters.check_count("seeds", study.seeds, low=FEWEST_SEEDS)
        parameters.check_count("max_seeds", max_seeds, low=study.seeds)
        parameters.check_number("error_rate", error_rate, low=0.0, high=1.0, low_open=True, high_open=True)
        if tolerance is not None:
            parameters.check_number("tolerance", tolerance, low=0.0, high=1.0, low_open=True, high_open=True)
        dataclasses.replace(study, seeds=max_seeds)  # refuses a limit that no study may have
    if jax.process_count() > 1:
        raise RunError("run_until_separated must run in one process; to use several, run the study with fixed seeds")
    folder, stages, comparisons = Path(out), stage_seeds(study.seeds, max_seeds), _comparisons(study, compare)
    errors = stage_errors(stages, error_rate, len(comparisons)).tolist()
    rule = Rule(
        error_rate=float(error_rate),
        tolerance=tolerance if tolerance is None else float(tolerance),
        stages=list(stages),
        reference=str(study.reference),
        length=f"{study.length:,} {study.unit}s",
        compared=[c.name for c in comparisons],
    )
    held, replaced = _held(study, folder, rule, force)
    result: StudyResult | None = None
    stopping: dict[str, object] = {}
    for number, (seeds, error) in enumerate(zip(stages, errors, strict=True), start=1):
        if result is None or seeds > held:
            is_known = result is not None or held == 0  # what is decided; a resumed run has to read its seeds first
            held = max(seeds, held)
            if progress:
                reached = 1 + sum(n < held for n in stages[:-1])
                left = _left(comparisons) if is_known else "resumed"
                print(f"stage {reached} of {len(stages)}, {held:,} seeds: {left}", file=sys.stderr)
            result = run_study(
                dataclasses.replace(study, seeds=held),
                folder,
                resume=resume or number > 1,
                force=force and number == 1,
                devices=devices,
                progress=progress,
                checkpoint_seconds=checkpoint_seconds,
            )
            assert result is not None  # since there is one process
        comparisons = [_decide(c, result, study.first_seed + seeds, seeds, error, tolerance) for c in comparisons]
        is_last = number == len(stages) or all(c.verdict != "open" for c in comparisons)
        if is_last or stages[number] > held:
            stopping = {
                **dataclasses.asdict(rule),
                "replaced": replaced,
                "sentence": rule.sentence(number, comparisons, replaced),
                "comparisons": [dataclasses.asdict(c) for c in comparisons],
            }
            with store.manifest_locked(folder):
                dataclasses.replace(store.read_manifest(folder), stopping=stopping).write(folder)
        if is_last:
            break
    assert result is not None
    return dataclasses.replace(result, config={**result.config, "stopping": stopping})


def _comparisons(study: Study, compare: Sequence[str]) -> list[Comparison]:
    """Return a comparison for each cell of the algorithms in ``compare``, or of all but the reference."""
    labels = [entry.label for entry in study.algorithms]
    if study.reference is None:
        raise StudyError(
            f"the study must have a reference to compare with; give it one, such as reference = {labels[0]!r}"
        )
    others = [label for label in labels if label != study.reference]
    if not others:
        raise StudyError(f"the study must have another algorithm than its reference {study.reference!r} to compare")
    for label in compare:
        check_name(f"algorithm to compare with {study.reference!r} that has the label", label, others)
    found = []
    for i, cell in enumerate(study.cells):
        if cell.algorithm_label in (compare or others):
            algorithm = named(cell.algorithm_label, cell.algorithm_settings)
            environment = named(cell.environment_label, cell.environment_settings)
            found.append(Comparison(algorithm, environment, i, _reference(study, cell)))
    return found


def _reference(study: Study, cell: Cell) -> int:
    """Return the index of the reference's cell in the same environment, with the same settings if it was swept too."""
    found = [
        j
        for j, other in enumerate(study.cells)
        if other.algorithm_label == study.reference
        and other.environment_label == cell.environment_label
        and other.environment_settings == cell.environment_settings
    ]
    if len(found) > 1:
        own = cell.algorithm_settings
        found = [j for j in found if all(own.get(k) == v for k, v in study.cells[j].algorithm_settings.items())]
    if len(found) != 1:
        raise StudyError(
            f"cell {cell.title}: a comparison needs one cell of the reference {study.reference!r} in the same "
            f"environment and setting, got {len(found)}"
        )
    return found[0]


def _held(study: Study, folder: Path, rule: Rule, force: bool) -> tuple[int, bool]:
    """Return the number of seeds that the folder was run for, and whether another rule decided in it before."""
    if not (folder / "run.json").exists():
        return 0, False
    manifest = store.read_manifest(folder)
    if differences(dataclasses.replace(study, seeds=max(study.seeds, manifest.seeds)), manifest):
        return 0, False  # run_study refuses the folder, or plays it anew
    before = manifest.stopping
    if before is None:
        return manifest.seeds, False
    changed = {name: value for name, value in dataclasses.asdict(rule).items() if before.get(name) != value}
    if changed and not force:
        raise RunError(
            f"{folder} has decisions by another rule, and an error rate only holds for a rule that was chosen before; "
            "what changed:\n  "
            + "\n  ".join(
                f"{name} was {short(before.get(name))} and is {short(value)}" for name, value in changed.items()
            )
            + "\nuse the same rule or another folder, or decide anew with --force (force=True): the report then says so"
        )
    return manifest.seeds, bool(changed or before.get("replaced"))


def _decide(
    comparison: Comparison, result: StudyResult, end: int, seeds: int, error: float, tolerance: float | None
) -> Comparison:
    """Judge an open comparison by those of its seeds below ``end`` that did not fail."""
    if comparison.verdict != "open":
        return comparison
    mine, theirs = (sample(result.cells[i], at_least=0) for i in (comparison.cell, comparison.reference))
    common, i, j = np.intersect1d(mine.seeds, theirs.seeds, assume_unique=True, return_indices=True)
    i, j = i[common < end], j[common < end]
    verdict = judge(mine.final[i], theirs.final[j], error, tolerance)
    return comparison if verdict == "open" else dataclasses.replace(comparison, verdict=verdict, seeds=seeds)


def _left(comparisons: Sequence[Comparison]) -> str:
    """Return how many comparisons are decided, and which are open, as text."""
    found = [c.name for c in comparisons if c.verdict == "open"]
    more = [f"and {len(found) - _LISTED} more"] if len(found) > _LISTED else []
    listed = f" (open: {'; '.join([*found[:_LISTED], *more])})" if found else ""
    return f"{len(comparisons) - len(found)} of {len(comparisons)} comparisons decided{listed}"


def verdicts(result: StudyResult) -> list[str]:
    """Return a line for each comparison of a study that was run until it was separated, and one about the rule."""
    rule = result.config["stopping"]
    words = {
        "less": f"less regret than {rule['reference']}",
        "more": f"more regret than {rule['reference']}",
        "equal": f"within {percent(rule['tolerance'] or 0)} of the regret of {rule['reference']}",
    }
    lines = [
        f"{c['algorithm']} in {c['environment']}: "
        + (f"{words[c['verdict']]}, decided by {c['seeds']:,} seeds" if c["verdict"] in words else "open")
        for c in rule["comparisons"]
    ]
    if rule["tolerance"] is None and any(c["verdict"] == "open" for c in rule["comparisons"]):
        lines.append("Algorithms that play alike are never separated; --tolerance 0.05 also decides that they do.")
    return [*lines, rule["sentence"]]
