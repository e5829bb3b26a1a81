"""What the maps say: what to use, who wins where, from which size on adapting helps, and with which constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from experiments import tuning
from experiments.atlas.figure import draw
from experiments.atlas.maps import Atlas, Panel, Verdict
from experiments.atlas.studies import MODES
from experiments.experiment import Conclusions
from jaxvar.algorithms.catalogue import CLAIMS
from jaxvar.analysis import Interval
from jaxvar.study.result import StudyResult
from jaxvar.tables import Column, Table

ADAPTIVE = {claim.name for claim in CLAIMS if claim.variance != "not used"}
LOOSE, TIGHT, SMALL = 100, 3, 300  # R / sigma from which R is loose, up to which it is tight; K up to which it is small
Cell = tuple[Panel, int, int]  # a panel, and the indices of its column and row


def conclude(atlas: Atlas, tuned: Mapping[str, StudyResult]) -> Conclusions:
    """Return the tables of the page beside this file and the figure for print."""
    tables = {
        "use": use(atlas),
        "adapts": adapts(atlas),
        "wins": wins(atlas),
        "algorithms": algorithms(atlas),
        **{name.replace("tune", "tuned"): tuning.table(tune) for name, tune in tuned.items()},
    }
    return Conclusions(tables, {"atlas": draw(atlas)})


def _cells(atlas: Atlas, unit: str) -> list[Cell]:
    return [(p, i, k) for p in atlas.panels if p.unit == unit for i in range(len(p.x)) for k in range(len(p.rounds))]


def use(atlas: Atlas) -> Table:
    """Recommend, for each case and kind of constants, the algorithm whose regret is never far above the least."""
    bandits, episodes = _cells(atlas, "round"), _cells(atlas, "episode")
    longest = [cell for cell in bandits if cell[2] == len(cell[0].rounds) - 1]
    cases: dict[str, tuple[str, list[Cell]]] = {
        "you know R only": ("R", bandits),
        "you know the variances": ("all", bandits),
        f"R is loose: R/σ at least {LOOSE}": ("R", [c for c in bandits if c[0].x[c[1]] >= LOOSE]),
        f"R is tight: R/σ at most {TIGHT}": ("R", [c for c in bandits if c[0].x[c[1]] <= TIGHT]),
        f"K is small: at most {SMALL}": ("R", [c for c in bandits if c[0].rounds[c[2]] <= SMALL]),
        f"K is {max((c[0].rounds[c[2]] for c in longest), default=0):,}": ("R", longest),
        "you play episodes": ("R", episodes),
    }
    rows = [(case, *(_safest(mode, *some) for mode in MODES)) for case, some in cases.items() if some[1]]
    caption = (
        "What to use, by the maps alone: in each case the algorithm whose largest multiple of the least mean regret is "
        "smallest; in how many cells it is the best; and that multiple with the cell where it is reached."
    )
    return Table(caption, (Column("if"), *(Column(mode) for mode in MODES)), tuple(rows))


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
        for mode in MODES:
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
            rows.append((panel.title, told, *(_winners(panel, mode, scope) for mode in MODES)))
    caption = "Cells of each map by the algorithm with the least mean regret, and how many of them are separated."
    return Table(caption, (Column("map"), Column("told"), *(Column(mode) for mode in MODES)), tuple(rows))


def _winners(panel: Panel, mode: str, scope: str) -> str:
    verdicts = [verdict for column in panel.verdicts[mode, scope] for verdict in column]
    firsts = Counter(panel.entries[v.first].name for v in verdicts)
    decided = sum(v.is_decided for v in verdicts)
    named = ", ".join(f"{name} {number}" for name, number in firsts.most_common())
    return f"{named}; {decided} of {len(verdicts)} separated"


def algorithms(atlas: Atlas) -> Table:
    """Show with which constants each algorithm is played, whether they are proved, and how often their event held."""
    found: dict[str, tuple[object, ...]] = {}
    for panel in atlas.panels:
        for entry, share in zip(panel.entries, panel.covered, strict=True):
            old = found.get(entry.label)
            if old is not None and isinstance(old[-1], Interval) and (share is None or old[-1].low <= share.low):
                continue
            shown = " and ".join(entry.modes)
            kind = "yes" if entry.name in ADAPTIVE else "no"
            found[entry.label] = (entry.name, entry.constants, shown, kind, entry.proved, share)
    titles = ("algorithm", "constants", "shown as", "adapts to the variance", "proved")
    caption = (
        "Constants of every algorithm, whether its theorem is proved with them, and the share of seeds in which the "
        "confidence event held in all rounds, in the cell where it held least often (95 % Clopper-Pearson)."
    )
    columns = (*(Column(title) for title in titles), Column("event held", "ends"))
    return Table(caption, columns, tuple(found.values()))  # type: ignore[arg-type]
