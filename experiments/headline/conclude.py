"""The headline's table and figures: regret by algorithm and noise level."""

from __future__ import annotations

from experiments.experiment import Conclusions
from jaxvar.analysis import Interval, against_reference, mean_interval, sample
from jaxvar.analysis.captions import constants_text
from jaxvar.figures import against_parameter, regret_curves
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

LEVEL = "noise.std"


def conclude(result: StudyResult) -> Conclusions:
    """Make what the page shows."""
    finals = {id(cell): mean_interval(sample(cell).final) for cell in result.cells}
    differences = {id(pair.cell): pair.difference for pair in against_reference(result)}
    seeds, last = len(result.cells[0].seeds), int(result.cells[0].rounds[-1])
    caption = f"after {last:,} rounds over {seeds} seeds, mean ± half width of the 95 % t interval."
    constants = constants_text(result.cells)
    tables = {
        "regret": _by_noise(f"Regret {caption} {constants}", result, finals),
        "differences": _by_noise(
            f"Regret minus that of {result.reference} on the same seeds, {caption}", result, differences
        ),
    }
    return Conclusions(tables, {"regret": regret_curves(result), "against_noise": against_parameter(result, LEVEL)})


def _by_noise(caption: str, result: StudyResult, values: dict[int, Interval]) -> Table:
    """Show values, a line for each algorithm and a column for each noise level."""
    levels = list(dict.fromkeys(_level(cell) for cell in result.cells))
    rows = []
    for label in result.algorithms:
        found = {
            _level(cell): values[id(cell)] for cell in result.cells if cell.algorithm == label and id(cell) in values
        }
        if found:
            rows.append((label, *(found[level] for level in levels)))
    columns = (Column("algorithm"), *(Column(f"±{level:g}" if level else "no noise", "half") for level in levels))
    return Table(caption, columns, tuple(rows))


def _level(cell: CellResult) -> float:
    return float(cell.environment_settings[LEVEL])
