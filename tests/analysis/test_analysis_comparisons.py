"""Paired differences, slopes, layers, coverage and speed, on results with known answers."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from jaxvar.analysis import (
    against_reference,
    coverage,
    occupancy,
    paired,
    slope_in_rounds,
    slopes_in,
    speed,
    swept,
)
from jaxvar.analysis.paired import standings
from tests.helpers.synthetic_study import ROUNDS, cell, confident, curves, layered, study, whole_study


def test_pairing_takes_out_what_seeds_have_in_common():
    rng = np.random.default_rng(0)
    shared, own = 100 * rng.normal(size=(50, 7)), rng.normal(size=(50, 7))
    reference, other = cell(500 + shared, algorithm="OFUL"), cell(497 + shared + own)
    found = paired(other, reference)
    expected = stats.ttest_rel(other.regret[:, -1], reference.regret[:, -1]).confidence_interval(0.95)
    np.testing.assert_allclose([found.difference.low, found.difference.high], [expected.low, expected.high])
    assert found.difference.high < 0 and found.bootstrap.high < 0
    assert found.wins.estimate == np.mean(own[:, -1] < 3) and found.ties == 0 and found.seeds == 50


def test_pairing_is_by_the_seeds_numbers():
    values = curves(seeds=6)
    order = np.array([5, 3, 1, 0, 2, 4])
    shuffled = cell(values[order] - 1, seeds=order)
    status = np.array([0, 0, 0, 0, 1, 0])
    reference = cell(np.vstack([values, values[:2]]), seeds=np.arange(8), status=np.append(status, [0, 0]))
    found = paired(shuffled, reference)
    np.testing.assert_allclose(found.difference.estimate, -1)
    np.testing.assert_allclose(found.difference.half, 0, atol=1e-12)
    assert (found.seeds, found.unmatched, found.left_out) == (5, 2, 1)
    assert found.wins.estimate == 1 and found.wins.low == pytest.approx(0.025 ** (1 / 5))
    same = paired(cell(values), cell(values))
    assert same.ties == 6 and same.wins.estimate == 0


def test_what_cannot_be_paired_is_refused():
    values = curves(seeds=6)
    with pytest.raises(ValueError, match="same environment with the same setting"):
        paired(cell(values), cell(values, environment_settings={"dim": 3}))
    with pytest.raises(ValueError, match="same last round, got 1000 and 300"):
        paired(cell(values), cell(values[:, :-1], rounds=ROUNDS[:-1]))
    with pytest.raises(ValueError, match="at least 2 common seeds that did not fail, got 1"):
        paired(cell(values), cell(values, seeds=np.arange(5, 11)))


def test_every_cell_meets_the_reference_in_its_own_problem():
    result = whole_study(algorithms=("A", "B", "C"))
    found = against_reference(result)
    assert [p.cell.algorithm for p in found] == ["A", "B"] * 3
    assert all(p.reference.environment_settings == p.cell.environment_settings for p in found)
    assert [p.cell.algorithm for p in against_reference(result, "A")] == ["B", "C"] * 3
    with pytest.raises(ValueError, match="reference must be one of 'A', 'B', 'C', got 'D'"):
        against_reference(result, "D")
    with pytest.raises(ValueError, match="the study has none"):
        against_reference(study(result.cells))


def test_a_swept_reference_is_met_in_the_same_setting():
    cells = [
        cell(curves(), algorithm=name, algorithm_settings={"delta": d}) for name in ("A", "B") for d in (0.01, 0.1)
    ]
    found = against_reference(study(cells, reference="B"))
    assert [p.reference.algorithm_settings["delta"] for p in found] == [0.01, 0.1]
    with pytest.raises(
        ValueError, match="needs one cell of the reference 'B' in the same environment and setting, got 0"
    ):
        against_reference(study([cell(curves(), algorithm="A"), *cells[2:]], reference="B"))


def powers(dims, power=1.5, **fields):
    """Final regret ``dim^power`` times the seeds' factors, the same in all cells."""
    return [cell(curves(seed=3, scale=d**power), environment_settings={"dim": d}, **fields) for d in dims]


