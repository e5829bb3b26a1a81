"""Arms that come and go: every algorithm chooses, eliminates and counts among the arms that are there.

The twins are given decision sets of different sizes and never see an absent arm.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import constants, parameters
from jaxvar.algorithms import thompson
from jaxvar.algorithms.catalogue import CLAIMS
from tests.algorithms import test_twin_interface
from tests.helpers import twins
from tests.helpers.programs import trace
from tests.reference.ave_ucb_numpy import run_ave_ucb
from tests.reference.confidence_ball_numpy import run_confidence_ball
from tests.reference.cw_oful_numpy import run_cw_oful
from tests.reference.fgts_va_numpy import run_fgts_va
from tests.reference.lin_ts_numpy import run_lin_ts
from tests.reference.lin_vdts_numpy import run_lin_vdts
from tests.reference.lofav_numpy import run_lofav
from tests.reference.losan_numpy import run_losan
from tests.reference.oful_numpy import run_oful
from tests.reference.save_numpy import run_save
from tests.reference.sets_numpy import Ragged, among_all
from tests.reference.sup_lin_ucb_numpy import run_sup_lin_ucb
from tests.reference.voful2_numpy import run_voful2
from tests.reference.voful_numpy import run_voful
from tests.reference.weighted_lin_ts_numpy import run_weighted_lin_ts
from tests.reference.weighted_oful_numpy import run_weighted_oful
from tests.reference.weighted_oful_plus_numpy import run_weighted_oful_plus

DIM, NUM_ARMS, NUM_ROUNDS = 2, 4, 30
SEEDS = range(4)
KEY = jax.random.key(3)
PROPOSALS = 16


class Problem(NamedTuple):
    """Arrays over rounds and arms, and which arms are there."""

    arms: Any  # [K, N, d], or [N, d] if fixed
    means: Any  # [K, N]
    noise: Any  # [K, N]
    noise_var: Any  # [K, N]
    available: Any  # [K, N]   bool; None for all arms


def draw(seed: int, fixed: bool = False) -> Problem:
    rng = np.random.default_rng([7, seed])
    arms = rng.normal(size=(NUM_ARMS, DIM) if fixed else (NUM_ROUNDS, NUM_ARMS, DIM))
    arms *= rng.uniform(0.3, 1.0, size=(*arms.shape[:-1], 1)) / np.linalg.norm(arms, axis=-1, keepdims=True)
    std = rng.uniform(0.02, 0.3, size=(NUM_ROUNDS, NUM_ARMS))
    noise = std * rng.choice([-1.0, 1.0], size=std.shape)
    means = np.broadcast_to(arms @ np.array([0.6, 0.8]), std.shape)
    available = rng.random(std.shape) < 0.5
    available[np.arange(NUM_ROUNDS), rng.integers(NUM_ARMS, size=NUM_ROUNDS)] = True
    return Problem(arms, means, noise, std**2, available)


def play(algorithm: Any, problem: Problem, **unchecked: np.ndarray) -> Any:
    """The trace of an algorithm on the given arrays, some of them replaced by what the factory would refuse."""
    *arrays, noise_var, available = problem
    environment = jv.replay_bandit(*arrays, noise_var=noise_var, available=available)
    environment = parameters.replace(environment, **unchecked)
    return jax.tree.map(np.asarray, trace(algorithm, environment, KEY, num_rounds=NUM_ROUNDS))


def drawn(law: str, stream: int, shape: tuple[int, ...]) -> np.ndarray:
    return twins.drawn(KEY, 0, NUM_ROUNDS, law, stream, shape)


class Case(NamedTuple):
    """An algorithm, and its twin as a function of the problem."""

    make: Callable[[], Any]
    twin: Callable[[Problem], Any]


def case(name: str, run: Any, order: str, sizes: dict[str, Any], also: Any = None, **options: Any) -> Case:
    """A factory with ``sizes`` and ``options``; the twin takes the options, the arrays in ``order``, and ``also``."""

    def twin(problem: Problem) -> Any:
        given = {
            **problem._asdict(),
            "uniform": drawn("uniform", 0, ()),
            "normals": drawn("normal", thompson.NORMALS, (DIM,)),
        }
        more = {**options, **(also(given) if also else {})}
        return run(*(given[word] for word in order.split()), **more)

    return Case(lambda: getattr(jv, name)(DIM, **sizes, **options), twin)


PLAIN = "arms means noise uniform"
TOLD = "arms means noise noise_var uniform"
SAMPLED = "arms means noise uniform normals"
K = {"num_rounds": NUM_ROUNDS}
TOLD_BOUNDS = {"noise_bound": 0.5, "delta": 0.05}
RADIUS = jv.constants.practical(0.01)
NUMBERS = {name: float(getattr(RADIUS, name)) for name in constants.number_names()}
LAYERS = {**K, "capacity": 7, "constants": RADIUS}
NET = {"cells": 6, "num_directions": 3, "every": 5, "theta_bound": 1.2, "beta_scale": 0.3}
LEVELS = {"num_rounds": 400.0, "beta_scale": 0.1, "noise_bound": 0.1, "theta_bound": 0.5}


def horizon(given: dict[str, Any]) -> dict[str, Any]:
    return {"horizon": NUM_ROUNDS}


def layered(given: dict[str, Any]) -> dict[str, Any]:
    return {"horizon": NUM_ROUNDS, "constants": NUMBERS}


def netted(given: dict[str, Any]) -> dict[str, Any]:
    return {"horizon": NUM_ROUNDS, "test": "tight"}


def proposals(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "normals": drawn("normal", thompson.NORMALS, (PROPOSALS, DIM)),
        "proposed": drawn("uniform", thompson.PROPOSED, (PROPOSALS,)),
        "accepted": drawn("uniform", thompson.ACCEPTED, (PROPOSALS,)),
        "noise_var": given["noise_var"],
        "horizon": NUM_ROUNDS,
    }


CASES = {
    "confidence_ball": case("confidence_ball", run_confidence_ball, TOLD, {}, beta_scale=0.01),
    "oful": case("oful", run_oful, PLAIN, {}, beta_scale=0.1, ties="random", **TOLD_BOUNDS),
    "cw_oful": case("cw_oful", run_cw_oful, TOLD, {}, threshold=0.2, beta_scale=0.1),
    "weighted_oful": case("weighted_oful", run_weighted_oful, TOLD, {}, beta_scale=0.01),
    "weighted_oful_plus": case("weighted_oful_plus", run_weighted_oful_plus, TOLD, {}, beta_scale=0.003, **K),
    "sup_lin_ucb": case("sup_lin_ucb", run_sup_lin_ucb, TOLD, {"capacity": 6}, **LEVELS),
    "save": case("save", run_save, PLAIN, LAYERS, layered, ties="random", **TOLD_BOUNDS),
    "ave_ucb": case("ave_ucb", run_ave_ucb, PLAIN, LAYERS, layered, ties="random", **TOLD_BOUNDS),
    "lin_vdts": case("lin_vdts", run_lin_vdts, SAMPLED, LAYERS, layered, **TOLD_BOUNDS),
    "losan": case("losan", run_losan, PLAIN, {}, beta_scale=0.3),
    "lofav": case("lofav", run_lofav, PLAIN, K, horizon, beta_scale=0.2),
    "lin_ts": case("lin_ts", run_lin_ts, SAMPLED, {}, scale="bayes", noise_bound=0.3),
    "weighted_lin_ts": case(
        "weighted_lin_ts", run_weighted_lin_ts, SAMPLED, K,
        lambda given: {"noise_var": given["noise_var"], **horizon(given)}, beta_scale=0.01,
    ),
    "fgts_va": case("fgts_va", run_fgts_va, PLAIN, {**K, "num_proposals": PROPOSALS}, proposals, feel_good=0.5),
    "voful": case("voful", run_voful, PLAIN, K, netted, num_scales=3, **NET, **TOLD_BOUNDS, ties="random"),
    "voful2": case("voful2", run_voful2, PLAIN, K, netted, **NET, **TOLD_BOUNDS, ties="random"),
    "save-first": case("save", run_save, PLAIN, LAYERS, layered, explore="first", ties="lowest", **TOLD_BOUNDS),
    "save-random": case("save", run_save, PLAIN, LAYERS, layered, explore="random", ties="lowest", **TOLD_BOUNDS),
    "save-optimistic": case("save", run_save, PLAIN, LAYERS, layered, explore="optimistic", **TOLD_BOUNDS),
    "sup_lin_ucb-first": case("sup_lin_ucb", run_sup_lin_ucb, TOLD, {"capacity": 6}, explore="first", **LEVELS),
    "sup_lin_ucb-random": case("sup_lin_ucb", run_sup_lin_ucb, TOLD, {"capacity": 6}, explore="random", **LEVELS),
}  # fmt: skip
NAMES = [pytest.param(name, marks=pytest.mark.slow if "-" in name else ()) for name in CASES]
FEW = [name if name in ("oful", "save") else pytest.param(name, marks=pytest.mark.slow) for name in CASES]


def test_every_bandit_algorithm_is_compared() -> None:
    """Here, or by the common interface of twins, which plays with masks too."""
    bandits = {claim.factory for claim in CLAIMS if claim.setting == "bandit"}
    assert bandits <= CASES.keys() | test_twin_interface.TWINS.keys()


def assert_follows(name: str, fixed: bool) -> None:
    for seed in SEEDS:
        problem = draw(seed, fixed)
        ours = play(CASES[name].make(), problem)
        assert ours.status == 0
        np.testing.assert_array_equal(ours.available, problem.available)
        whole = problem._replace(arms=ours.arms)
        seen = Problem(*(Ragged(array, problem.available) for array in whole[:4]), None)
        twin = CASES[name].twin(seen)
        np.testing.assert_array_equal(ours.action, among_all(twin.action, problem.available))
        np.testing.assert_allclose(ours.reward, twin.reward, rtol=1e-12)
        for field in {"layer", "weight"} & {*getattr(twin, "_fields", ())}:
            np.testing.assert_allclose(getattr(ours, field), getattr(twin, field), rtol=1e-9)
        best = np.max(np.where(problem.available, ours.mean, -np.inf), axis=1)
        pulled = ours.mean[np.arange(NUM_ROUNDS), ours.action]
        np.testing.assert_allclose(ours.regret, np.cumsum(best - pulled), rtol=1e-9, atol=1e-12)


@pytest.mark.variants(8)
@pytest.mark.parametrize("name", NAMES)
def test_follows_a_twin_that_sees_no_absent_arm(name: str) -> None:
    """An absent arm that is pulled, tied, counted or kept in a maximum changes an arm, a layer or a weight."""
    assert_follows(name, fixed=False)


@pytest.mark.parametrize("name", FEW)
def test_kept_statistics_of_fixed_arms(name: str) -> None:
    """The same where arms never change but come and go: SAVE may then begin a round in any layer."""
    assert_follows(name, fixed=True)


@pytest.mark.variants(6)
@pytest.mark.parametrize("name", NAMES)
def test_what_absent_arms_are_does_not_matter(name: str) -> None:
    """Junk in their place changes no bit of any choice or state: numbers with infinite squares, and NaN."""
    problem, rng = draw(0), np.random.default_rng(1)
    expected = play(CASES[name].make(), problem)
    assert expected.status == 0
    for junk in (1e307 * rng.normal(size=problem.means.shape), np.full(problem.means.shape, np.nan)):
        arms = np.where(problem.available[:, :, None], problem.arms, junk[:, :, None])
        found = play(CASES[name].make(), problem, arms=arms, means=np.where(problem.available, problem.means, junk))
        for field in ("action", "layer", "weight", "reward", "regret", "status"):
            np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))
        jax.tree.map(np.testing.assert_array_equal, found.state, expected.state)


@pytest.mark.parametrize("name", FEW)
def test_absent_arms_can_be_added(name: str) -> None:
    """Two more arms that are never there, anywhere among the others, change nothing but the others' numbers."""
    problem, rng, num = draw(0)._replace(available=None), np.random.default_rng(3), NUM_ARMS + 2
    places = np.sort(np.argsort(rng.random((NUM_ROUNDS, num)), axis=1)[:, :NUM_ARMS], axis=1)

    def added(values: np.ndarray, others: float) -> np.ndarray:
        whole = np.full((NUM_ROUNDS, num, *values.shape[2:]), others, values.dtype)
        whole[np.arange(NUM_ROUNDS)[:, None], places] = values
        return whole

    there = added(np.ones(problem.means.shape, bool), False)
    more = Problem(*(added(values, 3.0) for values in problem[:4]), there)
    one, other = play(CASES[name].make(), problem), play(CASES[name].make(), more)
    np.testing.assert_array_equal(places[np.arange(NUM_ROUNDS), one.action], other.action)
    for field in ("layer", "weight", "reward", "regret", "status"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", [n for n in CASES if "-" not in n and n != "fgts_va"])
def test_order_of_arms_does_not_matter(name: str) -> None:
    """Without ties the same arm is chosen wherever it stands; FGTS-VA alone draws an arm by its number."""
    algorithm, problem = CASES[name].make(), draw(0)
    order = np.argsort(np.random.default_rng(2).random(problem.means.shape), axis=1)
    rows = np.arange(NUM_ROUNDS)[:, None]
    one, other = play(algorithm, problem), play(algorithm, Problem(*(array[rows, order] for array in problem)))
    np.testing.assert_array_equal(one.action, order[np.arange(NUM_ROUNDS), other.action])


@pytest.mark.parametrize("fixed", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FEW)
def test_a_mask_of_all_arms_changes_nothing(name: str, fixed: bool) -> None:
    """The same choices, to the last bit but of SAVE with fixed arms, whose state has another form."""
    problem = draw(0, fixed)
    everything = problem._replace(available=np.ones_like(problem.available))
    without, one = (play(CASES[name].make(), p) for p in (problem._replace(available=None), everything))
    assert without.available is None and one.available.all()
    other_form = fixed and name.startswith("save")
    for field in ("action", "layer", "reward", "regret", "status"):
        np.testing.assert_array_equal(getattr(one, field), getattr(without, field), err_msg=field)
    np.testing.assert_allclose(one.weight, without.weight, rtol=1e-12 if other_form else 0)
    if not other_form:
        jax.tree.map(np.testing.assert_array_equal, one.state, without.state)


def test_uniform_play_draws_among_the_arms_that_are_there() -> None:
    """Each of n arms with probability 1 / n; a fair draw is 5.2 standard errors off with probability 2e-7."""
    there, arms = jnp.array([False, True, False, True, True]), jnp.zeros((5, 2))
    side = jv.Side(jnp.zeros(5), there)
    keys = jax.random.split(KEY, 3000)
    action = jax.vmap(lambda key: jv.uniform().select((), arms, key, side).action)(keys)
    share = np.bincount(action, minlength=5) / 3000
    assert np.all(share[[0, 2]] == 0) and np.all(np.abs(share[[1, 3, 4]] - 1 / 3) < 5.2 * np.sqrt(2 / 9 / 3000))


class Pull(NamedTuple):
    action: jax.Array


@jax.tree_util.register_static
class FirstArm:
    """A user's algorithm that ignores the mask; its form for fixed arms knows nothing of masks either."""

    def init(self) -> tuple[()]:
        return ()

    def select(self, state: Any, arms: jax.Array, key: jax.Array, side: Any) -> Pull:
        return Pull(jnp.int32(0))

    def update(self, state: Any, *observed: Any) -> Any:
        return state

    def with_fixed_arms(self, arms: jax.Array) -> Any:
        raise AssertionError("the decision set changes")


def test_the_choice_of_an_absent_arm_is_reported() -> None:
    """By its round and what to do; nothing is said before it, and of other seeds."""
    problem = draw(0, fixed=True)
    problem.available[:, 0] = np.arange(NUM_ROUNDS) < 7
    environment = jv.replay_bandit(*problem[:3], available=problem.available)
    result = jv.simulate(
        FirstArm(), environment, key=KEY, num_rounds=NUM_ROUNDS, num_seeds=2, record_at=[7, NUM_ROUNDS]
    )
    np.testing.assert_array_equal(result.status, jv.status.ABSENT)
    np.testing.assert_array_equal(result.status_round, 8)
    with pytest.raises(jv.SimulationError, match=r"round 8, .*not available: .*side.available"):
        result.raise_if_failed()
    jv.run(FirstArm(), environment, KEY, num_rounds=7).raise_if_failed()


@pytest.mark.parametrize("fresh", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_blocks_of_seeds_play_with_masks(fresh: bool) -> None:
    """simulate and trace agree on every seed, and each seed has its own mask."""
    algorithm = jv.save(DIM, **LAYERS)
    environment = jv.linear_bandit(DIM, NUM_ARMS, noise=jv.noise.two_point(0.1), available=2, fresh=fresh)
    result = jv.simulate(algorithm, environment, key=KEY, num_rounds=NUM_ROUNDS, num_seeds=3)
    result.raise_if_failed()
    seen = [trace(algorithm, environment, KEY, num_rounds=NUM_ROUNDS, seed=s) for s in range(3)]
    np.testing.assert_allclose(result.regret, [one.regret for one in seen], rtol=1e-9, atol=1e-12)
    masks = np.array([one.available for one in seen])
    assert np.all(masks.sum(2) == 2) and not np.array_equal(masks[0], masks[1])


def test_save_for_a_set_that_never_changes_refuses_a_mask() -> None:
    """Its layers are passed for good, which is wrong where arms come back."""
    arms = jnp.eye(2)
    made = jv.save(2, 30).with_fixed_arms(arms)
    with pytest.raises(ValueError, match=r"side.available must be None.*masked=True"):
        made.select(made.init(), arms, KEY, jv.Side(jnp.zeros(2), jnp.ones(2, bool)))
