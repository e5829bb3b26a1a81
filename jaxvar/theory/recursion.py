"""The inequalities between the sums of the MDP appendix (labels ``lemma:rec:1`` to ``lemma:rec:11`` and ``lemma:g``).

Two slips are corrected beside what is printed. Where only the episodes with ``I_H = 0`` are meant, the proofs write
the noise of all episodes, ``A_0``: corrected, it is the noise of these. And ``lemma:rec:8`` loses the term of
``V - V*`` that its own proof ends with.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar.algorithms.ucrl_ave import UcrlAve
from jaxvar.theory.running_max import Check, single_check

TINY = 1e-12  # added to bounds that may be zero on both sides


class Sums(NamedTuple):
    """The sums of the appendix over all episodes so far, and what else the regret consists of."""

    noise: jax.Array  # [3, orders]   of [P f^(2^m)](s, a) - f^(2^m)(s'), with its sign: A_m
    spread: jax.Array  # [3, orders]   of the conditional variances of f^(2^m): S_m
    optimal_spread: jax.Array  # []   of those of V*: Q_0
    policy_spread: jax.Array  # []   of those of V^pi
    bellman: jax.Array  # []   R_0
    grown: jax.Array  # []   G
    grown_noise: jax.Array  # []   of V(s') - [P V](s, a) in the episodes that G counts
    kept_noise: jax.Array  # []   of [P V](s, a) - V(s') where I_h is 1
    luck: jax.Array  # []   of an episode's rewards minus V^pi(s_1): I_1
    regret: jax.Array  # []


def orders(num_episodes: int, horizon: int) -> int:
    """Return ``M = ceil(log2 2HK)``."""
    return math.ceil(math.log2(2 * horizon * num_episodes))


def inequalities(sums: Sums, valid: jax.Array, k: jax.Array, algorithm: UcrlAve) -> dict[str, Check]:
    """Check every statement after ``k []`` episodes; ``valid []`` says whether the radii have held."""
    dim, horizon, num_layers = algorithm.dim, algorithm.horizon, algorithm.num_layers
    lam, delta = jnp.asarray(algorithm.lam), jnp.asarray(algorithm.delta)
    log = jnp.log(1 / delta)
    noise, spread = jnp.abs(sums.noise), sums.spread
    (a, above, below), (s, above_spread, below_spread) = noise, spread
    q0, r0, g = sums.optimal_spread, sums.bellman, sums.grown
    grown_noise, kept_noise = jnp.abs(sums.grown_noise), jnp.abs(sums.kept_noise)
    power = np.exp2(np.arange(1, above.shape[0])).reshape(-1, *(1,) * (above.ndim - 1))  # 2^(m+1), m = 0, 1, ...
    always = jnp.ones_like(valid)

    def each(observed: jax.Array, bound: jax.Array, applies: jax.Array = valid) -> Check:
        return Check(observed, bound + TINY, jnp.broadcast_to(applies[None], observed.shape))

    def freedman(observed: jax.Array, spread: jax.Array) -> Check:
        return each(observed, jnp.sqrt(2 * spread * log[None]) + 4 / 3 * log[None], always)

    def one(observed: jax.Array, bound: jax.Array, applies: jax.Array = valid) -> Check:
        return single_check(observed, bound + TINY, applies)

    def recursion(spread: jax.Array, noise: jax.Array, rest: jax.Array) -> Check:
        return each(spread[:-1], noise[1:] + g[None] + power * rest[None])

    all_noise = r0 + g + a[0]
    one_episode = 1 + jnp.sqrt(2 * jnp.log(k / delta)) + 2 / 3 * jnp.log(k / delta)
    both = r0 + 2 * g + a[0] + above[0]
    most_grown = dim * num_layers / 2 * jnp.log1p(k * horizon / (dim * lam)) + dim * num_layers**2
    return {
        "sum-grown": one(g, most_grown, always),
        "split": one(s[0], 2 * q0 + 2 * above_spread[0], always),
        "rec-1-printed": recursion(above_spread, above, all_noise),
        "rec-1-corrected": recursion(above_spread, above, r0 + g + grown_noise),
        "rec-2": one(a[0], 2 * jnp.sqrt((q0 + above_spread[0]) * log) + 2 / 3 * log, always),
        "rec-3": freedman(above, above_spread),
        "rec-4": one(a[0], 4 * jnp.sqrt((q0 + above[1] + g + 2 * (r0 + g)) * log) + 10 * log),
        "rec-6": one(above[1], 4 * jnp.sqrt((r0 + 2 * g + a[0]) * log) + 11 * log),
        "rec-7": one(a[0], 132 * log + 28 * jnp.sqrt(r0 * log) + 40 * jnp.sqrt(g * log) + 8 * jnp.sqrt(q0 * log)),
        "rec-8-printed": recursion(below_spread, below, all_noise),
        "rec-8-corrected": recursion(below_spread, below, r0 + g + grown_noise + above[0]),
        "rec-9": freedman(below, below_spread),
        "rec-10-first": one(below[1], 4 * jnp.sqrt(both * log) + 11 * log),
        "rec-10-second": one(below[0], 2 * jnp.sqrt(both * log) + 7 * log),
        "q-split": one(q0, 2 * below_spread[0] + 2 * sums.policy_spread, always),
        "rec-11": one(q0, 2 * below_spread[0] + 2 * k * one_episode, always),
        "luck": one(jnp.abs(sums.luck), a[0] + above[0] + below[0], always),
        "regret-printed": one(sums.regret, jnp.maximum(r0 + a[0] + g + sums.luck, 0)),
        "regret-corrected": one(sums.regret, jnp.maximum(r0 + kept_noise + g + sums.luck, 0)),
    }
