"""The largest ratio of two sides of an inequality so far, and where it first was above one.

This is all that a seed keeps of a statement, however many rounds it plays. Below it are the ways to play many seeds
and to judge statements by what they kept: seeds of a process of our own, and seeds of a simulation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxvar import blocks, lowering, parameters, random
from jaxvar.parameters import float_dtype
from jaxvar.simulate import SimulationResult
from jaxvar.theory.statement import ROUNDING, Array, Finding, Statement, finding

State = TypeVar("State")
_BLOCK = 512  # seeds side by side, so that their states stay in the cache


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


def update_running_max(
    running: RunningMax, keys: Sequence[str], checks: Mapping[str, Check], round: jax.Array
) -> RunningMax:
    """Return the running maximum of the statements ``keys`` after their checks in one more ``round []``."""
    if set(keys) != set(checks):
        raise ValueError(f"checks must be of the statements {sorted(keys)}, got {sorted(checks)}")
    worst: dict[str, tuple[jax.Array, ...]] = {}  # of each statement's inequalities, as four fields of the maximum
    # Statements with equally many inequalities are taken together: a small program for many statements.
    for num in {checks[key].observed.shape[0] for key in keys}:
        which = [key for key in keys if checks[key].observed.shape[0] == num]
        sides = jnp.broadcast_arrays(*(x for key in which for x in checks[key]))
        observed, bound, applies = (jnp.stack(sides[i::3], axis=1) for i in range(3))
        ratio = jnp.where(applies, observed / bound, -1)
        largest = jnp.max(ratio, axis=0)  # NaN where there is one
        at = lowering.lowest(ratio >= largest[None])
        place = (at + 1 if num > 1 else at).astype(ratio.dtype)  # 0 for a statement of one inequality
        found = (largest, place, lowering.take(observed, at), lowering.take(bound, at))
        worst |= {key: tuple(x[i] for x in found) for i, key in enumerate(which)}
    ratio, place, observed, bound = (jnp.stack([worst[key][i] for key in keys]) for i in range(4))
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


def single_check(observed: jax.Array, bound: jax.Array, applies: jax.Array | None = None) -> Check:
    """Return the check of a statement about no layer; it always applies unless ``applies []`` is given."""
    applies = jnp.ones(observed.shape, bool) if applies is None else applies
    return Check(observed[None], bound[None], applies[None])


def follow_rounds(
    words: jax.Array,
    seeds: jax.Array,
    start: State,
    step: Callable[[State, tuple[jax.Array, jax.Array], jax.Array], tuple[State, dict[str, Check]]],
    keys: Sequence[str],
    num_rounds: int,
) -> jax.Array:
    """Return the rows of the statements ``keys`` after ``num_rounds`` steps of ``seeds [n]``, [n, statements, 5].

    ``step`` takes a state, the random words of its seed and round, and the round []; it returns the next state and the
    checks of the round.
    """

    def play(seed: jax.Array) -> jax.Array:
        own = random.threefry(words[0], words[1], jnp.zeros_like(seed), seed)

        def advance(carry: tuple[State, RunningMax], round: jax.Array) -> tuple[tuple[State, RunningMax], None]:
            state, running = carry
            number = round.astype(jnp.uint32)
            state, checks = step(state, random.threefry(*own, jnp.zeros_like(number), number), round)
            return (state, update_running_max(running, keys, checks, round)), None

        first = (start, init_running_max(len(keys), float_dtype()))
        (_, running), _ = jax.lax.scan(advance, first, jnp.arange(1, num_rounds + 1, dtype=jnp.int32))
        return as_rows(running)

    return jnp.moveaxis(blocks.over_seeds(play, seeds.shape, (seeds,), (True,))[0], -1, 0)


def judge_seeds(
    play: Callable[..., jax.Array],
    key: jax.Array,
    num_seeds: int,
    group: str,
    case: str,
    statements: Sequence[Statement],
) -> list[Finding]:
    """Judge statements by the rows that ``play(words, seeds)`` returns, see :func:`follow_rounds`."""
    rows = play_blocks(play, key, parameters.check_count("num_seeds", num_seeds))
    return [finding(group, case, s, rows[:, i]) for i, s in enumerate(statements)]


def play_blocks(play: Callable[..., jax.Array], key: jax.Array, num_seeds: int) -> Array:
    """Return the rows that ``play(words, seeds)`` returns for all seeds, [num_seeds, statements, 5]."""
    words = random.key_words(parameters.check_key("key", key))
    block = np.arange(min(_BLOCK, num_seeds), dtype=np.uint32)
    parts = [np.asarray(play(words, start + block)) for start in range(0, num_seeds, _BLOCK)]
    return np.concatenate(parts)[:num_seeds].astype(np.float64)


def judge_simulation(
    result: SimulationResult, group: str, case: str, statements: Sequence[Statement], bound: Array, largest: float
) -> list[Finding]:
    """Judge statements by a simulation's record ``audit``, [seeds, records, statements - 1, 5].

    The last statement is the regret theorem, judged by its ``bound [seeds]``. Where that is above ``largest``, the
    largest possible regret, the theorem holds.
    """
    rows, regrets = (result.records[name][:, -1].astype(np.float64) for name in ("audit", "regret"))
    *recorded, theorem = statements
    times = float(np.median(bound)) / largest
    if times > 1:
        note = f"the bound is {times:.3g} times the largest possible regret"
        theorem = dataclasses.replace(theorem, claim="holds", note=note)
    ratio = regrets / bound
    first, zero = np.where(ratio > 1, float(result.rounds[-1]), 0.0), np.zeros_like(ratio)
    last_row = np.stack([ratio, first, zero, regrets, bound], axis=1)
    found = [finding(group, case, s, rows[:, i]) for i, s in enumerate(recorded)]
    return [*found, finding(group, case, theorem, last_row)]
