"""The generator: known answers, the same keys as JAX, and statistics of every draw.

Keys are fixed, so each test always gives the same answer. Limits are set so that a correct generator with other keys
would fail a single comparison with probability below 1e-6 (|z| < 5), and any test of this file below 1e-3.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxvar import random
from jaxvar.algorithms import bandit as ties
from jaxvar.blocks import over_seeds
from jaxvar.environments.linear_bandit import ARMS, draw_arms

Z = 5.0  # two-sided 6e-7
P = 1e-6
N = 200_000


@functools.partial(jax.jit, static_argnums=(1, 2))
def words_of(key, num=N, stream=0):
    return random.bits(random.key_words(key), (num,), stream)


@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4))
def many_arms(key, sets, num_arms, dim, kind):
    """Decision sets of ``sets`` consecutive rounds, [sets, num_arms, dim]."""
    keys = jax.vmap(lambda i: random.fold_in(key, i))(jnp.arange(sets))
    return jax.vmap(lambda k: draw_arms(random.key_words(k), num_arms, dim, kind, jnp.float64))(keys)


def z_score(sample, mean):
    sample = np.asarray(sample, np.float64)
    return abs(sample.mean() - mean) / (sample.std() / np.sqrt(len(sample)))


def assert_uncorrelated(x, y):
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    assert abs(np.corrcoef(x, y)[0, 1]) < Z / np.sqrt(len(x))


@pytest.mark.parametrize(("rounds", "answer"), [(13, (0x9D1C5EC6, 0x8BD50731)), (20, (0x6B200159, 0x99BA4EFE))])
def test_threefry_known_answers(rounds, answer):
    """The published test vectors pin the rotations, the key schedule and the number of rounds."""
    zero = jnp.uint32(0)
    assert tuple(map(int, random.threefry(zero, zero, zero, zero, rounds))) == answer


def test_fold_in_is_that_of_jax():
    """A user who folds keys with jax.random must get the keys of the simulator, bit for bit."""
    data = [0, 1, 2, 17, 2**16, 2**31 - 1, 2**31, 2**32 - 1]
    for number in (0, 1, 42, 2**31, 2**40 + 7):
        key = jax.random.key(number)
        for d in map(jnp.uint32, data):
            ours, theirs = random.fold_in(key, d), jax.random.fold_in(key, d)
            np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
def test_fold_in_of_many_numbers_is_that_of_each(kind):
    key = jax.random.key(5, impl=kind)
    each = [jax.random.key_data(jax.random.fold_in(key, i)) for i in range(3)]
    np.testing.assert_array_equal(jax.random.key_data(random.fold_in(key, np.arange(3))), each)


@pytest.mark.parametrize("shape", [(), (4,), (3, 2)])
def test_gamma_variables_are_made_of_three_streams(shape):
    """Proposals, their acceptance and the power come from streams 1, 2 and 3: stored problems depend on it."""
    words, a = random.key_words(jax.random.key(9)), jnp.asarray(0.3)
    x, u = (np.asarray(random.bits(words, (8, *shape), stream=i)) for i in (1, 2))
    x, u = np.asarray(random.normal(jnp.asarray(x), a.dtype)), np.asarray(random.uniform(jnp.asarray(u), a.dtype))
    last = np.asarray(random.uniform(random.bits(words, shape, stream=3), a.dtype))
    d = 0.3 + 2 / 3
    v = (1 + x / np.sqrt(9 * d)) ** 3
    log_v = np.log(np.maximum(v, 1e-300))
    accepted = (v > 0) & (np.log(u) < x * x / 2 + d * (1 - v + log_v))
    assert accepted.any(axis=0).all()
    chosen = np.take_along_axis(log_v, np.argmax(accepted, axis=0)[None], axis=0)[0]
    ours, other = random.log_gamma((words, a, shape), (words[::-1], jnp.asarray(2.0), (5,)))
    np.testing.assert_allclose(ours, np.log(d) + chosen + np.log(last) / 0.3, rtol=1e-6)
    np.testing.assert_allclose(other, random.log_gamma((words[::-1], jnp.asarray(2.0), (5,)))[0], rtol=1e-12)


def test_fold_in_under_jit_and_vmap():
    """The simulator only ever calls it under transformations."""
    data = jnp.arange(500, dtype=jnp.uint32) * jnp.uint32(7919)
    keys = jax.random.split(jax.random.key(3), 500)
    for ours, theirs in (
        (jax.vmap(random.fold_in), jax.vmap(jax.random.fold_in)),
        (jax.jit(jax.vmap(random.fold_in)), jax.vmap(jax.random.fold_in)),
    ):
        np.testing.assert_array_equal(jax.random.key_data(ours(keys, data)), jax.random.key_data(theirs(keys, data)))


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_other_kinds_of_keys(impl):
    """Keys of accelerators' own generators have four words; they must work and differ by what is folded in."""
    key = jax.random.key(5, impl=impl)
    np.testing.assert_array_equal(
        jax.random.key_data(random.fold_in(key, 3)), jax.random.key_data(jax.random.fold_in(key, 3))
    )
    words = [np.asarray(random.key_words(random.fold_in(key, i))) for i in range(20)]
    assert words[0].shape == (2,) and words[0].dtype == np.uint32
    assert len({tuple(w) for w in words}) == 20


