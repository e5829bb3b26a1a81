"""The maps for print: a row for each kind of constants, a column for each problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.atlas.maps import Atlas, Panel
from experiments.atlas.studies import BANDITS, EPISODES, MODES
from jaxvar.figures import Drawing
from jaxvar.figures.style import COLOURS, SMALL, WIDTHS, Width, finish, points, style, wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 6  # columns of the figure
_OFTEN = ("OFUL", "LOSAN", "AVE-UCB", "Weighted OFUL+", "SAVE", "LOFAV", "ConfidenceBall_2", "Weighted OFUL")
_BY_EPISODES = ("UCRL-VTR", "UCRL-AVE", "UCRL-VTR+", "MVP", "HF-UCRL-VTR+", "UCRL-WVTR", "UCBVI")
ORDER = {name: i for i, name in enumerate(dict.fromkeys((*_OFTEN, *BANDITS)))}
ORDER |= {name: i for i, name in enumerate(dict.fromkeys((*_BY_EPISODES, *EPISODES)))}


def colour(name: str) -> int:
    """Return the index of an algorithm's colour; its two letters tell apart those that share one."""
    return ORDER[name] % len(COLOURS)


def draw(atlas: Atlas, width: Width = "icml_wide") -> Drawing:
    """Draw the first maps of an atlas, all algorithms being told R only."""
    from matplotlib.figure import Figure

    panels = atlas.panels if len(atlas.panels) <= MOST else _spread(atlas)
    with style():
        figure = Figure(figsize=(WIDTHS[width], 1.05 * len(MODES) + 0.4), layout="constrained")
        axes = figure.subplots(len(MODES), len(panels), squeeze=False)
        seen: dict[str, str] = {}
        for row, mode in enumerate(MODES):
            for column, panel in enumerate(panels):
                axis = axes[row, column]
                _map(axis, panel, mode, seen)
                if row == 0:
                    inches = WIDTHS[width] / len(panels) - 0.25
                    axis.set_title("\n".join(wrap(figure, panel.title, inches, SMALL)), fontsize=points(SMALL))
                if column == 0:
                    axis.set_ylabel(f"{mode}\nK")
                if column and panel.rounds == panels[column - 1].rounds:
                    axis.set_yticklabels([])
                if row == len(MODES) - 1:
                    axis.set_xlabel(panel.axis)
                else:
                    axis.set_xticklabels([])
        key = ", ".join(f"{seen[name]} {name}" for name in ORDER if name in seen)
        caption = (
            "Colour and letters: the algorithm with the least mean regret after K rounds or episodes, all told R only: "
            f"{key}. Hatched: the paired t intervals, 95 % for all cells of a map together (Bonferroni), do not "
            f"separate it from all others. {min(panel.seeds for panel in panels)} seeds a cell. R/σ: the bound that "
            "all are told over the standard deviation of the noise; mix: share of the diffuse kernel. One run of the "
            "largest K is read at every K."
        )
        return finish(figure, [], [], caption)


def _spread(atlas: Atlas) -> list[Panel]:
    """Return some panels: the first ones of the bandits and of the episodes."""
    bandits = [p for p in atlas.panels if p.unit == "round"][: MOST - 2]
    return [*bandits, *[p for p in atlas.panels if p.unit == "episode"][:2]]


def _map(axis: Axes, panel: Panel, mode: str, seen: dict[str, str]) -> None:
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
            axis.text(i + 0.5, k + 0.5, entry.player.code, ha="center", va="center", fontsize=points(4.0))
            seen[entry.name] = entry.player.code
    axis.set(xlim=(0, len(panel.x)), ylim=(0, len(panel.rounds)))
    axis.set_xticks([i + 0.5 for i in range(len(panel.x))], ["" if i % 2 else f"{x:g}" for i, x in enumerate(panel.x)])
    axis.set_yticks([k + 0.5 for k in range(len(panel.rounds))], [f"{k:g}" for k in panel.rounds], fontsize=points(5.0))
    axis.tick_params(length=0)
    axis.grid(False)


def _pale(colour: str) -> tuple[float, ...]:
    """Return a colour on which black letters can be read."""
    from matplotlib.colors import to_rgb

    return tuple(0.4 * part + 0.6 for part in to_rgb(colour))
