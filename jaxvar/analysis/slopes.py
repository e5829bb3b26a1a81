"""Growth exponents: least squares slopes on logarithmic axes, in a swept parameter or in the rounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.intervals import Interval
from jaxvar.analysis.resampling import RESAMPLES, resampled_cells, resampled_means
from jaxvar.analysis.sample import Sample, algorithm_name, environment_name, named, sample, swept_value, value_text
from jaxvar.study.result import CellResult, StudyResult

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Slope:
    """``mean = exp(intercept) * parameter^slope``, or why there is no such line."""

    algorithm: str  # with the settings that are the same for all points
    environment: str
    cells: tuple[CellResult, ...]  # one per point, or the one whose curve it is
    record: str
    parameter: str
    x: Array  # [points]   values of the parameter
    mean: Array  # [points]   over the seeds
    used: Array  # [points]   bool, whether a point entered the line
    slope: Interval | None  # None where fewer than two points could enter
    intercept: float | None
    excluded: tuple[str, ...]  # the points that could not, with the reason
    resampled: str  # "jointly" where all points have the same seeds, else "cell by cell"
    seeds: tuple[int, ...]  # per cell
    left_out: int  # seeds that failed, in all cells

    def line(self, x: Array) -> Array:
        """The fitted line at ``x``."""
        if self.slope is None or self.intercept is None:
            raise ValueError(f"{self.algorithm} in {self.environment}: there is no line; {'; '.join(self.excluded)}")
        return np.exp(self.intercept) * np.asarray(x, np.float64) ** self.slope.estimate


def slopes_in(
    result: StudyResult,
    parameter: str,
    record: str = "regret",
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Slope, ...]:
    """The final record against a swept parameter, one line for each algorithm, environment and setting of the others.

    Args:
      result: the study.
      parameter: name of a swept parameter, of the environments or of the algorithms.
      record: what grows.
      level: of the intervals, which are percentiles over resampled seeds.
      resamples: how many.
      seed: of the resampling.
    """
    groups: dict[tuple[str, str], list[CellResult]] = {}
    for cell in result.cells:
        if swept_value(cell, parameter) is not None:
            groups.setdefault(_others(cell, parameter), []).append(cell)
    if not groups:
        raise ValueError(
            f"parameter must be a swept one ({', '.join(swept(result)) or 'none was swept'}), got {parameter!r}"
        )
    return tuple(
        _slope_of_cells(names, cells, parameter, record, level, resamples, seed) for names, cells in groups.items()
    )


def slope_in_rounds(
    cell: CellResult,
    record: str = "regret",
    *,
    burn_in: int = 1,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Slope:
    """The slope of one mean curve over the recorded rounds from ``burn_in`` on; whole curves are resampled."""
    parameters.check_count("burn_in", burn_in, high=int(cell.rounds[-1]))
    curve = sample(cell, record)
    late = cell.rounds >= burn_in
    values = _one_number_each(curve)[:, late]
    drawn = resampled_means(values, resamples, seed)
    x = cell.rounds[late].astype(np.float64)
    names = (algorithm_name(cell), environment_name(cell))
    return _slope(names, (curve,), "round", x, values.mean(0), drawn, level, "jointly")


def swept(result: StudyResult) -> tuple[str, ...]:
    """Names of the swept parameters with a number in every cell that has them, in the study's order."""
    found: dict[str, list[Any]] = {}
    for cell in result.cells:
        for name, value in {**cell.environment_settings, **cell.algorithm_settings}.items():
            found.setdefault(name, []).append(value)
    return tuple(name for name, values in found.items() if all(map(_is_number, values)) and len(set(values)) > 1)


