"""Seeds on the last axis: how one seed's code runs fast over many.

A kernel decorated with :func:`seeds_last` is written for one seed, with every axis it knows about *leading*: it
names the axis of each sum, says ``c[None] * u`` where a scalar meets a vector, and never writes ``@`` or ``axis=-1``.
Such code runs unchanged when every array carries one more axis at the end, and that is what happens to it under
``jax.vmap``: the batch goes last instead of first. The innermost loop then runs over seeds, which is what the vector
units of a CPU and the coalesced loads of a GPU want, whatever the dimension of the problem.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp

F = TypeVar("F", bound=Callable[..., Any])


def seeds_last(kernel: F) -> F:
    """Make ``jax.vmap`` of ``kernel`` put the mapped axis last.

    Args:
      kernel: a function of positional pytrees of arrays, written by the rule in this module's docstring.

    Returns:
      A function with the same values. Under ``vmap``, an argument without the mapped axis gets one of length one.
    """
    batched: Any = jax.custom_batching.custom_vmap(kernel)

    def rule(axis_size: int, in_batched: Any, *args: Any) -> tuple[Any, Any]:
        leaves, structure = jax.tree.flatten(args)
        moved = [
            jnp.moveaxis(x, 0, -1) if is_batched else jnp.asarray(x)[..., None]
            for x, is_batched in zip(leaves, jax.tree.leaves(in_batched), strict=True)
        ]
        out = batched(*jax.tree.unflatten(structure, moved))  # not `kernel`: an outer vmap then finds the rule again

        def to_front(x: jax.Array) -> jax.Array:
            return jnp.moveaxis(jnp.broadcast_to(x, (*x.shape[:-1], axis_size)), -1, 0)

        return jax.tree.map(to_front, out), jax.tree.map(lambda _: True, out)

    batched.def_vmap(rule)

    @functools.wraps(kernel)
    def call(*args: Any) -> Any:
        return batched(*args)

    return cast(F, call)


def differs(function: Callable[..., Any], *args: Any) -> Any:
    """Which outputs of ``jax.vmap(function, in_axes=-1)(*args)`` differ along the mapped axis: a tree of bools."""
    found: list[Any] = []
    probe: Any = jax.custom_batching.custom_vmap(lambda tree: tree)

    def rule(axis_size: int, in_batched: Any, tree: Any) -> tuple[Any, Any]:
        found.append(in_batched[0])
        return tree, in_batched[0]

    probe.def_vmap(rule)
    shape = jax.eval_shape(jax.vmap(lambda *a: probe(function(*a)), in_axes=-1), *args)
    return found[0] if found else jax.tree.map(lambda _: False, shape)


def once(values: jax.Array) -> jax.Array:
    """``values``, where finite, in a form that XLA computes once; cheap operations it repeats in each of their uses.

    A quotient is expensive enough to be kept. Its divisor is 1, but made so that no compiler may see it.
    """
    return values / (1 + 0 * values)
