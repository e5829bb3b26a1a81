"""Every algorithm against its NumPy twin, round by round, on the same arrays."""

import dataclasses
import re
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import ridge
from tests.helpers.programs import trace
from tests.helpers.twins import draw_arms, drawn, in_common
from tests.reference.ave_ucb_numpy import run_ave_ucb
from tests.reference.oful_numpy import run_oful
from tests.reference.save_numpy import run_save

CAPACITY = 8
NUM_ROUNDS = 3000


class Case(NamedTuple):
    """An algorithm with its options, and the problem it plays."""

    algorithm: str
    options: dict[str, Any]
    dim: int
    num_arms: int
    fixed: bool = True
    norms: tuple[float, float] = (1.0, 1.0)
    zero: bool = False  # the last arm is the zero vector
    below_zero: bool = False  # no arm has a positive mean
    noise: str = "two_point"
    noise_size: float = 0.1
    noise_bound: float = 1.0
    deepest: int = 1  # a layer that must be reached
    eliminates: bool = False  # a tenth of the rounds must be played with fewer than all arms
    num_rounds: int = NUM_ROUNDS


class Problem(NamedTuple):
    arms: np.ndarray  # [N, d], or [K, N, d]
    means: np.ndarray  # [K, N]
    noise: np.ndarray  # [K, N]
    theta_star: np.ndarray