def test_bits_of_a_batch_equal_single_draws():
    """Neighbours must not change a seed's numbers, however seeds are mapped over."""
    words = jnp.stack([random.key_words(jax.random.key(i)) for i in range(4)], axis=-1)
    mapped = jax.vmap(lambda w: random.bits(w, (3, 2)), in_axes=-1, out_axes=-1)(words)
    together, differs = over_seeds(lambda w: random.bits(w, (3, 2)), (4,), (words,), (True,))
    assert differs
    for i in range(4):
        np.testing.assert_array_equal(together[..., i], random.bits(words[:, i], (3, 2)))
        np.testing.assert_array_equal(mapped[..., i], random.bits(words[:, i], (3, 2)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shift", [24, 0], ids=["top bits", "low bits"])
def test_equidistribution(seed, shift):
    """The sign is taken from one bit and the size from others: all of them must be even. Chi-square, 256 cells."""
    byte = (np.asarray(words_of(jax.random.key(seed))) >> shift) & 255
    assert P < scipy.stats.chisquare(np.bincount(byte, minlength=256)).pvalue < 1 - P


def test_every_bit_is_fair():
    """32 z-tests; a stuck or biased bit would bias whatever is made of it."""
    words = np.asarray(words_of(jax.random.key(8)))
    for bit in range(32):
        assert z_score((words >> bit) & 1, 0.5) < Z


@pytest.mark.parametrize("shift", [28, 0], ids=["top bits", "low bits"])
def test_serial_pairs(shift):
    """Consecutive words must be independent: chi-square over the 256 pairs of 4-bit pieces, pairs not overlapping."""
    piece = (np.asarray(words_of(jax.random.key(9))) >> shift) & 15
    pairs = piece[::2] * 16 + piece[1::2]
    assert P < scipy.stats.chisquare(np.bincount(pairs, minlength=256)).pvalue < 1 - P


def test_uniform_moments_and_distribution():
    """Mean, variance and the whole distribution function."""
    u = np.asarray(random.uniform(words_of(jax.random.key(1)), jnp.float64))
    assert z_score(u, 1 / 2) < Z and z_score((u - 1 / 2) ** 2, 1 / 12) < Z
    assert scipy.stats.kstest(u, "uniform").pvalue > P


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_uniform_is_inside_the_open_interval(dtype):
    """An end of the interval would make a logarithm infinite, or a rank as large as the number of candidates."""
    ends = np.asarray(random.uniform(jnp.array([0, 2**32 - 1], jnp.uint32), dtype))
    assert ends[0] > 0 and ends[1] < 1


@pytest.mark.parametrize("word", [0, 2**31, 2**32 - 1])
def test_a_tie_goes_to_a_candidate(monkeypatch, word):
    """Whatever the word, only an arm that is a candidate may be drawn."""
    monkeypatch.setattr(random, "bits", lambda words, shape, stream=0: jnp.uint32(word))
    for candidates in ([False, True, True], [False, False, True], [False, True] * 20):
        assert candidates[int(ties.pick(jnp.array(candidates), jnp.zeros(2, jnp.uint32), "random"))]


def test_signs():
    """Both signs with probability 1/2, nothing else."""
    s = np.asarray(random.signs(words_of(jax.random.key(2)), jnp.float64))
    assert set(np.unique(s)) == {-1.0, 1.0} and z_score(s, 0) < Z


def test_normal_moments_and_distribution():
    """Moments up to the sixth, the distribution function, and independence of size and sign."""
    z = np.asarray(random.normal(words_of(jax.random.key(3)), jnp.float64))
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15)):
        assert z_score(z**power, moment) < Z
    assert scipy.stats.kstest(z, "norm").pvalue > P
    assert_uncorrelated(np.abs(z), np.sign(z))


@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float64, 4e-7), (jnp.float32, 2e-6)])
def test_normal_is_the_inverse_distribution_function(dtype, tolerance):
    """Against scipy on a grid of words, the extreme ones and powers of two included, sign and all."""
    grid = np.linspace(0, 2**32 - 1, 20_001).astype(np.uint64)
    powers = np.array([2**i + j for i in range(1, 32) for j in (-1, 0, 1)], np.uint64)
    words = np.concatenate([grid, powers, np.array([0, 1, 2, 3, 2**32 - 2, 2**32 - 1], np.uint64)])
    tail = ((words >> 1) + 0.5) / 2**31  # P(|Z| > z)
    exact = scipy.stats.norm.isf(tail / 2) * np.where(words & 1, -1, 1)
    ours = np.asarray(random.normal(jnp.asarray(words.astype(np.uint32)), dtype), np.float64)
    assert np.all(np.isfinite(ours))
    np.testing.assert_allclose(ours, exact, rtol=tolerance, atol=tolerance)


