"""The concentration inequalities themselves, on streams whose features and noise depend on the past.

A stream has features ``x_k [d]`` and noise ``eta_k []`` with ``|eta_k| <= R``, mean zero and a conditional variance
that is known exactly, since the noise takes two values: ``up`` with probability ``down / (up + down)``, else
``-down``, of variance ``up down``. What is judged in every round is ``|sum x eta|_{Z^-1}`` with
``Z = lam I + sum x x^T``. Written with the batch of seeds last.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import lowering, parameters, random
from jaxvar.parameters import float_dtype
from jaxvar.theory.running_max import Check, follow_rounds, judge_seeds, single_check
from jaxvar.theory.statement import Finding, Statement, load_statements

GROUP = "martingales"
Pair = tuple[float | jax.Array, float | jax.Array]  # the constants of Theorem 2.1
R = 1.0  # no noise is larger
TIGHT = (math.sqrt(2) + math.sqrt(3), 1.721)


class Past(NamedTuple):
    """The past of a stream, on which its next feature and noise may depend."""

    inverse: jax.Array  # [d, d]   Z^-1
    total: jax.Array  # [d]   sum x eta
    scalar: jax.Array  # []   sum eta
    variance: jax.Array  # []   v, the sum of conditional variances
    norm: jax.Array  # []   |sum x eta|_{Z^-1}
    ahead: jax.Array  # []   norm / (rho sqrt v)


class Draw(NamedTuple):
    """A stream's next step, before its noise is drawn."""

    direction: jax.Array  # [d]   a unit vector
    up: jax.Array  # []
    down: jax.Array  # []


@dataclasses.dataclass(frozen=True)
class Stream:
    """A law of features and noise."""

    name: str
    about: str
    layer: int  # features are weighted as in this layer, to a width of 2^-l; 0 for unit vectors and lam = 1
    largest_variance: float
    is_random: bool  # whether v depends on the past
    draw: Callable[[Past, jax.Array, jax.Array], Draw]  # past, a random unit vector [d], round []
    skips_narrow: bool = False  # whether a feature narrower than 2^-l is left out, as the algorithms do

    @property
    def lam(self) -> float:
        """Ridge, ``4^-l``."""
        return 4.0**-self.layer

    @property
    def width(self) -> float:
        """``rho = 2^-l``: no feature is wider."""
        return 2.0**-self.layer


def _skewed(past: Past, anywhere: jax.Array, round: jax.Array) -> Draw:
    one = jnp.ones_like(past.norm)
    return Draw(anywhere, R * one, 0.09 * R * one)


