"""The report as a reader meets it: in a real browser, from a file, without a network."""

import dataclasses
import re

import numpy as np
import pytest
from selenium.webdriver import ActionChains, Keys

from jaxvar.report import write_page
from tests.helpers.browser import Browser
from tests.helpers.synthetic_study import ROUNDS, cell, study, whole_study

ALGORITHMS = ("SAVE (paper)", "SAVE (practical)", "AVE-UCB", "uniform", "OFUL (theorem)")
LEVELS = (0.01, 0.1, 0.3, 1.0)
HOSTILE = (
    "<script>alert(1)</script>",
    "\"quotes' & &amp; entities",
    "</script><img src=x onerror=alert(2)>",
    "right\u202eto left\u2069\u2068",
    "long " + "x" * 400,
    "${title} \\u003c \u2028 \ud800 \x00",
)
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
    assert browser.one("#chart svg .line").is_displayed()
    assert browser.complaints() == []
    assert {url for url in browser.requests() if not url.startswith("data:")} == {pages[name].as_uri()}


def test_legend_hides_and_shows_a_curve(browser, pages):
    """By mouse, by keyboard, in the chart and in the overview."""
    browser.open(pages["usual"])
    button = browser.all(".legend button")[1]
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert len(browser.all("#chart .line[data-curve]")) == 4
    assert not any(p.is_displayed() for p in browser.all('.overview .line[data-curve="1"]'))
    button.send_keys(Keys.SPACE)
    assert button.get_attribute("aria-pressed") == "true"
    assert len(browser.all("#chart .line[data-curve]")) == 5
    browser.one("#curves-none").click()
    assert browser.all("#chart .line[data-curve]") == []
    browser.one("#curves-all").click()
    assert len(browser.all("#chart .line[data-curve]")) == 5


def test_axes_switch_between_linear_and_logarithmic(browser, pages):
    """Ticks are evenly spaced numbers, or numbers with even ratios; the picture follows."""
    browser.open(pages["one"])
    for axis in ("x", "y"):
        box = browser.one(f"input[name=log-{axis}]")
        ticks = {}
        for is_log in (False, True):
            if box.is_selected() != is_log:
                box.click()
            shown = np.array([numbers(t)[0][0] for t in browser.texts(f".tick-{axis}")])
            assert len(shown) >= 3
            assert ("(log)" in browser.texts(f".title-{axis}")[0]) == is_log
            ticks[is_log] = shown
        np.testing.assert_allclose(np.diff(ticks[False]), ticks[False][-1] - ticks[False][-2])
        assert ticks[True][0] > 0 and set(np.round(ticks[True] / 10 ** np.floor(np.log10(ticks[True])))) <= {1, 2, 5}
        box.click()


def test_pointer_reads_the_values_of_the_nearest_record(browser, pages, usual):
    """The round, and for each curve mean and band: the mean is the seeds' mean to the digits shown."""
    browser.open(pages["usual"])
    chart = browser.one("#chart svg")
    width = chart.size["width"]
    ActionChains(browser.driver).move_to_element_with_offset(chart, int(0.2 * width), 0).perform()
    tip = browser.one("#tip")
    assert tip.is_displayed() and len(browser.all("#chart .cross")) == 1 and len(browser.all("#chart .dot")) == 5
    k = int(numbers(browser.one("#tip strong").text)[0][0])
    assert k == 100  # 0.2 of the width to the right of the middle of a logarithmic axis from 1 to 1000
    at = list(ROUNDS).index(k)
    expected = {c.algorithm: c.regret[:, at].mean() for c in usual.cells[:5]}
    read = dict(zip(browser.texts("#tip .name"), browser.texts("#tip .number"), strict=True))
    assert set(read) == set(expected)
    for algorithm, text in read.items():
        (mean, unit), (low, _), (high, _) = numbers(text)
        assert abs(mean - expected[algorithm]) <= 1.01 * unit and low < mean < high
    shown = [numbers(text)[0][0] for text in browser.texts("#tip .number")]
    assert shown == sorted(shown, reverse=True)
    browser.one("h1").click()  # the pointer leaves
    assert not tip.is_displayed()


