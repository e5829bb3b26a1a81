"""Names at the ends of curves, for figures with more curves than a legend can show."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from jaxvar.figures.look import SMALL, points, width_in_dots, wrap

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import Container
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D

    Handle = Artist | Container  # a line, or points with intervals

MOST_IN_LEGEND = 8
SHARE = 0.36  # largest part of the figure's width for names
_LEADER, _SAMPLE = 0.14, 0.2  # inches from the axes to the sample of the line, and for the sample itself
_LINE = 1.25  # height of a line of text, in its size
Notes = Mapping["Axes", Mapping[str, str]]  # what is said below a name in one panel


class _Label(NamedTuple):
    """A name beside a panel, with the line that it belongs to."""

    text: str
    sample: Line2D
    end: tuple[float, float] | None  # inches; None if the panel lacks the curve


class EndNames:
    """The names of all curves, beside the last panel of each row, at the heights where the curves end there."""

    def __init__(self, figure: Figure, handles: Sequence[Handle], labels: Sequence[str], notes: Notes) -> None:
        """Break the names into lines.

        Args:
          figure: the figure with all curves, before its caption.
          handles: a sample of each curve; the same curve in another panel has the same colour and marker.
          labels: names of the curves.
          notes: what is said below a name in one panel.
        """
        self.figure = figure
        self.samples = dict(zip(labels, map(_line, handles), strict=True))
        self.row_ends = list({_row(axis): axis for axis in figure.axes if axis.axison}.values())
        room = SHARE * figure.get_size_inches()[0] - _LEADER - _SAMPLE
        names = {label: wrap(figure, label, room, SMALL) for label in labels}
        self.texts: dict[Axes, dict[str, str]] = {}
        for axis in self.row_ends:
            below = notes.get(axis, {})
            self.texts[axis] = {k: "\n".join([*lines, *filter(None, [below.get(k)])]) for k, lines in names.items()}

    def make_room(self) -> None:
        """Leave a strip on the right free, and make the figure higher if a row is too low for its names."""
        inches, height = self.figure.get_size_inches()
        needed = max(sum(map(_height, texts.values())) for texts in self.texts.values()) + 0.5
        self.figure.set_size_inches(inches, max(height, len(self.row_ends) * needed))
        lines = [line for texts in self.texts.values() for text in texts.values() for line in text.split("\n")]
        widest = max(width_in_dots(self.figure, line, SMALL) for line in lines) / self.figure.dpi
        engine = cast("ConstrainedLayoutEngine", self.figure.get_layout_engine())
        engine.set(rect=(0, 0, 1 - (_LEADER + _SAMPLE + widest + 0.08) / inches, 1))

    def draw(self) -> None:
        """Draw the names, once the figure has its final size."""
        self.figure.draw_without_rendering()  # places the panels
        for axis, texts in self.texts.items():
            row = [other for other in self.figure.axes if _row(other) == _row(axis)]
            found = []
            for name, sample in self.samples.items():
                if any(_same(other, sample) for other in row):
                    here = _same(axis, sample)
                    end = None if here is None else _end(self.figure, axis, here)
                    found.append(_Label(texts[name], sample, end))
            if found:
                _draw(self.figure, axis, found)


def spread_out(targets: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Return the places nearest to ascending ``targets`` at which labels of these heights do not overlap.

    All stay between ``low`` and ``high``, if these leave enough room.
    """
    from scipy.optimize import isotonic_regression

    offsets = np.cumsum([0.0, *((a + b) / 2 for a, b in itertools.pairwise(heights))])
    nearest = isotonic_regression(np.asarray(targets) - offsets).x  # neighbours that would overlap move as one
    least, most = low + heights[0] / 2, high - heights[-1] / 2 - offsets[-1]
    return list((np.clip(nearest, least, max(least, most)) + offsets).tolist())


def _draw(figure: Figure, axis: Axes, found: list[_Label]) -> None:
    """Draw names, samples and leaders beside a panel."""
    from matplotlib.lines import Line2D

    inches, height = figure.get_size_inches()
    box = axis.get_position()
    low, high, right = box.y0 * height, box.y1 * height, box.x1 * inches
    found.sort(key=lambda label: low if label.end is None else label.end[1])
    heights = [_height(label.text) for label in found]
    spare = max(0.0, sum(heights) - (high - low)) / 2
    targets = [low if label.end is None else label.end[1] for label in found]
    for label, y in zip(found, spread_out(targets, heights, low - spare, high + spare), strict=True):
        colour, start = label.sample.get_color(), right + _LEADER
        if label.end is not None:
            leader = Line2D(
                [label.end[0] / inches, right / inches, start / inches],
                [label.end[1] / height, label.end[1] / height, y / height],
                color=colour,
                linewidth=0.4,
            )
            figure.add_artist(leader).set_in_layout(False)
        sample = Line2D([0.0], [0.0])
        sample.update_from(label.sample)
        sample.set_transform(figure.transFigure)
        sample.set_clip_path(None)  # it was that of the axes
        sample.set_clip_box(None)
        sample.set_data([start / inches, (start + _SAMPLE / 2) / inches, (start + _SAMPLE) / inches], [y / height] * 3)
        sample.set_markevery([1])
        figure.add_artist(sample).set_in_layout(False)
        text = figure.text((start + _SAMPLE + 0.05) / inches, y / height, label.text, va="center", ha="left")
        text.set(fontsize=points(SMALL), linespacing=1.1)
        text.set_in_layout(False)


def _line(handle: Handle) -> Line2D:
    """Return the line of a handle; points with intervals have one too."""
    from matplotlib.container import ErrorbarContainer

    return handle[0] if isinstance(handle, ErrorbarContainer) else cast("Line2D", handle)


def _same(axis: Axes, sample: Line2D) -> Line2D | None:
    """Return the curve of a panel that looks like the sample, if there is one."""
    from matplotlib.colors import same_color

    def alike(line: Line2D) -> bool:
        return (
            line.get_marker() == sample.get_marker()
            and line.get_linestyle() == sample.get_linestyle()
            and same_color(line.get_color(), sample.get_color())
        )

    return next((line for line in axis.lines if alike(line)), None)


def _end(figure: Figure, axis: Axes, line: Line2D) -> tuple[float, float] | None:
    """Return where a curve ends on the right, in inches, moved into the axes; None if it has no point."""
    x, y = (np.asarray(values, np.float64) for values in line.get_data(orig=False))
    shown = np.isfinite(x) & np.isfinite(y)
    if not np.any(shown):
        return None
    last = np.flatnonzero(shown)[np.argmax(x[shown])]
    where = line.get_transform().transform((x[last], y[last])) / figure.dpi
    inches, height = figure.get_size_inches()
    box = axis.get_position()
    return float(np.clip(where[0], 0, box.x1 * inches)), float(np.clip(where[1], box.y0 * height, box.y1 * height))


def _row(axis: Axes) -> int:
    place = axis.get_subplotspec()
    return 0 if place is None else place.rowspan.start


def _height(text: str) -> float:
    return (text.count("\n") + 1) * _LINE * points(SMALL) / 72
