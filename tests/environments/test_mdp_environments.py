"""Linear mixture MDPs: every constructor keeps the assumptions of the theory, and the known ones have their numbers."""

import functools
import itertools
import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxvar as jv
from jaxvar.environments.classic_mdp import deep_tree, riverswim
from jaxvar.environments.explicit_mdp import (
    TableMdp,
    explicit_mdp,
    feature_norm,
    kernel_mixture_mdp,
    tabular_mdp,
)
from jaxvar.environments.hard_mdp import horizon_dependent_mdp, horizon_free_mdp
from jaxvar.environments.interface import MdpInstance
from jaxvar.environments.linear_mdp import LinearMdpInstance, linear_mdp
from jaxvar.environments.random_mdp import graded_mdp, mixture_mdp

KEYS = jax.random.split(jax.random.key(0), 4)
SIZE = (5, 2, 3, 4)  # S, A, d, H of the drawn models
GIVEN = np.arange(10.0).reshape(5, 2) / 36  # no path of 4 steps collects more than 1

# Two states, two actions, features of both signs: P(1 | s, a) = 1/2 + (1/4, -1/8)[a].
PHI = np.zeros((2, 2, 2, 2))
for _a, _x in enumerate([0.5, -0.25]):
    PHI[:, _a] = [[0.5, -_x], [0.5, _x]]
THETA = np.array([1.0, 0.5])
REWARD = np.array([[0.0, 0.1], [0.25, 0.0]])

_RNG = np.random.default_rng(0)
TRANSITION = _RNG.dirichlet(np.full(4, 0.5), size=(4, 3))
KERNELS = _RNG.dirichlet(np.full(4, 0.5), size=(2, 4, 3))
PAY = _RNG.uniform(size=(4, 3)) / 5
FEATURES = _RNG.dirichlet(np.ones(3), size=(5, 2))
MEASURES = _RNG.dirichlet(np.full(5, 0.5), size=3)

ENVIRONMENTS = {
    **{
        f"mixture-{c}-{name}": lambda c=c, r=r: mixture_mdp(*SIZE, concentration=c, reward=r)
        for c in (0.01, 1.0, 100.0)
        for name, r in [("dense", "dense"), ("sparse", "sparse"), ("given", GIVEN)]
    },
    **{
        f"graded-{q}": lambda q=q: graded_mdp(*SIZE, mix=q, reward=GIVEN, initial=[0.5, 0, 0.5, 0, 0])
        for q in (0.0, 0.3, 1.0)
    },
    "explicit": lambda: explicit_mdp(PHI, REWARD, THETA, 4, initial=[0.25, 0.75]),
    "tabular": lambda: tabular_mdp(TRANSITION, PAY, 5, initial=[0.25, 0.75, 0, 0]),
    "kernels": lambda: kernel_mixture_mdp(KERNELS, [0.25, 0.75], PAY, 5, initial=3),
    "linear": lambda: linear_mdp(*SIZE),
    "linear-given": lambda: linear_mdp(*SIZE, reward=GIVEN, concentration=1.0, feature_concentration=100.0),
    "riverswim": lambda: riverswim(5, 4, initial=2),
    "riverswim-short": lambda: riverswim(2, 3),
    "riverswim-tabular": lambda: riverswim(features="tabular"),
    "deep-tree": deep_tree,
    "deep-tree-reduced": lambda: deep_tree(features="reduced"),
    "horizon-free": lambda: horizon_free_mdp(4, 3, gap=0.05),
    "horizon-free-edge": lambda: horizon_free_mdp(4, 3, gap=1 / 18),
    "horizon-free-episodes": lambda: horizon_free_mdp(2, 5, num_episodes=7),
    "horizon-dependent": lambda: horizon_dependent_mdp(3, 4, gap=0.1),
    "horizon-dependent-edge": lambda: horizon_dependent_mdp(3, 2, gap=0.25),
}
compiled = jax.jit(lambda env, keys: jax.vmap(env.init)(keys))


def each(*without):
    """Every environment but those with these words in their names, which would only compile the same once more."""
    names = [name for name in ENVIRONMENTS if not any(word in name for word in without)]
    return pytest.mark.parametrize("make", [ENVIRONMENTS[name] for name in names], ids=names)


