"""LOSAN, LOFAV and the Thompson samplers against their NumPy twins, round by round, on the same arrays and normals."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import parameters
from jaxvar.algorithms import thompson
from tests.helpers.programs import trace
from tests.helpers.twins import draw_arms, drawn, in_common
from tests.reference.fgts_va_numpy import propose, run_fgts_va
from tests.reference.lin_ts_numpy import run_lin_ts
from tests.reference.lin_vdts_numpy import run_lin_vdts
from tests.reference.lofav_numpy import run_lofav
from tests.reference.losan_numpy import run_losan
from tests.reference.root_numpy import grown_root, initial_root
from tests.reference.weighted_lin_ts_numpy import run_weighted_lin_ts

NUM_ROUNDS = 300
SEED = 5
CAPACITY = 6


class Case(NamedTuple):
    """An algorithm with its options, and the problem it plays."""

    algorithm: str
    options: dict[str, Any]
    dim: int
    num_arms: int
    fixed: bool = True
    norms: tuple[float, float] = (1.0, 1.0)
    zero: bool = False  # the last arm is the zero vector
    noise: tuple[float, float] = (0.1, 0.1)  # the least and the largest standard deviation, drawn by round and arm
    noise_bound: float = 1.0
    num_rounds: int = NUM_ROUNDS


class Problem(NamedTuple):
    arms: np.ndarray  # [N, d], or [K, N, d]
    means: np.ndarray  # [K, N]
    noise: np.ndarray  # [K, N]
    noise_var: np.ndarray  # [K, N]
    theta_star: np.ndarray


def draw(case: Case, seed: int) -> Problem:
    rng = np.random.default_rng([2, seed])
    theta, arms = draw_arms(rng, case.dim, case.num_arms, case.norms, None if case.fixed else case.num_rounds)
    if case.zero:
        arms[..., -1, :] = 0.0
    std = rng.uniform(*case.noise, size=(case.num_rounds, case.num_arms))
    noise = std * rng.choice([-1.0, 1.0], size=std.shape)
    return Problem(arms, np.broadcast_to(arms @ theta, std.shape), noise, std**2, theta)


def numbers(constants: Any) -> dict[str, float]:
    return {name: float(getattr(constants, name)) for name in jv.constants.number_names()}


def play(case: Case, seed: int) -> tuple[Any, Any]:
    """The library's trace and the twin's run of the same case."""
    problem, options, num = draw(case, seed), dict(case.options), case.num_rounds
    environment = jv.replay_bandit(
        problem.arms, problem.means, problem.noise, noise_var=problem.noise_var, theta_star=problem.theta_star
    )
    key = jax.random.key(seed)
    everything = np.broadcast_to(problem.arms, (num, case.num_arms, case.dim))
    given = (everything, problem.means, problem.noise, drawn(key, SEED, num))
    normals = drawn(key, SEED, num, "normal", thompson.NORMALS, (case.dim,))
    told = {"noise_bound": case.noise_bound, "delta": 0.05}
    if case.algorithm == "losan":
        algorithm = jv.losan(case.dim, **told, **options)
        twin = run_losan(*given, **told, **options)
    elif case.algorithm == "lofav":
        algorithm = jv.lofav(case.dim, num, **told, **options)
        twin = run_lofav(*given, horizon=num, **told, **options)
    elif case.algorithm == "lin_ts":
        algorithm = jv.lin_ts(case.dim, num, **told, **options)
        twin = run_lin_ts(*given, normals, horizon=num, **told, **options)
    elif case.algorithm == "weighted_lin_ts":
        algorithm = jv.weighted_lin_ts(case.dim, num, **told, **options)
        twin = run_weighted_lin_ts(*given, normals, noise_var=problem.noise_var, horizon=num, **told, **options)
    elif case.algorithm == "lin_vdts":
        algorithm = jv.lin_vdts(case.dim, num, capacity=CAPACITY, **told, **options)
        plain = options | {"constants": numbers(options["constants"])}
        twin = run_lin_vdts(*given, normals, horizon=num, **told, **plain)
    else:
        algorithm = jv.fgts_va(case.dim, num, **options)
        proposals = options.pop("num_proposals", None) or 8 * case.num_arms
        twin = run_fgts_va(
            *given,
            normals=drawn(key, SEED, num, "normal", thompson.NORMALS, (proposals, case.dim)),
            proposed=drawn(key, SEED, num, "uniform", thompson.PROPOSED, (proposals,)),
            accepted=drawn(key, SEED, num, "uniform", thompson.ACCEPTED, (proposals,)),
            noise_var=problem.noise_var,
            horizon=num,
            **({"feel_good": case.dim**-0.5} | options),
        )
    ours = trace(algorithm, environment, key, num_rounds=num, seed=SEED)
    return (algorithm, jax.tree.map(np.asarray, ours)), twin


def close(ours: Any, twin: Any, common: int) -> None:
    np.testing.assert_allclose(ours[:common], twin[:common], rtol=1e-9, atol=1e-11)


def close_by_growth(ours: Any, twin: np.ndarray, matrix: np.ndarray, lam: Any, common: int) -> None:
    """Relative to the round's largest entry, up to 50 roundings times the growth of ``matrix [K, d, d]`` from lam I.

    Ours begins at I / lam and subtracts until the inverse is left: what it rounds at first stays.
    """
    ours, twin = np.asarray(ours)[:common], twin[:common]
    growth = np.linalg.eigvalsh(matrix[:common])[:, -1] / float(lam)
    axes = tuple(range(1, twin.ndim))
    error = np.max(np.abs(ours - twin), axis=axes)
    allowed = 50 * np.finfo(float).eps * growth * np.maximum(np.max(np.abs(twin), axis=axes), 1e-3)
    assert np.all(error <= allowed), f"off by up to {np.max(error / allowed):.1f} of what is allowed"


def assert_regression(regression: Any, theta: np.ndarray, matrix: np.ndarray, lam: Any, common: int) -> None:
    close_by_growth(regression.theta_hat, theta, matrix, lam, common)
    close_by_growth(regression.sigma_inv, np.linalg.inv(matrix), matrix, lam, common)


def assert_posterior(algorithm: Any, state: Any, twin: Any, common: int) -> None:
    assert_regression(state.regression, twin.theta, twin.V, algorithm.lam, common)


def assert_losan(algorithm: Any, ours: Any, twin: Any, common: int) -> None:
    assert_regression(ours.state.regression, twin.theta, twin.Sigma, algorithm.lam, common)
    close(ours.state.tally.total, twin.error_sum, common)
    beta = jax.vmap(lambda state: algorithm.confidence(state).beta_hat[0])(ours.state)
    close(beta, twin.beta, common)


def assert_lofav(algorithm: Any, ours: Any, twin: Any, common: int) -> None:
    close(ours.state.plain.theta_hat, twin.theta, common)
    close(ours.state.paired.theta_hat, twin.thbar, common)
    close(ours.state.beta_hat, twin.beta, common)
    close(ours.state.beta_max, twin.beta_max, common)
    literal = parameters.replace(algorithm, beta_scale=np.asarray(1.0))
    beta, gamma = jax.vmap(lambda state: literal.radii(state))(ours.state)
    close(beta**2 / 2, twin.beta, common)
    close(gamma**2 / 2, twin.gamma, common)


def assert_spread(algorithm: Any, ours: Any, twin: Any, common: int) -> None:
    """The state after round k gives the spread of round k + 1, the first state that of round 1."""
    spread = jax.vmap(algorithm.spread)(ours.state)
    close(np.asarray(spread)[:-1], twin.spread[1:], common - 1)
    close(np.asarray(algorithm.spread(algorithm.init()))[None], twin.spread, 1)


def assert_lin_vdts(ours: Any, twin: Any, common: int) -> None:
    np.testing.assert_array_equal(ours.layer[:common], twin.layer[:common])
    learned = np.flatnonzero(twin.layer[:common])
    layer = twin.layer[learned] - 1
    np.testing.assert_allclose(ours.state.beta_hat[learned, layer], twin.beta_after[learned], rtol=1e-8)
    theta = ours.state.layers.theta_hat[learned, layer]
    np.testing.assert_allclose(theta, twin.theta_after[learned], rtol=1e-8, atol=1e-10)


def check(case: Case, seed: int) -> int:
    (algorithm, ours), twin = play(case, seed)
    common = in_common(ours, twin, ("action",))
    assert ours.status == 0
    np.testing.assert_array_equal(ours.reward[:common], twin.reward[:common])
    if case.algorithm == "lofav":
        assert_lofav(algorithm, ours, twin, common)
        return common
    np.testing.assert_allclose(ours.weight[:common], twin.weight[:common], rtol=1e-9)
    if case.algorithm == "losan":
        assert_losan(algorithm, ours, twin, common)
    elif case.algorithm == "lin_vdts":
        assert_lin_vdts(ours, twin, common)
    else:
        assert_posterior(algorithm, ours.state, twin, common)
    if case.algorithm == "fgts_va":
        np.testing.assert_array_equal(ours.state.num_refused[:common], np.cumsum(twin.refused)[:common])
    elif case.algorithm in ("lin_ts", "weighted_lin_ts"):
        assert_spread(algorithm, ours, twin, common)
    return common


SHORT = {"norms": (0.05, 1.0)}
NOISY = {"noise": (0.01, 0.5)}
SMALL = jv.constants.practical(0.01)
ADAPTIVE = dataclasses.replace(jv.constants.paper(1e-3), switch=np.asarray(0.0))
CASES = {
    "losan-fixed": Case("losan", {}, 3, 8, noise_bound=0.5, **NOISY),
    "losan-fresh": Case(
        "losan", {"theta_bound": 2.0, "beta_scale": 0.3, "ties": "lowest"}, 2, 6, fixed=False, zero=True, **SHORT
    ),
    "lofav-fixed": Case("lofav", {}, 2, 6, **NOISY),
    "lofav-fresh": Case(
        "lofav", {"theta_bound": 1.5, "beta_scale": 0.2}, 3, 5, fixed=False, noise_bound=0.7, zero=True, **SHORT
    ),
    "lin_ts-abeille_lazaric": Case("lin_ts", {"scale": "abeille_lazaric", "beta_scale": 0.1}, 3, 8, noise_bound=0.5),
    "lin_ts-agrawal_goyal": Case(
        "lin_ts", {"scale": "agrawal_goyal", "lam": 0.3}, 2, 6, fixed=False, zero=True, **SHORT
    ),
    "lin_ts-bayes": Case("lin_ts", {"scale": "bayes", "ties": "lowest", "lam": 2.0}, 4, 8, fixed=False, **NOISY),
    "weighted_lin_ts-fixed": Case("weighted_lin_ts", {"beta_scale": 0.01}, 3, 7, **NOISY),
    "weighted_lin_ts-fresh": Case(
        "weighted_lin_ts", {"theta_bound": 2.0, "norm_bound": 0.9, "variance_bound": 0.25}, 2, 5, fixed=False, **SHORT
    ),
    "lin_vdts-fixed": Case("lin_vdts", {"constants": SMALL}, 2, 8, **NOISY),
    "lin_vdts-fresh": Case(
        "lin_vdts", {"constants": ADAPTIVE, "ties": "lowest"}, 3, 6, fixed=False, noise_bound=0.6, zero=True, **SHORT
    ),
    "fgts_va-fixed": Case("fgts_va", {}, 3, 4, **NOISY),
    "fgts_va-fresh": Case(
        "fgts_va", {"feel_good": 1.0, "num_proposals": 3, "variance_scale": 2.0}, 2, 5, fixed=False, zero=True, **NOISY
    ),
}  # fmt: skip


QUICK = (
    "losan-fixed",
    "lofav-fresh",
    "lin_ts-abeille_lazaric",
    "weighted_lin_ts-fixed",
    "lin_vdts-fresh",
    "fgts_va-fresh",
)


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_follows_its_twin(name: str) -> None:
    """A wrong sign, factor, index, stream of random numbers or tie rule changes an arm, a weight or a radius."""
    assert check(CASES[name], seed=list(CASES).index(name)) > NUM_ROUNDS // 2


def test_feel_good_draws_are_the_twins() -> None:
    """The parameter itself, which the arms chosen show only coarsely: 100 draws from one state, some refused."""
    rng, num, proposals, tilt = np.random.default_rng(4), 100, 2, 0.8
    xs, ys, arms = rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=(5, 2))
    known, root = jv.ridge.init_ridge(2, 0.7, jnp.float64), initial_root(2, 0.7)
    for x, y in zip(xs, ys, strict=True):
        known, _ = jv.ridge.regress(known, jnp.asarray(x), jnp.asarray(y))
        root = grown_root(root, x, 1.0)
    matrix = 0.7 * np.eye(2) + xs.T @ xs
    centre = np.linalg.solve(matrix, xs.T @ ys)
    key = jax.random.key(3)
    z = drawn(key, SEED, num, "normal", thompson.NORMALS, (proposals, 2))
    u = drawn(key, SEED, num, "uniform", thompson.PROPOSED, (proposals,))
    v = drawn(key, SEED, num, "uniform", thompson.ACCEPTED, (proposals,))
    branch = jax.random.fold_in(jax.random.fold_in(key, SEED), jv.game.STREAMS.index("algorithm"))
    words = jax.vmap(lambda k: jv.random.key_words(jax.random.fold_in(branch, k)))(jnp.arange(1, num + 1))
    draw_one = jax.vmap(lambda w: thompson.draw_feel_good(known, jnp.asarray(tilt), jnp.asarray(arms), w, proposals))
    theta, refused = jax.jit(draw_one)(words)
    for i in range(num):
        all_of_them = [propose(centre, root, tilt, arms, u[i, j], z[i, j], v[i, j]) for j in range(proposals)]
        ratios = np.array([ratio for _, ratio, _ in all_of_them])
        taken = int(np.argmax(ratios < 1)) if np.any(ratios < 1) else int(np.argmin(ratios))
        np.testing.assert_allclose(theta[i], all_of_them[taken][0], rtol=1e-9, atol=1e-11)
        assert bool(refused[i]) == bool(np.all(ratios >= 1))
    assert 0 < np.sum(refused) < num


@pytest.mark.slow
def test_the_cases_reach_what_they_are_for() -> None:
    """Arms are dropped and layers passed, and proposals are refused: else the comparison above would not see them."""
    case, seed = CASES["lin_vdts-fixed"], list(CASES).index("lin_vdts-fixed")
    _, twin = play(case, seed)
    assert twin.layer.max() >= 3 and np.mean(twin.num_active < case.num_arms) > 0.1
    _, refusing = play(CASES["fgts_va-fresh"], list(CASES).index("fgts_va-fresh"))
    assert 0.01 < refusing.refused.mean() < 0.9 and refusing.taken.max() == 2


def random_case(seed: int) -> Case:
    rng = np.random.default_rng([3, seed])
    algorithm = ("losan", "lofav", "lin_ts", "weighted_lin_ts", "lin_vdts", "fgts_va")[seed % 6]
    scale = float(rng.choice([0.01, 0.3, 1.0]))
    chosen: dict[str, Any] = {"ties": str(rng.choice(["lowest", "random"]))}
    if algorithm == "lin_vdts":
        chosen["constants"] = (SMALL, ADAPTIVE, jv.constants.paper(), jv.constants.tight(0.01))[rng.integers(4)]
    elif algorithm == "fgts_va":
        chosen |= {"feel_good": scale, "lam": float(rng.uniform(0.1, 3.0))}
    else:
        chosen |= {"beta_scale": scale, "theta_bound": float(rng.uniform(0.8, 3.0))}
    if algorithm == "lin_ts":
        chosen |= {"scale": str(rng.choice(thompson.SCALES)), "lam": float(rng.uniform(0.1, 3.0))}
    if algorithm in ("weighted_lin_ts", "fgts_va") and rng.integers(2):
        chosen["variance_scale"] = float(rng.uniform(0.5, 4.0))
    return Case(
        algorithm,
        chosen,
        dim=int(rng.integers(1, 7)),
        num_arms=int(rng.integers(1, 12)),
        fixed=bool(rng.integers(2)),
        norms=((1.0, 1.0), (0.05, 1.0), (0.3, 0.3))[rng.integers(3)],
        zero=bool(rng.integers(4) == 0),
        noise=((0.0, 0.0), (0.1, 0.1), (0.01, 1.0))[rng.integers(3)],
        noise_bound=float(rng.choice([0.1, 1.0, 2.0])),
        num_rounds=500,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(36))
def test_follows_its_twin_on_random_problems(seed: int) -> None:
    """As above, for options and problems nobody picked."""
    check(random_case(seed), seed)
