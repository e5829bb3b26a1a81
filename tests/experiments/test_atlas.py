"""The atlas: orders from results that were made up, the page in a real browser, and the committed files."""

import dataclasses
import functools
import re
import urllib.parse
import zlib
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver import Keys
from selenium.webdriver.support.wait import WebDriverWait

import jaxvar as jv
from experiments import experiment
from experiments.atlas import __main__ as command
from experiments.atlas import conclude, figure, maps, page, players, studies
from jaxvar.analysis import paired
from tests.helpers.browser import Browser
from tests.helpers.synthetic_study import unplayed

FOLDER = Path(studies.__file__).parent
SMALL = studies.Size(3_000, 300, 200, 100, (("sphere", "constant", (2,)), ("sphere", "bursts", (2,))), ((2, 5),))
WIDE = studies.Size(1_000, 300, 200, 100, (("sphere", "constant", (5,)),), tasks=("diabetes", "wine"), long=3_000)
TUNED = dict.fromkeys([*players.BANDITS, *players.EPISODES], 0.01)


def made_up(study, seeds=200):
    """A study that was not played: regret grows with the noise for those that adapt, and not for others."""

    def records(cell):
        rng = np.random.default_rng(zlib.crc32(cell.title.encode()))
        setting = str(cell.environment_settings)
        common = np.exp(0.1 * np.random.default_rng(zlib.crc32(setting.encode())).normal(size=(seeds, 1)))
        adapts = cell.algorithm_label.rpartition(" (")[0] in conclude.ADAPTIVE
        scale = (3 if adapts else 1) * (1 + zlib.crc32(cell.algorithm_label.encode()) % 7)
        growth = study.recorded ** (0.3 if adapts else 0.5)
        regret = scale * growth * common * np.exp(0.05 * rng.normal(size=(seeds, 1)))
        made = {"regret": regret, "variance": regret, "confidence": np.ones((*regret.shape, 1), bool)}
        return {name: made[name] for name in cell.record}

    return unplayed(study, records, study_hash="1234abcd", runs=[{"jaxvar": "0"}])


@functools.cache
def results(seeds=200, size=SMALL):
    return {name: made_up(study, seeds) for name, study in studies.map_studies(size, TUNED).items()}


@functools.cache
def atlas(seeds=200, size=SMALL, name="quick"):
    return maps.Atlas.of(results(seeds, size), TUNED, name)


def many():
    """An atlas with as many maps as the size ``hour`` has, all with the numbers of a few."""
    long, *data = atlas(size=WIDE).panels[1:]
    panels = [
        dataclasses.replace(
            atlas().panels[shape != "constant"], problem=maps.describe(f"{kind}_{shape}", f"d = {d}", 0)
        )
        for shape in studies.SHAPES
        for kind in studies.KINDS
        for d in (2, 5, 10)
    ]
    episodes = atlas().panels[-1]
    more = [dataclasses.replace(episodes, problem=maps.describe("episodes", f"d = 2, H = {h}", 0)) for h in (5, 20)]
    return maps.Atlas("hour", (*panels, long, *data, *more))


def test_a_verdict_is_what_paired_differences_say():
    """Fails if an order is claimed that the paired intervals, at the level of the whole map, do not give."""
    (panel, *_) = atlas().panels
    cells = [c for c in results()["sphere_constant"].cells if c.environment_settings["noise.std"] == 1 / 30]
    column = {c.algorithm: c for c in cells}
    for mode, scope in panel.verdicts:
        players = panel.players(mode, scope)
        level = 1 - 0.05 / ((len(players) - 1) * len(panel.x) * len(panel.rounds))
        verdict = panel.verdicts[mode, scope][panel.x.index(30)][-1]
        means = {i: column[panel.entries[i].label].regret[:, -1].mean() for i in players}
        assert verdict.first == min(means, key=means.get)
        first = column[panel.entries[verdict.first].label]
        found = {
            i: paired(column[panel.entries[i].label], first, level=level, resamples=1).difference
            for i in players
            if i != verdict.first
        }
        gap = found[verdict.second]
        assert (verdict.difference, verdict.low, verdict.high) == pytest.approx((gap.estimate, gap.low, gap.high))
        assert set(verdict.open) == {i for i, one in found.items() if one.low <= 0}


def test_few_seeds_claim_no_order():
    columns = [column for panel in atlas(199).panels for map in panel.verdicts.values() for column in map]
    assert not any(verdict.is_decided for column in columns for verdict in column)