def test_keyboard_reads_values(browser, pages, usual):
    """The chart is a slider over the recorded rounds, and says its values in words."""
    browser.open(pages["usual"])
    chart = browser.one("#chart")
    for key, at in ((Keys.HOME, 0), (Keys.ARROW_RIGHT, 1), (Keys.END, -1), (Keys.ARROW_LEFT, -2)):
        chart.send_keys(key)
        assert int(chart.get_attribute("aria-valuenow")) == ROUNDS[at]
    words = chart.get_attribute("aria-valuetext")
    assert all(algorithm in words for algorithm in usual.algorithms)
    chart.send_keys(Keys.ESCAPE)
    assert not browser.one("#tip").is_displayed()


def test_setting_and_band_are_chosen(browser, pages, usual):
    """By the list or by a caption of the overview; the note says what the band is."""
    browser.open(pages["usual"])
    browser.one("select[name=setting]").send_keys("noise (standard deviation) = 0.3")
    browser.one("#chart").send_keys(Keys.END)
    texts = dict(zip(browser.texts("#tip .name"), browser.texts("#tip .number"), strict=True))
    for algorithm, mean in final_column(usual, 0.3).items():
        shown, unit = numbers(texts[algorithm])[0]
        assert abs(shown - mean) <= 1.01 * unit
    browser.all(".overview figcaption button")[3].click()
    assert browser.ask("document.querySelector('select[name=setting]').value") == "3"
    assert "simultaneous 95 % band" in browser.one("#chart-note").text
    browser.one("select[name=view]").send_keys("median")
    assert "median" in browser.one("#chart-note").text and "order statistics" in browser.one("#chart-note").text


def test_tables_are_sorted_and_narrowed(browser, pages, usual):
    """By the numbers and not by their text, both ways, by mouse and keyboard; what is missing stays last."""
    browser.open(pages["usual"])
    means = [c.regret[:, -1].mean() for c in usual.cells]
    names = [c.algorithm for c in usual.cells]

    def column(number):
        return browser.texts(f"#final-table tbody tr:not([hidden]) td:nth-child({number})")

    def first_names():
        return [next(n for n in usual.algorithms if text.startswith(n)) for text in column(2)]

    heading = browser.all("#final-table th")[3]
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
    browser.one("form[data-table=final-table] select").send_keys("noise (standard deviation) = 0.1")
    assert set(column(1)) == {"noise (standard deviation) = 0.1"} and len(column(1)) == 5


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
        return browser.ask("getComputedStyle(document.querySelector('#chart .line.curve-3')).stroke")

    browser.open(pages["usual"], dark=dark)
    before, stroke = background(), line()
    assert (before < 150) == dark
    for selector in ("h1", ".question", ".note", "nav a", ".unit", "tr.again td", "summary", "#chart text"):
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
    assert browser.texts(".legend button bdi")[: len(SHOWN)] == list(SHOWN)
    assert browser.texts("select[name=setting] option") == [f"{SHOWN[4]} = {SHOWN[3]}", f"{SHOWN[4]} = {SHOWN[4]}"]
    cells = browser.texts("#final-table td:nth-child(2)")
    assert cells[: len(SHOWN)] == [name + SHOWN[0] for name in SHOWN]
    browser.one("#chart").send_keys(Keys.END)
    assert set(browser.texts("#tip .name")) == set(SHOWN)
    assert all(name.replace("\\", "\\\\") in browser.texts("pre")[0] for name in (SHOWN[0], SHOWN[2], SHOWN[3]))
    assert browser.ask("document.scripts.length") == 2
    assert browser.ask("document.images.length") == 0
    assert browser.complaints() == []


@pytest.mark.parametrize("name", ["usual", "hostile", "large", "one"])
def test_a_phone_needs_no_sideways_scrolling(browser, pages, name):
    """Only tables scroll, each by itself; a touch reads values."""
    browser.open(pages[name], width=360, height=740)
    assert browser.ask("document.documentElement.scrollWidth") <= 360
    assert browser.one("#chart svg").size["width"] > 300
    browser.one("#chart svg").click()
    assert browser.one("#tip").is_displayed()
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
    assert not browser.one(".controls").is_displayed() and not browser.one("button.theme").is_displayed()
    assert all(svg.is_displayed() for svg in browser.all(".overview svg"))


def test_without_script_numbers_and_curves_are_there(browser, pages, usual):
    """Tables, static curves and configuration need no script; controls that would do nothing are not shown."""
    browser.open(pages["usual"], script=False)
    assert len(browser.all("#final-table tbody tr")) == len(usual.cells)
    assert len([p for p in browser.all(".overview .line") if p.is_displayed()]) == len(usual.cells)
    assert not any(e.is_displayed() for e in browser.all("button, select, input, #chart"))
