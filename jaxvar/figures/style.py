"""The parts of every figure: panels, legend or names at the ends of curves, caption; and the files it is saved to."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

from jaxvar import parameters
from jaxvar.analysis.captions import algorithm_name, latex, visible
from jaxvar.analysis.panels import by_problem, facets, titles
from jaxvar.figures.ends import MOST_IN_LEGEND, SHARE, EndNames, Notes
from jaxvar.figures.look import SIZE, SMALL, WIDTHS, Width, plain, points, renderer_of, style, wrap
from jaxvar.files import write_whole
from jaxvar.study.result import CellResult

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from jaxvar.figures.ends import Handle

# Neither the time nor a library's version is stored: equal figures give equal files.
_METADATA: dict[str, dict[str, str | None]] = {
    "pdf": {"Creator": "jaxvar", "Producer": None, "CreationDate": None},
    "png": {"Software": None},
}
_NARROWEST = 0.6  # inches of the axes in a table of panels, whose ticks are labelled at the edges only
_BETWEEN = 0.15  # inches between panels


class Drawing(NamedTuple):
    """A figure and its caption, which is also drawn below it."""

    figure: matplotlib.figure.Figure
    caption: str
    below: Text | None = None  # the caption as it is drawn


class Panels(NamedTuple):
    """A figure with its axes, one per panel."""

    figure: Figure
    axes: list[Axes]
    columns: int
    places: Sequence[tuple[int, int]]  # row and column of each panel

    def title(self, axis: Axes, text: str, beside: float = 0.5) -> None:
        """Write the title above a panel, in up to three lines; ``beside`` inches of the panel are outside the axes."""
        inches = self.figure.get_size_inches()[0] / self.columns - beside
        axis.set_title("\n".join(wrap(self.figure, text, inches, SIZE, most=3)))

    def xlabel(self, text: str) -> None:
        """Label the x axes of the lowest row, and the ticks of the lowest panel of each column."""
        lowest = {column: (row, axis) for (row, column), axis in zip(self.places, self.axes, strict=True)}
        last = max(row for row, _ in self.places)
        label = "\n".join(wrap(self.figure, text, 0.7 * self.figure.get_size_inches()[0] / self.columns, SIZE))
        for row, axis in lowest.values():
            axis.tick_params(labelbottom=True)
            if row == last:
                axis.set_xlabel(label)


def panels(
    number: int,
    width: Width,
    *,
    least: float = 1.6,
    height: float = 1.7,
    sharex: bool = False,
    sharey: bool = False,
    names: int = 0,
    squeeze: float = 0.66,
) -> Panels:
    """Make a grid of at most four columns, with rows ``height`` inches high and no single panel in the last row.

    Args:
      number: number of panels.
      width: venue that sets the figure's width.
      least: least width of a panel, in inches.
      height: height of a row, in inches.
      sharex: whether all panels have one x axis.
      sharey: whether all panels have one y axis.
      names: number of curves; if there are too many for a legend, their names take a part of the width.
      squeeze: part of ``least`` that is enough, if this avoids a single panel in the last row.
    """
    inches = _room(width, names)
    most = max(1, min(4, int(inches / least)))
    rows = -(-number // most)
    columns = -(-number // rows)
    if columns > 1 and number % columns == 1:
        widest, fewest = min(4, int(inches / (squeeze * least))), 1 if number == 3 else 2
        others = [c for c in (columns + 1, columns - 1) if fewest <= c <= widest and number % c != 1]
        columns = others[0] if others else columns
    places = [divmod(i, columns) for i in range(number)]
    return _grid(width, places, height, sharex, sharey)


def problem_panels(
    groups: dict[str, list[CellResult]],
    width: Width,
    *,
    least: float = 1.6,
    height: float = 1.7,
    sharey: bool = False,
    names: int = 0,
    left: float = 0.4,
) -> Panels:
    """Make a panel with its title for each environment setting, all with one x axis.

    If two things vary between the settings, and the width allows it, the panels make a table: its rows and columns are
    named at the edges. The arguments are those of :func:`panels`; ``left`` are the inches on the left of a panel, or
    of all if they share the y axis.
    """
    found = facets(groups)
    if found is not None:
        room = _room(width, names) - 0.2  # names of the rows
        most = int((room - left) / (_NARROWEST + _BETWEEN) if sharey else room / (_NARROWEST + _BETWEEN + left))
        if len(found.columns) > most:
            found = found.turned()
        if len(found.columns) <= most:
            columns = len(found.columns)
            inches = (room - left) / columns - _BETWEEN if sharey else room / columns - _BETWEEN - left
            grid = _grid(width, found.places, height, True, sharey)
            by_place = dict(zip(found.places, grid.axes, strict=True))
            heads = _heads(grid.figure, found.columns, inches)
            is_named = names > MOST_IN_LEGEND  # names of curves are on the right then
            for (row, column), axis in by_place.items():
                if row == min(r for r, c in found.places if c == column):
                    axis.set_title(heads[column])
                if column == (min if is_named else max)(c for r, c in found.places if r == row):
                    text = wrap(grid.figure, found.rows[row], 0.95 * height, SIZE, most=2)
                    if is_named:
                        axis.set_ylabel("\n".join(text))
                        continue
                    axis.annotate(
                        "\n".join(text),
                        (1, 0.5),
                        (4, 0),
                        xycoords="axes fraction",
                        textcoords="offset points",
                        rotation=270,
                        ha="left",
                        va="center",
                        fontsize=points(SIZE),
                    )
            _raise(grid.figure, heads, 1)
            return grid
    grid = panels(len(groups), width, least=least, height=height, sharex=True, sharey=sharey, names=names)
    inches = _room(width, names) / grid.columns - _BETWEEN - (left / grid.columns if sharey else left)
    heads = _heads(grid.figure, titles(groups), inches)
    for axis, title in zip(grid.axes, heads, strict=True):
        axis.set_title(title)
    _raise(grid.figure, heads, -(-len(groups) // grid.columns))
    return grid


def row_panels(cells: Sequence[CellResult], width: Width) -> tuple[Panels, list[tuple[Axes, int, CellResult]]]:
    """Make a panel for each environment setting, with a named row for each algorithm.

    The names are only on the left, if all panels have the same. The second value says each cell's panel and row.
    """
    groups = by_problem(cells)
    same = len({tuple(map(algorithm_name, cells)) for cells in groups.values()}) == 1
    height, least = 0.75 + 0.23 * max(map(len, groups.values())), 1.8 if same else 2.6
    room = min(1.3, 0.22 * WIDTHS[width])
    grid = problem_panels(groups, width, least=least, height=height, sharey=same, left=room)
    rows = []
    for axis, mine in zip(grid.axes, groups.values(), strict=True):
        names = ["\n".join(wrap(grid.figure, algorithm_name(cell), room, SMALL, most=2)) for cell in mine]
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(len(names) - 0.4, -0.6)
        axis.grid(False, axis="y")
        rows += [(axis, row, cell) for row, cell in enumerate(mine)]
    return grid, rows


def finish(
    figure: Figure,
    handles: Sequence[Handle],
    labels: Sequence[str],
    caption: str,
    *,
    ylabel: str | None = None,
    notes: Notes | None = None,
) -> Drawing:
    """Add the legend above and the caption below, make the figure higher by as much, and label all y axes at once.

    A legend has at most eight entries. The names of more curves are written at the ends of the curves instead, in the
    last panel of each row.

    Args:
      figure: the figure.
      handles: a sample of each curve.
      labels: their names.
      caption: the caption.
      ylabel: the label of all y axes.
      notes: texts below the names at the ends of curves, by panel and name.
    """
    names = EndNames(figure, handles, labels, notes or {}) if len(handles) > MOST_IN_LEGEND else None
    legend_height = _legend(figure, handles, labels) if handles and names is None else 0.0
    if names is not None:
        names.make_room()
    inches, height = figure.get_size_inches()
    lines = wrap(figure, caption, inches - 0.1, SMALL)
    size = points(SMALL)
    below = figure.supxlabel("\n".join(lines), fontsize=size, x=0.05 / inches, ha="left", linespacing=1.3)
    figure.set_size_inches(inches, height + legend_height + len(lines) * 1.35 * size / 72 + 0.05)
    if ylabel is not None:
        label = figure.supylabel(plain(ylabel), fontsize=points(SIZE))
        figure.draw_without_rendering()  # places the panels
        places = [axis.get_position() for axis in figure.axes]
        low, high = min(place.y0 for place in places), max(place.y1 for place in places)
        label.set(y=(low + high) / 2, multialignment="center")
        label.set_text("\n".join(wrap(figure, ylabel, (high - low) * figure.get_size_inches()[1], SIZE)))
    if names is not None:
        names.draw()
    return Drawing(figure, caption, below)


def save(
    drawing: Drawing | matplotlib.figure.Figure, stem: str | pathlib.Path, *, caption: bool = True
) -> tuple[pathlib.Path, pathlib.Path]:
    r"""Write ``stem.pdf`` and ``stem.png``, creating the folder if needed, and return their paths.

    The caption is written beside them: ``stem.caption.txt`` as text, ``stem.caption.tex`` for LaTeX's ``\caption``.

    Args:
      drawing: the figure with its caption, or any figure of matplotlib.
      stem: path without an ending.
      caption: whether the picture shows the caption too.
    """
    stem = pathlib.Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure, below = (drawing.figure, drawing.below) if isinstance(drawing, Drawing) else (drawing, None)

    def write(ending: str, fill: Callable[[io.BytesIO], object]) -> pathlib.Path:
        return write_whole(stem.with_name(f"{stem.name}.{ending}"), fill)

    if isinstance(drawing, Drawing):
        write("caption.txt", lambda buffer: buffer.write(f"{visible(drawing.caption)}\n".encode()))
        write("caption.tex", lambda buffer: buffer.write(f"{latex(drawing.caption)}\n".encode()))
    hidden = None if caption else below
    with style():
        pdf = write("pdf", lambda buffer: _print(figure, buffer, "pdf", hidden))
        return pdf, write("png", lambda buffer: _print(figure, buffer, "png", hidden))


def _print(figure: Figure, buffer: io.BytesIO, kind: str, hidden: Text | None) -> None:
    """Write the figure, without the strip of a caption that is to be hidden."""
    from matplotlib.transforms import Bbox

    if hidden is None:
        figure.savefig(buffer, format=kind, metadata=_METADATA[kind])
        return
    figure.draw_without_rendering()
    inches, height = figure.get_size_inches()
    kept = Bbox.from_extents(0, hidden.get_window_extent(renderer_of(figure)).y1 / figure.dpi, inches, height)
    engine = figure.get_layout_engine()
    figure.set_layout_engine("none")  # everything else stays in its place
    hidden.set_visible(False)
    try:
        figure.savefig(buffer, format=kind, metadata=_METADATA[kind], bbox_inches=kept)
    finally:
        hidden.set_visible(True)
        figure.set_layout_engine(engine)


def _room(width: Width, names: int) -> float:
    """Return the inches that panels have, beside the names of curves if a legend would be too long."""
    parameters.check_choice("width", width, get_args(Width))
    return WIDTHS[width] * (1 - SHARE if names > MOST_IN_LEGEND else 1.0)


def _grid(width: Width, places: Sequence[tuple[int, int]], height: float, sharex: bool, sharey: bool) -> Panels:
    """Make a figure with panels at some places of a table; the other places are empty."""
    from matplotlib.figure import Figure  # unlike a figure of pyplot, it needs no screen and is freed after use

    rows, columns = (1 + max(numbers) for numbers in zip(*places, strict=True))
    figure = Figure(figsize=(WIDTHS[width], rows * height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    for place in {(row, column) for row in range(rows) for column in range(columns)} - set(places):
        axes[place].remove()
    return Panels(figure, [axes[place] for place in places], columns, places)


def _heads(figure: Figure, texts: Sequence[str], inches: float) -> list[str]:
    """Return titles of up to four lines; if one needs several, the last value has a line of its own in all."""
    heads = [wrap(figure, text, inches, SIZE, most=4) for text in texts]
    if max(map(len, heads)) > 1:
        parts = [text.rpartition(" = ") for text in texts]
        heads = [
            [*wrap(figure, name, inches, SIZE, most=3), *wrap(figure, f"= {value}", inches, SIZE, most=1)]
            if name
            else wrap(figure, value, inches, SIZE, most=4)
            for name, _, value in parts
        ]
    return ["\n".join(lines) for lines in heads]


def _raise(figure: Figure, heads: Sequence[str], rows: int) -> None:
    """Make a figure higher by the lines that titles of several lines take in some rows."""
    inches, height = figure.get_size_inches()
    lines = max(head.count("\n") for head in heads)
    figure.set_size_inches(inches, height + rows * lines * 1.2 * points(SIZE) / 72)


def _legend(figure: Figure, handles: Sequence[Handle], labels: Sequence[str]) -> float:
    """Draw the legend in as many columns as fit, and return its height in inches."""
    inches = figure.get_size_inches()[0]
    texts = ["\n".join(wrap(figure, label, inches - 0.6, SIZE)) for label in labels]
    for columns in range(min(len(texts), 4), 0, -1):
        samples = cast("Sequence[Artist]", handles)  # containers of artists are allowed too
        legend = figure.legend(samples, texts, loc="outside upper center", ncols=columns, columnspacing=1.5)
        extent = legend.get_window_extent(renderer_of(figure))
        if columns == 1 or extent.width <= inches * figure.dpi:
            break
        legend.remove()
    return float(extent.height / figure.dpi)
