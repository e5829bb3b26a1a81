"""Figures: the same files each time, text that stays text, everything inside the page and told in the caption."""

import dataclasses
import itertools
import operator
import os
import re
import subprocess
import sys
import zlib

import matplotlib
import numpy as np
import PIL.Image
import pytest

from jaxvar import cli, figures, show
from jaxvar.analysis import GrowthFit, Law, Term, against_reference
from jaxvar.analysis.captions import label_word, parameter_word, settings_text, visible
from jaxvar.analysis.panels import facets
from jaxvar.figures.ends import spread_out
from jaxvar.figures.style import COLOURS, WIDTHS, looks, panels, plain
from jaxvar.study.factories import NOISES, public_factories, wrapper_factories
from tests.helpers.synthetic_study import cell, curves, layered, study, whole_study
from tests.tables.test_tables import HOSTILE

EIGHT = tuple(f"algorithm number {i}" for i in range(8))


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


@pytest.mark.parametrize("width", ["icml", "neurips", "icml_wide"])
def test_every_venue_has_its_width_and_all_text_inside(width):
    drawing = figures.regret_curves(whole_study(EIGHT), width=width)
    assert drawing.figure.get_size_inches()[0] == WIDTHS[width]
    check_inside(drawing.figure)


@pytest.mark.parametrize("algorithms", [EIGHT, EIGHT[:1]])
def test_all_kinds_fit(algorithms):
    result = whole_study(algorithms, levels=(0.0, 0.1, 1.0))
    for drawing in (
        figures.regret_curves(result, scale="linear", kind="pointwise"),
        figures.against_parameter(result, "noise.std", width="icml"),
        figures.layer_occupancy(result, width="icml"),
    ):
        check_inside(drawing.figure)
        assert "40 seeds" in drawing.caption and "Constants: paper" in drawing.caption
        shown = " ".join(" ".join(drawn(drawing.figure)).split())
        assert drawing.caption in shown  # the caption is on the page too


def test_curves_are_the_means_and_bands():
    result = whole_study(("A", "B"), levels=(0.3,))
    drawing = figures.regret_curves(result)
    (axis,) = drawing.figure.axes
    for line, one in zip(axis.lines, result.cells, strict=True):
        np.testing.assert_allclose(line.get_ydata(), one.regret.mean(0))
        np.testing.assert_array_equal(line.get_xdata(), one.rounds)
    assert len(axis.collections) == 2 and axis.get_xscale() == axis.get_yscale() == "log"
    assert "simultaneous 95 % band (bootstrap sup-t, 2,000 resamples)" in drawing.caption
    linear = figures.regret_curves(result, scale="linear", kind="pointwise", level=0.9)
    assert "pointwise 90 % band (t)" in linear.caption and linear.figure.axes[0].get_yscale() == "linear"


def test_curves_differ_without_colour():
    found = looks([str(i) for i in range(40)])
    assert len({(str(look.dash), look.marker) for look in found.values()}) == 40
    assert len(set(found.values())) == 40 and {look.colour for look in found.values()} == set(COLOURS)
    eight = list(looks(EIGHT).values())
    assert len({look.marker for look in eight}) == len({look.colour for look in eight}) == 8
    assert all(a.dash != b.dash for a, b in itertools.pairwise(eight))


@pytest.mark.parametrize("colours", [1, 3, 8, 9])
def test_no_two_curves_share_colour_and_marker_or_dash(colours):
    with matplotlib.rc_context({"axes.prop_cycle": matplotlib.cycler(color=[f"#0000{i}0" for i in range(colours)])}):
        found = list(looks([str(i) for i in range(5 * colours)]).values())
    assert len({look.colour for look in found}) == colours
    assert len({(look.colour, look.marker) for look in found}) == 5 * colours
    assert len({(look.colour, str(look.dash)) for look in found}) == 5 * colours


