"""The atlas as one self-contained HTML page: maps, the curves of a column, and the constants of every algorithm."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from experiments.atlas.conclude import ADAPTIVE, algorithms, use
from experiments.atlas.figure import ORDER, colour
from experiments.atlas.maps import ENOUGH, LEVEL, SCOPES, Atlas, Panel, each_level
from experiments.atlas.studies import MODES, Entry
from jaxvar.figures.style import COLOURS, DASHES
from jaxvar.files import write_whole
from jaxvar.report.markup import render
from jaxvar.tables import Table

FOLDER = Path(__file__).parent
FIRST = ("provable", "R")  # the positions of the switches when the page opens
GROUPS = {"round": ("bandits", "Linear bandits"), "episode": ("episodes", "Episodes")}


def page(atlas: Atlas) -> str:
    """Return the whole page as text, with styles, scripts and data inside: it loads nothing else."""
    groups = {GROUPS[unit]: [p for p in atlas.panels if p.unit == unit] for unit in GROUPS}
    groups = {heading: panels for heading, panels in groups.items() if panels}
    headings = {key: name for key, name in groups} | {
        "column": "A column",
        "use": "What to use",
        "algorithms": "Algorithms and constants",
        "method": "How it was made",
    }
    content = {
        "size": atlas.size,
        "headings": headings,
        "groups": {key: panels for (key, _), panels in groups.items()},
        "indices": {panel.title: i for i, panel in enumerate(atlas.panels)},
        "first": FIRST,
        "modes": MODES,
        "scopes": SCOPES,
        "tables": {"use": _rows(use(atlas)), "algorithms": _rows(algorithms(atlas))},
        "enough": ENOUGH,
        "level": LEVEL,
        "keys": _keys,
        "colour": colour,
        "data": data(atlas),
    }
    return render("map.html", ("numbers.js", "theme.js"), FOLDER, **content)


def write_page(atlas: Atlas, path: Path) -> Path:
    """Write the page to ``path``; if anything fails, an older file stays as it was."""
    return write_whole(path, lambda buffer: buffer.write(page(atlas).encode("utf-8")))


def stored(path: Path) -> dict[str, object]:
    """Read the numbers that a page holds."""
    _, _, rest = path.read_text("utf-8").partition('id="study-data">')
    found: dict[str, object] = json.loads(rest.partition("</script>")[0])
    return found


def data(atlas: Atlas) -> dict[str, object]:
    """Return the numbers of the page."""
    panels = [_panel(panel) for panel in atlas.panels]
    return {"size": atlas.size, "colours": len(COLOURS), "dashes": len(DASHES), "panels": panels}


def _panel(panel: Panel) -> dict[str, object]:
    found = {name: getattr(panel, name) for name in ("study", "hash", "title", "unit", "axis", "x", "notes", "rounds")}
    levels = {}
    for mode, scope in panel.verdicts:
        each = each_level(len(panel.players(mode, scope)), len(panel.x), len(panel.rounds))
        levels[f"{mode} {scope}"] = float(f"{100 * each:.5g}")
    return {
        **found,
        "seeds": panel.seeds,
        "players": [_player(entry) for entry in panel.entries],
        "covered": [None if c is None else [_digits(100 * v, 3) for v in (c.estimate, c.low)] for c in panel.covered],
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
        "proved": entry.proved,
    }


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
