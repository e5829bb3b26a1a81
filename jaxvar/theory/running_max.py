"""The largest ratio of two sides of an inequality so far, and where it first was above one.

This is all that a seed keeps of a statement, however many rounds it plays.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxvar import lowering
from jaxvar.theory.statement import ROUNDING, Array


class Check(NamedTuple):
    """One inequality in one round, in each of some layers (or stages)."""

    observed: jax.Array  # [layers]
    bound: jax.Array  # [layers]   above zero
    applies: jax.Array  # [layers]   bool, where it has something to say


class RunningMax(NamedTuple):
    """The largest ratio of each of n statements, and the first violation."""

    ratio: jax.Array  # [n]   the largest observed / bound; -1 while the statement never applied
    round: jax.Array  # [n]   in which the ratio was first above one; 0 while it never was
    place: jax.Array  # [n]   of that ratio among the statement's inequalities, from 1; 0 where there is only one
    observed: jax.Array  # [n]   there
    bound: jax.Array  # [n]


def init_running_max(num: int, dtype: DTypeLike) -> RunningMax:
    """Return the running maximum of ``num`` statements that have not applied yet, [num] each."""
    zero = jnp.zeros(num, dtype)
    return RunningMax(zero - 1, zero, zero, zero, zero)


def update_running_max(running: RunningMax, checks: tuple[Check, ...], round: jax.Array) -> RunningMax:
    """Return the running maximum after the checks of one more ``round []``."""
    ratio, place, observed, bound = _worst(checks)
    first = (running.round == 0) & (ratio > 1 + ROUNDING)
    number = jnp.broadcast_to(round.astype(ratio.dtype)[None], ratio.shape)
    return RunningMax(
        ratio=jnp.maximum(running.ratio, ratio),
        round=jnp.where(first, number, running.round),
        place=jnp.where(first, place, running.place),
        observed=jnp.where(first, observed, running.observed),
        bound=jnp.where(first, bound, running.bound),
    )


def as_rows(running: RunningMax) -> jax.Array:
    """Stack the fields into one row per statement, ``[n, 5]``."""
    return jnp.stack(list(running), axis=1)


def last_rows(recorded: Array) -> Array:
    """Return the rows of a simulation ``[seeds, records, n, 5]`` at its last recorded round, ``[seeds, n, 5]``."""
    return np.asarray(recorded)[:, -1].astype(np.float64)


def single_check(observed: jax.Array, bound: jax.Array, applies: jax.Array | None = None) -> Check:
    """Return the check of a statement about no layer; it always applies unless ``applies []`` is given."""
    applies = jnp.ones(observed.shape, bool) if applies is None else applies
    return Check(observed[None], bound[None], applies[None])


def _worst(checks: tuple[Check, ...]) -> list[jax.Array]:
    """Return ratio, number from 1 and both sides of each statement's worst inequality; four ``[n]``.

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