def test_zeros_on_logarithmic_axes_are_told():
    regret = curves()
    regret[:, :2] = 0
    cells = [cell(regret, algorithm="late"), cell(curves(seed=1), algorithm="other")]
    drawing = figures.regret_curves(study(cells))
    assert "Means of zero are not on the logarithmic axis: sphere: late (2 points)." in drawing.caption
    assert "zero" not in figures.regret_curves(study(cells), scale="linear").caption
    nothing = figures.regret_curves(study([cell(np.zeros((5, 7)))]))
    assert "all of sphere" in nothing.caption and "all means are zero" in drawn(nothing.figure)
    powers = [cell(curves(scale=d), environment_settings={"dim": d}) for d in (0, 2, 4)]
    caption = figures.against_parameter(study(powers), "dim").caption
    assert "dimension d = 0: dimension d is not positive (all)" in caption


def test_failed_seeds_are_told():
    status = np.zeros(40, np.int32)
    status[:2] = 4
    drawing = figures.regret_curves(study([cell(curves(), status=status)]))
    assert "38 seeds (2 failed and left out, in all cells)" in drawing.caption


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")  # which has no Chinese letters
def test_hostile_labels_are_drawn_as_text(tmp_path):
    labels = [*HOSTILE, r"$\frac{", "$x$", "_hidden", "", "$"]
    fields = {"environment": "$x_1 <b>", "records": {"layer_rounds": layered()}}
    cells = [
        cell(curves(scale=d), algorithm=label, environment_settings={"d": d}, **fields)
        for d in (1, 2)
        for label in labels
    ]
    for drawing in (
        figures.regret_curves(study(cells)),
        figures.against_parameter(study(cells), "d", width="icml"),
        figures.layer_occupancy(study(cells)),
    ):
        check_inside(drawing.figure)
        shown = [re.sub(r"\n-?[\d.]+ \[.*\]$", "", text) for text in drawn(drawing.figure)]  # slopes below names
        shown = [re.sub(r"\s", "", text).replace(r"\$", "$") for text in shown]
        for label in labels:
            assert any(re.sub(r"\s", "", visible(label)) == text for text in shown) or label == "", label
    for path in figures.save(figures.regret_curves(study(cells)), tmp_path / "hostile"):
        assert path.stat().st_size > 0


def test_long_labels_are_broken_or_cut():
    long = "word" * 60
    cells = [cell(curves(), algorithm=long, environment=long, records={"layer_rounds": layered()})]
    for drawing in (figures.regret_curves(study(cells), width="icml"), figures.layer_occupancy(study(cells))):
        check_inside(drawing.figure)
        assert any(text.endswith("…") for text in drawn(drawing.figure))
    curve = figures.regret_curves(study(cells), width="icml")
    assert long in ["".join(text.split()) for text in drawn(curve.figure)]  # the legend has all of it


def test_legend_shows_every_curve():
    # A label that starts with an underscore would be left out of a legend that matplotlib collects by itself.
    drawing = figures.regret_curves(whole_study(("_hidden", "shown")))
    (legend,) = drawing.figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["_hidden", "shown"]


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


def two_parameters(algorithms=("save", "oful"), dims=(2, 5, 20), seeds=6):
    """A study with a table of environment settings."""
    cells = [
        cell(
            curves(seed=i, seeds=seeds, scale=dim * (1 + i)),
            algorithm=name,
            environment="linear_bandit",
            environment_settings={"dim": dim, "noise.std": level},
        )
        for dim in dims
        for level in (0.1, 0.3, 1.0)
        for i, name in enumerate(algorithms)
    ]
    return study(cells, reference=algorithms[-1])


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
    for prefix, factories in (("", public_factories()), ("wrap.", wrapper_factories()), ("noise.", NOISES)):
        for name in {name for factory in factories.values() for name in factory.parameters}:
            is_number = (prefix, name) not in {("", "per_step"), ("", "theta_star"), ("wrap.", "num_arms")}
            assert "_" not in parameter_word(f"{prefix}{name}") or not is_number, name


def test_thin_and_wide_bands_are_told_apart():
    thin = [
        cell(curves(spread=1e-4), algorithm="thin"),
        cell(curves(seed=1, scale=9, seeds=4, spread=1), algorithm="x"),
    ]
    drawing = figures.regret_curves(study(thin))
    assert "resamples), 1 of 2 thinner than the lines." in drawing.caption
    assert [c.get_linewidth()[0] for c in drawing.figure.axes[0].collections] == [0, 0.4]
    assert "resamples), thinner than the lines." in figures.regret_curves(study(thin[:1])).caption


