"""The comparison of float32 with float64: what is compared, and how it is summed up."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxvar as jv
from experiments.speed import precision as module
from experiments.speed.precision import Precision
from experiments.speed.shared_history import shared_history

pytestmark = pytest.mark.slow  # programs that measure; nothing else depends on them

KEY = jax.random.key(3)


def bandit(name):
    environment = jv.linear_bandit(2, 4, noise=jv.noise.two_point(0.1), fresh=True)
    if name == "oful":
        return jv.oful(2), environment, {"num_rounds": 150}
    return jv.save(2, 150, constants=jv.constants.practical(), capacity=3), environment, {"num_rounds": 150}


def episodes():
    environment = jv.mixture_mdp(3, 2, 2, 4, concentration=0.3)
    constants = jv.constants.practical()
    algorithm = jv.ucrl_ave(2, 4, 20, norm_bound=environment.norm_bound, constants=constants, capacity=3)
    return algorithm, environment, {"num_episodes": 20}


@pytest.mark.parametrize("name", ["oful", "save", pytest.param("ucrl_ave", marks=pytest.mark.slow)])
def test_float64_plays_as_if_alone(name):
    # The shadow watches: regret is that of the plain run, and only the shadow has rounding errors of float32.
    algorithm, environment, length = episodes() if name == "ucrl_ave" else bandit(name)
    common = {"key": KEY, "num_seeds": 8, "chunk": 8, "record_at": 1, **length}
    alone = jv.simulate(algorithm, environment, **common)
    record = (jv.record.regret(), module.FinalStates())
    pair = jv.simulate(shared_history(algorithm), environment, recorders=record, **common)
    pair.raise_if_failed()
    np.testing.assert_allclose(pair.regret, alone.regret, rtol=1e-12)
    width, estimate = module.errors(pair.states[:, -1], 2)
    assert 1e-9 < width < 1e-4 and 1e-9 < estimate < 1e-3  # some rounding, but no more than a few hundred steps of it


def test_the_shadow_is_in_float32():
    # Not float64 by way of a promotion: then there would be nothing to compare.
    pair = shared_history(bandit("save")[0])
    state = jax.eval_shape(pair.init)
    assert {x.dtype for x in jax.tree.leaves(state.single) if x.dtype.kind == "f"} == {np.dtype(np.float32)}
    assert {x.dtype for x in jax.tree.leaves(state.double) if x.dtype.kind == "f"} == {np.dtype(np.float64)}
    assert float(pair.single.tie_tolerance) == pytest.approx(1e-5) and float(pair.double.tie_tolerance) == 1e-9
    assert pair.grow().capacity == 7 and jax.tree.leaves(pair.grow().single)[0].dtype == jnp.float32


def test_errors_by_hand():
    # Two seeds, two layers, the second of which nobody used; the root is wrong along one axis only.
    root = np.array([[2.0, 0.0], [0.0, 8.0]])
    wrong = root * np.array([[1.0, 1.0], [1.0, 1.1]])
    rows = []
    for scale, count in ((1.0, 5.0), (0.5, 7.0)):
        estimate = scale * np.array([3.0, 4.0])
        off = estimate + np.array([0.0, 0.1])
        double = [*root.ravel(), *np.eye(2).ravel(), *estimate, 0.0, 0.0, count, 0.0]
        single = [*wrong.ravel(), *(9 * np.eye(2)).ravel(), *off, 0.0, 0.0, count, 0.0]
        rows.append([*double, *single, 4.0])
    assert module.errors(np.array(rows), 2) == pytest.approx((0.1, 0.1 / 8))


def test_a_row_by_hand(capsys):
    # Three seeds of four rounds; in one of them float32 lost the confidence event in one of two layers.
    whole = np.ones((3, 2), bool)
    spoilt = whole & ~np.array([[False, False], [False, True], [False, False]])
    fine, lost = np.zeros(3, np.int32), np.array([0, 0, 0, jv.status.PRECISION])
    double = {"regret": np.array([1.0, 2.0, 3.0]), "confidence": whole, "rounds": np.array(4), "status": fine}
    single = {"regret": np.array([1.5, 2.0, 3.25], np.float32), "confidence": spoilt, "status": fine}
    state = np.ones((3, 2 * (1 + 1 + 1) + 1))
    state[:, -1] = 2.0
    shared = {"states": state, "dim": np.array(1), "status": fine}
    played = {"float64": double, "float32": single, "shared": shared}
    row = module._row("deep", "save", played)
    more = {m: {k: np.append(v, v[:1], 0) if np.ndim(v) else v for k, v in r.items()} for m, r in played.items()}
    more["float32"] |= {"status": lost, "regret": np.array([1.5, 2.0, 3.25, np.nan])}
    assert module._row("deep", "save", more) == dataclasses.replace(row, lost=1)  # such a seed is left out
    gap = np.array([0.5, 0.0, 0.25])
    assert row.rounds == 4 and row.difference == pytest.approx(0.25)
    assert row.half_width == pytest.approx(scipy.stats.sem(gap) * scipy.stats.t.ppf(0.975, 2))
    assert row.held == (1.0, pytest.approx(2 / 3)) and row.differ == 0.5 and (row.width, row.estimate) == (0, 0)
    module.show([row])
    expected = "| deep | save | 4 | 0 | 2 | +0.25 ± 0.62 | 100.0% | 66.7% | 5.0e-01 | 0.0e+00 | 0.0e+00 |"
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [{"algorithms": ("ucb",)}, {"settings": ("loud",)}, {"constants": ("mine",)}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be among"):
        module.precision(Precision(**wrong))


@pytest.mark.slow
def test_the_whole_comparison():
    # Three interpreters: float32 and float64 meet the same problem, so that most seeds decide alike for a while.
    options = Precision(seeds=16, rounds=100, algorithms=("oful", "save"), settings=("ordinary",))
    rows = module.precision(options)
    assert [r.algorithm for r in rows] == ["oful", "save practical", "save sharp"]
    for row in rows:
        assert row.rounds == 100 and row.regret > 0 and row.held == (1.0, 1.0)
        assert row.differ < 0.2 and abs(row.difference) < 0.1 * row.regret and 0 < row.width < 1e-4
