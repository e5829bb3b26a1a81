"""An audit as figures and as one self-contained HTML page, by the template ``audit.html``."""

from __future__ import annotations

import base64
import io
import math
from pathlib import Path

from jaxvar.figures.style import SMALL, VERMILION, Drawing, Width, finish, looks, panels, style, wrap
from jaxvar.files import write_whole
from jaxvar.report.markup import render
from jaxvar.theory.statement import Finding, Outcome, counterexamples, promised

_SCRIPTS = ("tables.js", "theme.js")
_CLAIMS = {"holds": "holds", "fails": "fails as printed", "open": "not proved as it stands"}
_ROOM = 2.4  # inches for the titles of statements in a figure
_FLOOR = 1e-6  # smaller ratios are drawn here


def slack_figure(outcome: Outcome, group: str, *, width: Width = "neurips") -> Drawing:
    """Draw quantiles over seeds of the largest observed / bound of every statement of a group, one colour per case."""
    found = [f for f in outcome.of(group) if f.slack]
    if not found:
        raise ValueError(f"nothing was judged in {group!r}")
    by_key: dict[str, list[Finding]] = {}
    for f in found:
        by_key.setdefault(f.statement.key, []).append(f)
    cases = list(dict.fromkeys(f.case for f in found))
    look, handles = looks(cases), {}
    step = 0.8 / len(cases)
    with style():
        grid = panels(1, width, height=0.6 + len(by_key) * max(0.2, 0.075 * len(cases)))
        axis = grid.axes[0]
        for row, some in enumerate(by_key.values()):
            for f in some:
                at = row + (cases.index(f.case) - (len(cases) - 1) / 2) * step
                low, near, high = (max(x, _FLOOR) for x in f.slack)
                mine = look[f.case]
                axis.plot([low, high], [at, at], color=mine.colour, linewidth=1.0)
                axis.plot([low], [at], color=mine.colour, marker="|", markersize=3)
                (handles[f.case],) = axis.plot([near], [at], color=mine.colour, marker=mine.marker, linestyle="none")
        axis.axvline(1, color=VERMILION, linewidth=0.9, linestyle=(0, (4, 2)))
        names = [
            "\n".join(wrap(grid.figure, some[0].statement.title, _ROOM, SMALL, most=2)) for some in by_key.values()
        ]
        axis.set_yticks(range(len(by_key)), names)
        axis.set(xscale="log", ylim=(len(by_key) - 0.4, -0.6), xlabel="observed / bound")
        caption = (
            f"{group[0].upper()}{group[1:]}: the largest observed / bound over all rounds, from its median over seeds "
            "(bar) to its maximum (end), with the 99 % quantile (symbol); right of the dashed line a seed breaks the "
            f"statement. Ratios below {_FLOOR:g} are drawn there. {outcome.about}"
        )
        return finish(grid.figure, [handles[c] for c in cases], cases, caption)


def page(outcome: Outcome) -> str:
    """Return the whole page as text: nothing is fetched from anywhere."""
    groups = []
    for group in outcome.groups:
        found = outcome.of(group)
        cases = list(dict.fromkeys(f.case for f in found))
        rows = [
            {
                "setting": cases.index(f.case),
                "found": f,
                "verdict": outcome.verdict(f),
                "promised": promised(f),
                "claim": _CLAIMS[f.statement.claim],
                "slack": ", ".join(f"{x:.3g}" for x in f.slack),
            }
            for f in found
        ]
        notes = dict.fromkeys(f"{f.statement.title}: {f.statement.note}." for f in found if f.statement.note)
        groups.append({"key": _key(group), "name": group, "cases": cases, "rows": rows, "notes": notes})
    shown = None
    if (failed := counterexamples(outcome)) is not None:
        shown = {
            "caption": failed.caption,
            "columns": [(column.title.capitalize(), "", "name") for column in failed.columns],
            "rows": [{"setting": 0, "entries": row} for row in failed.rows],
        }
    return render(
        "audit.html",
        _SCRIPTS,
        headings={_key(group): group[0].upper() + group[1:] for group in outcome.groups},
        outcome=outcome,
        groups=groups,
        figures={_key(g): _figure(outcome, g) for g in outcome.groups if any(f.slack for f in outcome.of(g))},
        counterexamples=shown,
    )


def write_page(outcome: Outcome, path: Path) -> Path:
    """Write the page, whole or not at all."""
    written = page(outcome).encode("utf-8")
    return write_whole(path, lambda file: file.write(written))


def _figure(outcome: Outcome, group: str) -> dict[str, object]:
    """Return the slack figure as a picture inside the page."""
    drawing, buffer = slack_figure(outcome, group), io.BytesIO()
    with style():
        drawing.figure.savefig(buffer, format="png", dpi=160, metadata={"Software": None})
    width, height = (math.ceil(96 * 1.4 * x) for x in drawing.figure.get_size_inches())
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"data": data, "caption": drawing.caption, "width": width, "height": height}


def _key(group: str) -> str:
    return group.lower().replace(" ", "-")
