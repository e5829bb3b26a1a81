"""Environments: exact noise, schedules, the lower-bound instance, and the same problem for everyone.

Statistical limits are 5 standard errors (two-sided 6e-7 per comparison) at fixed keys.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import jaxvar as jv

Z = 5.0
N = 100_000
KEY = jax.random.key(0)
ARMS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, -1.0], [-0.6, 0.0]])

FAMILIES = {
    "two_point": lambda s: jv.noise.two_point(s),
    "uniform": lambda s: jv.noise.uniform(s),
    "sparse": lambda s: jv.noise.sparse(s, bound=1.0),
    "clipped_gaussian": lambda s: jv.noise.clipped_gaussian(s, bound=0.7),
    "gaussian": lambda s: jv.noise.gaussian(s),
    "student_t": lambda s: jv.noise.student_t(s, df=20.0),
    "pareto": lambda s: jv.noise.pareto(s, shape=20.0),
}
TABLE = np.linspace(0.1, 0.6, 7 * 4).reshape(7, 4)
SCHEDULES = {
    "constant": jv.schedules.constant(0.4),
    "two_level": jv.schedules.two_level(0.1, 0.6, 0.3),
    "between": jv.schedules.between(0.1, 0.6),
    "decaying": jv.schedules.decaying(0.6, 0.5),
    "bursts": jv.schedules.bursts(0.1, 0.6, 3, 1),
    "front_loaded": jv.schedules.front_loaded(0.1, 0.6, 3),
    "by_round": jv.schedules.by_round(TABLE[:, 0]),
    "by_round_and_arm": jv.schedules.by_round(TABLE),
    "by_arm": jv.schedules.by_arm(0.1, 0.6, [0.6, 0.8]),
}


def z_score(sample, mean):
    """Standard errors between the sample's mean and ``mean``; 0 where only rounding separates them."""
    error = abs(sample.mean() - mean)
    return 0.0 if error <= 1e-12 * abs(mean) else error / (sample.std() / np.sqrt(len(sample)))


def words(number=0, num=N):
    return jv.random.bits(jv.random.key_words(jax.random.key(number)), (num,))


@pytest.mark.parametrize("std", [0.05, 0.5])
@pytest.mark.parametrize("family", FAMILIES)
def test_noise_mean_variance_and_bound(family, std):
    """Variance-adaptive radii are compared with the true variance and rely on R: both must be exact."""
    noise = FAMILIES[family](std)
    levels = jnp.full(N, std)
    draws = np.asarray(noise.draw(words(), levels, jnp.zeros(N)))
    assert z_score(draws, 0) < Z
    assert z_score(draws**2, float(noise.variance(levels[:1], levels[:1])[0])) < Z
    assert np.abs(draws).max() <= float(noise.bound) * (1 + 1e-12)


@pytest.mark.parametrize("mean", [0.0, 0.02, 0.9, 2.0])
def test_bernoulli_noise(mean):
    """Rewards are 0 or the scale, with the right probability, the ends included."""
    noise, level = jv.noise.bernoulli(2.0), jnp.full(N, mean)
    draws = np.asarray(noise.draw(words(1), level, level))
    rewards = draws + mean
    assert np.all(np.isclose(rewards, 0) | np.isclose(rewards, 2.0))
    assert z_score(draws, 0) < Z
    assert z_score(draws**2, mean * (2.0 - mean)) < Z
    assert np.isclose(noise.variance(level[:1], level[:1])[0], mean * (2.0 - mean))
    assert np.abs(draws).max() <= float(noise.bound)


@pytest.mark.parametrize("std", [0.0, 0.01, 0.2, 1.0, 30.0])
def test_clipped_gaussian_variance_formula(std):
    """Published code takes the variance before clipping; ours is the one after it."""
    bound = 0.7
    ours = float(jv.noise.clipped_gaussian(std, bound).variance(jnp.array([std]), jnp.array([0.0]))[0])
    if std == 0:
        assert ours == 0
        return
    end = min(bound, 12 * std)
    inside = 2 * scipy.integrate.quad(lambda x: x * x * scipy.stats.norm.pdf(x, scale=std), 0, end, epsabs=1e-14)[0]
    assert np.isclose(ours, inside + 2 * bound**2 * scipy.stats.norm.sf(bound, scale=std), rtol=1e-8)


