"""Figures of a study, at a venue's width; matplotlib is imported when the first one is drawn."""

from jaxvar.figures.against_parameter import against_parameter
from jaxvar.figures.growth_fit import growth_fit
from jaxvar.figures.occupancy import layer_occupancy
from jaxvar.figures.of_study import draw_study
from jaxvar.figures.problems import pages
from jaxvar.figures.regret_curves import regret_curves
from jaxvar.figures.save import save
from jaxvar.figures.style import WIDTHS, Drawing

__all__ = [
    "WIDTHS",
    "Drawing",
    "against_parameter",
    "draw_study",
    "growth_fit",
    "layer_occupancy",
    "pages",
    "regret_curves",
    "save",
]
