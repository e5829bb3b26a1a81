"""The multiplier that a calibration finds is the one that is there, and says how it was found."""

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import cli, ridge
from jaxvar import constants as presets
from jaxvar.parameters import pytree, static
from jaxvar.theory import calibrate, calibration
from jaxvar.theory.calibration import smallest

SETTINGS = ("bandit", "episodes")


@pytree
class OneDraw:
    """Its confidence set is the interval of half width ``beta_scale`` around the reward of the only arm."""

    constants: Any
    dim: int = static(default=1)
    capacity: int = static(default=1)

    def init(self) -> jax.Array:
        return jnp.zeros(())

    def select(self, state: jax.Array, arms: jax.Array, key: jax.Array, side: jv.Side) -> jv.Choice:
        return jv.Choice(jnp.int32(0), jnp.int32(1), jnp.ones(()), jnp.int32(0))

    def update(self, state: jax.Array, choice: jv.Choice, x: jax.Array, reward: jax.Array, side: jv.Side) -> jax.Array:
        return state

    def confidence(self, state: jax.Array) -> jv.Confidence:
        return jv.Confidence(state[None], state[None], self.constants.beta_scale[None])


@pytree
class OneReward:
    """The same interval as an ellipsoid around an estimate, with a multiplier of the algorithm's own."""

    beta_scale: Any
    dim: int = static(default=1)
    init, select = OneDraw.init, OneDraw.select

    def update(self, state: jax.Array, choice: jv.Choice, x: jax.Array, reward: jax.Array, side: jv.Side) -> jax.Array:
        return reward

    def confidence(self, state: jax.Array) -> jv.Ellipsoids:
        return jv.Ellipsoids(state[None, None], jnp.full((1, 1, 1), 0.25), 2 * self.beta_scale[None])


def one_draw(half_width: float, instance: str, **more: Any) -> calibration.Case:
    """Noise uniform on ``[-half_width, half_width]``: the event has the probability ``min(1, scale / half_width)``."""
    noise = jv.noise.uniform(half_width / 3**0.5)
    environment = jv.linear_bandit(arms=[[1.0]], theta_star=[0.0], noise=noise)
    config = {"algorithm": {"name": "one_draw"}, "environment": {"half_width": half_width}}
    case = {"length": 1, "share": 1.0, "config": config, **more}
    return calibration.Case("one draw", instance, OneDraw(constants=jv.constants.practical(1.0)), environment, **case)


KNOWN = (one_draw(1.0, "wide"), one_draw(0.5, "narrow"))
TENTHS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)


def known(seeds: int = 2000, **options: Any) -> calibration.Calibration:
    return calibration.calibrate(KNOWN, seeds=seeds, **{"delta": 0.1, "scales": TENTHS, "switches": (0.0,), **options})


def test_recovers_a_known_threshold() -> None:
    """The true threshold is 0.9, by the wide instance; by the narrow one alone it would be 0.45.

    A multiplier below 0.9 is chosen with probability at most 0.025, over all keys. The next larger point of the finer
    grid than what is allowed here, 0.964, fails with probability below 1e-9.
    """
    found = known()
    answer = found.multiplier(0.0)
    assert answer is not None and 0.9 <= answer <= 0.964
    alone = found.multiplier(0.0, 1)
    assert alone == 0.6  # of the octaves: the finer grid is where all cases turn, and 0.4 has the probability 0.8
    wide, narrow = (found.share(run, 0.4) for run in found.runs[:2])
    assert wide.low < 0.4 < wide.high and narrow.low < 0.8 < narrow.high
    assert [run.first_seed for run in found.runs] == [0, 0, 2000, 2000]  # the finer grid has seeds of its own