@pytest.mark.parametrize("std", [0.3, jv.schedules.by_arm(0.1, 0.3, [1.0, 0.0])], ids=["constant", "schedule"])
def test_gaussian_noise_is_not_cut(std):
    """Its tail is the Gaussian's (at 3 deviations, 5 standard errors); a bound is only said, and changes no draw."""
    noise, level = jv.noise.gaussian(std), jnp.full(N, 0.3)
    draws = np.asarray(noise.draw(words(), level, level))
    tail = 2 * scipy.stats.norm.sf(3)
    assert abs(np.mean(np.abs(draws) > 0.9) - tail) < Z * np.sqrt(tail / N)
    assert scipy.stats.kstest(draws / 0.3, "norm").pvalue > 1e-6
    assert noise.bound == np.inf and float(jv.noise.gaussian(std, bound=0.7).bound) == 0.7
    np.testing.assert_array_equal(jv.noise.gaussian(std, bound=0.7).draw(words(), level, level), draws)


@pytest.mark.parametrize("power", [3.0, 4.5])
def test_heavy_tails_have_their_law(power):
    """The whole law, tail included: variances of samples say little where the fourth moment is infinite."""
    level = jnp.full(N, 0.3)
    student = np.asarray(jv.noise.student_t(0.3, df=power).draw(words(2), level, level))
    law = scipy.stats.t(power, scale=0.3 * np.sqrt((power - 2) / power))
    pareto = np.asarray(jv.noise.pareto(0.3, shape=power).draw(words(3), level, level))
    spread = 0.3 / scipy.stats.pareto(power).std()
    other = scipy.stats.pareto(power, loc=-spread * scipy.stats.pareto(power).mean(), scale=spread)
    for draws, exact in ((student, law), (pareto, other)):
        assert np.isclose(exact.std(), 0.3) and np.isclose(exact.mean(), 0, atol=1e-12)
        assert scipy.stats.kstest(draws, exact.cdf).pvalue > 1e-6
        tail = exact.sf(2.0)
        assert abs(np.mean(draws > 2.0) - tail) < Z * np.sqrt(tail / N)
    assert jv.noise.student_t(0.3).bound == np.inf and float(jv.noise.pareto(0.3, bound=2.0).bound) == 2.0


def test_gaussian_noise_has_no_bound_for_algorithms():
    """An algorithm that was told a bound says so, unless the user says which R is to be taken."""
    noise = jv.noise.gaussian(0.3)
    algorithm = jv.oful(2, noise_bound=1.0)
    with pytest.warns(UserWarning, match=r"told noise_bound=1 .* has noise_bound=inf: its theorem does not hold"):
        jv.run(algorithm, jv.linear_bandit(arms=ARMS, noise=noise), KEY, num_rounds=2)
    jv.run(algorithm, jv.linear_bandit(arms=ARMS, noise=jv.noise.gaussian(0.3, bound=1.0)), KEY, num_rounds=2)


def expected_level(name, round, arms):
    if name == "constant":
        return np.full(len(arms), 0.4)
    if name == "decaying":
        return np.full(len(arms), 0.6 / round**0.5)
    if name == "bursts":
        return np.full(len(arms), 0.6 if (round - 1) % 3 < 1 else 0.1)
    if name == "front_loaded":
        return np.full(len(arms), 0.1 if round <= 3 else 0.6)
    if name == "by_round":
        return np.full(len(arms), TABLE[round - 1, 0])
    if name == "by_round_and_arm":
        return TABLE[round - 1]
    return np.array([0.1 + 0.5 * abs(0.6 * a[0] + 0.8 * a[1]) for a in arms])


