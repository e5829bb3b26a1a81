"""A statement of the paper, what was found of it, and the outcome of a whole audit with its tables.

Every statement is put as ``observed <= bound``, with both sides computed exactly along a run. A seed breaks it where
the largest ratio of the two over all rounds (and layers) is above one. All statements are listed in ``statements.csv``.
"""

from __future__ import annotations

import csv
import dataclasses
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jaxvar.analysis.captions import percent
from jaxvar.analysis.intervals import Interval, proportion, proportion_interval
from jaxvar.tables.render import Column, Table

Array = NDArray[np.floating]
Claim = Literal["holds", "fails", "open"]
ROUNDING = 1e-9  # how far above one a ratio may be by rounding
QUANTILES = (0.5, 0.99, 1.0)  # of the ratios, over seeds
LEAST_SEEDS = 200  # nothing is said of a frequency from fewer
ALARM = 0.001  # the probability that anything true is called broken, over the whole audit


@dataclasses.dataclass(frozen=True)
class Statement:
    """One inequality, with the probability it is promised to fail with at most."""

    key: str
    title: str
    where: str  # the paper's label of the equation, lemma or theorem
    failure: float  # 0 where it must hold in every seed
    claim: Claim  # what we say of it: it holds, it fails as it stands, or it is not known (not proved as it stands)
    note: str = ""
    axis: str = "layer"  # what its inequalities are counted by

    def __post_init__(self) -> None:
        if not 0 <= self.failure <= 1:
            raise ValueError(f"failure must be a probability, got {self.failure!r} for {self.key!r}")


