"""The layout of figures: captions, the user's style, tables of panels, names in words and at the ends of curves."""

import itertools
import operator

import matplotlib
import PIL.Image
import pytest

from jaxvar import figures
from jaxvar.analysis.captions import label_word, parameter_word, settings_text
from jaxvar.analysis.panels import facets
from jaxvar.figures.ends import spread_out
from jaxvar.figures.look import looks, plain
from jaxvar.figures.style import panels
from jaxvar.study.factories import NOISES, public_factories, wrapper_factories
from tests.helpers.figure_text import check_inside, drawn
from tests.helpers.synthetic_study import cell, curves, layered, study, two_parameters, whole_study


@pytest.mark.parametrize("colours", [1, 3, 8, 9])
def test_no_two_curves_share_colour_and_marker_or_dash(colours):
    with matplotlib.rc_context({"axes.prop_cycle": matplotlib.cycler(color=[f"#0000{i}0" for i in range(colours)])}):
        found = list(looks([str(i) for i in range(5 * colours)]).values())
    assert len({look.colour for look in found}) == colours
    assert len({(look.colour, look.marker) for look in found}) == 5 * colours
    assert len({(look.colour, str(look.dash)) for look in found}) == 5 * colours


def test_settings_of_the_user_win_and_stay():
    result = whole_study(("A", "B"), levels=(0.3,))
    ours = figures.regret_curves(result).figure
    own = {"font.size": 9.0, "axes.linewidth": 2.0, "axes.prop_cycle": matplotlib.cycler(color=["#123456", "red"])}
    with matplotlib.rc_context(own):
        mine = figures.regret_curves(result).figure
        assert matplotlib.rcParams["axes.linewidth"] == 2 and matplotlib.rcParams["legend.frameon"]
    assert [f.axes[0].spines["left"].get_linewidth() for f in (ours, mine)] == [0.6, 2.0]
    assert [line.get_color() for line in mine.axes[0].lines] == ["#123456", "#ff0000"]
    for text in ("title", "xaxis.label"):  # all sizes follow font.size
        sizes = [operator.attrgetter(text)(f.axes[0]).get_fontsize() for f in (ours, mine)]
        assert sizes[1] == pytest.approx(sizes[0] * 9 / 7)
    assert mine.legends[0].get_frame_on() is False  # what the user did not set is ours
    check_inside(mine)


def test_text_for_tex_is_escaped():
    with matplotlib.rc_context({"text.usetex": True}):
        assert plain("50 % of a_b ± δ") == r"50 \% of a\_b $\pm$ $\delta$"
    assert plain("50 % of a_b") == "50 % of a_b"


def test_a_style_file_wins_even_with_defaults_of_matplotlib(tmp_path):
    (tmp_path / "own.mplstyle").write_text("axes.grid: False\naxes.linewidth: 3\n")
    result = whole_study(("A", "B"), levels=(0.3,))
    with figures.user_style(tmp_path / "own.mplstyle"):
        axis = figures.regret_curves(result).figure.axes[0]
    assert axis.spines["left"].get_linewidth() == 3 and not axis.get_xgridlines()[0].get_visible()
    assert figures.regret_curves(result).figure.axes[0].get_xgridlines()[0].get_visible()
    with (
        pytest.raises(ValueError, match=r"style must be a file or the name of a style .*, got 'none.mplstyle'"),
        figures.user_style("none.mplstyle"),
    ):
        pass


def test_caption_is_beside_the_figure_and_can_be_left_out_of_it(tmp_path):
    drawing = figures.regret_curves(whole_study(("50 % of_A", "B"), levels=(0.3,)))
    sizes = {}
    for shown in (True, False):
        _, png = figures.save(drawing, tmp_path / f"{shown}", caption=shown)
        assert (tmp_path / f"{shown}.caption.txt").read_text() == drawing.caption + "\n"
        tex = (tmp_path / f"{shown}.caption.tex").read_text()
        assert r"paper for 50 \% of\_A" in tex and r"95 \% band" in tex
        with PIL.Image.open(png) as picture:
            sizes[shown] = picture.size
    strip = drawing.below.get_window_extent()
    assert sizes[False][0] == sizes[True][0]
    assert sizes[True][1] - sizes[False][1] == pytest.approx(strip.y1, abs=2)
    assert drawing.below.get_visible() and drawing.figure.get_layout_engine() is not None  # as before


@pytest.mark.parametrize("width", ["neurips", "icml"])
def test_two_swept_parameters_make_a_table_that_is_named_at_its_edges(width):
    figure = figures.regret_curves(two_parameters(), width=width).figure
    check_inside(figure)
    places = [(a.get_subplotspec().rowspan.start, a.get_subplotspec().colspan.start) for a in figure.axes]
    assert places == list(itertools.product(range(3), range(3)))
    titles = [" ".join(a.get_title().split()) for a in figure.axes]
    assert titles == [*(f"noise (standard deviation) = {s}" for s in ("0.1", "0.3", "1")), *[""] * 6]
    named = [[t.get_text() for t in a.texts] for a in figure.axes]
    assert named == [x for dim in (2, 5, 20) for x in ([], [], [f"dimension d = {dim}"])]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["SAVE", "OFUL"]