@pytest.mark.parametrize("name", [n for n in SCHEDULES if n not in ("between", "two_level")])
def test_schedules_against_plain_python(name):
    """Every round, every arm, and never above what the schedule says is its largest level."""
    environment = jv.linear_bandit(arms=ARMS, noise=jv.noise.two_point(SCHEDULES[name]))
    instance = environment.init(KEY)
    for round in range(1, 8):
        seen = environment.observe(instance, jnp.int32(round), jv.random.fold_in(KEY, round))
        level = expected_level(name, round, ARMS)
        np.testing.assert_allclose(seen.noise_std, level, rtol=1e-12)
        np.testing.assert_allclose(seen.noise_var, level**2, rtol=1e-12)
        assert level.max() <= float(environment.noise_bound) * (1 + 1e-12)


def test_two_level_schedule():
    """One level for all arms of a round, the high one as often as asked."""
    arms = jnp.asarray(ARMS)
    levels = jax.vmap(lambda w: SCHEDULES["two_level"].levels(None, arms, w))(words(2))
    assert set(np.unique(levels)) == {0.1, 0.6}
    assert z_score(np.asarray(levels) == 0.6, 0.3) < Z


def test_between_schedule():
    """One level for all arms of a round, uniform in the interval: its first two moments."""
    arms = jnp.asarray(ARMS)
    levels = np.asarray(jax.vmap(lambda w: SCHEDULES["between"].levels(None, arms, w))(words(2)))
    assert levels.shape == (N,) and levels.min() >= 0.1 and levels.max() <= 0.6
    assert z_score(levels, 0.35) < Z
    assert z_score((levels - 0.35) ** 2, 0.5**2 / 12) < Z


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rewards_of_an_environment(family, schedule):
    """Family and schedule together: mean, stated variance and the bound of the environment."""
    environment = jv.linear_bandit(arms=ARMS, theta_star=[0.6, 0.8], noise=FAMILIES[family](SCHEDULES[schedule]))
    instance = environment.init(KEY)
    seen = environment.observe(instance, jnp.int32(5), KEY)
    np.testing.assert_allclose(seen.mean, ARMS @ [0.6, 0.8], atol=1e-12)
    draws = np.asarray(environment.noise.draw(words(3), jnp.full(N, seen.noise_std[1]), jnp.full(N, seen.mean[1])))
    assert z_score(draws, 0) < Z
    assert z_score(draws**2, float(seen.noise_var[1])) < Z
    assert np.abs(draws).max() <= float(environment.noise_bound) * (1 + 1e-12)


def test_noise_bound_holds_for_long_arms():
    """A level that grows along a direction grows with the length of the arm, and R must cover it."""
    arms = np.array([[2.0, 0.0], [0.0, 1.0]])
    noise = jv.noise.two_point(jv.schedules.by_arm(0.1, 0.5, [1.0, 0.0]))
    environment = jv.linear_bandit(arms=arms, norm_bound=2.0, noise=noise)
    seen = environment.observe(environment.init(KEY), jnp.int32(1), KEY)
    assert float(seen.noise_std.max()) <= float(environment.noise_bound)


@pytest.mark.parametrize("make", [lambda: jv.noise.bernoulli(1.0), lambda: jv.noise.clipped_gaussian(0.3, 0.5)])
def test_noise_variance_under_vmap(make):
    """The simulator puts a batch on the last axis: the variance must come out for each seed without implicit ranks."""
    arms, theta = np.array([[0.5, 0.1], [0.2, 0.4]]), np.array([0.6, 0.8])
    environment = jv.linear_bandit(arms=arms, theta_star=theta, noise=make())
    keys = jax.random.split(KEY, 3)
    instance = environment.init(KEY)
    one = environment.observe(instance, jnp.int32(1), KEY).noise_var
    many = jax.vmap(lambda k: environment.observe(environment.init(k), jnp.int32(1), k))(keys).noise_var
    np.testing.assert_allclose(many, np.broadcast_to(one, (3, 2)))


