"""Intervals and bands: against textbook values, against SciPy, and by how often they cover."""

import numpy as np
import pytest
from scipy import stats

from jaxvar.analysis import (
    band,
    bootstrap_interval,
    interval,
    mean_interval,
    median_interval,
    proportion,
    proportion_interval,
    sample,
)
from jaxvar.analysis import intervals as intervals_module
from tests.helpers.synthetic_study import cell, curves


def test_mean_interval_is_students():
    values = np.random.default_rng(0).normal(size=(7, 3))
    found = mean_interval(values, 0.9)
    expected = stats.t.interval(0.9, 6, values.mean(0), stats.sem(values, axis=0))
    np.testing.assert_allclose([found.low, found.high], expected, rtol=1e-12)
    np.testing.assert_allclose(found.half, interval(values, 0.9)[1], rtol=1e-12)
    assert (found.kind, found.of, found.seeds) == ("t", "mean", 7) and found.describe() == "90 % t interval of the mean"


def test_proportion_is_scipys_exact_one():
    for count, total in ((0, 5), (5, 5), (3, 10), (255, 256)):
        expected = stats.binomtest(count, total).proportion_ci(0.9, method="exact")
        np.testing.assert_allclose(proportion(count, total, 0.9), (expected.low, expected.high), rtol=1e-10, atol=1e-15)
    assert proportion_interval(3, 10, "share").estimate == 0.3
    with pytest.raises(ValueError, match="count must be an integer of at least 0 and at most 10, got 11"):
        proportion(11, 10)


def test_median_interval_is_the_narrowest_exact_one():
    # n = 10: [x_2, x_9] covers with 1 - 2 * 11 / 1024 = 97.9 %, [x_3, x_8] with 89.1 % only.
    values = np.random.default_rng(0).permutation(np.arange(1.0, 11.0))
    found = median_interval(values)
    assert (found.estimate, found.low, found.high) == (5.5, 2.0, 9.0)
    assert (median_interval(values, 0.89).low, median_interval(values, 0.89).high) == (3.0, 8.0)
    few = median_interval(values[:5])  # 5 seeds: even the range covers with 93.75 % only
    assert (few.low, few.high) == (-np.inf, np.inf)


@pytest.mark.parametrize("statistic", [np.mean, np.median])
@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_bootstrap_agrees_with_scipy(statistic, method):
    """Two Monte Carlo quantiles of 20,000 resamples differ by well under a tenth of the interval's width."""
    values = np.random.default_rng(1).exponential(size=31)
    found = bootstrap_interval(values, statistic, method=method, resamples=20_000)
    theirs = stats.bootstrap((values,), statistic, n_resamples=20_000, method=method, rng=np.random.default_rng(2))
    expected = theirs.confidence_interval
    tolerance = 0.05 * (expected.high - expected.low)
    np.testing.assert_allclose([found.low, found.high], [expected.low, expected.high], atol=tolerance)


def test_bootstrap_is_the_same_in_any_blocks(monkeypatch):
    values = np.random.default_rng(0).normal(size=(13, 4))
    whole = [bootstrap_interval(values, s, resamples=101, seed=3) for s in (np.mean, np.median)]
    monkeypatch.setattr(intervals_module, "_MOST_ENTRIES", 13 * 4 * 7)
    parts = [bootstrap_interval(values, s, resamples=101, seed=3) for s in (np.mean, np.median)]
    other = bootstrap_interval(values, resamples=101, seed=4)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose([a.low, a.high], [b.low, b.high], rtol=1e-12)
    assert not np.allclose(whole[0].low, other.low)


def test_bootstrap_of_a_constant_is_the_constant():
    found = bootstrap_interval(np.full((5, 2), 3.0), resamples=50)
    assert np.array_equal(found.low, [3, 3]) and np.array_equal(found.high, [3, 3])


def test_bca_covers_a_skewed_mean():
    """Exponential, 40 seeds, 400 data sets as columns. BCa covers here with 93.1 %; a count of covered sets at or below
    the 1e-6 quantile of Binomial(400, 0.92), or above that of 0.97, is a false alarm at most twice in 10^6."""
    values = np.random.default_rng(5).exponential(size=(40, 400))
    found = bootstrap_interval(values, resamples=1000)
    covered = int(np.sum((found.low <= 1) & (found.high >= 1)))
    assert stats.binom.ppf(1e-6, 400, 0.92) < covered <= stats.binom.ppf(1 - 1e-6, 400, 0.97)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, float("nan")])
