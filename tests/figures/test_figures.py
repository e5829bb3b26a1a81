"""Figures: the same files each time, text that stays text, everything inside the page and told in the caption."""

import dataclasses
import itertools
import os
import re
import subprocess
import sys
import zlib

import numpy as np
import pytest

from jaxvar import cli, figures, show
from jaxvar.analysis import GrowthFit, Law, Term, against_reference
from jaxvar.analysis.captions import visible
from jaxvar.figures.look import COLOURS, WIDTHS, looks
from tests.helpers.figure_text import check_inside, drawn
from tests.helpers.synthetic_study import cell, curves, layered, study, two_parameters, whole_study
from tests.tables.test_tables import HOSTILE

EIGHT = tuple(f"algorithm number {i}" for i in range(8))


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
    assert [t.get_text() for t in drawing.figure.legends[0].get_texts()] == ["A", "B"]  # C is the reference
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
