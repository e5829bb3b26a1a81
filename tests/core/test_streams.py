"""Statistics of the random streams over seeds and rounds, for the keys and the draws that simulations use.

Keys are fixed, so each test always gives the same answer. Each of about 6,000 comparisons would fail for a correct
generator with another key with probability below 4e-8 (|z| < 5.5, or a p-value between 4e-8 and 1 - 4e-8), and so any
of them with probability below 3e-4.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxvar as jv
from jaxvar import game, random
from jaxvar.environments.linear_bandit import ARMS, draw_arms

Z, P = 5.5, 4e-8
ROOT_KEY = jax.random.key(2024)
SHAPES = {"seeds": (4096, 32), "rounds": (32, 4096)}  # seeds and rounds; the name says what there are many of
ALONG = {"seeds": 0, "rounds": 1}
DTYPES = [jnp.float64, jnp.float32]
ROWS = ("arms 0", "arms 1", "arms 2", "level", "noise", "algorithm")  # the words drawn in a round


@functools.partial(jax.jit, static_argnums=(0, 1))
def round_keys(num_seeds, num_rounds):
    """The keys of every seed and round, as words ``[3 streams, 2, seeds, rounds]``; rounds are counted from 1."""

    def one(seed, round):
        streams = game.seed_keys(random.key_words(ROOT_KEY), seed)[1:4]
        folded = [random.fold_in(random.of_words(s), round) for s in streams]
        return jnp.stack([jax.random.key_data(k) for k in folded])

    over_rounds = jax.vmap(one, in_axes=(None, 0), out_axes=-1)
    numbers = jnp.arange(num_seeds, dtype=jnp.int32), jnp.arange(1, num_rounds + 1, dtype=jnp.int32)
    return jax.vmap(over_rounds, in_axes=(0, None), out_axes=2)(*numbers)


def test_keys_of_seeds_are_those_of_jax():
    """Fails if NumPy's keys, the compiled ones and folds of the root key differ in a bit."""
    seeds = np.array([0, 1, 7, 2**31 - 1], np.int32)
    data = random.key_words(ROOT_KEY)
    found = game.seed_keys(np.asarray(data), seeds)
    assert isinstance(found, np.ndarray) and found.shape == (7, 2, 4)
    for i, seed in enumerate(seeds):
        own = jax.random.fold_in(ROOT_KEY, seed)
        streams = [jax.random.fold_in(own, j) for j in range(4)]
        wanted = [*streams, *(jax.random.fold_in(s, 1) for s in streams[1:])]
        np.testing.assert_array_equal(found[..., i], [jax.random.key_data(k) for k in wanted])
        np.testing.assert_array_equal(found[..., i], jax.jit(game.seed_keys)(data, jnp.int32(seed)))


@functools.cache
def keys(many):
    return round_keys(*SHAPES[many])


@functools.cache
def words(many):
    """The words of :data:`ROWS`, ``[rows, seeds, rounds]``."""
    return np.asarray(_words(keys(many)))


@jax.jit
@functools.partial(jax.vmap, in_axes=-1, out_axes=-1)
@functools.partial(jax.vmap, in_axes=-1, out_axes=-1)
def _words(keys):
    contexts, noise, algorithm = keys
    drawn = [random.bits(contexts, (3,)), random.bits(contexts, (), stream=1)[None]]
    drawn += [random.bits(noise, ())[None], random.bits(algorithm, ())[None]]
    return jnp.concatenate(drawn)


def along(many):
    """The same with what there are many of on the last axis."""
    return words(many) if many == "rounds" else words(many).swapaxes(1, 2)


def assert_uniform(cells, num_cells):
    """Chi-square; expected counts are above 10."""
    counts = np.bincount(cells.ravel(), minlength=num_cells)
    assert len(counts) == num_cells and counts.sum() > 10 * num_cells
    assert P < scipy.stats.chisquare(counts).pvalue < 1 - P


def assert_mean(sample, mean, tolerance=0.0):
    sample = np.asarray(sample, np.float64).ravel()
    assert abs(sample.mean() - mean) < Z * sample.std() / np.sqrt(sample.size) + tolerance


def assert_uncorrelated(left, right=None, apart=1):
    """No row of ``left [m, n]`` is correlated with any row of ``right [k, n]``, or with those of other groups.

    Without ``right`` the rows of ``left`` are compared with each other, except within groups of ``apart`` rows.
    """
    is_same = right is None
    left = _standard(left)
    right = left if is_same else _standard(right)
    found = np.abs(left @ right.T / left.shape[1])
    if is_same:
        group = np.arange(len(left)) // apart
        found = found[group[:, None] != group]
    assert found.size and found.max() < Z / np.sqrt(left.shape[1])


