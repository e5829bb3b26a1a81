"""Growth exponents: least-squares slopes on logarithmic axes, in a swept parameter or in the rounds."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.captions import algorithm_name, cell_name, environment_name, parameter_word, value_text
from jaxvar.analysis.intervals import RESAMPLES, Array, Interval, check_level, resampled_cells, resampled_means
from jaxvar.analysis.panels import grouped
from jaxvar.analysis.summaries import Sample, sample
from jaxvar.study.result import CellResult, StudyResult


@dataclasses.dataclass(frozen=True)
class Slope:
    """The fitted line ``mean = exp(intercept) * parameter^slope``, or the reasons why there is none."""

    algorithm: str  # name with the settings that all points share
    environment: str  # name with the settings that all points share
    cells: tuple[CellResult, ...]  # one per point, or one cell for a slope in the rounds
    record: str
    parameter: str
    x: Array  # [points]   values of the parameter
    mean: Array  # [points]   mean over the seeds
    used: Array  # [points]   bool, True for points that the line was fitted to
    slope: Interval | None  # None if fewer than two points could be used
    intercept: float | None
    excluded: tuple[str, ...]  # points that could not be used, with the reason
    resampled: str  # "jointly" if all points have the same seeds, else "cell by cell"
    seeds: tuple[int, ...]  # number of seeds per cell
    left_out: int  # number of failed seeds in all cells

    def line(self, x: Array) -> Array:
        """Return the fitted line at ``x``, in the shape of ``x``."""
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
    """Fit the final record against a swept parameter, one line per algorithm, environment and other settings.

    Args:
      result: the study.
      parameter: name of a swept parameter, of the environments or of the algorithms.
      record: name of the record to fit.
      level: level of the intervals, which are percentiles over resampled seeds.
      resamples: number of resamples.
      seed: seed of the resampling.
    """

    def other_settings(cell: CellResult) -> tuple[str, str]:
        rest = without(cell, parameter)
        return algorithm_name(rest), environment_name(rest)

    groups = grouped((c for c in result.cells if swept_value(c, parameter) is not None), other_settings)
    if not groups:
        raise ValueError(
            f"parameter must be a swept one ({', '.join(swept(result)) or 'none was swept'}), got {parameter!r}"
        )
    slopes = []
    for names, cells in groups.items():
        x = [swept_value(cell, parameter) for cell in cells]
        wrong = [value for value in x if not _is_number(value)]
        if wrong:
            raise ValueError(f"parameter must have numbers as values, got {wrong[0]!r} for {parameter!r}")
        samples = tuple(sample(cell, record) for cell in cells)
        final = [s.curves[:, -1] for s in samples]
        drawn, how = resampled_cells(final, [s.seeds for s in samples], resamples, seed)
        mean, means = np.array([v.mean() for v in final]), np.stack(drawn, axis=1)
        slopes.append(_slope(names, samples, parameter, np.array(x, np.float64), mean, means, level, how))
    return tuple(slopes)


def slope_in_rounds(
    cell: CellResult,
    record: str = "regret",
    *,
    burn_in: int = 1,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Slope:
    """Fit one mean curve over the recorded rounds from ``burn_in`` on; whole curves are resampled."""
    parameters.check_count("burn_in", burn_in, high=int(cell.rounds[-1]))
    curve = sample(cell, record)
    late = cell.rounds >= burn_in
    values = curve.curves[:, late]
    drawn = resampled_means(values, resamples, seed)
    x = cell.rounds[late].astype(np.float64)
    names = (algorithm_name(cell), environment_name(cell))
    return _slope(names, (curve,), "round", x, values.mean(0), drawn, level, "jointly")


def swept(result: StudyResult) -> tuple[str, ...]:
    """Return the names of the swept parameters whose values are all numbers, in the study's order."""
    found: dict[str, list[object]] = {}
    for cell in result.cells:
        for name, value in {**cell.environment_settings, **cell.algorithm_settings}.items():
            found.setdefault(name, []).append(value)
    return tuple(name for name, values in found.items() if all(map(_is_number, values)) and len(set(values)) > 1)


def swept_value(cell: CellResult, parameter: str) -> object:
    """Return the cell's value of a swept parameter of its environment or algorithm; None if it was not swept."""
    found: list[object] = [s[parameter] for s in (cell.environment_settings, cell.algorithm_settings) if parameter in s]
    if len(found) == 2 and found[0] != found[1]:
        raise ValueError(
            f"{cell_name(cell)}: {parameter!r} is swept in the environment and in the algorithm, with different values"
        )
    return found[0] if found else None


def without(cell: CellResult, parameter: str) -> CellResult:
    """Return the cell as if the parameter had not been swept."""
    both = (cell.algorithm_settings, cell.environment_settings)
    player, problem = ({k: v for k, v in settings.items() if k != parameter} for settings in both)
    return dataclasses.replace(cell, algorithm_settings=player, environment_settings=problem)


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
    """Fit the line through ``log mean [points]``, with the interval from ``drawn [resamples, points]``."""
    check_level(level)
    record, word = samples[0].record, parameter_word(parameter)
    reasons = {  # why points have no logarithm
        f"{word} is not positive": x <= 0,
        f"the mean {record} is not positive": (x > 0) & (mean <= 0),
        f"the mean {record} of some resamples is not positive": (x > 0) & (mean > 0) & np.any(drawn <= 0, axis=0),
    }
    excluded = [f"{word} = {_listed(x[where])}: {reason}" for reason, where in reasons.items() if np.any(where)]
    used = ~np.any(list(reasons.values()), axis=0)
    interval, intercept = None, None
    if len(set(x[used])) > 1:
        where, values = np.log(x[used]), np.log(np.vstack([mean[used], drawn[:, used]]))  # least squares of each row
        centred = where - where.mean()
        slopes = values @ centred / np.sum(centred**2)
        low, high = np.quantile(slopes[1:], [(1 - level) / 2, (1 + level) / 2])
        seeds = min(len(s.seeds) for s in samples)
        interval = Interval(slopes[0], low, high, level, "bootstrap percentile", "log-log slope", seeds)
        intercept = float(values[0].mean() - slopes[0] * where.mean())
    else:
        excluded.append(f"a slope needs two different values of {word}, got {len(set(x[used]))}")
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
        excluded=tuple(excluded),
        resampled=resampled,
        seeds=tuple(len(s.seeds) for s in samples),
        left_out=sum(s.left_out for s in samples),
    )


def _listed(values: Array) -> str:
    """Return up to four values as text, or the range and the number of more."""
    if len(values) <= 4:
        return ", ".join(map(value_text, values))
    return f"{value_text(values.min())} to {value_text(values.max())} ({len(values)} points)"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
