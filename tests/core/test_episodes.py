"""Episodes: what a trace shows, what seeds share, sweeps, records, one's own algorithms, and what goes wrong."""

import collections
import dataclasses
import functools
import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import blocks, engine, episodes, game
from jaxvar.parameters import pytree
from tests.helpers.programs import watched

KEY = jax.random.key(11)
S, A, D, H = 4, 2, 3, 5
K = 97  # in no array's shape but those of a trace
CAPACITY, SEEDS, WHEN = 5, 12, (1, 30, K)
AT = np.array(WHEN) - 1
RECORDED = ("regret", "variance", "layer_rounds", "optimism", "value_variance", "confidence")
Policy = collections.namedtuple("Policy", "policy")  # a plan without values
slow = functools.partial(pytest.param, marks=pytest.mark.slow)


@pytree
class NoiseLoss(jv.record.ConfidenceEvent):
    name = "noise_loss"  # what the confidence event is decided by, as a record of its own

    def read(self, memory: Any) -> jax.Array:
        return memory.noise_loss.total


RECORD = (*(getattr(jv.record, name)() for name in RECORDED), NoiseLoss())


def world(seed: int = 7, scale: float = 1.0) -> Any:
    rng = np.random.default_rng([seed, 31])
    phi = np.moveaxis(rng.dirichlet(np.full(S, 0.4), size=(S, A, D)), 2, 3) / np.sqrt(D)
    reward, theta_star = scale * rng.uniform(size=(S, A)) / H, rng.dirichlet(np.ones(D)) * np.sqrt(D)
    return jv.explicit_mdp(phi, reward, theta_star, H, initial=[0.5, 0.25, 0.25, 0.0])


def ave(capacity: int = CAPACITY, beta_scale: float = 0.01, num_episodes: int = K, **options: Any) -> Any:
    """With a radius so small that plans learn at once, and that their values are not always optimistic."""
    constants = dataclasses.replace(jv.constants.practical(beta_scale), bias_coef=np.asarray(0.1))
    options = {"norm_bound": 1.8, "constants": constants, "capacity": capacity, **options}
    return jv.ucrl_ave(D, H, num_episodes, **options)


@pytest.mark.parametrize("side_by_side", [False, True])
@pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(ave(), id="ucrl_ave"),
        pytest.param(ave(ties="lowest", intersect=True), id="ucrl_ave-intersect"),
        pytest.param(jv.ucrl_vtr(D, H, radius="stage", beta_scale=0.01), id="ucrl_vtr"),
        slow(jv.ucrl_vtr_plus(D, H, beta_scale=1e-3, norm_bound=0.05), id="ucrl_vtr_plus"),
        slow(jv.hf_ucrl_vtr_plus(D, H, K, beta_scale=1e-3, norm_bound=0.05), id="hf_ucrl_vtr_plus"),
    ],
)
def test_a_plan_that_is_told_the_first_state_is_the_same_from_there(algorithm: Any, side_by_side: bool) -> None:
    """Fails if what is not planned is read, or if another state than the first one is planned."""
    environment = world()
    instance = environment.init(KEY)
    model = episodes.model_of(environment, instance)

    def plans(first: jax.Array, stage: jax.Array, state: jax.Array) -> Any:
        after = algorithm.init(model)
        for there in (1, 2, 0):  # a few steps, so that bounds are not all alike
            plan = algorithm.plan(after, model, key=KEY)
            now = jv.Step(stage, state, plan.policy[stage, state], jnp.int32(there), instance.reward[state, 0])
            after = algorithm.update(after, model, plan, now)
        return algorithm.plan(after, model, key=KEY), algorithm.plan(after, model, key=KEY, first=first)

    firsts, states = jnp.arange(S, dtype=jnp.int32), jnp.array([1, 1, 3, 0], jnp.int32)
    if side_by_side:
        args = (firsts, jnp.int32(1), states)
        found = jax.jit(lambda *v: blocks.spread(*blocks.over_seeds(plans, (S,), v, (True, False, True)), (S,)))(*args)
        seeds = [jax.tree.map(lambda x, i=i: np.asarray(x[..., i]), found) for i in range(S)]
    else:
        played = jax.jit(plans)
        seeds = [jax.tree.map(np.asarray, played(firsts[i], jnp.int32(1), states[i])) for i in range(S)]
    for first, (whole, told) in enumerate(seeds):
        for name in ("q", "value", "policy"):
            ours, theirs = getattr(told, name), getattr(whole, name)
            np.testing.assert_allclose(ours[1:], theirs[1:], rtol=1e-12, atol=1e-14, err_msg=name)
            np.testing.assert_allclose(ours[0, first], theirs[0, first], rtol=1e-12, atol=1e-14, err_msg=name)
        assert np.ptp(whole.value[0]) > 1e-3  # states differ: the wrong one would be seen


