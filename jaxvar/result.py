"""What ``simulate`` returns: NumPy arrays, seeds before records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvar.status import describe

Array = np.ndarray[Any, Any]


class SimulationError(RuntimeError):
    """Some seeds of a simulation failed."""


@dataclasses.dataclass(frozen=True)
class SimulationResult:
    """All seeds of a simulation; leading axes are those of the sweeps (algorithm, then environment)."""

    rounds: Array  # [records]
    records: Mapping[str, Array]  # name -> [..., seeds, records, ...]
    status: Array  # [..., seeds]   int32, 0 where all went well
    status_round: Array  # [..., seeds]   int32, the first round with a status
    seeds: Array  # [seeds]   their numbers
    points: tuple[tuple[Mapping[str, Any], ...], ...]  # one tuple of settings per leading axis
    chunk: int  # seeds per call of the compiled program
    capacity: int | None  # layers stored in the end

    @property
    def episodes(self) -> Array:
        """``rounds``, under the name they have where a round is an episode, [records]."""
        return self.rounds

    @property
    def regret(self) -> Array:
        """Cumulative pseudo-regret, [..., seeds, records]."""
        return self.records["regret"]

    def __getattr__(self, name: str) -> Array:
        """A record by its name."""
        records = self.__dict__.get("records", {})
        if name in records:
            return np.asarray(records[name])
        raise AttributeError(f"{name!r} was not recorded; the records are: {', '.join(records)}")

    def raise_if_failed(self) -> None:
        """Raise a :class:`SimulationError` that names the failed seeds with round and cause, if there are any."""
        failed = np.argwhere(self.status != 0)
        if len(failed) == 0:
            return
        lines = []
        for where in map(tuple, failed[:10]):
            setting = {k: v for axis, i in zip(self.points, where[:-1], strict=True) for k, v in axis[i].items()}
            cause = describe(int(self.status[where]))
            at = f" at {setting}" if setting else ""
            lines.append(f"  seed {self.seeds[where[-1]]}{at}: round {self.status_round[where]}, {cause}")
        more = f"\n  and {len(failed) - 10} more" if len(failed) > 10 else ""
        raise SimulationError(f"{len(failed)} of {self.status.size} runs failed:\n" + "\n".join(lines) + more)
