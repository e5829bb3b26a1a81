"""Tuned multipliers: the best of a grid on held-out seeds, and the check that studies use those and no others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from experiments.found import read_found
from jaxvar.analysis import mean_interval, sample
from jaxvar.study.definition import Study
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

TUNED = re.compile(r"(?P<algorithm>.*) \(tuned x(?P<multiplier>[0-9.]+)\)")


def best(tune: StudyResult) -> dict[str, CellResult]:
    """For each algorithm the cell with the least mean regret, over all settings of the sweep and all environments."""
    found: dict[str, CellResult] = {}
    for cell in tune.cells:
        mean = sample(cell).final.mean()
        if cell.algorithm not in found or mean < sample(found[cell.algorithm]).final.mean():
            found[cell.algorithm] = cell
    return found


def multiplier(cell: CellResult) -> float:
    """The swept multiplier of a cell."""
    (value,) = cell.algorithm_settings.values()
    return float(value)


def table(tune: StudyResult, edge: float) -> Table:
    """Which multipliers are best; ``edge`` is the least one of the grid."""
    rows = tuple(
        (
            name,
            f"{multiplier(cell):g}",
            mean_interval(sample(cell).final),
            "the least tried" if multiplier(cell) == edge else "",
        )
        for name, cell in best(tune).items()
    )
    columns = (Column("algorithm"), Column("multiplier"), Column("regret", "half"), Column("note"))
    first = tune.cells[0]
    caption = (
        f"Tuned multipliers: those with the least mean regret after {first.num_rounds:,} {tune.unit}s on "
        f"{len(first.seeds):,} held-out seeds (95 % t intervals)."
    )
    return Table(caption, columns, rows)


def multipliers(tuned: Table) -> dict[str, float]:
    """By algorithm, from what :func:`table` made."""
    return {str(row[0]): float(row[1]) for row in tuned.rows}


def check(chosen: Mapping[str, float], results: Iterable[StudyResult]) -> None:
    """Refuse results whose algorithms are called tuned but have another multiplier than the chosen one."""
    for result in results:
        for entry in result.config["study"]["algorithm"]:
            label = TUNED.fullmatch(entry["label"])
            if label is None:
                continue
            if label["algorithm"] not in chosen:
                raise ValueError(f"{entry['label']} in the study {result.name!r}: there is no tuning of it")
            right, used = chosen[label["algorithm"]], _used(entry)
            if not float(label["multiplier"]) == used == right:
                raise ValueError(
                    f"{entry['label']} in the study {result.name!r} has the multiplier {used:g}, but the best one on "
                    f"held-out seeds is {right:g}: write it into the study and into the label"
                )


def at_own_size(result: StudyResult, study: Study) -> bool:
    """Whether a result has the seeds and the length of its study file: with others, another multiplier may be best."""
    config = result.config["study"]
    return bool(config["seeds"] == study.seeds and study.length == config.get("rounds", config.get("episodes")))


def _used(entry: Mapping[str, Any]) -> float:
    numbers = entry["constants"] if isinstance(entry.get("constants"), Mapping) else entry
    return float(numbers.get("beta_scale", 1.0))


def found_in(path: Path) -> dict[str, float]:
    """The multipliers of the table ``tuned`` in an experiment's ``found.json``."""
    return multipliers(read_found(path).tables["tuned"])