def test_an_algorithm_that_failed_is_left_out_of_its_column():
    """A seed of the best algorithm fails in one column: the second becomes the first there, and nowhere else."""
    whole = atlas().panels[0].verdicts["provable", "R"]
    best = atlas().panels[0].entries[whole[2][0].first].label
    old = results()["sphere_constant"]
    broken = [
        dataclasses.replace(c, status=np.eye(1, 200, dtype=np.int32)[0])
        if c.algorithm == best and c.environment_settings["noise.std"] == 1 / 10
        else c
        for c in old.cells
    ]
    study = dataclasses.replace(old, cells=tuple(broken))
    (panel,) = maps.Atlas.of({"sphere_constant": study}, TUNED, "quick").panels
    found = panel.verdicts["provable", "R"]
    assert found[2][0].first == whole[2][0].second
    assert found[1] == whole[1] and found[3] == whole[3]


def test_adapting_is_ahead_only_where_it_is_separated_from_the_others():
    panel = atlas().panels[0]
    names = [entry.name for entry in panel.entries]
    oful, losan, save = (names.index(name) for name in ("OFUL", "LOSAN", "SAVE"))

    def verdict(first, *rivals):
        return maps.Verdict(first, oful, 1.0, 0.5, 1.5, rivals)

    assert conclude.state(panel, verdict(losan)) is True
    assert conclude.state(panel, verdict(losan, save)) is True
    assert conclude.state(panel, verdict(losan, save, oful)) is None
    assert conclude.state(panel, verdict(oful)) is False
    assert conclude._since([False, True, None, True, True], (1, 2, 3, 4, 5)) == 4
    assert conclude._since([True, True, None], (1, 2, 3)) is None


def test_advice_is_the_least_worst_ratio():
    """OFUL is best in all cells but one, where it pays 9 times as much as LOSAN: the advice is LOSAN."""
    panel = atlas().panels[0]
    labels = [entry.label for entry in panel.entries]
    oful, losan = labels.index("OFUL (theorem)"), labels.index("LOSAN (theorem)")
    mean = np.full_like(panel.mean, 100.0)
    mean[oful], mean[losan] = 2.0, 3.0
    mean[oful, 4, 2] = 27.0
    cells = [(dataclasses.replace(panel, mean=mean), i, k) for i in range(7) for k in range(4)]
    where = "(sphere, d = 2, constant noise, R/σ = 1, K = 100)"
    said = conclude._safest("provable", "R", cells)
    assert said == f"LOSAN (theorem): best in 1 of 28 cells, at most 1.50 times the best {where}"


def test_advice_is_about_those_that_play_everywhere():
    """SAVE is best wherever it plays, and has no part in tasks made of data: it is no advice for both together."""
    short, _, diabetes, _ = atlas(size=WIDE).panels
    mean = np.full_like(short.mean, 100.0)
    mean[[entry.label for entry in short.entries].index("SAVE (sharp)")] = 1.0
    cells = [(dataclasses.replace(short, mean=mean), 0, 0), (diabetes, 0, 0)]
    assert conclude._safest("provable", "R", cells[:1]) == "SAVE (sharp): best in all 1 cells"
    assert not conclude._safest("provable", "R", cells).startswith("SAVE")


def test_studies_as_files(tmp_path):
    """A study's file is the study, and its mean noise is what the horizontal axis says."""
    made = {**studies.tuning_studies(SMALL), **studies.map_studies(SMALL, TUNED)}
    for name in ["tune", "tune_episodes", "sphere_constant", "episodes"]:
        path = tmp_path / f"{name}.toml"
        path.write_text(studies.as_toml(made[name]))
        assert jv.read_study(path).to_config() == made[name].to_config()
    assert all(size.seeds >= maps.ENOUGH for size in studies.SIZES.values())
    for shape, share in (("two_level", "prob_high"), ("bursts", None)):
        noise = studies._noise(shape, 30, 2)
        loud = noise[share] if share else noise["length"] / noise["period"]
        assert loud * noise["high"] ** 2 + (1 - loud) * noise["low"] ** 2 == pytest.approx(1 / 30**2)
        assert noise["high"] <= 1