def _standard(x):
    x = np.asarray(x, np.float64)
    x = x - x.mean(1, keepdims=True)
    return x / x.std(1, keepdims=True)


def rows(x, keep=1):
    """The last axes of ``x`` made one; the first ``keep`` stay."""
    return x.reshape(*x.shape[:keep], -1)


# --- what is tested is what is played ---


def test_simulations_draw_from_these_keys():
    """All tests below would say nothing, were the keys of a run others."""
    environment = jv.linear_bandit(3, 4, noise=jv.noise.uniform(0.2), fresh=True)
    play = jax.jit(lambda seed: jv.trace(jv.uniform(), environment, ROOT_KEY, num_rounds=6, seed=seed))
    for seed in (0, 37):
        trace = play(jnp.int32(seed))
        contexts, noise, algorithm = keys("seeds")[:, :, seed, :6]
        for k in range(6):
            arms = draw_arms(contexts[:, k], 4, 3, "sphere", jnp.float64, fresh=True)
            np.testing.assert_allclose(trace.arms[k], arms, atol=1e-15)
            side = jv.Side(jnp.zeros(4))
            key = jax.random.wrap_key_data(algorithm[:, k], impl="threefry2x32")
            assert trace.action[k] == jv.uniform().select((), trace.arms[k], key, side).action
        means = trace.mean[np.arange(6), trace.action]
        word = jnp.stack([random.bits(noise[:, k], ()) for k in range(6)])
        drawn = jax.vmap(environment.noise.draw)(word, jnp.full(6, 0.2), means)
        np.testing.assert_allclose(trace.reward - means, drawn, atol=1e-15)


# --- words ---


@pytest.mark.parametrize("many", SHAPES)
def test_no_key_comes_twice(many):
    """393,216 keys of 64 bits over seeds, rounds and streams: two equal ones have probability 4e-9."""
    low, high = (np.asarray(keys(many)[:, i]).astype(np.uint64) for i in range(2))
    assert np.unique((high << np.uint64(32)) | low).size == 3 * 2**17


@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("many", SHAPES)
def test_tuples_fill_their_cube_evenly(many, size, dtype):
    """Tuples of consecutive seeds, or rounds, in 2^12 cells, by their highest bits as numbers and by their lowest."""
    bits = 12 // size
    word = along(many)
    word = word[..., : word.shape[-1] // size * size].reshape(-1, size)
    place = 2 ** (bits * np.arange(size))
    uniform = np.asarray(random.uniform(jnp.asarray(word), dtype))
    assert_uniform(np.floor(uniform * 2**bits).astype(np.int64) @ place, 2**12)
    if dtype == jnp.float64:  # the words are the same
        assert_uniform((word & np.uint32(2**bits - 1)).astype(np.int64) @ place, 2**12)


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations(range(len(ROWS)), 2)])
def test_pairs_of_words_of_a_round_fill_their_square_evenly(one, other):
    """Arms, noise level, noise and the algorithm's own randomness are drawn apart: 2^12 cells, 32 in each."""
    word = words("seeds") >> np.uint32(26)
    assert_uniform(word[one].astype(np.int64) * 64 + word[other], 2**12)


@pytest.mark.parametrize("many", SHAPES)
def test_birthday_spacings(many):
    """Of 4096 sorted words of consecutive seeds, or rounds, equal spacings are Poisson with mean 4096^3 / 2^34 = 4.

    Marsaglia's test over 192 groups: linear structure makes too many equal spacings, too even a stream too few.
    """
    spacing = np.sort(np.diff(np.sort(rows(np.moveaxis(along(many), -1, 0)), axis=0), axis=0).astype(np.int64), axis=0)
    equal = np.sum(spacing[1:] == spacing[:-1], axis=0)
    assert len(equal) == 192
    assert P < scipy.stats.poisson.cdf(equal.sum(), 4 * 192) < 1 - P
    assert_mean((equal - 4) ** 2, 4)


# --- numbers ---


@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize("draw", [random.uniform, random.normal, random.signs])
def test_numbers_are_uncorrelated(draw, dtype):
    """Between all words of a round, and of rounds and seeds up to three apart; values, and their sizes."""
    for many in SHAPES:
        x = np.asarray(draw(jnp.asarray(along(many)), dtype), np.float64)
        for values in (x, x**2) if draw is random.normal else (x,):
            assert_uncorrelated(rows(values))
            for lag in (1, 2, 3):
                assert_uncorrelated(rows(values[..., :-lag]), rows(values[..., lag:]))


