"""Tuned multipliers: one rule for all experiments, the table that shows it, and the check that studies follow it.

Every algorithm is played with every multiplier of one grid on held-out seeds. Final regret is averaged over the
environments; the multiplier with the least mean over the seeds is the tuned one. A multiplier at which a run failed,
because a confidence set became empty, is ruled out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import jaxvar as jv
from experiments.found import read_found
from jaxvar import status
from jaxvar.analysis import mean_interval, sample
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

Array = np.ndarray[Any, Any]
LABEL = re.compile(r"(?P<algorithm>.*) \((?P<kind>tuned|calibrated) x(?P<multiplier>[0-9.]+)\)")


@dataclasses.dataclass(frozen=True, eq=False)
class Tried:
    """One algorithm at every multiplier of the grid."""

    regret: Mapping[float, Array]  # multiplier -> final regret averaged over the environments, [seeds]
    failed: Mapping[float, int]  # multiplier that is ruled out -> number of failed runs in all environments

    @property
    def best(self) -> float:
        """The tuned multiplier."""
        return min(self.regret, key=lambda multiplier: float(self.regret[multiplier].mean()))

    @property
    def place(self) -> str:
        """Place of the tuned multiplier in the grid."""
        grid = sorted({*self.regret, *self.failed})
        at = grid.index(self.best)
        if self.best == 0:
            return "0: greedy but for the bias"
        if at == 0:
            return "the least tried"
        if grid[at - 1] in self.failed:
            return f"{self.failed[grid[at - 1]]} runs failed at x{grid[at - 1]:g}"
        return "the largest tried" if at == len(grid) - 1 else "bracketed"


def by_multiplier(tune: StudyResult) -> dict[str, dict[float, list[CellResult]]]:
    """Return the cells of every algorithm and multiplier, one for each environment."""
    found: dict[str, dict[float, list[CellResult]]] = {}
    for cell in tune.cells:
        (multiplier,) = cell.algorithm_settings.values()
        found.setdefault(cell.algorithm, {}).setdefault(float(multiplier), []).append(cell)
    return found


def tried(tune: StudyResult) -> dict[str, Tried]:
    """Return final regret by algorithm and multiplier."""
    found = {}
    for name, grid in by_multiplier(tune).items():
        failed = {x: sum(int(np.sum(cell.status != 0)) for cell in cells) for x, cells in grid.items()}
        regret = {x: np.mean([sample(c).final for c in cells], axis=0) for x, cells in grid.items() if not failed[x]}
        if not regret:
            raise ValueError(f"{name} must have a multiplier at which no run failed, and has none")
        found[name] = Tried(regret, {x: number for x, number in failed.items() if number})
    return found


def chosen(tune: StudyResult) -> dict[str, float]:
    """Return the tuned multiplier of every algorithm."""
    return {name: one.best for name, one in tried(tune).items()}


def table(tune: StudyResult) -> Table:
    """Show the tuned multipliers, their place in the grid, and regret at all multipliers."""
    found = tried(tune)
    grid = sorted({x for one in found.values() for x in (*one.regret, *one.failed)}, reverse=True)
    rows = []
    for name, one in found.items():
        regret = {x: mean_interval(values) for x, values in one.regret.items()}
        rows.append((name, f"{one.best:g}", regret[one.best], one.place, *(regret.get(x) for x in grid)))
    columns = (Column("algorithm"), Column("multiplier"), Column("regret", "half"), Column("place in the grid"))
    first = tune.cells[0]
    caption = (
        f"Tuned multipliers: those with the least regret after {first.num_rounds:,} {tune.unit}s, averaged over the "
        f"environments and {len(first.seeds):,} held-out seeds, and regret at every multiplier of the grid (95 % t "
        "intervals). Multipliers are of the radius's stochastic part; at 0 its bias alone is left."
    )
    return Table(caption, (*columns, *(Column(f"x{x:g}", "half") for x in grid)), tuple(rows))


def without_empty_sets(tune: StudyResult) -> StudyResult:
    """Return the cells in which no confidence set became empty: where multipliers are tried that rules one out."""
    return dataclasses.replace(tune, cells=tuple(c for c in tune.cells if not np.any(c.status == status.EMPTY)))


def found_in(path: Path) -> dict[str, float]:
    """Read the multipliers of the table ``tuned`` in an experiment's ``found.json``."""
    return {str(row[0]): float(row[1]) for row in read_found(path).tables["tuned"].rows}


def at_own_size(tune: StudyResult, path: Path) -> bool:
    """Return whether a result has the seeds and the length of its file: other sizes may have other best multipliers."""
    config, study = tune.config["study"], jv.read_study(path)
    return bool(config["seeds"] == study.seeds and study.length == config.get("rounds", config.get("episodes")))


def check(chosen: Mapping[str, float | None], results: Iterable[StudyResult], kind: str = "tuned") -> None:
    """Refuse results whose algorithms are called ``kind`` but have another multiplier than the chosen one."""
    for result in results:
        for entry in result.config["study"]["algorithm"]:
            label = LABEL.fullmatch(entry["label"])
            if label is None or label["kind"] != kind:
                continue
            if label["algorithm"] not in chosen:
                raise ValueError(f"{entry['label']} in the study {result.name!r}: there is no tuning of it")
            right, constants = chosen[label["algorithm"]], entry.get("constants")
            used = float((constants if isinstance(constants, Mapping) else entry).get("beta_scale", 1.0))
            if not float(label["multiplier"]) == used == right:
                raise ValueError(
                    f"{entry['label']} in the study {result.name!r} has the multiplier {used:g}, but held-out seeds "
                    f"give {right}: write it into the study and into the label"
                )