def test_an_algorithm_with_a_radius_of_its_own() -> None:
    """It has the same event, no constants and no switch: the same counts, and a preset of one number."""
    found = known(seeds=100)
    algorithm = OneReward(beta_scale=np.asarray(1.0))
    cases = [dataclasses.replace(case, player="one_reward", algorithm=algorithm) for case in KNOWN]
    alone = calibration.calibrate(cases, seeds=100, delta=0.1, scales=TENTHS, switches=(0.0,))
    assert [run.held for run in alone.runs] == [run.held for run in found.runs]
    assert (alone.setting, alone.shape) == ("one_reward", {})
    written = calibration.to_json(alone, 0.0, "jaxvar calibrate")
    assert written["constants"] == {"beta_scale": alone.multiplier(0.0)}
    texts = [calibrate.verdict(alone, 0.0), calibrate.summary(alone).text(), calibrate.figure(alone, 0.0).caption]
    assert texts[0].startswith("one_reward: from") and not any("witch" in text for text in texts)


def test_larger_multipliers_must_pass_too() -> None:
    """Fails if coverage is taken to be monotone: what lies below a failure is no answer."""
    assert smallest({1.0: True, 0.5: False, 0.25: True}) == 1.0
    assert smallest({0.25: True, 1.0: True, 0.5: True}) == 0.25
    assert smallest({1.0: False, 0.5: True}) is None


def test_a_multiplier_must_pass_with_both_sets_of_seeds() -> None:
    """Fails if the finer grid's verdict replaces the first one, or the other way round."""
    found = known(seeds=100)
    coarse, fine = found.runs[0], found.runs[2]
    assert fine.scales[0] == 1.0
    worse = dataclasses.replace(fine, held=(0, *fine.held[1:]))
    assert dataclasses.replace(found, runs=(coarse, worse)).multiplier(0.0) is None
    assert dataclasses.replace(found, runs=(worse, coarse)).multiplier(0.0) is None


def test_the_worst_case_decides() -> None:
    """Fails if cases are averaged."""
    found = known(seeds=100)
    without = dataclasses.replace(found, runs=tuple(run for run in found.runs if run.case == 1))
    both, narrow = found.multiplier(0.0), without.multiplier(0.0)
    assert both is not None and narrow is not None and both > narrow


@pytest.mark.parametrize(("delta", "level", "least"), [(0.01, 0.95, 368), (0.1, 0.95, 36), (0.01, 0.9, 299)])
def test_seeds_that_can_show_something(delta: float, level: float, least: int) -> None:
    """(1 - delta)^n <= (1 - level) / 2 from this n on."""
    assert calibration.seeds_needed(delta, level) == least
    assert (1 - delta) ** least <= (1 - level) / 2 < (1 - delta) ** (least - 1)
    with pytest.raises(ValueError, match=rf"^seeds must be at least {least} .* got {least - 1}"):
        known(seeds=least - 1, delta=delta, level=level)


def test_few_seeds_make_no_claim(tmp_path: Path) -> None:
    """Fails if a result of fewer than 200 seeds is passed off as one, or can become a preset."""
    few, enough = known(seeds=199), known(seeds=200)
    assert not few.is_claim and "not a claim" in calibrate.verdict(few, 0.0)
    assert enough.is_claim and "not a claim" not in calibrate.verdict(enough, 0.0)
    mixed = dataclasses.replace(enough, cases=(enough.cases[0], few.cases[1]))
    assert not mixed.is_claim
    path = calibration.write_preset(tmp_path / "few.json", calibration.to_json(few, 0.0, "jaxvar calibrate"))
    with pytest.raises(ValueError, match=r"few\.json must hold a claim"):
        presets.calibrated_numbers(path)


def test_an_unsuitable_bank_is_refused() -> None:
    """Fails if cases with different constants share a verdict, or none is called a success."""
    other = dataclasses.replace(KNOWN[0], algorithm=OneDraw(constants=jv.constants.tight()))
    with pytest.raises(ValueError, match=r"^cases must have the same constants"):
        calibration.calibrate((KNOWN[0], other), seeds=400)
    with pytest.raises(ValueError, match=r"^cases must name at least one"):
        calibration.calibrate((), seeds=400)
    for wrong in ((), (0.5, 0.5), (0.0, 1.0), (np.nan,)):
        with pytest.raises(ValueError, match=r"^scales"):
            known(scales=wrong)


