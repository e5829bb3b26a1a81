"""What the theory says about UCRL-AVE and UCRL-VTR, and what must not change their results."""

import dataclasses
import functools
import itertools
from typing import Any

import jax
import numpy as np
import pytest

import jaxvar as jv
from jaxvar.algorithms.interface import Side
from jaxvar.algorithms.optimistic_plan import Plan
from tests.helpers.problems import small_mdps

KEY = jax.random.key(5)
S, A, D, H = 4, 2, 3, 6
K, CLAIMED, NUM_LAYERS = 40, 10, 9  # L = ceil(1.5 log2(10 H)): the theorem's K need not be the one played
PRESETS = ("paper", "paper_fixed", "tight", "practical")


def preset(name: str, **numbers: float) -> Any:
    """A preset for episodes with some numbers changed; without its name, so that all share one program."""
    made = jv.constants.for_episodes(getattr(jv.constants, name)())
    leaves = {n: np.asarray(x, float) for n, x in numbers.items()}
    return dataclasses.replace(made, label="custom", setting="any", **leaves)


def ave(capacity: int, constants: Any, num_episodes: float = CLAIMED, **options: Any) -> Any:
    return jv.ucrl_ave(D, H, num_episodes, constants=constants, capacity=capacity, **{"norm_bound": 2.0, **options})


@functools.cache
def worlds() -> dict[str, Any]:
    return {**small_mdps(S, A, D, H), "riverswim": jv.riverswim(S, H)}


def stack(trees: Any) -> Any:
    return jax.tree.map(lambda *x: np.stack(x), *trees)


@functools.partial(jax.jit, static_argnames="num_episodes")
def traces(algorithm: Any, environment: Any, num_episodes: int = K) -> Any:
    """One trace for each entry of the leading axis of algorithm and environment."""
    return jax.vmap(lambda a, e: jv.trace(a, e, KEY, num_episodes=num_episodes))(algorithm, environment)


def traced(algorithms: Any, environments: Any, **options: Any) -> list[Any]:
    out = jax.tree.map(np.asarray, traces(stack(algorithms), stack(environments), **options))
    return [jax.tree.map(lambda x, i=i: x[i], out) for i in range(len(algorithms))]


def features(t: Any) -> tuple[np.ndarray, np.ndarray]:
    """``phi_{V_{h+1}}(s_h, a_h) [K, H, d]`` and its target ``V_{h+1}(s_{h+1}) [K, H]``, from what a trace shows."""
    following = t.value[:, 1:]
    feature = np.einsum("khtd,kht->khd", t.instance.phi[t.state, t.action], following)
    return feature, np.take_along_axis(following, t.next_state[:, :, None], 2)[:, :, 0]


# --- identities, from traces replayed in NumPy ---

SWITCHES = list(itertools.product(("tight", "paper_fixed"), (5, 6, 8), (1, 20), (1 - 1e-9, 1 + 1e-9)))


def switched(name: str, layer: int, episode: int, factor: float) -> Any:
    """Constants whose switch to the empirical variance lies at ``factor`` times the width of a layer in an episode."""
    log1 = np.log(4 * episode**2 * H**2 * NUM_LAYERS / 0.01)
    return preset(name, beta_scale=1e-3, fallback_log=2.0, switch=factor * 2.0**layer / np.sqrt(log1))


BATCH = {
    **{(name, scale): preset(name, beta_scale=scale) for name in PRESETS for scale in (1.0, 1e-2, 1e-3)},
    **{case: switched(*case) for case in SWITCHES},
}
IDENTITIES = (jv.ridge.log_det, jv.ridge.empirical_variance)
REPLAYED = [("paper", 1.0), ("tight", 1e-3), ("practical", 1e-2), "few layers"]


@functools.cache
def all_traces() -> dict[Any, Any]:
    """Every set of constants on a noisy problem, all layers stored; and an L that small features make felt."""
    noisy = worlds()["mixture"]
    cases = {name: (ave(NUM_LAYERS, c), noisy) for name, c in BATCH.items()}
    small = dataclasses.replace(noisy, reward=noisy.reward * 1e-4)
    cases["few layers"] = (ave(NUM_LAYERS, preset("practical"), num_episodes=2), small)  # L = ceil(1.5 log2 12) = 6
    return dict(zip(cases, traced(*zip(*cases.values(), strict=True)), strict=True))


