"""The largest ratio of two sides of an inequality so far, and where it first was above one: all that a seed keeps.

Written with the batch of seeds last (see :mod:`jaxvar.batching`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import ties
from jaxvar.audit.statement import ROUNDING


class Check(NamedTuple):
    """One inequality in one round, in each of some layers (or stages)."""

    observed: jax.Array  # [layers]
    bound: jax.Array  # [layers]   above zero
    applies: jax.Array  # [layers]   bool, where it has something to say


class Peak(NamedTuple):
    """What is kept of each of n statements."""

    ratio: jax.Array  # [n]   the largest observed / bound; -1 while the statement never applied
    round: jax.Array  # [n]   in which the ratio was first above one; 0 while it never was
    index: jax.Array  # [n]   of that ratio among the statement's inequalities, from 1; 0 where there is only one
    observed: jax.Array  # [n]   there
    bound: jax.Array  # [n]


def no_peaks(num: int, dtype: Any, batch: tuple[int, ...] = ()) -> Peak:
    """Of statements that never applied."""
    zero = jnp.zeros((num, *batch), dtype)
    return Peak(zero - 1, zero, zero, zero, zero)


def raised(peak: Peak, checks: tuple[Check, ...], round: jax.Array) -> Peak:
    """After one more round []; part of a ``seeds_last`` kernel."""
    ratio, index, observed, bound = (jnp.stack(x) for x in zip(*map(_worst, checks), strict=True))
    first = (peak.round == 0) & (ratio > 1 + ROUNDING)
    number = jnp.broadcast_to(round.astype(ratio.dtype)[None], ratio.shape)
    return Peak(
        ratio=jnp.maximum(peak.ratio, ratio),
        round=jnp.where(first, number, peak.round),
        index=jnp.where(first, index, peak.index),
        observed=jnp.where(first, observed, peak.observed),
        bound=jnp.where(first, bound, peak.bound),
    )


def reading(peak: Peak) -> jax.Array:
    """``[n, 5]``."""
    return jnp.stack(list(peak), axis=1)


def _worst(check: Check) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Of the layer with the largest ratio: the ratio, its number from 1, and both sides."""
    observed, bound, applies = jnp.broadcast_arrays(*check)
    ratio = jnp.where(applies, observed / bound, -1)
    at = ties.lowest(ratio >= jnp.max(ratio, axis=0)[None])
    worst = tuple(ties.take(x, at) for x in (ratio, observed, bound))
    worst = tuple(jnp.where(jnp.isnan(jnp.max(ratio, axis=0)), jnp.nan, x) for x in worst)
    number = at + 1 if check.observed.shape[0] > 1 else at  # 0 for a statement about no layer
    return worst[0], number.astype(worst[0].dtype), worst[1], worst[2]


def alone(observed: jax.Array, bound: jax.Array, applies: jax.Array | None = None) -> Check:
    """A statement about no layer; it always applies where nothing else is said."""
    applies = jnp.ones(observed.shape, bool) if applies is None else applies
    return Check(observed[None], bound[None], applies[None])


def whole(peaks: Any) -> np.ndarray[Any, Any]:
    """Readings of a simulation at its last recorded round, ``[seeds, n, 5]``."""
    return np.asarray(peaks)[:, -1].astype(np.float64)
