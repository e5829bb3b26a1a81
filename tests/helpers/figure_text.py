"""The text of a figure and the place of each, for tests of figures."""


def drawn(figure):
    """Extents of the text that stands for itself: ticks outside of the limits are not drawn."""
    figure.draw_without_rendering()
    own = [*figure.texts, *(t for a in figure.axes for t in (a.title, a.xaxis.label, *a.texts))]
    for axis in figure.axes:
        low, high = sorted(axis.get_ylim())
        if axis.get_yscale() == "linear":
            own += [tick.label1 for tick in axis.yaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    own += [t for legend in figure.legends for t in legend.get_texts()]
    own += [t for a in figure.axes if a.get_legend() for t in a.get_legend().get_texts()]
    own += [t for t in (figure._suptitle, figure._supxlabel, figure._supylabel) if t is not None]
    renderer = figure.canvas.get_renderer()
    inches = figure.dpi_scale_trans.inverted()
    return {t.get_text(): t.get_window_extent(renderer).transformed(inches) for t in own if t.get_text()}


def check_inside(figure):
    """No text leaves the page."""
    width, height = figure.get_size_inches()
    for text, box in drawn(figure).items():
        assert box.x0 > -0.01 and box.x1 < width + 0.01 and box.y0 > -0.01 and box.y1 < height + 0.01, (text, box)
