"""The lemmas of the preset ``sharp`` (docs/sharp.md), on one layer whose features and noise depend on the past.

The streams are those of :mod:`jaxvar.theory.martingales`. The sum they go by starts at ``-q theta*``, so that it is
``Z (theta_hat - theta*)``: directions and noise follow the error of the estimate, and its norm is D. Features that are
narrower than ``2^-l`` are left out, as the algorithms do. Lemma 4 is written here a second time, as the page has it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import lowering, parameters, sharp
from jaxvar.constants import sharp as preset
from jaxvar.parameters import float_dtype
from jaxvar.theory.martingales import STREAMS, Draw, Past, R, Stream, advance, along
from jaxvar.theory.running_max import Check, follow_rounds, judge_seeds, single_check
from jaxvar.theory.statement import ROUNDING, Finding, Statement, load_statements

GROUP = "sharp"
DIM = 2
TAU = 1.0  # |theta*| <= 1, and lam = 1
LEVELS = 6  # m of Lemma 4 that are checked, from 1
EXACT = 1e-8  # how exactly identities hold, in units of 1 + their terms
NAMES = tuple(f"{bend:g}" for bend in sharp.BENDS)


def _full(past: Past, anywhere: jax.Array, round: jax.Array) -> Draw:
    """Draw noise of size R, along the error in every other round."""
    one = jnp.ones_like(past.norm)
    return Draw(jnp.where(round % 2 == 0, along(past, anywhere), anywhere), R * one, R * one)


FULL = Stream("full", "noise of size R, along the error in every other round", 3, 1.0, True, _full)


@dataclasses.dataclass(frozen=True)
class Filled:
    """A layer that learns from a stream."""

    stream: Stream
    norm: float  # of theta*; Lemma 2 and 4 allow 1

    @property
    def name(self) -> str:
        """Name of the case."""
        return f"{self.stream.name}, layer {self.stream.layer}"


def cases() -> tuple[Filled, ...]:
    """Return the layers that are judged; the stream that stops when it is ahead needs an error of zero to begin."""
    streams = {stream.name: stream for stream in (*STREAMS, FULL)}
    chosen = {"bursts": (3,), "louder": (1, 3), "doubling": (3,), "full": (1, 2, 3)}
    return tuple(
        Filled(dataclasses.replace(streams[name], layer=layer, skips_narrow=True), float(name != "doubling"))
        for name, layers in chosen.items()
        for layer in layers
    )


class Layer(NamedTuple):
    """Sums over what the layer has learned from."""

    past: Past  # with the total Z (theta_hat - theta*)
    b: jax.Array  # [d]   sum y x
    target: jax.Array  # []   sum y^2
    errors: jax.Array  # []   sum e^2
    drift: jax.Array  # []   sum 2 eta h + h^2
    step: jax.Array  # []   |h| of the last observation
    reach: jax.Array  # []   rho D before it
    learned: jax.Array  # []   bool, whether anything was learned


def statements(number: int, delta: float) -> tuple[Statement, ...]:
    """Return the statements about layer ``number``; the radius may fail with the layer's share of ``delta``."""
    found = {s.key: s for s in load_statements(GROUP, delta, radii=NAMES)}
    share = delta / (number * (number + 1))
    found["radius"] = dataclasses.replace(found["radius"], failure=share)
    return tuple(found.values())


def lemma_4(q: float, loss: jax.Array, bend: float, level: int, delta: float) -> tuple[jax.Array, jax.Array]:
    """Return the bound on D^2 for one b and one m, [], and whether there is one, []."""
    rho, curve = math.sqrt(q), (-math.log1p(-bend) - bend) / bend**2
    mu = bend / (rho * R)
    kappa, room = curve * mu * q, q * (4.0**level - 1) * TAU
    start = 2.0**level * rho * math.sqrt(TAU) + math.log(1 / delta) / mu
    a, b, c = 2 * kappa, -(1 + 2 * kappa * start), start + kappa * (1 + q) * loss
    discriminant = b * b - 4 * a * c
    root = (-b - jnp.sqrt(jnp.maximum(discriminant, 0))) / (2 * a)
    exists = (q * loss <= room) & (2 * kappa * start < 1) & (discriminant >= 0)
    return root**2 - (room - q * loss), exists