def draw(case: Case, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    theta, arms = draw_arms(rng, case.dim, case.num_arms, case.norms, None if case.fixed else case.num_rounds)
    if case.below_zero:
        arms *= -np.sign(arms @ theta)[..., None]
    if case.zero:
        arms[..., -1, :] = 0.0
    shape = (case.num_rounds, case.num_arms)
    draws = {
        "two_point": lambda: rng.choice([-1.0, 1.0], size=shape),
        "uniform": lambda: rng.uniform(-1.0, 1.0, size=shape),
        "none": lambda: np.zeros(shape),
    }[case.noise]()
    means = np.broadcast_to(arms @ theta, shape)
    return Problem(arms, means, case.noise_size * draws, theta)


def play(case: Case, seed: int) -> tuple[Any, Any]:
    """The library's trace and the twin's run of the same case."""
    problem, options = draw(case, seed), dict(case.options)
    environment = jv.replay_bandit(problem.arms, problem.means, problem.noise, theta_star=problem.theta_star)
    key = jax.random.key(seed)
    everything = np.broadcast_to(problem.arms, (case.num_rounds, case.num_arms, case.dim))
    given = (everything, problem.means, problem.noise, drawn(key, 5, case.num_rounds))
    if case.algorithm == "oful":
        algorithm = jv.oful(case.dim, noise_bound=case.noise_bound, delta=0.01, **options)
        twin = run_oful(*given, noise_bound=case.noise_bound, delta=0.01, **options)
    else:
        factory, run_twin = {"save": (jv.save, run_save), "ave_ucb": (jv.ave_ucb, run_ave_ucb)}[case.algorithm]
        constants = options.pop("constants")
        algorithm = factory(
            case.dim,
            case.num_rounds,
            noise_bound=case.noise_bound,
            delta=0.01,
            constants=constants,
            capacity=CAPACITY,
            **options,
        )
        numbers = {name: float(getattr(constants, name)) for name in jv.constants.number_names()}
        numbers["is_sharp"] = float(constants.form == "sharp")
        twin = run_twin(
            *given,
            horizon=case.num_rounds,
            noise_bound=case.noise_bound,
            delta=0.01,
            constants=numbers,
            **options,
        )
    return trace(algorithm, environment, key, num_rounds=case.num_rounds, seed=5), twin


def assert_layers(case: Case, ours: Any, twin: Any) -> None:
    """The estimates of SAVE and AVE-UCB after the last round."""
    last = jax.tree.map(lambda v: np.asarray(v[-1]), ours.state)
    np.testing.assert_allclose(last.beta_hat, twin.beta[:CAPACITY], rtol=1e-8)
    if case.algorithm == "save" and case.fixed:
        current = int(last.number) - 1
        assert last.layer.count == twin.count[current]
        np.testing.assert_allclose(last.layer.theta_hat, twin.theta[current], rtol=1e-8, atol=1e-10)
        return
    np.testing.assert_array_equal(last.layers.count, twin.count[:CAPACITY])
    np.testing.assert_allclose(last.layers.theta_hat, twin.theta[:CAPACITY], rtol=1e-8, atol=1e-10)
    # The sum is what remains of q |theta|^2 <= q where there is no noise: hence the absolute part.
    emp = np.asarray(ridge.empirical_variance(last.layers))
    np.testing.assert_allclose(emp, twin.emp[:CAPACITY], rtol=1e-8, atol=1e-13)


def assert_oful(ours: Any, twin: Any) -> None:
    last = jax.tree.map(lambda v: np.asarray(v[-1]), ours.state.regression)
    np.testing.assert_allclose(last.theta_hat, twin.theta[0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(last.sigma_inv, np.linalg.inv(twin.Sigma[0]), rtol=1e-8, atol=1e-11)


def check(case: Case, seed: int) -> int:
    ours, twin = play(case, seed)
    ours = jax.tree.map(np.asarray, ours)
    common = in_common(ours, twin, ("action", "layer"))
    np.testing.assert_array_equal(ours.reward[:common], twin.reward[:common])
    np.testing.assert_allclose(ours.weight[:common], twin.weight[:common], rtol=1e-9)
    if case.algorithm != "oful":
        learned = np.flatnonzero(twin.layer[:common])
        beta = ours.state.beta_hat[learned, twin.layer[learned] - 1]
        np.testing.assert_allclose(beta, twin.beta_after[learned], rtol=1e-8)
    if common == case.num_rounds:
        assert ours.status == 0
        if case.algorithm == "oful":
            assert_oful(ours, twin)
        else:
            assert_layers(case, ours, twin)
    assert twin.layer.max() >= case.deepest
    if case.eliminates:
        assert np.mean(twin.num_active < case.num_arms) > 0.1
    return common


def adaptive(beta_scale: float, switch: float) -> Any:
    """The paper's radius with the empirical variance already in low layers, and small enough to drop arms."""
    return dataclasses.replace(jv.constants.paper(beta_scale), switch=np.asarray(switch))


PAPER, FIXED, TIGHT = jv.constants.paper(), jv.constants.paper_fixed(), jv.constants.tight()
PRACTICAL, SMALL = jv.constants.practical(), jv.constants.practical(0.01)
SHARP = jv.constants.sharp()


def options(constants: Any, ties: str = "random", **others: Any) -> dict[str, Any]:
    return {"constants": constants, "ties": ties, **others}


SHORT = {"norms": (0.05, 1.0)}
CASES = {
    "save-widest-fixed": Case(
        "save", options(SMALL, explore="widest"), 3, 12, deepest=4, eliminates=True, noise="uniform"
    ),
    "save-widest-fresh": Case(
        "save", options(adaptive(1e-3, 0.0), explore="widest"), 2, 30, fixed=False, deepest=4, eliminates=True
    ),
    "save-first-fixed": Case(
        "save", options(adaptive(1e-3, 2.0), "lowest", explore="first"), 4, 9, deepest=3, eliminates=True, **SHORT
    ),
    "save-first-fresh": Case(
        "save", options(PRACTICAL, explore="first"), 1, 5, fixed=False, deepest=4, eliminates=True, zero=True, **SHORT
    ),
    "save-random-fixed": Case(
        "save", options(SMALL, explore="random"), 5, 30, deepest=3, eliminates=True, noise_size=0.5, noise_bound=0.5
    ),
    "save-random-fresh": Case(
        "save", options(PAPER, "lowest", explore="random"), 8, 20, fixed=False, deepest=2, noise_size=1.0
    ),
    "save-optimistic-fixed": Case(
        "save", options(adaptive(1e-3, 0.0), "lowest", explore="optimistic"), 2, 7, deepest=3, eliminates=True,
        noise="none", zero=True, below_zero=True,
    ),
    "save-optimistic-fresh": Case(
        "save", options(TIGHT, explore="optimistic"), 3, 10, fixed=False, deepest=3, eliminates=False,
        noise="uniform", noise_size=1.0, **SHORT,
    ),
    "save-one-arm": Case("save", options(FIXED, "lowest", explore="widest"), 1, 1, deepest=4),
    "ave_ucb-fixed": Case("ave_ucb", options(SMALL, cap=1.0), 3, 12, noise="uniform", deepest=2),
    "ave_ucb-fresh": Case("ave_ucb", options(PRACTICAL, "lowest"), 4, 15, fixed=False, deepest=2, **SHORT),
    "ave_ucb-paper": Case("ave_ucb", options(PAPER), 2, 10, deepest=3, noise_size=1.0),
    "ave_ucb-capped": Case(
        "ave_ucb", options(adaptive(1e-3, 0.0), "lowest", cap=1.0), 8, 30, fixed=False, deepest=2, noise="none"
    ),
    "ave_ucb-below_zero": Case(
        "ave_ucb", options(SMALL, "lowest"), 2, 6, zero=True, below_zero=True, noise="none", deepest=1
    ),
    "oful-determinant": Case("oful", {"ties": "random"}, 5, 20, noise_size=1.0),
    "oful-data_free": Case(
        "oful", {"radius": "data_free", "lam": 0.3, "ties": "lowest"}, 3, 10, fixed=False, noise="uniform", **SHORT
    ),
    "oful-scaled": Case("oful", {"beta_scale": 0.05, "lam": 2.0, "theta_bound": 1.5, "ties": "lowest"}, 8, 30),
    "oful-greedy": Case("oful", {"fixed_radius": 0.0, "ties": "random"}, 2, 8, fixed=False, zero=True, noise="none"),
    "save-sharp-fixed": Case(
        "save", options(SHARP), 2, 8, deepest=3, eliminates=True, noise_size=0.05, noise_bound=0.2
    ),
    "save-sharp-fresh": Case(
        "save", options(SHARP), 2, 20, fixed=False, deepest=3, eliminates=True, noise_size=0.02, noise_bound=0.1
    ),
    "ave_ucb-sharp": Case("ave_ucb", options(SHARP), 2, 12, noise="uniform", deepest=4, noise_size=0.05),
    "ave_ucb-sharp-fresh": Case(
        "ave_ucb", options(SHARP, "lowest"), 3, 10, fixed=False, deepest=3, noise_size=2.0, noise_bound=2.0, **SHORT
    ),
    "ave_ucb-intersect": Case("ave_ucb", options(SHARP, intersect=True), 2, 12, deepest=4, noise_size=0.01),
    "ave_ucb-intersect-fresh": Case(
        "ave_ucb", options(SHARP, "lowest", intersect=True, cap=1.0), 3, 10, fixed=False, deepest=3, noise_bound=0.3,
        noise="uniform", **SHORT,
    ),
}  # fmt: skip


SLOW = re.compile("save-(first|random)-.*|ave_ucb-(capped|below_zero|intersect-fresh)|save-sharp-fresh")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if SLOW.fullmatch(n) else n for n in CASES])
def test_follows_its_twin(name: str) -> None:
    """A wrong sign, factor, index or tie rule anywhere changes an arm, a layer, a weight or a radius in some round."""
    assert check(CASES[name], seed=list(CASES).index(name)) > NUM_ROUNDS // 2


def random_case(seed: int) -> Case:
    rng = np.random.default_rng([1, seed])
    algorithm = ("save", "ave_ucb", "oful")[seed % 3] if seed % 2 else "save"
    ties = str(rng.choice(["lowest", "random"]))
    if algorithm == "oful":
        radius, lam = str(rng.choice(["determinant", "data_free"])), float(rng.uniform(0.1, 3))
        chosen = {"ties": ties, "radius": radius, "lam": lam, "beta_scale": float(rng.choice([0.01, 0.3, 1.0]))}
    else:
        small = (adaptive(1e-3, 0.0), adaptive(1e-2, 2.0), adaptive(1e-4, 0.0))
        sets = (PAPER, FIXED, TIGHT, PRACTICAL, SMALL, SHARP, *small)
        chosen = options(sets[rng.integers(len(sets))], ties)
        if algorithm == "save":
            chosen["explore"] = str(rng.choice(["widest", "first", "random", "optimistic"]))
        else:
            chosen["cap"] = (None, 1.0)[rng.integers(2)]
            chosen["intersect"] = bool(seed % 4 == 1)
    bound = float(rng.choice([0.1, 1.0, 2.0]))
    return Case(
        algorithm,
        chosen,
        dim=int(rng.integers(1, 9)),
        num_arms=int(rng.integers(1, 31)),
        fixed=bool(rng.integers(2)),
        norms=((1.0, 1.0), (0.05, 1.0), (0.3, 0.3))[rng.integers(3)],
        zero=bool(rng.integers(4) == 0),
        below_zero=bool(rng.integers(4) == 0),
        noise=str(rng.choice(["two_point", "uniform", "none"])),
        noise_size=float(rng.choice([0.01, 0.1, 1.0])) * bound,
        noise_bound=bound,
        num_rounds=5000,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_follows_its_twin_on_random_problems(seed: int) -> None:
    """As above, for options and problems nobody picked."""
    check(random_case(seed), seed)
