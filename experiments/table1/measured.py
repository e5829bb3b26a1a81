"""Claims beside what was measured: regret in both regimes, exponents in rounds, total variance and dimension."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from experiments.table1 import labels
from experiments.table1.bounds import Size, exponent
from experiments.table1.labels import Label
from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.analysis import Interval, mean_interval, paired, sample, slope_in_rounds, slopes_in
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

QUIET, NOISY = 0.0, 1.0  # noise levels of the two regimes, where R = 1
LOUD = 0.1  # exponents in the total variance are taken from this noise level on
BY_NAME = {claim.name: claim for claim in CLAIMS}


def claims(names: Sequence[str]) -> Table:
    """Show what is claimed, row by row."""
    rows = []
    for name in names:
        claim = BY_NAME[name]
        efficient = "yes" if claim.efficient else "no"
        source = "in the table" if claim.table == 1 else "added"
        rows.append((name, source, claim.regret, claim.deterministic, claim.variance, efficient, claim.printed))
    titles = ("algorithm", "row", "regret", "without noise", "variances", "efficient", "printed otherwise")
    return Table("What is claimed, up to logarithms.", tuple(map(Column, titles)), tuple(rows))


def regret(results: Sequence[StudyResult]) -> Table:
    """Show final regret in both regimes."""
    rows = []
    for result in results:
        quiet, noisy = (_by_label(labels.at_noise(result, level)) for level in (QUIET, NOISY))
        for label in noisy:
            claim = BY_NAME[label.name]
            row: list[object] = [label.name, label.constants, noisy[label].num_rounds]
            for cells, claimed in ((noisy, claim.regret), (quiet, claim.deterministic)):
                row += [claimed, mean_interval(sample(cells[label]).final), _beyond_oful(label, cells)]
            rows.append(tuple(row))
    caption = (
        f"Regret after so many rounds at d = 2 with noise of standard deviation {NOISY:g} and without noise, mean ± "
        f"half width of the 95 % t interval, beside the claims; and the difference, seed by seed, to OFUL with "
        f"constants of the same kind (of the paper where there is none)."
    )
    columns = [Column("algorithm"), Column("constants"), Column("rounds", "number")]
    for regime in ("noisy", "noiseless"):
        columns += [Column(f"{regime}: claimed"), Column("measured", "half"), Column("minus OFUL", "half")]
    return Table(caption, tuple(columns), tuple(sorted(rows, key=order)))


def growth(results: Sequence[StudyResult]) -> Table:
    """Show exponents in the rounds and in the total variance."""
    rows = []
    for result in results:
        levels = [level for level in labels.noise_levels(result) if level >= LOUD]
        variances = {labels.read(s.algorithm): s for s in slopes_in(labels.at_noise(result, *levels), "noise.std")}
        cells = [_by_label(labels.at_noise(result, level)) for level in (NOISY, QUIET)]
        for label in cells[0]:
            row: list[object] = [label.name, label.constants]
            last = cells[0][label].num_rounds
            for by, level in zip(cells, (NOISY, QUIET), strict=True):
                sizes = Size(2, last / 10, last / 10 * level**2), Size(2, last, last * level**2)
                row += [exponent(label.name, sizes, 10), _in_rounds(by[label])]
            ends = Size(2, last, last * min(levels) ** 2), Size(2, last, last * max(levels) ** 2)
            # The total variance is K times the square of the standard deviation.
            row += [
                exponent(label.name, ends, ends[1].variance / ends[0].variance),
                _times(variances[label].slope, 0.5),
            ]
            rows.append(tuple(row))
    caption = (
        f"Exponents: slopes of log mean regret over the last tenfold of the rounds, noisy and noiseless, and in the "
        f"total variance (noise of standard deviation {LOUD:g} to {NOISY:g}); measured with 95 % bootstrap percentile "
        f"intervals, claimed as the claimed bound, terms of lower order included, grows over the same range."
    )
    names = ("in K, noisy", "in K, noiseless", "in total variance")
    return Table(caption, _columns(names), tuple(sorted(rows, key=order)))


def growth_in_dimension(results: Sequence[StudyResult]) -> Table:
    """Show exponents in d."""
    rows = []
    for result in results:
        found = [
            {labels.read(s.algorithm): s for s in slopes_in(labels.at_noise(result, level), "dim")}
            for level in (NOISY, QUIET)
        ]
        for label, slope in found[0].items():
            ends = float(slope.x.min()), float(slope.x.max())
            row: list[object] = [label.name, label.constants]
            rounds = slope.cells[0].num_rounds
            for by, level in zip(found, (NOISY, QUIET), strict=True):
                sizes = Size(ends[0], rounds, rounds * level**2), Size(ends[1], rounds, rounds * level**2)
                row += [exponent(label.name, sizes, ends[1] / ends[0]), by[label].slope]
            rows.append((*row, f"{ends[0]:g} to {ends[1]:g}", rounds))
    caption = (
        "Exponents in the dimension: slopes of log mean final regret with 95 % bootstrap percentile intervals, and as "
        "the claimed bound grows over the same range."
    )
    columns = (*_columns(("in d, noisy", "in d, noiseless")), Column("d"), Column("rounds", "number"))
    return Table(caption, columns, tuple(sorted(rows, key=order)))


def _columns(quantities: Sequence[str]) -> tuple[Column, ...]:
    pairs = [(Column(f"{name}: claimed", "number"), Column("measured", "ends")) for name in quantities]
    return (Column("algorithm"), Column("constants"), *(column for pair in pairs for column in pair))


def order(row: tuple[object, ...]) -> tuple[int, int]:
    """Return the place of a row: the order of the claims, then that of the constants."""
    kind = str(row[1]).split()[0]
    return list(BY_NAME).index(str(row[0])), labels.KINDS.index(kind)


def _by_label(result: StudyResult) -> dict[Label, CellResult]:
    """Return the cells of one noise level, with a study's reference that is only there to be compared with."""
    return {labels.of(cell): cell for cell in result.cells}


def _beyond_oful(label: Label, cells: dict[Label, CellResult]) -> Interval | None:
    """Return the paired difference to OFUL with the same kind of constants."""
    if label.name == "OFUL":
        return None
    return paired(cells[label], rival(label, cells)).difference


def rival(label: Label, cells: dict[Label, CellResult]) -> CellResult:
    """Return OFUL with the same kind of constants, or the paper's where there is none."""
    found = {other.kind: cell for other, cell in cells.items() if other.name == "OFUL"}
    return found.get(label.kind, found["paper"])


def _in_rounds(cell: CellResult) -> Interval | None:
    return _times(slope_in_rounds(cell, burn_in=max(1, cell.num_rounds // 10)).slope, 1.0)


def _times(found: Interval | None, factor: float) -> Interval | None:
    """Return an exponent times a factor, without digits that are rounding errors."""
    if found is None:
        return None
    estimate, low, high = (round(factor * float(x), 9) for x in (found.estimate, found.low, found.high))
    return dataclasses.replace(found, estimate=estimate, low=low, high=high)
