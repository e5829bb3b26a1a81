"""What the theory says about the algorithms with ellipsoids and about SupLinUCB, and which of them are the same."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxvar as jv
from jaxvar.algorithms import ellipsoid
from jaxvar.parameters import leaf, pytree, replace
from tests.helpers.programs import trace

# One shape for all: a program is then compiled once per algorithm.
NUM_ROUNDS, DIM, NUM_ARMS = 300, 3, 8
KEY = jax.random.key(0)
ELLIPSOIDS = {
    "confidence_ball": lambda **k: jv.confidence_ball(DIM, **k),
    "cw_oful": lambda **k: jv.cw_oful(DIM, 0.2, **k),
    "oful": lambda **k: jv.oful(DIM, **k),
    "weighted_oful": lambda **k: jv.weighted_oful(DIM, **k),
    "weighted_oful_plus": lambda **k: jv.weighted_oful_plus(DIM, NUM_ROUNDS, **k),
}


def replay(std: Any = None, *, scale: float = 1.0) -> Any:
    """Fresh unit arms, noise of the given or of drawn standard deviations, all rewards multiplied by ``scale``."""
    rng = np.random.default_rng(3)
    theta, arms = rng.normal(size=DIM), rng.normal(size=(NUM_ROUNDS, NUM_ARMS, DIM))
    theta *= scale / np.linalg.norm(theta)
    arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
    drawn = scale * rng.uniform(0.0, 1.0, size=(NUM_ROUNDS, NUM_ARMS)) if std is None else np.full((NUM_ROUNDS, 1), std)
    std = np.broadcast_to(drawn, (NUM_ROUNDS, NUM_ARMS))
    noise = std * rng.choice([-1.0, 1.0], size=std.shape)
    return jv.replay_bandit(arms, arms @ theta, noise, noise_var=std**2, theta_star=theta)


def play(algorithm: Any, environment: Any) -> Any:
    found = jax.tree.map(np.asarray, trace(algorithm, environment, KEY, num_rounds=NUM_ROUNDS))
    assert found.status == 0
    return found


def assert_same_regression(weighted: Any, plain: Any, std: float) -> None:
    """Constant weights ``1 / std`` with ridge ``lam`` are a plain regression with ridge ``lam std^2``."""
    np.testing.assert_array_equal(weighted.action, plain.action)
    fit = weighted.state.regression
    plain_fit = getattr(plain.state, "regression", plain.state)
    for name, factor in (("theta_hat", 1.0), ("log_det", 1.0), ("sigma_inv", std**2), ("loss", std**-2)):
        ours, theirs = getattr(fit, name), factor * getattr(plain_fit, name)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max(), err_msg=name)


STD, LAM = 0.7, 0.6  # above the floor R / sqrt(d) = 0.58


@pytest.mark.parametrize(
    "algorithm",
    [
        jv.weighted_oful(DIM, lam=LAM, fixed_radius=2.0),
        jv.weighted_oful_plus(DIM, NUM_ROUNDS, lam=LAM, alpha=STD, gamma=0.0, fixed_radius=2.0),
    ],
    ids=["weighted_oful", "weighted_oful_plus"],
)
def test_constant_variance_is_a_rescaled_ridge(algorithm: Any) -> None:
    """Fails if a weight, a ridge or a norm is off by any factor: the arms of OFUL with that ridge and radius."""
    environment = replay(STD)
    weighted = play(algorithm, environment)
    plain = play(jv.oful(DIM, lam=LAM * STD**2, fixed_radius=2.0 * STD), environment)
    assert len(np.unique(weighted.action)) > 4
    assert_same_regression(weighted, plain, STD)


@pytree
class PlainWithRadius(ellipsoid.Ellipsoid):
    """OFUL-type code that is given the radius of each round."""

    radii: Any  # [rounds + 1]

    def weight(self, width: Any, noise_var: Any) -> Any:
        return jnp.ones_like(width)

    def radius_of(self, state: Any) -> Any:
        return jnp.sum(
            jnp.where(jnp.arange(NUM_ROUNDS + 1, dtype=jnp.int32) == state.round[None], self.radii, 0), axis=0
        )


@pytest.mark.parametrize(
    "algorithm",
    [
        jv.weighted_oful(DIM, lam=LAM, beta_scale=0.02),
        jv.weighted_oful_plus(DIM, NUM_ROUNDS, lam=LAM, alpha=STD, gamma=0.0, beta_scale=0.005),
    ],
    ids=["weighted_oful", "weighted_oful_plus"],
)
def test_constant_variance_with_the_radius_of_the_theorem(algorithm: Any) -> None:
    """As above, with the radius growing: that of plain regression is ``std`` times as large."""
    t = np.arange(NUM_ROUNDS + 1.0)
    if isinstance(algorithm, type(jv.weighted_oful(DIM))):
        t = np.maximum(t, 1)
        log = np.log(4 * t**2 / 0.01)
        stochastic = 8 * np.sqrt(DIM * np.log(1 + t / (STD**2 * DIM * LAM)) * log) + 4 / STD * log
    else:  # gamma = 0: the largest |noise| min(1, width) / sigma_bar is 1 / alpha
        tau = np.log(32 * (t + 1) ** 2 / 0.01)
        stochastic = 12 * np.sqrt(DIM * np.log(1 + (t + 1) / (STD**2 * DIM * LAM)) * tau) + 30 * tau / STD
    stochastic[0] = 0
    radii = STD * (float(algorithm.beta_scale) * stochastic + np.sqrt(LAM))
    shared = {"delta": leaf(0.01), "theta_bound": leaf(1.0), "beta_scale": leaf(1.0), "fixed_radius": None}
    plain = PlainWithRadius(
        **shared, lam=leaf(LAM * STD**2), tie_tolerance=leaf(1e-9), dim=DIM, ties="random", radii=leaf(radii)
    )
    environment = replay(STD)
    weighted = play(algorithm, environment)
    assert len(np.unique(weighted.action)) > 4
    assert_same_regression(weighted, play(plain, environment), STD)


@pytest.mark.parametrize("radius", ["data_free", pytest.param("determinant", marks=pytest.mark.slow)])
def test_cw_oful_with_a_large_threshold_is_oful(radius: str) -> None:
    """Fails if either radius, or the regression, differs from OFUL's where all weights are 1."""
    options: dict[str, Any] = {"radius": radius, "beta_scale": 0.3, "lam": 0.5, "theta_bound": 1.5, "norm_bound": 1.2}
    ours, plain = jv.cw_oful(DIM, 1e6, **options), jv.oful(DIM, **options)
    weighted, expected = (play(a, replay()) for a in (ours, plain))
    assert_same_regression(weighted, expected, 1.0)
    beta, expected_beta = (jax.vmap(a.confidence)(t.state).beta_hat for a, t in ((ours, weighted), (plain, expected)))
    np.testing.assert_allclose(beta, expected_beta, rtol=1e-12)


