"""What is concluded: exponents in H, of regret and of its share of uniform play's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments import tuning
from experiments.by_value import regret_by_horizon
from experiments.experiment import Conclusions
from jaxvar.analysis import Interval, Slope, sample, slopes_in
from jaxvar.figures import against_parameter
from jaxvar.study.result import StudyResult
from jaxvar.tables import Column, Table

Array = np.ndarray[Any, Any]
UNIFORM = "Uniform play"


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Make tables and figure of the studies ``horizons`` and ``tune``."""
    horizons, tune = results["horizons"], results["tune"]
    if tuning.at_own_size(tune, Path(__file__).with_name("tune.toml")):
        tuning.check(tuning.chosen(tune), (horizons,))
    tables = {
        "exponents": exponents(horizons),
        "horizons": regret_by_horizon((horizons,)),
        "tuned": tuning.table(tune),
    }
    return Conclusions(tables, {"horizons": against_parameter(horizons, "horizon")})


def exponents(horizons: StudyResult) -> Table:
    """Show exponents in H, the longest horizon's regret over the shortest's, and what is left beside uniform play."""
    found = slopes_in(horizons, "horizon")
    uniform = {s.environment: s for s in found if s.algorithm == UNIFORM}
    rows = [
        (
            s.environment,
            s.algorithm,
            s.slope,
            relative_exponent(s, uniform[s.environment]) if s.algorithm != UNIFORM else None,
            growth(s),
        )
        for s in found
    ]
    first, last = (f"{found[0].x[i]:g}" for i in (0, -1))
    columns = (
        Column("environment"),
        Column("algorithm"),
        Column("exponent in H", "ends"),
        Column("beside uniform play", "ends"),
        Column(f"H = {last} over H = {first}", "ends"),
    )
    caption = (
        f"Exponents of regret in H after {horizons.cells[0].num_rounds:,} episodes over {found[0].seeds[0]} seeds: of "
        "regret, of its share of uniform play's regret at the same H, and the regret at the longest horizon over that "
        "at the shortest; 95 % bootstrap percentile intervals, seeds resampled together."
    )
    return Table(caption, columns, tuple(rows))


def relative_exponent(slope: Slope, reference: Slope, *, resamples: int = 2000, seed: int = 0) -> Interval:
    """Return the exponent minus the reference's: how regret grows if the reference's were the same at every H."""
    where = np.log(slope.x)
    weights = (where - where.mean()) / np.sum((where - where.mean()) ** 2)

    def difference(both: Array) -> Array:  # of means [..., 2, points]
        return (np.log(both[..., 0, :]) - np.log(both[..., 1, :])) @ weights

    return _bootstrap(np.stack([_final(slope), _final(reference)], axis=1), difference, "exponent", resamples, seed)


def growth(slope: Slope, *, resamples: int = 2000, seed: int = 0) -> Interval:
    """Return regret at the last point over that at the first."""
    return _bootstrap(_final(slope), lambda means: means[..., -1] / means[..., 0], "ratio", resamples, seed)


def _final(slope: Slope) -> Array:
    """Return final regret of the seeds that went well at every point, [seeds, points]."""
    samples = [sample(cell) for cell in slope.cells]
    if any(len(s.seeds) != len(samples[0].seeds) for s in samples):
        raise ValueError(f"{slope.algorithm} in {slope.environment}: seeds failed at some horizons only")
    return np.stack([s.final for s in samples], axis=1)


def _bootstrap(values: Array, statistic: Any, of: str, resamples: int, seed: int) -> Interval:
    """Return a statistic of the means over ``values [seeds, ...]`` with its percentile interval."""
    draws = np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))
    drawn = statistic(np.stack([values[index].mean(0) for index in draws]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(
        float(statistic(values.mean(0))), float(low), float(high), 0.95, "bootstrap percentile", of, len(values)
    )
