"""The tables of a study: captions say how many seeds, which intervals and which constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from jaxvar.analysis.captions import constants_text, seeds_text
from jaxvar.analysis.coverage import coverage as covered
from jaxvar.analysis.intervals import mean_interval, median_interval
from jaxvar.analysis.occupancy import occupancy as occupied
from jaxvar.analysis.paired import Paired, against_reference
from jaxvar.analysis.sample import algorithm_name, environment_name, percent, sample
from jaxvar.analysis.slopes import slope_in_rounds, slopes_in, swept
from jaxvar.analysis.speed import speed as timed
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables.render import Column, Table

_WHO = (Column("environment"), Column("algorithm"))


def final_regret(result: StudyResult, *, record: str = "regret", level: float = 0.95) -> Table:
    """Mean, median and, where the study has a reference, the paired difference to it, at the last round."""
    samples = [sample(cell, record) for cell in result.cells]
    pairs: dict[int, Paired] = {}
    if result.reference is not None:
        pairs = {id(p.cell): p for p in against_reference(result, record=record, level=level)}
    columns = [*_WHO, Column("constants"), Column("seeds", "number"), Column("mean", "half"), Column("median", "ends")]
    if pairs:
        columns += [Column("difference", "half"), Column("less in", "ends")]
    rows = []
    for one in samples:
        row = [*_who(one.cell), one.cell.constants, len(one.seeds)]
        row += [mean_interval(one.final, level), median_interval(one.final, level)]
        pair = pairs.get(id(one.cell))
        rows.append([*row, pair and pair.difference, pair and pair.wins] if pairs else row)
    last = ", ".join(f"{k:,}" for k in sorted({int(cell.rounds[-1]) for cell in result.cells}))
    seeds = seeds_text([len(s.seeds) for s in samples], sum(s.left_out for s in samples))
    caption = (
        f"{record.capitalize()} after {last} {result.unit}s over {seeds}: mean ± half width of the {percent(level)} t "
        f"interval, and median with its {percent(level)} interval of order statistics."
    )
    if pairs:
        common = seeds_text([p.seeds for p in pairs.values()], 0)
        caption += (
            f" Difference: to {result.reference} on the same seeds ({common} in common), mean ± half width of the "
            f"{percent(level)} t interval; less in: share of those seeds with less than the reference, with the "
            f"{percent(level)} Clopper-Pearson interval."
        )
    return _table(f"{caption} {constants_text(result.cells)}", columns, rows)


def exponents(result: StudyResult, *, record: str = "regret", burn_in: int | None = None, level: float = 0.95) -> Table:
    """Log-log slopes in every swept number, and in the rounds from ``burn_in`` on: by default a tenth of the last."""
    found = [slope for parameter in swept(result) for slope in slopes_in(result, parameter, record, level=level)]
    for cell in result.cells:
        first = max(1, int(cell.rounds[-1]) // 10) if burn_in is None else burn_in
        found.append(slope_in_rounds(cell, record, burn_in=first, level=level))
    names = [*_WHO, Column("constants"), Column("in"), Column("exponent", "ends"), Column("points", "number")]
    rows = []
    for s in found:
        constants = ", ".join(dict.fromkeys(cell.constants for cell in s.cells))
        row = [s.environment, s.algorithm, constants, s.parameter, s.slope, int(s.used.sum()), "; ".join(s.excluded)]
        rows.append(row)
    columns = [*names, Column("not used")]
    if not any(s.excluded for s in found):
        columns, rows = names, [row[:-1] for row in rows]
    samples = [sample(cell, record) for cell in result.cells]  # a cell may be in several lines
    seeds = seeds_text([len(s.seeds) for s in samples], sum(s.left_out for s in samples))
    from_round = "a tenth of the last one" if burn_in is None else f"{burn_in:,}"
    caption = (
        f"Slopes of log mean {record} over {seeds} by least squares, against the logarithm of a swept parameter or of "
        f"the {result.unit}s from {from_round} on, with {percent(level)} bootstrap percentile intervals over the seeds."
    )
    return _table(f"{caption} {constants_text(result.cells)}", columns, rows)


def coverage(result: StudyResult, *, level: float = 0.95) -> Table:
    """Seeds in which the confidence event held, for the cells that recorded it."""
    found = [covered(cell, level=level) for cell in _recorded(result, "confidence")]
    columns = [*_WHO, Column("constants"), Column("held", "number"), Column("seeds", "number"), Column("share", "ends")]
    rows = [[*_who(c.cell), c.cell.constants, c.held, c.seeds, c.share] for c in found]
    seeds = seeds_text([c.seeds for c in found], sum(c.left_out for c in found))
    caption = (
        f"In how many of {seeds} the confidence event held in all layers and {result.unit}s, with the "
        f"{percent(level)} Clopper-Pearson interval of the share."
    )
    return _table(f"{caption} {constants_text([c.cell for c in found])}", columns, rows)


def occupancy(result: StudyResult, *, level: float = 0.95) -> Table:
    """Share of rounds per layer, for the cells that recorded it."""
    found = [occupied(cell, level=level) for cell in _recorded(result, "layer_rounds")]
    deepest = max(o.deepest for o in found)
    layers = [Column("nothing learned", "half"), *(Column(f"layer {i}", "half") for i in range(1, deepest + 1))]
    rows = []
    for o in found:
        f = o.final
        shares = [
            dataclasses.replace(f, estimate=f.estimate[i], low=f.low[i], high=f.high[i]) if i <= o.deepest else None
            for i in range(deepest + 1)
        ]
        rows.append([*_who(o.cell), o.cell.constants, *shares])
    seeds = seeds_text([o.seeds for o in found], sum(o.left_out for o in found))
    what = "rounds" if result.unit == "round" else "steps"
    caption = (
        f"Share of {what} that ended in each layer: mean over {seeds} ± half width of the {percent(level)} t interval."
    )
    return _table(f"{caption} {constants_text([o.cell for o in found])}", [*_WHO, Column("constants"), *layers], rows)


def speed(result: StudyResult) -> Table:
    """Wall time and seed-rounds per second."""
    found = [timed(cell) for cell in result.cells]
    numbers = ("seeds", f"{result.unit}s", "seconds", f"seed-{result.unit}s per second")
    columns = [*_WHO, Column("constants"), *(Column(name, "number") for name in numbers)]
    rows = [
        [*_who(s.cell), s.cell.constants, s.seeds, s.rounds, _short(s.seconds), _short(s.seed_rounds_per_second)]
        for s in found
    ]
    seeds = seeds_text([s.seeds for s in found], 0)
    caption = (
        f"Wall time of each cell over {seeds}, failed ones included, compilation left out; measured once, without "
        f"intervals. {constants_text(result.cells)}"
    )
    return _table(caption, columns, rows)


TABLES: dict[str, Callable[[StudyResult], Table]] = {
    "regret": final_regret,
    "exponents": exponents,
    "coverage": coverage,
    "occupancy": occupancy,
    "speed": speed,
}


def available(result: StudyResult) -> tuple[str, ...]:
    """Names of the tables for which the study has the records."""
    needed = {"regret": "regret", "exponents": "regret", "coverage": "confidence", "occupancy": "layer_rounds"}
    recorded = {name for cell in result.cells for name in cell.records}
    return tuple(name for name in TABLES if needed.get(name) is None or needed[name] in recorded)


def _who(cell: CellResult) -> tuple[str, str]:
    return environment_name(cell), algorithm_name(cell)


def _recorded(result: StudyResult, record: str) -> list[CellResult]:
    cells = [cell for cell in result.cells if record in cell.records]
    if not cells:
        raise ValueError(f"{record} was recorded in no cell of the study")
    return cells


def _table(caption: str, columns: Iterable[Column], rows: Iterable[Iterable[Any]]) -> Table:
    return Table(caption, tuple(columns), tuple(map(tuple, rows)))


def _short(value: float | None) -> float | None:
    """Three significant digits: more are not measured."""
    return None if value is None else float(f"{value:.3g}")