@pytest.mark.parametrize("capacity", [1, 3])
def test_bounds_of_layers_that_are_not_stored(capacity: int) -> None:
    """Fails if the closed form of their least bound misses a layer: plans then depend on the capacity."""
    played, noisy = [all_traces()[name] for name in BATCH], worlds()["mixture"]
    model = jv.Model(phi=noisy.phi, reward=noisy.reward, horizon=H)

    def known(t: Any, constants: Any) -> Any:
        """The states before each episode in which no deeper layer had learned, with the layers stored alone."""
        first = jax.tree.map(np.asarray, ave(NUM_LAYERS, constants).init(model))
        states = jax.tree.map(lambda x, y: np.concatenate([x[None], y[:-1]]), first, t.learner)
        return states._replace(layers=jax.tree.map(lambda x: x[:, :capacity], states.layers))

    algorithms = stack([ave(capacity, c) for c in BATCH.values()])
    states = stack([known(t, c) for t, c in zip(played, BATCH.values(), strict=True)])
    plan = jax.jit(jax.vmap(lambda a, s: jax.vmap(lambda x: a.plan(x, model).value)(s)))
    matters = 0
    for name, t, value in zip(BATCH, played, plan(algorithms, states), strict=True):
        usable = np.cumsum(np.any(t.layer > capacity, axis=1)) - np.any(t.layer > capacity, axis=1) == 0
        assert t.status == 0
        np.testing.assert_allclose(value[usable], t.value[usable], rtol=0, atol=1e-12, err_msg=str(name))
        matters += np.any(t.value[usable, : H - 1] < 1)
    assert matters > len(BATCH) / 2


@pytest.mark.parametrize("capacity", [1, 4])
def test_layers_beyond_the_last_bound_nothing(capacity: int) -> None:
    """Fails if a layer beyond L, stored or not, bounds a value: L is 1, and the bound of that layer is written out."""
    world, algorithm = worlds()["mixture"], ave(capacity, preset("practical", beta_scale=0.0), alpha=0.5)
    phi, reward = np.asarray(world.phi), np.asarray(world.reward) / 10
    model, theta = jv.Model(phi=phi, reward=reward, horizon=H), np.ones(D)
    state = algorithm.init(model)  # its radius is that of the bias, 2^-l in layer l: no empty layer is above another
    theta_hat, count = state.layers.theta_hat.at[0].set(theta), state.layers.count.at[0].set(1)
    state = state._replace(layers=state.layers._replace(theta_hat=theta_hat, count=count))
    value = np.asarray(jax.jit(algorithm.plan)(state, model).value)
    f = np.einsum("satd,t->sad", phi, value[H - 1])
    q = reward + f @ theta + 2.0 * np.linalg.norm(f, axis=2)  # 2^-1 2^1 / sqrt(lam), with lam = 1/4
    assert np.all(f @ theta > 0) and q.max() < 1
    np.testing.assert_allclose(value[H - 2], q.max(1), rtol=0, atol=1e-12)


def test_features_down_to_the_last_layers_ask_for_capacity() -> None:
    """Fails if a feature that some layer up to L would learn from is dropped in silence, or a smaller one is not."""
    algorithm = ave(1, preset("paper"), num_episodes=2, norm_bound=50.0)  # L = 6, of which one is stored
    model = jv.Model(phi=np.zeros((S, A, S, D)), reward=np.zeros((S, A)), horizon=H)
    step, direction = jv.Step(*np.zeros((4, 1), np.int32)[:, 0], np.float64(0)), np.array([0.6, 0.0, 0.8])

    def status(size: Any) -> Any:
        plan = Plan(None, np.zeros((H + 1, S)), None, jax.numpy.broadcast_to(size * direction, (H, S, D)))
        return algorithm.update(algorithm.init(model), model, plan, step).status

    sizes = 4.0**-6 / 50 * np.array([0.99, 1.01])
    np.testing.assert_array_equal(jax.jit(jax.vmap(status))(sizes), [0, jv.status.CAPACITY])


