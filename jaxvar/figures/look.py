"""The look of figures: widths, colours, markers, the style with the user's own settings on top, and text that fits."""

from __future__ import annotations

import contextlib
import contextvars
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from jaxvar.analysis.captions import latex, visible

if TYPE_CHECKING:
    from cycler import Cycler
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure

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
_NOT_LOOKS = ("backend", "interactive", "webagg", "tk.", "keymap", "animation")  # settings that no figure shows
UserStyle = str | pathlib.Path | Mapping[str, object]  # a file, a name that matplotlib knows, or rcParams
_USER: contextvars.ContextVar[Mapping[str, object] | None] = contextvars.ContextVar("user", default=None)


class Look(NamedTuple):
    """The look of a curve; successive curves differ in all three fields."""

    colour: str
    dash: Dash
    marker: str


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """Return a look for each label, in order; none of the first 40 shares its colour and marker, or colour and dash.

    Colours are those of the user's ``axes.prop_cycle``, if it was set.
    """
    colours: Sequence[str] = COLOURS
    set_by_user = user_settings().get("axes.prop_cycle")
    if set_by_user is not None:
        from matplotlib.colors import to_hex

        theirs = cast("Cycler[str, str]", set_by_user).by_key().get("color", [])
        colours = list(dict.fromkeys(map(to_hex, theirs))) or COLOURS
    used = set[tuple[str, Dash]]()  # dashes and markers that a colour has already

    def fresh(colour: str, options: Sequence[Dash], first: int) -> Dash:
        turned = [options[(first + k) % len(options)] for k in range(len(options))]
        found = next((one for one in turned if (colour, one) not in used), turned[0])
        used.add((colour, found))
        return found

    found = {}
    for i, label in enumerate(dict.fromkeys(labels)):
        colour = colours[i % len(colours)]
        found[label] = Look(colour, fresh(colour, DASHES, i), str(fresh(colour, MARKERS, i)))
    return found


def user_settings() -> dict[str, object]:
    """Return the rcParams that the user set: those that differ from matplotlib's defaults, and the user's style."""
    import matplotlib

    now, default = (cast("Mapping[str, object]", p) for p in (matplotlib.rcParams, matplotlib.rcParamsDefault))
    looked_at = [name for name in now if not name.startswith(_NOT_LOOKS)]  # looking at a backend would load it
    return {name: now[name] for name in looked_at if now[name] != default[name]} | dict(_USER.get() or {})


@contextlib.contextmanager
def user_style(own: UserStyle | None) -> Iterator[None]:
    """Draw and save with a style of the user on top of ours, for all figures inside the ``with`` block.

    Args:
      own: path of a matplotlib style file, the name of a style that matplotlib knows, or a dictionary of rcParams.
    """
    import matplotlib
    import matplotlib.style

    if own is None or isinstance(own, Mapping):
        settings: Mapping[str, object] | None = own
    elif str(own) in matplotlib.style.library:
        settings = cast("Mapping[str, object]", matplotlib.style.library[str(own)])
    elif pathlib.Path(own).is_file():
        settings = _read(own)
    else:
        raise ValueError(f"style must be a file or the name of a style that matplotlib knows, got {str(own)!r}")
    token = _USER.set(settings)
    try:
        yield
    finally:
        _USER.reset(token)


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw with ``jaxvar.mplstyle``, and with what the user set on top; all settings are restored afterwards."""
    import matplotlib

    users = user_settings()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        ours = dict(_read(_STYLE))
        if "font.size" in users:  # all our sizes follow the user's
            sizes = [name for name in ours if name.endswith(("labelsize", "titlesize", "fontsize"))]
            ours |= {name: float(str(ours[name])) * float(str(users["font.size"])) / SIZE for name in sizes}
        cast("dict[str, object]", matplotlib.rcParams).update(ours | users)
        yield


def _read(path: str | pathlib.Path) -> Mapping[str, object]:
    """Read a style file of matplotlib."""
    import matplotlib

    return cast("Mapping[str, object]", matplotlib.rc_params_from_file(path, use_default_template=False))


def points(size: float) -> float:
    """Return a text size in points, scaled as the user's ``font.size`` is to ours."""
    import matplotlib

    return size * float(matplotlib.rcParams["font.size"]) / SIZE


def ink() -> str:
    """Return the colour of reference lines, which can be seen on any background."""
    import matplotlib

    return str(matplotlib.rcParams["axes.edgecolor"])


def plain(label: object) -> str:
    """Return a label that matplotlib draws literally: no formula, no line break, no hidden characters."""
    import matplotlib

    return latex(label) if matplotlib.rcParams["text.usetex"] else visible(label).replace("$", r"\$")


def renderer_of(figure: Figure) -> RendererBase:
    """Return the renderer that measures text; a new figure gets a canvas that has one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = figure.canvas if isinstance(figure.canvas, FigureCanvasAgg) else FigureCanvasAgg(figure)
    return canvas.get_renderer()  # type: ignore[no-untyped-call]


def width_in_dots(figure: Figure, line: str, size: float) -> float:
    """Return the width of a line of text, in dots of the figure."""
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=points(size))
    return float(renderer_of(figure).get_text_width_height_descent(line, font, False)[0])


def wrap(figure: Figure, text: str, inches: float, size: float, most: int | None = None) -> list[str]:
    """Split text into lines for matplotlib, none wider than ``inches``; words that are too long are broken.

    If there are more than ``most`` lines, the rest is cut and the last line ends in an ellipsis.
    """

    def fits(line: str) -> bool:
        return width_in_dots(figure, line, size) <= inches * figure.dpi

    lines = [""]
    for word in visible(text).split():
        joined = f"{lines[-1]} {word}".strip()
        if fits(joined):
            lines[-1] = joined
            continue
        lines.append("")
        whole = [part for part in re.split("(?<=-)", word) if part]  # a line may end with a hyphen
        for part in whole if all(map(fits, whole)) else word:
            if lines[-1] and not fits(lines[-1] + part):
                lines.append("")
            lines[-1] += part
    lines = [line for line in lines if line] or [""]
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][:-1] + "…"]
    return [plain(line) for line in lines]