def test_a_multiplier_that_is_played_already_is_not_played_twice():
    found = players.entries(players.BANDITS, {"OFUL": 1.0, "Weighted OFUL": 0.03, "SAVE": 0.01})
    modes = {entry.label: entry.modes for entry in found}
    assert modes["OFUL (theorem)"] == ("printed", "provable", "calibrated", "tuned")
    assert modes["Weighted OFUL (calibrated x0.03)"] == ("calibrated", "tuned")
    assert modes["SAVE (tuned x0.01)"] == ("tuned",)
    assert len(modes) == len(found)


def test_one_command_makes_page_figure_studies_and_tables(tmp_path, monkeypatch, capsys):
    """From the studies, which are not played here, to the experiment's own folder; old studies are removed."""
    own = tmp_path / "atlas"
    own.mkdir()
    (own / "old.toml").write_text("")
    (own / "README.md").write_text("# Atlas\n\n<!-- table: use -->\n<!-- end -->\n")
    played = []
    monkeypatch.setattr(command, "SIZES", {"quick": SMALL})
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    monkeypatch.setattr(experiment, "FOLDER", tmp_path)
    monkeypatch.setattr("jaxvar.tune_cpu", lambda: None)  # JAX has started
    monkeypatch.setattr("jaxvar.run_study", lambda study, out, progress: played.append(out.name) or made_up(study))
    out = tmp_path / "out"
    out.mkdir()
    assert command.main(["--publish", "--no-progress", "--out", str(out), "--maps", "episodes", "sphere_constant"]) == 0
    assert played == ["tune", "tune_episodes", "sphere_constant", "episodes"]
    files = {"README.md", "atlas.html", "atlas.png", "found.json", *(f"{name}.toml" for name in played)}
    assert {path.name for path in own.iterdir()} == files
    assert players.read_found(own / "found.json").command == "python -m experiments atlas --size quick --publish"
    assert "| you know R only | " in (own / "README.md").read_text()
    assert jv.read_study(own / "tune.toml").to_config() == studies.tuning_studies(SMALL)["tune"].to_config()
    assert command.wanted_names(("data",), ["sphere_constant", "data_wine"]) == ["data_wine"]
    assert command.wanted_names(("sphere_constant",), ["sphere_constant", "sphere_constant_long"]) == [
        "sphere_constant"
    ]
    assert command.main(["--no-progress", "--maps", "nothing"]) == 1
    assert "maps must be some of sphere_constant, sphere_bursts, episodes, got nothing" in capsys.readouterr().err


@pytest.mark.parametrize("task", studies.TASKS)
def test_algorithms_are_told_what_holds_of_a_task(task):
    """B and R hold and are tight, columns have the ratio that the axis says, and nobody is told a B it cannot use."""
    table, told = jv.data_bandit(task), studies.TASKS[task]
    norm = np.linalg.norm(table.summary().best_theta)
    assert norm <= told.theta_bound <= 1.01 * norm
    assert float(table.noise_bound) <= told.noise_bound <= 1.01 * float(table.noise_bound)
    size = dataclasses.replace(WIDE, tasks=(task,))
    study = studies.map_studies(size, TUNED, [f"data_{task}"])[f"data_{task}"]
    (problem,) = study.environments
    for scale in problem.sweep["noise_scale"]:
        played = jv.data_bandit(task, scale)
        means = np.asarray(played.means, float)
        variances = means * (1 - means) if played.variances is None else np.asarray(played.variances, float)
        ratio = told.noise_bound / (scale * np.sqrt(variances.mean()))
        assert ratio == pytest.approx(studies.ratio_of({"noise_scale": scale}, task), rel=0.01)
    assert studies.ratio_of({"noise_scale": min(problem.sweep["noise_scale"])}, task) == 1000
    assert {"SAVE", "AVE-UCB"}.isdisjoint(entry.label.partition(" (")[0] for entry in study.algorithms)
    for entry in study.algorithms:
        assert (entry.options["theta_bound"], entry.options["noise_bound"]) == told[1:]
    assert any("confidence" in cell.record for cell in study.cells) == (task == "diabetes")


