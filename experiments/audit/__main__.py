"""``python -m experiments audit``: the audit as ``jaxvar audit`` makes it, put beside its page."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from pathlib import Path

import tyro

import jaxvar as jv
from experiments.experiment import COMMAND, Conclusions, publish
from jaxvar.tables import Column, Table
from jaxvar.theory.audit import Audit, Outcome, audit, counterexamples, slack_figure, write
from jaxvar.theory.audit import table as group_table


@dataclasses.dataclass(frozen=True)
class Options:
    """Judge every statement, then write tables, figures and the page."""

    seeds: int = Audit.seeds
    """Seeds of every case."""
    rounds: int = Audit.rounds
    """Rounds of every seed."""
    out: str = "results/audit"
    """Folder for everything."""
    publish: bool = False
    """Put tables and figures into the experiment's own folder as well. Only at the sizes that are the default."""
    progress: bool = True
    """Show a progress bar."""

    def __post_init__(self) -> None:
        if self.publish and (self.seeds, self.rounds) != (Audit.seeds, Audit.rounds):
            raise ValueError("publish is for the audit as it is, without seeds and rounds")


def conclude(outcome: Outcome) -> Conclusions:
    """Make the tables of verdicts, groups and counterexamples, and a figure for each group."""
    tables = {"verdicts": _verdicts(outcome)}
    tables |= {_stem(group): group_table(outcome, group) for group in outcome.groups}
    examples = counterexamples(outcome)
    if examples is not None:
        tables["counterexamples"] = without_repeats(examples)
    return Conclusions(tables, {_stem(group): slack_figure(outcome, group) for group in outcome.groups})


def without_repeats(examples: Table) -> Table:
    """Join cases with the same counterexample in one line."""
    cases: dict[tuple[str, ...], list[str]] = {}
    for case, *rest in examples.rows:
        cases.setdefault(tuple(rest), []).append(case)
    rows = tuple(("; ".join(named), *rest) for rest, named in cases.items())
    return dataclasses.replace(examples, rows=rows)


def _verdicts(outcome: Outcome) -> Table:
    found = [(f.group, outcome.verdict(f)) for f in outcome.findings]
    titles = tuple(dict.fromkeys(verdict for _, verdict in found))
    counted = Counter(found)
    rows = [(group, *(counted[group, title] for title in titles)) for group in outcome.groups]
    rows.append(("all", *(sum(counted[group, title] for group in outcome.groups) for title in titles)))
    columns = (Column("group"), *(Column(title, "number") for title in titles))
    return Table(f"Findings by verdict: one statement in one case each. {outcome.about}", columns, tuple(rows))


def _stem(group: str) -> str:
    return group.lower().replace(" ", "_")


def main() -> int:
    """Return the exit code: 1 where a statement that should hold is broken, 2 for bad usage."""
    options = tyro.cli(Options, prog=f"{COMMAND} audit")
    jv.tune_cpu()
    jv.keep_programs()
    try:
        outcome = audit(Audit(seeds=options.seeds, rounds=options.rounds, progress=options.progress))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    conclusions = conclude(outcome)
    paths = write(outcome, Path(options.out))
    if options.publish:
        paths += publish("audit", conclusions)
    print(conclusions.tables["verdicts"].text())
    for path in paths:
        print(f"  {path}")
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    sys.exit(main())