@functools.cache
def program(verb: Any, num_seeds: int, **options: Any) -> Any:
    """``jv.run`` or ``jv.trace`` under a caller's own ``vmap`` over seeds and ``jit``, compiled once."""

    def play(environment: Any, seeds: jax.Array) -> Any:
        return jax.vmap(lambda seed: verb(ave(), environment, KEY, num_episodes=K, seed=seed, **options))(seeds)

    return jax.jit(play).lower(world(), jnp.arange(num_seeds)).compile()


run_program = functools.partial(program, jv.run, SEEDS, record_at=WHEN, recorders=RECORD)
trace_program = functools.partial(program, jv.trace, 4)


def run(environment: Any) -> Any:
    return jax.tree.map(np.asarray, run_program()(environment, jnp.arange(SEEDS)))


@functools.cache
def traced(seed: int) -> Any:
    return jax.tree.map(lambda x: np.asarray(x[seed]), trace_program()(world(), jnp.arange(4)))


def simulate(algorithm: Any, environment: Any, **options: Any) -> Any:
    shared = {"key": KEY, "num_episodes": K, "num_seeds": SEEDS, "record_at": WHEN, "recorders": RECORD, "chunk": 8}
    return jv.simulate(algorithm, environment, **{**shared, **options})


def assert_same(got: Any, expected: Any) -> None:
    assert set(got) == set(expected)
    for name, value in got.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=1e-9, err_msg=name)


def values(instance: Any, policy: np.ndarray | None = None) -> np.ndarray:
    """The value of a policy ``[H, S]``, or the best one, ``[H + 1, S]``."""
    value = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        q = instance.reward + instance.phi @ instance.theta_star @ value[h + 1]
        value[h] = q.max(1) if policy is None else q[np.arange(S), policy[h]]
    return value


def path_variance(t: Any, k: int, value: np.ndarray) -> float:
    """The sum along episode k of the variances of ``value[h + 1]`` in the next state."""
    rows = (t.instance.phi @ t.instance.theta_star)[t.state[k], t.action[k]]
    means = np.sum(rows * value[1:], axis=1)
    return float(np.sum(rows * (value[1:] - means[:, None]) ** 2))


# --- runs, traces, simulations and sweeps ---


def test_a_trace_can_be_checked_again() -> None:
    """Fails if actions, transitions, regret or variance are not those of the policy and the model traced."""
    t, given = traced(0), world()
    assert t.status == 0 and t.status_round == 0
    assert {getattr(t, name).shape for name in ("state", "action", "next_state", "layer", "weight")} == {(K, H)}
    assert t.policy.shape == (K, H, S) and t.value.shape == (K, H + 1, S)
    assert t.regret.shape == t.variance.shape == t.learner.steps.shape == (K,)
    for name in ("phi", "reward", "theta_star", "initial"):
        np.testing.assert_array_equal(getattr(t.instance, name), getattr(given, name))
    np.testing.assert_array_equal(t.next_state[:, :-1], t.state[:, 1:])
    np.testing.assert_array_equal(t.action, np.take_along_axis(t.policy, t.state[:, :, None], 2)[:, :, 0])
    assert np.all((given.phi @ given.theta_star)[t.state, t.action, t.next_state] > 0)
    assert set(t.state[:, 0]) == {0, 1, 2} and set(t.next_state.ravel()) == set(range(S))
    best = values(given)
    gaps = [best[0, s] - values(given, t.policy[k])[0, s] for k, s in enumerate(t.state[:, 0])]
    assert len(np.unique(np.round(gaps, 9))) > 3  # there is something to see
    np.testing.assert_allclose(t.regret, np.cumsum(gaps), rtol=0, atol=1e-12)
    np.testing.assert_allclose(t.variance, [path_variance(t, k, best) for k in range(K)], rtol=0, atol=1e-12)


