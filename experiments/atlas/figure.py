"""The maps for print: a row for each kind of constants, a column for each problem; and one map for the first page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.atlas.maps import Atlas, Panel
from experiments.atlas.players import BANDITS, EPISODES
from jaxvar.figures import Drawing
from jaxvar.figures.look import COLOURS, SMALL, WIDTHS, Width, points, style, wrap
from jaxvar.figures.style import finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 6  # columns of the figure
FIRST = (  # beginnings of the titles of maps that are drawn before others
    "sphere, d = 5, constant noise",
    "sphere, d = 5, two levels",
    "fresh arms, d = 5, constant noise",
    "data, diabetes",
    "graded MDP, d = 2, H = 20",
)
_OFTEN = ("OFUL", "LOSAN", "AVE-UCB", "Weighted OFUL+", "SAVE", "LOFAV", "ConfidenceBall_2", "Weighted OFUL")
_BY_EPISODES = ("UCRL-VTR", "UCRL-AVE", "UCRL-VTR+", "MVP", "HF-UCRL-VTR+", "UCRL-WVTR", "UCBVI")
ORDER = {name: i for i, name in enumerate(dict.fromkeys((*_OFTEN, *BANDITS)))}
ORDER |= {name: i for i, name in enumerate(dict.fromkeys((*_BY_EPISODES, *EPISODES)))}


def colour(name: str) -> int:
    """Return the index of an algorithm's colour; its two letters tell apart those that share one."""
    return ORDER[name] % len(COLOURS)


def chosen(atlas: Atlas) -> list[Panel]:
    """Return the panels for one page of print: those named first, then others; all in their order if they are few."""
    if len(atlas.panels) <= MOST:
        return list(atlas.panels)
    wanted = [panel for key in FIRST for panel in atlas.panels if panel.title.startswith(key)]
    return [*wanted, *(panel for panel in atlas.panels if panel not in wanted)][:MOST]


def draw(atlas: Atlas, width: Width = "icml_wide") -> Drawing:
    """Draw some maps of an atlas with all kinds of constants, all algorithms being told R only."""
    panels, modes = chosen(atlas), list(atlas.modes)
    titles = [panel.title for panel in panels]
    return _maps([[(panel, mode) for panel in panels] for mode in modes], titles, modes, WIDTHS[width])


def draw_first(atlas: Atlas) -> Drawing | None:
    """Draw the map of the first page, with constants that are proved and with tuned ones; None if it was not played."""
    found = sorted((p for p in atlas.panels if p.title.startswith(FIRST[0])), key=lambda panel: -panel.rounds[-1])
    if not found or not {"provable", "tuned"} <= set(found[0].modes):
        return None
    titles = [f"{word} constants" for word in ("provable", "tuned")]
    return _maps([[(found[0], "provable"), (found[0], "tuned")]], titles, [""], WIDTHS["neurips"], height=2.1)


def _maps(
    grid: list[list[tuple[Panel, str]]], titles: list[str], rows: list[str], width: float, height: float | None = None
) -> Drawing:
    """Draw a map for each panel and kind of constants, with a key of those that are seen as the caption."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(width, height or 1.05 * len(rows) + 0.4), layout="constrained")
        axes = figure.subplots(len(rows), len(titles), squeeze=False)
        seen: dict[str, str] = {}
        for row, line in enumerate(grid):
            for column, (panel, mode) in enumerate(line):
                axis = axes[row, column]
                _map(axis, panel, mode, seen, large=len(rows) == 1)
                if row == 0:
                    inches = width / len(titles) - 0.25
                    axis.set_title("\n".join(wrap(figure, titles[column], inches, SMALL)), fontsize=points(SMALL))
                if column == 0:
                    axis.set_ylabel(f"{rows[row]}\nK".strip())
                if column and panel.rounds == line[column - 1][0].rounds:
                    axis.set_yticklabels([])
                if row == len(rows) - 1:
                    axis.set_xlabel(panel.axis)
                else:
                    axis.set_xticklabels([])
        key = ", ".join(f"{seen[name]} {name}" for name in ORDER if name in seen)
        panels = [panel for panel, _ in grid[0]]
        where = f"{panels[0].title[0].upper()}{panels[0].title[1:]}. " if len(rows) == 1 else ""
        mix = "; mix: share of the diffuse kernel" if any(panel.axis == "mix" for panel in panels) else ""
        caption = (
            f"{where}Colour and letters: the algorithm with the least mean regret after K rounds"
            f"{' or episodes' if mix else ''}, all told R only: {key}. Hatched: the paired t intervals, 95 % for all "
            f"cells of a map together (Bonferroni), do not separate it from all others. "
            f"{min(panel.seeds for panel in panels)} seeds a cell. R/σ: the bound that all are told over the standard "
            f"deviation of the noise{mix}. One run of the largest K is read at every K."
        )
        return finish(figure, [], [], caption)


def _map(axis: Axes, panel: Panel, mode: str, seen: dict[str, str], *, large: bool) -> None:
    from matplotlib.patches import Rectangle

    for i, verdicts in enumerate(panel.verdicts[mode, "R"]):
        for k, verdict in enumerate(verdicts):
            entry = panel.entries[verdict.first]
            fill = COLOURS[colour(entry.name)]
            axis.add_patch(Rectangle((i, k), 1, 1, facecolor=_pale(fill), edgecolor="white", linewidth=0.5))
            if not verdict.is_decided:
                axis.add_patch(
                    Rectangle((i, k), 1, 1, fill=False, edgecolor=fill, linewidth=0, hatch="////", alpha=0.6)
                )
            axis.text(
                i + 0.5, k + 0.5, entry.player.code, ha="center", va="center", fontsize=points(SMALL if large else 4.0)
            )
            seen[entry.name] = entry.player.code
    axis.set(xlim=(0, len(panel.x)), ylim=(0, len(panel.rounds)))
    axis.set_xticks(
        [i + 0.5 for i in range(len(panel.x))], ["" if i % 2 and not large else f"{x:g}" for i, x in enumerate(panel.x)]
    )
    axis.set_yticks(
        [k + 0.5 for k in range(len(panel.rounds))],
        [f"{k:,}" for k in panel.rounds],
        fontsize=points(SMALL if large else 5.0),
    )
    axis.tick_params(length=0)
    axis.grid(False)


def _pale(colour: str) -> tuple[float, ...]:
    """Return a colour on which black letters can be read."""
    from matplotlib.colors import to_rgb

    return tuple(0.4 * part + 0.6 for part in to_rgb(colour))
