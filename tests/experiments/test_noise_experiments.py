"""The experiments on variance, dimension and no noise: what is concluded from results that were made up."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from experiments import measures, tuning
from experiments.deterministic import conclude as deterministic
from experiments.deterministic.crossing import crossing
from experiments.deterministic.flattening import layer_rounds, median_gap, rounds_until_flat
from experiments.experiment import discovered
from experiments.found import read_found
from experiments.variance import conclude as variance
from experiments.variance import figure as drawings
from jaxvar import constants
from tests.helpers import synthetic_study as made_up


def result_of(study, mean=lambda cell: 1.0, seeds=8):
    """A study that was not played: in each cell regret ``mean`` times the square root of the round, and some spread."""
    spread = np.exp(0.1 * np.random.default_rng(0).normal(size=(seeds, 1)))
    return made_up.unplayed(study, lambda cell: {"regret": mean(cell) * np.sqrt(study.recorded) * spread})


def tuned_best(chosen):
    """Regret that is least at the multipliers ``chosen`` for each algorithm."""

    def mean(cell):
        (value,) = cell.algorithm_settings.values() or (1.0,)
        return 1.0 + abs(math.log(max(value, 1e-5) / chosen.get(cell.algorithm_label, 1.0)))

    return mean


def of_variance(chosen):
    """All results of the experiment, with regret that grows as the standard deviation."""

    def mean(cell):
        return cell.environment_settings.get("noise.std", 1.0)

    studies = discovered("variance").studies()
    return {name: result_of(s, tuned_best(chosen) if name == "tune" else mean) for name, s in studies.items()}


@pytest.fixture(scope="module")
def chosen():
    """The multipliers that the study files have."""
    studies = discovered("variance").studies()
    labels = [tuning.LABEL.fullmatch(a.label) for a in studies["shapes"].algorithms]
    return {label["algorithm"]: float(label["multiplier"]) for label in labels if label}


def test_exponents_are_those_of_the_total_variance(chosen):
    found = variance.conclude(of_variance(chosen)).tables["exponents"]
    for _, _, everything, low, high, growth in found.rows:
        assert [everything.estimate, low.estimate, high.estimate] == pytest.approx([0.5] * 3)
        assert growth.estimate == pytest.approx(1 / 0.003)


def test_another_multiplier_than_the_best_is_refused(chosen):
    with pytest.raises(ValueError, match=r"OFUL \(tuned x0.3\) .* has the multiplier 0.3, but held-out seeds give 0.1"):
        variance.conclude(of_variance({**chosen, "OFUL": 0.1}))


def test_another_size_may_have_another_best_multiplier(chosen):
    results = of_variance({**chosen, "OFUL": 0.1})
    config = results["tune"].config["study"]
    smaller = dataclasses.replace(results["tune"], config={"study": {**config, "seeds": config["seeds"] // 2}})
    assert variance.conclude({**results, "tune": smaller}).tables["tuned"].rows[2][:2] == ("OFUL", "0.1")


def test_a_label_must_say_what_is_used(chosen):
    study = discovered("variance").studies()["shapes"]
    entries = [
        dataclasses.replace(a, options={**a.options, "beta_scale": 0.01}) if a.label == "OFUL (tuned x0.3)" else a
        for a in study.algorithms
    ]
    with pytest.raises(ValueError, match=r"has the multiplier 0.01, but"):
        tuning.check(chosen, [result_of(dataclasses.replace(study, algorithms=entries))])


def test_pictures_of_the_variance_can_be_drawn_again_from_what_was_found():
    found = read_found(Path(variance.__file__).with_name("found.json"))
    drawn = drawings.figures(found.tables, 20_000)
    told = {row[1]: row for row in found.tables["told"].rows}
    (axis,) = drawn["told"].figure.axes
    shown = {line.get_marker(): line.get_ydata() for line in axis.lines if line.get_marker() != "None"}
    np.testing.assert_allclose(shown["o"], [x.estimate for x in told["LOSAN (tuned x0.3)"][2:6]])  # the last with an o
    for drawing in drawn.values():
        assert not drawing.figure.legends and "256 seeds with 95 % t intervals" in drawing.caption
    assert {text.get_text().split("\n")[0] for text in drawn["told"].figure.texts} >= set(told)


@pytest.mark.parametrize("name", ["dimension", "deterministic"])
def test_every_table_and_figure_is_made(name):
    experiment = discovered(name)
    found = experiment.conclude({study: result_of(s) for study, s in experiment.studies().items()})
    assert set(experiment.studies()) <= set(found.tables) and found.figures


def test_growth_in_the_last_decade():
    curves = np.stack([[1.0, 2, 3, 4, 5, 5, 5], [1.0, 2, 3, 4, 5, 6, 7]])
    row = deterministic._growth(made_up.cell(curves), 100)
    assert (row[2].estimate, row[3].estimate, row[4].estimate) == (5, 6, 1)
    assert row[6].estimate == 0.5


def test_curves_meet_where_their_laws_do():
    """``8 k^0.25`` and ``k^0.5`` are equal at 8^4 = 4096."""
    slow, fast = (made_up.cell(made_up.curves(scale=s, power=p)) for s, p in ((8.0, 0.25), (1.0, 0.5)))
    assert crossing(slow, fast).estimate == pytest.approx(4096)
    assert crossing(fast, slow) is None  # it is ahead
    steep = made_up.cell(made_up.curves(scale=8.0, power=0.5))
    assert crossing(steep, fast) is None  # it never will be
    assert crossing(made_up.cell(made_up.curves(scale=8.0, power=0.499)), fast) is None  # not for ages


def test_flattening_follows_from_the_radius():
    gap = median_gap(2, 20, draws=500)
    layers = [
        rounds_until_flat(c, 2, gap)[0] for c in (constants.paper(), constants.practical(), constants.practical(0.003))
    ]
    assert layers == sorted(layers, reverse=True) and layers[0] == 9  # where the empirical variance begins to count
    assert rounds_until_flat(constants.practical(), 2, gap)[1] == round(
        sum(layer_rounds(2, j) for j in range(1, layers[1] + 1))
    )
    assert rounds_until_flat(constants.practical(), 2, gap / 16)[0] > layers[1]


def test_layers_fill_in_about_that_many_rounds():
    """Pull the widest of many unit arms until none is wider than 2^-l, with SAVE's weights."""
    arms = np.random.default_rng(1).normal(size=(50, 3))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    for layer in (1, 2, 3):
        sigma, pulls = 4.0**-layer * np.eye(3), 0
        while (widths := np.sqrt(np.einsum("ai,ij,aj->a", arms, np.linalg.inv(sigma), arms))).max() > 2.0**-layer:
            x = arms[widths.argmax()] * 2.0**-layer / widths.max()
            sigma, pulls = sigma + np.outer(x, x), pulls + 1
        assert 0.7 * layer_rounds(3, layer) < pulls < 1.3 * layer_rounds(3, layer)


def test_exponents_over_a_part():
    study = made_up.whole_study(levels=(0.1, 1.0, 10.0))
    assert len(measures.restricted(study, "noise.std", 0.5, 20).cells) == 4
    assert measures.exponents(study, "noise.std", 0.5, 20, power=0.5)["sphere", "SAVE"].estimate == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"noise\.std must have a value"):
        measures.restricted(study, "noise.std", 2, 3)


def test_ratio_of_means():
    mine, other = (made_up.cell(made_up.curves(scale=s)) for s in (3.0, 1.5))
    assert measures.ratio(mine, other).estimate == pytest.approx(2.0)
    assert measures.ratio(mine, other).high - 2.0 < 1e-9  # the same seeds: what they have in common cancels
    with pytest.raises(ValueError, match="positive mean regret"):
        measures.ratio(mine, made_up.cell(np.zeros((40, 7))))