def test_pages_end_between_the_rows_of_a_table():
    dims = tuple(range(1, 10))
    found = [len(p.cells) for p in figures.pages(two_parameters(("A",), dims), most=10)]
    assert found == [9, 9, 9]


@pytest.mark.parametrize("number", range(2, 13))
@pytest.mark.parametrize("width", ["icml", "neurips", "icml_wide"])
def test_no_panel_is_alone_in_the_last_row(number, width):
    grid = panels(number, width)
    is_possible = (number, width) != (7, "icml")  # four columns would be too narrow, and one is too high
    assert grid.columns == 1 or number % grid.columns != 1 or not is_possible
    assert len(grid.axes) == number


def test_two_things_that_do_not_make_a_table_are_listed():
    cells = [cell(curves(), environment_settings={"dim": d, "lam": 1 / d}) for d in (2, 4, 8)]
    assert facets({str(i): [c] for i, c in enumerate(cells)}) is None  # both vary together
    cells = [cell(curves(), environment=e, environment_settings={"dim": d}) for e in "ab" for d in (2, 4)]
    found = facets({str(i): [c] for i, c in enumerate(cells)})
    assert found.rows == ("a", "b") and found.columns == ("dimension d = 2", "dimension d = 4")


MANY = tuple(f"algorithm {i}" for i in range(12))


@pytest.mark.variants(1)
@pytest.mark.parametrize("width", ["icml", "neurips"])
def test_more_than_eight_curves_are_named_at_their_ends(width):
    result = whole_study(MANY, levels=(0.1, 1.0), seeds=6)
    for drawing in (
        figures.regret_curves(result, width=width),
        figures.against_parameter(result, "noise.std", width=width),
        figures.paired_differences(result, "noise.std", width=width),
    ):
        figure = drawing.figure
        assert not figure.legends and all(a.get_legend() is None for a in figure.axes)
        check_inside(figure)
        boxes = {text: box for text, box in drawn(figure).items() if text.startswith("algorithm ")}
        assert len(boxes) >= 11  # the reference has no difference to itself
        for one, other in itertools.combinations(boxes.values(), 2):
            overlap = min(one.y1, other.y1) - max(one.y0, other.y0)
            assert overlap < 0.02 or min(one.x1, other.x1) < max(one.x0, other.x0)
    listed = [t for t in drawn(figures.regret_curves(result, width=width).figure) if t.startswith("algorithm ")]
    assert sorted(listed) == sorted(MANY)


def test_names_at_ends_are_in_the_order_of_the_curves():
    cells = [cell(curves(scale=s), algorithm=f"curve {s}") for s in (3, 1, 9, 2, 8, 4, 7, 5, 6)]
    boxes = {t: box.y0 for t, box in drawn(figures.regret_curves(study(cells)).figure).items() if t.startswith("curve")}
    assert sorted(boxes, key=boxes.get) == [f"curve {s}" for s in range(1, 10)]


def test_labels_move_apart_and_stay_near():
    assert spread_out([0.0, 5.0], [1.0, 1.0], 0, 10) == [0.5, 5.0]
    assert spread_out([4.0, 4.0, 9.9], [1.0, 1.0, 1.0], 0, 10) == [3.5, 4.5, 9.5]
    assert spread_out([5.0] * 3, [1.0] * 3, 0, 3) == [0.5, 1.5, 2.5]


def test_names_are_words_but_labels_of_the_user_stay():
    assert settings_text({"noise.std": 0.1, "num_arms": 4, "my.own": 2}) == (
        "noise (standard deviation) = 0.1, number of arms = 4, my.own = 2"
    )
    assert [label_word(name) for name in ("save", "linear_bandit", "mixture_mdp", "My save", "SAVE")] == [
        "SAVE",
        "linear bandit",
        "mixture MDP",
        "My save",
        "SAVE",
    ]


def test_every_number_that_can_be_swept_has_words():
    no_numbers = {("", "per_stage"), ("", "per_step"), ("", "theta_star"), ("wrap.", "num_arms")}
    for prefix, factories in (("", public_factories()), ("wrap.", wrapper_factories()), ("noise.", NOISES)):
        for name in {name for factory in factories.values() for name in factory.parameters}:
            assert "_" not in parameter_word(f"{prefix}{name}") or (prefix, name) in no_numbers, name


def test_legend_of_layers_has_at_most_eight_entries():
    drawing = figures.layer_occupancy(study([cell(curves(), records={"layer_rounds": layered(11)})]))
    assert len(drawing.figure.legends[0].get_texts()) == 8 and "The legend leaves layers out" in drawing.caption
