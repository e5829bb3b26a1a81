"""Simulations: seeds, sweeps, records and the transformations a caller may wrap around a run."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvar as jv
from jaxvar import parameters
from tests.helpers.processes import output
from tests.helpers.programs import watched

KEY = jax.random.key(7)
K = 120
run_script = functools.partial(output, "-c")


def make(name, **kwargs):
    if name == "oful":
        return jv.oful(2, **kwargs)
    return getattr(jv, name)(2, K, constants=jv.constants.practical(), capacity=3, **kwargs)


def world(fresh, std=0.3):
    return jv.linear_bandit(2, 4, noise=jv.noise.two_point(std), fresh=fresh)


CASES = [("save", False), ("save", True), pytest.param("oful", False, marks=pytest.mark.slow)]
IDS = ["save-fixed", "save-fresh", "oful-fixed"]


@jax.tree_util.register_static
class ActionHash:
    """A recorder from outside the package: a number that depends on every action so far."""

    name = "actions"

    def init(self, algorithm, instance):
        return jnp.uint32(0)

    def update(self, memory, event, algorithm, instance):
        return memory * jnp.uint32(31) + event.action.astype(jnp.uint32)

    def read(self, memory):
        return memory


RECORD = (jv.record.regret(), jv.record.variance(), ActionHash())


def simulate(algorithm, environment, **kwargs):
    options = {"key": KEY, "num_rounds": K, "num_seeds": 40, "record_at": 10, "recorders": RECORD}
    return jv.simulate(algorithm, environment, **{**options, **kwargs})


@functools.partial(jax.jit, static_argnames=("num_rounds", "record_at"))
def run(algorithm, environment, key, seed=0, num_rounds=K, record_at=10):
    return jv.run(algorithm, environment, key, num_rounds=num_rounds, seed=seed, record_at=record_at, recorders=RECORD)


def assert_same(got, expected):
    """The same actions; everything else to 1e-9."""
    np.testing.assert_array_equal(got["actions"], expected["actions"])
    for name in ("regret", "variance"):
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-9, atol=1e-9)


# --- seeds ---


@pytest.mark.parametrize(("name", "fresh"), CASES, ids=IDS)
def test_seeds_do_not_depend_on_the_chunk(name, fresh):
    # The size of a chunk is a matter of speed: it must never decide what a seed plays. 24 leaves a chunk to fill up.
    algorithm, environment = make(name), world(fresh)
    whole = simulate(algorithm, environment, chunk=40)
    assert np.unique(whole.actions[:, -1]).size > 30  # the seeds really differ
    for chunk in (8, 16, 24) if name == "oful" else (24,):
        part = simulate(algorithm, environment, chunk=chunk)
        assert part.chunk == chunk
        assert_same(part.records, whole.records)


def test_smaller_blocks_play_the_same():
    # A chunk that is no multiple of a whole block is played in smaller ones.
    algorithm, environment = make("oful"), world(False)
    assert_same(simulate(algorithm, environment, chunk=5).records, simulate(algorithm, environment, chunk=24).records)


@pytest.mark.parametrize(("name", "fresh"), CASES[:2], ids=IDS[:2])
def test_same_chunk_same_bits(name, fresh):
    # Whoever repeats a simulation gets its numbers to the last bit.
    one, two = (simulate(make(name), world(fresh), chunk=24) for _ in range(2))
    for record in one.records:
        np.testing.assert_array_equal(one.records[record], two.records[record])


@pytest.mark.parametrize(("name", "fresh"), CASES, ids=IDS)
def test_seed_of_simulate_is_seed_of_run(name, fresh):
    # A seed that looks odd in a simulation can be played again alone.
    algorithm, environment = make(name), world(fresh)
    result = simulate(algorithm, environment, chunk=24)
    for seed in (0, 13, 39):
        alone = run(algorithm, environment, KEY, seed)
        np.testing.assert_array_equal(alone.rounds, result.rounds)
        assert_same(alone.records, {n: x[seed] for n, x in result.records.items()})


def test_first_seed_continues_the_numbering():
    # More seeds can be added to a finished simulation.
    algorithm, environment = make("oful"), world(False)
    whole = simulate(algorithm, environment, chunk=24)
    rest = simulate(algorithm, environment, chunk=24, first_seed=13, num_seeds=27)
    np.testing.assert_array_equal(whole.seeds, np.arange(40))
    np.testing.assert_array_equal(rest.seeds, np.arange(13, 40))
    assert_same(rest.records, {n: x[13:] for n, x in whole.records.items()})


@pytest.mark.parametrize(("name", "fresh"), CASES, ids=IDS)
def test_neighbours_do_not_matter(name, fresh):
    # Seeds share vector registers and nothing else: seeds 5..23 meet other neighbours here, at other places.
    algorithm, environment = make(name), world(fresh)
    one = simulate(algorithm, environment, chunk=24, num_seeds=24)
    two = simulate(algorithm, environment, chunk=24, num_seeds=24, first_seed=5)
    for record in one.records:
        np.testing.assert_array_equal(one.records[record][5:], two.records[record][:19])


def test_a_failing_neighbour_does_not_spread():
    # One seed's NaN must stay its own.
    algorithm, environment = make("oful"), world(False)
    stds = jnp.array([0.3, jnp.nan, 0.3])

    def play(std):
        schedule = dataclasses.replace(environment.noise.schedule, std=std)
        noisy = dataclasses.replace(environment, noise=dataclasses.replace(environment.noise, schedule=schedule))
        return run(algorithm, noisy, KEY)

    out = jax.vmap(play)(stds)
    np.testing.assert_array_equal(np.asarray(out.status) != 0, [False, True, False])
    for i in (0, 2):
        assert_same({n: x[i] for n, x in out.records.items()}, run(algorithm, environment, KEY).records)


# --- sweeps ---


@pytest.fixture
def watch():
    with watched() as programs:
        yield programs


DELTAS, SCALES, STDS = (0.01, 0.2), (0.02, 0.05, 0.1, 0.5, 2.0), (0.1, 0.4)


def swept(name, deltas=DELTAS, scales=SCALES):
    return jv.sweep(make(name), delta=deltas, beta_scale=scales)


def single(name, delta, scale):
    if name == "oful":
        return make(name, delta=delta, beta_scale=scale)
    return getattr(jv, name)(2, K, delta=delta, constants=jv.constants.practical(scale), capacity=3)


@pytest.mark.parametrize(
    ("name", "fresh"),
    [("save", False), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("ave_ucb", True), ("oful", False)))],
)
def test_a_sweep_is_one_program_and_equals_single_simulations(watch, name, fresh):
    # Twenty settings for the price of one compilation, and each is the simulation one would have run by hand.
    options = {"num_seeds": 3, "chunk": 24}
    simulate(single(name, DELTAS[0], SCALES[0]), world(fresh, STDS[0]), **options)  # the program without sweeps
    before = watch.num_compiled()
    result = simulate(swept(name), jv.sweep(world(fresh), std=STDS), **options)
    assert watch.num_compiled() == before + 1
    assert result.regret.shape == (10, 2, 3, 10)
    assert result.status.shape == (10, 2, 3)
    assert [dict(p) for p in result.points[0]] == [
        {"delta": d, "beta_scale": s} for d, s in itertools.product(DELTAS, SCALES)
    ]
    assert [dict(p) for p in result.points[1]] == [{"std": s} for s in STDS]

    # Equal objects made again compile nothing, and neither do other numbers.
    again = simulate(swept(name), jv.sweep(world(fresh), std=STDS), **options)
    np.testing.assert_array_equal(again.regret, result.regret)
    other = simulate(
        swept(name, (0.03, 0.3), (0.1, 0.2, 0.3, 0.4, 0.6)), jv.sweep(world(fresh), std=(0.2, 0.3)), **options
    )
    assert not np.array_equal(other.regret, result.regret)
    assert watch.num_compiled() == before + 1

    for (i, (delta, scale)), (j, std) in itertools.product(
        enumerate(itertools.product(DELTAS, SCALES)), enumerate(STDS)
    ):
        alone = simulate(single(name, delta, scale), world(fresh, std), **options)
        assert_same({n: x[i, j] for n, x in result.records.items()}, alone.records)
    assert watch.num_compiled() == before + 1


def test_new_numbers_and_equal_objects_compile_nothing(watch):
    # A loop over settings in Python costs no compilation after the first, a new key or seed none either.
    def play(delta, std, key, first_seed):
        simulate(make("oful", delta=delta), world(False, std), key=key, first_seed=first_seed, chunk=24)

    play(0.1, 0.2, KEY, 0)
    before = watch.num_compiled()
    assert before > 0
    play(0.1, 0.2, KEY, 0)
    play(0.3, 0.4, jax.random.key(99), 17)
    assert watch.num_compiled() == before


@pytest.mark.parametrize("side", ["algorithm", "environment"])
def test_axes_appear_only_where_swept(side):
    # The axes are those of the sweeps, in the order algorithm, environment.
    algorithm, environment = make("oful"), world(False)
    if side == "algorithm":
        algorithm = jv.sweep(algorithm, delta=DELTAS)
    else:
        environment = jv.sweep(environment, std=STDS)
    result = simulate(algorithm, environment, num_seeds=4, recorders=(*RECORD, jv.record.confidence()))
    assert result.regret.shape == (2, 4, 10)
    assert result.confidence.shape == (2, 4, 10, 1)
    assert len(result.points) == 1


@pytest.mark.parametrize(
    ("name", "fresh"),
    [("save", False), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("ave_ucb", True), ("oful", False)))],
)
def test_a_sweep_can_be_mapped_over(name, fresh):
    # A swept object is an ordinary pytree with a leading axis: vmap plays every setting.
    settings = jv.sweep(make(name), delta=(0.01, 0.1, 0.3), beta_scale=(0.05, 1.0))
    assert type(settings) is type(make(name))
    assert {np.shape(x) for x in jax.tree.leaves(settings)} == {(6,)}
    out = jax.vmap(lambda a: run(a, world(fresh), KEY))(settings)
    for i, (delta, scale) in enumerate(itertools.product((0.01, 0.1, 0.3), (0.05, 1.0))):
        alone = run(single(name, delta, scale), world(fresh), KEY)
        assert_same({n: x[i] for n, x in out.records.items()}, alone.records)


def test_leaves_of_parts_have_long_and_short_names():
    # A leaf of a part is found by its own name or by its path, and the error for a wrong one lists all.
    algorithm = make("save")
    short, long = (jv.sweep(algorithm, **{n: [0.1, 0.7]}) for n in ("beta_scale", "constants__beta_scale"))
    np.testing.assert_array_equal(short.constants.beta_scale, [0.1, 0.7])
    for a, b in zip(jax.tree.leaves(short), jax.tree.leaves(long), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(jv.sweep(world(True), noise__schedule__std=[0.2]).noise.schedule.std, [0.2])
    with pytest.raises(ValueError, match=r"not a leaf.*constants__beta_scale"):
        jv.sweep(algorithm, gamma=[1.0])
    with pytest.raises(ValueError, match="several leaves"):
        jv.sweep({"a": {"x": np.float64(1)}, "b": {"x": np.float64(2)}}, x=[1.0])
    with pytest.raises(ValueError, match="not swept yet"):
        jv.sweep(short, delta=[0.1])


def test_array_leaves_can_be_swept():
    # A setting may be a vector: here the true parameter.
    thetas = np.eye(2) * 0.9
    arms = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-1.0, 0.0]])
    environment = jv.linear_bandit(arms=arms, theta_star=thetas[0], noise=jv.noise.two_point(0.3))
    result = simulate(make("oful"), jv.sweep(environment, theta_star=thetas), num_seeds=2)
    for i, theta in enumerate(thetas):
        alone = simulate(make("oful"), dataclasses.replace(environment, theta_star=theta), num_seeds=2)
        assert_same({n: x[i] for n, x in result.records.items()}, alone.records)


# --- a run inside other people's programs ---

MAPPED = [pytest.param("save", True, marks=pytest.mark.slow), ("oful", False)]


@pytest.mark.parametrize(("name", "fresh"), MAPPED)
def test_vmap_over_keys(name, fresh):
    # Root keys can be mapped over, as in any JAX program.
    keys = jax.random.split(KEY, 3)
    out = jax.vmap(lambda k: run(make(name), world(fresh), k))(keys)
    for i, key in enumerate(keys):
        assert_same({n: x[i] for n, x in out.records.items()}, run(make(name), world(fresh), key).records)


@pytest.mark.parametrize(
    ("name", "fresh"), [*MAPPED, ("save", False), pytest.param("ave_ucb", False, marks=pytest.mark.slow)]
)
def test_vmap_over_a_leaf(name, fresh):
    # One number of the algorithm is mapped, the rest and the problem are not.
    algorithm, deltas = make(name), jnp.array([0.001, 0.1, 0.9])
    out = jax.vmap(lambda d: run(parameters.replace(algorithm, delta=d), world(fresh), KEY))(deltas)
    for i, delta in enumerate(deltas):
        alone = run(parameters.replace(algorithm, delta=delta), world(fresh), KEY)
        assert_same({n: x[i] for n, x in out.records.items()}, alone.records)


@pytest.mark.parametrize(("name", "fresh"), MAPPED)
def test_vmap_of_vmap(name, fresh):
    # A grid of settings and keys: the outer axis meets only one of the two, as does the inner.
    algorithm, deltas, keys = make(name), jnp.array([0.001, 0.5]), jax.random.split(KEY, 3)

    def play(delta, key):
        return run(parameters.replace(algorithm, delta=delta), world(fresh), key)

    out = jax.vmap(jax.vmap(play, in_axes=(None, 0)), in_axes=(0, None))(deltas, keys)
    assert out.regret.shape == (2, 3, 10)
    for i, j in itertools.product(range(2), range(3)):
        assert_same({n: x[i, j] for n, x in out.records.items()}, play(deltas[i], keys[j]).records)


@pytest.mark.parametrize(("name", "fresh"), MAPPED)
def test_inside_scan(name, fresh):
    # A caller may loop over seeds on the device.
    _, out = jax.lax.scan(lambda c, s: (c, run(make(name), world(fresh), KEY, s)), 0, jnp.arange(4))
    for seed in range(4):
        alone = run(make(name), world(fresh), KEY, seed)
        assert_same({n: x[seed] for n, x in out.records.items()}, alone.records)


def test_jit_changes_nothing():
    # Compiled by the caller or played eagerly, built inside the program or outside.
    def play(delta, std):
        return jv.run(make("oful", delta=delta), world(False, std), KEY, num_rounds=30, record_at=5, recorders=RECORD)

    assert_same(jax.jit(play)(0.1, 0.3).records, play(0.1, 0.3).records)


# --- records ---


def test_spacing():
    # The last round is always read, and no round twice.
    np.testing.assert_array_equal(jv.linear_spaced(1000, 4), [250, 500, 750, 1000])
    assert np.all(np.diff(jv.linear_spaced(7, 7)) == 1)
    rounds = jv.log_spaced(10**6, 7)
    np.testing.assert_array_equal(rounds, 10 ** np.arange(7))
    assert jv.linear_spaced(999, 50)[-1] == jv.log_spaced(999, 50)[-1] == 999
    for n, num in itertools.product((1, 2, 10, 999), (1, 2, 50)):
        for rounds in (jv.linear_spaced(n, num), jv.log_spaced(n, num)):
            assert rounds[0] >= 1 and rounds[-1] <= n
            assert np.all(np.diff(rounds) > 0) and len(rounds) <= num


def confidence_by_hand(algorithm, trace, layers):
    """Whether ``|theta_hat - theta*|_Sigma <= beta`` so far, from explicit matrices: [rounds, layers]."""
    radius = np.asarray(
        jax.vmap(algorithm.confidence)(trace.state).beta_hat if layers is None else trace.state.beta_hat
    )
    ridge = [1.0] if layers is None else [4.0**-i for i in range(1, layers + 1)]
    theta_star, held = np.asarray(trace.instance.theta_star), []
    sigma = [q * np.eye(2) for q in ridge]
    target = [np.zeros(2) for _ in ridge]
    so_far = np.ones(len(ridge), bool)
    for k in range(len(trace.action)):
        x, layer = np.asarray(trace.arms[k][trace.action[k]]), int(trace.layer[k])
        if layer:
            w2 = float(trace.weight[k]) ** 2
            sigma[layer - 1] += w2 * np.outer(x, x)
            target[layer - 1] += w2 * x * float(trace.reward[k])
        for i in range(len(ridge)):
            gap = np.linalg.solve(sigma[i], target[i]) - theta_star
            so_far[i] &= np.sqrt(gap @ sigma[i] @ gap) <= radius[k, i]
        held.append(so_far.copy())
    return np.array(held)


@pytest.mark.parametrize(("name", "fresh"), [*CASES, pytest.param("ave_ucb", False, marks=pytest.mark.slow)])
def test_readings_equal_the_trace(name, fresh):
    # What is kept of a run is exactly what a full trace of it would show at those rounds.
    algorithm, environment = single(name, 0.2, 0.02), world(fresh, 0.5)
    layers = getattr(algorithm, "capacity", None)
    if layers:  # a radius that is too small
        constants = dataclasses.replace(algorithm.constants, bias_coef=np.float64(0.1))
        algorithm = parameters.replace(algorithm, constants=constants)
    recorders = (*RECORD, jv.record.layer_rounds(), jv.record.confidence())
    trace = jax.device_get(jax.jit(functools.partial(jv.trace, num_rounds=K))(algorithm, environment, KEY))
    gap = trace.mean.max(1) - trace.mean[np.arange(K), trace.action]
    expected = {
        "regret": np.cumsum(gap),
        "variance": np.cumsum(trace.noise_var),
        "layer_rounds": np.cumsum(trace.layer[:, None] == np.arange((layers or 1) + 1), axis=0),
        "confidence": confidence_by_hand(algorithm, trace, layers),
    }
    np.testing.assert_allclose(trace.regret, expected["regret"], atol=1e-9)
    assert not expected["confidence"][-1].all()  # the event fails somewhere, so that it is worth looking at
    rounds = jv.log_spaced(K, 9) if fresh else jv.linear_spaced(K, 7)
    got = jax.jit(lambda a, e: jv.run(a, e, KEY, num_rounds=K, record_at=rounds, recorders=recorders))(
        algorithm, environment
    )
    np.testing.assert_array_equal(got.rounds, rounds)
    for record in ("layer_rounds", "confidence"):
        np.testing.assert_array_equal(got.records[record], expected[record][rounds - 1])
    for record in ("regret", "variance"):
        np.testing.assert_allclose(got.records[record], expected[record][rounds - 1], atol=1e-9)


@pytest.mark.parametrize("rounds", [[1, 2, K], [3, 17, 50]])
def test_explicit_rounds(rounds):
    # Given rounds are read as given, whether or not the run goes on after the last of them.
    algorithm, environment = make("oful"), world(False)
    every = run(algorithm, environment, KEY, record_at=K)
    some = run(algorithm, environment, KEY, record_at=tuple(rounds))
    simulated = simulate(algorithm, environment, num_seeds=1, record_at=rounds)
    at = np.array(rounds) - 1
    assert_same(some.records, {n: x[at] for n, x in every.records.items()})
    assert_same({n: x[0] for n, x in simulated.records.items()}, {n: x[at] for n, x in every.records.items()})


def test_memory_follows_the_records():
    # A run of a million rounds needs no more memory than one of a thousand.
    def temporary(num_rounds):
        program = jax.jit(lambda a, e, k: jv.run(a, e, k, num_rounds=num_rounds, record_at=10))
        return program.lower(make("oful"), world(False), KEY).compile().memory_analysis().temp_size_in_bytes

    assert temporary(10**6) == temporary(10**3)


@pytest.mark.slow
def test_ten_million_rounds_in_flat_memory():
    # The claim above, with a run that is really played.
    out = run_script("""