def bandit(length: int = 60) -> calibration.Case:
    """The smallest case of the bank, shortened."""
    return next(c for c in calibration.bank("bandit", delta=0.1, length=length) if c.player == "AVE-UCB")


def test_a_mutated_radius_moves_the_multiplier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if what is calibrated is not the radius of the algorithm: a thirtieth of it needs thirty times as much."""
    options: dict[str, Any] = {"seeds": 100, "delta": 0.1, "switches": (0.0,)}
    right = calibration.calibrate([bandit()], **options).multiplier(0.0)
    original = ridge.radius

    def thirtieth(q: Any, *rest: Any) -> jax.Array:
        bias = rest[3].bias_coef * jnp.sqrt(q)
        return bias + (original(q, *rest) - bias) / 30

    jax.clear_caches()  # compiled programs do not see the change
    monkeypatch.setattr(ridge, "radius", thirtieth)
    try:
        assert calibration.calibrate([bandit()], **options).multiplier(0.0) is None
        larger = [30 * scale for scale in calibration.OCTAVES]
        wrong = calibration.calibrate([bandit()], **options, scales=larger).multiplier(0.0)
    finally:
        jax.clear_caches()
    assert right is not None and wrong == pytest.approx(30 * right, rel=1e-9)
    assert 0.01 < right < 0.2


def test_printed_and_proved_switch_are_the_same_at_these_lengths() -> None:
    """The bank has one switch for both: no layer reached is past either, so that the counts agree exactly."""
    found = calibration.calibrate([bandit()], seeds=100, delta=0.1, switches=(12.6, 64.0))
    proved, printed = (next(run.held for run in found.runs if run.switch == s) for s in (12.6, 64.0))
    assert proved == printed and min(proved) < 100


def test_json_round_trip(tmp_path: Path) -> None:
    """Fails if anything counted is lost or changed on the way through the file."""
    found = known(seeds=100)
    path = calibration.write_preset(
        tmp_path / "one.json", calibration.to_json(found, 0.0, "jaxvar calibrate --seeds 100")
    )
    assert calibration.read_calibration(path) == found
    content = json.loads(path.read_text())
    assert content["constants"] == {"beta_scale": found.multiplier(0.0), "switch": 0.0, **found.shape}
    assert content["claim"] is False and list(tmp_path.iterdir()) == [path]
    path.write_text(json.dumps({**content, "format": 99}))
    with pytest.raises(ValueError, match="format 99"):
        calibration.read_calibration(path)
    hopeless = known(seeds=100, scales=(0.2, 0.1))
    assert "no multiplier tried" in calibrate.verdict(hopeless, 0.0)
    with pytest.raises(ValueError, match=r"^switch"):
        calibration.to_json(hopeless, 0.0, "")


def run_cli(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(cli, "tune_cpu", lambda: None)  # the tests' devices are made
    return cli.main(["calibrate", "--no-progress", *words])


def test_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit codes, files, and a command line that repeats what was done; on the bank whose answer is known."""
    asked: list[Any] = []

    def small_bank(setting: str, **options: Any) -> tuple[calibration.Case, ...]:
        asked.append((setting, options))
        return KNOWN

    monkeypatch.setattr(calibrate, "bank", small_bank)
    out = tmp_path / "made" / "here"
    words = ["--seeds", "100", "--rounds", "7", "--delta", "0.1", "--switches", "0"]
    assert run_cli(monkeypatch, *words, "--out", str(out)) == 1  # the octaves end at 0.5
    assert "no multiplier tried" in capsys.readouterr().out and not (out / "bandit.json").exists()
    assert asked == [("bandit", {"delta": 0.1, "length": 7})]
    assert sorted(p.name for p in out.iterdir()) == [
        "points.csv",
        "summary.txt",
        *(f"switch_0.{ending}" for ending in ("caption.tex", "caption.txt", "pdf", "png")),
    ]

    monkeypatch.setattr(calibrate, "bank", lambda setting, **options: KNOWN[1:])
    assert run_cli(monkeypatch, *words, "--out", str(out)) == 0
    printed = capsys.readouterr().out
    assert "not a claim" in printed and "narrow" in printed
    content = json.loads((out / "bandit.json").read_text())
    repeat = "jaxvar calibrate --setting bandit --seeds 100 --rounds 7 --delta 0.1 --level 0.95 --key 0 --switches 0.0"
    assert content["command"] == repeat
    assert run_cli(monkeypatch, *content["command"].split()[2:], "--out", str(tmp_path / "again")) == 0
    again = json.loads((tmp_path / "again" / "bandit.json").read_text())
    assert again["calibration"] == content["calibration"] and again["constants"] == content["constants"]

    capsys.readouterr()
    assert run_cli(monkeypatch, "--seeds", "20", "--delta", "0.1", "--out", str(out)) == 2
    assert capsys.readouterr().err.startswith("jaxvar: seeds must be at least 36")
    (tmp_path / "file").write_text("")
    assert run_cli(monkeypatch, *words, "--out", str(tmp_path / "file")) == 1
    assert "file" in capsys.readouterr().err