def _slope_of_cells(
    names: tuple[str, str],
    cells: Sequence[CellResult],
    parameter: str,
    record: str,
    level: float,
    resamples: int,
    seed: int,
) -> Slope:
    x = [swept_value(cell, parameter) for cell in cells]
    wrong = [value for value in x if not _is_number(value)]
    if wrong:
        raise ValueError(f"parameter must have numbers as values, got {parameter!r} with {wrong[0]!r}")
    samples = tuple(sample(cell, record) for cell in cells)
    final = [_one_number_each(s)[:, -1] for s in samples]
    drawn, how = resampled_cells(final, [s.seeds for s in samples], resamples, seed)
    mean = np.array([v.mean() for v in final])
    return _slope(names, samples, parameter, np.array(x, np.float64), mean, np.stack(drawn, axis=1), level, how)


def _slope(
    names: tuple[str, str],
    samples: tuple[Sample, ...],
    parameter: str,
    x: Array,
    mean: Array,
    drawn: Array,
    level: float,
    resampled: str,
) -> Slope:
    """The line through ``log mean [points]``, and the spread of those through ``drawn [resamples, points]``."""
    parameters.check_number("level", level, low=0.0, high=1.0, low_open=True, high_open=True)
    record = samples[0].record
    used, excluded = _positive(parameter, record, x, mean, drawn)
    interval, intercept = None, None
    if len(set(x[used])) > 1:
        where = np.log(x[used])
        slopes, intercepts = _least_squares(where, np.log(np.vstack([mean[used], drawn[:, used]])))
        low, high = np.quantile(slopes[1:], [(1 - level) / 2, (1 + level) / 2])
        seeds = min(len(s.seeds) for s in samples)
        interval = Interval(slopes[0], low, high, level, "bootstrap percentile", "log-log slope", seeds)
        intercept = float(intercepts[0])
    else:
        excluded += (f"a slope needs two different values of {parameter}, got {len(set(x[used]))}",)
    return Slope(
        algorithm=names[0],
        environment=names[1],
        cells=tuple(s.cell for s in samples),
        record=record,
        parameter=parameter,
        x=x,
        mean=mean,
        used=used,
        slope=interval,
        intercept=intercept,
        excluded=excluded,
        resampled=resampled,
        seeds=tuple(len(s.seeds) for s in samples),
        left_out=sum(s.left_out for s in samples),
    )


def _positive(parameter: str, record: str, x: Array, mean: Array, drawn: Array) -> tuple[Array, tuple[str, ...]]:
    """Which points have a logarithm, and the names of those that have none."""
    reasons = {
        f"{parameter} is not positive": x <= 0,
        f"the mean {record} is not positive": (x > 0) & (mean <= 0),
        f"the mean {record} of some resamples is not positive": (x > 0) & (mean > 0) & np.any(drawn <= 0, axis=0),
    }
    excluded = [f"{parameter} = {_listed(x[where])}: {reason}" for reason, where in reasons.items() if np.any(where)]
    return ~np.any(list(reasons.values()), axis=0), tuple(excluded)


def _listed(values: Array) -> str:
    """A few values, or the range and the number of many."""
    if len(values) <= 4:
        return ", ".join(map(value_text, values))
    return f"{value_text(values.min())} to {value_text(values.max())} ({len(values)} points)"


def _least_squares(where: Array, values: Array) -> tuple[Array, Array]:
    """Slopes and intercepts of the lines through ``values [lines, points]`` at ``where [points]``."""
    centred = where - where.mean()
    slopes = values @ centred / np.sum(centred**2)
    return slopes, values.mean(1) - slopes * where.mean()


def _one_number_each(values: Sample) -> Array:
    if values.values.ndim != 2:
        raise ValueError(f"record must have one number per seed and round, which {values.record!r} has not")
    return values.values


def _others(cell: CellResult, parameter: str) -> tuple[str, str]:
    """Algorithm and environment with all settings but the parameter."""
    return (
        named(cell.algorithm, {k: v for k, v in cell.algorithm_settings.items() if k != parameter}),
        named(cell.environment, {k: v for k, v in cell.environment_settings.items() if k != parameter}),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