@pytest.mark.parametrize("kind", ["sphere", "uniform", "hypercube"])
def test_means_are_inner_products(kind):
    """Regret is computed from means, so they must belong to the arms that are shown."""
    for fresh in (False, True):
        environment = jv.linear_bandit(3, 5, arms=kind, fresh=fresh, norm_bound=2.0)
        instance = environment.init(KEY)
        assert np.isclose(np.linalg.norm(instance.theta_star), 1)
        for round in (1, 2):
            seen = environment.observe(instance, jnp.int32(round), jv.random.fold_in(KEY, round))
            np.testing.assert_allclose(seen.mean, np.asarray(seen.arms) @ np.asarray(instance.theta_star), atol=1e-12)
            assert np.linalg.norm(seen.arms, axis=1).max() <= 2 * (1 + 1e-12)


@pytest.mark.parametrize("level", [1.0, 0.5])
def test_hypercube_against_its_definition(level):
    """Probabilities, variances and gaps of the lower-bound instance, by hand."""
    rounds, dim = 600, 3
    environment = jv.hypercube_bandit(dim, rounds, level=level, gap_multiplier=4.0)
    instance = environment.init(KEY)
    seen = environment.observe(instance, jnp.int32(1), KEY)
    gap = 4 / np.sqrt(96 * rounds)
    mu = np.asarray(instance.theta_star)[1:]
    np.testing.assert_allclose(np.abs(mu), gap)
    np.testing.assert_allclose(instance.theta_star[0], 1 / 3)
    corners = np.asarray(seen.arms) / level
    assert len({tuple(c) for c in corners}) == 2**dim and np.all(corners[:, 0] == 1)
    prob = 1 / 3 + corners[:, 1:] @ mu
    np.testing.assert_allclose(seen.mean, level * prob)
    np.testing.assert_allclose(seen.noise_var, level**2 * prob * (1 - prob))
    ordered = np.sort(np.asarray(seen.mean))[::-1]
    assert np.isclose(ordered[0] - ordered[1], 2 * gap * level)
    assert np.isclose(environment.lower_bound, dim * level * np.sqrt(rounds) / (8 * np.sqrt(6)))
    assert np.isclose(environment.norm_bound, np.linalg.norm(seen.arms[0]))


def test_uniform_play_has_twice_the_lower_bound():
    """At gap multiplier 1 uniform play is at exactly twice the bound, so the instance separates nobody."""
    rounds = 200
    environment = jv.hypercube_bandit(3, rounds)
    seen = environment.observe(environment.init(KEY), jnp.int32(1), KEY)
    exact = rounds * float(seen.mean.max() - seen.mean.mean())
    assert np.isclose(exact, 2 * environment.lower_bound)


def test_simulated_uniform_play_has_twice_the_lower_bound():
    """The same through the simulator, over 300 seeds."""
    environment = jv.hypercube_bandit(3, 200)
    result = jv.simulate(jv.uniform(), environment, key=KEY, num_rounds=200, num_seeds=300, record_at=1)
    assert z_score(result.regret[:, -1], 2 * float(environment.lower_bound)) < Z


def test_hypercube_budget():
    """After the budget is spent only the zero vector is offered: no variance, no regret, no reward."""
    environment = jv.hypercube_bandit(2, 30, level=0.5, budget=3.0)  # floor(3 / 0.25) = 12 active rounds
    trace = jv.trace(jv.uniform(), environment, KEY, num_rounds=30)
    assert np.all(np.any(np.asarray(trace.arms[:12]) != 0, axis=2))
    for nothing in (trace.arms[12:], trace.mean[12:], trace.noise_var[12:], trace.reward[12:]):
        assert not np.any(nothing)
    assert 0 < float(trace.noise_var.sum()) <= 3.0
    assert np.all(np.diff(trace.regret[11:]) == 0) and trace.regret[11] > 0
    # The regret's lower bound depends on the budget alone.
    others = [jv.hypercube_bandit(2, 10_000, level=s, budget=4.0).lower_bound for s in (0.1, 0.5, 1.0)]
    np.testing.assert_allclose(others, 2 * np.sqrt(4.0) / (8 * np.sqrt(6)))


