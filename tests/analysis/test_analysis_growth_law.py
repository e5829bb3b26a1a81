"""Growth laws: recovered exponents, the optimiser against SciPy's, coverage, and what cannot be fitted."""

import numpy as np
import pytest
from scipy import optimize, stats

from jaxvar.analysis import Law, Term, fit_growth_law
from jaxvar.analysis.growth import Standard, check_points, observe
from jaxvar.analysis.growth_solver import solve
from tests.helpers.synthetic_study import ROUNDS, cell

ONE = Law((Term({"dim": None, "round": None}),))
TWO = Law((Term({"dim": None, "round": None, "variance": None}), Term({"dim": None})))


def grid(truth, seeds=30, spread=0.2, key=0, levels=(0.1, 0.3, 1.0), dims=(2, 4, 8)):
    """Cells over dimensions and noise levels whose mean regret is ``truth(dim, rounds, variance)``."""
    rng = np.random.default_rng(key)
    cells = []
    for dim in dims:
        for level in levels:
            variance = np.broadcast_to(level**2 * ROUNDS, (seeds, len(ROUNDS)))
            factor = np.exp(spread * rng.normal(size=(seeds, 1)) - spread**2 / 2)
            settings = {"dim": dim, "noise.std": level}
            regret = truth(dim, ROUNDS, variance) * factor
            cells.append(cell(regret, environment_settings=settings, records={"variance": variance}))
    return cells


def two_terms(dim, rounds, variance):
    return 2.0 * dim * rounds**0.4 * variance**0.2 + 3.0 * dim**1.5


@pytest.mark.parametrize("scale", ["log", "relative"])
def test_exponents_without_noise_are_exact(scale):
    found = fit_growth_law(TWO, grid(two_terms, spread=0.0), burn_in=1, scale=scale, resamples=4)
    np.testing.assert_allclose(found.estimate, [2.0, 1.0, 0.4, 0.2, 3.0, 1.5], rtol=1e-4)
    assert (
        found.spread < 1e-5
        and found.failed == 0
        and found.points[0] == "SAVE in sphere, dim = 2, noise.std = 0.1, round 1"
    )
    np.testing.assert_allclose(
        found.predict({"dim": 5, "round": ROUNDS, "variance": 2.0}), two_terms(5, ROUNDS, 2.0), rtol=1e-4
    )
    assert found.describe().startswith("regret = 2 dim^1 round^0.4 variance^0.2 + 3 dim^1.5 (")


def test_the_optimiser_agrees_with_scipys():
    """Both laws, both scales, real residuals: the same least squares to 1e-6 in the loss and 1e-4 in the parameters."""
    cells = grid(two_terms, spread=0.5)
    for law in (ONE, TWO):
        seen = observe(law, cells, "regret", 1, 2, 0)
        check_points(law, seen, "regret")
        problem = Standard.of(law, seen).problem(seen).rows(slice(0, 1))
        for scale in ("log", "relative"):
            ours = solve(problem, scale)

            def gaps(values, problem=problem, scale=scale):
                parts = problem.design[0] @ values + problem.offset[0]
                gap = np.logaddexp.reduce(parts, axis=0) - problem.target[0]
                return gap if scale == "log" else np.expm1(gap)

            theirs = optimize.least_squares(gaps, ours.values[0] + 0.3, xtol=1e-14, ftol=1e-14, gtol=1e-12)
            assert ours.converged[0]
            assert ours.loss[0] == pytest.approx(np.mean(theirs.fun**2), rel=1e-6)
            np.testing.assert_allclose(ours.values[0], theirs.x, atol=1e-4)


def test_one_term_is_linear_least_squares():
    cells = grid(lambda d, k, v: d * k**0.5, spread=0.3)
    found = fit_growth_law(ONE, cells, burn_in=1, resamples=4)
    logs = np.log([c.regret.mean(0) for c in cells])
    rows = [[1, np.log(c.environment_settings["dim"]), np.log(k)] for c in cells for k in ROUNDS]
    expected, *_ = np.linalg.lstsq(np.array(rows), logs.ravel(), rcond=None)
    np.testing.assert_allclose(found.estimate, [np.exp(expected[0]), *expected[1:]], rtol=1e-6)
    fixed = fit_growth_law(Law((Term({"dim": None, "round": 0.5}),)), cells, burn_in=1, resamples=4)
    assert fixed.law.parameters == ("coefficient", "exponent of dim") and len(fixed.estimate) == 2


