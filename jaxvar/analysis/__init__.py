"""What a study's numbers say: NumPy in, plain dataclasses out.

Seeds that failed are left out and counted; a NaN anywhere else is an error that names the cell.
"""

from jaxvar.analysis.bands import Band, band
from jaxvar.analysis.coverage import Coverage, coverage
from jaxvar.analysis.growth_fit import fit_growth_law
from jaxvar.analysis.growth_law import GrowthFit, Law, Term
from jaxvar.analysis.intervals import (
    Interval,
    bootstrap_interval,
    interval,
    mean_interval,
    median_interval,
    proportion,
    proportion_interval,
)
from jaxvar.analysis.occupancy import Occupancy, occupancy
from jaxvar.analysis.paired import Paired, against_reference, paired
from jaxvar.analysis.sample import Sample, sample
from jaxvar.analysis.slopes import Slope, slope_in_rounds, slopes_in, swept
from jaxvar.analysis.speed import Speed, speed

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
    "swept",
]
