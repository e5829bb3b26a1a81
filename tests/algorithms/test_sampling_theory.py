"""What the theory says about LOSAN, LOFAV and the Thompson samplers, and what must not change their choices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxvar as jv
from jaxvar import parameters, random, ridge
from jaxvar.algorithms import thompson
from jaxvar.parameters import pytree
from tests.helpers.problems import replay, two_point, unit_arms
from tests.helpers.programs import trace
from tests.reference.lofav_numpy import run_lofav

KEY = jax.random.key(0)
# Every statistical test below compares one statistic, or as many as its docstring says, with this probability.
FALSE_ALARM = 1e-6


def test_losan_regret_equality() -> None:
    """The identity on which LOSAN's set rests, in every round; fails if a weight, an error or D^2 is wrong."""
    num_rounds, dim = 200, 3
    arms, theta = unit_arms(0, num_rounds, 5, dim), 0.9 * unit_arms(1, dim)
    noise = two_point(2, num_rounds, 0.3)
    algorithm = jv.losan(dim, noise_bound=0.5, theta_bound=1.2)
    out = jax.tree.map(np.asarray, trace(algorithm, replay(arms, theta, noise), KEY, num_rounds=num_rounds))
    x = arms[np.arange(num_rounds), out.action]
    before = np.concatenate([np.zeros((1, dim)), out.state.regression.theta_hat[:-1]])
    error = out.reward - np.sum(x * before, axis=1)
    width2 = np.einsum("kd,kde,ke->k", x, out.state.regression.sigma_inv, x)  # after learning
    squared = out.weight**2
    left = 0.5 * np.cumsum(squared * error**2 * (1 - squared * width2))
    gap = theta - out.state.regression.theta_hat
    left += 0.5 * np.einsum("kd,kde,ke->k", gap, np.linalg.inv(out.state.regression.sigma_inv), gap)
    right = float(algorithm.lam) * theta @ theta / 2 + 0.5 * np.cumsum(squared * noise**2)
    np.testing.assert_allclose(left, right, rtol=1e-11)
    np.testing.assert_allclose(
        out.state.tally.total, 0.5 * np.cumsum(squared * error**2 * squared * width2), rtol=1e-11
    )
    assert squared.min() < 0.9  # and not because every weight is 1


def test_lofav_batch_formulas() -> None:
    """min K and min L as kept by rank-one updates, against direct sums over all observations."""
    num_rounds, dim = 200, 2
    arms, theta = unit_arms(3, num_rounds, 4, dim), unit_arms(4, dim)
    noise = two_point(5, num_rounds, 0.2)
    out = trace(jv.lofav(dim, num_rounds, ties="lowest"), replay(arms, theta, noise), KEY, num_rounds=num_rounds)
    twin = run_lofav(arms, arms @ theta, noise, np.full(num_rounds, 0.5), horizon=num_rounds, ties="lowest")
    np.testing.assert_array_equal(out.action, twin.action)
    state = out.state
    np.testing.assert_allclose(state.error_sum.total - state.shrunk_sum.total, twin.least_k, rtol=1e-12)
    np.testing.assert_allclose((state.paired.loss + state.error_sum.total) / 2, twin.least_l, rtol=1e-12)
    assert np.all(twin.least_l >= twin.least_k)
    # The radius of a round must not depend on itself: the maximum that it uses is that of the rounds before.
    assert np.any(np.diff(np.asarray(state.beta_hat), axis=0) > 0)


@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(jv.losan(3), id="losan"), pytest.param(jv.lofav(3, 400), id="lofav", marks=pytest.mark.slow)],
)
def test_scale_of_the_rewards_does_not_matter(algorithm: Any) -> None:
    """Rewards, R and the bound on theta* in another currency: the same arms."""
    num_rounds, size = 400, 3.7
    arms, theta = unit_arms(6, 7, 3), unit_arms(7, 3)
    noise = two_point(8, num_rounds, 0.3)
    scaled = parameters.replace(
        algorithm, noise_bound=size * algorithm.noise_bound, theta_bound=size * algorithm.theta_bound
    )
    one, other = (
        trace(a, replay(arms, c * theta, c * noise), KEY, num_rounds=num_rounds)
        for a, c in ((algorithm, 1.0), (scaled, size))
    )
    np.testing.assert_array_equal(one.action, other.action)
    np.testing.assert_allclose(size * one.regret, other.regret, rtol=1e-9)
    assert len(np.unique(one.action)) > 3


