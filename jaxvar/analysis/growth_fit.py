"""Fits growth laws: standardised logarithms, least squares, resamples, and whether the points determine the law."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.growth_law import GrowthFit, Law, Scale
from jaxvar.analysis.growth_points import Observations, alive, check_points, observe
from jaxvar.analysis.growth_solver import Problem, response, solve
from jaxvar.study.result import CellResult

Array = np.ndarray[Any, Any]
_MOST_FAILED = 0.1  # share of the resamples without a fit, above which their percentiles say little
_FLAT = 1e-6  # smallest singular value of the response, relative to the largest, that counts as a slope


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
      law: what to fit.
      cells: where the factors differ.
      record: what grows.
      burn_in: use the recorded rounds from this one on; None uses the last one only.
      scale: squares of ``log(fitted / observed)``, or of ``fitted / observed - 1``.
      level: of the intervals.
      resamples: of the seeds; each is fitted.
      seed: of the resampling.

    Raises:
      ValueError: where the points cannot tell the law's parameters apart, a mean is not positive, or a fit did not
        converge.
    """
    parameters.check_choice("scale", scale, ("log", "relative"))
    parameters.check_number("level", level, low=0.0, high=1.0, low_open=True, high_open=True)
    if not cells:
        raise ValueError("cells must not be empty")
    seen = observe(law, cells, record, burn_in, resamples, seed)
    check_points(law, seen, record)
    standard = Standard.of(law, seen)
    problem = standard.problem(seen)

    best = solve(problem.rows(slice(0, 1)), scale)
    if not best.converged[0]:
        raise ValueError(f"law: the fit did not converge; its slope is still {best.slope[0]:.1e}")
    _check_identified(law, response(problem, best.values[0]))
    drawn = solve(problem.rows(slice(1, None)), scale, start=best.values[0])
    failed = int(np.sum(~drawn.converged))
    if failed > _MOST_FAILED * resamples:
        raise ValueError(f"law: {failed} of {resamples} resamples could not be fitted: the points hardly determine it")

    estimate = standard.back(best.values)[0]
    _check_zeros(law, seen, estimate)
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


def _check_identified(law: Law, slopes: Array) -> None:
    """Refuse a fit along which the parameters can move without a change of the fitted points."""
    _, singular, directions = np.linalg.svd(slopes)
    if singular[-1] <= _FLAT * singular[0]:
        flat = np.abs(directions[-1])
        which = [name for name, part in zip(law.parameters, flat, strict=True) if part > 0.1 * flat.max()]
        raise ValueError(f"law: the points cannot tell apart: {', '.join(which)}; they can move without a worse fit")


def _check_zeros(law: Law, seen: Observations, estimate: Array) -> None:
    """A term was taken to vanish where one of its factors is zero; its exponent must agree."""
    for (i, name), value in zip(law.free, estimate, strict=True):
        if name is not None and value <= 0 and np.any(seen.factors[name][0] == 0):
            raise ValueError(
                f"law: the exponent of {name!r} in term {i + 1} came out as {value:g}, and the factor is 0 in some "
                "points; leave those points out"
            )


@dataclasses.dataclass(frozen=True)
class Standard:
    """Logarithms with mean 0 and spread 1, in which all parameters have about the same size."""

    law: Law
    centre: float  # of the logarithm of the record
    means: Mapping[str, float]  # of the logarithms of the factors
    scales: Mapping[str, float]
    alive: Array  # [terms, points]

    @staticmethod
    def of(law: Law, seen: Observations) -> Standard:
        logs = {name: np.log(values[0][values[0] > 0]) for name, values in seen.factors.items()}
        means = {name: float(x.mean()) for name, x in logs.items()}
        scales = {name: float(x.std()) if np.ptp(x) > 0 else 1.0 for name, x in logs.items()}
        return Standard(law, float(np.log(seen.values[0]).mean()), means, scales, alive(law, seen))

    def problem(self, seen: Observations) -> Problem:
        """``log fitted = logsumexp_t(design_t @ values + offset_t)``, for every row of the observations."""
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
        """Coefficients and exponents of the law from standardised ones, ``[rows, parameters]``."""
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
