"""Summaries of one cell: the seeds that did not fail, a mean curve with its band, coverage, layers and speed."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.captions import cell_name, percent
from jaxvar.analysis.intervals import RESAMPLES, Array, Interval, mean_interval, proportion_interval, resampled_means
from jaxvar.study.result import CellResult

BandKind = Literal["simultaneous", "pointwise"]


@dataclasses.dataclass(frozen=True)
class Sample:
    """One record of a cell, for the seeds that did not fail."""

    cell: CellResult
    record: str
    values: Array  # [seeds, records, ...]   float64
    seeds: Array  # [seeds]   seed numbers
    left_out: int  # number of failed seeds

    @property
    def final(self) -> Array:
        """Values at the last recorded round, [seeds, ...]."""
        return self.values[:, -1]

    @property
    def curves(self) -> Array:
        """Values as one curve per seed, [seeds, records]; an error if the record has more than one number per round."""
        if self.values.ndim != 2:
            raise ValueError(
                f"{cell_name(self.cell)}: {self.record!r} must have one number per seed and round, got values of shape "
                f"{list(self.values.shape)}"
            )
        return self.values


def sample(cell: CellResult, record: str = "regret", *, at_least: int = 2) -> Sample:
    """Return the checked values of a record, for the seeds that did not fail.

    Raises:
      ValueError: the record is missing or has a wrong shape, a value is NaN or infinite, or fewer than ``at_least``
        seeds did not fail. The message names the cell.
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


@dataclasses.dataclass(frozen=True)
class Band:
    """A mean curve with its band."""

    rounds: Array  # [records]
    mean: Array  # [records]
    low: Array  # [records]
    high: Array  # [records]
    kind: BandKind
    how: str  # "t", or "bootstrap sup-t, 2,000 resamples"
    level: float
    critical: float  # half width in standard errors
    seeds: int
    left_out: int  # number of failed seeds

    def describe(self) -> str:
        """Describe the band, for captions."""
        return f"{self.kind} {percent(self.level)} band ({self.how})"


def band(
    cell: CellResult,
    record: str = "regret",
    *,
    kind: BandKind = "simultaneous",
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Band:
    """Return the mean of a record over the seeds, with a band over the recorded rounds.

    A pointwise band covers the mean at each recorded round with probability ``level``; a simultaneous band covers it at
    all recorded rounds at once. Both are ``mean ± critical * standard error``. The pointwise ``critical`` is Student's
    quantile. The simultaneous one is a quantile of the largest deviation ``max_k |mean*_k - mean_k| / se_k`` over
    resamples of whole curves. Each deviation is divided by ``sqrt(chi^2_{n-1} / (n-1))``, because the standard errors
    are estimates; with a single record the quantile is then Student's.
    """
    from scipy import special

    parameters.check_choice("kind", kind, ("simultaneous", "pointwise"))
    used = sample(cell, record)
    values, n = used.curves, len(used.seeds)
    mean = mean_interval(values, level).estimate
    critical, how = float(special.stdtrit(n - 1, 0.5 + level / 2)), "t"
    if kind == "simultaneous":
        critical = max(critical, _largest_deviation(values, level, resamples, seed))
        how = f"bootstrap sup-t, {resamples:,} resamples"
    half = critical * values.std(0, ddof=1) / np.sqrt(n)
    return Band(cell.rounds, mean, mean - half, mean + half, kind, how, level, critical, n, used.left_out)


def _largest_deviation(values: Array, level: float, resamples: int, seed: int) -> float:
    """Return the quantile of the studentised maximum over the records of ``values [seeds, records]``."""
    n = len(values)
    spread = values.std(0)
    varies = spread > 1e-12 * np.max(np.abs(values), axis=0)  # a constant record has a band of zero width
    if not np.any(varies):
        return 0.0
    standard = (values[:, varies] - values[:, varies].mean(0)) / spread[varies]
    deviation = np.sqrt(n) * np.max(np.abs(resampled_means(standard, resamples, seed)), axis=1)
    scale = np.random.default_rng([seed, 1]).chisquare(n - 1, size=resamples) / (n - 1)
    return float(np.quantile(deviation / np.sqrt(scale), level))


@dataclasses.dataclass(frozen=True)
class Coverage:
    """Seeds in which the confidence event held: the true parameter stayed in every confidence set."""

    cell: CellResult
    held: int  # number of seeds in which the event held in all layers up to the last round
    share: Interval  # share of the seeds, Clopper-Pearson
    by_layer: Array  # [layers]   share of the seeds in which the event held in this layer
    seeds: int
    left_out: int  # number of failed seeds


def coverage(cell: CellResult, *, level: float = 0.95) -> Coverage:
    """Count the seeds in which the confidence event held, in unrecorded rounds too: the record is cumulative."""
    events = sample(cell, "confidence", at_least=1)
    if events.values.ndim != 3 or not np.all(np.isin(events.values, (0, 1))):
        raise ValueError(
            f"{cell_name(cell)}: confidence must be true or false with shape [seeds, records, layers], "
            f"got shape {events.values.shape}"
        )
    held = int(np.sum(np.all(events.final == 1, axis=1)))
    seeds = len(events.seeds)
    share = proportion_interval(held, seeds, "share of seeds in which the confidence event held", level)
    return Coverage(cell, held, share, events.final.mean(0), seeds, events.left_out)


@dataclasses.dataclass(frozen=True)
class Occupancy:
    """Share of the rounds so far (in episodes: of the steps) that ended in each layer, averaged over the seeds."""

    cell: CellResult
    rounds: Array  # [records]
    share: Array  # [records, layers + 1]   entry 0: nothing was learned; unreached layers are cut off
    final: Interval  # [layers + 1]   share at the last round, Student's t
    seeds: int
    left_out: int  # number of failed seeds

    @property
    def deepest(self) -> int:
        """Deepest layer that any seed reached, counted from 1; 0 if none was reached."""
        return self.share.shape[1] - 1


def occupancy(cell: CellResult, *, level: float = 0.95) -> Occupancy:
    """Return the share of the rounds in each layer, from the record ``layer_rounds``."""
    counts = sample(cell, "layer_rounds")
    if counts.values.ndim != 3:
        raise ValueError(
            f"{cell_name(cell)}: layer_rounds must have shape [seeds, records, layers + 1], got {counts.values.shape}"
        )
    total = counts.values.sum(2, keepdims=True)
    if np.any(counts.values < 0) or np.any(total == 0):
        raise ValueError(f"{cell_name(cell)}: layer_rounds must be counts, at least one in every record")
    reached = np.flatnonzero(counts.values.any(axis=(0, 1)))[-1]
    share = (counts.values / total)[:, :, : reached + 1]
    final = mean_interval(share[:, -1], level)
    return Occupancy(cell, cell.rounds, share.mean(0), final, len(counts.seeds), counts.left_out)


@dataclasses.dataclass(frozen=True)
class Speed:
    """Wall time of a cell, without compilation."""

    cell: CellResult
    seeds: int  # number of seeds, including failed ones
    rounds: int  # rounds or episodes per seed
    seconds: float

    @property
    def seed_rounds_per_second(self) -> float | None:
        """Rounds of all seeds per second; None if no time was measured."""
        return self.seeds * self.rounds / self.seconds if self.seconds > 0 else None


def speed(cell: CellResult) -> Speed:
    """Return the wall time of a cell."""
    parameters.check_number(f"{cell_name(cell)}: seconds", cell.seconds, low=0.0)
    return Speed(cell, len(cell.seeds), cell.num_rounds, float(cell.seconds))
