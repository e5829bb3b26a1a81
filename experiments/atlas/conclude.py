"""What the maps say: what to use, who wins where, from which size on adapting helps, and with which constants."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

import numpy as np

from experiments import tuning
from experiments.atlas.figure import FIRST, chosen, draw, draw_first
from experiments.atlas.maps import LEVEL, Atlas, Panel, Verdict
from experiments.atlas.players import Entry
from experiments.experiment import Conclusions
from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.study.result import StudyResult
from jaxvar.tables import Column, Table

ADAPTIVE = {claim.name for claim in CLAIMS if claim.variance != "not used"}
LOOSE, TIGHT, SMALL = 100, 3, 300  # R / sigma from which R is loose, up to which it is tight; K up to which it is small
Cell = tuple[Panel, int, int]  # a panel, and the indices of its column and row


def conclude(atlas: Atlas, tuned: Mapping[str, StudyResult]) -> Conclusions:
    """Return the tables of the page beside this file and the figures: one for print, one for the first page."""
    drawn = dataclasses.replace(atlas, panels=tuple(chosen(atlas)))
    tables = {
        "use": use(atlas),
        "adapts": adapts(drawn),
        "wins": wins(drawn),
        "adapts_all": adapts(atlas),
        "wins_all": wins(atlas),
        "algorithms": algorithms(atlas),
        **{name.replace("tune", "tuned"): tuning.table(tune) for name, tune in tuned.items()},
    }
    first = draw_first(atlas)
    return Conclusions(tables, {"atlas": draw(atlas)} | ({} if first is None else {"panel": first}))


def _cells(atlas: Atlas, group: str) -> list[Cell]:
    some = [panel for panel in atlas.panels if panel.problem.group == group]
    return [(p, i, k) for p in some for i in range(len(p.x)) for k in range(len(p.rounds))]


def use(atlas: Atlas) -> Table:
    """Recommend, for each case and kind of constants, the algorithm whose regret is never far above the least."""
    bandits = _cells(atlas, "bandits")
    longest = [cell for cell in bandits if cell[2] == len(cell[0].rounds) - 1]
    lengths = sorted({cell[0].rounds[-1] for cell in bandits})
    cases: dict[str, tuple[str, list[Cell]]] = {
        "you know R only": ("R", bandits),
        "you know the variances": ("all", bandits),
        f"R is loose: R/σ at least {LOOSE}": ("R", [c for c in bandits if c[0].x[c[1]] >= LOOSE]),
        f"R is tight: R/σ at most {TIGHT}": ("R", [c for c in bandits if c[0].x[c[1]] <= TIGHT]),
        f"K is small: at most {SMALL}": ("R", [c for c in bandits if c[0].rounds[c[2]] <= SMALL]),
        f"K is {' or '.join(f'{k:,}' for k in lengths)}": ("R", longest),
        "your arms come from data": ("R", _cells(atlas, "data")),
        "you play episodes": ("R", _cells(atlas, "episodes")),
    }
    rows = [(case, *(_safest(mode, *some) for mode in atlas.modes)) for case, some in cases.items() if some[1]]
    caption = (
        "What to use, by the maps alone: in each case the algorithm whose largest multiple of the least mean regret is "
        "smallest; in how many cells it is the best; and that multiple with the cell where it is reached."
    )
    return Table(caption, (Column("if"), *(Column(mode) for mode in atlas.modes)), tuple(rows))


def _safest(mode: str, scope: str, cells: list[Cell]) -> str:
    """Return the algorithm with the least worst ratio to the best one, with that ratio and its cell."""
    ratios: dict[str, list[float]] = {}
    for panel, i, k in cells:
        players = panel.players(mode, scope if scope in panel.scopes else "R")
        least = np.nanmin([panel.mean[e, i, k] for e in players])
        for e in players:
            value = panel.mean[e, i, k]
            ratio = float(value / least) if np.isfinite(value) else np.inf
            ratios.setdefault(panel.entries[e].label, []).append(ratio)
    ratios = {name: values for name, values in ratios.items() if len(values) == len(cells)}  # who plays in all cells
    name = min(ratios, key=lambda name: max(ratios[name]))
    worst = int(np.argmax(ratios[name]))
    best = sum(ratio == 1 for ratio in ratios[name])
    if best == len(cells):
        return f"{name}: best in all {best} cells"
    panel, i, k = cells[worst]
    ratio = max(ratios[name])
    return f"{name}: best in {best} of {len(cells)} cells, at most {ratio:.2f} times the best ({panel.cell(i, k)})"


def state(panel: Panel, verdict: Verdict) -> bool | None:
    """Return whether an algorithm that adapts to the variance is ahead of all that do not; None where it is open."""
    is_adaptive = panel.entries[verdict.first].name in ADAPTIVE
    others = [panel.entries[e].name in ADAPTIVE for e in verdict.open]
    return None if (not is_adaptive) in others else is_adaptive


def adapts(atlas: Atlas) -> Table:
    """Show from which K on adapting to the variance wins, at the least and the largest ratio of each map."""
    rows = []
    for panel in atlas.panels:
        for mode in panel.modes:
            columns = panel.verdicts[mode, "R"]
            states = [[state(panel, verdict) for verdict in column] for column in columns]
            flat = [one for column in states for one in column]
            since = [_since(column, panel.rounds) for column in states]
            reached = [x for x, k in zip(panel.x, since, strict=True) if k is not None]
            where = "nowhere" if not reached else f"{panel.axis} = " + ", ".join(f"{x:g}" for x in reached)
            first = min((k for k in since if k is not None), default=None)
            counts = (flat.count(True), flat.count(False), flat.count(None))
            rows.append((panel.title, mode, *counts, where, first, _gain(panel, mode, 0), _gain(panel, mode, -1)))
    caption = (
        "Algorithms that adapt to the variance against those that do not, all told R only: cells in which the first of "
        "one kind is separated from all of the other kind, the columns where adapting is ahead at the largest K, and "
        "the least K from which it stays ahead in one of them; and the least mean regret of those that do not adapt "
        "over that of those that do, at the largest K in the first and in the last column."
    )
    numbers = (Column(title, "number") for title in ("adaptive ahead", "not adaptive ahead", "open"))
    places = (Column("adaptive ahead to the end at"), Column("from K", "number"))
    gains = (Column(f"others over adaptive, {which} column", "number") for which in ("first", "last"))
    return Table(caption, (Column("map"), Column("constants"), *numbers, *places, *gains), tuple(rows))


def _gain(panel: Panel, mode: str, x: int) -> float:
    """Return the least mean regret of those that do not adapt over that of those that do, at the largest K."""
    least = {True: np.inf, False: np.inf}
    for e in panel.players(mode, "R"):
        kind = panel.entries[e].name in ADAPTIVE
        least[kind] = min(least[kind], float(np.nan_to_num(panel.mean[e, x, -1], nan=np.inf)))
    return least[False] / least[True]


def _since(column: list[bool | None], rounds: tuple[int, ...]) -> int | None:
    """Return the round from which on adapting is ahead; None where it is not at the end."""
    found = None
    for one, k in zip(reversed(column), reversed(rounds), strict=True):
        if one is not True:
            break
        found = k
    return found


def wins(atlas: Atlas) -> Table:
    """Count the cells that each algorithm wins, and those in which it is separated from all others."""
    rows = []
    for panel in atlas.panels:
        for scope in panel.scopes:
            told = {"R": "R", "all": "variances"}[scope] if panel.unit == "round" else ""
            rows.append((panel.title, told, *(_winners(panel, mode, scope) for mode in atlas.modes)))
    caption = "Cells of each map by the algorithm with the least mean regret, and how many of them are separated."
    return Table(caption, (Column("map"), Column("told"), *(Column(mode) for mode in atlas.modes)), tuple(rows))


def _winners(panel: Panel, mode: str, scope: str) -> str:
    verdicts = [verdict for column in panel.verdicts[mode, scope] for verdict in column]
    firsts = Counter(panel.entries[v.first].name for v in verdicts)
    decided = sum(v.is_decided for v in verdicts)
    named = ", ".join(f"{name} {number}" for name, number in firsts.most_common())
    return f"{named}; {decided} of {len(verdicts)} separated"


def algorithms(atlas: Atlas) -> Table:
    """Show with which constants each algorithm is played, what the ledger knows of them, and how often they held."""
    found: dict[str, tuple[object, ...]] = {}
    lows: dict[str, float] = {}
    for panel in atlas.panels:
        for entry, held in zip(panel.entries, panel.covered, strict=True):
            low = np.inf if held is None else held.share.low
            if entry.label in found and lows[entry.label] <= low:
                continue
            lows[entry.label] = low
            kind = "yes" if entry.name in ADAPTIVE else "no"
            own = (None, "") if held is None else (held.share, panel.column(held.x))
            shown = (entry.name, entry.constants, " and ".join(entry.modes), kind)
            found[entry.label] = (*shown, *entry.known, *own, "; ".join(measured(entry)))
    titles = ("algorithm", "constants", "shown as", "adapts to the variance", "kind", "proof")
    caption = (
        "Constants of every algorithm, their kind and their proof by the ledger of constants, and the share of seeds "
        "in which the confidence event held in all rounds (95 % Clopper-Pearson): in the column of these maps where it "
        "held least often, and where else it was measured by the ledger."
    )
    columns = (*(Column(title) for title in titles), Column("event held", "ends"), Column("at"), Column("elsewhere"))
    return Table(caption, columns, tuple(found.values()))  # type: ignore[arg-type]


def measured(entry: Entry) -> list[str]:
    """Return how often a radius held in other experiments, one text for each measurement of the ledger."""
    return [
        f"{seen.where}, {seen.case}: {100 * seen.held:.5g} % [{100 * seen.low:.5g}, {100 * seen.high:.5g}] "
        f"of {seen.seeds:,} seeds"
        for seen in entry.coverage
    ]


def findings(atlas: Atlas) -> list[str]:
    """Say in a sentence for each kind of constants what the map of the first page shows, or else the first map."""
    panel, found = next((p for p in atlas.panels if p.title == FIRST[0]), atlas.panels[0]), list[str]()
    last = panel.rounds[-1]
    for mode in panel.modes:
        verdicts = [verdict for column in panel.verdicts[mode, "R"] for verdict in column]
        name, number = Counter(panel.entries[v.first].name for v in verdicts).most_common(1)[0]
        separated = sum(v.is_decided for v in verdicts if panel.entries[v.first].name == name)
        low, high = (_gain(panel, mode, i) for i in (0, -1))
        found.append(
            f"With {mode} constants ({panel.title}) {name} has the least regret in {number} of {len(verdicts)} cells, "
            f"separated from all others in {separated}; at K = {last:,} the best algorithm that does not adapt to the "
            f"variance pays {low:.2f} times as much as the best that does where {panel.axis} = {panel.x[0]:g}, and "
            f"{high:.2f} times as much where it is {panel.x[-1]:g}."
        )
    pairs = zip(panel.entries, panel.covered, strict=True)
    lost = [held.share for entry, held in pairs if held is not None and entry.constants.startswith("tuned")]
    share = max(lost, key=lambda share: share.estimate, default=None)
    if share is not None and share.high < LEVEL:
        found.append(
            "Tuned constants are no recommendation: in the worst column their confidence event held in at most "
            f"{100 * share.estimate:.3g} % of {share.seeds} seeds."
        )
    return found
