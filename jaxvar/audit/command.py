"""The verb ``audit`` of the command line."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from jaxvar.audit.cases import Size, cases
from jaxvar.audit.figure import slack_figure
from jaxvar.audit.outcome import Outcome, counterexamples, table
from jaxvar.audit.page import write_page
from jaxvar.figures.style import save
from jaxvar.files import write_whole
from jaxvar.study.factories import in_precision

HELD, BROKEN, USAGE = 0, 1, 2


@dataclasses.dataclass(frozen=True)
class Audit:
    """Judge the paper's statements on simulated runs; exit code 1 where one that should hold is broken."""

    seeds: int = 2000
    """Seeds of every case, at least 200."""
    rounds: int = 2000
    """Rounds of every seed; a tenth as many episodes, and 34 times as many updates of the layer that is filled."""
    out: Path | None = None
    """Folder for tables (text, CSV, LaTeX), figures and the page; nothing is written if not given."""
    statements: tuple[str, ...] = ()
    """Groups (martingales, layer, save, episodes) or names of statements; all if not given."""
    delta: float = 0.1
    """The failure probability that is promised; episodes get a tenth of it."""
    seed_key: int = 0
    """Root of all random numbers."""
    progress: bool = True
    """Show a progress bar."""


def audit_command(options: Audit) -> int:
    """Run the audit, print it and write it; returns an exit code."""
    try:
        outcome = audit(options)
    except ValueError as error:
        print(f"jaxvar: {error}", file=sys.stderr)
        return USAGE
    for group in outcome.groups:
        print(table(outcome, group).text())
    found = counterexamples(outcome)
    if found is not None:
        print(found.text())
    print(outcome.summary())
    if options.out is not None:
        try:
            for path in write(outcome, options.out):
                print(path)
        except OSError as error:
            print(f"jaxvar: {error.strerror or error}: {error.filename or options.out}", file=sys.stderr)
            return BROKEN
    for f in outcome.broken:
        example = "" if f.example is None else f" ({f.example.text()})"
        print(f"broken: {f.group}, {f.case}: {f.statement.title}{example}", file=sys.stderr)
    return BROKEN if outcome.broken else HELD


def audit(options: Audit) -> Outcome:
    """Run the cases that were asked for, in float64: identities are judged to eight digits."""
    from tqdm import tqdm

    size = Size(options.seeds, options.rounds, options.delta, options.seed_key)
    findings = []
    with in_precision("float64"):
        chosen = cases(size, options.statements)
        with tqdm(total=len(chosen), unit="case", disable=not options.progress) as bar:
            for case in chosen:
                bar.set_description(case.group)
                findings += [f for f in case.run() if _is_wanted(f.statement.key, case.group, options.statements)]
                bar.update()
    about = f"{size.seeds:,} seeds, {size.rounds:,} rounds, delta {size.delta:g}, key {size.seed_key}."
    return Outcome(tuple(findings), about)


def _is_wanted(key: str, group: str, wanted: tuple[str, ...]) -> bool:
    return not wanted or group in wanted or key in wanted


def write(outcome: Outcome, out: Path) -> list[Path]:
    """Tables, figures and the page, each whole or not at all; returns the paths."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for group in outcome.groups:
        stem = out / f"audit-{group.lower().replace(' ', '-')}"
        made = table(outcome, group)
        for form, ending in (("text", "txt"), ("csv", "csv"), ("latex", "tex")):
            paths.append(_write(stem.with_suffix(f".{ending}"), made.to(form)))  # type: ignore[arg-type]
        if any(f.slack for f in outcome.of(group)):
            paths += save(slack_figure(outcome, group), stem)
    found = counterexamples(outcome)
    if found is not None:
        paths.append(_write(out / "counterexamples.csv", found.csv()))
    return [*paths, write_page(outcome, out / "audit.html")]


def _write(path: Path, text: str) -> Path:
    return write_whole(path, lambda buffer: buffer.write(text.encode()))
