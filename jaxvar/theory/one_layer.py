"""A single layer of SAVE, deep and long enough for its variance estimate to matter.

A run of feasible length stays in layers where the empirical variance is not used. One arm of length one in one
dimension fills a deep layer by itself: there the weights are known beforehand, ``w^2 = q Sigma`` and
``Sigma <- (1 + q) Sigma``, and a round is a few operations. The noise takes two values (see
:mod:`jaxvar.theory.martingales`), so that its variance is exact.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import parameters, random
from jaxvar.constants import RadiusConstants
from jaxvar.parameters import float_dtype
from jaxvar.ridge import radius
from jaxvar.theory.reference_ridge import judged
from jaxvar.theory.running_max import Check, follow_rounds, judge_seeds, single_check
from jaxvar.theory.statement import Finding, load_statements

GROUP = "one layer"
R = 1.0
UP, DOWN = 1.0, 0.1  # the noise's values; its variance is their product
THETA = 0.5


class Layer(NamedTuple):
    """Sums over what the layer has learned from."""

    sigma: jax.Array  # []   q + sum w^2
    b: jax.Array  # []   sum w^2 y
    noise: jax.Array  # []   sum w^2 eps^2
    spread: jax.Array  # []   sum w^2 |eps^2 - sigma^2|
    squares: jax.Array  # []   sum w^2 (y - theta*)^2 + q theta*^2 - the least loss: |theta_hat - theta*|_Sigma^2


def inequalities(
    layer: Layer, number: int, round: jax.Array, delta: float, radii: Mapping[str, RadiusConstants]
) -> dict[str, Check]:
    """Check every statement after ``round []`` updates of layer ``number``."""
    q, k = 4.0**-number, round.astype(layer.noise.dtype)
    log0, log1 = jnp.log(4 * k**2 / delta), jnp.log(4 * (k + 1) ** 2 / delta)
    weight = layer.sigma - q
    variance = UP * DOWN * weight
    theta_hat = layer.b / layer.sigma
    error = jnp.sqrt(layer.squares)
    # sum w^2 (y - theta_hat)^2 = |y - theta*|_w^2 - |theta_hat - theta*|_Sigma^2 + q (theta*^2 - theta_hat^2)
    emp = jnp.maximum(layer.noise - layer.squares + q * (THETA**2 - theta_hat**2), 0)
    root = 2.0**-number
    cross = (1.73 * root * R * log0 + root) ** 2
    deep = 2.0**number >= 12.6 * jnp.sqrt(log0)

    def beta(constants: RadiusConstants) -> jax.Array:
        shifted = jnp.log(4 * (k + constants.log_shift) ** 2 / delta)
        return radius(jnp.full_like(emp, q), emp, weight, k, constants, R, log0, shifted)

    known = root * (16 * jnp.sqrt(variance * log1) + 6 * R * log1 + 2)
    return {
        "known": single_check(error, known),
        **{f"radius-{name}": single_check(error, beta(constants)) for name, constants in radii.items()},
        "variance-first": single_check(variance, 2 * layer.noise + 14 / 3 * R**2 * log0),
        "variance-second": single_check(layer.noise, 1.5 * variance + 7 / 3 * R**2 * log0),
        "estimate-printed": single_check(variance, 8 * emp + 6 * R**2 * log1 + 16 * q),
        "estimate-corrected": single_check(variance, 8 * emp + 9.62 * R**2 * log1 + 128 * q),
        "estimate-tight": single_check(variance, 8 * emp + 28 / 3 * R**2 * log0 + 16 * cross, deep),
        "estimate-second": single_check(emp, 1.5 * variance + 7 / 3 * R**2 * log0 + q),
        "absolute-inside": single_check(layer.spread, 0.5 * variance + 7 / 3 * R**2 * log0),
    }


def audit_layer(
    *,
    key: jax.Array,
    num_seeds: int,
    num_rounds: int,
    number: int = 6,
    delta: float = 0.1,
    radii: Mapping[str, RadiusConstants] | None = None,
) -> list[Finding]:
    """Judge confidence and variance in layer ``number``, filled by ``num_rounds`` observations."""
    radii = judged("bandit") if radii is None else radii
    num_rounds = parameters.check_count("num_rounds", num_rounds)
    q = 4.0**-number
    most = int(np.log(1 / q**2) / np.log1p(q))  # then every weight is below one, as in the algorithm
    num_rounds = min(num_rounds, most)
    constants, names = tuple(radii.values()), tuple(radii)
    size = {"number": number, "num_rounds": num_rounds, "delta": delta}
    play = functools.partial(_play, constants=constants, names=names, **size)
    case = f"layer {number}, {num_rounds} updates"
    return judge_seeds(play, key, num_seeds, GROUP, case, load_statements(GROUP, delta, radii=radii))


@functools.partial(jax.jit, static_argnames=("names", "number", "num_rounds", "delta"))
def _play(
    words: jax.Array,
    seeds: jax.Array,
    constants: tuple[RadiusConstants, ...],
    *,
    names: tuple[str, ...],
    number: int,
    num_rounds: int,
    delta: float,
) -> jax.Array:
    """Return the rows of the running maximum, ``[seeds, statements, 5]``."""
    dtype, q = float_dtype(), 4.0**-number
    radii = dict(zip(names, constants, strict=True))
    zero = jnp.zeros((), dtype)

    def step(layer: Layer, key: tuple[jax.Array, jax.Array], round: jax.Array) -> tuple[Layer, dict[str, Check]]:
        noise = jnp.where(random.uniform(key[0], dtype) < DOWN / (UP + DOWN), UP, -DOWN)
        weight = q * layer.sigma  # w^2 = q / |a|^2_{Sigma^-1}
        sigma, b = layer.sigma + weight, layer.b + weight * (THETA + noise)
        layer = Layer(
            sigma=sigma,
            b=b,
            noise=layer.noise + weight * noise**2,
            spread=layer.spread + weight * jnp.abs(noise**2 - UP * DOWN),
            squares=sigma * (b / sigma - THETA) ** 2,
        )
        return layer, inequalities(layer, number, round, delta, radii)

    start = Layer(zero + q, zero, zero, zero, zero + q * THETA**2)
    keys = [s.key for s in load_statements(GROUP, delta, radii=radii)]
    return follow_rounds(words, seeds, start, step, keys, num_rounds)
