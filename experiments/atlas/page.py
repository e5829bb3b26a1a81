"""The atlas as one self-contained HTML page: maps, the curves of a column, and the constants of every algorithm."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from experiments.atlas.conclude import ADAPTIVE, algorithms, findings, measured, use
from experiments.atlas.figure import ORDER, colour
from experiments.atlas.maps import ENOUGH, GROUPS, LEVEL, SCOPES, Atlas, Held, Panel, each_level
from experiments.atlas.players import Entry
from experiments.atlas.studies import SIZES, left_out
from jaxvar.figures.look import COLOURS, DASHES
from jaxvar.files import write_whole
from jaxvar.report.markup import render
from jaxvar.tables import Table

FOLDER = Path(__file__).parent
HOME = "experiments/atlas"
FIRST = ("provable", "R")  # the positions of the switches when the page opens
FACETS = {"arms": "Arms", "noise": "Noise", "d": "Dimension"}  # what bandits are chosen by
MANY = 6  # maps of a group above which only some are shown at first


def page(atlas: Atlas, folder: str = HOME) -> str:
    """Return the whole page as text, with styles, scripts and data inside: it loads nothing else.

    The files of its studies are in ``folder``.
    """
    groups = {key: [p for p in atlas.panels if p.problem.group == key] for key in GROUPS}
    groups = {key: panels for key, panels in groups.items() if panels}
    headings = {key: GROUPS[key] for key in groups} | {
        "column": "A column",
        "use": "What to use",
        "algorithms": "Algorithms and constants",
        "method": "How it was made",
    }
    content = {
        "size": atlas.size,
        "headings": headings,
        "question": SIZES[atlas.size].question,
        "findings": findings(atlas) if atlas.size == "piece" else [],
        "groups": groups,
        "left_out": left_out(),
        "facets": facets(groups.get("bandits", [])),
        "indices": {panel.title: i for i, panel in enumerate(atlas.panels)},
        "first": FIRST,
        "modes": atlas.modes,
        "scopes": SCOPES,
        "tables": {"use": _rows(use(atlas)), "algorithms": _rows(algorithms(atlas))},
        "enough": ENOUGH,
        "level": LEVEL,
        "keys": _keys,
        "colour": colour,
        "data": {**data(atlas), "folder": folder},
    }
    return render("map.html", ("numbers.js", "theme.js"), FOLDER, **content)


def facets(panels: list[Panel]) -> dict[str, tuple[str, dict[str, bool]]]:
    """Return what maps can be chosen by: titles, and values with whether they are chosen when the page opens.

    Few maps are all shown. Of many, those with constant noise are.
    """
    found = {}
    for key, title in FACETS.items():
        values = list(dict.fromkeys(panel.problem.facets[key] for panel in panels))
        some = key == "noise" and len(panels) > MANY
        if len(values) > 1:
            found[key] = (title, {value: not some or value == values[0] for value in values})
    return found


def write_page(atlas: Atlas, path: Path, folder: str = HOME) -> Path:
    """Write the page to ``path``; if anything fails, an older file stays as it was."""
    return write_whole(path, lambda buffer: buffer.write(page(atlas, folder).encode("utf-8")))


def stored(path: Path) -> dict[str, object]:
    """Read the numbers that a page holds."""
    _, _, rest = path.read_text("utf-8").partition('id="study-data">')
    found: dict[str, object] = json.loads(rest.partition("</script>")[0])
    return found


def data(atlas: Atlas) -> dict[str, object]:
    """Return the numbers of the page."""
    players: list[list[dict[str, object]]] = []
    panels = []
    for panel in atlas.panels:  # many panels have the same players
        some = [_player(entry) for entry in panel.entries]
        if some not in players:
            players.append(some)
        panels.append({**_panel(panel), "players": players.index(some)})
    fixed = {"size": atlas.size, "colours": len(COLOURS), "dashes": len(DASHES)}
    return {**fixed, "players": players, "panels": panels}


def _panel(panel: Panel) -> dict[str, object]:
    found = {name: getattr(panel, name) for name in ("study", "hash", "title", "unit", "axis", "x", "notes", "rounds")}
    levels = {}
    for mode, scope in panel.verdicts:
        each = each_level(len(panel.players(mode, scope)), len(panel.x), len(panel.rounds))
        levels[f"{mode} {scope}"] = float(f"{100 * each:.5g}")
    return {
        **found,
        "seeds": panel.seeds,
        "covered": [_held(held) for held in panel.covered],
        "mean": _numbers(panel.mean, 4),
        "half": _numbers(panel.half, 2),
        "levels": levels,
        "verdicts": {
            f"{mode} {scope}": [
                [[v.first, v.second, *(_digits(x, 3) for x in (v.difference, v.low, v.high)), v.open] for v in column]
                for column in columns
            ]
            for (mode, scope), columns in panel.verdicts.items()
        },
    }


def _keys(panels: list[Panel]) -> list[Entry]:
    """Return an entry of each algorithm that wins a cell when the page opens, in the order of the colours."""
    won = {p.entries[v.first].name: p.entries[v.first] for p in panels for column in p.verdicts[FIRST] for v in column}
    return [won[name] for name in ORDER if name in won]


def _player(entry: Entry) -> dict[str, object]:
    return {
        "label": entry.label,
        "code": entry.player.code,
        "curve": ORDER[entry.name],
        "told": entry.player.told,
        "adapts": entry.name in ADAPTIVE,
        "modes": entry.modes,
        "known": entry.known,
        "measured": measured(entry),
    }


def _held(held: Held | None) -> list[float | None] | None:
    """Return the share of seeds in percent, with its interval, and the column; None where it was not recorded."""
    if held is None:
        return None
    share = held.share
    return [*(_digits(100 * value, 3) for value in (share.estimate, share.low, share.high)), held.x]


def _digits(value: float, digits: int) -> float | None:
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None


def _numbers(values: np.ndarray, digits: int) -> list[object]:
    """Return an array as lists of numbers with a few digits; None where there is none."""
    return [_numbers(v, digits) if np.ndim(v) else _digits(float(v), digits) for v in values]


def _rows(table: Table) -> dict[str, object]:
    """Return a table as its template shows it: titles and rows of text."""
    lines = [line[2:-2].replace("\\", "") for line in table.markdown().splitlines() if line.startswith("| ")]
    titles, *rows = ([cell.strip() for cell in line.split(" | ")] for line in lines)
    return {"caption": table.caption, "titles": titles, "rows": rows}