def test_points_and_figure_show_every_count() -> None:
    """Fails if a grid or a case is left out of the table or of the figure."""
    found = known(seeds=100)
    table = calibrate.points(found)
    assert len(table.rows) == sum(len(run.scales) for run in found.runs) == 4 * len(TENTHS)
    assert [row[6].estimate * 100 for row in table.rows[: len(TENTHS)]] == pytest.approx(list(found.runs[0].held))
    drawing = calibrate.figure(found, 0.0)
    assert len(drawing.figure.axes) == len(KNOWN)
    for axis, (coarse, fine) in zip(drawing.figure.axes, (found.runs[0::2], found.runs[1::2]), strict=True):
        drawn = np.sort(np.concatenate([np.asarray(line.get_xdata()) for line in axis.lines[2:]][1:]))
        np.testing.assert_array_equal(drawn, np.sort([*coarse.scales, *fine.scales]))
    assert "100 seeds" in drawing.caption and "not a claim" in drawing.caption


@pytest.mark.parametrize("setting", SETTINGS)
def test_shipped_preset_follows_from_its_counts(setting: str) -> None:
    """Fails if a number of the preset was written by hand, or the bank has changed since it was measured."""
    path = presets.PRESETS / f"{setting}.json"
    content, found = json.loads(path.read_text()), calibration.read_calibration(path)
    made = jv.constants.practical(setting=setting)
    assert made.setting == setting and made.label == "practical" and float(made.switch) == 0.0
    for name in presets.number_names():
        assert float(getattr(made, name)) == content["constants"][name]
    assert content["claim"] is True and found.is_claim
    assert float(made.beta_scale) == found.multiplier(0.0) and not found.is_least(0.0)
    assert (found.setting, found.delta, found.level) == (setting, 0.01, 0.95)
    assert [entry["switch"] for entry in content["multipliers"]] == list(found.switches)
    for entry in content["multipliers"]:
        assert entry["beta_scale"] == found.multiplier(entry["switch"])

    bank = calibration.bank(setting)
    assert [(c.player, c.instance, c.length, c.config) for c in found.cases] == [
        (c.player, c.instance, c.length, c.config) for c in bank
    ]
    assert found.shape == {n: float(getattr(bank[0].algorithm.constants, n)) for n in found.shape}
    assert set(calibration.bank_file()["shape"]) - {"preset"} <= set(found.shape)
    for switch in found.switches:
        played = [run.case for run in found.runs if run.switch == switch]
        assert sorted(set(played)) == list(range(len(bank))) and len(played) == 2 * len(bank)
    assert content["command"].startswith(f"jaxvar calibrate --setting {setting} --seeds {found.cases[0].seeds}")
    assert {"jaxvar", "jax", "jaxlib", "numpy", "python", "device", "precision"} <= set(content["versions"])
    assert content["versions"]["precision"] == "float64" and content["created"].startswith("20")


