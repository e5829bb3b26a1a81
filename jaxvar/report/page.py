"""A study's result as one self-contained HTML page: the numbers of all sections, for the template ``report.html``.

A row of a table is a mapping; ``setting`` is the index of its environment setting.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxvar.analysis.captions import constants_text, named, parameter_word, span
from jaxvar.analysis.intervals import mean_interval, median_interval
from jaxvar.analysis.paired import Paired, paired, reference_of, standings
from jaxvar.analysis.panels import Grid, Place, grouped
from jaxvar.analysis.slopes import slope_in_rounds, slopes_in, swept
from jaxvar.analysis.summaries import coverage, occupancy, sample, speed
from jaxvar.figures.look import COLOURS, DASHES
from jaxvar.files import write_whole
from jaxvar.report.charts import Curves, difference_rows, final_rows, question_charts, regret_curves, spread_rows
from jaxvar.report.drawing import look
from jaxvar.report.markup import clean, render
from jaxvar.status import describe
from jaxvar.study.result import StudyResult

_SCRIPTS = ("numbers.js", "chart.js", "tables.js", "files.js", "theme.js")
_OUTLINE_WIDTH = 100
_LATE = 10  # exponents in the rounds leave out the first tenth of the rounds
_LISTED_SEEDS = 12  # failed seeds that are listed per cell and cause
_LISTED_REASONS = 6

Row = dict[str, object]


def page(result: StudyResult) -> str:
    """Return the whole page as text, with styles, scripts and data inside: it loads nothing else."""
    grid = Grid.of(result)
    charts, regret, final = question_charts(grid), regret_curves(grid), _final(grid)
    question = {"charts": charts, "rows": [] if charts else final_rows(grid)}
    sections: dict[str, tuple[str, object]] = {
        "question": ("Final regret", question if regret else {}),
        "regret": ("Regret curves", regret),
        "paired": ("Paired differences", difference_rows(grid, final["differences"]) if regret else []),
        "spread": ("Spread over the seeds", spread_rows(grid)),
        "final": ("Table of final regret", final if regret else {}),
        "exponents": ("Exponents", _exponents(grid)),
        "coverage": ("Coverage", [_row(p, found=coverage(p.cell)) for p in grid.recorded("confidence")]),
        "layers": ("Layers", [_row(p, found=occupancy(p.cell)) for p in grid.recorded("layer_rounds")]),
        "speed": ("Wall time", [_row(p, found=speed(p.cell)) for p in grid.places]),
        "failures": ("Failed seeds", [row for place in grid.places for row in _failures(place)]),
        "configuration": ("Configuration", _configuration(result.config)),
    }
    shown = {key: heading for key, (heading, found) in sections.items() if found or key in ("regret", "failures")}
    content = {key: found for key, (_, found) in sections.items()}
    drawn: list[Curves] = [*charts, *([regret] if regret else [])]
    data = {
        "name": clean(result.name),
        "colours": len(COLOURS),
        "dashes": len(DASHES),
        "charts": [chart.data() for chart in drawn],
    }
    in_words = dataclasses.replace(result, reference=result.reference and named(result.reference, {}))
    common = {"grid": grid, "result": in_words, "size": _size(grid), "headings": shown, "data": data, "look": look}
    return render("report.html", _SCRIPTS, **common, **content)


def write_page(result: StudyResult, path: str | Path) -> Path:
    """Write the page to ``path``; if anything fails, an older file stays as it was."""
    return write_whole(Path(path), lambda file: file.write(page(result).encode("utf-8")))


def _size(grid: Grid) -> dict[str, object]:
    """Return the numbers of the header: what was played, and what failed."""
    cells = grid.result.cells
    if not cells:
        return {}
    runs = sum(len(cell.seeds) for cell in cells)
    played, stopping = [speed(cell) for cell in cells], grid.result.config.get("stopping")
    return {
        "environments": [named(label, {}) for label in grid.result.environments],
        "seeds": span(len(cell.seeds) for cell in cells),
        "rounds": span(cell.num_rounds for cell in cells),
        "records": span(len(cell.rounds) for cell in cells),
        "constants": constants_text(cells),
        "runs": runs,
        "failed": runs - sum(place.well for place in grid.places),
        "played": sum(s.seeds * s.rounds for s in played),
        "seconds": sum(s.seconds for s in played),
        "stopping": stopping.get("sentence") if isinstance(stopping, Mapping) else None,
    }


def _row(place: Place, **found: object) -> Row:
    return {"setting": place.setting, "place": place, **found}


def _final(grid: Grid) -> dict[str, Any]:
    """Return means, medians, paired differences and standings at the last round, and why differences are missing."""
    places, reference = grid.recorded("regret"), grid.result.reference
    standing: dict[tuple[int, int], str] = {}
    for group in grouped(places, lambda place: place.setting).values():
        if len(group) > 1:
            words = standings([p.cell for p in group])
            standing |= {(p.setting, p.curve): word for p, word in zip(group, words, strict=True)}
    rows, differences, reasons = list[Row](), list[tuple[Place, Paired]](), list[str]()
    for p in places:
        difference = None
        if reference is not None and p.cell.algorithm != reference:
            try:
                difference = paired(p.cell, reference_of(grid.result, p.cell, reference), resamples=1)  # not shown
                differences.append((p, difference))
            except ValueError as reason:
                reasons.append(str(reason))
        last, word = sample(p.cell).final, standing.get((p.setting, p.curve), "")
        mean, median = mean_interval(last), median_interval(last)
        rows.append(_row(p, mean=mean, median=median, paired=difference, standing=word))
    return {"rows": rows, "differences": differences, "reasons": reasons, "is_ranked": bool(standing)}


def _exponents(grid: Grid) -> dict[str, object]:
    """Return log-log slopes of the regret in the rounds and in every swept number."""
    places = grid.recorded("regret")
    if not places:
        return {}
    late = [_row(p, slope=slope_in_rounds(p.cell, burn_in=max(1, p.cell.num_rounds // _LATE))) for p in places]
    usable = dataclasses.replace(grid.result, cells=tuple(p.cell for p in places))
    tables = []
    for parameter in swept(usable):
        slopes = slopes_in(usable, parameter)
        environments = list(dict.fromkeys(s.environment for s in slopes))  # without the parameter
        rows = [{"setting": environments.index(s.environment), "slope": s} for s in slopes]
        reasons = list(dict.fromkeys(reason for slope in slopes for reason in slope.excluded))  # each reason once
        listed, more = "; ".join(reasons[:_LISTED_REASONS]), len(reasons) - _LISTED_REASONS
        about = {"parameter": parameter_word(parameter), "environments": environments}
        tables.append({**about, "rows": rows, "reasons": listed, "more": more})
    return {"late": late, "tables": tables}


def _failures(place: Place) -> list[Row]:
    """Return a row for every cause of failure in a cell."""
    cell, status, rows = place.cell, np.asarray(place.cell.status), []
    for code in np.unique(status[status != 0]):
        failed = np.flatnonzero(status == code)
        listed = [f"{cell.seeds[i]} ({cell.status_round[i]:,})" for i in failed[:_LISTED_SEEDS]]
        if len(failed) > _LISTED_SEEDS:
            listed.append(f"and {len(failed) - _LISTED_SEEDS:,} more")
        rows.append(_row(place, cause=describe(int(code)), number=len(failed), which=", ".join(listed)))
    return rows


def _configuration(config: Mapping[str, object]) -> dict[str, object]:
    """Return the study's definition, its last run and the whole configuration as text."""
    study, runs, last = config.get("study"), config.get("runs"), ""
    if isinstance(runs, list | tuple) and runs and isinstance(runs[-1], Mapping):
        last = ", ".join(f"{name} {value}" for name, value in runs[-1].items())
    return {
        "study": outline(study) if isinstance(study, Mapping) else "",
        "is_repeatable": isinstance(study, Mapping) and '"object": ' not in outline(study),
        "last_run": last,
        "everything": outline(config),
        "identity": f", study {config['study_hash']}" if "study_hash" in config else "",
    }


def outline(value: object, indent: str = "") -> str:
    """Return ``value`` as JSON for readers: what fits on a line stays on one line."""
    flat = json.dumps(value, ensure_ascii=False, default=_plain)
    inner = indent + "  "
    if len(indent) + len(flat) <= _OUTLINE_WIDTH or not value or not isinstance(value, Mapping | list | tuple):
        return flat
    if isinstance(value, Mapping):
        parts = [f"{inner}{json.dumps(str(k), ensure_ascii=False)}: {outline(v, inner)}" for k, v in value.items()]
    else:
        parts = [inner + outline(v, inner) for v in value]
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    return opening + "\n" + ",\n".join(parts) + f"\n{indent}{closing}"


def _plain(value: object) -> object:
    """Convert what JSON does not know: mappings to tables, NumPy's numbers to numbers, the rest to text."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