def test_paired_differences_are_those_of_the_table():
    result = two_parameters(("A", "B", "C"))
    drawing = figures.paired_differences(result, "dim")
    check_inside(drawing.figure)
    found = [p.difference.estimate for p in against_reference(result) if p.cell.algorithm == "B"]
    lines = [line for a in drawing.figure.axes for line in a.lines if line.get_marker() == "s"]
    np.testing.assert_allclose(np.sort([y for line in lines for y in line.get_ydata()]), np.sort(found))
    assert all(any(np.all(np.asarray(line.get_ydata()) == 0) for line in a.lines) for a in drawing.figure.axes)
    assert "on the same 6 seeds, with 95 % t intervals; below zero is less than the reference" in drawing.caption
    rows = figures.paired_differences(result, reference="A")
    check_inside(rows.figure)
    assert "minus that of A after 1,000 rounds" in rows.caption
    far = [cell(curves(seed=i, scale=s), algorithm=f"{s}") for i, s in enumerate((1, 2, 3, 1e4))]
    bent = figures.paired_differences(study(far, reference="1"))
    assert bent.figure.axes[0].get_xscale() == "symlog" and "and logarithmic outside" in bent.caption
    with pytest.raises(ValueError, match=r"reference must be one of 'A', 'B', 'C', got 'D'"):
        figures.paired_differences(result, reference="D")
    with pytest.raises(ValueError, match=r"parameter must be a swept number \(dim, noise.std\), got 'lam'"):
        figures.paired_differences(result, "lam")
    other = dataclasses.replace(result.cells[0], algorithm="D", seeds=result.cells[0].seeds + 100)
    caption = figures.paired_differences(dataclasses.replace(result, cells=(*result.cells, other))).caption
    assert "Not compared: D in linear_bandit, dim = 2" in caption


def test_spread_shows_quantiles_and_failed_seeds():
    status = np.zeros(40, np.int32)
    status[:2] = 4
    lost = cell(curves(seed=1), algorithm="lost", status=np.full(40, 4, np.int32))
    cells = [cell(curves(), algorithm="some", status=status), lost, cell(curves(seeds=300), algorithm="many")]
    drawing = figures.spread(study(cells))
    check_inside(drawing.figure)
    (axis,) = drawing.figure.axes
    values = cells[0].regret[2:, -1]
    np.testing.assert_allclose(axis.lines[1].get_xdata(), np.quantile(values, (0.25, 0.75)))
    np.testing.assert_allclose(np.sort(axis.lines[4].get_xdata()), np.sort(values))
    assert [t.get_text() for t in axis.texts] == ["2 failed", "40 failed"]
    assert "each of 38 to 300 seeds (2 failed and left out, in all cells)" in drawing.caption
    with pytest.raises(ValueError, match="'regret' has no seed that did not fail"):
        figures.spread(study([lost]))


def test_legend_of_layers_has_at_most_eight_entries():
    drawing = figures.layer_occupancy(study([cell(curves(), records={"layer_rounds": layered(11)})]))
    assert len(drawing.figure.legends[0].get_texts()) == 8 and "The legend leaves layers out" in drawing.caption


def test_fonts_are_embedded_as_true_type(tmp_path):
    pdf, _ = figures.save(figures.regret_curves(whole_study(("A",))), tmp_path / "a.b")
    assert pdf.name == "a.b.pdf"
    content = pdf.read_bytes()
    unpacked = b"".join(_inflated(part) for part in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL))
    objects = content + unpacked
    assert b"/FontFile2" in objects and b"/Type3" not in objects and b"/CreationDate" not in objects


def _inflated(part):
    try:
        return zlib.decompress(part)
    except zlib.error:
        return b""


@pytest.mark.slow
def test_files_are_the_same_in_another_process(tmp_path):
    script = (
        "import sys; from jaxvar import figures; from tests.helpers.synthetic_study import whole_study\n"
        "result = whole_study(('A', 'Б', 'ג'), levels=(0.1, 1.0), seeds=4)\n"
        "figures.draw_study(result, sys.argv[1], width='icml')\n"
    )
    for seed in ("1", "2"):  # of Python's hashes, which order its sets
        out = tmp_path / seed
        env = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", script, out], check=True, env=env, capture_output=True)
    names = sorted(p.name for p in (tmp_path / "1").iterdir())
    stems, kinds = ("against_noise_std", "layers", "paired_noise_std", "regret", "spread"), ("pdf", "png")
    endings = (*kinds, "caption.txt", "caption.tex")
    assert names == sorted(["captions.txt", *(f"{s}.{ending}" for s in stems for ending in endings)])
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


