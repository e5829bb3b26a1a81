"""What the studies beside this file say about regret and variance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from experiments import tuning
from experiments.by_value import exponent_table, regret_table, rows
from experiments.experiment import Conclusions
from experiments.measures import exponents, ratio
from experiments.variance.figure import figures
from jaxvar.analysis import mean_interval, paired, sample
from jaxvar.analysis.paired import reference_of
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Make tables and figures; the tuned multipliers must be those that ``tune`` finds."""
    levels, told, tune = (results[name] for name in ("levels", "told", "tune"))
    if tuning.at_own_size(tune, Path(__file__).with_name("tune.toml")):
        tuning.check(tuning.chosen(tune), results.values())
    tables = {
        "tuned": tuning.table(tune),
        "levels": regret_table(
            levels, "noise.std", f"Regret after {_rounds(levels)} at every noise level (95 % t intervals).", "std"
        ),
        "exponents": _exponents(levels),
        "floors": _floors(levels),
        "printed": _printed(results["printed"]),
        "told": _told(told),
        "loose": _loose(told),
        "shapes": _shapes(results["shapes"]),
    }
    return Conclusions(tables, figures(tables, levels.cells[0].num_rounds))


def _rounds(result: StudyResult) -> str:
    return f"{result.cells[0].num_rounds:,} rounds over {len(result.cells[0].seeds):,} seeds"


def _exponents(levels: StudyResult) -> Table:
    """Show exponents in the total variance K std^2: half of those in the standard deviation."""
    ranges = {"all five decades": (0.0, 1.0), "lower three, to std 0.1": (0.0, 0.1), "upper two": (0.1, 1.0)}
    found = {title: exponents(levels, "noise.std", *ends, power=2.0) for title, ends in ranges.items()}
    growth = {name: ratio(cells[max(cells)], cells[min(cells)]) for name, cells in rows(levels, "noise.std").items()}
    caption = (
        f"Exponents of regret in the total variance after {_rounds(levels)} (95 % bootstrap intervals), and regret at "
        "the loudest level over that at the quietest. The bound has the exponent 0.5."
    )
    return exponent_table({**found, "loudest / quietest": growth}, caption)


def _floors(levels: StudyResult) -> Table:
    """Show from which noise on the part of regret that the noise makes is the larger one."""
    lines: list[tuple[object, ...]] = []
    for name, cells in rows(levels, "noise.std").items():
        std = np.array(sorted(cells))
        mean = np.array([sample(cells[s]).final.mean() for s in std])
        above = int(np.argmax(mean > 2 * mean[0])) if mean[-1] > 2 * mean[0] else None
        if above is None:
            lines.append((*name, mean[0], None, None))
            continue
        two = slice(above - 1, above + 1)
        doubled = float(np.exp(np.interp(np.log(2 * mean[0]), np.log(mean[two]), np.log(std[two]))))
        rounds = next(iter(cells.values())).num_rounds * (doubled / 0.1) ** 2
        lines.append((*name, mean[0], doubled, round(rounds)))
    titles = (
        Column("problem"),
        Column("algorithm"),
        Column("floor", "number"),
        Column("std at twice the floor", "number"),
    )
    caption = (
        "The floor, which is the mean regret at the quietest level; the noise std at which regret is twice that, by "
        "interpolation of logarithms; and the rounds after which std 0.1 would do the same, if what noise adds grows "
        "as std √K and the floor does not grow. Empty: not reached."
    )
    return Table(caption, (*titles, Column("rounds for std 0.1", "number")), tuple(lines))


def _printed(printed: StudyResult) -> Table:
    lines = []
    for (_, algorithm), cells in rows(printed, "noise.std").items():
        quiet, loud = (sample(cells[pick(cells)]).final for pick in (min, max))
        lines.append((algorithm, mean_interval(quiet), mean_interval(loud), int((quiet == loud).sum()), len(quiet)))
    titles = [Column("algorithm"), Column("quietest", "half"), Column("loudest", "half")]
    columns = (*titles, Column("seeds with equal regret", "number"), Column("of", "number"))
    caption = f"The printed constants after {_rounds(printed)}, noise std 0.003 and 1 (95 % t intervals)."
    return Table(caption, columns, tuple(lines))


def _told(told: StudyResult) -> Table:
    means = regret_table(
        told,
        "noise_bound",
        f"Regret after {_rounds(told)} at noise std 0.1 against the bound R that is told (95 % t intervals), and its "
        "exponent in R (95 % bootstrap intervals).",
        "R =",
    )
    slopes = exponents(told, "noise_bound")
    lines = tuple((*line, slopes[line[0], line[1]]) for line in means.rows)
    return Table(means.caption, (*means.columns, Column("exponent", "ends")), lines)


def _loose(told: StudyResult) -> Table:
    """Compare layered algorithms and LOSAN with OFUL with the same kind of constants, at every R."""
    found = {algorithm: cells for (_, algorithm), cells in rows(told, "noise_bound").items()}
    lines = []
    for algorithm, reference in _rivals(told):
        for bound, cell in found[algorithm].items():
            other = found[reference][bound]
            lines.append((algorithm, reference, bound, ratio(cell, other), paired(cell, other).difference))
    titles = (Column("algorithm"), Column("against"), Column("R", "number"), Column("ratio", "ends"))
    caption = (
        "Regret over that of OFUL told the same R (95 % bootstrap intervals), and the difference, paired by seed "
        "(95 % t intervals). Noise std 0.1."
    )
    return Table(caption, (*titles, Column("difference", "half")), tuple(lines))


def _rivals(told: StudyResult) -> list[tuple[str, str]]:
    """Pair what is not proved with what is not proved, and proved with proved."""
    paper = next(a for a in told.algorithms if a.startswith("OFUL (paper"))
    tuned = next(a for a in told.algorithms if a.startswith("OFUL (tuned"))
    others = [a for a in told.algorithms if a not in (paper, tuned)]
    return [(a, tuned if "(tuned" in a else paper) for a in others]


def _shapes(shapes: StudyResult) -> Table:
    """Compare each algorithm at each kind of noise with itself at constant noise and with the known variances."""
    by_name = {(c.environment, c.algorithm): c for c in shapes.cells}
    constant = shapes.environments[0]
    told = next(a for a in shapes.algorithms if a.startswith("Weighted OFUL+ (tuned"))  # the variance of every pull

    def line(cell: CellResult) -> tuple[object, ...]:
        itself = by_name[constant, cell.algorithm]
        known = reference_of(shapes, cell, told)
        return (
            cell.environment,
            cell.algorithm,
            mean_interval(sample(cell).final),
            None if cell is itself else ratio(cell, itself),
            None if cell is known else paired(cell, known).difference,
        )

    columns = (
        Column("noise"),
        Column("algorithm"),
        Column("regret", "half"),
        Column("over its own at constant size", "ends"),
        Column(f"minus {told}", "half"),
    )
    caption = (
        f"Three kinds of noise with nearly the same total variance, {_rounds(shapes)}: means and paired differences "
        "with 95 % t intervals, ratios with 95 % bootstrap intervals."
    )
    return Table(caption, columns, tuple(map(line, shapes.cells)))
