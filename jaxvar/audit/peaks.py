"""The largest ratio of two sides of an inequality so far, and where it first was above one: all that a seed keeps."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import lowering
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
    place: jax.Array  # [n]   of that ratio among the statement's inequalities, from 1; 0 where there is only one
    observed: jax.Array  # [n]   there
    bound: jax.Array  # [n]


def no_peaks(num: int, dtype: Any) -> Peak:
    """Of statements that never applied."""
    zero = jnp.zeros(num, dtype)
    return Peak(zero - 1, zero, zero, zero, zero)


def raised(peak: Peak, checks: tuple[Check, ...], round: jax.Array) -> Peak:
    """After one more round []."""
    ratio, place, observed, bound = _worst(checks)
    first = (peak.round == 0) & (ratio > 1 + ROUNDING)
    number = jnp.broadcast_to(round.astype(ratio.dtype)[None], ratio.shape)
    return Peak(
        ratio=jnp.maximum(peak.ratio, ratio),
        round=jnp.where(first, number, peak.round),
        place=jnp.where(first, place, peak.place),
        observed=jnp.where(first, observed, peak.observed),
        bound=jnp.where(first, bound, peak.bound),
    )


def reading(peak: Peak) -> jax.Array:
    """``[n, 5]``."""
    return jnp.stack(list(peak), axis=1)


def _worst(checks: tuple[Check, ...]) -> list[jax.Array]:
    """Of each statement's worst inequality: the ratio, its number from 1, and both sides; four ``[n]``.

    Statements with equally many inequalities are taken together: a small program for many statements.
    """
    found: dict[int, list[jax.Array]] = {}
    for num in {check.observed.shape[0] for check in checks}:
        which = [i for i, check in enumerate(checks) if check.observed.shape[0] == num]
        sides = jnp.broadcast_arrays(*(x for i in which for x in checks[i]))
        observed, bound, applies = (jnp.stack(sides[i::3], axis=1) for i in range(3))
        ratio = jnp.where(applies, observed / bound, -1)
        largest = jnp.max(ratio, axis=0)  # NaN where there is one
        at = lowering.lowest(ratio >= largest[None])
        place = (at + 1 if num > 1 else at).astype(ratio.dtype)  # 0 for a statement of one inequality
        worst = (largest, place, lowering.take(observed, at), lowering.take(bound, at))
        found |= {i: [x[j] for x in worst] for j, i in enumerate(which)}
    return [jnp.stack([found[i][j] for i in range(len(checks))]) for j in range(4)]


def alone(observed: jax.Array, bound: jax.Array, applies: jax.Array | None = None) -> Check:
    """A statement about no layer; it always applies where nothing else is said."""
    applies = jnp.ones(observed.shape, bool) if applies is None else applies
    return Check(observed[None], bound[None], applies[None])


def whole(peaks: Any) -> np.ndarray[Any, Any]:
    """Readings of a simulation at its last recorded round, ``[seeds, n, 5]``."""
    return np.asarray(peaks)[:, -1].astype(np.float64)