def test_many_problems_are_spread_over_pages():
    result = whole_study(("A",), levels=tuple(range(1, 28)))
    found = list(figures.pages(result))
    assert [len(page.cells) for page in found] == [12, 12, 3]
    assert [c for page in found for c in page.cells] == list(result.cells)


def test_growth_fit_shows_observed_beside_fitted():
    values = {"estimate": np.array([2.0, 1.0]), "low": np.array([1.5, 0.9]), "high": np.array([2.5, 1.1])}
    fit = GrowthFit(
        law=Law((Term({"dim": None, "round": 0.5}),)),
        record="regret",
        scale="log",
        **values,
        level=0.95,
        resamples=8,
        failed=1,
        resampled="jointly",
        cells=(cell(curves()),),
        points=("a", "b", "c"),
        observed=np.array([1.0, 11.0, 105.0]),
        fitted=np.array([1.1, 10.0, 100.0]),
        seeds=(40,),
        left_out=0,
    )
    drawing = figures.growth_fit(fit)
    check_inside(drawing.figure)
    upper, lower = drawing.figure.axes
    np.testing.assert_array_equal(upper.lines[1].get_ydata(), fit.observed)
    np.testing.assert_allclose(lower.lines[1].get_ydata(), fit.observed / fit.fitted)
    for part in (
        "regret = 2 dim^1 round^0.5",
        "95 % bootstrap percentile",
        "8 resamples (1 more did not converge) of 40 seeds",
        "exponent of dim [0.9, 1.1]",
        "Constants: practical",
    ):
        assert part in drawing.caption


def test_wrong_options_are_refused():
    result = whole_study(("A",))
    with pytest.raises(ValueError, match=r"width must be one of 'neurips', .*, got 'nips'"):
        figures.regret_curves(result, width="nips")
    with pytest.raises(ValueError, match="scale must be one of 'log', 'linear'"):
        figures.regret_curves(result, scale="cube")
    with pytest.raises(ValueError, match=r"parameter must be a swept one \(noise.std\), got 'dim'"):
        figures.against_parameter(result, "dim")
    with pytest.raises(ValueError, match="layer_rounds was recorded in no cell"):
        figures.layer_occupancy(study([cell(curves())]))
    regret = curves()
    regret[1, 1] = np.nan
    with pytest.raises(ValueError, match="SAVE in sphere: 'regret' must be finite"):
        figures.regret_curves(study([cell(regret)]))


def test_importing_jaxvar_imports_no_library_that_only_output_needs():
    names = "'matplotlib', 'scipy', 'jinja2'"
    script = f"import sys, jaxvar; print([name for name in ({names}) if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """The command line's way to results, leading to made-up ones."""

    def load(folder):
        if not folder.exists():
            raise FileNotFoundError(f"no study in {folder}")
        return whole_study(("A", "B"))

    monkeypatch.setattr(show, "load", load)
    monkeypatch.setattr(cli, "tune_cpu", lambda: None)  # the tests' devices are made
    return tmp_path


def test_command_line(stored, capsys):
    (stored / "own.mplstyle").write_text("lines.linewidth: 2\n")
    options = ["--width", "icml", "--no-caption", "--style", str(stored / "own.mplstyle")]
    assert cli.main(["figures", str(stored), *options]) == 0
    printed = capsys.readouterr().out.split()
    assert len(printed) == 21 and all(os.path.exists(path) for path in printed)
    assert {os.path.dirname(path) for path in printed} == {str(stored / "figures")}
    assert cli.main(["table", str(stored), "--to", "csv", "--what", "speed"]) == 0
    assert capsys.readouterr().out.startswith("environment,algorithm,constants,seeds,rounds,seconds,")
    assert cli.main(["table", str(stored)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("Constants: paper for A; practical for B.") == 5
    assert cli.main(["table", str(stored / "none")]) == 1
    assert "no study in" in capsys.readouterr().err