@pytest.mark.parametrize("name", REPLAYED, ids=str)
def test_layers_weights_and_regressions_follow_from_the_trace(name: Any) -> None:
    """Fails if a step is learned in another layer, with another weight or target than Algorithm 2 says."""
    t, num_layers = all_traces()[name], 6 if name == "few layers" else NUM_LAYERS
    lam = 1 / 2.0**2
    q = 4.0 ** -np.arange(1, num_layers + 1)
    sigma, target = q[:, None, None] * lam * np.eye(D), np.zeros((num_layers, D))
    learned: list[list[tuple[float, np.ndarray, float]]] = [[] for _ in q]
    feature, value = features(t)
    assert not np.any(feature[:, -1]) and not np.any(t.layer[:, -1]) and not np.any(t.weight[:, -1])
    log_dets, variances = (np.asarray(jax.vmap(lambda v, f=f: f(v))(t.learner.layers)) for f in IDENTITIES)
    for k, h in np.ndindex(K, H):
        x, y, layer, w = feature[k, h], value[k, h], t.layer[k, h], t.weight[k, h]
        widths = np.sqrt(np.einsum("d,lde,e->l", x, np.linalg.inv(sigma), x)) / np.sqrt(q)  # in units of 2^-l
        clear = np.abs(widths - 1) > 1e-9
        assert np.all((widths < 1)[: layer - 1 if layer else None] | ~clear[: layer - 1 if layer else None])
        if layer:
            i = layer - 1
            assert widths[i] >= 1 or not clear[i]
            assert abs(w * widths[i] - 1) < 1e-9 and w <= 1 + 1e-12
            sigma[i] += w**2 * np.outer(x, x)
            target[i] += w**2 * y * x
            learned[i].append((w, x, y))
        if h < H - 1:
            continue
        layers = jax.tree.map(lambda v, k=k: v[k], t.learner.layers)
        assert not np.any(layers.count[num_layers:])
        theta = np.linalg.solve(sigma, target[:, :, None])[:, :, 0]
        pasts = zip(learned, theta, strict=True)
        emp = np.array([sum(w**2 * (y - e @ x) ** 2 for w, x, y in past) for past, e in pasts])
        counts = np.array([len(past) for past in learned])
        np.testing.assert_array_equal(layers.count[:num_layers], counts)
        np.testing.assert_allclose(layers.theta_hat[:num_layers], theta, rtol=0, atol=1e-9)
        np.testing.assert_allclose(layers.scaled_inv[:num_layers], q[:, None, None] * np.linalg.inv(sigma), rtol=1e-9)
        np.testing.assert_allclose(variances[k, :num_layers], emp, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(log_dets[k, :num_layers], np.linalg.slogdet(sigma)[1], rtol=0, atol=1e-9)
        assert np.all(counts * np.log1p(q) <= D * np.log1p(counts / (q * D * lam)) + 1e-9)
    assert t.layer.max() == (6 if name == "few layers" else 3) and max(map(len, learned)) > 20


# --- the confidence event, and what follows from it ---

NUM_SEEDS, PLAYED = 200, 100
PROVED = ("paper", "paper_fixed", "tight")
TINY = {"beta_scale": 1e-3, "bias_coef": 0.2}


@functools.cache
def runs() -> dict[Any, Any]:
    """Records of many seeds, problems and constants, all from one program; delta is 1e-6."""
    cases: dict[Any, Any] = {}
    for (name, world), scale, seed in itertools.product(worlds().items(), (1.0, 0.3), range(2)):
        small = dataclasses.replace(world, reward=world.reward * scale)
        for made in (*PROVED, "tiny"):
            constants = preset("practical", **TINY) if made == "tiny" else preset(made)
            options = {"norm_bound": float(world.norm_bound), "delta": 1e-6}
            cases["optimism", made, name, scale, seed] = (ave(7, constants, PLAYED, **options), small, seed)
    for made, seed in itertools.product(("tight", "tiny"), range(NUM_SEEDS)):
        constants = preset("tight", **(TINY if made == "tiny" else {}))
        cases["coverage", made, seed] = (ave(7, constants, PLAYED, delta=1e-6), worlds()["mixture"], seed)

    def play(algorithm: Any, environment: Any, seed: Any) -> Any:
        record = (jv.record.optimism(), jv.record.confidence(), jv.record.layer_rounds())
        return jv.run(algorithm, environment, KEY, num_episodes=PLAYED, seed=seed, record_at=1, recorders=record)

    algorithms, environments, seeds = zip(*cases.values(), strict=True)
    out = jax.jit(jax.vmap(play))(stack(algorithms), stack(environments), np.array(seeds))
    assert not np.any(out.status)
    records = {name: np.asarray(x[:, 0]) for name, x in out.records.items()}
    return {case: {name: x[i] for name, x in records.items()} for i, case in enumerate(cases)}


def test_plans_are_optimistic() -> None:
    """Fails if a bound is too low; with proved constants by chance in 48 runs with probability below 5e-5."""
    played = {case: r["optimistic"] for case, r in runs().items() if case[0] == "optimism"}
    for case, optimistic in played.items():
        assert optimistic == PLAYED or case[1] == "tiny", case
    assert any(n < PLAYED for n in played.values())  # the record can tell


def test_the_confidence_event_of_the_tight_constants_holds() -> None:
    """Fails if a radius is too small; by chance in 200 seeds with probability below 2e-4."""
    held = {made: [runs()["coverage", made, s]["confidence"] for s in range(NUM_SEEDS)] for made in ("tight", "tiny")}
    assert np.all(held["tight"])
    assert np.mean(np.all(held["tiny"], axis=1)) < 0.5  # the record can tell
    assert np.all([runs()["coverage", "tight", s]["layer_rounds"][1:4] > 0 for s in range(NUM_SEEDS)])


def test_the_confidence_event_of_ucrl_vtr_holds() -> None:
    """Fails if the radius is too small or its determinant wrong; by chance in 200 seeds with probability below 2e-4."""
    environment = worlds()["mixture"]
    algorithm = jv.ucrl_vtr(D, norm_bound=float(environment.norm_bound), delta=1e-6, lam=0.3, value_bound=0.9)
    trace = jax.jit(jax.vmap(lambda seed: jv.trace(algorithm, environment, KEY, num_episodes=PLAYED, seed=seed)))
    learner = jax.tree.map(np.asarray, trace(np.arange(NUM_SEEDS)).learner)
    sigma = np.linalg.inv(learner.regression.sigma_inv)
    np.testing.assert_allclose(
        learner.regression.log_det, np.linalg.slogdet(sigma)[1] - D * np.log(0.3), rtol=1e-9, atol=1e-9
    )
    noise = 0.9 / 2 * np.sqrt(2 * np.log(1e6) + np.linalg.slogdet(sigma / 0.3)[1])
    radius = noise + np.sqrt(0.3) * float(environment.norm_bound)
    shown = jax.jit(jax.vmap(jax.vmap(algorithm.confidence)))(learner).beta_hat
    np.testing.assert_allclose(shown[:, :, 0], radius, rtol=1e-9)
    error = learner.regression.theta_hat - environment.theta_star
    distance = np.sqrt(np.einsum("skd,skde,ske->sk", error, sigma, error))
    assert np.all(distance <= radius)
    assert np.mean(np.any(distance > 0.02 * noise + 0.1, axis=1)) > 0.5  # and not because nothing is far


def test_one_informative_step_is_a_bandit() -> None:
    """Fails if UCRL-AVE and AVE-UCB differ in anything but the times at which their radii are refreshed."""
    environment, num_episodes = jv.horizon_free_mdp(4, 2, gap=0.05), 400
    bound, constants = float(environment.norm_bound), jv.constants.practical(0.02)
    shared = {"constants": constants, "ties": "lowest", "capacity": 5}  # all of the L = ceil(1.5 log2 8) layers
    episodic = jv.ucrl_ave(4, 2, 4, norm_bound=bound, **shared)
    bandit = jv.ave_ucb(4, 4 * 2, cap=1.0, **shared)
    assert episodic.num_layers == bandit.num_layers == 5
    play = jax.jit(lambda: jv.trace(episodic, environment, KEY, num_episodes=num_episodes))
    with pytest.warns(UserWarning, match="built for num_episodes=4 and plays 400"):  # on purpose: L is small
        t = jax.tree.map(np.asarray, play())
    assert t.status == 0
    np.testing.assert_array_equal(t.value[:, 1], np.tile([0, 0, 0.5], (num_episodes, 1)))
    arms = bound * 0.5 * t.instance.phi[0, :, 2]  # B phi_V(x_1, a) with V = (0, 0, 1/2), since lambda = 1 / B^2
    first = episodic.init(jv.Model(phi=t.instance.phi, reward=t.instance.reward, horizon=2))
    before = jax.tree.map(lambda x, y: np.concatenate([np.asarray(x)[None], y[:-1]]), first, t.learner)
    radii = jax.jit(jax.vmap(episodic.confidence))(before).beta_hat

    def pull(state: Any, given: Any) -> Any:
        state = state._replace(beta_hat=given[0])
        side = Side(jax.numpy.zeros(len(arms)))
        choice = bandit.select(state, arms, KEY, side)
        return bandit.update(state, choice, jax.numpy.asarray(arms)[choice.action], given[1], side), choice

    rewards = 0.5 * (t.next_state[:, 0] == 2)
    choice = jax.jit(lambda *given: jax.lax.scan(pull, bandit.init(), given)[1])(radii, rewards)
    np.testing.assert_array_equal(choice.action, t.action[:, 0])
    np.testing.assert_array_equal(choice.layer, t.layer[:, 0])
    np.testing.assert_allclose(choice.weight, t.weight[:, 0], rtol=1e-9)
    assert len(np.unique(t.action[:, 0])) >= 4 and t.layer.max() >= 3


def test_uniform_play_loses_what_the_average_action_does() -> None:
    """Fails if actions are not uniform or regret is not exact; by chance (5 standard errors) less than once in 1e6."""
    environment, num_episodes = worlds()["riverswim"], 20
    result = jv.simulate(jv.uniform(), environment, key=KEY, num_seeds=512, num_episodes=num_episodes, record_at=1)
    result.raise_if_failed()
    transition, best, average = environment.phi @ environment.theta_star, np.zeros(S), np.zeros(S)
    for _ in range(H):
        best = np.max(environment.reward + transition @ best, axis=1)
        average = np.mean(environment.reward + transition @ average, axis=1)
    regret = result.regret[:, -1]
    expected, error = num_episodes * (best - average)[0], regret.std() / np.sqrt(512)
    assert 0 < error < 0.02 * expected
    assert abs(regret.mean() - expected) < 5 * error


@pytest.mark.parametrize(
    "make", [lambda x: ave(2, preset("paper"), K, delta=x), lambda x: jv.ucrl_vtr(D, beta_scale=x)]
)
def test_numbers_of_an_algorithm_can_be_mapped_over(make: Any) -> None:
    """Fails if a caller's vmap over a number of the algorithm meets a table that all of them share."""
    world = worlds()["riverswim"]  # made outside of the trace, whichever test comes first
    play = jax.vmap(lambda x: jv.run(make(x), world, KEY, num_episodes=K, record_at=3).regret)
    assert jax.eval_shape(play, np.array([0.1, 0.5])).shape == (2, 3)


def test_float32_meets_the_same_problems() -> None:
    """Fails if the float type changes the problem, is not kept, or breaks the recursions."""
    make = functools.partial(jv.horizon_free_mdp, D, H, gap=0.05)
    double = jax.jit(make().init)(jv.random.fold_in(jv.random.fold_in(KEY, 2), 0))
    jax.config.update("jax_enable_x64", False)
    try:
        algorithm = jv.ucrl_ave(D, H, 300, norm_bound=1.1, constants=jv.constants.practical(), capacity=5)
        t = jax.jit(lambda: jv.trace(algorithm, make(), KEY, num_episodes=300, seed=2))()
    finally:
        jax.config.update("jax_enable_x64", True)
    assert t.status == 0 and t.layer.max() >= 3
    for one, other in zip(t.instance, double, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    for x in jax.tree.leaves((t.regret, t.value, t.learner)):
        assert x.dtype in (np.float32, np.int32) and np.all(np.isfinite(x))


@pytest.mark.parametrize("recorder", [jv.record.optimism(), jv.record.value_variance()])
def test_records_of_values_need_values(recorder: Any) -> None:
    """Fails if a record means nothing, on a bandit or for plans without values, and is kept nevertheless."""
    for environment, num in ((worlds()["riverswim"], "num_episodes"), (jv.linear_bandit(2, 3), "num_rounds")):
        with pytest.raises(ValueError, match=f"record: '{recorder.name}' needs episodes whose plans have a `value`"):
            jax.eval_shape(lambda e=environment, n=num: jv.run(jv.uniform(), e, KEY, recorders=(recorder,), **{n: 3}))


# --- constants ---


def test_presets_for_episodes() -> None:
    """Fails if numbers printed for a bandit are used in episodes, or changed ones are guessed at."""
    c = jv.constants
    for name in ("paper", "paper_fixed", "practical"):
        bandit, episodes = getattr(c, name)(), getattr(c, name)(setting="episodes")
        numbers = [[float(getattr(x, n)) for n in c.number_names()] for x in (bandit, episodes, c.for_episodes(bandit))]
        assert numbers[0] != numbers[1] == numbers[2]
        assert c.for_episodes(episodes) is episodes
        for factory in (jv.save, jv.ave_ucb):
            with pytest.raises(ValueError, match=f"constants must be a bandit's, got '{name}' with setting 'episodes'"):
                factory(2, 100, constants=episodes)
        changed = dataclasses.replace(bandit, emp_coef=np.asarray(3.0))
        with pytest.raises(ValueError, match=rf"emp_coef of the bandit preset '{name}' was changed to .*3.*'episodes'"):
            jv.ucrl_ave(2, 3, 100, constants=changed)
    printed = jv.ucrl_ave(2, 3, 100, constants=c.paper(0.07)).constants
    names = ("beta_scale", "sqrt_coef", "emp_coef", "log_coef", "floor_coef", "range_coef", "bias_coef", "switch")
    assert [float(getattr(printed, n)) for n in names] == [0.07, 16, 64, 8, 32, 6, 1, 64]
    assert c.for_episodes(c.practical()).beta_scale == c.practical(setting="episodes").beta_scale
    chosen = c.practical(0.3)
    assert c.for_episodes(chosen) is chosen and c.for_episodes(c.tight()).setting == "any"