@pytest.mark.parametrize("fresh", [False, True])
def test_algorithms_meet_the_same_problem(fresh):
    """Paired randomness: in round k of seed s the arms, levels and noise do not depend on who plays."""
    schedule = jv.schedules.two_level(0.1, 0.4)
    environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(schedule), fresh=fresh)
    one, other = (
        jv.trace(a, environment, KEY, num_rounds=25, seed=3) for a in (jv.uniform(), jv.greedy(2, ties="lowest"))
    )
    np.testing.assert_array_equal(one.instance.theta_star, other.instance.theta_star)
    np.testing.assert_array_equal(one.arms, other.arms)
    np.testing.assert_array_equal(one.noise_var, other.noise_var)
    assert np.any(one.action != other.action)
    noise = [np.asarray(t.reward) - np.asarray(t.mean)[np.arange(25), t.action] for t in (one, other)]
    np.testing.assert_allclose(noise[0], noise[1], atol=1e-12)


@pytest.mark.parametrize("fixed", [False, True])
def test_replay_plays_arrays_back(fixed):
    """What a NumPy twin is given must be what the algorithm sees, to the last bit."""
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(4, 2) if fixed else (9, 4, 2))
    means, noise, variance = rng.normal(size=(9, 4)), rng.normal(size=(9, 4)), rng.uniform(size=9)
    environment = jv.replay_bandit(arms, means, noise, noise_var=variance)
    assert environment.max_rounds == 9 and environment.fixed_arms == fixed
    trace = jv.trace(jv.uniform(), environment, KEY, num_rounds=9)
    k, action = np.arange(9), np.asarray(trace.action)
    np.testing.assert_array_equal(trace.arms, np.broadcast_to(arms, (9, 4, 2)))
    np.testing.assert_array_equal(trace.mean, means)
    np.testing.assert_array_equal(trace.reward, means[k, action] + noise[k, action])
    np.testing.assert_array_equal(trace.noise_var, variance)
    np.testing.assert_allclose(trace.regret, np.cumsum(means.max(axis=1) - means[k, action]), rtol=1e-12)


def test_replay_with_means_and_noise_by_round_only():
    """The short forms: one row of means for fixed arms, one noise value per round."""
    trace = jv.trace(jv.uniform(), jv.replay_bandit(ARMS, ARMS[:, 0], [0.1, 0.2, 0.3]), KEY, num_rounds=3)
    np.testing.assert_allclose(trace.reward, ARMS[np.asarray(trace.action), 0] + [0.1, 0.2, 0.3])


@pytest.mark.parametrize("fresh", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_same_seed_is_the_same_problem_everywhere(fresh):
    """Seed s of run, trace and simulate: one run, three views."""
    environment = jv.linear_bandit(2, 3, noise=jv.noise.uniform(0.2), fresh=fresh)
    algorithm, marks = jv.greedy(2), [1, 7, 20]
    result = jv.simulate(algorithm, environment, key=KEY, num_rounds=20, num_seeds=3, first_seed=4, record_at=marks)
    np.testing.assert_array_equal(result.seeds, [4, 5, 6])
    run_one = jax.jit(lambda s: jv.run(algorithm, environment, KEY, num_rounds=20, seed=s, record_at=marks))
    trace_one = jax.jit(lambda s: jv.trace(algorithm, environment, KEY, num_rounds=20, seed=s))
    for i, seed in enumerate(result.seeds):
        run, trace = run_one(int(seed)), trace_one(int(seed))
        np.testing.assert_allclose(result.regret[i], run.regret, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            result.regret[i], np.asarray(trace.regret)[np.array(marks) - 1], rtol=1e-9, atol=1e-12
        )
        np.testing.assert_allclose(run.records["variance"][-1], trace.noise_var.sum(), rtol=1e-9)