ORDERED = {
    "losan": jv.losan(2, ties="lowest"),
    "lofav": jv.lofav(2, 300, beta_scale=0.3, ties="lowest"),
    "lin_ts": jv.lin_ts(2, scale="bayes", ties="lowest"),
    "weighted_lin_ts": jv.weighted_lin_ts(2, 300, beta_scale=0.01, ties="lowest"),
    "lin_vdts": jv.lin_vdts(2, 300, constants=jv.constants.practical(0.01), ties="lowest", capacity=5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERED)
def test_order_of_the_arms_does_not_matter(name: str) -> None:
    """Fails if an arm's place, not its values, decides: arms of different lengths never tie, so the same win."""
    num_rounds, num_arms = 300, 6
    rng = np.random.default_rng(9)
    arms, theta = unit_arms(10, num_rounds, num_arms, 2), unit_arms(11, 2)
    arms *= rng.uniform(0.2, 1.0, size=(*arms.shape[:-1], 1))
    noise, order = two_point(12, num_rounds, 0.1), rng.permutation(num_arms)
    straight, permuted = (
        trace(ORDERED[name], replay(a, theta, noise), KEY, num_rounds=num_rounds) for a in (arms, arms[:, order])
    )
    np.testing.assert_array_equal(straight.action, order[np.asarray(permuted.action)])


@pytree
class Inside:
    """A recorder for d = 2: whether theta* has been in both ellipsoids of every layer of LOFAV in all rounds."""

    name = "inside"

    def init(self, algorithm: Any, instance: Any) -> jax.Array:
        return jnp.asarray(True)

    def update(self, memory: jax.Array, event: Any, algorithm: Any, instance: Any) -> jax.Array:
        beta, gamma = algorithm.radii(event.state)
        for regressions, radius in ((event.state.paired, beta), (event.state.plain, gamma)):
            gap, inverse = regressions.theta_hat - instance.theta_star[None], regressions.sigma_inv
            turned = jnp.stack([gap[:, 1], -gap[:, 0]], axis=1)  # a 2 x 2 matrix is its adjugate's inverse times det
            determinant = inverse[:, 0, 0] * inverse[:, 1, 1] - inverse[:, 0, 1] * inverse[:, 1, 0]
            distance2 = jnp.einsum("ld,lde,le->l", turned, inverse, turned) / determinant
            memory = memory & jnp.all(distance2 <= radius**2)
        return memory

    def read(self, memory: jax.Array) -> jax.Array:
        return memory


def held(algorithm: Any, recorder: Any, noise: Any, num_seeds: int, num_rounds: int) -> int:
    result = jv.simulate(
        algorithm,
        jv.linear_bandit(2, 5, noise=noise),
        key=jax.random.key(13),
        num_rounds=num_rounds,
        num_seeds=num_seeds,
        record_at=1,
        recorders=(recorder,),
    )
    result.raise_if_failed()
    return int(np.sum(np.all(result.records[recorder.name].reshape(num_seeds, -1), axis=1)))


SLOW_COVERAGE = (("losan", "sparse"), ("lofav", "largest"), ("lofav", "sparse"))
NOISES = {"largest": jv.noise.two_point(1.0), "sparse": jv.noise.sparse(0.3, bound=1.0)}


@pytest.mark.parametrize(
    ("name", "noise"),
    [("losan", "largest"), *(pytest.param(n, k, marks=pytest.mark.slow) for n, k in SLOW_COVERAGE)],
)
def test_confidence_sets_hold_as_often_as_promised(name: str, noise: str) -> None:
    """Over 400 seeds and all of 150 rounds, with delta = 0.2: the theorem's constants.

    With a coverage of exactly 1 - delta, fewer seeds than the bar would hold with probability 1e-6. With a stochastic
    part much too small for the largest noise, by contrast, so many seeds fail that the test notices.
    """
    num_seeds, delta = 400, 0.2
    bar = int(stats.binom.ppf(FALSE_ALARM, num_seeds, 1 - delta))
    make = {"losan": lambda c: jv.losan(2, delta=delta, beta_scale=c)}.get(
        name, lambda c: jv.lofav(2, 150, delta=delta, beta_scale=c)
    )
    recorder = jv.record.confidence() if name == "losan" else Inside()
    assert held(make(1.0), recorder, NOISES[noise], num_seeds, 150) >= bar
    if noise == "largest":
        assert held(make(0.03), recorder, NOISES[noise], num_seeds, 150) < bar


def played(algorithm: Any, dim: int, num_rounds: int = 40) -> Any:
    """The state after some rounds of a given sequence of arms."""
    x, noise = unit_arms(14, num_rounds, dim), two_point(16, num_rounds, 0.4)
    given = (jnp.int32(0), jnp.int32(1), jnp.asarray(0.8), jnp.int32(0))
    choice = (
        thompson.FgtsChoice(*given, jnp.asarray(False)) if isinstance(algorithm, thompson.FgtsVa) else jv.Choice(*given)
    )

    def step(state: Any, observed: Any) -> tuple[Any, None]:
        return algorithm.update(state, choice, *observed, jv.Side(jnp.asarray(0.16))), None

    return jax.lax.scan(step, algorithm.init(), (x, x @ unit_arms(15, dim) + noise))[0]


def with_scale(algorithm: Any, c: float) -> Any:
    return parameters.replace(algorithm, beta_scale=np.asarray(c))


def test_multiplier_leaves_the_bias_alone() -> None:
    """At c = 0 the radius is the bias alone; what is beyond it grows like c (in the square like c^2)."""
    losan = jv.losan(2, noise_bound=0.7, theta_bound=1.3)
    state = played(losan, 2)
    at = {c: float(with_scale(losan, c).confidence(state).beta_hat[0]) ** 2 for c in (0.0, 0.5, 1.0)}
    np.testing.assert_allclose(at[0.0], float(losan.lam) * 1.3**2, rtol=1e-12)
    np.testing.assert_allclose(at[0.5] - at[0.0], (at[1.0] - at[0.0]) / 4, rtol=1e-12)
    assert at[1.0] > 2 * at[0.0]

    layers = jv.lofav(2, 64, noise_bound=0.7, theta_bound=1.3)
    state = played(layers, 2)
    squares = {c: np.stack(with_scale(layers, c).radii(state)) ** 2 for c in (0.0, 0.5, 1.0)}
    rho = 2.0 ** -np.arange(1, layers.num_layers + 1)
    np.testing.assert_allclose(squares[0.0], np.stack([(rho * 0.7) ** 2] * 2), rtol=1e-12)
    np.testing.assert_allclose(squares[0.5] - squares[0.0], (squares[1.0] - squares[0.0]) / 4, rtol=1e-10)

    for algorithm, bias in (
        (jv.lin_ts(2, 100, lam=0.3, theta_bound=1.3), 0.3**0.5 * 1.3),
        (jv.lin_ts(2, scale="agrawal_goyal"), 0.0),
        (jv.lin_ts(2, scale="bayes"), 0.0),
        (jv.weighted_lin_ts(2, 100, theta_bound=1.3), 2**0.5),
    ):
        state = played(algorithm, 2)
        spread = {c: float(with_scale(algorithm, c).spread(state)) for c in (0.0, 0.5, 1.0)}
        np.testing.assert_allclose(spread[0.0], bias, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(spread[0.5] - spread[0.0], (spread[1.0] - spread[0.0]) / 2, rtol=1e-12)
        assert spread[1.0] > 1.5 * spread[0.0]


def keys(num: int) -> jax.Array:
    return jax.vmap(lambda i: random.fold_in(jax.random.key(17), i))(jnp.arange(num))


def assert_moments(samples: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """First and second moments of ``samples [n, d]``, each within its own standard error times a normal quantile."""
    centred = samples - mean
    pairs = [(i, j) for i in range(samples.shape[1]) for j in range(i + 1)]
    statistics = [*(centred[:, i] for i in range(samples.shape[1]))]
    statistics += [centred[:, i] * centred[:, j] - covariance[i, j] for i, j in pairs]
    limit = stats.norm.isf(FALSE_ALARM / (2 * len(statistics)))
    for values in statistics:
        assert abs(values.mean()) < limit * values.std() / np.sqrt(len(values))


def test_posterior_samples_have_the_right_mean_and_covariance() -> None:
    """Nine statistics of 50,000 draws, false-alarm rate 1e-6 together."""
    rng, num, dim = np.random.default_rng(18), 50_000, 3
    xs, ys = rng.normal(size=(12, dim)), rng.normal(size=12)
    known = ridge.init_ridge(dim, 0.5, jnp.float64)
    for x, y in zip(xs, ys, strict=True):
        known, _ = ridge.regress(known, jnp.asarray(x), jnp.asarray(y))
    words = jax.vmap(random.key_words)(keys(num))
    samples = np.asarray(jax.jit(jax.vmap(lambda w: thompson.draw(known, jnp.asarray(1.7), w)))(words))
    inverse = np.linalg.inv(0.5 * np.eye(dim) + xs.T @ xs)
    assert_moments(samples, inverse @ xs.T @ ys, 1.7**2 * inverse)


def tilted(known: Any, tilt: float, arms: np.ndarray, num: int, proposals: int) -> tuple[np.ndarray, np.ndarray]:
    words = jax.vmap(random.key_words)(keys(num))
    draw = jax.vmap(lambda w: thompson.draw_feel_good(known, jnp.asarray(tilt), jnp.asarray(arms), w, proposals))
    theta, refused = jax.jit(draw)(words)
    return np.asarray(theta), np.asarray(refused)


def learned(num: int, dim: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """A posterior, and its V and estimate by explicit sums."""
    rng = np.random.default_rng(19)
    xs, ys = rng.normal(size=(num, dim)), rng.normal(size=num)
    known = ridge.init_ridge(dim, 1.0, jnp.float64)
    for x, y in zip(xs, ys, strict=True):
        known, _ = ridge.regress(known, jnp.asarray(x), jnp.asarray(y))
    matrix = np.eye(dim) + xs.T @ xs
    return known, matrix, np.linalg.solve(matrix, xs.T @ ys)


@pytest.mark.parametrize("tilt", [*(pytest.param(t, marks=pytest.mark.slow) for t in (0.0, 8.0)), 1.5])
def test_feel_good_sampler_has_its_density(tilt: float) -> None:
    """Mean and covariance against the density summed over a grid: five statistics, false-alarm rate 1e-6 together.

    Of 64 proposals for 4 arms all are refused with probability below 1.1e-8, so the sample is exact for this purpose.
    """
    known, matrix, centre = learned(6, 2)
    arms = np.array([[0.9, 0.1], [-0.3, 0.8], [0.2, -0.6], [0.9, 0.1]])  # one of them twice
    theta, refused = tilted(known, tilt, arms, 40_000, 64)
    assert not refused.any()
    side = np.linspace(-9.0, 9.0, 1201)
    grid = (
        centre + np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2) @ np.linalg.cholesky(np.linalg.inv(matrix)).T
    )
    gap = grid - centre
    log = -np.einsum("nd,de,ne->n", gap, matrix, gap) + tilt * np.max(grid @ arms.T, axis=1)
    density = np.exp(log - log.max())
    density /= density.sum()
    mean = density @ grid
    assert_moments(theta, mean, (density[:, None] * (grid - mean)).T @ (grid - mean))
    if tilt == 0.0:
        np.testing.assert_allclose(mean, centre, atol=1e-9)


def test_feel_good_choices_do_not_depend_on_the_order_of_the_arms() -> None:
    """In distribution: a chi-square test of the arms chosen from two orders, false-alarm rate 1e-6."""
    num, order = 8_000, np.array([2, 0, 3, 1])
    arms = np.array([[0.9, 0.1], [-0.3, 0.8], [0.2, -0.6], [0.7, 0.5]])
    algorithm = jv.fgts_va(2, 100, feel_good=0.3)
    state = played(algorithm, 2, num_rounds=2)
    side = jv.Side(jnp.full(4, 0.5))
    select = jax.jit(jax.vmap(lambda k, a: algorithm.select(state, a, k, side).action, in_axes=(0, None)))
    every = keys(2 * num)
    one, other = (
        select(every[:num], jnp.asarray(arms)),
        order[np.asarray(select(every[num:], jnp.asarray(arms[order])))],
    )
    table = np.stack([np.bincount(one, minlength=4), np.bincount(other, minlength=4)])
    table = table[:, table.sum(axis=0) > 0]
    assert table.shape[1] >= 3
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


def test_no_refusal_goes_uncounted() -> None:
    """One proposal for five arms with no preference is refused four times in five, and the state says how often."""
    algorithm = jv.fgts_va(2, 200, feel_good=0.0, num_proposals=1)
    environment = replay(unit_arms(14, 5, 2), unit_arms(15, 2), two_point(16, 200, 0.4))
    state = trace(algorithm, environment, KEY, num_rounds=200).state
    # 160 with a standard deviation of 5.7: five of them happen by chance once in 10^6 times
    assert abs(int(state.num_refused[-1]) - 160) < 29


def test_known_variance_is_used_when_it_is_told() -> None:
    """Weighted LinTS is told after the pull: the variances shown before must not change its choice; FGTS-VA's may."""
    arms = jnp.asarray(unit_arms(20, 6, 2))
    weighted = jv.weighted_lin_ts(2, 100, beta_scale=0.01)
    state = played(weighted, 2)
    chosen = {
        v: [int(weighted.select(state, arms, k, jv.Side(jnp.full(6, v))).action) for k in keys(8)] for v in (0.01, 9.0)
    }
    assert chosen[0.01] == chosen[9.0]
    one, other = (
        weighted.update(state, weighted.select(state, arms, KEY, jv.Side(jnp.ones(6))), arms[0], jnp.asarray(1.0), side)
        for side in (jv.Side(jnp.asarray(0.01)), jv.Side(jnp.asarray(9.0)))
    )
    gains = [float(jnp.trace(s.regression.sigma_inv)) for s in (one, other)]
    assert gains[0] < gains[1]
    bound = parameters.replace(weighted, variance_bound=np.asarray(9.0))
    choice = bound.select(state, arms, KEY, jv.Side(jnp.ones(6)))
    blind = bound.update(state, choice, arms[0], jnp.asarray(1.0), jv.Side(jnp.asarray(0.01)))
    np.testing.assert_array_equal(blind.regression.sigma_inv, other.regression.sigma_inv)


@pytest.mark.parametrize("scale", ["agrawal_goyal", "bayes"])
def test_only_one_scale_needs_the_horizon(scale: str) -> None:
    """The other two run without it; the first says that it is missing."""
    assert jv.lin_ts(2, scale=scale).scale == scale
    with pytest.raises(ValueError, match="num_rounds"):
        jv.lin_ts(2)


def test_lofav_needs_a_plain_horizon() -> None:
    """It sets the number of layers, hence shapes."""
    with pytest.raises(ValueError, match="num_rounds"):
        jax.jit(lambda k: jv.lofav(2, k).init())(100)
    assert jv.lofav(4, 4 * 4**5).num_layers == 5  # no layer more for rounding