def load_statements(
    group: str, delta: float, *, radii: Iterable[str] = (), is_proved: bool = True, orders: int = 0
) -> tuple[Statement, ...]:
    """Return the statements of a group, from the table ``statements.csv``.

    Args:
      group: name of the group.
      delta: a statement may fail with probability ``(deltas + deltas_per_order orders) delta``.
      radii: names of the radii that are judged; a statement about ``{radius}`` is made of each of them.
      is_proved: whether the radius that is played with has a proof; if so, statements claimed to be ``proved`` hold.
      orders: M of the MDP appendix.
    """
    with Path(__file__).with_name("statements.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["group"] == group]
    found = []
    for row in rows:
        claims: dict[str, Claim] = {"holds": "holds", "fails": "fails", "open": "open"}
        claim = claims.get(row["claim"], "holds" if is_proved else "open")
        failure = min(1.0, (int(row["deltas"]) + int(row["deltas_per_order"]) * orders) * delta)
        for radius in radii if "{radius}" in row["key"] else ("",):
            key, title = (row[name].replace("{radius}", radius) for name in ("key", "title"))
            found.append(Statement(key, title, row["where"], failure, claim, row["note"], row["axis"]))
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class Example:
    """The smallest counterexample: the first round of all seeds in which the statement was broken."""

    seed: int
    round: int
    where: str  # such as "layer 3"; empty where there is only one inequality
    observed: float
    bound: float

    def text(self) -> str:
        """Return the counterexample in one line."""
        where = f"{self.where}, " if self.where else ""
        return f"{where}round {self.round} of seed {self.seed}: {self.observed:.4g} > {self.bound:.4g}"


@dataclasses.dataclass(frozen=True)
class Finding:
    """The findings about one statement in one case."""

    group: str
    case: str
    statement: Statement
    seeds: int  # in which it had something to say
    broken: int  # of these
    share: Interval | None  # the frequency of failure; None where it never applied
    slack: tuple[float, ...]  # QUANTILES of observed / bound
    example: Example | None

    def beyond(self, alarm: float) -> bool:
        """Test whether it fails more often than promised; a wrong alarm has a probability of at most ``alarm``."""
        if self.statement.failure == 0:
            return self.broken > 0
        if self.seeds == 0:
            return False
        return proportion(self.broken, self.seeds, 1 - 2 * alarm)[0] > self.statement.failure

    def verdict(self, alarm: float) -> str:
        """Return the verdict in a word or a few."""
        if self.seeds == 0:
            return "nothing to judge"
        if self.statement.claim == "fails":
            return "fails as known" if self.broken else "no counterexample"
        if self.beyond(alarm):
            return "BROKEN" if self.statement.claim == "holds" else "fails"
        if self.seeds < LEAST_SEEDS:
            return "too few seeds"
        return "holds" if self.statement.claim == "holds" else "not refuted"


def finding(group: str, case: str, statement: Statement, rows: Array) -> Finding:
    """Sum up ``rows [seeds, 5]``, the fields of :class:`jaxvar.theory.running_max.RunningMax` for one statement."""
    ratio, when, place, observed, bound = rows.T
    applied = ratio >= 0
    if np.any(np.isnan(rows)):
        raise ValueError(f"{statement.key} in {case}: an observed / bound ratio is not a number")
    broken = applied & (ratio > 1 + ROUNDING)
    seeds, count = int(applied.sum()), int(broken.sum())
    share = proportion_interval(count, seeds, "share of seeds that broke it") if seeds else None
    slack = tuple(float(x) for x in np.quantile(ratio[applied], QUANTILES, method="higher")) if seeds else ()
    example = None
    if count:
        i = int(np.flatnonzero(broken)[np.argmin(when[broken])])
        where = f"{statement.axis} {int(place[i])}" if place[i] else ""
        example = Example(i, int(when[i]), where, float(observed[i]), float(bound[i]))
    return Finding(group, case, statement, seeds, count, share, slack, example)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """All findings of an audit, and how much was played for them."""

    findings: tuple[Finding, ...]
    about: str  # how much was played
    alarm: float = ALARM

    @property
    def each_alarm(self) -> float:
        """Share of the false-alarm rate that each claimed statement has."""
        return self.alarm / max(1, sum(f.statement.claim == "holds" for f in self.findings))

    def verdict(self, finding: Finding) -> str:
        """Return the verdict on one finding."""
        return finding.verdict(self.each_alarm)

    @property
    def broken(self) -> tuple[Finding, ...]:
        """Statements that we claim to hold and that do not."""
        claimed = (f for f in self.findings if f.statement.claim == "holds")
        return tuple(f for f in claimed if f.beyond(self.each_alarm))

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups, in their order."""
        return tuple(dict.fromkeys(f.group for f in self.findings))

    def of(self, group: str) -> tuple[Finding, ...]:
        """Return the findings of a group."""
        return tuple(f for f in self.findings if f.group == group)

    def summary(self) -> str:
        """Return the number of findings by verdict, and how much was played, in a sentence or two."""
        counted = Counter(map(self.verdict, self.findings))
        told = ", ".join(f"{number} {verdict}" for verdict, number in counted.most_common())
        return f"{len(self.findings)} findings: {told}. {self.about}"


def promised(finding: Finding) -> str:
    """Return how often a statement may fail, as text."""
    return f"{percent(round(100 * finding.statement.failure, 6) / 100)}" if finding.statement.failure else "never"


def table(outcome: Outcome, group: str) -> Table:
    """Return a table with one row for each finding of a group."""
    caption = (
        f"{group}: how often each statement failed, simultaneously over all rounds, with the 95 % Clopper-Pearson "
        f"interval, and quantiles over seeds of the largest observed / bound. {outcome.about} A statement is called "
        f"broken where it fails more often than promised; false-alarm rate {outcome.alarm:g} for the whole audit."
    )
    columns = (
        Column("case"),
        Column("statement"),
        Column("in the paper"),
        Column("may fail"),
        Column("claim"),
        Column("broken", "number"),
        Column("seeds", "number"),
        Column("frequency", "ends"),
        Column("median", "number"),
        Column("99 %", "number"),
        Column("largest", "number"),
        Column("verdict"),
    )
    rows = []
    for f in outcome.of(group):
        s, slack = f.statement, f.slack or (None, None, None)
        told = (f.case, s.title, s.where, promised(f), s.claim, f.broken, f.seeds, f.share, *slack, outcome.verdict(f))
        rows.append(told)
    return Table(caption, columns, tuple(rows))


def counterexamples(outcome: Outcome) -> Table | None:
    """Return the smallest counterexample of every statement that failed more often than promised; None if none did."""
    columns = (Column("case"), Column("statement"), Column("in the paper"), Column("counterexample"), Column("note"))
    rows = tuple(
        (f.case, f.statement.title, f.statement.where, f.example.text(), f.statement.note)
        for f in outcome.findings
        if f.example is not None and f.beyond(outcome.each_alarm)
    )
    caption = "The earliest round in which a statement was broken, over all seeds: observed > bound."
    return Table(caption, columns, rows) if rows else None
