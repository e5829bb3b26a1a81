"""Growth laws such as ``regret = c * dim^a * round^b * variance^e + c2 * dim^a2``, fitted to mean regret.

A law is a sum of terms. A term is a positive coefficient times powers of factors; each exponent is fitted or given. A
factor is a swept parameter, ``"round"`` (the recorded rounds), or a record such as ``"variance"`` (its mean over the
seeds). Intervals are percentiles over resampled seeds, and every resample is fitted anew.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from jaxvar import parameters
from jaxvar.analysis.captions import cell_name, percent
from jaxvar.analysis.growth_solver import Problem, response, solve
from jaxvar.analysis.intervals import Array, check_level, resampled_cells
from jaxvar.analysis.slopes import swept_value
from jaxvar.analysis.summaries import sample
from jaxvar.study.result import CellResult

Scale = Literal["log", "relative"]
_MOST_FAILED = 0.1  # if a larger share of the resamples has no fit, their percentiles say little
_FLAT = 1e-6  # a singular value of the response below this share of the largest one counts as zero


@dataclasses.dataclass(frozen=True)
class Term:
    """One term ``c * prod factor^exponent`` with a fitted ``c > 0``; exponents given as None are fitted too."""

    exponents: Mapping[str, float | None]


@dataclasses.dataclass(frozen=True)
class Law:
    """A sum of terms."""

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        if not self.terms:
            raise ValueError("terms must not be empty")
        for term in self.terms:
            for factor, exponent in term.exponents.items():
                if exponent is not None:
                    parameters.check_number(f"exponent of {factor}", exponent)
        kinds = [tuple(sorted(term.exponents.items(), key=str)) for term in self.terms]
        if len(set(kinds)) < len(kinds):
            raise ValueError("terms must differ: two terms with the same factors and exponents cannot be told apart")

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of all factors."""
        return tuple(dict.fromkeys(factor for term in self.terms for factor in term.exponents))

    @property
    def free(self) -> tuple[tuple[int, str | None], ...]:
        """Fitted parameters as (term, factor); the factor None stands for the coefficient."""
        return tuple(
            (i, factor)
            for i, term in enumerate(self.terms)
            for factor in (None, *(f for f, exponent in term.exponents.items() if exponent is None))
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the fitted parameters."""
        many = len(self.terms) > 1
        return tuple(
            ("coefficient" if factor is None else f"exponent of {factor}") + (f" in term {i + 1}" if many else "")
            for i, factor in self.free
        )


@dataclasses.dataclass(frozen=True)
class GrowthFit:
    """A fitted law, with intervals for its parameters."""

    law: Law
    record: str
    scale: Scale
    estimate: Array  # [parameters]   in the order of ``law.parameters``
    low: Array  # [parameters]
    high: Array  # [parameters]
    level: float
    resamples: int  # number of resamples whose fit converged
    failed: int  # number of resamples whose fit did not converge
    resampled: str  # "jointly" if all cells have the same seeds, else "cell by cell"
    cells: tuple[CellResult, ...]
    points: tuple[str, ...]  # cell and round of each point
    observed: Array  # [points]   means over the seeds
    fitted: Array  # [points]
    seeds: tuple[int, ...]  # number of seeds per cell
    left_out: int  # number of failed seeds in all cells

    @property
    def spread(self) -> float:
        """Root mean square of ``log(observed / fitted)``."""
        return float(np.sqrt(np.mean(np.log(self.observed / self.fitted) ** 2)))

    @property
    def terms(self) -> list[tuple[float, dict[str, float]]]:
        """Coefficient and exponents of each term."""
        values = dict(zip(self.law.free, self.estimate.tolist(), strict=True))
        return [
            (values[i, None], {name: values[i, name] if e is None else e for name, e in term.exponents.items()})
            for i, term in enumerate(self.law.terms)
        ]

    def predict(self, factors: Mapping[str, npt.ArrayLike]) -> Array:
        """Return the law at given factors, in the shape that the factors broadcast to."""
        missing = [name for name in self.law.factors if name not in factors]
        if missing:
            raise ValueError(f"factors must have a value for every factor of the law; missing: {', '.join(missing)}")
        arrays = {name: np.asarray(factors[name], np.float64) for name in self.law.factors}
        terms = [math.prod((arrays[n] ** e for n, e in powers.items()), start=c) for c, powers in self.terms]
        return np.asarray(sum(terms))

    def describe(self) -> str:
        """Describe the fitted law and the method, for captions."""
        parts = [" ".join([f"{c:.3g}", *(f"{n}^{e:.3g}" for n, e in powers.items())]) for c, powers in self.terms]
        how = {"log": "least squares of logarithms", "relative": "least squares of relative errors"}[self.scale]
        return f"{self.record} = {' + '.join(parts)} ({how}; {percent(self.level)} bootstrap percentile intervals)"


def fit_growth_law(
    law: Law,
    cells: Sequence[CellResult],
    record: str = "regret",
    *,
    burn_in: int | None = None,
    scale: Scale = "log",
    level: float = 0.95,
    resamples: int = 500,
    seed: int = 0,
) -> GrowthFit:
    """Fit a law to the mean record of cells, which are usually one algorithm's.

    Args:
      law: the law to fit.
      cells: cells in which the factors differ.
      record: name of the record to fit.
      burn_in: use the recorded rounds from this one on; None uses the last round only.
      scale: ``log`` minimises squares of ``log(fitted / observed)``, ``relative`` those of ``fitted / observed - 1``.
      level: level of the intervals.
      resamples: number of resamples of the seeds; each is fitted.
      seed: seed of the resampling.

    Raises:
      ValueError: the points cannot tell the law's parameters apart, a mean is not positive, or the fit did not
        converge.
    """
    parameters.check_choice("scale", scale, ("log", "relative"))
    check_level(level)
    if not cells:
        raise ValueError("cells must not be empty")
    seen = observe(law, cells, record, burn_in, resamples, seed)
    check_points(law, seen, record)
    standard = Standard.of(law, seen)
    problem = standard.problem(seen)

    best = solve(problem.rows(slice(0, 1)), scale)
    if not best.converged[0]:
        raise ValueError(f"law: the fit did not converge; its gradient is still {best.slope[0]:.1e}")
    _, singular, directions = np.linalg.svd(response(problem, best.values[0]))
    if singular[-1] <= _FLAT * singular[0]:
        flat = np.abs(directions[-1])
        which = [name for name, part in zip(law.parameters, flat, strict=True) if part > 0.1 * flat.max()]
        raise ValueError(
            f"law: the points cannot tell apart: {', '.join(which)}; these can change together without a worse fit"
        )
    drawn = solve(problem.rows(slice(1, None)), scale, start=best.values[0])
    failed = int(np.sum(~drawn.converged))
    if failed > _MOST_FAILED * resamples:
        raise ValueError(
            f"law: the fits of {failed} of {resamples} resamples did not converge; use more points, more seeds, or a "
            "law with fewer parameters"
        )

    estimate = standard.back(best.values)[0]
    for (i, name), value in zip(law.free, estimate, strict=True):
        if name is not None and value <= 0 and np.any(seen.factors[name][0] == 0):  # its term was taken to be zero
            raise ValueError(
                f"law: the fitted exponent of {name!r} in term {i + 1} is {value:g}, and the factor is 0 in some "
                "points; leave those points out"
            )
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(standard.back(drawn.values[drawn.converged]), tails, axis=0)
    return GrowthFit(
        law=law,
        record=record,
        scale=scale,
        estimate=estimate,
        low=low,
        high=high,
        level=level,
        resamples=resamples - failed,
        failed=failed,
        resampled=seen.resampled,
        cells=tuple(cells),
        points=seen.names,
        observed=seen.values[0],
        fitted=np.exp(best.fitted[0] + standard.centre),
        seeds=seen.seeds,
        left_out=seen.left_out,
    )


@dataclasses.dataclass(frozen=True)
class Standard:
    """The scale of the fit: logarithms with mean 0 and spread 1, so that all parameters have about the same size."""

    law: Law
    centre: float  # mean logarithm of the record
    means: Mapping[str, float]  # mean logarithm of each factor
    scales: Mapping[str, float]  # standard deviation of the logarithm of each factor
    alive: Array  # [terms, points]   bool, True where a term is above zero

    @staticmethod
    def of(law: Law, seen: Observations) -> Standard:
        """Compute means and spreads over all points."""
        logs = {name: np.log(values[0][values[0] > 0]) for name, values in seen.factors.items()}
        means = {name: float(x.mean()) for name, x in logs.items()}
        scales = {name: float(x.std()) if np.ptp(x) > 0 else 1.0 for name, x in logs.items()}
        return Standard(law, float(np.log(seen.values[0]).mean()), means, scales, alive(law, seen))

    def problem(self, seen: Observations) -> Problem:
        """Return the problem ``log fitted = logsumexp_t(design_t @ values + offset_t)`` of every row."""
        rows, points = seen.values.shape
        design = np.zeros((rows, len(self.law.terms), points, len(self.law.free)))
        offset = np.zeros((rows, len(self.law.terms), points))
        place = {free: p for p, free in enumerate(self.law.free)}
        for i, term in enumerate(self.law.terms):
            design[:, i, :, place[i, None]] = 1.0
            for name, exponent in term.exponents.items():
                values = np.where(self.alive[i], seen.factors[name], 1.0)
                centred = np.where(self.alive[i], np.log(values) - self.means[name], 0.0)
                if exponent is None:
                    design[:, i, :, place[i, name]] = centred / self.scales[name]
                else:
                    offset[:, i] += exponent * centred
        offset += np.where(self.alive, 0.0, -1e30)
        return Problem(design, offset, np.log(seen.values) - self.centre)

    def back(self, values: Array) -> Array:
        """Return the law's coefficients and exponents from standardised ones, [rows, parameters]."""
        out = values.copy()
        place = {free: p for p, free in enumerate(self.law.free)}
        for i, term in enumerate(self.law.terms):
            log_coefficient = values[:, place[i, None]] + self.centre
            for name, exponent in term.exponents.items():
                if exponent is None:
                    power = values[:, place[i, name]] / self.scales[name]
                    out[:, place[i, name]] = power
                else:
                    power = np.full(len(values), exponent)
                log_coefficient = log_coefficient - power * self.means[name]
            out[:, place[i, None]] = np.exp(log_coefficient)
        return out


@dataclasses.dataclass(frozen=True)
class Observations:
    """Means at the points of all cells. The first row is over all seeds; each further row is a resample."""

    names: tuple[str, ...]  # [points]
    values: Array  # [1 + resamples, points]
    factors: Mapping[str, Array]  # name -> [1 + resamples, points]
    resampled: str
    seeds: tuple[int, ...]
    left_out: int


def observe(
    law: Law, cells: Sequence[CellResult], record: str, burn_in: int | None, resamples: int, seed: int
) -> Observations:
    """Return the means of the record and of the factors over seeds and resamples, for all used cells and rounds."""
    random = [name for name in law.factors if name != "round" and any(name in c.records for c in cells)]
    stacks, given, seeds, names, left_out = list[Array](), list[dict[str, Array]](), list[Array](), list[str](), 0
    for cell in cells:
        samples = [sample(cell, name) for name in (record, *random)]
        used = cell.rounds >= (cell.rounds[-1] if burn_in is None else parameters.check_count("burn_in", burn_in))
        if not np.any(used):
            raise ValueError(f"{cell_name(cell)}: burn_in must be at most {cell.rounds[-1]}, got {burn_in}")
        stacks.append(np.stack([s.curves[:, used] for s in samples], axis=1))  # [seeds, 1 + random, points]
        rounds = cell.rounds[used].astype(np.float64)
        given.append({name: _given(cell, name, rounds) for name in law.factors if name not in random})
        seeds.append(samples[0].seeds)
        names += [f"{cell_name(cell)}, round {k:,.0f}" for k in rounds]
        left_out += samples[0].left_out
    drawn, how = resampled_cells(stacks, seeds, resamples, seed)
    rows = [np.concatenate([stack.mean(0)[None], means]) for stack, means in zip(stacks, drawn, strict=True)]
    every = np.concatenate(rows, axis=2)  # [1 + resamples, 1 + random, points]
    factors = {name: every[:, 1 + i] for i, name in enumerate(random)}
    for name in law.factors:
        if name not in random:
            fixed = np.concatenate([one[name] for one in given])
            factors[name] = np.broadcast_to(fixed, (len(every), len(fixed)))
    return Observations(tuple(names), every[:, 0], factors, how, tuple(map(len, seeds)), left_out)


def _given(cell: CellResult, name: str, rounds: Array) -> Array:
    """Return a factor that is not a record, at each of the ``rounds``, [rounds]."""
    if name == "round":
        return rounds
    value = swept_value(cell, name)
    if value is None:
        raise ValueError(
            f"law: the factor {name!r} must be 'round', a record ({', '.join(cell.records)}) or a swept parameter of "
            f"every cell; {cell_name(cell)} has none of that name"
        )
    return np.full(len(rounds), parameters.check_number(f"{cell_name(cell)}: {name}", value), np.float64)


def check_points(law: Law, seen: Observations, record: str) -> None:
    """Raise an error for points without logarithms, factors that do not vary, or too few points."""
    for name, numbers in {record: seen.values, **seen.factors}.items():
        if name == record:
            wrong = np.any(numbers <= 0, axis=0)
        else:  # a factor may be zero in all resamples: its terms are then zero
            wrong = np.any(numbers < 0, axis=0) | (np.any(numbers == 0, axis=0) & np.any(numbers > 0, axis=0))
        if np.any(wrong):
            at = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"{seen.names[at]}: the mean of {name!r} must be positive in all resamples to have a logarithm, got "
                f"{numbers[0, at]:g} over all seeds, and {numbers[:, at].min():g} in one resample; "
                f"{int(np.sum(wrong)) - 1} more such points"
            )
    for i, term in enumerate(law.terms):
        for name, exponent in term.exponents.items():
            logs = np.log(seen.factors[name][0][seen.factors[name][0] > 0])
            if exponent is None and (len(logs) == 0 or np.ptp(logs) < 1e-9):
                raise ValueError(
                    f"law: {name!r} is {seen.factors[name][0, 0]:g} in all points, so that its exponent in term "
                    f"{i + 1} cannot be fitted; give the exponent, leave the factor out, or add cells where it differs"
                )
            if exponent is not None and exponent <= 0 and np.any(seen.factors[name][0] == 0):
                raise ValueError(f"law: {name!r} is 0 in some points, so that its exponent must be positive")
    some = np.any(alive(law, seen), axis=0)
    if not np.all(some):
        at = int(np.flatnonzero(~some)[0])
        raise ValueError(f"{seen.names[at]}: every term of the law is 0, but the mean of {record!r} is not")
    if len(seen.names) < len(law.free):
        raise ValueError(f"law: {len(law.free)} parameters need at least as many points, got {len(seen.names)}")


def alive(law: Law, seen: Observations) -> Array:
    """Return whether each term is above zero at each point, [terms, points]."""
    points = len(seen.names)
    return np.stack(
        [
            np.all([seen.factors[name][0] > 0 for name in term.exponents] or [np.ones(points, bool)], axis=0)
            for term in law.terms
        ]
    )
