"""Calibrated multipliers: the smallest of the grid that keep the confidence event on held-out seeds."""

from __future__ import annotations

from collections.abc import Mapping

from experiments import tuning
from experiments.table1 import labels
from jaxvar.analysis import Interval, coverage
from jaxvar.study.result import StudyResult
from jaxvar.tables import Column, Table

SHARE = 0.99  # of the seeds; delta is 0.01
Held = dict[float, Interval]  # multiplier -> share of seeds that kept the event, in the environment where it is least


def held(tune: StudyResult) -> dict[str, Held]:
    """Return how often algorithms kept the event, the largest multiplier first; empty where it is not recorded."""
    found = {}
    for name, grid in tuning.by_multiplier(tune).items():
        shares = {x: [coverage(c).share for c in cells if "confidence" in c.records] for x, cells in grid.items()}
        worst = {x: min(some, key=lambda share: share.low) for x, some in shares.items() if some}
        found[name] = dict(sorted(worst.items(), reverse=True))
    return found


def chosen(tune: StudyResult) -> dict[str, float | None]:
    """Return the calibrated multiplier of every algorithm."""
    return {name: smallest(shares) for name, shares in held(tune).items()}


def smallest(shares: Held) -> float | None:
    """Return the smallest multiplier that keeps the event, as all larger ones do; None where there is none."""
    kept = None
    for multiplier, share in shares.items():
        if share.low < SHARE:
            break
        kept = multiplier
    return kept


def table(tune: StudyResult, tuned: Mapping[str, float]) -> Table:
    """Show the calibrated multipliers, and how often the event held there, below, and at the tuned ones."""
    rows = []
    for name, shares in held(tune).items():
        best = smallest(shares)
        below = next((x for x in shares if best is None or x < best), None)
        rows.append(
            (
                name,
                "" if best is None else f"{best:g}",
                None if best is None else shares[best],
                None if below is None else shares[below],
                shares.get(tuned[name]),
            )
        )
    caption = (
        f"Calibrated multipliers: the smallest at which the confidence event held in all rounds in a share of seeds "
        f"whose 95 % Clopper-Pearson interval is above {SHARE}, in the worst environment; empty where the event is not "
        f"recorded or multiplier 1 does not keep it. From the grid, the seeds and the rounds of the tuned ones."
    )
    columns = (
        Column("algorithm"),
        Column("calibrated"),
        Column("event held", "ends"),
        Column("at the next smaller", "ends"),
        Column("at the tuned", "ends"),
    )
    return Table(caption, columns, tuple(rows))


def kept(result: StudyResult) -> Table:
    """Show how often the confidence event held in a study with the chosen multipliers, over its noise levels."""
    worst: dict[str, tuple[Interval, float]] = {}
    for cell in (cell for cell in result.cells if "confidence" in cell.records):
        share, level = coverage(cell).share, float(cell.environment_settings["noise.std"])
        if cell.algorithm not in worst or share.low < worst[cell.algorithm][0].low:
            worst[cell.algorithm] = share, level
    rows = []
    for label, (share, level) in worst.items():
        parts = labels.read(label)
        rows.append((parts.name, parts.constants, share, f"{level:g}" if share.estimate < 1 else "all alike"))
    caption = (
        f"Share of seeds in which the confidence event held in all {result.cells[0].num_rounds:,} rounds, with its "
        f"95 % Clopper-Pearson interval, at the noise level where it held least often."
    )
    columns = (Column("algorithm"), Column("constants"), Column("event held", "ends"), Column("noise"))
    return Table(caption, columns, tuple(rows))