def instances(env, keys=KEYS):
    """One for each key, as NumPy arrays."""
    init = jax.jit(env.init)
    return [jax.tree.map(np.asarray, init(key)) for key in keys]


@functools.cache
def zeros_and_ones(num):
    return np.array(list(itertools.product([0.0, 1.0], repeat=num)))


def brute_force_norm(features):
    """The largest |sum V(s') features[s']| over all V of zeros and ones, through the Gram matrix."""
    v = zeros_and_ones(len(features))
    return math.sqrt(max(0.0, np.max(np.sum((v @ (features @ features.T)) * v, axis=1))))


def largest_path_reward(mdp, horizon):
    """The best path of positive probability from any state."""

    @functools.cache
    def best(s, steps):
        if steps == 0:
            return 0.0
        return max(
            r + max(best(t, steps - 1) for t in np.flatnonzero(mdp.transition[s, a] > 0))
            for a, r in enumerate(mdp.reward[s])
        )

    return max(best(s, horizon) for s in range(len(mdp.reward)))


def optimal(mdp, horizon):
    """V* with ``horizon`` steps to go."""
    value = np.zeros(len(mdp.reward))
    for _ in range(horizon):
        value = np.max(mdp.reward + mdp.transition @ value, axis=1)
    return value


@pytest.mark.variants(9)
@each()
def test_assumptions_hold(make):
    """Confidence sets mean nothing where rows, features, rewards or the parameter leave the theory's bounds."""
    env = make()
    for mdp in instances(env, KEYS[:1] if isinstance(env, TableMdp) else KEYS):
        assert mdp.phi.shape == (env.num_states, env.num_actions, env.num_states, env.dim)
        kernel = mdp.phi @ mdp.theta_star
        np.testing.assert_allclose(mdp.transition, kernel, rtol=0, atol=1e-12)
        np.testing.assert_allclose(kernel.sum(2), 1, rtol=0, atol=1e-9)
        assert mdp.transition.min() >= 0 and kernel.min() >= -1e-9
        assert abs(mdp.initial.sum() - 1) <= 1e-9 and mdp.initial.min() >= 0
        assert max(brute_force_norm(f) for row in mdp.phi for f in row) <= 1 + 1e-9
        assert mdp.reward.min() >= 0
        assert largest_path_reward(mdp, env.horizon) <= 1 + 1e-9
        assert np.linalg.norm(mdp.theta_star) <= float(env.norm_bound) * (1 + 1e-12)


@pytest.mark.variants(8)
@each("given")
def test_batch_equals_loop(make):
    """A seed must not meet another model because it runs beside others, or compiled."""
    env = make()
    batch = compiled(env, KEYS)
    for i, mdp in enumerate(instances(env)):
        for one, many in zip(mdp, batch, strict=True):
            assert one.dtype == many.dtype == np.float64
            np.testing.assert_allclose(one, many[i], rtol=0, atol=1e-14)


