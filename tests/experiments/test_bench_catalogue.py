"""``python -m experiments speed --all``: every algorithm beside its twin."""

import pytest

import jaxvar as jv
from experiments.speed import twins as catalogue
from experiments.speed.comparison import Comparison
from jaxvar.algorithms.catalogue import CLAIMS

pytestmark = pytest.mark.slow  # programs that measure; nothing else depends on them

TINY = Comparison(
    dim=3, arms=4, rounds=40, seeds=16, repeats=1, states=3, actions=2, features=3, horizon=3, episodes=20,
    episode_seeds=16, all=True, twin_turns=5,
)  # fmt: skip
LINES = {line.label: line for line in catalogue.lines(TINY)}


def test_every_algorithm_has_a_line():
    """What is missing here is never measured."""
    assert list(dict.fromkeys(line.name for line in LINES.values())) == [
        c.factory for setting in ("bandit", "duels", "episodes") for c in CLAIMS if c.setting == setting
    ]
    assert {"save fixed", "save fresh", "lin_ts fresh", "voful fresh"} <= LINES.keys()
    assert "lin_ts fixed" not in LINES  # it has no program of its own for arms that stay
    assert {"vacdb fixed", "vacdb fresh", "glb_omd fresh", "ucb1 fixed"} <= LINES.keys() and "ucb1 fresh" not in LINES
    assert isinstance(LINES["ada_ecolog fresh"].environment, type(jv.logistic_bandit(2, 3)))
    assert LINES["voful fresh"].algorithm.dim == LINES["var_lin"].algorithm.dim == 2


QUICK = list({line.name: label for label, line in LINES.items() if line.name not in catalogue.NETS}.values())


@pytest.mark.parametrize("label", QUICK)
def test_twins_are_found_and_play(label):
    """A setting that the twin is not given, or not given under its name, is an error of its call."""
    twin, why = catalogue.find_twin(LINES[label])
    assert twin is not None, why
    twin(2)


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.NETS)
def test_twins_on_nets_are_found_and_play(name):
    """As above; a step of theirs takes seconds."""
    twin, why = catalogue.find_twin(next(line for line in LINES.values() if line.name == name))
    assert twin is not None, why
    twin(1)


def test_twins_have_the_settings_of_the_algorithm(monkeypatch):
    """A twin with other settings may be faster or slower for that reason."""
    seen = {}

    def find(label):
        line = LINES[label]
        module = catalogue.importlib.import_module(f"tests.reference.{line.name}_numpy")
        monkeypatch.setattr(module, f"run_{line.name}", spy(getattr(module, f"run_{line.name}")))
        catalogue.find_twin(line)[0](3)
        return line.algorithm

    def spy(run):
        def call(*given, **options):
            seen.update(options, given=given)

        call.__signature__ = catalogue.inspect.signature(run)
        return call

    save = find("save fixed")
    assert seen["horizon"] == 40 and seen["ties"] == save.ties and seen["explore"] == save.explore
    assert seen["constants"]["beta_scale"] == float(save.constants.beta_scale) == 0.1
    arms, means, noise, _ = seen["given"]
    assert arms.shape == (3, 4, 3) and (arms[0] == arms[1]).all() and abs(means).max() <= 1 and abs(noise).max() == 0.5
    net = find("voful2 fresh")
    assert (seen["cells"], seen["num_scales"], seen["every"]) == (net.cells, net.num_scales, net.every)
    assert (seen["given"][0][0] != seen["given"][0][1]).any()
    mdp = find("var_lin2")
    assert (seen["num_groups"], seen["norm_bound"]) == (mdp.num_groups, float(mdp.norm_bound))


def test_a_missing_twin_is_said():
    """Twins are not part of the package."""
    twin, why = catalogue.find_twin(LINES["lin_ts fresh"]._replace(name="absent"))
    assert twin is None and "absent" in why and "root of the project" in why


def test_bench_all_prints_its_lines(monkeypatch, capsys):
    """One algorithm with its twin, one whose twin is not there."""
    find = catalogue.find_twin
    monkeypatch.setattr(catalogue, "find_twin", lambda x: find(x) if x.name == "lin_ts" else (None, "-: it is away"))
    assert catalogue.compare_all(Comparison(**vars(TINY) | {"algorithms": ("ucrl_vtr", "lin_ts")})) == 0
    *_, header, bandit, episodes, note = capsys.readouterr().out.splitlines()
    titles = header.split()
    assert titles[:2] == ["seeds", "K"] and "ratio" in titles
    label, kind, seeds, rounds, *numbers = bandit.split()
    assert (label, kind, seeds, rounds) == ("lin_ts", "fresh", "16", "40")
    speed, each, _, theirs, num, ratio = map(float, numbers)
    assert speed == pytest.approx(1 / each, abs=6e-4, rel=0.01) and 1 <= num <= 5  # three decimals are printed
    assert ratio == pytest.approx(theirs / each, abs=0.06, rel=0.02)  # one decimal
    assert episodes.split()[:3] == ["ucrl_vtr", "16", "20"] and episodes.split()[-3:] == ["-"] * 3
    assert note == "-: it is away"


def test_bench_all_refuses_unknown_names(capsys):
    """A typing error must not look like an empty table."""
    assert catalogue.compare_all(Comparison(algorithms=("greedy",))) == 2
    assert "greedy" in capsys.readouterr().err
