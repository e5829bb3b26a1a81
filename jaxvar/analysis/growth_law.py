"""Growth laws such as ``regret = c * dim^a * round^b * variance^e + c2 * dim^a2``, fitted to mean regret.

A law is a sum of terms, each a positive coefficient times powers of factors; exponents are fitted or given. A factor is
a swept parameter, ``"round"`` (the recorded rounds), or a record such as ``"variance"`` (its mean over the seeds).
Intervals are percentiles over resampled seeds, and every resample is fitted anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from jaxvar import parameters
from jaxvar.analysis.sample import percent
from jaxvar.study.result import CellResult

Array = np.ndarray[Any, Any]
Scale = Literal["log", "relative"]


@dataclasses.dataclass(frozen=True)
class Term:
    """``c * prod factor^exponent`` with a fitted ``c > 0``; an exponent that is None is fitted too."""

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
            raise ValueError("terms must differ: two with the same factors and exponents cannot be told apart")

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of all factors."""
        return tuple(dict.fromkeys(factor for term in self.terms for factor in term.exponents))

    @property
    def free(self) -> tuple[tuple[int, str | None], ...]:
        """What is fitted, as (term, factor), where the factor None stands for the coefficient."""
        return tuple(
            (i, factor)
            for i, term in enumerate(self.terms)
            for factor in (None, *(f for f, exponent in term.exponents.items() if exponent is None))
        )

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of what is fitted."""
        many = len(self.terms) > 1
        return tuple(
            ("coefficient" if factor is None else f"exponent of {factor}") + (f" in term {i + 1}" if many else "")
            for i, factor in self.free
        )


@dataclasses.dataclass(frozen=True)
class GrowthFit:
    """A fitted law with intervals of what was fitted."""

    law: Law
    record: str
    scale: Scale
    estimate: Array  # [parameters]   in the order of ``law.parameters``
    low: Array  # [parameters]
    high: Array  # [parameters]
    level: float
    resamples: int  # that were fitted
    failed: int  # resamples whose fit did not converge: not among them
    resampled: str  # "jointly" where all cells have the same seeds, else "cell by cell"
    cells: tuple[CellResult, ...]
    points: tuple[str, ...]  # cell and round of each point
    observed: Array  # [points]   means over the seeds
    fitted: Array  # [points]
    seeds: tuple[int, ...]  # per cell
    left_out: int  # seeds that failed, in all cells

    @property
    def spread(self) -> float:
        """Root mean square of ``log(observed / fitted)``."""
        return float(np.sqrt(np.mean(np.log(self.observed / self.fitted) ** 2)))

    def predict(self, factors: Mapping[str, Any]) -> Array:
        """The law at given factors, of any shapes that broadcast."""
        missing = [name for name in self.law.factors if name not in factors]
        if missing:
            raise ValueError(f"factors must have {', '.join(missing)}")
        values = dict(zip(self.law.free, self.estimate, strict=True))
        total: Any = 0.0
        for i, term in enumerate(self.law.terms):
            part: Any = values[i, None]
            for name, exponent in term.exponents.items():
                power = values[i, name] if exponent is None else exponent
                part = part * np.asarray(factors[name], np.float64) ** power
            total = total + part
        return np.asarray(total)

    def describe(self) -> str:
        """The law in numbers, and how it was fitted."""
        values = dict(zip(self.law.free, self.estimate, strict=True))
        parts = []
        for i, term in enumerate(self.law.terms):
            powers = [f"{n}^{values[i, n] if e is None else e:.3g}" for n, e in term.exponents.items()]
            parts.append(" ".join([f"{values[i, None]:.3g}", *powers]))
        how = {"log": "least squares of logarithms", "relative": "least squares of relative errors"}[self.scale]
        return f"{self.record} = {' + '.join(parts)} ({how}; {percent(self.level)} bootstrap percentile intervals)"