@pytest.mark.variants(6)
@each("mixture-1", "deep", "linear-given")
def test_float32_draws_the_same_model(make):
    """The float type would otherwise change the problem, not only its rounding."""
    double = jax.jit(make().init)(KEYS[1])
    jax.config.update("jax_enable_x64", False)
    try:
        single = jax.jit(make().init)(KEYS[1])
    finally:
        jax.config.update("jax_enable_x64", True)
    for one, other in zip(single, double, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(np.asarray(one, float), other, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("make", "shared"), [
    (ENVIRONMENTS["explicit"], "phi reward theta_star transition initial"),
    (lambda: mixture_mdp(*SIZE, model_seed=3), "phi reward theta_star transition initial"),
    (lambda: linear_mdp(*SIZE, reward=GIVEN, features=FEATURES), "phi reward initial features"),
    (ENVIRONMENTS["horizon-free"], "phi reward initial"),
    (ENVIRONMENTS["horizon-dependent"], "phi reward initial"),
])  # fmt: skip
def test_what_no_key_changes_is_held_once(make, shared):
    """One copy of the features per seed would fill the memory; vmap refuses this axis where a key enters."""
    kind = LinearMdpInstance if "features" in shared else MdpInstance
    axes = kind(*(None if name in shared.split() else 0 for name in kind._fields))
    jax.eval_shape(jax.vmap(make().init, out_axes=axes), KEYS)


def test_tabular_mdp_by_hand():
    """A coordinate per (s, a, s'), next states last; RiverSwim's tables give RiverSwim."""
    env = tabular_mdp(TRANSITION, PAY, 5)
    mdp = env.init(KEYS[0])
    assert (env.dim, env.num_states, env.num_actions, env.horizon) == (48, 4, 3, 5)
    np.testing.assert_allclose(mdp.transition, TRANSITION, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(mdp.reward, PAY)
    assert mdp.phi[1, 2, 3, (1 * 3 + 2) * 4 + 3] == 0.5 and np.count_nonzero(mdp.phi) == 48
    np.testing.assert_allclose(env.norm_bound, 2 * np.linalg.norm(TRANSITION))
    assert tabular_mdp(np.full((5, 3, 5), 0.2), np.zeros((5, 3)), 2).dim == 75
    river = riverswim(features="tabular")
    same = tabular_mdp(river.init(KEYS[0]).transition, river.reward, river.horizon)
    for ours, theirs in zip(same.init(KEYS[0]), river.init(KEYS[0]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-15)
    assert float(same.norm_bound) == pytest.approx(float(river.norm_bound), rel=1e-12)


def test_kernel_mixture_by_hand():
    """The mixture is the weighted sum; one kernel of weight 1 is that kernel."""
    env = kernel_mixture_mdp(KERNELS, [0.25, 0.75], PAY, 5)
    mdp = env.init(KEYS[0])
    assert (env.dim, env.num_states, env.num_actions, env.horizon) == (2, 4, 3, 5)
    np.testing.assert_allclose(mdp.transition, 0.25 * KERNELS[0] + 0.75 * KERNELS[1], rtol=0, atol=1e-15)
    np.testing.assert_allclose(mdp.phi[1, 2, 3], KERNELS[:, 1, 2, 3] / math.sqrt(2))
    np.testing.assert_allclose(env.norm_bound, math.sqrt(2 * (0.25**2 + 0.75**2)))
    alone = kernel_mixture_mdp(KERNELS[:1], [1.0], PAY, 5).init(KEYS[0])
    np.testing.assert_array_equal(alone.transition, KERNELS[0])


def test_linear_mdp_by_hand():
    """Both factors are distributions, transitions their product, and the mixture's coordinates pairs (i, s')."""
    env = linear_mdp(*SIZE, features=FEATURES, measures=MEASURES)
    mdp = env.init(KEYS[0])
    assert (env.dim, env.rank, env.num_states, env.num_actions, env.horizon) == (15, 3, 5, 2, 4)
    np.testing.assert_allclose(mdp.transition, np.einsum("sai,it->sat", FEATURES, MEASURES), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(mdp.features, FEATURES)
    np.testing.assert_allclose(mdp.phi[3, 1, 2, 1 * 5 + 2], FEATURES[3, 1, 1] / math.sqrt(5))
    assert np.count_nonzero(mdp.phi) == 5 * 2 * 3 * 5
    weights, *_ = np.linalg.lstsq(FEATURES.reshape(-1, 3), np.ravel(mdp.reward), rcond=None)
    np.testing.assert_allclose(FEATURES @ weights, mdp.reward, rtol=0, atol=1e-12)
    assert np.all((weights >= 0) & (weights <= 1 / 4))
    for drawn in instances(linear_mdp(*SIZE)):
        assert drawn.features.shape == (5, 2, 3) and drawn.features.min() >= 0
        np.testing.assert_allclose(drawn.features.sum(axis=2), 1, rtol=0, atol=1e-12)
        assert np.linalg.matrix_rank(drawn.transition.reshape(-1, 5), tol=1e-9) <= 3


@pytest.mark.slow
def test_the_laws_of_a_linear_mdp():
    """Means 1 / n and variances (1 - 1/n) / n / (n c + 1) of Dirichlet rows, rewards in [0, 1] / H with mean 1 / (2 H).

    Each of 5 statistics of 4,000 problems is compared with 5 of its standard errors: a false alarm in 3e-6 of keys.
    """
    keys = jax.random.split(jax.random.key(3), 4000)
    drawn = jax.jit(jax.vmap(linear_mdp(*SIZE, feature_concentration=0.3, concentration=2.0).init))(keys)
    measures = np.asarray(drawn.theta_star).reshape(-1, 3, 5) / math.sqrt(5)
    features, rewards = np.asarray(drawn.features)[:, 2, 1, 0], np.asarray(drawn.reward)[:, 2, 1]

    def agrees(values, mean):
        return abs(values.mean() - mean) < 5 * values.std() / math.sqrt(len(values))

    for values, n, c in ((features, 3, 0.3), (measures[:, 1, 2], 5, 2.0)):
        assert agrees(values, 1 / n)
        assert agrees((values - 1 / n) ** 2, (1 - 1 / n) / n / (n * c + 1))
    assert agrees(rewards, 1 / 8) and rewards.min() >= 0 and rewards.max() <= 1 / 4


@pytest.mark.slow
def test_a_linear_mdp_that_is_none_has_a_status():
    """Traced tables cannot be refused: the run says that they are wrong."""

    def status(features):
        return jv.run(jv.uniform(), linear_mdp(*SIZE, features=features), KEYS[0], num_episodes=1).status

    found = jax.jit(jax.vmap(status))(np.stack([FEATURES, 1.1 * FEATURES]))
    assert [int(x) for x in found] == [0, jv.status.MODEL]


def test_tables_can_be_swept():
    """Sizes and the bound of each setting must not be taken from the axis of settings."""
    weights = [[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]
    swept = jv.sweep(kernel_mixture_mdp(KERNELS, weights[0], PAY, 5), weights=weights)
    np.testing.assert_allclose(swept.norm_bound, math.sqrt(2) * np.linalg.norm(weights, axis=1))
    tables = np.stack([TRANSITION, KERNELS[0]])
    many = jv.sweep(tabular_mdp(TRANSITION, PAY, 5), transition=tables)
    assert (many.dim, many.num_states, many.num_actions) == (48, 4, 3)
    np.testing.assert_allclose(many.norm_bound, 2 * np.linalg.norm(tables.reshape(2, -1), axis=1))
    drawn = jax.vmap(lambda env: env.init(KEYS[0]))(many)
    np.testing.assert_allclose(drawn.transition, tables, rtol=0, atol=1e-15)


def test_riverswim_mixture_by_hand():
    """The merged ends, the scale and the published sizes are easily off by one."""
    env = riverswim(4, 8)
    mdp = env.init(KEYS[0])
    right = [[0.1, 0.9, 0, 0], [0.05, 0.05, 0.9, 0], [0, 0.05, 0.05, 0.9], [0, 0, 0.05, 0.95]]
    left = np.eye(4)[[0, 0, 1, 2]]
    np.testing.assert_allclose(mdp.transition, np.stack([left, right], 1), rtol=0, atol=1e-15)
    first, last = np.asarray(mdp.phi[0, 1, 0]), np.asarray(mdp.phi[3, 1, 3])
    np.testing.assert_allclose([first, last], np.array([[0, 1, 1], [1, 1, 0]]) / math.sqrt(3))
    np.testing.assert_allclose(mdp.phi[2, 1, 1:], np.eye(3)[::-1] / math.sqrt(3))
    np.testing.assert_allclose(mdp.reward, [[0.005 / 8, 0], [0, 0], [0, 0], [0, 1 / 8]])
    np.testing.assert_allclose(env.norm_bound, math.sqrt(3 * 0.815))
    assert (riverswim().num_states, riverswim().horizon, riverswim().dim) == (10, 100, 3)
    np.testing.assert_array_equal(riverswim(initial=9).initial, np.eye(10)[9])


def test_riverswim_tabular_by_hand():
    """A transposed table would still be a kernel."""
    env = riverswim(features="tabular")
    mdp = env.init(KEYS[0])
    assert (env.num_states, env.horizon, env.dim) == (5, 20, 50)
    right = [[0.3, 0.7, 0, 0, 0], [0.1, 0.6, 0.3, 0, 0], [0, 0.1, 0.6, 0.3, 0], [0, 0, 0.1, 0.6, 0.3],
             [0, 0, 0, 0.1, 0.9]]  # fmt: skip
    np.testing.assert_allclose(mdp.transition, np.stack([np.eye(5)[[0, 0, 1, 2, 3]], right], 1), rtol=0, atol=1e-15)
    np.testing.assert_allclose(mdp.reward[np.array([0, 4]), np.array([0, 1])], [0.005 / 20, 1 / 20])
    assert np.count_nonzero(mdp.reward) == 2


@pytest.mark.parametrize(("features", "ends"), [("mixture", (0.1, 0.95)), ("tabular", (0.3, 0.9))])
def test_riverswim_optimal_value(features, ends):
    """Regret is measured from V*; here by the recursion of the chain, without any table."""
    env = riverswim(features=features)
    left, stay, right = (0.05, 0.05, 0.9) if features == "mixture" else (0.1, 0.6, 0.3)
    last, value = env.num_states - 1, [0.0] * env.num_states
    for _ in range(env.horizon):
        drift = [0.005 / env.horizon + value[0], *value[:-1]]
        swim = [ends[0] * value[0] + (1 - ends[0]) * value[1]]
        swim += [left * value[s - 1] + stay * value[s] + right * value[s + 1] for s in range(1, last)]
        swim += [1 / env.horizon + ends[1] * value[last] + (1 - ends[1]) * value[last - 1]]
        value = [max(pair) for pair in zip(drift, swim, strict=True)]
    mdp = env.init(KEYS[0])
    ours = jv.planning.optimal_values(mdp.transition, mdp.reward, env.horizon)
    np.testing.assert_allclose(ours.value[0], value, rtol=1e-12)
    assert value[0] > 0.1  # swimming all the way pays; drifting collects .005 at most


@pytest.mark.parametrize(("features", "dim"), [("tabular", 450), ("reduced", 91)])
def test_deep_tree_by_hand(features, dim):
    """A leaf in the wrong quarter changes no value, so nothing but the table shows it."""
    env = deep_tree(features=features)
    mdp = env.init(KEYS[0])
    assert (env.dim, env.horizon, env.num_states, env.num_actions) == (dim, 2, 15, 2)
    expected = np.zeros((15, 2, 15))
    expected[0, 0, 1] = expected[0, 1, 2] = 1
    expected[1, 0, [3, 4, 5]] = expected[1, 1, [6, 7, 8]] = 1 / 3
    expected[2, 0, [9, 10, 11]] = expected[2, 1, [12, 13, 14]] = 1 / 3
    expected[range(3, 15), :, range(3, 15)] = 1
    np.testing.assert_allclose(mdp.transition, expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(mdp.reward, np.eye(15)[2][:, None] * np.ones((1, 2)))
    np.testing.assert_array_equal(mdp.initial, np.eye(15)[0])
    np.testing.assert_allclose(optimal(mdp, 2)[:3], [1, 0, 1])


@pytest.mark.parametrize(
    ("env", "base", "chain"),
    [(horizon_free_mdp(4, 6, gap=0.05), 1 / 6, 1), (horizon_dependent_mdp(3, 5, gap=0.07), 1 / 5, 5)],
    ids=["free", "dependent"],
)
def test_hard_mdp_by_hand(env, base, chain):
    """The chance of the goal is delta + <mu, a> in every state of the chain, and the rest of the row is one step on."""
    gap, signs = float(env.gap), np.array(list(itertools.product([-1, 1], repeat=env.dim - 1)))
    alpha = 1 / math.sqrt(1 + gap * (env.dim - 1))
    drawn = []
    for mdp in instances(env, jax.random.split(jax.random.key(1), 32)):
        mu = mdp.theta_star[1:] * math.sqrt(gap) * alpha
        np.testing.assert_allclose(np.abs(mu), gap)
        drawn.append(np.sign(mu))
        chance = base + signs @ mu
        expected = np.zeros((chain + 2, len(signs), chain + 2))
        for h in range(chain):
            expected[h, :, chain + 1], expected[h, :, h + 1] = chance, 1 - chance
        expected[chain, :, chain] = expected[chain + 1, :, chain + 1] = 1
        np.testing.assert_allclose(mdp.transition, expected, rtol=0, atol=1e-14)
        np.testing.assert_allclose(mdp.phi[0, 3, chain + 1], [alpha * base, *(alpha * math.sqrt(gap) * signs[3])])
        np.testing.assert_allclose(np.linalg.norm(mdp.theta_star), env.norm_bound)
        np.testing.assert_allclose(mdp.reward, np.eye(chain + 2)[chain + 1][:, None] / env.horizon + 0 * signs[:, 0])
        np.testing.assert_array_equal(mdp.initial, np.eye(chain + 2)[0])
        best, value = base + gap * (env.dim - 1), 0.0  # V* from x_chain back to x_1
        for h in range(chain, 0, -1):
            value = best * (env.horizon - h) / env.horizon + (1 - best) * value
        np.testing.assert_allclose(optimal(mdp, env.horizon)[0], value)
    assert {-1, 1} == set(np.unique(drawn)) and len(np.unique(drawn, axis=0)) > 2
    assert np.all(np.abs(np.mean(drawn, 0)) < 5 / math.sqrt(32))  # 5 standard errors


def test_hard_mdp_lower_bound():
    """A wrong constant would call a good algorithm impossible; uniform play has exactly twice the bound."""
    env = horizon_free_mdp(3, 2, num_episodes=48)
    mdp = instances(env)[0]
    assert float(env.gap) == pytest.approx(1 / 96)
    assert env.lower_bound == pytest.approx(0.25)
    regret = 48 * (optimal(mdp, 2)[0] - mdp.transition[0, :, 2].mean() / 2)
    assert regret == pytest.approx(2 * env.lower_bound)
    assert horizon_free_mdp(3, 2, num_episodes=11).lower_bound is None
    assert horizon_free_mdp(3, 2, gap=0.05).lower_bound is None
    assert horizon_dependent_mdp(3, 2, num_episodes=48).lower_bound is None
    assert float(horizon_dependent_mdp(3, 2, num_episodes=64).gap) == pytest.approx(1 / 64)


def test_hard_mdp_gap_can_be_swept():
    """Whatever of the model follows from the gap must be computed from the traced one."""
    gaps = [0.01, 0.04]
    env = jv.sweep(horizon_free_mdp(4, 3, num_episodes=100), gap=gaps)
    many = jax.jit(jax.vmap(lambda e: (*e.init(KEYS[0]), e.norm_bound)))(env)
    for i, gap in enumerate(gaps):
        alone = horizon_free_mdp(4, 3, gap=gap)
        for one, other in zip((*alone.init(KEYS[0]), alone.norm_bound), many, strict=True):
            np.testing.assert_allclose(one, other[i], rtol=0, atol=1e-14)


def test_graded_variance():
    """The family must reach zero variance at q = 0 and be ordered by q, or it grades nothing."""
    mean = []
    for q in (0.0, 0.1, 0.3, 0.6):
        variances = []
        for mdp in instances(graded_mdp(*SIZE, mix=q), jax.random.split(jax.random.key(2), 16)):
            value = optimal(mdp, 4)
            variances.append((mdp.transition * (value - (mdp.transition @ value)[:, :, None]) ** 2).sum(2))
            if q == 0:
                np.testing.assert_allclose(np.sort(mdp.transition, 2), np.eye(5)[4] + np.zeros((5, 2, 5)), atol=1e-15)
        mean.append(np.mean(variances))
    assert mean[0] < 1e-28
    assert np.all(np.diff(mean) > 0)


@pytest.mark.parametrize("make", [lambda **k: mixture_mdp(*SIZE, **k), lambda **k: graded_mdp(*SIZE, mix=0.3, **k)])
def test_sparse_reward_is_one_at_most_once(make):
    """A goal that can be collected twice has values above 1, where every clipped algorithm is wrong."""
    for mdp in instances(make(reward="sparse")):
        assert largest_path_reward(mdp, 4) == 1 and set(np.unique(mdp.reward)) == {0, 1}
        np.testing.assert_allclose(mdp.transition[3:, :, 4], 1, rtol=0, atol=1e-15)
        assert np.all(mdp.transition[:3, :, 4] == 0)


def test_concentration():
    """Near 0 base kernels are almost deterministic, for large ones almost uniform."""
    sharp, flat = (instances(mixture_mdp(*SIZE, concentration=c))[0].phi * math.sqrt(3) for c in (0.01, 100.0))
    assert np.mean(sharp.max(2) > 0.99) > 0.75
    assert np.abs(flat - 0.2).max() < 0.2
    assert len(np.unique(sharp.argmax(2))) == 5  # every state is somebody's next


def test_model_seed():
    """Studies over seeds of one model and studies over models are different things."""
    one, *rest = instances(mixture_mdp(*SIZE, model_seed=3))
    assert all(np.array_equal(a, b) for other in rest for a, b in zip(one, other, strict=True))
    assert not np.allclose(one.phi, instances(mixture_mdp(*SIZE, model_seed=4))[0].phi)
    for made in (mixture_mdp, functools.partial(graded_mdp, mix=0.3)):  # the model of a seed is that of its key
        seeded, own = made(*SIZE, model_seed=3).init(jax.random.key(0)), made(*SIZE).init(jax.random.key(3))
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-15), seeded, own)
    free = instances(mixture_mdp(*SIZE))
    for name in ("phi", "theta_star", "reward", "transition"):
        assert all(not np.allclose(getattr(a, name), getattr(b, name)) for a, b in itertools.pairwise(free))


def changed(table, index, value):
    table = np.array(table)
    table[index] = value
    return table


@pytest.mark.parametrize(("changes", "message"), [
    ({"phi": changed(PHI, (1, 0, 0, 0), 0.6)}, r"sum to 1.* state 1, action 0 has 1\.1"),
    ({"theta_star": [1.0, -3.0]}, r"negative: state 0, action 0, next state 1 has -1$"),
    ({"phi": PHI * [1, 4], "theta_star": THETA / [1, 4]}, r"\|phi_V\| .* state 0, action 0 reaches 2\.06155"),
    ({"reward": changed(REWARD, (0, 1), 0.3)}, r"reward: .* 4 steps.* state 0, action 1 collects 1\.2 "),
    ({"reward": changed(REWARD, (1, 1), -0.1)}, r"reward must not be negative: state 1, action 1 has -0\.1"),
    ({"phi": changed(PHI, (1, 0, 1, 1), np.nan)}, r"phi must be finite, got nan at index \(1, 0, 1, 1\)"),
    ({"reward": changed(REWARD, (1, 0), np.inf)}, r"reward must be finite, got inf at index \(1, 0\)"),
    ({"theta_star": [1.0, np.nan]}, r"theta_star must be finite, got nan at index \(1,\)"),
    ({"phi": PHI[0]}, r"phi must have shape \[any, any, any, any\], got \[2, 2, 2\]"),
    ({"phi": PHI[:, :, :1]}, r"phi must have shape \[S, A, S, d\], got \[2, 2, 1, 2\]"),
    ({"reward": REWARD[:1]}, r"reward must have shape \[2, 2\], got \[1, 2\]"),
    ({"theta_star": np.ones(3)}, r"theta_star must have shape \[2\], got \[3\]"),
    ({"initial": 2}, r"initial must be an integer of at least 0 and at most 1, got 2"),
    ({"initial": 0.5}, r"initial must be .*, got 0\.5"),
    ({"initial": [0.5, 0.4]}, r"initial must hold probabilities.* sum 0\.9"),
    ({"initial": [1.5, -0.5]}, r"initial must hold probabilities"),
    ({"initial": [1.0]}, r"initial must have shape \[2\], got \[1\]"),
])  # fmt: skip
def test_explicit_mdp_refuses(changes, message):
    """Tables that are no such MDP would run and give a wrong regret; the message says where to look."""
    good = {"phi": PHI, "reward": REWARD, "theta_star": THETA, "horizon": 4}
    assert explicit_mdp(**good).num_states == 2
    with pytest.raises(ValueError, match=message):
        explicit_mdp(**{**good, **changes})


@pytest.mark.parametrize(("make", "message"), [
    (lambda: tabular_mdp(changed(TRANSITION, (2, 1), 0.5), PAY, 5), r"transition must sum to 1 .* 2, action 1 has 2$"),
    (lambda: tabular_mdp(TRANSITION, 2 * PAY, 5), r"reward: no path may collect more than 1 in 5 steps"),
    (lambda: kernel_mixture_mdp(changed(KERNELS, (1, 2, 1, 0), -3), [1, 0], PAY, 5), r"kernels\[1\] must not be neg"),
    (lambda: kernel_mixture_mdp(KERNELS, [0.5, 0.6], PAY, 5), r"weights must hold probabilities .* sum 1\.1"),
    (lambda: kernel_mixture_mdp(KERNELS, [1.5, -0.5], PAY, 5), r"weights must hold .* got -0\.5 for kernel 1"),
    (lambda: horizon_free_mdp(3, 5, gap=0.1), r"gap must be in \(0, 0\.0833333\] .* got 0\.1"),
    (lambda: horizon_dependent_mdp(3, 5, gap=0.11), r"gap must be in \(0, 0\.1\] .* got 0\.11"),
    (lambda: horizon_free_mdp(9, 5, num_episodes=11), r"num_episodes must be .* at least 12, got 11"),
    (lambda: horizon_free_mdp(3, 5), r"one of num_episodes and gap"),
    (lambda: horizon_free_mdp(3, 5, num_episodes=100, gap=0.01), r"one of num_episodes and gap"),
    (lambda: horizon_free_mdp(14, 5, gap=0.01), r"dim must be .* at most 13, got 14"),
    (lambda: horizon_free_mdp(3, 1, gap=0.01), r"horizon must be .* at least 2 .*, got 1"),
    (lambda: horizon_dependent_mdp(3, 0, gap=0.01), r"horizon must be .* at least 2 .*, got 0"),
    (lambda: riverswim(1), r"num_states must be .* at least 2, got 1"),
    (lambda: riverswim(horizon=0), r"horizon must be .*, got 0"),
    (lambda: riverswim(features="reduced"), r"features must be one of 'mixture', 'tabular', got 'reduced'"),
    (lambda: mixture_mdp(2, 2, 2, 2, reward="sparse"), r"num_states must be .* at least 3, got 2"),
    (lambda: mixture_mdp(*SIZE, reward=GIVEN * 1.01), r"reward: .* state 4, action 1 collects 1\.01"),
    (lambda: graded_mdp(*SIZE, mix=1.1), r"mix must be .* \[0, 1\], got 1\.1"),
    (lambda: mixture_mdp(*SIZE, concentration=0.0), r"concentration must be .*, got 0\.0"),
])  # fmt: skip
def test_factories_refuse(make, message):
    """Numbers that give no model are named at the call."""
    with pytest.raises(ValueError, match=message):
        make()


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.integers(1, 4).flatmap(lambda d: st.lists(st.lists(st.integers(-8, 8), min_size=d, max_size=d), min_size=1)))
def test_feature_norm_is_exact_for_few_states(rows):
    """A norm too small admits features outside the theory, one too large refuses good ones."""
    features = np.array(rows[:10]) / 4
    np.testing.assert_allclose(feature_norm(features), brute_force_norm(features), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("num_states", [17, 18])
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_feature_norm_brackets_for_many_states(num_states, dim):
    """Where not all V are tried, the two bounds must still hold the truth between them."""
    features = np.random.default_rng(num_states * dim).normal(size=(num_states, dim))
    low, high = feature_norm(features)
    exact = brute_force_norm(features)
    assert low <= exact * (1 + 1e-12) and exact <= high * (1 + 1e-12)
    assert low > 0.5 * exact and high < 2 * exact
    np.testing.assert_allclose(feature_norm(np.abs(features)), brute_force_norm(np.abs(features)))
