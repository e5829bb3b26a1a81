"""All findings of an audit, what follows from them, and their tables."""

from __future__ import annotations

import dataclasses
from collections import Counter

from jaxvar.analysis.captions import percent
from jaxvar.audit.statement import Finding
from jaxvar.tables.render import Column, Table

ALARM = 0.001  # the probability that anything true is called broken, over the whole audit


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What was found, and how much was played for it."""

    findings: tuple[Finding, ...]
    about: str  # how much was played
    alarm: float = ALARM

    @property
    def each_alarm(self) -> float:
        """The share of the false-alarm rate that each claimed statement has."""
        return self.alarm / max(1, sum(f.statement.claim == "holds" for f in self.findings))

    def verdict(self, finding: Finding) -> str:
        """Of one finding."""
        return finding.verdict(self.each_alarm)

    @property
    def broken(self) -> tuple[Finding, ...]:
        """Statements that we claim to hold and that do not."""
        claimed = (f for f in self.findings if f.statement.claim == "holds")
        return tuple(f for f in claimed if f.beyond(self.each_alarm))

    @property
    def groups(self) -> tuple[str, ...]:
        """In their order."""
        return tuple(dict.fromkeys(f.group for f in self.findings))

    def of(self, group: str) -> tuple[Finding, ...]:
        """The findings of a group."""
        return tuple(f for f in self.findings if f.group == group)

    def summary(self) -> str:
        """In a sentence or two."""
        counted = Counter(map(self.verdict, self.findings))
        told = ", ".join(f"{number} {verdict}" for verdict, number in counted.most_common())
        return f"{len(self.findings)} findings: {told}. {self.about}"


def promised(finding: Finding) -> str:
    """How often a statement may fail."""
    return f"{percent(round(100 * finding.statement.failure, 6) / 100)}" if finding.statement.failure else "never"


def table(outcome: Outcome, group: str) -> Table:
    """One row for each finding of a group."""
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
    """The smallest counterexample of every statement that failed more often than promised; None where none did."""
    columns = (Column("case"), Column("statement"), Column("in the paper"), Column("counterexample"), Column("note"))
    rows = tuple(
        (f.case, f.statement.title, f.statement.where, f.example.text(), f.statement.note)
        for f in outcome.findings
        if f.example is not None and f.beyond(outcome.each_alarm)
    )
    caption = "The earliest round in which a statement was broken, over all seeds: observed > bound."
    return Table(caption, columns, rows) if rows else None
