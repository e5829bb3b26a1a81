"""Seeds on the last axis: how one seed's code runs fast over many.

A kernel decorated with :func:`seeds_last` is written for one seed, with every axis it knows about *leading*: it
names the axis of each sum, says ``c[None] * u`` where a scalar meets a vector, and never writes ``@`` or ``axis=-1``.
Such code runs unchanged when every array carries one more axis at the end, and that is what happens to it under
``jax.vmap``: the batch goes last instead of first. The innermost loop then runs over seeds, which is what the vector
units of a CPU and the coalesced loads of a GPU want, whatever the dimension of the problem.
"""

from __future__ import annotations

import contextvars
import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp

F = TypeVar("F", bound=Callable[..., Any])

_FEW_ROWS = 8  # arrays of at most this many numbers per seed are short

_on_accelerator: contextvars.ContextVar[bool | None] = contextvars.ContextVar("on_accelerator", default=None)


@contextmanager
def form_for(accelerator: bool) -> Iterator[None]:
    """Trace what is inside in the form for an accelerator, or for a CPU.

    The two choose alike and differ in what is written out and what is kept: a CPU starts kernels for nothing and wants
    short loops over seeds, an accelerator wants few kernels. What is compiled already stays as it is.
    """
    before = _on_accelerator.set(accelerator)
    try:
        yield
    finally:
        _on_accelerator.reset(before)


def on_accelerator(platform: str | None = None) -> bool:
    """Whether to trace the form for an accelerator: by :func:`form_for`, else by the platform (the default one)."""
    chosen = _on_accelerator.get()
    return (platform or jax.default_backend()) != "cpu" if chosen is None else chosen


_batch_axes: contextvars.ContextVar[int] = contextvars.ContextVar("batch_axes", default=0)


def batch_axes() -> int:
    """How many trailing axes of seeds have the arrays in the kernel that is being traced."""
    return _batch_axes.get()


@contextmanager
def with_batch_axes(num: int) -> Iterator[None]:
    """Trace what is inside for arrays with ``num`` trailing axes of seeds."""
    before = _batch_axes.set(num)
    try:
        yield
    finally:
        _batch_axes.reset(before)


def seeds_last(kernel: F) -> F:
    """Make ``jax.vmap`` of ``kernel`` put the mapped axis last.

    Args:
      kernel: a function of positional pytrees of arrays, written by the rule in this module's docstring.

    Returns:
      A function with the same values. Under ``vmap``, an argument without the mapped axis gets one of length one.
    """

    @functools.cache
    def mapped(num: int) -> Any:
        """The kernel for arrays with ``num`` trailing axes."""

        @functools.wraps(kernel)
        def traced(*args: Any) -> Any:
            with with_batch_axes(num):
                return kernel(*args)

        batched: Any = jax.custom_batching.custom_vmap(traced)

        def rule(axis_size: int, in_batched: Any, *args: Any) -> tuple[Any, Any]:
            leaves, structure = jax.tree.flatten(args)
            moved = [
                jnp.moveaxis(x, 0, -1) if is_batched else jnp.asarray(x)[..., None]
                for x, is_batched in zip(leaves, jax.tree.leaves(in_batched), strict=True)
            ]
            out = mapped(num + 1)(*jax.tree.unflatten(structure, moved))  # an outer vmap then finds the rule again

            def to_front(x: jax.Array) -> jax.Array:
                return jnp.moveaxis(jnp.broadcast_to(x, (*x.shape[:-1], axis_size)), -1, 0)

            return jax.tree.map(to_front, out), jax.tree.map(lambda _: True, out)

        batched.def_vmap(rule)
        return batched

    @functools.wraps(kernel)
    def call(*args: Any) -> Any:
        return mapped(0)(*args)

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


def kept(values: Any) -> Any:
    """``values``, stored on an accelerator: what follows reads them, and does not compute them again."""
    return jax.lax.optimization_barrier(values) if on_accelerator() else values


def scan_numbers(body: Any, carry: Any, rest: Any, xs: Any, num_axes: int) -> tuple[Any, Any, Any]:
    """``jax.lax.scan`` of ``body(carry, rest, x) -> carry, rest, y``, with ``num_axes`` axes of seeds in ``carry``.

    On an accelerator its short arrays are carried as rows, each an array over seeds: all numbers of a seed then have
    one shape, in which they can share a kernel and be written in place.
    """

    def apart(x: jax.Array) -> Any:
        shape, seeds = x.shape[: x.ndim - num_axes], x.shape[x.ndim - num_axes :]
        short = on_accelerator() and shape != () and 0 < math.prod(shape) <= _FEW_ROWS
        return list(x.reshape(-1, *seeds)) if short else x

    def joined(like: jax.Array, x: Any) -> jax.Array:
        return jnp.stack(x).reshape(like.shape) if isinstance(x, list) else x

    def body_of_rows(loop: tuple[Any, Any], x: Any) -> tuple[Any, Any]:
        after, rest, y = body(jax.tree.map(joined, carry, loop[0]), loop[1], x)
        return (jax.tree.map(apart, after), rest), y

    (rows, rest), ys = jax.lax.scan(body_of_rows, (jax.tree.map(apart, carry), rest), xs)
    return jax.tree.map(joined, carry, rows), rest, ys
