"""Defects that were found in the core once: each of these tests failed before its repair."""

import inspect
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.algorithms.catalogue import CLAIMS

KEY = jax.random.key(21)
BANDITS = {claim.factory: getattr(jv, claim.factory) for claim in CLAIMS if claim.setting == "bandit"}
BANDITS = {name: make for name, make in BANDITS.items() if "dim" in inspect.signature(make).parameters}
NETS = ("voful", "voful2")
SMALL_NET = {"cells": 4, "num_directions": 3, "num_scales": 2, "every": 1}
OTHERS = {"num_rounds": 100, "threshold": 0.2}


def build(name, dim, **options):
    """An algorithm by its factory's name, with whatever else it must be given."""
    names = inspect.signature(BANDITS[name]).parameters
    given = {n: v for n, v in OTHERS.items() if n in names}
    return BANDITS[name](dim, **{**given, **(SMALL_NET if name in NETS else {}), **options})


# --- any dimension, arms of one's own and arms that all seeds share ---

DIMS = (1, 2, 12, 13, 33, 64, 80)
QUICK_NAMES = ("oful", "save", "ave_ucb", "weighted_oful_plus", "lin_ts", "losan")  # one or two of each family
QUICK_WORLDS = ("replayed, changing", "given")  # the first failed above d = 12


def cases(dims):
    return pytest.mark.parametrize(
        ("name", "dim"), [(n, d) for n in BANDITS for d in ((1, 2, 3) if n in NETS else dims) if d in dims]
    )


def arms_of(num, dim, *lead):
    arms = np.random.default_rng(dim).normal(size=(*lead, num, dim))
    return arms / np.linalg.norm(arms, axis=-1, keepdims=True)


def worlds(dim):
    """Arms of each seed's own and arms that all share, fixed and anew in each round."""
    noise, rng = jv.noise.two_point(0.1), np.random.default_rng(0)
    fixed, fresh, theta = arms_of(5, dim), arms_of(5, dim, 3), arms_of(1, dim)[0]
    return {
        "given": jv.linear_bandit(arms=fixed, noise=noise),
        "replayed": jv.replay_bandit(fixed, fixed @ theta, 0.1 * rng.normal(size=3)),
        "replayed, changing": jv.replay_bandit(fresh, fresh @ theta, 0.1 * rng.normal(size=3)),
        "own": jv.linear_bandit(dim, 5, noise=noise),
        "own, changing": jv.linear_bandit(dim, 5, noise=noise, fresh=True),
    }


def assert_plays(name, dim, world):
    out = jv.simulate(build(name, dim), worlds(dim)[world], key=KEY, num_rounds=3, num_seeds=2, record_at=3)
    assert not out.status.any(), (world, out.status)
    assert np.all(np.isfinite(out.regret)) and np.all(out.regret >= 0), world


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", QUICK_NAMES)
def test_some_algorithms_play_in_a_large_dimension(name):
    """Sums are written out, grouped or looped over by their length, over a block that arms have or do not have."""
    for world in QUICK_WORLDS:
        assert_plays(name, 13, world)


@pytest.mark.slow
@cases(DIMS)
def test_every_algorithm_plays_in_every_dimension(name, dim):
    """The same in more of them, with every kind of arms."""
    for world in worlds(dim):
        assert_plays(name, dim, world)


# --- other units of reward ---

K = 40
NOISE, BOUND = 0.3, 1.0


def scaled_world(scale, fresh):
    """The same problem in other units: theta*, means and noise times ``scale``."""
    rng = np.random.default_rng(3)
    arms = rng.normal(size=(K, 5, 2) if fresh else (5, 2))
    arms *= rng.uniform(0.6, 1, size=(*arms.shape[:-1], 1)) / np.linalg.norm(arms, axis=-1, keepdims=True)
    theta = np.array([0.6, -0.5])
    noise = rng.uniform(-NOISE, NOISE, size=K)
    return jv.replay_bandit(
        arms,
        scale * (arms @ theta),
        scale * noise,
        noise_var=np.full(K, (scale * NOISE) ** 2 / 3),
        theta_star=scale * theta,
    )


def told(scale):
    return {"noise_bound": NOISE * scale, "theta_bound": BOUND * scale}


