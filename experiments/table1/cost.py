"""What a round costs: wall time relative to OFUL's in the same dimension, and how it grows with the dimension."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.table1 import labels
from experiments.table1.measured import BY_NAME
from jaxvar.analysis import Speed, speed
from jaxvar.study.result import StudyResult
from jaxvar.tables import Column, Table


def seconds_per_round(result: StudyResult) -> dict[str, dict[int, float]]:
    """Return seconds per round and seed by algorithm and dimension, over all cells that play them."""
    measured: dict[str, dict[int, list[Speed]]] = {}
    for cell in result.cells:
        dim = int(cell.environment_settings["dim"])
        measured.setdefault(labels.of(cell).name, {}).setdefault(dim, []).append(speed(cell))
    return {name: {dim: _seconds(speeds) for dim, speeds in by.items()} for name, by in measured.items()}


def _seconds(speeds: Sequence[Speed]) -> float:
    return sum(s.seconds for s in speeds) / sum(s.seeds * s.rounds for s in speeds)


def table(results: Sequence[StudyResult]) -> Table:
    """Show ratios to OFUL in the same study, and exponents in d."""
    found = {}
    for result in results:
        times = seconds_per_round(result)
        for name, by in times.items():
            if name not in found:
                found[name] = (by, {d: t / times["OFUL"][d] for d, t in by.items()})
    dims = sorted({d for by, _ in found.values() for d in by})
    rows = []
    for name in sorted(found, key=list(BY_NAME).index):
        by, ratios = found[name]
        logs = np.log([[d, t] for d, t in by.items()])
        exponent = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
        claimed = "polynomial" if BY_NAME[name].efficient else "exponential in d"
        rows.append((name, claimed, *(ratios.get(d) for d in dims), 1e6 * by[dims[0]], exponent))
    caption = (
        "Wall time of a round of one seed, compilation left out, as a multiple of OFUL's in the same dimension, and "
        "its exponent in d. Measured once, without intervals, on whatever else the machine did: digits beyond the "
        "first are not to be trusted."
    )
    columns = (
        Column("algorithm"),
        Column("claimed"),
        *(Column(f"x OFUL, d = {d}", "number") for d in dims),
        Column(f"microseconds, d = {dims[0]}", "number"),
        Column("exponent in d", "number"),
    )
    return Table(caption, columns, tuple(rows))
