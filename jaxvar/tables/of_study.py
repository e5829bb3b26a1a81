"""The tables of a study. Captions state the number of seeds, the kind of intervals and the constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from jaxvar.analysis import summaries
from jaxvar.analysis.captions import (
    algorithm_name,
    constants_text,
    environment_name,
    label_word,
    parameter_word,
    percent,
    seeds_text,
)
from jaxvar.analysis.intervals import mean_interval, median_interval
from jaxvar.analysis.paired import Paired, against_reference
from jaxvar.analysis.panels import recorded
from jaxvar.analysis.slopes import slope_in_rounds, slopes_in, swept
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables.render import Column, Entry, Table

_WHO = (Column("environment"), Column("algorithm"), Column("constants"))


def final_regret(result: StudyResult, *, record: str = "regret", level: float = 0.95) -> Table:
    """Return means and medians at the last round and, if the study has a reference, paired differences from it."""
    samples = [summaries.sample(cell, record) for cell in result.cells]
    pairs: dict[int, Paired] = {}
    if result.reference is not None:
        pairs = {id(p.cell): p for p in against_reference(result, record=record, level=level)}
    columns = [*_WHO, Column("seeds", "number"), Column("mean", "half"), Column("median", "ends")]
    if pairs:
        columns += [Column("difference", "half"), Column("less in", "ends")]
    rows = []
    for one in samples:
        row: list[Entry] = [*_who(one.cell), len(one.seeds)]
        row += [mean_interval(one.final, level), median_interval(one.final, level)]
        if pairs:
            pair = pairs.get(id(one.cell))
            row += [pair.difference, pair.wins] if pair else [None, None]
        rows.append(row)
    last = ", ".join(f"{k:,}" for k in sorted({int(cell.rounds[-1]) for cell in result.cells}))
    seeds = seeds_text([len(s.seeds) for s in samples], sum(s.left_out for s in samples))
    caption = (
        f"{record.capitalize()} after {last} {result.unit}s over {seeds}: mean ± half width of the {percent(level)} t "
        f"interval, and median with its {percent(level)} interval of order statistics."
    )
    if pairs:
        common = seeds_text([p.seeds for p in pairs.values()], 0)
        caption += (
            f" Difference: to {label_word(str(result.reference))} on the same seeds ({common} in common), mean ± half "
            f"width of the {percent(level)} t interval; less in: share of those seeds with less than the reference, "
            f"with the {percent(level)} Clopper-Pearson interval."
        )
    return _table(f"{caption} {constants_text(result.cells)}", columns, rows)


def exponents(result: StudyResult, *, record: str = "regret", burn_in: int | None = None, level: float = 0.95) -> Table:
    """Return log-log slopes in every swept number, and in the rounds from ``burn_in`` on.

    If ``burn_in`` is None, it is a tenth of the last round.
    """
    found = [slope for parameter in swept(result) for slope in slopes_in(result, parameter, record, level=level)]
    for cell in result.cells:
        first = max(1, int(cell.rounds[-1]) // 10) if burn_in is None else burn_in
        found.append(slope_in_rounds(cell, record, burn_in=first, level=level))
    names = [*_WHO, Column("in"), Column("exponent", "ends"), Column("points", "number")]
    rows = []
    for s in found:
        constants = ", ".join(dict.fromkeys(cell.constants for cell in s.cells))
        who = [s.environment, s.algorithm, constants, parameter_word(s.parameter)]
        row = [*who, s.slope, int(s.used.sum()), "; ".join(s.excluded)]
        rows.append(row)
    columns = [*names, Column("not used")]
    if not any(s.excluded for s in found):
        columns, rows = names, [row[:-1] for row in rows]
    samples = [summaries.sample(cell, record) for cell in result.cells]  # one cell may belong to several slopes
    seeds = seeds_text([len(s.seeds) for s in samples], sum(s.left_out for s in samples))
    from_round = "a tenth of the last one" if burn_in is None else f"{burn_in:,}"
    caption = (
        f"Slopes of log mean {record} over {seeds} by least squares, against the logarithm of a swept parameter or of "
        f"the {result.unit}s from {from_round} on, with {percent(level)} bootstrap percentile intervals over the seeds."
    )
    return _table(f"{caption} {constants_text(result.cells)}", columns, rows)


def coverage(result: StudyResult, *, level: float = 0.95) -> Table:
    """Return how often the confidence event held, for the cells that recorded it."""
    found = [summaries.coverage(cell, level=level) for cell in recorded(result.cells, "confidence")]
    columns = [*_WHO, Column("held", "number"), Column("seeds", "number"), Column("share", "ends")]
    rows: list[list[Entry]] = [[*_who(c.cell), c.held, c.seeds, c.share] for c in found]
    seeds = seeds_text([c.seeds for c in found], sum(c.left_out for c in found))
    caption = (
        f"Seeds in which the confidence event held in all layers and {result.unit}s, out of {seeds}, with the "
        f"{percent(level)} Clopper-Pearson interval of the share."
    )
    return _table(f"{caption} {constants_text([c.cell for c in found])}", columns, rows)


def occupancy(result: StudyResult, *, level: float = 0.95) -> Table:
    """Return the share of rounds per layer, for the cells that recorded it."""
    found = [summaries.occupancy(cell, level=level) for cell in recorded(result.cells, "layer_rounds")]
    deepest = max(o.deepest for o in found)
    layers = [Column("nothing learned", "half"), *(Column(f"layer {i}", "half") for i in range(1, deepest + 1))]
    rows = []
    for o in found:
        f = o.final
        shares = [
            dataclasses.replace(f, estimate=f.estimate[i], low=f.low[i], high=f.high[i]) if i <= o.deepest else None
            for i in range(deepest + 1)
        ]
        rows.append([*_who(o.cell), *shares])
    seeds = seeds_text([o.seeds for o in found], sum(o.left_out for o in found))
    what = "rounds" if result.unit == "round" else "steps"
    caption = (
        f"Share of {what} that ended in each layer: mean over {seeds} ± half width of the {percent(level)} t interval."
    )
    return _table(f"{caption} {constants_text([o.cell for o in found])}", [*_WHO, *layers], rows)


def speed(result: StudyResult) -> Table:
    """Return wall time and seed-rounds per second."""
    found = [summaries.speed(cell) for cell in result.cells]
    numbers = ("seeds", f"{result.unit}s", "seconds", f"seed-{result.unit}s per second")
    columns = [*_WHO, *(Column(name, "number") for name in numbers)]
    rows = [[*_who(s.cell), s.seeds, s.rounds, _short(s.seconds), _short(s.seed_rounds_per_second)] for s in found]
    seeds = seeds_text([s.seeds for s in found], 0)
    caption = (
        f"Wall time of each cell over {seeds}, including failed ones, without compilation; measured once, without "
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
    """Return the names of the tables for which the study has the records."""
    needed = {"regret": "regret", "exponents": "regret", "coverage": "confidence", "occupancy": "layer_rounds"}
    recorded = {name for cell in result.cells for name in cell.records}
    return tuple(name for name in TABLES if needed.get(name) is None or needed[name] in recorded)


def _who(cell: CellResult) -> tuple[str, str, str]:
    """Return the entries of the first three columns."""
    return environment_name(cell), algorithm_name(cell), cell.constants


def _table(caption: str, columns: Iterable[Column], rows: Iterable[Iterable[Entry]]) -> Table:
    return Table(caption, tuple(columns), tuple(map(tuple, rows)))


def _short(value: float | None) -> float | None:
    """Round to three significant digits: a measured time has no more."""
    return None if value is None else float(f"{value:.3g}")