# What is measured in rewards besides R and B is scaled too: the floor alpha of a standard deviation, which is
# 1 / sqrt(K) where it cannot be given.
IN_UNITS = {
    "oful": lambda s: jv.oful(2, **told(s)),
    "oful, data-free": lambda s: jv.oful(2, radius="data_free", **told(s)),
    "greedy": lambda s: jv.greedy(2, theta_bound=BOUND * s),
    "confidence_ball": lambda s: jv.confidence_ball(2, beta_scale=0.05, **told(s)),
    "cw_oful": lambda s: jv.cw_oful(2, 0.2, **told(s)),
    "weighted_oful": lambda s: jv.weighted_oful(2, beta_scale=0.1, **told(s)),
    "weighted_oful_plus": lambda s: jv.weighted_oful_plus(2, K, alpha=0.1 * s, beta_scale=0.1, **told(s)),
    "losan": lambda s: jv.losan(2, **told(s)),
    "lofav": lambda s: jv.lofav(2, K, **told(s)),
    "lin_ts": lambda s: jv.lin_ts(2, K, **told(s)),
    "lin_ts, agrawal_goyal": lambda s: jv.lin_ts(2, scale="agrawal_goyal", **told(s)),
    "lin_ts, bayes": lambda s: jv.lin_ts(2, scale="bayes", **told(s)),
    "weighted_lin_ts": lambda s: jv.weighted_lin_ts(2, 100 / s**2, beta_scale=0.1, **told(s)),
    "voful": lambda s: jv.voful(2, K, **SMALL_NET, **told(s)),
    "voful2": lambda s: jv.voful2(2, K, **SMALL_NET, **told(s)),
}
ABSOLUTE = {"sup_lin_ucb"}  # its levels 2^-s and its 1 / sqrt(T) are widths in rewards of size 1, as published


for _name, _make in BANDITS.items():  # any other that is told R and B
    if {"noise_bound", "theta_bound"} <= set(inspect.signature(_make).parameters) and _name not in ABSOLUTE:
        IN_UNITS.setdefault(_name, lambda s, name=_name: build(name, 2, **told(s)))


def assert_only_units_change(name, fresh, scales, rtol):
    play = jax.jit(lambda a, e: jv.trace(a, e, KEY, num_rounds=K))
    plain = play(IN_UNITS[name](1.0), scaled_world(1.0, fresh))
    assert int(plain.status) == 0
    if fresh:
        assert np.unique(plain.action).size > 1
    for scale in scales:
        other = play(IN_UNITS[name](scale), scaled_world(scale, fresh))
        assert int(other.status) == 0
        np.testing.assert_array_equal(other.action, plain.action)
        np.testing.assert_allclose(np.asarray(other.regret, np.float64) / scale, plain.regret, rtol=rtol)


@pytest.mark.variants(6)
@pytest.mark.parametrize("fresh", [pytest.param(False, marks=pytest.mark.slow), True], ids=["fixed", "fresh"])
@pytest.mark.parametrize("name", IN_UNITS)
def test_units_of_reward_do_not_matter(name, fresh):
    """Ties used to be judged in units of 1: rewards of size 1e-30 were all tied, and play was random."""
    scales = (1e-30, 2.0**-100, *(() if name == "weighted_lin_ts" else (1e20,)))  # there K would be below 1
    assert_only_units_change(name, fresh, scales, 1e-9)


QUICK = ("oful", "greedy", "losan", "lofav")


@pytest.mark.variants(3)
@pytest.mark.parametrize("fresh", [False, True], ids=["fixed", "fresh"])
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in IN_UNITS])
def test_units_of_reward_do_not_matter_in_float32(name, fresh):
    """The same where numbers are short."""
    with jax.enable_x64(False):
        assert_only_units_change(name, fresh, (2.0**-40, 1e-12), 1e-4)


@pytest.mark.parametrize("fresh", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["fixed", "fresh"])
def test_sup_lin_ucb_in_other_units(fresh):
    """Its widths are absolute: in quarters of the unit it plays alike two levels deeper, in tiny ones by its bound."""

    def make(scale, **options):
        # T is in the threshold 1 / sqrt(T), which follows the units, and in log(T / delta), which must not.
        bounds = {"noise_bound": NOISE * scale, "theta_bound": 0.8 * scale, "beta_scale": 0.1}  # no half width above 1
        return jv.sup_lin_ucb(2, 100 / scale**2, delta=0.01 / scale**2, **bounds, **options)

    play = jax.jit(lambda a, e: jv.trace(a, e, KEY, num_rounds=K))
    plain = play(make(1.0, capacity=6), scaled_world(1.0, fresh))
    quarter = play(make(0.25, capacity=8), scaled_world(0.25, fresh))
    assert int(plain.status) == int(quarter.status) == 0
    np.testing.assert_array_equal(quarter.action, plain.action)
    np.testing.assert_array_equal(quarter.layer, np.where(plain.layer > 0, plain.layer + 2, 0))
    np.testing.assert_allclose(quarter.regret / 0.25, plain.regret, rtol=1e-9)
    tiny = play(jv.sup_lin_ucb(2, 100, **told(1e-30)), scaled_world(1e-30, fresh))
    longest = np.argmax(np.linalg.norm(tiny.arms, axis=2), axis=1)
    assert int(tiny.status) == 0 and not np.any(tiny.layer)
    np.testing.assert_array_equal(tiny.action, longest)  # nothing is ever learned, so the longest is the widest