def test_a_wrong_level_is_refused(level):
    for function in (mean_interval, median_interval, bootstrap_interval):
        with pytest.raises(ValueError, match=r"level must be a finite number in \(0, 1\)"):
            function(np.arange(4.0), level=level)
    with pytest.raises(ValueError, match="at least 2 seeds, got 1"):
        mean_interval(np.ones(1))


def test_band_with_one_record_is_students_interval():
    """The critical value is a quantile of 40,000 draws: its relative standard error is 0.14 %, and 1 % are seven."""
    one = cell(np.random.default_rng(0).normal(size=(12, 1)))
    many = band(one, resamples=40_000)
    t = stats.t.ppf(0.975, 11)
    assert t <= many.critical < 1.01 * t
    assert band(one, kind="pointwise").critical == pytest.approx(t)


def test_simultaneous_band_is_wider_where_records_differ():
    rng = np.random.default_rng(0)
    independent = cell(rng.normal(size=(60, 7)))
    together = cell(rng.normal(size=(60, 1)) * np.arange(1.0, 8.0))
    bonferroni = stats.t.ppf(1 - 0.025 / 7, 59)
    assert 1.3 * stats.t.ppf(0.975, 59) < band(independent).critical < 1.05 * bonferroni
    assert band(together).critical < 1.05 * stats.t.ppf(0.975, 59)  # curves that rise together need no more than one
    assert band(independent).describe() == "simultaneous 95 % band (bootstrap sup-t, 2,000 resamples)"
    assert band(independent, kind="pointwise").describe() == "pointwise 95 % band (t)"


def test_simultaneous_band_covers_the_whole_curve():
    """Random walks of 7 steps, 25 seeds, 200 data sets, covered with 95.0 %; a count at or below the 1e-6 quantile of
    Binomial(200, 0.93) is a false alarm at most once in 10^6. The pointwise band does not cover as often."""
    rng = np.random.default_rng(11)
    covered = {"simultaneous": 0, "pointwise": 0}
    for _ in range(200):
        walks = cell(np.cumsum(rng.normal(size=(25, 7)), axis=1))
        for kind in covered:
            found = band(walks, kind=kind, resamples=400)
            covered[kind] += int(np.all((found.low <= 0) & (found.high >= 0)))
    assert covered["simultaneous"] > stats.binom.ppf(1e-6, 200, 0.93)
    assert covered["pointwise"] < covered["simultaneous"] - 10


def test_constant_records_have_a_band_without_width():
    values = np.column_stack([np.zeros(10), np.full(10, 0.1), np.random.default_rng(0).normal(size=10)])
    found = band(cell(values))
    assert np.all(found.high[:2] - found.low[:2] < 1e-15) and found.high[2] > found.low[2]
    assert np.isfinite(found.critical)


def test_failed_seeds_are_left_out_and_counted():
    regret = curves(seeds=10)
    regret[3] = np.nan
    status = np.zeros(10, np.int32)
    status[3] = 2
    found = band(cell(regret, status=status))
    assert (found.seeds, found.left_out) == (9, 1)
    np.testing.assert_allclose(found.mean, np.delete(regret, 3, axis=0).mean(0))


def test_what_is_no_number_is_refused_by_name():
    regret = curves(seeds=4)
    regret[2, 5] = np.nan
    with pytest.raises(
        ValueError, match=r"SAVE in sphere, dim = 4: 'regret' must be finite, got nan in seed 2 at round 300"
    ):
        sample(cell(regret, environment_settings={"dim": 4}))
    with pytest.raises(ValueError, match="'variance' was not recorded; the records are: regret"):
        sample(cell(curves()), "variance")
    with pytest.raises(ValueError, match=r"'layers' must have one number per seed and round, got .* \[4, 7, 2\]"):
        band(cell(curves(seeds=4), records={"layers": np.zeros((4, 7, 2))}), "layers")
    with pytest.raises(ValueError, match="at least 2 seeds without failure, got 1 of 4"):
        sample(cell(curves(seeds=4), status=np.array([0, 1, 1, 1])))
    with pytest.raises(ValueError, match=r"4 seeds and 7 records.*got \[3, 7\]"):
        sample(cell(curves(seeds=4), records={"other": np.zeros((3, 7))}), "other")