import resource, jax, jaxvar as jv
jax.config.update("jax_enable_x64", True)
jv.tune_cpu(1)
def play(num_rounds):
    environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.1))
    key = jax.random.key(0)
    result = jv.simulate(jv.oful(2), environment, key=key, num_rounds=num_rounds, num_seeds=1, record_at=10)
    result.raise_if_failed()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
first = play(10**4)
for _ in range(2):
    first = play(10**4 + 1)
print(first, play(10**7))
""")
    short, long = map(int, out.split())  # KiB
    assert long - short < 20_000


def test_sums_are_exact_in_float32():
    # Summed plainly, float32 loses the small gaps of late rounds.
    out = run_script("""
import jax, numpy as np, jaxvar as jv
n = 200_000
environment = jv.linear_bandit(3, 5, noise=jv.noise.two_point(0.1))
key = jax.random.key(3)
trace = jax.device_get(jax.jit(lambda: jv.trace(jv.uniform(), environment, key, num_rounds=n))())
gap = trace.mean.max(1) - trace.mean[np.arange(n), trace.action]
assert gap.dtype == np.float32
result = jv.simulate(jv.uniform(), environment, key=key, num_rounds=n, num_seeds=1, record_at=1)
assert result.regret.dtype == np.float32
print(result.regret[0, -1], result.variance[0, -1], trace.regret[-1])
print(gap.astype(float).sum(), trace.noise_var.astype(float).sum(), np.cumsum(gap)[-1])
""")
    got, expected = (np.array(line.split(), float) for line in out.splitlines())
    np.testing.assert_allclose(got[:2], expected[:2], rtol=1e-6)
    np.testing.assert_allclose(got[2], expected[0], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [False, True])
def test_oful_stays_finite_in_float32(fresh):
    # float32 is what one gets without asking: a run of some length must not end in NaN there.
    run_script(f"""
