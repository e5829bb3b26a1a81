"""A fitted growth law beside what it was fitted to."""

from __future__ import annotations

import numpy as np

from jaxvar.analysis.captions import constants_text, seeds_text
from jaxvar.analysis.growth_law import GrowthFit
from jaxvar.figures.style import BLACK, BLUE, WIDTHS, Drawing, Width, finish, panels, plain, style


def growth_fit(fit: GrowthFit, *, width: Width = "icml") -> Drawing:
    """Draw observed means against fitted ones, and their ratio below."""
    with style():
        grid = panels(1, width, height=min(3.0, 0.8 * WIDTHS[width]))
        (axis,) = grid.axes
        axis.remove()
        upper, lower = grid.figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        ends = np.array([fit.fitted.min(), fit.fitted.max()])
        upper.plot(ends, ends, color=BLACK, linewidth=0.8)
        upper.plot(fit.fitted, fit.observed, "o", color=BLUE, markerfacecolor="none")
        upper.set(xscale="log", yscale="log")
        upper.set_ylabel(plain(f"observed {fit.record}"))
        lower.axhline(1.0, color=BLACK, linewidth=0.8)
        lower.plot(fit.fitted, fit.observed / fit.fitted, "o", color=BLUE, markerfacecolor="none")
        lower.set_ylabel("ratio")
        lower.set_xlabel(plain(f"fitted {fit.record}"))
        intervals = ", ".join(
            f"{name} [{low:.3g}, {high:.3g}]"
            for name, low, high in zip(fit.law.parameters, fit.low, fit.high, strict=True)
        )
        failed = f" ({fit.failed} more did not converge)" if fit.failed else ""
        seeds = seeds_text(fit.seeds, fit.left_out)
        caption = (
            f"{fit.describe()}, over {fit.resamples} resamples{failed} of {seeds}: {intervals}. "
            f"Root mean square of log(observed / fitted): {fit.spread:.2g}. {constants_text(fit.cells)}"
        )
        return finish(grid.figure, (), (), caption)
