"""A kernel as plain arithmetic on numbers, one per seed: how many small steps become one kernel of an accelerator.

A reduction over arms whose result meets the arms again ends a kernel there, and so do an array of another shape, a
concatenation, a running count. Over the entries themselves, each an array over seeds, all of that is arithmetic of one
shape, and the compiler makes it one kernel. A CPU, where a kernel costs nothing to start, keeps the short loops.

The form is derived, not programmed: a function decorated with :func:`written_out` is traced for one seed, and its
operations are then applied entry by entry. Both forms compute the same, up to the order of sums.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from jaxvar.batching import batch_axes, on_accelerator, with_batch_axes

F = TypeVar("F", bound=Callable[..., Any])
Entries = np.ndarray[Any, Any]  # of objects: arrays that differ in trailing axes of length one, or none, at the most

_MOST = 512  # numbers per seed that a function may be given to be written out
_BY_ENTRY = frozenset(
    {
        *("add", "sub", "mul", "div", "rem", "max", "min", "neg", "abs", "sign", "floor", "ceil", "round", "clamp"),
        *("sqrt", "rsqrt", "square", "integer_pow", "pow", "exp", "exp2", "log", "log1p", "expm1"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "is_finite", "select_n"),
        *("shift_left", "shift_right_logical", "convert_element_type", "bitcast_convert_type", "copy", "stop_gradient"),
    }
)
_REDUCTIONS: dict[str, Any] = {
    "reduce_sum": jnp.add,
    "reduce_max": jnp.maximum,
    "reduce_min": jnp.minimum,
    "reduce_and": jnp.logical_and,
    "reduce_or": jnp.logical_or,
}
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}


def written_out(function: F) -> F:
    """Make ``function`` plain arithmetic where it is traced for an accelerator; elsewhere it is itself.

    Args:
      function: of positional pytrees of arrays, as in :func:`jaxvar.batching.seeds_last`, and called in such a kernel.

    Returns:
      A function with the same values.
    """

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        num = batch_axes()
        leaves, structure = jax.tree.flatten(args)
        arrays = [x for x in leaves if not isinstance(x, int | float)]
        if not on_accelerator() or sum(math.prod(x.shape[: x.ndim - num]) for x in arrays) > _MOST:
            return function(*args)
        given = [_entries(x, num) for x in arrays]

        def of_arrays(*arrays: jax.Array) -> Any:
            rest = iter(arrays)
            return function(
                *jax.tree.unflatten(structure, [x if isinstance(x, int | float) else next(rest) for x in leaves])
            )

        shapes = [jax.ShapeDtypeStruct(e.shape, x.dtype) for e, x in zip(given, arrays, strict=True)]
        with with_batch_axes(0):
            program, out = jax.make_jaxpr(of_arrays, return_shape=True)(*shapes)
        results = _evaluate(program.jaxpr, program.consts, given)
        seeds = np.broadcast_shapes(*(x.shape[x.ndim - num :] for x in arrays))
        return jax.tree.unflatten(jax.tree.structure(out), [_joined(r, seeds) for r in results])

    return cast(F, call)


def _entries(x: Any, num_axes: int) -> Entries:
    """The entries of ``x [*shape, *batch]``, without their batch axes in the shape."""
    shape = np.shape(x)[: np.ndim(x) - num_axes]
    return _made(shape, lambda index: x[index])


def _made(shape: tuple[int, ...], entry: Any) -> Entries:
    made = np.empty(shape, object)
    for index in np.ndindex(*shape):
        made[index] = entry(index)
    return made


def _joined(entries: Entries, seeds: tuple[int, ...]) -> jax.Array:
    rows = [jnp.broadcast_to(entry, seeds) for entry in entries.flat]
    return rows[0] if entries.ndim == 0 else jnp.stack(rows).reshape(*entries.shape, *seeds)


def _evaluate(jaxpr: Any, consts: Any, given: list[Entries]) -> list[Entries]:
    known: dict[Any, Entries] = {}

    def read(atom: Any) -> Entries:
        return _entries(np.asarray(atom.val), 0) if isinstance(atom, core.Literal) else known[atom]

    known.update(zip(jaxpr.constvars, (_entries(np.asarray(c), 0) for c in consts), strict=True))
    known.update(zip(jaxpr.invars, given, strict=True))
    for equation in jaxpr.eqns:
        found = _apply(equation, [read(v) for v in equation.invars])
        known.update(zip(equation.outvars, found, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _apply(equation: Any, values: list[Entries]) -> list[Entries]:
    name, params, shape = equation.primitive.name, equation.params, equation.outvars[0].aval.shape
    if name in _CALLS:
        inner = params[_CALLS[name]]
        return _evaluate(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), values)
    first: Any = values[0] if values else None
    if name == "optimization_barrier":  # where such a function ends is for its caller to say
        return values
    if name in _BY_ENTRY:
        spread = [np.broadcast_to(v, shape) for v in values]
        return [_made(shape, lambda index: _bind(equation, [v[index] for v in spread]))]
    if name in _REDUCTIONS:
        kept = [axis for axis in range(first.ndim) if axis not in params["axes"]]
        rows = first.transpose(*kept, *params["axes"]).reshape(*shape, -1)
        return [_made(shape, lambda index: functools.reduce(_met(_REDUCTIONS[name]), rows[index]))]
    if name == "broadcast_in_dim":
        sizes = [1] * len(shape)
        for axis, size in zip(params["broadcast_dimensions"], first.shape, strict=True):
            sizes[axis] = size
        return [np.broadcast_to(first.reshape(sizes), shape)]
    if name in ("reshape", "squeeze", "expand_dims", "reshard"):
        return [first.reshape(shape)]
    if name == "transpose":
        return [first.transpose(params["permutation"])]
    if name == "slice":
        strides = params["strides"] or (1,) * first.ndim
        return [first[tuple(map(slice, params["start_indices"], params["limit_indices"], strides))]]
    if name == "concatenate":
        return [np.concatenate(values, params["dimension"])]
    if name == "stack":
        return [np.stack(values, params["axis"])]
    if name == "iota":
        return [_entries(np.indices(shape)[params["dimension"]].astype(params["dtype"]), 0)]
    raise NotImplementedError(f"a kernel that is written out must not use {name!r}")


def _bind(equation: Any, entries: list[Any]) -> Any:
    return equation.primitive.bind(*_alike(entries), **equation.params)


def _met(operation: Any) -> Any:
    return lambda one, other: operation(*_alike([one, other]))


def _alike(entries: list[Any]) -> list[Any]:
    """Entries in one shape: those that are the same for all seeds are repeated."""
    shape = np.broadcast_shapes(*map(np.shape, entries))
    return [x if np.shape(x) == shape else jnp.broadcast_to(x, shape) for x in entries]
