"""Least squares for sums of powers, by SciPy's Levenberg-Marquardt.

A problem fits ``log f = logsumexp_t(design_t @ values + offset_t)`` to ``target [points]`` by its ``values
[parameters]``, on the scale of logarithms or of relative errors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxvar.analysis.intervals import Array

_STARTS = 64
_MOST_STEPS = 500
_SLOPE = 1e-8  # largest entry of the gradient at which a fit has converged


class Problem(NamedTuple):
    """A problem, or with a leading axis many problems of one shape."""

    design: Array  # [terms, points, parameters]
    offset: Array  # [terms, points]
    target: Array  # [points]

    def row(self, which: int) -> Problem:
        """Return one of many problems."""
        return Problem(*(x[which] for x in self))


class Solution(NamedTuple):
    """The fit of one problem."""

    values: Array  # [parameters]
    fitted: Array  # [points]   log f
    loss: float
    slope: float  # largest entry of the gradient

    @property
    def converged(self) -> bool:
        """True if the gradient is zero but for rounding."""
        return self.slope <= _SLOPE


def solve(problem: Problem, scale: str) -> Solution:
    """Return the best fit from 64 fixed starts: one where all terms are equal and constant, and others around it."""
    terms, _, parameters = problem.design.shape
    starts = np.random.default_rng(0).normal(size=(_STARTS, parameters)) - np.log(terms)
    starts[0] = -np.log(terms)
    found = [solve_from(start, problem, scale) for start in starts]
    return min(found, key=lambda fit: fit.loss if fit.converged else np.inf)


def solve_from(start: Array, problem: Problem, scale: str) -> Solution:
    """Return the fit that starts from ``start [parameters]``."""
    from scipy import optimize

    def gaps(values: Array) -> Array:
        gap = respond(problem, values)[0] - problem.target
        return gap if scale == "log" else np.expm1(np.minimum(gap, 50.0))

    def slopes(values: Array) -> Array:
        fitted, response = respond(problem, values)
        gap = (fitted - problem.target)[:, None]
        return response if scale == "log" else np.where(gap < 50.0, np.exp(np.minimum(gap, 50.0)), 0.0) * response

    exact = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}
    found = optimize.least_squares(gaps, start, slopes, method="lm", max_nfev=_MOST_STEPS, **exact)
    slope = 2 * np.max(np.abs(found.grad)) / len(problem.target)
    return Solution(found.x, respond(problem, found.x)[0], float(np.mean(found.fun**2)), float(slope))


def respond(problem: Problem, values: Array) -> tuple[Array, Array]:
    """Return the fitted logarithms, [points], and their derivatives by the values, [points, parameters]."""
    parts = problem.design @ values + problem.offset
    largest = parts.max(0)
    shares = np.exp(parts - largest)
    total = shares.sum(0)
    return largest + np.log(total), np.einsum("tn,tnp->np", shares / total, problem.design)