def test_the_records_are_sums_over_the_trace() -> None:
    """Fails if a record leaves out a step, counts another quantity, or is read at another episode."""
    t, got = traced(3), {name: x[3] for name, x in run(world()).records.items()}
    optimistic = np.all(t.value >= values(world()) - 1e-9, axis=(1, 2))
    radii = np.asarray(jax.jit(jax.vmap(ave().confidence))(t.learner).beta_hat)
    error = t.learner.layers.theta_hat - world().theta_star
    q = 4.0 ** -np.arange(1, CAPACITY + 1)
    sigma = q[:, None, None] * np.linalg.inv(t.learner.layers.scaled_inv)
    distance2 = np.einsum("kld,klde,kle->kl", error, sigma, error)
    inside = distance2 <= radii**2
    assert 0 < optimistic.sum() < K and inside.any() and not inside.all()  # neither record is trivial here
    expected = {
        "regret": t.regret,
        "variance": np.cumsum(t.variance),
        "layer_rounds": np.cumsum(np.sum(t.layer[:, :, None] == np.arange(CAPACITY + 1), axis=1), axis=0),
        "optimistic": np.cumsum(optimistic),
        "value_variance": np.cumsum([path_variance(t, k, t.value[k]) for k in range(K)]),
        "confidence": np.logical_and.accumulate(inside, axis=0),
        "noise_loss": distance2 + t.learner.layers.loss - q / 1.8**2 * np.sum(world().theta_star ** 2),
    }
    assert_same(got, {name: x[AT] for name, x in expected.items()})
    np.testing.assert_array_equal(got["layer_rounds"].sum(1), H * np.array(WHEN))


def test_run_simulate_and_trace_are_the_same_seeds() -> None:
    """Fails if a seed plays otherwise in a caller's jit and vmap, beside others, or when it is repeated."""
    mapped, one, two = run(world()), simulate(ave(), world()), simulate(ave(), world())
    one.raise_if_failed()
    np.testing.assert_array_equal(one.episodes, WHEN)
    np.testing.assert_array_equal(mapped.episodes, np.tile(WHEN, (SEEDS, 1)))
    assert_same(mapped.records, one.records)
    jax.tree.map(np.testing.assert_array_equal, one.records, two.records)
    assert len(np.unique(one.variance[:, -1].round(9))) == SEEDS  # the seeds really differ
    for seed in range(4):
        np.testing.assert_allclose(traced(seed).regret[AT], one.regret[seed], rtol=0, atol=1e-9)


def test_memory_follows_the_records() -> None:
    """Fails if a run keeps an array with an entry per episode: only a trace may."""
    found = []
    for compiled in (run_program(), trace_program()):
        shapes = re.findall(r"\w\d*\[([\d,]+)\]", compiled.as_text())
        found.append({int(n) for dims in shapes for n in dims.split(",")})
    assert {S, A, D, H, CAPACITY, SEEDS, len(WHEN)} <= found[0] and K in found[1]  # the search finds what there is
    assert K not in found[0]