def test_maps_of_data_and_the_longer_map():
    short, long, diabetes, wine = atlas(size=WIDE).panels
    assert (long.title, long.rounds[-1], short.rounds[-1]) == (
        "sphere, d = 5, constant noise, to K = 3,000",
        3_000,
        1_000,
    )
    told = [c.algorithm for c in studies.map_studies(WIDE, TUNED)["sphere_constant_long"].cells]
    assert {float(a.num_rounds) for a in told if getattr(a, "num_rounds", None) is not None} == {3_000}
    assert (diabetes.title, diabetes.x) == ("data, diabetes, d = 11", (3, 10, 30, 100, 300, 1000))
    assert wine.x[0] == 5.72 and "are not linear" in wine.problem.remark and "are linear" in diabetes.problem.remark
    assert "Left out: AVE-UCB, SAVE, LinVDTS-R." in page.page(atlas(size=WIDE))
    assert any(diabetes.covered) and not any(wine.covered)
    assert [panel.x for panel in atlas().panels[:2]] == [(1, 3, 10, 30, 100, 300, 1000), (3, 10, 30, 100, 300, 1000)]
    said = {row[0]: row[1] for row in conclude.use(atlas(size=WIDE)).rows}
    assert "K is 1,000 or 3,000" in said and "your arms come from data" in said


def test_the_page_and_the_table_have_the_words_of_the_ledger():
    """Fails if an algorithm is called provable whose constants the ledger does not know from a theorem or a proof."""
    known = {(line.factory, line.radius): line for line in players.ledger()}
    for entry in players.entries({**players.BANDITS, **players.EPISODES}, TUNED):
        if "provable" in entry.modes:
            assert not known[entry.player.factory, entry.radius[0]].proof.startswith("none"), entry.label
        if entry.label != "LinVDTS-R (practical)":
            line = known[entry.player.factory, entry.radius[0]]
            assert entry.known == (line.kind, line.proof)
    rows = {row[:2]: row for row in conclude.algorithms(atlas()).rows}
    losan = known["losan", "theorem"]
    (seen,) = losan.coverage
    assert rows["LOSAN", "theorem"][4:6] == ("printed", losan.proof)
    assert rows["LOSAN", "theorem"][7] == "sphere, d = 2, constant noise, R/σ = 1"
    assert rows["LOSAN", "theorem"][8].startswith(f"table1, {seen.case}: {100 * seen.held:.5g} % [")
    assert rows["LOSAN", "tuned x0.01"][8] == ""  # measured at other multipliers only


def test_one_page_of_print_is_enough_for_many_maps():
    titles = [panel.title for panel in figure.chosen(many())]
    assert len(many().panels) == 41 and len(titles) == figure.MOST
    assert {"sphere, d = 5, constant noise", "data, diabetes, d = 11", "graded MDP, d = 2, H = 20"} <= set(titles)
    assert figure.draw_first(many()) is not None
    assert figure.draw_first(atlas()) is None  # d = 2 only


def test_a_piece_answers_a_question(tmp_path, monkeypatch, capsys):
    """The question comes first; nothing is tuned; the sentences at the end are those of the page."""
    played = []
    monkeypatch.setattr("jaxvar.tune_cpu", lambda: None)  # JAX has started
    monkeypatch.setattr("jaxvar.run_study", lambda study, out, progress: played.append(out.name) or made_up(study))
    assert command.main(["--size", "piece", "--out", str(tmp_path)]) == 0
    assert played == ["sphere_constant"]
    shown = capsys.readouterr()
    assert shown.err.startswith("atlas: Who has the least regret")
    found, text = page.stored(tmp_path / "atlas.html"), (tmp_path / "atlas.html").read_text()
    assert set(found["panels"][0]["verdicts"]) == {f"{m} {s}" for m in ("provable", "tuned") for s in maps.SCOPES}
    sentences = [line for line in shown.out.splitlines() if line.startswith(("With ", "Tuned "))]
    assert len(sentences) == 2 and all(line.replace("'", "&#39;") in text for line in sentences)
    assert studies.SIZES["piece"].question in text
    assert shown.out.rstrip().endswith(str(tmp_path / "atlas.html"))
    tuned = [p["label"] for p in found["players"][0] if p["modes"] == ["tuned"]]
    published = players.read_found(FOLDER / "found.json").tables["tuned"].rows
    assert f"LOSAN (tuned x{dict(row[:2] for row in published)['LOSAN']})" in tuned
    assert "-m experiments.atlas --size piece" in (FOLDER.parents[1] / "scripts" / "study").read_text()
    assert command.main(["--size", "piece", "--publish"]) == 1
    assert "publish is for whole maps, got the size piece" in capsys.readouterr().err


