"""What analysis may use of a cell: the seeds that went well, with the others counted, and no number that is not one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jaxvar.study.result import CellResult

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Sample:
    """One record of a cell, for the seeds whose status is 0."""

    cell: CellResult
    record: str
    values: Array  # [seeds, records, ...]   float64
    seeds: Array  # [seeds]   their numbers
    left_out: int  # seeds that failed

    @property
    def final(self) -> Array:
        """At the last recorded round, [seeds, ...]."""
        return self.values[:, -1]


def sample(cell: CellResult, record: str = "regret", *, at_least: int = 2) -> Sample:
    """The record's values, checked.

    Raises:
      ValueError: that names the cell, where the record is missing or of a wrong shape, a value is NaN or infinite, or
        fewer than ``at_least`` seeds went well.
    """
    where = cell_name(cell)
    if record not in cell.records:
        raise ValueError(f"{where}: {record!r} was not recorded; the records are: {', '.join(cell.records) or 'none'}")
    values, status = np.asarray(cell.records[record]), np.asarray(cell.status)
    shape = (len(cell.seeds), len(cell.rounds))
    if values.shape[:2] != shape or status.shape != shape[:1] or 0 in shape:
        raise ValueError(
            f"{where}: {record!r} must have shape [seeds, records, ...] with {shape[0]} seeds and {shape[1]} records, "
            f"at least one each, and a status per seed; got {list(values.shape)} and {list(status.shape)}"
        )
    well = status == 0
    seeds, values = np.asarray(cell.seeds)[well], values[well].astype(np.float64)
    if len(seeds) < at_least:
        raise ValueError(f"{where}: needs at least {at_least} seeds without failure, got {len(seeds)} of {len(well)}")
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        first = tuple(wrong[0])
        raise ValueError(
            f"{where}: {record!r} must be finite, got {values[first]} in seed {seeds[first[0]]} at round "
            f"{cell.rounds[first[1]]}, and {len(wrong) - 1} more such values"
        )
    return Sample(cell, record, values, seeds, int(np.sum(~well)))


def value_text(value: Any) -> str:
    """A swept value in as few characters as tell it."""
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def settings_text(settings: Mapping[str, Any]) -> str:
    """Swept values as ``dim = 4, noise.std = 0.1``."""
    return ", ".join(f"{name} = {value_text(value)}" for name, value in settings.items())


def named(label: str, settings: Mapping[str, Any]) -> str:
    """A label with settings, if there are any."""
    return ", ".join(filter(None, (label, settings_text(settings))))


def algorithm_name(cell: CellResult) -> str:
    """The algorithm's label, with what was swept."""
    return named(cell.algorithm, cell.algorithm_settings)


def environment_name(cell: CellResult) -> str:
    """The environment's label, with what was swept."""
    return named(cell.environment, cell.environment_settings)


def cell_name(cell: CellResult) -> str:
    """Both, for messages."""
    return f"{algorithm_name(cell)} in {environment_name(cell)}"


def swept_value(cell: CellResult, parameter: str) -> Any:
    """What a swept parameter of the environment or of the algorithm is in this cell; None where it was not swept."""
    found = [s[parameter] for s in (cell.environment_settings, cell.algorithm_settings) if parameter in s]
    if len(found) == 2 and found[0] != found[1]:
        raise ValueError(f"{cell_name(cell)}: {parameter!r} is swept in both, with different values")
    return found[0] if found else None


def span(numbers: Iterable[int]) -> str:
    """Numbers as ``256``, or ``250 to 256`` where they differ, for captions."""
    found = sorted(set(numbers))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def percent(level: float) -> str:
    """A level as ``95 %``."""
    return f"{100 * level:g} %"