def test_what_cannot_be_played_is_refused() -> None:
    """Fails if a wrong pair of algorithm and environment gets as far as a program."""
    bandit, episodes, rounds = jv.linear_bandit(D, 4), {"num_episodes": K}, {"num_rounds": K}
    calls = [
        (ave(), world(), rounds, "num_episodes must be given for the episodic environment"),
        (ave(), world(), {**rounds, **episodes}, "num_rounds must not"),
        (jv.oful(D), bandit, episodes, "num_rounds must be given for the bandit environment"),
        (ave(), world(), {"num_episodes": 0}, "num_episodes must be an integer of at least 1, got 0"),
        (jv.save(D, K), world(), episodes, "'plan'.*episodic environment ExplicitMdp, got Save"),
        (ave(), bandit, rounds, "'select'.*bandit environment LinearBandit, got UcrlAve"),
        (jv.ucrl_vtr(D + 1), world(), episodes, "environment's dim 3, got dim 4"),
        (jv.ucrl_ave(D, H + 1, K), world(), episodes, "environment's horizon 5, got horizon 6"),
        (jv.ucrl_vtr(D, H + 1), world(), episodes, "environment's horizon 5, got horizon 6"),
    ]
    for algorithm, environment, num, message in calls:
        with pytest.raises(ValueError, match=message):
            jv.run(algorithm, environment, KEY, **num)
        with pytest.raises(ValueError, match=message):
            jv.simulate(algorithm, environment, key=KEY, num_seeds=1, **num)
    for swept in ((jv.sweep(ave(), delta=[0.1]), world()), (ave(), jv.sweep(world(), reward=[world().reward]))):
        with pytest.raises(ValueError, match="must be one setting, got a sweep"):
            jv.run(*swept, KEY, num_episodes=K)


def test_the_horizon_of_ucrl_vtr_may_be_left_out() -> None:
    """Fails if the model's horizon is not the one that is planned for, or if another one is taken silently."""
    made = world().init(KEY)
    model = jv.Model(phi=made.phi, reward=made.reward, horizon=H)
    plans = [a.plan(a.init(model), model) for a in (jv.ucrl_vtr(D), jv.ucrl_vtr(D, H), jv.ucrl_vtr(dim=D, horizon=H))]
    for plan in plans[1:]:
        np.testing.assert_array_equal(plan.q, plans[0].q)
    with pytest.raises(ValueError, match="algorithm's horizon 6, got 5"):
        jv.ucrl_vtr(D, H + 1).init(model)


@pytest.mark.slow
def test_a_sweep_of_an_algorithm() -> None:
    """Fails if a number of the algorithm is fixed in the program, or if a sweep or a chunk plays another setting."""
    numbers = {"beta_scale": (0.01, 0.03), "delta": (0.01, 0.3), "norm_bound": (1.8, 4.0), "num_episodes": (K, 10**6)}
    with watched() as watch:
        simulate(ave(), world(), num_seeds=2, chunk=3)  # the program without sweeps
        before = watch.num_compiled()
        result = simulate(jv.sweep(ave(), **numbers), world(), num_seeds=2, chunk=3)
        assert watch.num_compiled() == before + 1 and result.chunk == 3
    assert len(np.unique(result.value_variance[:, 0, -1])) == 16  # every number matters
    for i, point in enumerate(itertools.product(*numbers.values())):
        alone = simulate(ave(**dict(zip(numbers, point, strict=True))), world(), num_seeds=2)
        assert_same({name: x[i] for name, x in result.records.items()}, alone.records)


@pytest.mark.parametrize(("name", "numbers"), [("gap", (0.02, 0.1)), slow("mix", (0, 0.6))])
def test_a_sweep_of_an_environment(name: str, numbers: tuple[float, float]) -> None:
    """Fails if the problem of a setting is another than that of an environment made with its number, or is none."""
    factory = {"gap": (jv.horizon_free_mdp, 2, 3), "mix": (jv.graded_mdp, S, A, D, H)}[name]
    make, options = functools.partial(*factory), {"num_seeds": 3, "recorders": game.DEFAULT_RECORDERS}
    with watched() as watch:
        simulate(jv.uniform(), make(**{name: 0.1}), **options)  # the program without sweeps
        before = watch.num_compiled()
        result = simulate(jv.uniform(), jv.sweep(make(**{name: 0.1}), **{name: numbers}), **options)
        assert watch.num_compiled() == before + 1
    for i, number in enumerate(numbers):
        alone = simulate(jv.uniform(), make(**{name: number}), **options)
        assert_same({n: x[i] for n, x in result.records.items()}, alone.records)
    assert np.all(result.regret[0, :, -1] != result.regret[1, :, -1])
    if name == "mix":
        assert np.all(result.variance[0] == 0) and np.all(result.variance[1, :, -1] > 0)
        return
    result = simulate(jv.uniform(), jv.sweep(make(gap=0.1), gap=(0.02, 0.5)), **options)  # no factory has seen the 0.5
    np.testing.assert_array_equal(result.status, [[0] * 3, [jv.status.MODEL] * 3])
    with pytest.raises(jv.SimulationError, match=r"3 of 6.*\n.*seed 0 at .*gap.*0\.5.*round 1, .*not distributions"):
        result.raise_if_failed()


