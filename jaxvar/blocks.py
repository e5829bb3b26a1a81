"""A block of runs: what is vectorised over while rounds are played.

Inside a program the runs of a block are the last axes of every array; outside of it, runs come first. A CPU's block
has a second axis, of length one (see :mod:`jaxvar.simulate`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxvar import runner
from jaxvar.batching import differs
from jaxvar.pytrees import pytree, static


class Block(NamedTuple):
    """A block of runs before round 1, and how it goes on."""

    carry: Any  # leaves [..., *block]
    step: Callable[[Any, jax.Array], Any]  # carry, round -> carry
    read: Callable[[Any], dict[str, jax.Array]]  # carry -> each recorder's reading, [..., *block]
    settle: Callable[[Any], Any]  # carry -> carry, in the form in which any device goes on from it


def begin(
    algorithm: Any,
    algorithm_values: dict[int, jax.Array],
    environment: Any,
    environment_values: dict[int, jax.Array],
    words: jax.Array,
    ids: jax.Array,  # [3, *block]   algorithm setting, environment setting, seed
    record: tuple[Any, ...],
) -> Block:
    """Draw the problems of a block of runs and set everything up for round 1."""
    num_axes = ids.ndim - 1
    mine, theirs = (
        {i: jnp.moveaxis(v[ids[j]], range(num_axes), range(-num_axes, 0)) for i, v in values.items()}
        for j, values in enumerate((algorithm_values, environment_values))
    )
    own = (mine, theirs, ids[2])

    def begin_one(mine: Any, theirs: Any, seed: jax.Array) -> Any:
        return runner.begin(_with(algorithm, mine), _with(environment, theirs), words, seed, record)

    # What is the same for all seeds of the block, such as a given model, is held once.
    flat = jax.tree.map(lambda x: x.reshape(*x.shape[: x.ndim - num_axes], -1), own)
    fixed_differs, _ = differs(begin_one, *flat)
    axes = jax.tree.map(lambda d: -1 if d else None, fixed_differs)
    fixed, carry = _over_runs(begin_one, num_axes, -1, (axes, -1))(*own)

    def each(function: Any, *carried: Any, shared: tuple[Any, ...] = ()) -> Any:
        def one(mine: Any, theirs: Any, fixed: Any, carried: Any) -> Any:
            return function(_with(algorithm, mine), _with(environment, theirs), fixed, *carried, *shared)

        return _over_runs(one, num_axes, (-1, -1, axes, -1), -1)(mine, theirs, fixed, carried)

    def step(carry: Any, round: jax.Array) -> Any:
        return runner.advance(each, opened(environment), record, carry, round)[0]

    read = _over_runs(functools.partial(runner.read, record), num_axes, -1, -1)
    return Block(carry, step, read, functools.partial(runner.settle, each, opened(environment)))


def runs_first(x: jax.Array, block: tuple[int, ...]) -> jax.Array:
    """``[blocks, ..., *block]`` as ``[runs, ...]``."""
    x = jnp.moveaxis(x, range(-len(block), 0), range(1, 1 + len(block)))
    return x.reshape(x.shape[0] * math.prod(block), *x.shape[1 + len(block) :])


def runs_last(x: jax.Array, block: tuple[int, ...]) -> jax.Array:
    """``[runs, ...]`` as ``[blocks, ..., *block]``."""
    x = x.reshape(-1, *block, *x.shape[1:])
    return jnp.moveaxis(x, range(1, 1 + len(block)), range(-len(block), 0))


def _over_runs(function: Any, num_axes: int, in_axes: Any, out_axes: Any) -> Any:
    """``jax.vmap`` of ``function`` over each of the block's axes, which come last."""
    for _ in range(num_axes):
        function = jax.vmap(function, in_axes=in_axes, out_axes=out_axes)
    return function


@pytree
class _Closed:
    """An object that is not a pytree, as part of the program."""

    value: Any = static()


def closed(target: Any) -> Any:
    """``target`` as a pytree: one that is none already is compiled into the program, numbers and all."""
    leaves = jax.tree.leaves(target)
    return _Closed(value=target) if len(leaves) == 1 and leaves[0] is target else target


def opened(target: Any) -> Any:
    """What was given to :func:`closed`."""
    return target.value if isinstance(target, _Closed) else target


def _with(base: Any, values: dict[int, jax.Array]) -> Any:
    """``base`` with some of its leaves replaced."""
    leaves, structure = jax.tree.flatten(base)
    return opened(jax.tree.unflatten(structure, [values.get(i, x) for i, x in enumerate(leaves)]))