def test_float32_and_float64_agree():
    """Runs in either type meet the same arms and noise: one word per number, whatever the type."""
    words = words_of(jax.random.key(4), 10_000)
    for draw in (random.uniform, random.signs, random.normal):
        single, double = draw(words, jnp.float32), draw(words, jnp.float64)
        assert single.dtype == jnp.float32 and double.dtype == jnp.float64
        np.testing.assert_allclose(np.asarray(single, np.float64), double, rtol=2e-6, atol=2e-6)
    for kind in ARMS:
        single, double = (draw_arms(jnp.array([1, 2], jnp.uint32), 50, 7, kind, t) for t in (jnp.float32, jnp.float64))
        np.testing.assert_allclose(np.asarray(single, np.float64), double, atol=2e-6)


@pytest.mark.parametrize("dim", [1, 2, 3, 10])
@pytest.mark.parametrize("kind", ARMS)
def test_arms_moments(kind, dim):
    """E a = 0 and E a a^T = I / d (I / 3d for uniform coordinates), off-diagonal included; norms as documented."""
    arms = np.asarray(many_arms(jax.random.key(10), 4000, 5, dim, kind)).reshape(-1, dim)
    norms = np.linalg.norm(arms, axis=1)
    if kind == "uniform":
        assert np.all(np.abs(arms) <= dim**-0.5)
    else:
        np.testing.assert_allclose(norms, 1, atol=1e-12)
    square = 1 / (3 * dim) if kind == "uniform" else 1 / dim
    for i in range(dim):
        assert z_score(arms[:, i], 0) < Z
        if kind != "hypercube" and (dim > 1 or kind == "uniform"):
            assert z_score(arms[:, i] ** 2, square) < Z
        for j in range(i):
            assert z_score(arms[:, i] * arms[:, j], 0) < Z


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_sphere_fourth_moments_and_distribution(dim):
    """Uniform on the sphere, not only centred: E a_i^4 = 3 / d(d+2), E a_i^2 a_j^2 = 1 / d(d+2), a_i^2 ~ Beta."""
    arms = np.asarray(many_arms(jax.random.key(11), 4000, 5, dim, "sphere")).reshape(-1, dim)
    assert z_score(arms[:, 0] ** 4, 3 / (dim * (dim + 2))) < Z
    assert z_score(arms[:, 0] ** 2 * arms[:, 1] ** 2, 1 / (dim * (dim + 2))) < Z
    assert scipy.stats.kstest(arms[:, -1] ** 2, scipy.stats.beta(0.5, (dim - 1) / 2).cdf).pvalue > P


@pytest.mark.parametrize("kind", ARMS)
def test_arms_are_independent_of_each_other(kind):
    """Between coordinates' squares, arms of a set, consecutive rounds, and neighbouring seeds: no correlation."""
    root = jax.random.key(12)
    arms = np.asarray(many_arms(random.fold_in(root, 0), 20_000, 2, 3, kind))
    neighbour = np.asarray(many_arms(random.fold_in(root, 1), 20_000, 2, 3, kind))
    for i in range(3):
        for j in range(3):
            assert_uncorrelated(arms[:, 0, i], arms[:, 1, j])  # two arms of a round
            assert_uncorrelated(arms[:-1, 0, i], arms[1:, 0, j])  # two rounds
            assert_uncorrelated(arms[:, 0, i], neighbour[:, 0, j])  # two seeds


def test_streams_are_independent():
    """The noise level's word is drawn from the key of the arms, in another stream."""
    one, other = (words_of(jax.random.key(13), N, stream).astype(jnp.float64) for stream in (0, 1))
    assert_uncorrelated(one, other)
    assert_uncorrelated(one[1:], other[:-1])
    assert_uncorrelated(one[:-1], other[1:])
    folded = jax.random.bits(random.fold_in(jax.random.key(13), 0), (N,), jnp.uint32)
    assert_uncorrelated(one, folded)


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("concentration", [0.01, 0.3, 1.0, 5.0, 100.0])
def test_log_gamma_has_its_distribution(concentration, dtype):
    """A wrong proposal, acceptance or power would bend the rows of every random model."""
    draw = jax.jit(lambda words, a: random.log_gamma((words, a, (N,)))[0])
    sample = draw(random.key_words(jax.random.key(17)), jnp.asarray(concentration, dtype))
    assert sample.dtype == dtype
    exact = scipy.stats.loggamma(concentration)
    assert scipy.stats.kstest(np.asarray(sample, np.float64), exact.cdf).pvalue > P
