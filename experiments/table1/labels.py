"""What a label of these studies says: the algorithm, which constants it has, and their multiplier."""

from __future__ import annotations

import dataclasses
import re

from jaxvar.study.result import CellResult, StudyResult

KINDS = ("paper", "calibrated", "practical", "tuned")
_LABEL = re.compile(rf"(?P<name>.+) \((?P<kind>{'|'.join(KINDS)})(?: x(?P<multiplier>[0-9.]+))?\)")


@dataclasses.dataclass(frozen=True)
class Label:
    """``Weighted OFUL (tuned x0.003)``, in parts."""

    name: str  # as in ``jaxvar.claims``
    kind: str  # one of KINDS
    multiplier: float | None  # None for constants that are a preset's

    @property
    def constants(self) -> str:
        """All but the name."""
        return self.kind if self.multiplier is None else f"{self.kind} x{self.multiplier:g}"


def read(label: str) -> Label:
    """Return the parts of a label."""
    match = _LABEL.fullmatch(label)
    if match is None:
        raise ValueError(f"label must be a name and its constants, such as 'OFUL (tuned x0.1)', got {label!r}")
    multiplier = match["multiplier"]
    return Label(match["name"], match["kind"], None if multiplier is None else float(multiplier))


def of(cell: CellResult) -> Label:
    """Return the parts of a cell's label."""
    return read(cell.algorithm)


def at_noise(result: StudyResult, *levels: float) -> StudyResult:
    """Return the cells with one of these noise levels."""
    return dataclasses.replace(
        result, cells=tuple(c for c in result.cells if c.environment_settings["noise.std"] in levels)
    )


def noise_levels(result: StudyResult) -> list[float]:
    """Return the noise levels in increasing order."""
    return sorted({float(c.environment_settings["noise.std"]) for c in result.cells})