def test_standings_are_by_paired_intervals_with_bonferroni():
    """Recomputed with SciPy; the level depends on how many are compared."""
    rng = np.random.default_rng(3)
    shared = rng.normal(10, 3, size=(30, 1))
    cells = [
        cell(shared + shift + 0.5 * rng.normal(size=(30, 1)), algorithm=f"a{i}")
        for i, shift in enumerate([0.0, 0.1, 0.32, 0.4, 0.55, 2.0])
    ]
    final = np.concatenate([c.regret for c in cells], axis=1)
    best = final.mean(0).argmin()
    gap = np.delete(final - final[:, [best]], best, axis=1)
    low = gap.mean(0) - stats.t.ppf(1 - 0.025 / 5, 29) * stats.sem(gap)
    expected = ["worse" if v > 0 else "not separable" for v in low]
    expected.insert(best, "best")
    found = standings(cells)
    assert list(found) == expected and set(expected) == {"best", "worse", "not separable"}
    uncorrected = gap.mean(0) - stats.t.ppf(0.975, 29) * stats.sem(gap)
    assert np.sum(uncorrected > 0) > np.sum(low > 0)  # the correction matters here
    assert standings(cells[:1]) == ("best",)
    twin = dataclasses.replace(cells[0], algorithm="twin")
    assert standings([cells[0], twin]) == ("best", "not separable")
    apart = dataclasses.replace(cells[5], seeds=np.arange(100, 130))
    assert standings([cells[0], apart]) == ("best", "not comparable")


def test_the_truly_best_is_rarely_called_worse():
    """Among equals, in at most 5 % of studies."""
    rng = np.random.default_rng(0)
    studies = [
        standings([cell(rng.normal(5, 1, size=(8, 1)), algorithm=f"a{i}") for i in range(4)]) for _ in range(400)
    ]
    assert np.mean([words[0] == "worse" for words in studies]) <= 0.05


def test_slope_is_exact_where_seeds_are_shared():
    # The seeds' factors cancel between cells, since resamples take the same seeds in each of them.
    (found,) = slopes_in(study(powers((2, 4, 8))), "dim")
    assert found.slope.estimate == pytest.approx(1.5) and found.slope.high - found.slope.low < 1e-9
    assert found.resampled == "jointly" and found.excluded == ()
    np.testing.assert_allclose(found.line(found.x), found.mean)
    (apart,) = slopes_in(
        study([dataclasses.replace(c, seeds=c.seeds + 100 * i) for i, c in enumerate(powers((2, 8)))]), "dim"
    )
    assert apart.resampled == "cell by cell" and 0.05 < apart.slope.high - apart.slope.low < 0.5


def test_slopes_are_grouped_by_all_other_settings():
    cells = [
        cell(curves(scale=d), algorithm=name, algorithm_settings={"delta": q}, environment_settings={"dim": d, "m": m})
        for m in (1, 2)
        for d in (2, 4)
        for name in ("A", "B")
        for q in (0.1, 0.2)
    ]
    found = slopes_in(study(cells), "dim")
    assert len(found) == 8 and len({(s.algorithm, s.environment) for s in found}) == 8
    assert found[0].algorithm == "A, delta = 0.1" and found[0].environment == "sphere, m = 1"
    assert swept(study(cells)) == ("dim", "m", "delta")
    with pytest.raises(ValueError, match=r"parameter must be a swept one \(dim, m, delta\), got 'd'"):
        slopes_in(study(cells), "d")


