"""Figures of a study at the width of a venue; matplotlib is imported when the first figure is drawn."""

from jaxvar.analysis.panels import pages
from jaxvar.figures.growth import against_parameter, growth_fit
from jaxvar.figures.look import WIDTHS, user_style
from jaxvar.figures.of_study import draw_study
from jaxvar.figures.problems import layer_occupancy, regret_curves
from jaxvar.figures.seeds import paired_differences, spread
from jaxvar.figures.style import Drawing, save

__all__ = [
    "WIDTHS",
    "Drawing",
    "against_parameter",
    "draw_study",
    "growth_fit",
    "layer_occupancy",
    "pages",
    "paired_differences",
    "regret_curves",
    "save",
    "spread",
    "user_style",
]
