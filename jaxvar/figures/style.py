"""How figures look: widths of venues, curves that differ without colour, and labels that stay text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

from jaxvar import parameters
from jaxvar.analysis.captions import visible

Width = Literal["neurips", "iclr", "icml", "icml_wide", "jmlr", "colt", "a4"]
WIDTHS: dict[Width, float] = {  # of a column or of the text, in inches
    "neurips": 5.5,
    "iclr": 5.5,
    "icml": 3.25,
    "icml_wide": 6.75,
    "jmlr": 6.0,
    "colt": 6.0,
    "a4": 6.3,
}

# Okabe and Ito: safe for the colour-blind
BLACK, GREY, BLUE, SKY = "#000000", "#999999", "#0072B2", "#56B4E9"
GREEN, ORANGE, VERMILION, PURPLE = "#009E73", "#E69F00", "#D55E00", "#CC79A7"
COLOURS = (BLUE, VERMILION, GREEN, BLACK, PURPLE, ORANGE, SKY, GREY)
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

SIZE = 7.0  # of most text, in points: as small as venues allow
SMALL = 6.0
SETTINGS: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same on every machine
    "font.size": SIZE,
    "axes.titlesize": SIZE,
    "axes.labelsize": SIZE,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SIZE,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.2,
    "hatch.linewidth": 0.4,
    "pdf.fonttype": 42,  # embedded as TrueType, which every venue takes
    "ps.fonttype": 42,
    "figure.dpi": 300,  # also for measuring text: at few dots it is rounded to other widths than in a PDF
}


class Look(NamedTuple):
    """Of a curve; neighbours differ in all three."""

    colour: str
    dash: Any
    marker: str


class Drawing(NamedTuple):
    """A figure, and the caption that is also drawn below it."""

    figure: Any
    caption: str


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """One for each label, in order; the first 360 differ."""
    return {
        label: Look(COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)])
        for i, label in enumerate(dict.fromkeys(labels))
    }


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Our settings and matplotlib's own defaults, whatever the user's are; these are restored afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        settings: dict[Any, Any] = SETTINGS
        matplotlib.rcParams.update(settings)
        yield


def plain(label: object) -> str:
    """A label as text that matplotlib draws as it stands: no formula, no line break, nothing that turns text around."""
    return visible(label).replace("$", r"\$")


class Panels(NamedTuple):
    """A figure with its axes, one per panel."""

    figure: Any
    axes: list[Any]
    columns: int

    def title(self, axis: Any, text: str, beside: float = 0.5) -> None:
        """Above a panel, in as many lines as its width asks for, of which ``beside`` inches are not the axes'."""
        inches = self.figure.get_size_inches()[0] / self.columns - beside
        axis.set_title("\n".join(wrap(self.figure, text, inches, SIZE, most=3)))


def panels(number: int, width: Width, *, least: float = 1.6, height: float = 1.7, **shared: Any) -> Panels:
    """A grid of at most four columns, each at least ``least`` inches wide, rows ``height`` inches high."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure  # needs no screen, and pyplot remembers no such figure

    parameters.check_choice("width", width, get_args(Width))
    inches = WIDTHS[width]
    most = max(1, min(4, int(inches / least)))
    rows = -(-number // most)
    columns = -(-number // rows)
    figure = Figure(figsize=(inches, rows * height), layout="constrained")
    FigureCanvasAgg(figure)  # so that text can be measured
    axes = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
    for unused in axes[number:]:
        unused.remove()
    return Panels(figure, list(axes[:number]), columns)


def finish(
    figure: Any, handles: Sequence[Any], labels: Sequence[str], caption: str, *, ylabel: str | None = None
) -> Drawing:
    """Put the legend above, the caption below, and make the figure higher by as much; one label for all y axes."""
    inches, height = figure.get_size_inches()
    legend_height = _legend(figure, handles, labels) if handles else 0.0
    lines = wrap(figure, caption, inches - 0.1, SMALL)
    figure.supxlabel("\n".join(lines), fontsize=SMALL, x=0.05 / inches, ha="left", linespacing=1.3)
    figure.set_size_inches(inches, height + legend_height + len(lines) * 1.35 * SMALL / 72 + 0.05)
    if ylabel is not None:
        label = figure.supylabel(plain(ylabel), fontsize=SIZE)
        figure.draw_without_rendering()  # places the panels
        places = [axis.get_position() for axis in figure.axes]
        label.set_y((min(place.y0 for place in places) + max(place.y1 for place in places)) / 2)
    return Drawing(figure, caption)


def wrap(figure: Any, text: str, inches: float, size: float, most: int | None = None) -> list[str]:
    """Any text as lines for matplotlib, none wider than ``inches``; words that are too long are broken.

    More than ``most`` lines are cut, and end in an ellipsis.
    """
    from matplotlib.font_manager import FontProperties

    renderer, font = figure.canvas.get_renderer(), FontProperties(size=size)

    def fits(line: str) -> bool:
        return bool(renderer.get_text_width_height_descent(line, font, False)[0] <= inches * figure.dpi)

    lines = [""]
    for word in visible(text).split():
        joined = f"{lines[-1]} {word}".strip()
        if fits(joined):
            lines[-1] = joined
            continue
        lines.append("")
        for letter in word:
            if lines[-1] and not fits(lines[-1] + letter):
                lines.append("")
            lines[-1] += letter
    lines = [line for line in lines if line] or [""]
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][:-1] + "…"]
    return [plain(line) for line in lines]


def _legend(figure: Any, handles: Sequence[Any], labels: Sequence[str]) -> float:
    """In as many columns as fit; returns its height in inches."""
    inches = figure.get_size_inches()[0]
    texts = ["\n".join(wrap(figure, label, inches - 0.6, SIZE)) for label in labels]
    for columns in range(min(len(texts), 4), 0, -1):
        legend = figure.legend(handles, texts, loc="outside upper center", ncols=columns, columnspacing=1.5)
        extent = legend.get_window_extent(figure.canvas.get_renderer())
        if columns == 1 or extent.width <= inches * figure.dpi:
            break
        legend.remove()
    return float(extent.height / figure.dpi)
