"""The style of figures: widths, colours, panels, legends and captions; and the files that figures are saved to."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

from jaxvar import parameters
from jaxvar.analysis.captions import visible
from jaxvar.files import write_whole

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.container import Container
    from matplotlib.figure import Figure

    Handle = Artist | Container  # a legend shows a sample of it

Width = Literal["neurips", "iclr", "icml", "icml_wide", "jmlr", "colt", "a4"]
WIDTHS: dict[Width, float] = {  # width of a column or of the text, in inches
    "neurips": 5.5,
    "iclr": 5.5,
    "icml": 3.25,
    "icml_wide": 6.75,
    "jmlr": 6.0,
    "colt": 6.0,
    "a4": 6.3,
}

AXIS_NAMES = {"regret": "cumulative pseudo-regret", "variance": "total variance"}  # of records

# Okabe and Ito: safe for the colour-blind
BLACK, GREY, BLUE, SKY = "#000000", "#999999", "#0072B2", "#56B4E9"
GREEN, ORANGE, VERMILION, PURPLE = "#009E73", "#E69F00", "#D55E00", "#CC79A7"
COLOURS = (BLUE, VERMILION, GREEN, BLACK, PURPLE, ORANGE, SKY, GREY)
Dash = str | tuple[float, tuple[float, ...]]
DASHES: tuple[Dash, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

SIZE = 7.0  # size of most text, in points: as small as venues allow
SMALL = 6.0
_STYLE = pathlib.Path(__file__).with_name("jaxvar.mplstyle")
# Neither the time nor a library's version is stored: equal figures give equal files.
_METADATA: dict[str, dict[str, str | None]] = {
    "pdf": {"Creator": "jaxvar", "Producer": None, "CreationDate": None},
    "png": {"Software": None},
}


class Look(NamedTuple):
    """The look of a curve; successive curves differ in all three fields."""

    colour: str
    dash: Dash
    marker: str


class Drawing(NamedTuple):
    """A figure and its caption, which is also drawn below it."""

    figure: matplotlib.figure.Figure
    caption: str


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """Return a look for each label, in order; the first 360 looks differ."""
    return {
        label: Look(COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)])
        for i, label in enumerate(dict.fromkeys(labels))
    }


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw with ``jaxvar.mplstyle`` on top of matplotlib's defaults; the user's own are restored afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(matplotlib.rc_params_from_file(_STYLE, use_default_template=False))
        yield


def plain(label: object) -> str:
    """Return a label that matplotlib draws literally: no formula, no line break, no hidden characters."""
    return visible(label).replace("$", r"\$")


class Panels(NamedTuple):
    """A figure with its axes, one per panel."""

    figure: Figure
    axes: list[Axes]
    columns: int

    def title(self, axis: Axes, text: str, beside: float = 0.5) -> None:
        """Write the title above a panel, in up to three lines; ``beside`` inches of the panel are outside the axes."""
        inches = self.figure.get_size_inches()[0] / self.columns - beside
        axis.set_title("\n".join(wrap(self.figure, text, inches, SIZE, most=3)))

    def xlabel(self, text: str) -> None:
        """Label the x axis of the lowest panel of each column."""
        for axis in self.axes[-self.columns :]:
            axis.set_xlabel(plain(text))
            axis.tick_params(labelbottom=True)


def panels(
    number: int,
    width: Width,
    *,
    least: float = 1.6,
    height: float = 1.7,
    sharex: bool = False,
    sharey: bool = False,
) -> Panels:
    """Make a grid of at most four columns, each at least ``least`` inches wide, with rows ``height`` inches high."""
    from matplotlib.figure import Figure  # unlike a figure of pyplot, it needs no screen and is freed after use

    parameters.check_choice("width", width, get_args(Width))
    inches = WIDTHS[width]
    most = max(1, min(4, int(inches / least)))
    rows = -(-number // most)
    columns = -(-number // rows)
    figure = Figure(figsize=(inches, rows * height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey).ravel()
    for unused in axes[number:]:
        unused.remove()
    return Panels(figure, list(axes[:number]), columns)


def finish(
    figure: Figure, handles: Sequence[Handle], labels: Sequence[str], caption: str, *, ylabel: str | None = None
) -> Drawing:
    """Add the legend above and the caption below, make the figure higher by as much, and label all y axes at once."""
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


def wrap(figure: Figure, text: str, inches: float, size: float, most: int | None = None) -> list[str]:
    """Split text into lines for matplotlib, none wider than ``inches``; words that are too long are broken.

    If there are more than ``most`` lines, the rest is cut and the last line ends in an ellipsis.
    """
    from matplotlib.font_manager import FontProperties

    renderer, font = _renderer(figure), FontProperties(size=size)

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


def save(drawing: Drawing | matplotlib.figure.Figure, stem: str | pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Write ``stem.pdf`` and ``stem.png``, creating the folder if needed, and return the paths."""
    figure = drawing.figure if isinstance(drawing, Drawing) else drawing
    stem = pathlib.Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)

    def write(kind: str) -> pathlib.Path:
        path = stem.with_name(f"{stem.name}.{kind}")
        return write_whole(path, lambda buffer: figure.savefig(buffer, format=kind, metadata=_METADATA[kind]))

    with style():
        return write("pdf"), write("png")


def _renderer(figure: Figure) -> RendererBase:
    """Return the renderer that measures text; a new figure gets a canvas that has one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = figure.canvas if isinstance(figure.canvas, FigureCanvasAgg) else FigureCanvasAgg(figure)
    return canvas.get_renderer()  # type: ignore[no-untyped-call]


def _legend(figure: Figure, handles: Sequence[Handle], labels: Sequence[str]) -> float:
    """Draw the legend in as many columns as fit, and return its height in inches."""
    inches = figure.get_size_inches()[0]
    texts = ["\n".join(wrap(figure, label, inches - 0.6, SIZE)) for label in labels]
    for columns in range(min(len(texts), 4), 0, -1):
        samples = cast("Sequence[Artist]", handles)  # containers of artists are allowed too
        legend = figure.legend(samples, texts, loc="outside upper center", ncols=columns, columnspacing=1.5)
        extent = legend.get_window_extent(_renderer(figure))
        if columns == 1 or extent.width <= inches * figure.dpi:
            break
        legend.remove()
    return float(extent.height / figure.dpi)