# --- algorithms and environments of one's own, what seeds share, and what goes wrong ---


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Replay:
    """Plays given policies, one per episode, by counting steps; it asks for no key and has no values."""

    policies: Any  # [K, H, S]

    def init(self, model):
        return jnp.int32(0)

    def plan(self, state, model):
        return Policy(self.policies[state // model.horizon])

    def update(self, state, model, plan, step):
        return state + 1


class Drawn:
    """A problem drawn from the key; no pytree, as the interface allows."""

    horizon = H

    def init(self, key):
        weight = jax.random.uniform(key, (D,)) + 0.1
        instance = world(1).init(key)
        theta = weight / jnp.sum(weight) * np.sqrt(D)
        return instance._replace(theta_star=theta, transition=jnp.dot(instance.phi, theta))


play = jax.jit(lambda algorithm, seed: jv.trace(algorithm, Drawn(), KEY, num_episodes=40, seed=seed))


def test_algorithms_meet_the_same_problems() -> None:
    """Fails if what one algorithm does changes the model, the first states or the luck that the next one meets."""
    algorithms = (jv.uniform(), jv.ucrl_vtr(D, norm_bound=1.8, beta_scale=0.1))
    models = []
    for seed in range(2):
        one, two = (jax.tree.map(np.asarray, play(algorithm, seed)) for algorithm in algorithms)
        jax.tree.map(np.testing.assert_array_equal, one.instance, two.instance)
        np.testing.assert_array_equal(one.state[:, 0], two.state[:, 0])
        assert not np.array_equal(one.next_state, two.next_state)
        models.append((one.instance.theta_star.tolist(), one.state[:, 0].tolist()))
        for t in (one, two):  # and with the same policies there is no difference at all
            again = play(Replay(t.policy), seed)
            for name in ("state", "action", "next_state"):
                np.testing.assert_array_equal(getattr(again, name), getattr(t, name))
            np.testing.assert_allclose(again.regret, t.regret, rtol=0, atol=1e-12)
            assert again.value is None and not again.layer.any() and not again.weight.any()
    assert models[0][0] != models[1][0] and models[0][1] != models[1][1]


def test_an_algorithm_of_ones_own() -> None:
    """Fails if run, trace or simulate ask more of an algorithm than the interface does."""
    algorithm = Replay(jax.random.randint(KEY, (40, H, S), 0, A, jnp.int32))
    options = {"num_episodes": 40, "record_at": 2, "recorders": (*game.DEFAULT_RECORDERS, jv.record.layer_rounds())}
    shown, alone = play(algorithm, 1), jax.jit(lambda a: jv.run(a, Drawn(), KEY, seed=1, **options))(algorithm)
    together = simulate(algorithm, Drawn(), num_seeds=2, **options)
    together.raise_if_failed()
    assert_same(alone.records, {name: x[1] for name, x in together.records.items()})
    np.testing.assert_allclose(alone.regret, shown.regret[np.array([19, 39])], rtol=1e-12)
    np.testing.assert_array_equal(alone.records["layer_rounds"], [[20 * H, 0], [40 * H, 0]])


SHARED = {
    "explicit": (world, "phi reward theta_star transition initial"),
    "model_seed": (lambda: jv.mixture_mdp(S, A, D, H, model_seed=3), "phi reward theta_star transition initial"),
    "mixture": (lambda: jv.mixture_mdp(S, A, D, H), "initial"),
    "own": (Drawn, "phi reward initial"),
}


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "name", [pytest.param("mixture", marks=pytest.mark.slow), *sorted(SHARED.keys() - {"mixture"})]
)
def test_what_seeds_share_is_held_once(monkeypatch: Any, name: str) -> None:
    """Fails if tables that no seed changes get a seeds' axis, or if those that differ are taken from one seed."""
    (make, shared), words, compiled = SHARED[name], jv.random.key_words(KEY), engine._compiled

    def begin(seed: jax.Array) -> Any:
        return episodes.begin(jv.uniform(), make(), game.seed_keys(words, seed), ())

    _, (fixed, _) = blocks.over_seeds(begin, (8,), (jnp.arange(8),), (True,))
    assert {n for n in fixed.instance._fields if not getattr(fixed.instance, n)} == set(shared.split())
    assert fixed.streams and set(fixed.facts) == {"transition" not in shared}
    lowered = []  # the program that would be compiled for a block of eight seeds
    monkeypatch.setattr(engine, "_compiled", lambda *a: lambda *b: lowered.append(compiled(*a).lower(*b).as_text()))
    with pytest.raises(AttributeError):  # there is nothing to go on with
        jv.simulate(jv.ucrl_vtr(D, norm_bound=1.8), make(), key=KEY, num_seeds=8, num_episodes=K, chunk=8)
    loops = [line for line in lowered[0].splitlines() if "stablehlo.while" in line]  # with the types of all they hold
    assert any(f"tensor<{S}x{A}x{S}x{D}x8x1xf64>" in line for line in loops) == ("phi" not in shared)
    assert any(f"tensor<{S}x{A}x{S}x{D}xf64>" in line for line in loops) == ("phi" in shared)


@pytest.mark.parametrize(("capacity", "scale"), [(1, 1.0), slow(CAPACITY, 1e-4)])
def test_too_few_layers_are_reported_and_repaired(capacity: int, scale: float) -> None:
    """Fails if a run that needs deeper layers says nothing, or if simulate's rerun differs from a good run."""
    small = run(world(scale=1e-4))  # small features start in deep layers
    assert np.all(small.status == jv.status.CAPACITY) and np.all(small.status_round == 1)
    grown, enough = (simulate(ave(c), world(scale=scale)) for c in (capacity, capacity + 4))
    grown.raise_if_failed()
    assert grown.capacity == enough.capacity == capacity + 4
    assert_same(grown.records, enough.records)
    assert np.all(grown.layer_rounds[:, 1, capacity + 1 :].sum(1) > 30)  # in 30 episodes


NAN, NONFINITE, MODEL = np.nan, jv.status.NONFINITE, jv.status.MODEL
BROKEN = [
    *(("phi", (2, 1), NAN, NONFINITE), ("phi", (3, 0, 3, 0), NAN, NONFINITE), ("theta_star", (0,), NAN, NONFINITE)),
    *(("reward", (3, 0), NAN, NONFINITE | MODEL), ("reward", (3, 0), np.inf, NONFINITE | MODEL)),
    *(("reward", (3, 0), 1.01, MODEL), ("phi", (2, 1), 0.1, MODEL), ("phi", (2, 1), -0.1, MODEL)),
    *(("initial", (0,), NAN, MODEL), ("initial", (0,), 0.1, MODEL)),
]


@pytest.mark.parametrize(("field", "index", "value", "bits"), BROKEN)
def test_tables_that_are_no_problem_are_reported(field: str, index: tuple[int, ...], value: float, bits: int) -> None:
    """Fails if NaN, rows that are no distributions, or too much reward run through without a word."""
    table = np.array(getattr(world(), field))
    table[index] = value
    result = run(dataclasses.replace(world(), **{field: table}))  # no factory would let it pass
    assert np.all(result.status & bits == bits) and np.all(result.status_round == 1)
    assert np.all(np.isfinite(result.regret) | (result.status & NONFINITE > 0)[:, None])
