"""The report as a reader meets it: in a real browser, from a file, without a network."""

import csv
import dataclasses
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from selenium.webdriver import ActionChains, Keys

from jaxvar.analysis.captions import settings_text
from jaxvar.figures.look import COLOURS
from jaxvar.report import write_page
from tests.helpers.browser import Browser
from tests.helpers.synthetic_study import ROUNDS, cell, study, whole_study

ALGORITHMS = ("SAVE (paper)", "SAVE (practical)", "AVE-UCB", "all arms alike", "OFUL (theorem)")
LEVELS = (0.01, 0.1, 0.3, 1.0)
HOSTILE = (
    "<script>alert(1)</script>",
    "\"quotes' & &amp; entities",
    "</script><img src=x onerror=alert(2)>",
    "right\u202eto left\u2069\u2068",
    "long " + "x" * 400,
    "${title} \\u003c \u2028 \ud800 \x00",
    "=1+1",
    '-2+cmd|"x"',
    "@sum(1)",
)
DRAWN = {"svg", "g", "rect", "path", "line", "text", "defs", "clipPath"}  # elements of a saved chart
SHOWN = tuple(name.replace("\ud800", "\ufffd").replace("\x00", "\ufffd") for name in HOSTILE)


def hostile_study():
    """Every text that a user gives is an attack."""
    found = whole_study(algorithms=HOSTILE, levels=(0.1, 1.0), seeds=8)
    attacks = {
        "environment": HOSTILE[2],
        "constants": HOSTILE[0],
    }
    cells = [
        dataclasses.replace(c, environment_settings={HOSTILE[4]: HOSTILE[3 + i // len(HOSTILE)]}, **attacks)
        for i, c in enumerate(found.cells)
    ]
    return study(cells, reference=HOSTILE[1], name=HOSTILE[0], question=HOSTILE[2], config={HOSTILE[0]: list(HOSTILE)})


def large_study(settings, algorithms=10, records=20, seeds=8):
    """Many cells, with curves of many records."""
    rng = np.random.default_rng(0)
    rounds = 200 * np.arange(1, records + 1)
    cells = [
        cell(
            np.cumsum(rng.gamma(2.0, 1.0 + i, size=(seeds, records)), axis=1),
            rounds=rounds,
            num_rounds=int(rounds[-1]),
            algorithm=f"algorithm {i}",
            environment_settings={"noise.std": float(level)},
        )
        for level in np.geomspace(0.01, 1, settings)
        for i in range(algorithms)
    ]
    return study(cells, reference="algorithm 3")


@pytest.fixture(scope="module")
def usual():
    return whole_study(ALGORITHMS, LEVELS)


@pytest.fixture(scope="module")
def pages(usual, tmp_path_factory):
    """Files of the studies, by name."""
    folder = tmp_path_factory.mktemp("pages")
    one = whole_study(ALGORITHMS, levels=(0.1,), seeds=8)
    studies = {"usual": usual, "hostile": hostile_study(), "large": large_study(20), "one": one}
    return {name: write_page(found, folder / f"{name}.html") for name, found in studies.items()}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.driver.quit()


def final_column(usual, level):
    """Mean final regret by algorithm."""
    cells = [c for c in usual.cells if c.environment_settings == {"noise.std": level}]
    return {c.algorithm: c.regret[:, -1].mean() for c in cells}


def named(level):
    """A setting's name."""
    return settings_text({"noise.std": level})


def numbers(text):
    """The numbers in a text, each with half a unit of its last digit."""
    found = []
    for shown in re.findall(r"−?\d[\d,]*(?:\.\d+)?", text):
        plain = shown.replace("−", "-").replace(",", "")
        decimals = len(plain.partition(".")[2])
        zeros = len(plain) - len(plain.rstrip("0")) if not decimals else 0
        found.append((float(plain), 0.5 * 10.0 ** (zeros - decimals)))
    return found


@pytest.mark.parametrize("name", ["usual", "hostile", "large", "one"])
def test_opens_without_complaint_and_without_network(browser, pages, name):
    """No error in the console, nothing refused by the page's own policy, nothing fetched but the file itself."""
    browser.open(pages[name])
    assert browser.one("#regret .chart svg .line").is_displayed()
    assert browser.complaints() == []
    assert {url for url in browser.requests() if not url.startswith("data:")} == {pages[name].as_uri()}


def test_legend_hides_and_shows_a_curve(browser, pages):
    """By mouse, by keyboard, in the chart and in the overview."""
    browser.open(pages["usual"])
    button = browser.all("#regret .legend button")[1]
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert len(browser.all("#regret .chart .line[data-curve]")) == 4
    assert not any(p.is_displayed() for p in browser.all('#regret .overview .line[data-curve="1"]'))
    button.send_keys(Keys.SPACE)
    assert button.get_attribute("aria-pressed") == "true"
    assert len(browser.all("#regret .chart .line[data-curve]")) == 5
    browser.one("#regret [name=none]").click()
    assert browser.all("#regret .chart .line[data-curve]") == []
    browser.one("#regret [name=all]").click()
    assert len(browser.all("#regret .chart .line[data-curve]")) == 5


def test_axes_switch_between_linear_and_logarithmic(browser, pages):
    """Ticks are evenly spaced numbers, or numbers with even ratios; the picture follows."""
    browser.open(pages["one"])
    for axis in ("x", "y"):
        box = browser.one(f"#regret input[name=log-{axis}]")
        ticks = {}
        for is_log in (False, True):
            if box.is_selected() != is_log:
                box.click()
            shown = np.array([numbers(t)[0][0] for t in browser.texts(f"#regret .tick-{axis}")])
            assert len(shown) >= 3
            assert ("(log)" in browser.texts(f"#regret .title-{axis}")[0]) == is_log
            ticks[is_log] = shown
        np.testing.assert_allclose(np.diff(ticks[False]), ticks[False][-1] - ticks[False][-2])
        assert ticks[True][0] > 0 and set(np.round(ticks[True] / 10 ** np.floor(np.log10(ticks[True])))) <= {1, 2, 5}
        box.click()


def test_pointer_reads_the_values_of_the_nearest_record(browser, pages, usual):
    """The round, and for each curve mean and band: the mean is the seeds' mean to the digits shown."""
    browser.open(pages["usual"])
    chart = browser.one("#regret .chart svg")
    width = chart.size["width"]
    ActionChains(browser.driver).move_to_element_with_offset(chart, int(0.2 * width), 0).perform()
    tip = browser.one("#regret .tip")
    assert (
        tip.is_displayed()
        and len(browser.all("#regret .chart .cross")) == 1
        and len(browser.all("#regret .chart .dot")) == 5
    )
    k = int(numbers(browser.one("#regret .tip strong").text)[0][0])
    assert k == 100  # 0.2 of the width to the right of the middle of a logarithmic axis from 1 to 1000
    at = list(ROUNDS).index(k)
    expected = {c.algorithm: c.regret[:, at].mean() for c in usual.cells[:5]}
    read = dict(zip(browser.texts("#regret .tip .name"), browser.texts("#regret .tip .number"), strict=True))
    assert set(read) == set(expected)
    for algorithm, text in read.items():
        (mean, unit), (low, _), (high, _) = numbers(text)
        assert abs(mean - expected[algorithm]) <= 1.01 * unit and low < mean < high
    shown = [numbers(text)[0][0] for text in browser.texts("#regret .tip .number")]
    assert shown == sorted(shown, reverse=True)
    browser.one("h1").click()  # the pointer leaves
    assert not tip.is_displayed()


def test_keyboard_reads_values(browser, pages, usual):
    """The chart is a slider over the recorded rounds, and says its values in words."""
    browser.open(pages["usual"])
    chart = browser.one("#regret .chart")
    for key, at in ((Keys.HOME, 0), (Keys.ARROW_RIGHT, 1), (Keys.END, -1), (Keys.ARROW_LEFT, -2)):
        chart.send_keys(key)
        assert int(chart.get_attribute("aria-valuenow")) == ROUNDS[at]
    words = chart.get_attribute("aria-valuetext")
    assert all(algorithm in words for algorithm in usual.algorithms)
    chart.send_keys(Keys.ESCAPE)
    assert not browser.one("#regret .tip").is_displayed()


def test_setting_and_band_are_chosen(browser, pages, usual):
    """By the list or by a caption of the overview; the note says what the band is."""
    browser.open(pages["usual"])
    browser.one("#regret select[name=setting]").send_keys(named(0.3))
    browser.one("#regret .chart").send_keys(Keys.END)
    texts = dict(zip(browser.texts("#regret .tip .name"), browser.texts("#regret .tip .number"), strict=True))
    for algorithm, mean in final_column(usual, 0.3).items():
        shown, unit = numbers(texts[algorithm])[0]
        assert abs(shown - mean) <= 1.01 * unit
    browser.all("#regret .overview figcaption button")[3].click()
    assert browser.ask("document.querySelector('#regret select[name=setting]').value") == "3"
    assert "simultaneous 95 % band" in browser.one("#regret .about").text
    browser.one("#regret select[name=view]").send_keys("median")
    assert "median" in browser.one("#regret .about").text and "order statistics" in browser.one("#regret .about").text


def test_tables_are_sorted_and_narrowed(browser, pages, usual):
    """By the numbers and not by their text, both ways, by mouse and keyboard; what is missing stays last."""
    browser.open(pages["usual"])
    means = [c.regret[:, -1].mean() for c in usual.cells]
    names = [c.algorithm for c in usual.cells]

    def column(number):
        return browser.texts(f"#final-table tbody tr:not([hidden]) td:nth-child({number})")

    def first_names():
        return [next(n for n in usual.algorithms if text.startswith(n)) for text in column(2)]

    heading = browser.all("#final-table th")[4]
    heading.find_element("css selector", "button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert first_names() == [names[i] for i in np.argsort(means, kind="stable")]
    heading.find_element("css selector", "button").send_keys(Keys.ENTER)
    assert heading.get_attribute("aria-sort") == "descending"
    assert first_names() == [names[i] for i in np.argsort(means, kind="stable")[::-1]]
    paired = browser.all("#final-table th")[6]
    for sign in (1, -1):
        paired.find_element("css selector", "button").send_keys(Keys.ENTER)
        assert column(7)[-4:] == ["–"] * 4  # the reference itself
        assert np.all(np.diff([numbers(text)[0][0] for text in column(7)[:-4]]) * sign >= 0)
    assert heading.get_attribute("aria-sort") is None
    browser.one("form[data-table=final-table] select").send_keys(named(0.1))
    assert set(column(1)) == {named(0.1)} and len(column(1)) == 5


def contrast(browser, selector):
    """Between a text and the page, as WCAG 2 defines it."""
    ask = "getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    is_svg = selector.endswith(" text")
    colours = [browser.ask(ask, selector, "fill" if is_svg else "color"), browser.ask(ask, "html", "backgroundColor")]
    levels = []
    for colour in colours:
        share = np.array([int(v) for v in re.findall(r"\d+", colour)[:3]]) / 255
        linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        levels.append(linear @ [0.2126, 0.7152, 0.0722])
    return (max(levels) + 0.05) / (min(levels) + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark(browser, pages, dark):
    """The system's choice, until the button is pressed; paper is always light."""

    def background():
        colour = browser.ask("getComputedStyle(document.documentElement).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    def line():
        return browser.ask("getComputedStyle(document.querySelector('#regret .chart .line.curve-3')).stroke")

    browser.open(pages["usual"], dark=dark)
    before, stroke = background(), line()
    assert (before < 150) == dark
    for selector in ("h1", ".question", ".note", "nav a", ".unit", "tr.again td", "summary", "#regret .chart text"):
        assert contrast(browser, selector) >= 4.5, selector  # what WCAG asks of text
    browser.one("button.theme").click()
    assert (background() < 150) != dark and line() != stroke
    browser.one("button.theme").click()
    assert background() == before and line() == stroke
    dark_system = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.command("Emulation.setEmulatedMedia", media="print", features=dark_system)
    assert background() == 3 * 255


def test_hostile_text_stays_text(browser, pages):
    """In title, heading, question, legend, lists, tables, tooltip, names of charts, and the configuration."""
    browser.open(pages["hostile"])
    assert browser.driver.title == f"jaxvar study: {SHOWN[0]}"
    assert browser.texts("h1") == [SHOWN[0]] and browser.texts(".question") == [SHOWN[2]]
    assert browser.texts("#regret .legend button bdi")[: len(SHOWN)] == list(SHOWN)
    assert browser.texts("#regret select[name=setting] option") == [
        settings_text({SHOWN[4]: SHOWN[3]}),
        settings_text({SHOWN[4]: SHOWN[4]}),
    ]
    cells = browser.texts("#final-table td:nth-child(2)")
    assert cells[: len(SHOWN)] == [name + SHOWN[0] for name in SHOWN]
    browser.one("#regret .chart").send_keys(Keys.END)
    assert set(browser.texts("#regret .tip .name")) == set(SHOWN)
    assert all(name.replace("\\", "\\\\") in browser.texts("pre")[0] for name in (SHOWN[0], SHOWN[2], SHOWN[3]))
    assert browser.ask("document.scripts.length") == 2
    assert browser.ask("document.images.length") == 0
    assert browser.complaints() == []


def test_question_chart_reads_and_switches(browser, pages, usual):
    """Values of all algorithms at a value that was swept; linear and logarithmic; a curve can be hidden."""
    browser.open(pages["usual"])
    chart = browser.one("#question .chart")
    chart.send_keys(Keys.HOME)
    chart.send_keys(Keys.ARROW_RIGHT)
    assert browser.texts("#question .tip strong") == [named(0.1)]
    texts = dict(zip(browser.texts("#question .tip .name"), browser.texts("#question .tip .number"), strict=True))
    for algorithm, mean in final_column(usual, 0.1).items():
        (shown, unit), (low, _), (high, _) = numbers(texts[algorithm])
        assert abs(shown - mean) <= 1.01 * unit and low < mean < high
    assert [float(t) for t in browser.texts("#question .tick-x")] == list(LEVELS)
    paths = browser.ask("[...document.querySelectorAll('#question .chart .whisker')].map((e) => e.getAttribute('d'))")
    assert [path.count("V") for path in paths] == [len(LEVELS)] * len(ALGORITHMS)
    browser.one("#question input[name=log-x]").click()
    assert "(log)" not in browser.texts("#question .title-x")[0]
    browser.all("#question .legend button")[0].click()
    assert len(browser.all("#question .chart .point")) == len(ALGORITHMS) - 1
    assert len(browser.all("#regret .chart .line")) == len(ALGORITHMS)  # each chart has its own legend
    assert browser.complaints() == []


@pytest.mark.parametrize("dark", [False, True])
def test_chart_is_saved_as_svg(browser, pages, tmp_path, dark):
    """With all styles inside, on white, with the names of the curves that are shown; the page stays as it was."""
    browser.open(pages["usual"], dark=dark)
    browser.all("#regret .legend button")[0].click()
    background = "getComputedStyle(document.documentElement).backgroundColor"
    before = browser.ask(background)
    path = browser.saved(tmp_path, "#regret .controls .save")
    assert path.name == "made_up-regret.svg" and browser.ask(background) == before
    browser.one("button.theme").click()
    after = browser.ask(background)
    (tmp_path / "again").mkdir()
    browser.saved(tmp_path / "again", "#regret .controls .save")
    assert browser.ask(background) == after != before  # also what the reader chose
    root = ElementTree.fromstring(path.read_text("utf-8"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and float(root.get("width")) > 600
    parts = list(root.iter())
    assert not any(part.get("class") or part.get("style") or part.get("data-curve") for part in parts)
    assert root[0].get("fill") == "rgb(255, 255, 255)" and "var(" not in path.read_text("utf-8")
    texts = ["".join(part.itertext()) for part in parts if part.tag.endswith("}text")]
    assert all(name in texts for name in ALGORITHMS[1:]) and ALGORITHMS[0] not in texts and named(0.01) in texts
    light = {f"rgb({int(c[1:3], 16)}, {int(c[3:5], 16)}, {int(c[5:], 16)})" for c in COLOURS[1 : len(ALGORITHMS)]}
    assert light <= {part.get("stroke") for part in parts}
    assert browser.complaints() == []


def test_every_chart_and_table_can_be_saved(browser, pages, usual, tmp_path):
    """Each picture has a button of its own; a picture of rows is a whole file."""
    browser.open(pages["usual"])
    assert len(browser.all("figure button.save")) == len(browser.all("figure"))
    assert len(browser.all(".controls button.save")) == len(browser.all(".chart"))
    assert len(browser.all(".scroll + button.save")) == len(browser.all(".scroll > table"))
    path = browser.saved(tmp_path, "#paired figure button.save")
    texts = ["".join(part.itertext()) for part in ElementTree.fromstring(path.read_text("utf-8")).iter()]
    assert named(0.01) in texts and all(name in texts for name in ALGORITHMS[:-1])


def test_table_is_saved_as_csv(browser, pages, usual, tmp_path):
    """Numbers with all digits in columns of their own."""
    browser.open(pages["usual"])
    path = browser.saved(tmp_path, "#final .save")
    assert path.name == "made_up-final-table.csv"
    rows = list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))
    assert len(rows) == len(usual.cells)
    for row, found in zip(rows, usual.cells, strict=True):
        final = found.regret[:, -1]
        value, low, high = (float(row[f"Mean regret, ± 95 % t interval{end}"]) for end in ("", ", low", ", high"))
        assert value == pytest.approx(final.mean(), rel=1e-8) and (low + high) / 2 == pytest.approx(value, rel=1e-7)
        assert row["Algorithm, constants"] == f"{found.algorithm}, {found.constants}"
        assert (row["Seeds"], row["Seeds, of"]) == ("40", "40")
        assert (row["Paired difference, ± 95 % t interval"] == "") == (found.algorithm == usual.reference)
    assert browser.complaints() == []


def test_hostile_text_in_files_stays_text(browser, pages, tmp_path):
    """A spreadsheet runs no name as a formula; an SVG file is whole XML without anything that runs."""
    browser.open(pages["hostile"])
    path = browser.saved(tmp_path, "#final .save")
    rows = list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))
    assert {len(row) for row in rows} == {len(rows[0])}
    for cell_text in (text for row in rows for text in row):
        assert cell_text[:1] not in tuple("=+-@\t\r") or float(cell_text) <= 0
    shown = [name.replace("\n", " ") for name in SHOWN]
    expected = [f"'{name}" if name[0] in "=-@" else name for name in shown]
    assert [row[1].removesuffix(f", {SHOWN[0]}") for row in rows[1 : len(SHOWN) + 1]] == expected
    root = ElementTree.fromstring(browser.saved(tmp_path, "#regret .controls .save").read_text("utf-8"))
    assert {part.tag.partition("}")[2] for part in root.iter()} <= DRAWN
    assert all(name in ["".join(part.itertext()) for part in root.iter()] for name in SHOWN if len(name) < 60)


@pytest.mark.parametrize("name", ["usual", "hostile", "large", "one"])
def test_a_phone_needs_no_sideways_scrolling(browser, pages, name):
    """Only tables scroll, each by itself; a touch reads values."""
    browser.open(pages[name], width=360, height=740)
    assert browser.ask("document.documentElement.scrollWidth") <= 360
    beyond = """[...document.querySelectorAll("main *")].filter((e) => !e.closest(".scroll, pre, [hidden], svg") &&
        e.getBoundingClientRect().right > 361).map((e) => e.outerHTML.slice(0, 80))"""
    assert browser.ask(beyond) == []
    assert browser.one("#regret .chart svg").size["width"] > 300
    browser.one("#regret .chart svg").click()
    assert browser.one("#regret .tip").is_displayed()
    assert browser.ask("document.documentElement.scrollWidth") <= 360


def test_every_control_and_chart_has_a_name(browser, pages):
    """Buttons, lists and boxes have text or a label; pictures are named or hidden from readers of the screen."""
    browser.open(pages["usual"])
    nameless = """[...document.querySelectorAll("button, select, input, svg, [role]")].filter((e) =>
        !e.closest("[aria-hidden=true]") && !e.closest("[role=slider]:not(:scope)") &&
        !(e.getAttribute("aria-label") || (e.labels && e.labels.length) || e.textContent.trim())).length"""
    assert browser.ask(nameless) == 0


def test_prints(browser, pages):
    """A PDF comes out, with all pictures and without controls."""
    browser.open(pages["usual"])
    assert browser.pdf().startswith(b"%PDF-")
    browser.command("Emulation.setEmulatedMedia", media="print", features=[])
    assert not any(e.is_displayed() for e in browser.all(".controls, button.theme, button.save"))
    assert all(svg.is_displayed() for svg in browser.all(".overview:not([hidden]) svg, .chart svg"))


def test_folded_pictures_are_printed(browser, pages):
    """Those of more settings than are shown side by side."""
    browser.open(pages["large"])
    folded = "[...document.querySelectorAll('details.many')].map((e) => e.open)"
    assert browser.ask(folded) == [False] * 3
    assert browser.pdf().startswith(b"%PDF-")
    assert browser.ask(folded) == [True] * 3


def test_without_script_numbers_and_curves_are_there(browser, pages, usual):
    """Tables, static curves and configuration need no script; controls that would do nothing are not shown."""
    browser.open(pages["usual"], script=False)
    assert len(browser.all("#final-table tbody tr")) == len(usual.cells)
    lines = {key: len([p for p in browser.all(f"#{key} .line") if p.is_displayed()]) for key in ("question", "regret")}
    swatches = len(usual.algorithms)
    assert lines == {"question": 2 * swatches, "regret": len(usual.cells) + swatches}
    points = {key: len(browser.all(f"#{key} .overview .point")) for key in ("paired", "spread")}
    assert points == {"paired": len(usual.cells) - len(LEVELS), "spread": len(usual.cells)}
    assert not any(e.is_displayed() for e in browser.all("button, select, input, #regret .chart"))
