"""An audit as figures and as one self-contained HTML page, with the markup and sortable tables of a study's."""

from __future__ import annotations

import base64
import io
import math
from pathlib import Path

from jaxvar.figures.style import SMALL, VERMILION, Drawing, Width, finish, looks, panels, style, wrap
from jaxvar.files import write_whole
from jaxvar.report.markup import MISSING, Column, Entry, Html, Row, between, embed, label, name, plain, table, tag
from jaxvar.report.page import document
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
    links = [tag("li", tag("a", _capital(group), href=f"#{_id(group)}")) for group in outcome.groups]
    parts = [section(outcome, group) for group in outcome.groups]
    body = tag(
        "main",
        _header(outcome),
        tag("nav", tag("ul", *links), aria_label="Contents"),
        *parts,
        _counterexamples(outcome),
    )
    return document("jaxvar audit", body, embed({}), _SCRIPTS)


def write_page(outcome: Outcome, path: Path) -> Path:
    """Write the page, whole or not at all."""
    written = page(outcome).encode("utf-8")
    return write_whole(path, lambda file: file.write(written))


def section(outcome: Outcome, group: str) -> Html:
    """Return the section of a group: its figure, and a table with one row for each finding."""
    found = outcome.of(group)
    cases = list(dict.fromkeys(f.case for f in found))
    columns = [
        Column("Case", kind="name"),
        Column("Statement", kind="name"),
        Column("Verdict", kind="name"),
        Column("Broken", "seeds"),
        Column("Frequency", "% of seeds [95 % Clopper-Pearson]"),
        Column("May fail", "in so many"),
        Column("Slack", "observed / bound: median, 99 %, largest"),
        Column("In the paper", kind="name"),
        Column("Claim", kind="name"),
    ]
    rows = [Row(cases.index(f.case), _entries(outcome, f)) for f in found]
    caption = f"Statements of the group {group}."
    notes = dict.fromkeys((f.statement.title, f.statement.note) for f in found if f.statement.note)
    told = [tag("li", label(f"{title}: {note}.")) for title, note in notes]
    return tag(
        "section",
        tag("h2", _capital(group)),
        _figure(outcome, group),
        table(f"{_id(group)}-table", caption, columns, rows, cases, "Case"),
        tag("details", tag("summary", "Notes on the statements"), tag("ul", *told)) if told else Html(),
        id=_id(group),
    )


def _header(outcome: Outcome) -> Html:
    button = tag("button", "Dark", type="button", class_="theme", hidden=True)
    verdict = (
        f"{len(outcome.broken)} statements that should hold are broken."
        if outcome.broken
        else "No statement that should hold was found broken."
    )
    return tag(
        "header",
        tag("div", tag("span", "jaxvar audit"), button, class_="eyebrow"),
        tag("h1", "The paper's statements, confronted with data"),
        tag("p", verdict, class_="question"),
        tag("p", label(outcome.summary())),
    )


def _entries(outcome: Outcome, f: Finding) -> list[Entry]:
    s = f.statement
    share, slack = MISSING, MISSING
    if f.share is not None:
        low, high = 100 * float(f.share.low), 100 * float(f.share.high)
        share = Entry(f"{plain(100 * f.share.estimate, 2)} {between(low, high, 2)}", f.share.estimate)
        slack = Entry(", ".join(f"{x:.3g}" for x in f.slack), f.slack[-1])
    return [
        name(f.case),
        name(s.title),
        name(outcome.verdict(f)),
        Entry(f"{plain(f.broken)} of {plain(f.seeds)}", f.broken),
        share,
        Entry(promised(f), s.failure),
        slack,
        Entry(tag("code", s.where)),
        name(_CLAIMS[s.claim]),
    ]


def _counterexamples(outcome: Outcome) -> Html:
    found = counterexamples(outcome)
    if found is None:
        return Html()
    columns = [Column(column.title.capitalize(), kind="name") for column in found.columns]
    rows = [Row(0, [name(str(cell)) for cell in row]) for row in found.rows]
    return tag(
        "section",
        tag("h2", "Counterexamples"),
        table("counterexamples-table", found.caption, columns, rows, ["all"]),
        id="counterexamples",
    )


def _figure(outcome: Outcome, group: str) -> Html:
    """Return the slack figure as a picture inside the page."""
    if not any(f.slack for f in outcome.of(group)):
        return Html()
    drawing, buffer = slack_figure(outcome, group), io.BytesIO()
    with style():
        drawing.figure.savefig(buffer, format="png", dpi=160, metadata={"Software": None})
    inches = drawing.figure.get_size_inches()
    data = base64.b64encode(buffer.getvalue()).decode()
    width, height = (math.ceil(96 * 1.4 * x) for x in inches)
    return tag(
        "img", src=f"data:image/png;base64,{data}", alt=drawing.caption, width=width, height=height, class_="slack"
    )


def _capital(group: str) -> str:
    return group[0].upper() + group[1:]


def _id(group: str) -> str:
    return group.lower().replace(" ", "-")
