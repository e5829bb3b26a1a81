"""Slack of every statement of a group: quantiles over seeds of the largest observed / bound, one colour per case."""

from __future__ import annotations

from jaxvar.audit.outcome import Outcome
from jaxvar.audit.statement import Finding
from jaxvar.figures.style import SMALL, VERMILION, Drawing, Width, finish, looks, panels, style, wrap

_ROOM = 2.4  # inches for the titles of statements
_FLOOR = 1e-6  # smaller ratios are drawn here


def slack_figure(outcome: Outcome, group: str, *, width: Width = "neurips") -> Drawing:
    """Draw the findings of a group that had something to say."""
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
