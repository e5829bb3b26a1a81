"""Random numbers that cost less than the algorithms that use them.

One generator, Threefry-2x32, the one behind JAX's default keys, written without a loop so that a
whole draw becomes part of one compiled kernel (``jax.random`` runs its rounds in a loop of its own). :func:`fold_in`
gives the very keys of ``jax.random.fold_in``. Draws take one 32-bit word per number whatever
the float type, so that runs in float32 and in float64 meet the same arms and the same noise up to rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

Words = tuple[jax.Array, jax.Array]  # of a key, uint32

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA
_DRAW_ROUNDS = 13  # the fewest with which Threefry-2x32 passes BigCrush (Salmon et al. 2011); keys get all 20
_PROPOSALS = 8  # each is accepted with probability 0.95 or more
_MOST_WORDS = 2**32  # of one draw: the counter's low word numbers them
_DRAW = 0x6A617876  # the counter's high word for draws; fold_in uses 0, so a key may be folded and drawn from

# -log(m) for 1 <= m < 2 as a polynomial in m - 3/2; error below 4e-8.
_MINUS_LOG = (
    -0.4054651037929901,
    -0.6666661660586789,
    0.22222136822686947,
    -0.09879175163796114,
    0.049409618339381955,
    -0.025967329512783372,
    0.014338342043451977,
    -0.010243828630630258,
    0.006151470961510994,
)
# |Z| as a function of w = -log P(|Z| > z): w P(w) / Q(w) for 0 < w < 22.2; relative error below 2e-7.
_NORMAL_P = (
    1.2533141381975794,
    2.192999724671541,
    1.0393078209023647,
    0.14262014450582658,
    0.004537656701228963,
    1.464544552027527e-05,
)
_NORMAL_Q = (
    1.0,
    2.2497549265119203,
    1.5257516354744942,
    0.34655327864004576,
    0.022628403763250184,
    0.00027366315561460345,
)


def threefry(k0: jax.Array, k1: jax.Array, x0: Any, x1: Any, rounds: int = 20) -> Words:
    """Return Threefry-2x32 (Salmon et al. 2011) of the counter ``(x0, x1)`` under the key ``(k0, k1)``, uint32."""
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(_PARITY))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for i in range(rounds):
        r = _ROTATIONS[i % 8]
        x0 = x0 + x1
        x1 = ((x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r))) ^ x0
        if i % 4 == 3:
            j = i // 4 + 1
            x0, x1 = x0 + keys[j % 3], x1 + keys[(j + 1) % 3] + np.uint32(j)
    return x0, x1


def fold_in(key: jax.Array, data: ArrayLike) -> jax.Array:
    """Return ``jax.random.fold_in(key, i)`` for each i of ``data [...]``: the same bits, without a loop to compile."""
    data = jnp.asarray(data).astype(jnp.uint32)
    if not _is_threefry(key):
        return jnp.vectorize(functools.partial(jax.random.fold_in, key))(data)
    words = jax.random.key_data(key)
    return of_words(jnp.stack(threefry(words[0], words[1], jnp.zeros_like(data), data), axis=-1))


def of_words(words: jax.Array) -> jax.Array:
    """Return the key that has the words ``[2]``."""
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def key_words(key: jax.Array) -> jax.Array:
    """Return the two uint32 words of a key of any kind, [2]."""
    if not _is_threefry(key):
        return jax.random.bits(key, (2,), jnp.uint32)
    return jax.random.key_data(key)


def _is_threefry(key: jax.Array) -> bool:
    return str(jax.random.key_impl(key)) == "threefry2x32"


def bits(words: Any, shape: tuple[int, ...], stream: int = 0) -> jax.Array:
    """Return independent uint32 numbers ``[*shape]`` from the words ``[2]`` of a key.

    Draws of different ``stream`` from the same key are independent.
    """
    if math.prod(shape) > _MOST_WORDS:
        raise ValueError(f"a draw must have at most 2^32 numbers, got the shape {list(shape)}")
    index = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return bits_at(words, index, stream)


def bits_at(words: Any, index: jax.Array, stream: int = 0) -> jax.Array:
    """Return those numbers of a draw that have an ``index [...]``, uint32 [...]."""
    return threefry(words[0], words[1], jnp.full_like(index, _DRAW + stream), index, _DRAW_ROUNDS)[0]


def uniform(word: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Return uniform numbers in (0, 1): the middles of 2^32 equal cells in float64, of 2^23 cells in float32."""
    bits = 32 if np.dtype(dtype).itemsize == 8 else 23  # the most with which cell + 1/2 is exact
    cell = (word >> np.uint32(32 - bits)).astype(dtype)
    return (cell + np.asarray(0.5, dtype)) * np.asarray(2.0**-bits, dtype)