def _bursts(past: Past, anywhere: jax.Array, round: jax.Array) -> Draw:
    level = jnp.where((round // 50) % 2 == 0, 0.6 * R, 0.02 * R) * jnp.ones_like(past.norm)
    return Draw(anywhere, level, level)


def _louder(past: Past, anywhere: jax.Array, round: jax.Array) -> Draw:
    """Draw noise along the sum, and louder the larger the sum has become."""
    level = jnp.clip(0.1 + past.ahead, 0, 1) * R
    return Draw(along(past, anywhere), level, level)


def _doubling(past: Past, anywhere: jax.Array, round: jax.Array) -> Draw:
    """Draw small steps outwards until one large step back, and no noise once the sum is far ahead of its variance."""
    size = jnp.where(past.ahead > 2.5, 0, R)
    return Draw(along(past, anywhere), 0.2 * size, size)


def along(past: Past, anywhere: jax.Array) -> jax.Array:
    """Return the direction in which the sum is widest from zero, [d]; ``anywhere [d]`` while there is no sum yet."""
    direction = lowering.transform(past.inverse, past.total)
    length = jnp.sqrt(jnp.sum(direction * direction, axis=0))
    return jnp.where(length > 0, direction / jnp.where(length > 0, length, 1), anywhere)


STREAMS = (
    Stream("independent", "unit vectors and skewed noise, both independent", 0, 0.09, False, _skewed),
    Stream("bursts", "layer 3's weights, random directions, loud and quiet spells", 3, 0.36, True, _bursts),
    Stream("louder", "layer 3's weights, noise along the sum and louder the larger it is", 3, 1.0, True, _louder),
    Stream("doubling", "layer 3's weights, small steps outwards, and a stop when ahead", 3, 0.2, True, _doubling),
)


def statements(stream: Stream, delta: float) -> tuple[Statement, ...]:
    """Return the statements about a stream; the tight pair is not proved where v depends on the past."""
    found = {s.key: s for s in load_statements(GROUP, delta)}
    if stream.is_random:
        note = f"{found['tight'].note}; not proved where v depends on the past"
        found["tight"] = dataclasses.replace(found["tight"], claim="open", note=note)
    return tuple(found.values())


def inequalities(
    stream: Stream, past: Past, round: jax.Array, num_rounds: int, delta: float, constants: Pair
) -> dict[str, Check]:
    """Check every statement after ``round []``; ``constants`` are the printed pair."""
    k = round.astype(past.norm.dtype)
    log = jnp.log(4 * k**2 / delta)
    peeled_log = jnp.log(4 * k**2 * (1 + jnp.ceil(jnp.log2(k))) / delta)
    dim = past.total.shape[0]

    def radius(pair: Pair, variance: jax.Array, log: jax.Array) -> jax.Array:
        return stream.width * (pair[0] * jnp.sqrt(variance * log) + pair[1] * R * log)

    volume = dim * jnp.log1p(k / (dim * stream.lam))
    uniform = 8 * jnp.sqrt(stream.largest_variance * volume * log) + 4 * R * log
    all_variance = num_rounds * stream.largest_variance
    last = math.sqrt(2 * all_variance * math.log(1 / delta)) + 2 / 3 * R * math.log(1 / delta)
    return {
        "printed": single_check(past.norm, radius(constants, past.variance, log)),
        "tight": single_check(past.norm, radius(TIGHT, past.variance, log)),
        "peeled": single_check(past.norm, radius(TIGHT, jnp.maximum(2 * past.variance, R**2), peeled_log)),
        "bernstein": single_check(past.norm, uniform),
        "freedman": single_check(jnp.maximum(past.scalar, 0), jnp.full_like(past.scalar, last), round == num_rounds),
    }


def audit_stream(
    stream: Stream,
    *,
    key: jax.Array,
    num_seeds: int,
    num_rounds: int,
    delta: float = 0.1,
    dim: int = 2,
    constants: tuple[float, float] = (16.0, 6.0),
) -> list[Finding]:
    """Judge the inequalities on ``num_seeds`` streams of ``num_rounds``; ``constants`` stand for the printed pair."""
    num_rounds = parameters.check_count("num_rounds", num_rounds)
    pair = np.asarray(constants, float_dtype())
    play = functools.partial(_play, constants=pair, stream=stream, num_rounds=num_rounds, delta=float(delta), dim=dim)
    return judge_seeds(play, key, num_seeds, GROUP, stream.name, statements(stream, delta))


@functools.partial(jax.jit, static_argnames=("stream", "num_rounds", "delta", "dim"))
def _play(
    words: jax.Array, seeds: jax.Array, constants: jax.Array, *, stream: Stream, num_rounds: int, delta: float, dim: int
) -> jax.Array:
    """Return the rows of the running maximum, ``[seeds, statements, 5]``."""
    dtype = float_dtype()
    zero = jnp.zeros((), dtype)
    past = Past(jnp.eye(dim, dtype=dtype) / stream.lam, jnp.zeros(dim, dtype), zero, zero, zero, zero)

    def step(past: Past, key: tuple[jax.Array, jax.Array], round: jax.Array) -> tuple[Past, dict[str, Check]]:
        past, *_ = advance(stream, past, key, round)
        return past, inequalities(stream, past, round, num_rounds, delta, (constants[0], constants[1]))

    keys = [s.key for s in statements(stream, delta)]
    return follow_rounds(words, seeds, past, step, keys, num_rounds)


def advance(
    stream: Stream, past: Past, key: tuple[jax.Array, jax.Array], round: jax.Array
) -> tuple[Past, jax.Array, jax.Array]:
    """Draw with the words of a key; return the past after ``round []``, and its step: ``x [d]`` and ``eta []``."""
    dim, dtype = past.total.shape[0], past.total.dtype
    word = random.bits(jnp.stack(key), (dim + 1,))
    drawn = random.normal(word[:dim], dtype)
    anywhere = drawn / jnp.sqrt(jnp.sum(drawn * drawn, axis=0))
    draw, u = stream.draw(past, anywhere, round), random.uniform(word[dim], dtype)
    both = draw.up + draw.down
    likely = jnp.where(both > 0, draw.down / jnp.where(both > 0, both, 1), 0)
    noise = jnp.where(u < likely, draw.up, -draw.down)
    weight = jnp.ones_like(u)
    if stream.layer:  # the layers' weight: a wide feature gets the width 2^-l, and the noise is weighted with it
        tilted = lowering.transform(past.inverse, draw.direction)
        weight = jnp.minimum(stream.width / jnp.sqrt(jnp.sum(tilted * draw.direction, axis=0)), 1)
        if stream.skips_narrow:
            weight = jnp.where(weight < 1, weight, 0)
    x, eta = weight * draw.direction, weight * noise
    direction = lowering.transform(past.inverse, x)
    gain = 1 / (1 + jnp.sum(direction * x, axis=0))
    inverse = past.inverse - gain * lowering.outer(direction)
    total = past.total + eta * x
    norm = jnp.sqrt(jnp.maximum(jnp.sum(total * lowering.transform(inverse, total), axis=0), 0))
    variance = past.variance + weight**2 * draw.up * draw.down
    ahead = norm / (stream.width * jnp.sqrt(jnp.where(variance > 0, variance, 1)))
    return Past(inverse, total, past.scalar + eta, variance, norm, ahead), x, eta