def inequalities(stream: Stream, layer: Layer, theta: jax.Array, delta: float) -> dict[str, Check]:
    """Check every statement after a round."""
    q, learned = stream.lam, layer.learned
    distance2 = layer.past.norm**2
    theta_hat = lowering.transform(layer.past.inverse, layer.b)
    loss = jnp.maximum(layer.target - jnp.sum(theta_hat * layer.b, axis=0), 0)
    off_loss = jnp.abs(loss - layer.errors / (1 + q)) / (1 + layer.target)
    off = jnp.abs(distance2 - q * (jnp.sum(theta * theta, axis=0) + loss) + layer.drift) / (1 + layer.target)
    exact = jnp.full_like(loss, EXACT)
    beta = sharp.radius(jnp.full_like(loss, q), loss, preset(), delta, R, R)
    found = {
        "loss": single_check(off_loss, exact),
        "identity": single_check(off, exact),
        "step": single_check(layer.step, layer.reach * (1 + ROUNDING) + EXACT),
        "lemma-2": single_check(distance2, q * (TAU + loss) + 2 * R**2 * math.log(1 / delta), learned),
        "radius": single_check(layer.past.norm, beta, learned),
    }
    for bend, name in zip(sharp.BENDS, NAMES, strict=True):
        pairs = [lemma_4(q, loss, bend, m, delta / (m * (m + 1))) for m in range(1, LEVELS + 1)]
        bounds, exists = (jnp.stack(side) for side in zip(*pairs, strict=True))
        applies = exists & learned[None]
        found[f"lemma-4-{name}"] = Check(
            jnp.broadcast_to(distance2[None], bounds.shape), jnp.where(applies, bounds, 1), applies
        )
    return found


def audit_sharp(
    filled: Filled, *, key: jax.Array, num_seeds: int, num_rounds: int, delta: float = 0.1
) -> list[Finding]:
    """Judge the lemmas and the radius in one layer that learns from ``num_rounds`` steps of a stream."""
    num_rounds = parameters.check_count("num_rounds", num_rounds)
    made = statements(filled.stream.layer, delta)
    keys = tuple(s.key for s in made)
    play = functools.partial(play_layer, filled=filled, num_rounds=num_rounds, delta=float(delta), keys=keys)
    return judge_seeds(play, key, num_seeds, GROUP, filled.name, made)


@functools.partial(jax.jit, static_argnames=("filled", "num_rounds", "delta", "keys"))
def play_layer(
    words: jax.Array, seeds: jax.Array, *, filled: Filled, num_rounds: int, delta: float, keys: tuple[str, ...]
) -> jax.Array:
    """Return the rows of the running maximum of the statements ``keys``, ``[seeds, statements, 5]``."""
    stream = filled.stream
    dtype, q = float_dtype(), stream.lam
    zero, theta = jnp.zeros((), dtype), jnp.zeros(DIM, dtype).at[0].set(filled.norm)
    past = Past(jnp.eye(DIM, dtype=dtype) / q, -q * theta, zero, zero, zero + math.sqrt(q) * filled.norm, zero)
    start = Layer(past, jnp.zeros(DIM, dtype), zero, zero, zero, zero, zero, zero > 0)

    def step(layer: Layer, key: tuple[jax.Array, jax.Array], round: jax.Array) -> tuple[Layer, dict[str, Check]]:
        before = layer.past
        past, x, eta = advance(stream, before, key, round)
        h = -jnp.sum(x * lowering.transform(before.inverse, before.total), axis=0)
        y = jnp.sum(x * theta, axis=0) + eta
        layer = Layer(
            past=past,
            b=layer.b + y * x,
            target=layer.target + y * y,
            errors=layer.errors + (eta + h) ** 2,
            drift=layer.drift + 2 * eta * h + h * h,
            step=jnp.abs(h),
            reach=stream.width * before.norm,
            learned=layer.learned | (jnp.sum(x * x, axis=0) > 0),
        )
        checks = inequalities(stream, layer, theta, delta)
        return layer, {key: checks[key] for key in keys}

    return follow_rounds(words, seeds, start, step, keys, num_rounds)
