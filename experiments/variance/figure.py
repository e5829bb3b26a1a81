"""Regret against the total variance and against the bound that is told, drawn from the tables of the experiment.

``python -m experiments.variance.figure`` draws both again from ``found.json``, without playing anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.found import read_found
from jaxvar.analysis import Interval
from jaxvar.analysis.captions import parameter_word, record_word, seeds_text, value_text
from jaxvar.figures.look import GREY, Look, looks, style
from jaxvar.figures.style import Drawing, finish, panels, save
from jaxvar.tables import Table

FOLDER = Path(__file__).parent


def figures(tables: Mapping[str, Table], rounds: int) -> dict[str, Drawing]:
    """Draw the tables ``levels`` and ``told``, which are of studies with this number of rounds."""
    return {"levels": _against_total_variance(tables["levels"], rounds), "told": _against_bound(tables["told"], rounds)}


def _against_total_variance(levels: Table, rounds: int) -> Drawing:
    """Draw means with t intervals over K std^2 on logarithmic axes, and a line of the bound's exponent."""
    problems = dict.fromkeys(row[0] for row in levels.rows)
    look = looks([str(row[1]) for row in levels.rows])
    std, columns = _values(levels, "std ")
    total = rounds * std**2
    handles: dict[str, Any] = {}
    with style():
        grid = panels(len(problems), "a4", height=2.6, sharex=True, sharey=True, names=len(look) + 1)
        for axis, problem in zip(grid.axes, problems, strict=True):
            axis.set(xscale="log", yscale="log")
            (bound,) = axis.plot(total, np.sqrt(total), color=GREY, alpha=0.4, linewidth=4)
            handles["exponent 1/2, as in the bound"] = bound
            for row in (row for row in levels.rows if row[0] == problem):
                name = str(row[1])
                handles[name] = _points(axis, total, [row[c] for c in columns], look[name], look[name].dash)
            grid.title(axis, str(problem))
        grid.xlabel("total variance")
        caption = (
            f"Mean regret after {rounds:,} rounds over {_seeds(levels)} with 95 % t intervals; everyone is told "
            "R = 1. Constants as the names say."
        )
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel=record_word("regret"))


def _against_bound(told: Table, rounds: int) -> Drawing:
    """Draw means with t intervals over the bound R, lines by least squares, and their exponents below the names."""
    look = looks([str(row[1]) for row in told.rows])
    bounds, columns = _values(told, "R = ")
    handles: dict[str, Any] = {}
    notes: dict[str, str] = {}
    with style():
        grid = panels(1, "a4", height=2.9)
        (axis,) = grid.axes
        axis.set(xscale="log", yscale="log")
        for row in told.rows:
            name, means, slope = str(row[1]), [row[c] for c in columns], row[-1]
            handles[name] = _points(axis, bounds, means, look[name], "none")
            notes[name] = f"{slope.estimate:.2f} [{slope.low:.2f}, {slope.high:.2f}]"  # type: ignore[union-attr]
            line = np.polyfit(np.log(bounds), np.log([m.estimate for m in means]), 1)  # type: ignore[union-attr]
            fitted = np.exp(np.polyval(line, np.log(bounds)))
            axis.plot(bounds, fitted, color=look[name].colour, linestyle=look[name].dash, linewidth=0.8)
        axis.set_xticks(bounds, [value_text(float(bound)) for bound in bounds])
        axis.minorticks_off()
        grid.title(axis, str(told.rows[0][0]))
        grid.xlabel(parameter_word("noise_bound"))
        caption = (
            f"Mean regret after {rounds:,} rounds over {_seeds(told)} with 95 % t intervals, noise std 0.1; lines by "
            "least squares of logarithms. Below the names: slopes with 95 % bootstrap percentile intervals. Constants "
            "as the names say."
        )
        ylabel = record_word("regret")
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel=ylabel, notes={axis: notes})


def _values(table: Table, title: str) -> tuple[np.ndarray, list[int]]:
    """Return the numbers in the titles of columns that begin with ``title``, and the indices of these columns."""
    columns = [i for i, column in enumerate(table.columns) if column.title.startswith(title)]
    return np.array([float(table.columns[i].title.removeprefix(title)) for i in columns]), columns


def _seeds(table: Table) -> str:
    return seeds_text([value.seeds for row in table.rows for value in row if isinstance(value, Interval)], 0)


def _points(axis: Any, x: np.ndarray, means: list[Any], look: Look, dash: Any) -> Any:
    """Draw means with their intervals."""
    found: list[Interval] = means
    return axis.errorbar(
        x,
        np.array([one.estimate for one in found]),
        yerr=[one.half for one in found],
        color=look.colour,
        linestyle=dash,
        marker=look.marker,
        elinewidth=0.8,
        capsize=1.5,
    )


def main() -> None:
    """Draw both figures again from what was found."""
    found = read_found(FOLDER / "found.json")
    for name, drawing in figures(found.tables, found.studies["levels"]["study"]["rounds"]).items():
        pdf, png = save(drawing, FOLDER / name)
        for path in (pdf, *FOLDER.glob(f"{name}.caption.*")):
            path.unlink()  # the page shows the picture
        print(png)


if __name__ == "__main__":
    main()
