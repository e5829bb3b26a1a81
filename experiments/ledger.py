"""``python -m experiments.ledger``: every radius of every algorithm, what is known of it, and where that was found.

The ledger has a line for each algorithm and radius: as printed, the smallest that the printed proof gives, proved,
calibrated (measured) and tuned. Nothing is played and no number is typed here. All of it is read from the package, from
the presets of ``jaxvar calibrate`` and from the ``found.json`` of experiments. It is written to
``docs/static/ledger.json``, and the documentation shows it as a table.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from experiments.experiment import FOLDER
from experiments.found import Found, read_found
from experiments.tuning import LABEL
from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.analysis import Interval
from jaxvar.claims import Claim
from jaxvar.constants import PRESETS
from jaxvar.files import write_whole
from jaxvar.study.factories import public_factories
from jaxvar.tables import Column, Table
from jaxvar.theory.calibration import read_calibration

PATH = FOLDER.parent / "docs" / "static" / "ledger.json"
Kind = Literal["printed", "smallest", "proved", "measured", "tuned"]
LAYERED = ("save", "ave_ucb", "ucrl_ave")  # whose layers docs/constants.md and docs/sharp.md are about
PROOFS = {
    "paper": "not as printed: additive terms of a lemma are too small",
    "paper_fixed": "the paper's, with that lemma corrected",
    "tight": "up to a peeling, which adds a log-log term",
    "sharp": "docs/sharp.md",
}
SURE = {
    "read": "that of its theorem, constants read in the source",
    "derived again": "that of its theorem, constants derived again",
    "reconstructed": "none: the constants are reconstructed",
}


@dataclasses.dataclass(frozen=True)
class Coverage:
    """How often a radius held in all rounds, in the case where it held least often."""

    held: float  # share of seeds
    low: float  # ends of the 95 % Clopper-Pearson interval
    high: float
    seeds: int
    length: int | None  # rounds or episodes
    may_fail: float  # the share of seeds that the radius promises at most
    case: str
    where: str  # the experiment


@dataclasses.dataclass
class Entry:
    """One radius of one algorithm."""

    algorithm: str
    factory: str
    radius: str  # a preset, "theorem", "calibrated" or "tuned"
    kind: Kind
    multiplier: float  # of the stochastic part of the radius
    form: str  # that is multiplied: a preset or "theorem"
    proved: bool
    proof: str
    where: str  # the file or experiment behind it
    coverage: list[Coverage] = dataclasses.field(default_factory=list)
    matters_predicted: float | None = None  # the round from which on it adapts to the noise, from the constants alone
    matters_seen: float | None = None  # the same in play


def of_experiment(name: str) -> Found:
    """Read what an experiment found."""
    return read_found(FOLDER / name / "found.json")


def with_radius() -> dict[str, Claim]:
    """Return the claims of all algorithms whose radius can be scaled or has constants, by factory."""
    known = public_factories()
    return {c.factory: c for c in CLAIMS if {"constants", "beta_scale"} & set(known[c.factory].parameters)}


def collect() -> list[Entry]:
    """Return the whole ledger, in the order of the catalogue."""
    entries = [*theorems(), *calibrated(), *tuned()]
    add_coverage(entries)
    add_rounds(entries)
    order = [claim.factory for claim in CLAIMS]
    return sorted(entries, key=lambda e: order.index(e.factory))


def theorems() -> Iterator[Entry]:
    """Yield the radii that come from a theorem: printed, the smallest of that proof, and proved."""
    for factory, claim in with_radius().items():
        if factory not in LAYERED:
            yield Entry(claim.name, factory, "theorem", "printed", 1.0, "theorem", False, SURE[claim.constants], "")
            continue
        kinds: dict[str, Kind] = {"paper": "printed", "tight": "smallest", "paper_fixed": "proved", "sharp": "proved"}
        for preset, kind in kinds.items():
            proof = PROOFS[preset]
            yield Entry(claim.name, factory, preset, kind, 1.0, preset, kind == "proved", proof, "docs/constants.md")


def calibrated() -> Iterator[Entry]:
    """Yield the multipliers at which the confidence event was seen to hold: presets, and a grid of ``table1``."""
    claims = with_radius()
    for path in sorted(PRESETS.glob("*.json")):
        found = read_calibration(path)
        switch = found.switches[0]
        scale = found.multiplier(switch)
        if scale is None:
            continue
        worst: dict[str, Coverage] = {}
        for run in (run for run in found.of(switch) if scale in run.scales):
            case, share = found.cases[run.case], found.share(run, scale)
            text, where = f"{case.instance}, {case.player}", f"jaxvar/presets/{path.name}"
            seen = _coverage(share, case.length, found.delta, text, where)
            played: Any = case.config["algorithm"]
            factory = played["name"]
            worst[factory] = _worse(worst[factory], seen) if factory in worst else seen
        for factory, coverage in worst.items():
            form = "practical" if factory in LAYERED else "theorem"
            name = "practical" if factory in LAYERED else "calibrated"
            where = coverage.where
            yield _measured(claims[factory], name, scale, form, where, [coverage])
    by_name = {claim.name: claim for claim in claims.values()}
    found_1 = of_experiment("table1")
    study = found_1.studies["tune"]["study"]
    for name, scale, held, *_ in found_1.tables["calibrated"].rows:
        if isinstance(held, Interval):
            claim = by_name[name]
            coverage = _coverage(held, study["rounds"], _delta(study, name), "the worst environment", "table1")
            form = "practical" if claim.factory in LAYERED else "theorem"
            yield _measured(claim, "calibrated", float(scale), form, "table1", [coverage])


def tuned() -> Iterator[Entry]:
    """Yield the multipliers with the least regret on held-out seeds, of every experiment that has them."""
    for path in sorted(FOLDER.glob("*/found.json")):
        found, where = read_found(path), path.parent.name
        for table in (table for name, table in found.tables.items() if name.startswith("tuned")):
            for name, scale, *_ in table.rows:
                # A variant is named after its algorithm: "LSVI-UCB++ without floors".
                claim = max((c for c in CLAIMS if name.startswith(c.name)), key=lambda c: len(c.name))
                own = "theorem" if claim.factory in with_radius() else "a constant"  # UCRL-WVTR has no other radius
                form = "practical" if claim.factory in LAYERED else own
                proof = "none: chosen by regret"
                yield Entry(name, claim.factory, "tuned", "tuned", float(scale), form, False, proof, where)


def add_coverage(entries: list[Entry]) -> None:
    """Add how often radii were seen to hold in ``sharp``, ``audit`` and ``table1``."""
    by_key = {(e.algorithm, e.radius): e for e in entries}
    if (FOLDER / "sharp" / "found.json").exists():
        for player, instance, length, _, _, _, held, *_ in of_experiment("sharp").tables["coverage"].rows:
            entry = by_key.get((player.removesuffix(", optimistic"), "sharp"))
            if entry is not None:
                _keep_worst(entry, _coverage(held, length, 0.01, instance, "sharp"))
    statements = {"printed": "paper", "corrected": "paper_fixed", "tight": "tight"}
    audited = of_experiment("audit").tables
    for table, algorithm in (("save", "SAVE"), ("ucrl-ave", "UCRL-AVE")):
        for case, statement, _, may_fail, _, broken, seeds, failed, *_ in audited[table].rows:
            word = statement.removeprefix("confidence, ").removesuffix(" radius")
            played = "tight" if word == "tight" else "paper"
            if word in statements and case.endswith(f"{played} radius"):
                share = dataclasses.replace(
                    failed, estimate=1 - broken / seeds, low=1 - failed.high, high=1 - failed.low
                )
                promised = float(may_fail.removesuffix(" %")) / 100
                seen = _coverage(share, None, promised, case, "audit")
                _keep_worst(by_key[algorithm, statements[word]], seen)
    found = of_experiment("table1")
    study = found.studies["noise"]["study"]
    for algorithm, constants, held, noise in found.tables["kept"].rows:
        label = LABEL.fullmatch(f"{algorithm} ({constants})")
        seen = _coverage(held, study["rounds"], _delta(study, algorithm), f"noise {noise}", "table1")
        for entry in entries:
            theorem = constants == "paper" and entry.radius in ("paper", "theorem")
            same = constants == "practical" and entry.radius == "practical"
            scaled = label is not None and (entry.radius, entry.where) == (label["kind"], "table1")
            scaled = scaled and label is not None and entry.multiplier == float(label["multiplier"])
            if entry.algorithm == algorithm and (theorem or same or scaled):
                entry.coverage.append(seen)


def add_rounds(entries: list[Entry]) -> None:
    """Add the rounds from which on constants matter: SAVE's by ``switch``, and the same law for AVE-UCB's layers."""
    found = of_experiment("switch").tables
    seen = {row[0]: row[5] for row in found["parting"].rows}
    predicted = {row[0]: row[2] for row in found["dimensions"].rows}  # d = 2
    for entry in entries:
        if entry.factory in ("save", "ave_ucb") and entry.radius in predicted:
            entry.matters_predicted = predicted[entry.radius]
            if entry.factory == "save":
                widest = seen.get(f"SAVE ({entry.radius}, widest)")  # the law is for the widest arm
                entry.matters_seen = widest or seen.get(f"SAVE ({entry.radius})")


def _measured(claim: Claim, radius: str, scale: float, form: str, where: str, coverage: list[Coverage]) -> Entry:
    """Return the entry of a calibrated multiplier."""
    proof = "none: seen to hold"
    return Entry(claim.name, claim.factory, radius, "measured", scale, form, False, proof, where, coverage)


def _coverage(share: Interval, length: int | None, may_fail: float, case: str, where: str) -> Coverage:
    held, low, high = (float(f"{float(x):.9g}") for x in (share.estimate, share.low, share.high))  # the same anywhere
    return Coverage(held, low, high, int(share.seeds), length, may_fail, case, where)


def _keep_worst(entry: Entry, seen: Coverage) -> None:
    """Keep one line for each experiment: the case in which the radius held least often."""
    for i, other in enumerate(entry.coverage):
        if other.where == seen.where:
            entry.coverage[i] = _worse(other, seen)
            return
    entry.coverage.append(seen)


def _worse(first: Coverage, second: Coverage) -> Coverage:
    """Return the case in which the radius held less often; cases that are alike are called so."""
    if first.held != second.held:
        return min(first, second, key=lambda c: c.held)
    length = first.length if first.length == second.length else None
    return dataclasses.replace(first, case="several cases alike", length=length)


def _delta(study: Mapping[str, Any], algorithm: str) -> float:
    """Return the delta that a study gives to an algorithm."""
    return float(next(a["delta"] for a in study["algorithm"] if a["label"].startswith(algorithm)))


def table(entries: list[Entry]) -> Table:
    """Return the ledger as a table; of several coverages the one with the most seeds is shown."""
    rows = []
    for e in entries:
        shown = max(e.coverage, key=lambda c: c.seeds, default=None)
        told: tuple[object, ...] = (None,) * 4
        if shown is not None:
            share = Interval(shown.held, shown.low, shown.high, 0.95, "Clopper-Pearson", "held", shown.seeds)
            told = (share, 1 - shown.may_fail, shown.seeds, f"{shown.where}: {shown.case}")
        scale = f"{e.multiplier:.4g}" + (" of practical" if e.form == "practical" else "")
        name = e.radius if e.radius != "tuned" else f"tuned ({e.where})"
        rows.append((e.algorithm, name, e.kind, scale, e.proof, *told, e.matters_predicted, e.matters_seen))
    columns = (
        Column("algorithm"),
        Column("radius"),
        Column("kind"),
        Column("multiplier"),
        Column("proof"),
        Column("held (measured)", "ends"),
        Column("promised", "number"),
        Column("seeds", "number"),
        Column("measured in"),
        Column("matters from round (predicted)", "number"),
        Column("(seen)", "number"),
    )
    caption = (
        "Every radius. Kind: printed, as in its source; smallest, the smallest constants of the printed proof, which "
        "is not complete for them; proved, with all constants; measured, a multiplier at which the confidence event "
        "was seen to hold; tuned, one with the least regret on held-out seeds. Held: the share of seeds in which the "
        "radius held in all rounds, in the worst case that was played, with its 95 % Clopper-Pearson interval; empty "
        "where that was not measured. The last columns: from which round on regret depends on the noise, at d = 2 "
        "with two arms."
    )
    return Table(caption, columns, tuple(rows))


def as_json(entries: list[Entry]) -> str:
    """Return the text of the file."""
    content = {"command": "python -m experiments.ledger", "entries": [dataclasses.asdict(e) for e in entries]}
    return json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def read_ledger(path: Path = PATH) -> list[Entry]:
    """Read what :func:`main` wrote."""
    lines = json.loads(path.read_text())["entries"]
    return [Entry(**{**line, "coverage": [Coverage(**seen) for seen in line["coverage"]]}) for line in lines]


def main(path: Path = PATH) -> int:
    """Write the ledger."""
    text = as_json(collect())
    print(write_whole(path, lambda buffer: buffer.write(text.encode())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