# --- more layers than were stored ---


def short_arms():
    arms = 0.01 * np.array([[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]])
    return jv.linear_bandit(arms=arms, theta_star=np.array([0.6, 0.8]), noise=jv.noise.two_point(0.1))


@pytest.mark.parametrize("name", ["save", pytest.param("ave_ucb", marks=pytest.mark.slow)])
def test_run_and_trace_store_more_layers_by_themselves(name):
    """Arms of norm 0.01 begin in layer 4 or deeper; only simulate used to notice that fewer are stored."""
    algorithm, environment = build(name, 2, capacity=1), short_arms()
    with pytest.raises(jv.SimulationError, match="capacity"):
        jax.jit(lambda a, e: jv.run(a, e, KEY, num_rounds=30))(algorithm, environment).raise_if_failed()
    run = jv.run(algorithm, environment, KEY, num_rounds=30, record_at=5)
    trace = jv.trace(algorithm, environment, KEY, num_rounds=30)
    assert int(run.status) == int(run.status_round) == int(trace.status) == 0
    run.raise_if_failed()
    trace.raise_if_failed()
    assert np.max(trace.layer) > 1
    many = jv.simulate(algorithm, environment, key=KEY, num_rounds=30, num_seeds=1, record_at=5)
    np.testing.assert_allclose(run.regret, many.regret[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.asarray(trace.regret)[np.asarray(run.rounds) - 1], run.regret, rtol=1e-9, atol=1e-12)


def test_a_default_capacity_grows_too():
    """Nobody asked for few layers here: they were chosen for arms of norm 1."""
    algorithm, environment = jv.save(2, 30), short_arms()
    assert int(jax.jit(lambda a: jv.run(a, environment, KEY, num_rounds=30).status)(algorithm)) == jv.status.CAPACITY
    assert int(jv.run(algorithm, environment, KEY, num_rounds=30).status) == 0


@pytest.mark.parametrize("play", [jv.run, jv.trace])
def test_inside_jit_the_status_says_what_to_do(play):
    """There nothing can be played again: the failure names the round, the cause and both remedies."""
    compiled = jax.jit(lambda a: play(a, short_arms(), KEY, num_rounds=30)[-2:])
    status, status_round = compiled(jv.save(2, 100, capacity=1))
    assert int(status) == jv.status.CAPACITY and int(status_round) == 1
    failed = jax.jit(lambda a: play(a, short_arms(), KEY, num_rounds=30))(jv.save(2, 100, capacity=1))
    with pytest.raises(jv.SimulationError, match=r"round 1, .*capacity.*; build .* larger capacity=.* outside of jit"):
        failed.raise_if_failed()
    mapped = jax.vmap(lambda s: jv.run(jv.save(2, 100, capacity=1), short_arms(), KEY, num_rounds=9, seed=s))
    with pytest.raises(jv.SimulationError, match=r"3 of 3 runs; the first in round 1, .*capacity="):
        jax.jit(mapped)(jnp.arange(3)).raise_if_failed()


# --- assumptions that a pair is known to violate ---


def warned(algorithm, environment, play, **length):
    """The messages of a call, all from this file."""
    length = length or {"num_rounds": 5}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if play is jv.simulate:
            play(algorithm, environment, key=KEY, num_seeds=1, **length)
        else:
            play(algorithm, environment, KEY, **length)
    caught = [w for w in caught if issubclass(w.category, UserWarning)]
    assert all(w.filename == __file__ for w in caught)  # where the user can do something about it
    return [str(w.message) for w in caught]


def noisy(std=0.5, **options):
    return jv.linear_bandit(2, 3, noise=jv.noise.two_point(std), **options)


PLAYS = pytest.mark.parametrize("play", [jv.run, jv.trace, jv.simulate])


@PLAYS
def test_a_run_longer_than_the_theorems(play):
    """Past its K a bound says nothing."""
    (message,) = warned(jv.save(2, 4, capacity=2), noisy(), play)
    assert "Save" in message and "num_rounds=4" in message and "plays 5" in message
    assert not warned(jv.save(2, 5, capacity=2), noisy(), play)


@PLAYS
def test_noise_above_the_bound_that_was_told(play):
    """Confidence sets are then wrong, with nothing to show for it."""
    (message,) = warned(jv.oful(2, noise_bound=0.1), noisy(), play)
    assert "Oful" in message and "noise_bound=0.1" in message and "noise_bound=0.5" in message
    assert not warned(jv.oful(2, noise_bound=0.5), noisy(), play)


@PLAYS
def test_arms_longer_than_the_bound_that_was_told(play):
    """Likewise."""
    (message,) = warned(jv.oful(2, norm_bound=0.7, radius="data_free"), noisy(norm_bound=1.5), play)
    assert "norm_bound=0.7" in message and "norm_bound=1.5" in message
    assert not warned(jv.oful(2, norm_bound=1.5, radius="data_free"), noisy(norm_bound=1.5), play)


@pytest.mark.parametrize("play", [*(pytest.param(p, marks=pytest.mark.slow) for p in (jv.run, jv.trace)), jv.simulate])
def test_episodes_too(play):
    """With episodes for rounds, and theta's norm for that of arms."""
    environment = jv.mixture_mdp(3, 2, 2, 2)
    made = {"capacity": 2, "constants": jv.constants.practical()}
    bound = float(environment.norm_bound)
    length, norm = warned(jv.ucrl_ave(2, 2, 3, norm_bound=1.0, **made), environment, play, num_episodes=4)
    assert "num_episodes=3" in length and "plays 4" in length
    assert "norm_bound=1 " in norm and f"norm_bound={bound:g}" in norm
    assert not warned(jv.ucrl_ave(2, 2, 4, norm_bound=bound, **made), environment, play, num_episodes=4)


def test_each_assumption_is_named_once_and_the_worst_of_a_sweep():
    """One sentence for all settings, with the smallest of ours and the largest of theirs."""
    algorithm = jv.sweep(jv.lofav(2, 4, num_layers=1), noise_bound=[0.2, 0.4, 2.0])
    environment = jv.sweep(noisy(), std=[0.1, 0.5, 0.3])
    length, bound = warned(algorithm, environment, jv.simulate)
    assert "num_rounds=4" in length
    assert "noise_bound=0.2 " in bound and "noise_bound=0.5:" in bound


@pytest.mark.parametrize(
    ("algorithm", "environment"),
    [
        (jv.oful(2, noise_bound=0.5), noisy()),
        (jv.oful(2, noise_bound=3**0.5 * 0.1), jv.linear_bandit(2, 3, noise=jv.noise.uniform(0.1))),
        (jv.oful(2), noisy(norm_bound=3.0)),  # the determinant's radius has no use for a bound on arms
        (jv.cw_oful(2, 0.2, radius="determinant"), noisy(norm_bound=3.0)),
        (jv.greedy(2), noisy(std=4.0)),  # nothing is claimed of it
        (jv.oful(2, fixed_radius=1.0), noisy(std=4.0)),
        (jv.uniform(), noisy(std=4.0)),
        (jv.lin_ts(2, 2, scale="bayes"), noisy()),  # K is not used
        (jv.oful(2, noise_bound=1e-3), jv.replay_bandit(np.eye(2), np.ones(2), np.ones(5))),  # nobody knows
    ],
    ids=["equal", "rounded", "oful", "cw_oful", "greedy", "fixed_radius", "uniform", "bayes", "replay"],
)
def test_no_warning_where_all_is_right(algorithm, environment):
    """A warning that is wrong once is not read again."""
    assert not warned(algorithm, environment, jv.run)


def test_traced_numbers_are_not_compared():
    """They have none yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.jit(lambda bound: jv.run(jv.oful(2, noise_bound=bound), noisy(), KEY, num_rounds=5).regret)(0.1)


# --- numbers whose squares overflow ---


@pytest.mark.parametrize(
    "name", [n for n, make in BANDITS.items() if "noise_bound" in inspect.signature(make).parameters]
)
def test_a_bound_whose_square_overflows_is_refused(name):
    """In float32 1e18 was taken, and its square times a logarithm was infinite."""
    with jax.enable_x64(False):
        build(name, 2, noise_bound=1e3)
        for bound in (1e18, 1e39):
            with pytest.raises(ValueError, match=r"^noise_bound must"):
                build(name, 2, noise_bound=bound)
