"""How far the inverse, kept by rank-one steps, drifts from the true one, in float64 and in float32."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvar import random, ridge

DIM = 5


class Drift(NamedTuple):
    """One row per layer."""

    level: np.ndarray  # l
    updates: np.ndarray  # how many of the rounds the layer learned from
    error: np.ndarray  # |P - P_true|_F / |P_true|_F
    lost: np.ndarray  # |P - P_true|_F / |P_true - P_0|_F: 1 where the layer might as well not have learned
    condition: np.ndarray  # of P_true
    smallest: np.ndarray  # least eigenvalue of P


@functools.partial(jax.jit, static_argnames=("dtype", "num_rounds"))
def _play(q: jax.Array, *, dtype: Any, num_rounds: int) -> Any:
    """Each layer of scale ``q [layers]`` learns from random unit arms wherever their width is above 2^-l.

    Returns:
      The layers, and ``Sigma / q``, the sum of what they learned from: in float64, with the lost digits kept.
    """
    words = random.key_words(jax.random.key(0))
    start = jax.tree.map(lambda v: v[0], ridge.init_layers(DIM, 1, 1, dtype))

    def one(q: jax.Array) -> Any:
        def step(carry: Any, k: jax.Array) -> Any:
            layer, total, rest = carry
            z = random.normal(random.bits(words ^ k, (DIM,)), jnp.float64)
            x = (z / jnp.sqrt(jnp.sum(z * z))).astype(dtype)
            wide = ridge.width2(layer.root, x) > q * q
            layer, update = ridge.learn(layer, jnp.where(wide, q, 0).astype(dtype), x, x[0])
            exact = x.astype(jnp.float64)
            weight = jnp.where(wide, q.astype(jnp.float64) / update.width2.astype(jnp.float64), 0)
            term = weight * exact[:, None] * exact[None] - rest  # Kahan's sum
            new = total + term
            return (layer, new, (new - total) - term), None

        zero = jnp.zeros((DIM, DIM), jnp.float64)
        (layer, total, _), _ = jax.lax.scan(step, (start, zero, zero), jnp.arange(num_rounds, dtype=jnp.uint32))
        return layer, total

    return jax.vmap(one)(q)


def measure(levels: Any, dtype: Any, num_rounds: int) -> Drift:
    levels = np.asarray(levels)
    layers, total = _play((4.0**-levels).astype(dtype), dtype=dtype, num_rounds=num_rounds)
    true = np.linalg.inv(np.eye(DIM) + np.asarray(total))
    kept = np.asarray(layers.scaled_inv, np.float64)
    difference = np.linalg.norm(kept - true, axis=(1, 2))
    return Drift(
        level=levels,
        updates=np.asarray(layers.count),
        error=difference / np.linalg.norm(true, axis=(1, 2)),
        lost=difference / np.linalg.norm(true - np.eye(DIM), axis=(1, 2)),
        condition=np.linalg.cond(true),
        smallest=np.linalg.eigvalsh(kept)[:, 0],
    )


def show(name: str, drift: Drift) -> None:
    print(f"\n{name}\nlayer  updates  drift    lost     condition")
    for level, updates, error, lost, condition, _ in zip(*drift, strict=True):
        print(f"{level:5d} {updates:8d}  {error:.1e}  {lost:.1e}  {condition:.1f}")


def bound(drift: Drift, dtype: Any) -> np.ndarray:
    """A bound on the drift from first principles.

    In terms of Sigma = P^-1 the recursion adds the same ``(q / s) x x'`` as the true sum, whatever P has become: so
    rounding errors add and are not amplified. Each is about eps |P|, which in Sigma is eps times the condition
    number, and it fades as Sigma grows by the factor ``1 + q / d`` per update: at most ``d / q`` errors count at a
    time. All this needs a symmetric P; a part that is not stays as it is while P shrinks by 16^l.
    """
    alive = np.minimum(drift.updates, DIM * 4.0**drift.level)
    return np.finfo(dtype).eps * drift.condition * np.maximum(alive / 4, 8)


def check(levels: Any, dtype: Any, num_rounds: int) -> Drift:
    drift = measure(levels, dtype, num_rounds)
    show(f"{np.dtype(dtype).name}, {num_rounds} rounds, d = {DIM}", drift)
    assert np.all(drift.smallest > 0)
    assert np.all(drift.error < bound(drift, dtype))
    return drift


def test_drift_is_small() -> None:
    """Fails if gain, direction and weight do not belong together, or if rounding is amplified."""
    check(range(1, 9), np.float64, 20_000)
    check(range(1, 9), np.float32, 20_000)


@pytest.mark.slow
def test_drift_over_a_million_rounds() -> None:
    """As above, and shows from which layer on float32 is not to be trusted: updates of relative size 4^-l get lost."""
    drift = check(range(1, 9), np.float64, 1_000_000)
    assert np.all(drift.error < 1e-12)
    drift = check(range(1, 14), np.float32, 1_000_000)
    lost = dict(zip(drift.level.tolist(), drift.lost, strict=True))
    assert max(lost[level] for level in range(1, 9)) < 1e-4
    assert max(lost[9], lost[10], lost[11]) < 0.05
    assert min(lost[12], lost[13]) > 0.5