@functools.partial(jax.jit, static_argnums=(1, 2))
def arms_of(words, kind, dtype):
    """Three arms in three dimensions for each key of ``words [2, n]``: ``[3, 3, n]``."""
    return jax.vmap(lambda w: draw_arms(w, 3, 3, kind, dtype), in_axes=-1, out_axes=-1)(words)


@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize("kind", ARMS)
def test_arms_over_seeds_and_rounds(kind, dtype):
    """First four moments, the whole distribution by chi-square, and correlations within and between rounds and seeds.

    On the sphere in three dimensions a coordinate is uniform (Archimedes), and so is the angle around its axis.
    """
    for many in SHAPES:
        contexts = keys(many)[0] if many == "rounds" else keys(many)[0].swapaxes(1, 2)
        arms = np.asarray(arms_of(contexts.reshape(2, -1), kind, dtype), np.float64)
        coordinates = rows(arms.reshape(9, -1))
        square, fourth = {"sphere": (1 / 3, 1 / 5), "uniform": (1 / 9, 1 / 45), "hypercube": (1 / 3, 1 / 9)}[kind]
        rounding = 4 * np.finfo(dtype).eps
        for x in coordinates:
            for power, moment in ((1, 0), (2, square), (3, 0), (4, fourth)):
                assert_mean(x**power, moment, rounding)
        assert_uncorrelated(coordinates)
        if kind != "hypercube":  # the squares of an arm on the sphere add up to one
            assert_uncorrelated(coordinates**2, apart=3 if kind == "sphere" else 1)
        if kind == "sphere":
            height = (arms[:, 2] + 1) / 2
            angle = np.arctan2(arms[:, 1], arms[:, 0]) / (2 * np.pi) + 0.5
            cells = np.minimum(height * 64, 63).astype(np.int64) * 64 + np.minimum(angle * 64, 63).astype(np.int64)
            assert_uniform(cells, 2**12)
        else:
            sides = 2 if kind == "hypercube" else 16
            place = np.floor((arms * 3**0.5 + 1) / 2 * sides).clip(0, sides - 1).astype(np.int64)
            assert_uniform((place[:, 0] * sides + place[:, 1]) * sides + place[:, 2], sides**3)
        length = SHAPES[many][ALONG[many]]
        for lag in (1, 2):
            series = coordinates.reshape(9, -1, length)
            assert_uncorrelated(rows(series[..., :-lag]), rows(series[..., lag:]))


# E noise^4 in units of std^4; the last cut at two standard deviations, from the Gaussian's partial moments
FAMILIES = {
    "two_point": (jv.noise.two_point, 1.0),
    "uniform": (jv.noise.uniform, 9 / 5),
    "sparse": (functools.partial(jv.noise.sparse, bound=1.0), 4.0),
    "gaussian": (jv.noise.gaussian, 3.0),
    "clipped_gaussian": (
        functools.partial(jv.noise.clipped_gaussian, bound=1.0),
        scipy.stats.norm.expect(lambda z: min(z * z, 4) ** 2),
    ),
}


@pytest.mark.variants(4)
@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize("family", FAMILIES)
def test_noise_over_seeds_and_rounds(family, dtype):
    """Four moments; no correlation with the round's arms, the algorithm's draw, or other rounds' and seeds' noise."""
    make, fourth = FAMILIES[family]
    noise = jax.tree.map(lambda x: x.astype(dtype), make(0.5))
    for many in SHAPES:
        word = jnp.asarray(along(many))
        level = jnp.full(word.shape[1:], 0.5, dtype)
        drawn = np.asarray(jax.vmap(jax.vmap(noise.draw))(word[4], level, level), np.float64)
        variance = float(noise.variance(jnp.full(1, 0.5, dtype), jnp.zeros(1, dtype))[0])
        for power, moment in ((1, 0), (2, variance), (3, 0), (4, fourth / 16)):
            assert_mean(drawn**power, moment, 4 * np.finfo(dtype).eps)
        others = np.asarray(random.normal(word[jnp.array([0, 1, 2, 3, 5])], dtype), np.float64)
        for values in (drawn, drawn**2) if family != "two_point" else (drawn,):
            for lag in (0, 1):  # the coming round's arms, or the next seed's, do not tell either
                assert_uncorrelated(rows(values[None, :, : values.shape[-1] - lag]), rows(others[..., lag:]))
            for lag in (1, 2, 3):
                assert_uncorrelated(rows(values[None, :, :-lag]), rows(values[None, :, lag:]))