def test_findings_are_the_numbers_of_the_map():
    """Counted by hand: LOSAN is first in all cells of the constructed map, separated in all but two."""
    panel = atlas().panels[0]
    labels = [entry.label for entry in panel.entries]
    oful, losan = labels.index("OFUL (theorem)"), labels.index("LOSAN (theorem)")
    mean = np.full_like(panel.mean, 100.0)
    mean[losan], mean[oful, 0, -1], mean[oful, -1, -1] = 10.0, 12.5, 30.0
    sure, open_ = maps.Verdict(losan, oful, 1.0, 0.5, 1.5, ()), maps.Verdict(losan, oful, 1.0, -0.5, 1.5, (oful,))
    verdicts = {("provable", "R"): ((open_, sure, sure, open_), *((sure,) * 4,) * 6)}
    entries = tuple(dataclasses.replace(e, modes=tuple({"provable"} & set(e.modes))) for e in panel.entries)
    made = dataclasses.replace(panel, mean=mean, verdicts=verdicts, entries=entries, covered=(None,) * len(entries))
    (said,) = conclude.findings(maps.Atlas("piece", (made,)))
    assert said == (
        "With provable constants (sphere, d = 2, constant noise) LOSAN has the least regret in 28 of 28 cells, "
        "separated from all others in 26; at K = 3,000 the best algorithm that does not adapt to the variance pays "
        "1.25 times as much as the best that does where R/σ = 1, and 3.00 times as much where it is 1000."
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return page.write_page(atlas(), tmp_path_factory.mktemp("page") / "atlas.html")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.driver.quit()


def test_page_holds_the_numbers(made):
    found, panel = page.stored(made)["panels"][0], atlas().panels[0]
    assert np.array(found["mean"]) == pytest.approx(panel.mean, rel=1e-3)
    assert np.array(found["half"]) == pytest.approx(panel.half, rel=0.1)
    assert found["verdicts"]["tuned all"][3][1][0] == panel.verdicts["tuned", "all"][3][1].first
    assert made.stat().st_size < 1e6


def test_page_opens_without_complaint_and_without_network(browser, made):
    browser.open(made)
    assert browser.one(".map .cell").is_displayed()
    assert browser.complaints() == []
    assert {url for url in browser.requests() if not url.startswith("data:")} == {made.as_uri()}


def test_switches_change_the_maps(browser, made):
    browser.open(made)
    panel = atlas().panels[0]
    for mode in players.MODES:
        for scope in maps.SCOPES:
            for name, value in (("mode", mode), ("scope", scope)):
                browser.ask(f"(document.querySelector('[name={name}]').value = arguments[0])", value)
            browser.ask("document.querySelector('.switches').dispatchEvent(new Event('change'))")
            verdict = panel.verdicts[mode, scope][4][3]
            cell = browser.one('.map[data-panel="0"] .cell[data-x="4"][data-k="3"]')
            assert cell.text == panel.entries[verdict.first].player.code
            assert ("open" in cell.get_attribute("class").split()) == (not verdict.is_decided)
    browser.ask("(document.querySelector('[name=view]').value = 'adapts')")
    browser.ask("document.querySelector('.switches').dispatchEvent(new Event('change'))")
    adapts = panel.entries[verdict.first].name in conclude.ADAPTIVE
    assert ("curve-0" if adapts else "curve-5") in cell.get_attribute("class").split()


def test_many_maps_are_chosen_by_arms_noise_and_dimension(browser, tmp_path):
    """Of many maps those with constant noise are shown at first; a tick more or less changes that."""
    browser.open(page.write_page(many(), tmp_path / "many.html"))
    shown = "[...document.querySelectorAll('#bandits .map')].filter((m) => !m.hidden).length"
    assert browser.ask(shown) == 10
    assert browser.one(".facets .count").text == "10 of 37 maps are shown."
    browser.ask("document.querySelector('.facets [name=noise][value=bursts]').click()")
    assert browser.ask(shown) == 19
    browser.ask("document.querySelector('.facets [name=d][value=\"5\"]').click()")
    assert browser.ask(shown) == 12
    assert browser.complaints() == []
    assert (tmp_path / "many.html").stat().st_size < 2e6


def test_a_cell_by_keyboard(browser, made):
    """Arrow keys move, the numbers follow, Enter shows the column with its study, and the button leads back."""
    browser.open(made)
    panel = atlas().panels[0]
    browser.ask("document.querySelector('.map .cell[tabindex=\"0\"]').focus()")
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_DOWN):
        browser.driver.switch_to.active_element.send_keys(key)
    k = len(panel.rounds) - 2
    verdict = panel.verdicts["provable", "R"][1][k]
    text = browser.one(".readout").text
    assert text.startswith(f"sphere, d = 2, constant noise, R/σ = 3, K = {panel.rounds[k]:,}: ")
    assert panel.entries[verdict.first].label in text and panel.entries[verdict.second].label in text
    assert text == browser.driver.switch_to.active_element.get_attribute("aria-label")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.one("#column .chart svg .line").is_displayed()
    rows = browser.texts("#column tbody tr td:nth-child(2)")
    assert browser.texts("#column tbody tr:first-child td.known")[0] == panel.entries[verdict.first].known[1]
    assert len(rows) == len(panel.players("provable", "R")) and rows[0] == panel.entries[verdict.first].label
    assert "experiments/atlas/sphere_constant.toml" in browser.one("#column .command").text
    assert browser.one("#column .hash").text == "1234abcd"
    browser.one("#column .back").click()
    assert browser.driver.switch_to.active_element.get_attribute("data-x") == "1"