def signs(word: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Return -1 or 1 for each of some uint32 words."""
    return jnp.where(word >> np.uint32(31) == 0, np.asarray(1, dtype), np.asarray(-1, dtype))


def normal(word: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Return standard normal numbers by inversion of uint32 words: 31 bits for the size, the lowest one for the sign.

    The logarithm is a polynomial of the mantissa, so that the whole draw is plain arithmetic that every backend
    vectorises.
    """
    cell = (word >> np.uint32(1)).astype(jnp.int32)  # P(|Z| > z) = (cell + 1/2) / 2^31
    exponent = jax.lax.bitcast_convert_type(cell.astype(jnp.float32) + np.float32(0.5), jnp.uint32) >> np.uint32(23)
    scale = jax.lax.bitcast_convert_type((np.uint32(254) - exponent) << np.uint32(23), jnp.float32)
    mantissa = (cell.astype(dtype) + np.asarray(0.5, dtype)) * scale.astype(dtype)
    power = (exponent.astype(jnp.int32) - np.int32(127 + 31)).astype(dtype)
    w = _polynomial(mantissa - np.asarray(1.5, dtype), _MINUS_LOG) - power * np.asarray(np.log(2), dtype)
    signed = jnp.where(word & np.uint32(1) == 0, w, -w)
    # The quotient comes last on purpose: XLA does not compute an expensive operation twice to save a store.
    return signed * _polynomial(w, _NORMAL_P) / _polynomial(w, _NORMAL_Q)


def log_gamma(*draws: tuple[Any, Any, tuple[int, ...]]) -> list[jax.Array]:
    """Return logarithms of gamma variables ``[*shape]`` of each draw: words ``[2]`` of a key, a concentration, a shape.

    Marsaglia and Tsang (2000) with concentration + 1, and the power of a uniform number that takes it back. Of a fixed
    number of proposals the first accepted one counts: there is no loop to compile, and a draw without any (probability
    below 1e-10) takes the value nearest the mode.
    """
    sizes = [math.prod(shape) for _, _, shape in draws]

    def each(values: Iterable[Any]) -> jax.Array:
        """Return a value of each draw, or one for each of its numbers, for all numbers, [1, numbers]."""
        return jnp.concatenate([jnp.broadcast_to(v, (n,)) for v, n in zip(values, sizes, strict=True)])[None]

    dtype = jnp.result_type(*(a for _, a, _ in draws))
    # All draws, and the three of each, of which the last has one number each, are one: it is compiled sooner.
    row = np.arange(2 * _PROPOSALS + 1, dtype=np.uint32)[:, None]
    stream, number = row // np.uint32(_PROPOSALS), row % np.uint32(_PROPOSALS)
    place = each(jnp.arange(n, dtype=jnp.uint32) for n in sizes) + number * each(np.array(sizes, np.uint32))
    k0, k1 = (each(words[i] for words, _, _ in draws) for i in range(2))
    word = threefry(k0, k1, np.uint32(_DRAW + 1) + stream, place, _DRAW_ROUNDS)[0]
    both = normal(word[:_PROPOSALS], dtype), jnp.log(uniform(word[_PROPOSALS:], dtype))
    found, ends = [], np.cumsum(sizes)
    for (_, concentration, shape), size, end in zip(draws, sizes, ends, strict=True):
        x, log_u = (v[:, end - size : end].reshape(-1, *shape) for v in both)
        d = concentration + np.asarray(2 / 3, dtype)
        v = (1 + x / jnp.sqrt(9 * d)) ** 3
        log_v = jnp.log(jnp.maximum(v, np.finfo(dtype).tiny))
        accepted = (v > 0) & (log_u[:-1] < x * x / 2 + d * (1 - v + log_v))
        chosen = jnp.zeros(shape, dtype)
        for i in reversed(range(_PROPOSALS)):
            chosen = jnp.where(accepted[i], log_v[i], chosen)
        found.append(jnp.log(d) + chosen + log_u[-1] / concentration)
    return found


def _polynomial(x: jax.Array, coefficients: tuple[float, ...]) -> jax.Array:
    """Return a polynomial by Estrin's scheme: neighbours are paired, then pairs, so few operations wait for others."""
    terms: list[Any] = [np.asarray(c, x.dtype) for c in coefficients]
    power = x
    while len(terms) > 1:
        pairs = [low + high * power for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms, power = pairs + terms[2 * len(pairs) :], power * power
    return terms[0]