def test_points_without_a_logarithm_are_named():
    zero = cell(np.zeros((40, 7)), environment_settings={"dim": 16})
    rare = curves()
    rare[1:] = 0  # the mean is positive, but a third of all resamples has no positive seed
    rarely = cell(rare, environment_settings={"dim": 32})
    (found,) = slopes_in(study([*powers((0, 2, 4, 8)), zero, rarely]), "dim")
    assert found.slope.estimate == pytest.approx(1.5) and list(found.used) == [False, True, True, True, False, False]
    assert found.excluded == (
        "dim = 0: dim is not positive",
        "dim = 16: the mean regret is not positive",
        "dim = 32: the mean regret of some resamples is not positive",
    )
    (none,) = slopes_in(study([*powers((2,)), zero]), "dim")
    assert none.slope is None and none.excluded[-1] == "a slope needs two different values of dim, got 1"
    with pytest.raises(ValueError, match="there is no line"):
        none.line(np.ones(1))


def test_slope_in_rounds_starts_after_the_burn_in():
    regret = curves(power=0.5)
    regret[:, :3] = regret[:, [3]]  # level up to round 10
    regret[:, 0] = 0
    late = slope_in_rounds(cell(regret), burn_in=30)
    assert late.slope.estimate == pytest.approx(0.5) and list(late.x) == [30, 100, 300, 1000]
    whole = slope_in_rounds(cell(regret))
    assert whole.slope.estimate < 0.45 and whole.excluded == ("round = 1: the mean regret is not positive",)
    with pytest.raises(ValueError, match="burn_in must be an integer of at least 1 and at most 1000, got 2000"):
        slope_in_rounds(cell(regret), burn_in=2000)


def test_slope_intervals_cover():
    """Three cells with seeds of their own, 60 each, 150 data sets. Percentile intervals cover here with 94.6 %; a count
    at or below the 1e-6 quantile of Binomial(150, 0.92) is a false alarm at most once in 10^6."""
    covered = 0
    for i in range(150):
        cells = [
            cell(
                curves(seed=1000 * i + d, seeds=60, scale=d)[:, -1:],
                environment_settings={"dim": d},
                seeds=np.arange(60) + 100 * d,
            )
            for d in (2, 4, 8)
        ]
        (found,) = slopes_in(study(cells), "dim", resamples=400, seed=i)
        covered += int(found.slope.low <= 1 <= found.slope.high)
    assert covered > stats.binom.ppf(1e-6, 150, 0.92)
    assert covered < 150  # and is not simply everything: 0.97^150 is 1 %, 0.94^150 is 1e-4


def test_occupancy_cuts_off_layers_that_nobody_reached():
    found = occupancy(cell(curves(), records={"layer_rounds": layered(3)}))
    assert found.deepest == 3 and found.share.shape == (7, 4)
    np.testing.assert_allclose(found.share.sum(1), 1)
    np.testing.assert_allclose(found.final.estimate, [0.1, 0.2, 0.3, 0.4])
    with pytest.raises(ValueError, match="layer_rounds must be counts"):
        occupancy(cell(curves(), records={"layer_rounds": np.zeros((40, 7, 2))}))


def test_coverage_is_of_all_layers_to_the_end():
    status = np.zeros(40, np.int32)
    status[0] = 1
    found = coverage(cell(curves(), records={"confidence": confident(3)}, status=status))
    assert (found.held, found.seeds, found.left_out) == (37, 39, 1)
    np.testing.assert_allclose(found.by_layer, [1, 1, 37 / 39])
    expected = stats.binomtest(37, 39).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose([found.share.low, found.share.high], [expected.low, expected.high])
    with pytest.raises(ValueError, match="confidence must be true or false"):
        coverage(cell(curves(), records={"confidence": np.full((40, 7, 2), 0.5)}))


def test_speed_counts_all_seeds():
    found = speed(cell(curves(seeds=40), status=np.ones(40)))
    assert found.seed_rounds_per_second == 40 * 1000 / 2.0
    assert speed(cell(curves(), seconds=0.0)).seed_rounds_per_second is None
    with pytest.raises(ValueError, match="SAVE in sphere: seconds must be a finite number"):
        speed(cell(curves(), seconds=float("nan")))