def test_float64_whatever_the_session_has():
    import jax

    cells = grid(lambda d, k, v: d * k**0.5, spread=0.3)
    wide = fit_growth_law(ONE, cells, burn_in=1, resamples=4)
    with jax.enable_x64(False):
        narrow = fit_growth_law(ONE, cells, burn_in=1, resamples=4)
    assert narrow.estimate.dtype == np.float64
    np.testing.assert_allclose(narrow.estimate, wide.estimate, rtol=1e-12)


def test_terms_vanish_where_a_factor_is_zero():
    cells = grid(two_terms, spread=0.0, levels=(0.0, 0.3, 1.0))
    found = fit_growth_law(TWO, cells, burn_in=1, resamples=4)
    np.testing.assert_allclose(found.estimate, [2.0, 1.0, 0.4, 0.2, 3.0, 1.5], rtol=1e-4)
    alone = Law((Term({"dim": None, "variance": None}),))
    with pytest.raises(ValueError, match=r"noise\.std = 0, round 1: every term of the law is 0"):
        fit_growth_law(alone, cells, burn_in=1, resamples=4)
    with pytest.raises(ValueError, match="'variance' is 0 in some points, so that its exponent must be positive"):
        fit_growth_law(Law((Term({"variance": -1.0}), Term({}))), cells, burn_in=1, resamples=4)


def test_what_cannot_be_identified_is_refused():
    cells = grid(two_terms)
    same_dim = [c for c in cells if c.environment_settings["dim"] == 4]
    with pytest.raises(ValueError, match="'dim' is 4 in all points, so that its exponent in term 1 cannot be fitted"):
        fit_growth_law(ONE, same_dim, burn_in=1, resamples=4)
    with pytest.raises(ValueError, match="'round' is 1000 in all points"):
        fit_growth_law(ONE, cells, resamples=4)
    quiet = [c for c in cells if c.environment_settings["noise.std"] == 0.1]  # the variance is the round times 0.01
    with pytest.raises(ValueError, match=r"cannot tell apart: .*exponent of round.*exponent of variance"):
        fit_growth_law(Law((Term({"round": None, "variance": None}),)), quiet, burn_in=1, resamples=4)
    with pytest.raises(ValueError, match="3 parameters need at least as many points, got 2"):
        fit_growth_law(Law((Term({"dim": None, "noise.std": None}),)), [cells[0], cells[4]], resamples=4)
    with pytest.raises(ValueError, match="terms must differ"):
        Law((Term({"dim": None}), Term({"dim": None})))


def test_wrong_input_is_named():
    cells = grid(two_terms)
    with pytest.raises(ValueError, match=r"factor 'arms' must be 'round', a record \(regret, variance\) or a swept"):
        fit_growth_law(Law((Term({"arms": None}),)), cells)
    nothing = cell(
        np.zeros((30, 7)), environment_settings={"dim": 3, "noise.std": 0.1}, records={"variance": np.ones((30, 7))}
    )
    with pytest.raises(ValueError, match=r"dim = 3, noise\.std = 0\.1, round 1: the mean of 'regret' must be positive"):
        fit_growth_law(ONE, [*cells, nothing], burn_in=1)
    with pytest.raises(ValueError, match="burn_in must be at most 1000, got 2000"):
        fit_growth_law(ONE, cells, burn_in=2000)
    with pytest.raises(ValueError, match="cells must not be empty"):
        fit_growth_law(ONE, [])


@pytest.mark.slow
def test_intervals_cover():
    """Two terms, 9 cells of 40 seeds each with factors of their own, 60 data sets. Percentile intervals cover with some
    90 to 95 %; a count at or below the 1e-6 quantile of Binomial(60, 0.88) is a false alarm at most once in 10^6 for
    each of the six parameters."""
    truth = np.array([2.0, 1.0, 0.4, 0.2, 3.0, 1.5])
    covered = np.zeros(6, int)
    for key in range(60):
        cells = grid(two_terms, seeds=40, spread=0.3, key=key)
        apart = [
            cell(
                c.regret,
                environment_settings=c.environment_settings,
                records={"variance": c.records["variance"]},
                seeds=np.arange(40) + 100 * i,
            )
            for i, c in enumerate(cells)
        ]
        found = fit_growth_law(TWO, apart, burn_in=1, resamples=192, seed=key)
        covered += (found.low <= truth) & (truth <= found.high)
    assert np.all(covered > stats.binom.ppf(1e-6, 60, 0.88)), covered
    assert np.sum(covered) < 6 * 60  # nor are they simply wide
