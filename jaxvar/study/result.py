"""What a study found, as NumPy arrays: all that analysis, figures, tables and the report ever see."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class CellResult:
    """One algorithm in one environment, each with one setting: all seeds."""

    algorithm: str  # label of the study's algorithm, unique together with its settings
    environment: str  # label of the study's environment, likewise
    algorithm_settings: Mapping[str, Any]  # swept values only, by name
    environment_settings: Mapping[str, Any]
    constants: str  # which constants: "paper", "practical", "theorem", "none", ...
    num_rounds: int  # rounds or episodes played
    rounds: Array  # [records]   int32, the recorded ones
    seeds: Array  # [seeds]   their numbers
    records: Mapping[str, Array]  # name -> [seeds, records, ...]
    status: Array  # [seeds]   int32, 0 where all went well
    status_round: Array  # [seeds]
    seconds: float  # spent playing, compilation left out

    @property
    def regret(self) -> Array:
        """Cumulative pseudo-regret, [seeds, records]."""
        return self.records["regret"]


@dataclasses.dataclass(frozen=True)
class StudyResult:
    """A whole study."""

    name: str
    question: str
    unit: str  # "round" or "episode"
    reference: str | None  # label of the algorithm that others are compared with
    config: Mapping[str, Any]  # ``run.json``: everything needed to repeat it
    cells: tuple[CellResult, ...]  # environments outermost, then algorithms in the study's order, then their settings

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Labels, in the study's order."""
        return tuple(dict.fromkeys(c.algorithm for c in self.cells))

    def to_xarray(self) -> Any:
        """All cells as one :func:`jaxvar.study.labelled.dataset` of xarray; needs the extra ``xarray``."""
        from jaxvar.study.labelled import dataset

        return dataset(self)

    @property
    def environments(self) -> tuple[str, ...]:
        """Labels, in the study's order."""
        return tuple(dict.fromkeys(c.environment for c in self.cells))
