"""How long cells took."""

from __future__ import annotations

import dataclasses

from jaxvar import parameters
from jaxvar.analysis.sample import cell_name
from jaxvar.study.result import CellResult


@dataclasses.dataclass(frozen=True)
class Speed:
    """Wall time of a cell, compilation left out."""

    cell: CellResult
    seeds: int  # played, failed ones included
    rounds: int  # or episodes, per seed
    seconds: float

    @property
    def seed_rounds_per_second(self) -> float | None:
        """Over all seeds; None where no time was measured."""
        return self.seeds * self.rounds / self.seconds if self.seconds > 0 else None


def speed(cell: CellResult) -> Speed:
    """What a cell's play took."""
    parameters.check_number(f"{cell_name(cell)}: seconds", cell.seconds, low=0.0)
    return Speed(cell, len(cell.seeds), cell.num_rounds, float(cell.seconds))