def test_weighted_oful_does_not_care_for_units() -> None:
    """Rewards, R, sigma and B times 3: lam = 1 / B^2 follows, and the same arms are pulled."""
    one, three = (
        play(jv.weighted_oful(DIM, noise_bound=s, theta_bound=s, beta_scale=0.02), replay(scale=s)) for s in (1.0, 3.0)
    )
    np.testing.assert_array_equal(one.action, three.action)
    np.testing.assert_allclose(3 * one.state.regression.theta_hat, three.state.regression.theta_hat, atol=1e-11)
    assert len(np.unique(one.weight)) > 50  # levels above the floor were met


@pytest.mark.parametrize("name", ELLIPSOIDS)
def test_beta_scale_multiplies_the_stochastic_part_only(name: str) -> None:
    """The bias sqrt(lam) B must stay; ConfidenceBall's radius has none."""
    make = ELLIPSOIDS[name]
    options = {"lam": 0.4, "theta_bound": 1.7}
    states = trace(make(**options), replay(), KEY, num_rounds=NUM_ROUNDS).state
    zero, one, three = (
        np.asarray(jax.vmap(make(**options, beta_scale=c).confidence)(states).beta_hat) for c in (0.0, 1.0, 3.0)
    )
    bias = 0.0 if name == "confidence_ball" else np.sqrt(0.4) * 1.7
    np.testing.assert_allclose(zero, bias, rtol=1e-14)
    np.testing.assert_allclose(three - zero, 3 * (one - zero), rtol=1e-12)
    assert np.all(one > zero + 1)


def test_sup_lin_ucb_beta_scale() -> None:
    """Likewise: its bias is B, since the ridge is 1; R = 1/2 is the printed alpha for rewards in [0, 1]."""
    options = {"noise_bound": 0.5, "delta": 0.1, "theta_bound": 1.0}
    zero, one, two = (float(jv.sup_lin_ucb(2, 100, **options, beta_scale=c).half_width(7)) for c in (0.0, 1.0, 2.0))
    assert zero == 1.0
    np.testing.assert_allclose(one, np.sqrt(0.5 * np.log(2 * 100 * 7 / 0.1)) + 1, rtol=1e-14)
    np.testing.assert_allclose(two - zero, 2 * (one - zero), rtol=1e-14)


