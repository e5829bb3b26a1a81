"""Figures: the same files each time, text that stays text, everything inside the page and told in the caption."""

import itertools
import os
import re
import subprocess
import sys
import zlib

import matplotlib
import numpy as np
import pytest

from jaxvar import cli, figures, show
from jaxvar.analysis import GrowthFit, Law, Term
from jaxvar.analysis.captions import visible
from jaxvar.figures.style import COLOURS, WIDTHS, looks
from tests.helpers.synthetic_study import cell, curves, layered, study, whole_study
from tests.tables.test_tables import HOSTILE

EIGHT = tuple(f"algorithm number {i}" for i in range(8))


def drawn(figure):
    """Extents of the text that stands for itself: ticks outside of the limits are not drawn."""
    figure.draw_without_rendering()
    own = [*figure.texts, *(t for a in figure.axes for t in (a.title, a.xaxis.label, *a.texts))]
    own += [t for a in figure.axes for t in a.get_yticklabels() if a.get_yscale() == "linear"]
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
    assert "dim = 0: dim is not positive (all)" in figures.against_parameter(study(powers), "dim").caption


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
        shown = [re.sub(r"\s", "", text).replace(r"\$", "$") for text in drawn(drawing.figure)]
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


def test_settings_of_the_user_change_nothing_and_stay(tmp_path):
    result = whole_study(("A", "B"), levels=(0.3,))
    plain = [p.read_bytes() for p in figures.save(figures.regret_curves(result), tmp_path / "plain")]
    with matplotlib.rc_context({"font.size": 20.0, "text.usetex": True, "pdf.fonttype": 3, "axes.grid": False}):
        mine = [p.read_bytes() for p in figures.save(figures.regret_curves(result), tmp_path / "mine")]
        assert matplotlib.rcParams["font.size"] == 20 and matplotlib.rcParams["text.usetex"]
    assert plain == mine


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
    stems = ("against_noise_std", "layers", "regret")
    assert names == sorted(["captions.txt", *(f"{s}.{kind}" for s in stems for kind in ("pdf", "png"))])
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
    assert cli.main(["figures", str(stored), "--width", "icml"]) == 0
    printed = capsys.readouterr().out.split()
    assert len(printed) == 7 and all(os.path.exists(path) for path in printed)
    assert {os.path.dirname(path) for path in printed} == {str(stored / "figures")}
    assert cli.main(["table", str(stored), "--to", "csv", "--what", "speed"]) == 0
    assert capsys.readouterr().out.startswith("environment,algorithm,constants,seeds,rounds,seconds,")
    assert cli.main(["table", str(stored)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("Constants: paper for A; practical for B.") == 5
    assert cli.main(["table", str(stored / "none")]) == 1
    assert "no study in" in capsys.readouterr().err
