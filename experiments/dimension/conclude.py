"""What the studies beside this file say about regret and dimension."""

from __future__ import annotations

from collections.abc import Mapping

from experiments import tuning
from experiments.by_value import exponent_table, regret_table, rows
from experiments.experiment import FOLDER, Conclusions
from experiments.measures import exponents, ratio
from jaxvar.analysis.captions import value_text
from jaxvar.figures import against_parameter
from jaxvar.study.result import StudyResult
from jaxvar.tables import Column, Table

UNIFORM = "Uniform play"
SWEPT = {"sphere": "dim", "cube": "cube_dim"}  # by study


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Make tables and figures; the tuned multipliers are those of the experiment on variance."""
    tuning.check(tuning.found_in(FOLDER / "variance" / "found.json"), results.values())
    tables = {}
    for name, parameter in SWEPT.items():
        tables[name] = regret_table(results[name], parameter, _caption(results[name]), "d =")
        tables[f"{name}_shares"] = _shares(results[name], parameter)
    tables["exponents"] = _exponents(results)
    return Conclusions(tables, {name: against_parameter(results[name], SWEPT[name]) for name in SWEPT})


def _size(result: StudyResult) -> str:
    first = result.cells[0]
    return f"after {first.num_rounds:,} rounds over {len(first.seeds):,} seeds"


def _caption(result: StudyResult) -> str:
    return f"Mean regret {_size(result)} with 95 % t intervals."


def _exponents(results: Mapping[str, StudyResult]) -> Table:
    sphere, cube = results["sphere"], results["cube"]
    found = {
        "all dimensions": {**exponents(sphere, "dim"), **exponents(cube, "cube_dim")},
        "lower half": {**exponents(sphere, "dim", 2, 8), **exponents(cube, "cube_dim", 2, 4)},
        "upper half": {**exponents(sphere, "dim", 8, 32), **exponents(cube, "cube_dim", 4, 6)},
    }
    caption = (
        "Exponents of regret in d with 95 % bootstrap intervals. Halves are 2 to 8 and 8 to 32 on the sphere, 2 to 4 "
        "and 4 to 6 on the cube, whose features have one more coordinate than the cube."
    )
    return exponent_table(found, caption)


def _shares(result: StudyResult, parameter: str) -> Table:
    """Show regret over uniform play's, which tells how the size of the rewards changes with the dimension."""
    found = rows(result, parameter)
    values = list(next(iter(found.values())))
    lines = [
        (environment, algorithm, *(ratio(cells[v], found[environment, UNIFORM][v]) for v in values))
        for (environment, algorithm), cells in found.items()
        if algorithm != UNIFORM
    ]
    columns = [Column("problem"), Column("algorithm"), *(Column(f"d = {value_text(v)}", "ends") for v in values)]
    caption = f"Mean regret over that of uniform play {_size(result)} (95 % bootstrap intervals)."
    return Table(caption, tuple(columns), tuple(lines))