@pytest.mark.parametrize("name", ["weighted_oful", "weighted_oful_plus"])
def test_variance_is_used_after_the_pull_only(name: str) -> None:
    """Fails if a choice looks at variances: what ``select`` is told changes neither the arm nor what is learned."""
    algorithm = ELLIPSOIDS[name](beta_scale=0.01)
    arms = jnp.asarray(np.random.default_rng(0).normal(size=(NUM_ARMS, DIM)) / 3)
    state = other = algorithm.init()
    select, update = jax.jit(algorithm.select), jax.jit(algorithm.update)
    for k in range(5):
        key = jax.random.fold_in(KEY, k)
        choice = select(state, arms, key, jv.Side(jnp.full(NUM_ARMS, 0.5)))
        blind = select(other, arms, key, jv.Side(jnp.zeros(NUM_ARMS)))
        assert choice.action == blind.action
        x, told = arms[choice.action], jv.Side(jnp.asarray(0.5 + k))
        state = update(state, choice, x, jnp.asarray(0.3), told)
        other = update(other, blind, x, jnp.asarray(0.3), told)
    for one, two in zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(one, two)


def test_an_over_estimate_is_told_by_bound_or_by_scale() -> None:
    """Constant variance 0.5 told as 2: by a bound, by a scale of 4, or by noise of that variance stated."""
    environment = replay(np.sqrt(0.5))
    bound, scale = (
        play(jv.weighted_oful(DIM, **k), environment) for k in ({"variance_bound": 2.0}, {"variance_scale": 4.0})
    )
    np.testing.assert_allclose(bound.weight, np.sqrt(0.5), rtol=1e-12)
    np.testing.assert_allclose(scale.weight, np.sqrt(0.5), rtol=1e-12)
    np.testing.assert_array_equal(bound.action, scale.action)


@pytest.mark.parametrize(
    ("name", "theta_bound"),
    [
        ("weighted_oful_plus", 1.5),
        *(pytest.param(*c, marks=pytest.mark.slow) for c in (("weighted_oful", 1.5), ("cw_oful", 1.2))),
    ],
)
def test_recorded_confidence_event_is_the_explicit_one(name: str, theta_bound: float) -> None:
    """The recorder takes the noise part of the loss with the weights of each algorithm; here the event does fail."""
    environment = replay()
    algorithm = ELLIPSOIDS[name](beta_scale=0.0, lam=0.8, theta_bound=theta_bound)
    states = play(algorithm, environment).state
    recorded = jax.jit(jv.run, static_argnames=("num_rounds", "record_at"))(
        algorithm,
        environment,
        KEY,
        num_rounds=NUM_ROUNDS,
        record_at=tuple(range(1, NUM_ROUNDS + 1)),
        recorders=(jv.record.confidence(),),
    )
    error = states.regression.theta_hat - environment.theta_star
    distance2 = np.einsum("ki,kij,kj->k", error, np.linalg.inv(states.regression.sigma_inv), error)
    beta = np.asarray(jax.vmap(algorithm.confidence)(states).beta_hat)[:, 0]
    explicit = np.logical_and.accumulate(distance2 <= beta**2)
    assert explicit[0] and not explicit[-1]
    np.testing.assert_array_equal(recorded.records["confidence"][:, 0], explicit)


NUM_SEEDS, DELTA = 320, 0.05
NOISES = {
    "two_point": jv.noise.two_point(jv.schedules.between(0.0, 1.0)),
    "sparse": jv.noise.sparse(0.3, bound=1.0),
}


QUICK_COVERS = [("weighted_oful", "two_point"), ("weighted_oful_plus", "two_point")]
SLOW_COVERS = [
    *((name, "two_point") for name in ("confidence_ball", "cw_oful", "oful")),
    *((name, "sparse") for name in ("weighted_oful", "weighted_oful_plus")),
]


@pytest.mark.parametrize(
    ("name", "noise"), [*QUICK_COVERS, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW_COVERS)]
)
def test_confidence_sets_cover(name: str, noise: str) -> None:
    """At the theorem's constants the event fails in at most DELTA of the seeds, and without radius in most.

    A right set fails with probability at most DELTA per seed, so more failures than the binomial's quantile at 1 - 1e-6
    are a false alarm once in a million times. With beta_scale = 0 only the bias is left, and the test must see that.
    """
    held = jv.simulate(
        jv.sweep(ELLIPSOIDS[name](delta=DELTA), beta_scale=[1.0, 0.0]),
        jv.linear_bandit(DIM, NUM_ARMS, noise=NOISES[noise], fresh=True),
        key=jax.random.key(1),
        num_rounds=150,
        num_seeds=NUM_SEEDS,
        record_at=1,
        recorders=(jv.record.confidence(),),
    ).confidence[:, :, -1, 0]
    allowed = stats.binom.ppf(1 - 1e-6, NUM_SEEDS, DELTA)
    assert np.sum(~held[0]) <= allowed
    assert np.sum(~held[1]) > allowed + 20