def test_a_cell_by_its_address(browser, made):
    """A link leads to a cell with its constants; the address of a chosen cell is such a link."""
    browser.open(made)
    panel = atlas().panels[0]
    k = panel.rounds[0]
    browser.ask(f"location.hash = '#map=sphere-d-2-constant-noise&x=3&k={k}&constants=tuned&told=R'")
    WebDriverWait(browser.driver, 10).until(lambda _: browser.one("#column .chosen").is_displayed())
    assert browser.one("#column .name").text.startswith(f"sphere, d = 2, constant noise, R/σ = 3, K = {k:,}: ")
    assert browser.ask("document.querySelector('.switches').elements.mode.value") == "tuned"
    browser.ask('document.querySelector(\'.map .cell[data-x="0"][data-k="1"]\').click()')
    wanted = f"#map=sphere-d-2-constant-noise&x=1&k={panel.rounds[1]}&constants=tuned&told=R"
    assert browser.ask("location.hash") == wanted
    browser.ask("location.hash = '#map=nowhere&x=3'")
    assert browser.complaints() == []


@pytest.mark.parametrize("dark", [False, True])
def test_page_fits_a_phone(browser, made, dark):
    browser.open(made, width=390, height=844, dark=dark)
    browser.ask("document.querySelectorAll('.map .cell')[3].click()")
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    assert browser.ask("getComputedStyle(document.documentElement).backgroundColor") == (
        "rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)"
    )


def test_page_without_scripts_shows_the_first_maps(browser, made):
    browser.open(made, script=False)
    panel = atlas().panels[0]
    verdict = panel.verdicts["provable", "R"][0][-1]
    assert browser.one(".map .cell").text == panel.entries[verdict.first].player.code
    assert not browser.one(".switches").is_displayed()


def test_links_of_the_advice_lead_to_cells():
    """Every bullet of the advice names the cells that it is about."""
    text = (FOLDER / "README.md").read_text("utf-8")
    bullets = text.partition("## What to use")[2].partition("The same by rule")[0].split("\n- ")[1:]
    panels = {
        "-".join(re.findall("[a-z0-9]+", p["title"].lower())): p for p in page.stored(FOLDER / "atlas.html")["panels"]
    }
    for bullet in bullets:
        links = re.findall(r"\(atlas\.html#([^)]*)\)", bullet)
        assert links, bullet
        for link in links:
            at = {key: value for key, (value,) in urllib.parse.parse_qs(link).items()}
            panel = panels[at["map"]]
            assert float(at["x"]) in panel["x"] and int(at["k"]) in panel["rounds"], link
            assert f"{at['constants']} {at['told']}" in panel["verdicts"], link


def test_committed_page_is_of_the_committed_studies():
    """Fails if the page, the figure's tables and the study files were not made together."""
    found = page.stored(FOLDER / "atlas.html")
    names = {panel["study"] for panel in found["panels"]}
    assert names | {"tune", "tune_episodes"} == {path.stem for path in FOLDER.glob("*.toml")}
    assert all(panel["seeds"] >= maps.ENOUGH for panel in found["panels"])
    assert sum((FOLDER / name).stat().st_size for name in ("atlas.html", "found.json")) < 2e6