import jax, jaxvar as jv
jv.tune_cpu(1)
environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.1), fresh={fresh})
result = jv.simulate(jv.oful(2), environment, key=jax.random.key(0), num_rounds=300_000, num_seeds=8, record_at=3)
result.raise_if_failed()
""")


class PlainRecorder:
    """A recorder that knows nothing of pytrees, as the records module allows."""

    name = "pulls_of_first"

    def init(self, algorithm, instance):
        return jnp.int32(0)

    def update(self, memory, event, algorithm, instance):
        return memory + (event.action == 0).astype(jnp.int32)

    def read(self, memory):
        return memory


def test_recorder_of_ones_own():
    # A recorder is any object with a name and three methods, in a run and in a simulation.
    algorithm, environment = make("oful"), world(False)
    recorders = (jv.record.regret(), PlainRecorder())
    one = jv.run(algorithm, environment, KEY, num_rounds=K, record_at=5, recorders=recorders)
    actions = np.asarray(jv.trace(algorithm, environment, KEY, num_rounds=K).action)
    np.testing.assert_array_equal(one.records["pulls_of_first"], np.cumsum(actions == 0)[np.asarray(one.rounds) - 1])
    many = simulate(algorithm, environment, record_at=5, num_seeds=2, recorders=recorders)
    np.testing.assert_array_equal(many.pulls_of_first[0], one.records["pulls_of_first"])


# --- results ---


def test_result_of_a_clean_run():
    # Nothing to raise, and a record that was not kept is answered with those that were.
    result = simulate(make("oful"), world(False), num_seeds=3, chunk=24)
    assert result.raise_if_failed() is None
    assert not result.status.any() and not result.status_round.any()
    np.testing.assert_array_equal(result.regret, result.records["regret"])
    with pytest.raises(AttributeError, match=r"'layer_rounds' was not recorded.*actions, regret, variance"):
        _ = result.layer_rounds


def test_failed_seeds_are_named():
    # A failure says which seed, which setting, which round and why.
    noisy = world(False)
    broken = dataclasses.replace(noisy, norm_bound=np.float64(np.nan))
    result = simulate(jv.sweep(make("oful"), delta=[0.1, 0.2]), broken, num_seeds=2, first_seed=5)
    with pytest.raises(jv.SimulationError, match=r"4 of 4 runs failed:\n  seed 5 at .*delta.*: round 1, "):
        result.raise_if_failed()


def test_old_names_of_arguments_warn_and_work():
    """``records`` and ``record`` were the names of ``record_at`` and ``recorders``; both verbs still take them."""
    algorithm, environment = jv.oful(2), jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.1))
    old, new = {"records": [2, 5], "record": RECORD}, {"record_at": [2, 5], "recorders": RECORD}
    for play in (
        functools.partial(jv.simulate, algorithm, environment, key=KEY, num_rounds=5, num_seeds=2),
        functools.partial(jv.run, algorithm, environment, KEY, num_rounds=5),
    ):
        with pytest.warns(FutureWarning) as caught:
            got = play(**old)
        assert [str(w.message).split(",")[0] for w in caught] == [
            "records= is now called record_at=",
            "record= is now called recorders=",
        ]
        assert_same(got.records, play(**new).records)
        np.testing.assert_array_equal(got.rounds, [2, 5])