@pytree
class ArmBounds:
    """A recorder for fixed arms: whether every bound of every stored level has held, and rounds in each level."""

    name = "bounds"

    def init(self, algorithm: Any, instance: Any) -> jax.Array:
        return jnp.array(True)

    def update(self, memory: jax.Array, event: Any, algorithm: Any, instance: Any) -> jax.Array:
        levels, arms = event.state.levels, instance.arms
        error = jnp.abs(jnp.einsum("nd,sd->sn", arms, levels.theta_hat - instance.theta_star[None]))
        norm = jnp.sqrt(jnp.einsum("nd,sde,ne->sn", arms, levels.sigma_inv, arms))
        return memory & jnp.all(error <= algorithm.half_width(arms.shape[0]) * norm + 1e-12)

    def read(self, memory: jax.Array) -> jax.Array:
        return memory


def test_sup_lin_ucb_bounds_cover() -> None:
    """Its bounds are per arm and level. S levels fail with probability at most S delta; false alarms as above."""
    num_rounds, num_levels, delta = 54, 4, 0.01  # S = ceil(log 54)
    result = jv.simulate(
        jv.sweep(jv.sup_lin_ucb(2, num_rounds, delta=delta, capacity=num_levels), beta_scale=[1.0, 0.0]),
        jv.linear_bandit(2, 5, noise=jv.noise.two_point(1.0)),
        key=jax.random.key(1),
        num_rounds=num_rounds,
        num_seeds=NUM_SEEDS,
        record_at=1,
        recorders=(ArmBounds(), jv.record.layer_rounds()),
    )
    result.raise_if_failed()
    assert result.capacity == num_levels  # no level above S was asked for
    held, allowed = result.bounds[:, :, -1], stats.binom.ppf(1 - 1e-6, NUM_SEEDS, num_levels * delta)
    assert np.sum(~held[0]) <= allowed
    assert np.sum(~held[1]) > allowed + 20
    np.testing.assert_array_equal(result.layer_rounds[..., -1, :].sum(-1), num_rounds)


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [False, True])
def test_sup_lin_ucb_asks_for_more_levels(fresh: bool) -> None:
    """Fails if a level that is not stored goes unnoticed, or if the rerun differs from a run that stores enough."""
    environment = jv.linear_bandit(2, 6, noise=jv.noise.uniform(0.05), fresh=fresh)
    options = {"noise_bound": 0.1, "theta_bound": 0.5, "beta_scale": 0.1}
    results = [
        jv.simulate(
            jv.sup_lin_ucb(2, 400, **options, capacity=capacity),
            environment,
            key=KEY,
            num_rounds=400,
            num_seeds=8,
            recorders=(jv.record.regret(), jv.record.layer_rounds()),
        )
        for capacity in (2, 6)
    ]
    for result in results:
        result.raise_if_failed()
        assert result.capacity == 6
    for name in ("regret", "layer_rounds"):
        np.testing.assert_array_equal(results[0].records[name], results[1].records[name])


@pytest.mark.slow
def test_inverses_stay_inverses_under_large_weights() -> None:
    """Weights of Weighted OFUL+ span 1 to 1 / alpha = 100; the rank-one updates must not drift over 10^4 rounds."""
    num_rounds, dim = 10_000, 5
    algorithm = jv.weighted_oful_plus(dim, num_rounds, beta_scale=0.01)
    environment = jv.linear_bandit(dim, 10, noise=jv.noise.two_point(jv.schedules.two_level(0.0, 1.0)), fresh=True)
    found = trace(algorithm, environment, KEY, num_rounds=num_rounds)
    assert found.status == 0 and float(found.weight.max()) > 50
    x = np.asarray(found.arms)[np.arange(num_rounds), found.action] * np.asarray(found.weight)[:, None]
    explicit = np.linalg.inv(np.eye(dim) * float(algorithm.lam) + x.T @ x)
    kept = np.asarray(found.state.regression.sigma_inv[-1])
    np.testing.assert_allclose(kept, explicit, rtol=0, atol=1e-10 * np.abs(explicit).max())


def test_rivals_need_no_more_than_numbers() -> None:
    """A factory under ``jit`` builds the algorithm of traced numbers."""

    @jax.jit
    def regret(beta_scale: jax.Array) -> jax.Array:
        algorithm = jv.weighted_oful_plus(2, 50, beta_scale=beta_scale)
        result = jv.run(algorithm, jv.linear_bandit(2, 3), KEY, num_rounds=5, record_at=1)
        return result.records["regret"][-1]

    assert np.isfinite(regret(jnp.asarray(0.1)))
    assert replace(jv.weighted_oful(2), lam=leaf(2.0)).lam == 2.0