@pytest.mark.parametrize("name", calibration.alone())
def test_shipped_multiplier_of_an_algorithm_follows_from_its_counts(name: str) -> None:
    """Fails if it was written by hand, or the bank has changed since it was measured."""
    path = presets.PRESETS / f"{name}.json"
    content, found = json.loads(path.read_text()), calibration.read_calibration(path)
    assert content["claim"] is True and content["constants"] == {"beta_scale": found.multiplier(0.0)}
    assert jv.constants.calibrated(name) == found.multiplier(0.0)
    assert (found.setting, found.delta, found.level, found.shape) == (name, 0.01, 0.95, {})
    assert [(c.player, c.instance, c.length, c.config) for c in found.cases] == [
        (c.player, c.instance, c.length, c.config) for c in calibration.bank(name)
    ]
    assert content["command"].startswith(f"jaxvar calibrate --setting {name} --seeds {found.cases[0].seeds}")
    assert content["versions"]["precision"] == "float64"


def test_what_can_be_calibrated() -> None:
    """The command names what the bank has, and every such algorithm has its multiplier."""
    assert typing.get_args(typing.get_type_hints(calibrate.Calibrate)["setting"]) == (*SETTINGS, *calibration.alone())
    shipped = {path.stem for path in presets.PRESETS.glob("*.json")}
    assert shipped == {*SETTINGS, *calibration.alone()}
    with pytest.raises(ValueError, match=r"^algorithm must be one of .*vacdb.*got 'save'"):
        jv.constants.calibrated("save")


def replayed(setting: str, instance: str, player: str, runs: slice) -> None:
    """Play some of the runs behind a preset again."""
    found = calibration.read_calibration(presets.PRESETS / f"{setting}.json")
    number = next(i for i, c in enumerate(found.cases) if (c.instance, c.player) == (instance, player))
    case, seeds = calibration.bank(setting)[number], found.cases[number].seeds
    for run in [run for run in found.runs if run.case == number and run.switch == 0.0][runs]:
        again = calibration._play(number, case, run.switch, run.scales, seeds, run.first_seed, found.key)
        assert again == run


@pytest.mark.slow
def test_shipped_preset_can_be_played_again() -> None:
    """Fails if the counts are not those of this code: all seeds of the finer grid of one case, exactly."""
    replayed("bandit", "d = 5, noise at R", "AVE-UCB", slice(1, 2))


@pytest.mark.slow
def test_what_decides_can_be_played_again() -> None:
    """The same for the case that the preset hangs on, which is the longest."""
    replayed("bandit", "d = 2, noise at R", "AVE-UCB", slice(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["max_in_p", "ada_ecolog", "ucbvi"])
def test_shipped_multiplier_can_be_played_again(name: str) -> None:
    """The same for an algorithm of each game."""
    replayed(name, calibration.bank(name)[0].instance, name, slice(1, 2))


@pytest.mark.slow
def test_shipped_preset_for_episodes_can_be_played_again() -> None:
    """The same for episodes, both grids."""
    replayed("episodes", "tabular RiverSwim, d = 8", "UCRL-AVE", slice(None))


def test_practical_constants() -> None:
    """Its form for episodes is found by name; a scale of one's own is for both, and changed numbers are refused."""
    c = jv.constants
    assert c.for_episodes(c.practical()).setting == "episodes"
    mine = c.practical(0.3)
    assert float(mine.beta_scale) == 0.3 and c.for_episodes(mine) is mine
    with pytest.raises(ValueError, match=r"emp_coef of the bandit preset 'practical'"):
        c.for_episodes(dataclasses.replace(c.practical(), emp_coef=np.float64(4.0)))
    with pytest.raises(ValueError, match=r"^setting"):
        c.practical(setting="bandits")


@pytest.mark.slow
def test_the_whole_bank_of_episodes_by_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every instance is built and played, if shortly."""
    words = ["--setting", "episodes", "--rounds", "20", "--seeds", "40", "--delta", "0.1", "--switches", "0"]
    assert run_cli(monkeypatch, *words, "--out", str(tmp_path)) == 0
    assert json.loads((tmp_path / "episodes.json").read_text())["claim"] is False
