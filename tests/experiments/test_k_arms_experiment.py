"""The experiment on two arms: its gaps are those it names, and its numbers are what they are called."""

import math

import numpy as np
import pytest

from experiments.experiment import Options, discovered
from experiments.k_arms.conclude import STUDIES, balance, quantile_interval
from jaxvar.analysis import median_interval

RATIOS = [0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0]


def test_gaps_have_the_ratios_that_are_named():
    """In units of the transition's gap at the rounds of each study."""
    studies = discovered("k_arms").studies()
    assert set(studies) == set(STUDIES)
    for study in studies.values():
        (environment,), (algorithm,) = study.environments, study.algorithms
        gaps = [better - worse for better, worse in environment.sweep["means"]]
        unit = 0.25 * math.sqrt(algorithm.options["rho"] * math.log(study.rounds) / study.rounds)
        np.testing.assert_allclose(unit / np.array(gaps), RATIOS, rtol=1e-7)


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_balance_makes_indices_equal(ratio):
    num_rounds, log_t, std = 50_000, 2 * math.log(50_000), 0.25
    gap = std * math.sqrt(log_t / num_rounds) / ratio
    n = balance(gap, std, log_t, num_rounds)
    assert gap + log_t / n == pytest.approx(std * math.sqrt(log_t / (num_rounds - n)), rel=1e-9)
    assert (n > 0.35 * num_rounds) == (ratio < 1)


def test_quantiles_have_the_interval_of_the_median():
    """At one half; elsewhere the level is met for every distribution, and few seeds say nothing."""
    values = np.random.default_rng(0).normal(size=301)
    ours, known = quantile_interval(values, 0.5), median_interval(values)
    assert (ours.estimate, ours.low, ours.high) == (known.estimate, known.low, known.high)
    drawn = np.random.default_rng(1).uniform(size=(2000, 60))
    found = [quantile_interval(one, 0.3) for one in drawn]
    covered = np.mean([one.low <= 0.3 <= one.high for one in found])
    assert 0.935 < covered < 0.99  # the level is at least 0.95: three standard errors below it
    assert quantile_interval(values[:3], 0.3).low == -np.inf


@pytest.mark.slow
def test_a_short_run(tmp_path):
    """From the studies to tables and figures."""
    options = Options(seeds=8, longer=0.001, out=str(tmp_path), progress=False)
    conclusions, results = discovered("k_arms").run(options)
    assert set(results) == set(conclusions.tables) == set(STUDIES)
    for name, rounds in (("short", 50), ("long", 1000)):
        cells = results[name].cells
        assert len(cells) == len(conclusions.tables[name].rows) == 10 and cells[0].num_rounds == rounds
        for *_, median, lower in conclusions.tables[name].rows:
            assert 1 <= lower.estimate <= median.estimate <= rounds - 1
    assert {path.name for path in tmp_path.glob("*.png")} == {"quantiles.png", "distributions.png"}
