"""Statistics of a study: NumPy arrays in, plain dataclasses out.

Failed seeds are left out and counted. A NaN in any other seed is an error that names the cell.
"""

from jaxvar.analysis.growth import GrowthFit, Law, Term, fit_growth_law
from jaxvar.analysis.intervals import (
    Interval,
    bootstrap_interval,
    interval,
    mean_interval,
    median_interval,
    proportion,
    proportion_interval,
)
from jaxvar.analysis.paired import Paired, against_reference, paired, standings
from jaxvar.analysis.slopes import Slope, slope_in_rounds, slopes_in, swept
from jaxvar.analysis.summaries import Band, Coverage, Occupancy, Sample, Speed, band, coverage, occupancy, sample, speed

__all__ = [
    "Band",
    "Coverage",
    "GrowthFit",
    "Interval",
    "Law",
    "Occupancy",
    "Paired",
    "Sample",
    "Slope",
    "Speed",
    "Term",
    "against_reference",
    "band",
    "bootstrap_interval",
    "coverage",
    "fit_growth_law",
    "interval",
    "mean_interval",
    "median_interval",
    "occupancy",
    "paired",
    "proportion",
    "proportion_interval",
    "sample",
    "slope_in_rounds",
    "slopes_in",
    "speed",
    "standings",
    "swept",
]
