"""One seed's function over a block of seeds.

Algorithms, environments and the game are written for one seed. :func:`over_seeds` traces such a function and evaluates
it for a whole block of seeds with the block on the *last* axes of every array that differs between seeds; what is the
same for all seeds is held once. The innermost loop then runs over seeds, which is what the vector units of a CPU and
the coalesced loads of a GPU want, whatever the dimension of the problem. ``jax.vmap`` would move the block to the
front at every broadcast and product. A block of shape () or (1,) is a single seed. Operations without a rule here fall
back to ``jax.vmap``, so that any function of JAX may be used in an algorithm.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from chex import ArrayTree
from jax import lax
from jax.extend import core

from jaxvar.lowering import WINDOW, combine, on_accelerator

Function = Callable[..., ArrayTree]  # of pytrees of arrays
Outputs = list[Any]  # of an equation: arrays, or values that say whether they differ between seeds

_MOST_WINDOWS = 8  # that a CPU reduces in a loop each, terms and all
_GROUP = 16  # numbers per turn of a long maximum over a block
_LANES = 64  # numbers side by side in a long reduction of one seed
_FEW = 8  # of which the last are reduced one by one
_MOST_TURNS = 40  # of a loop, which an accelerator writes out; of a longer one as many at a time


class OverSeeds:
    """A function of pytrees of arrays, written for one seed, traced once and called for blocks of seeds.

    Args:
      function: what to trace.
      block: the shape of the block of seeds.
      args: its arguments, or others of the same shapes; a leaf that differs between seeds has the block's axes at its
        end.
      differs: a tree like ``args``: whether each leaf does.
    """

    def __init__(self, function: Function, block: tuple[int, ...], args: ArrayTree, differs: ArrayTree) -> None:
        leaves, self.given = jax.tree.flatten(args)
        self.block, self.flags = block, [flag and bool(block) for flag in jax.tree.leaves(differs)]
        shapes = []
        for x, differ in zip(leaves, self.flags, strict=True):
            shape = jnp.shape(x)[: jnp.ndim(x) - len(block)] if differ else jnp.shape(x)
            shapes.append(jax.ShapeDtypeStruct(shape, x.dtype if hasattr(x, "dtype") else jnp.result_type(x)))
        self.traced, out = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(self.given, shapes))
        self.program, self.structure = _flat(self.traced), jax.tree.structure(out)

    def carried(self, place: int) -> ArrayTree:
        """Let the result be argument ``place`` of the next call; returns whether each leaf of it will ever differ."""
        first = len(jax.tree.leaves(jax.tree.unflatten(self.given, self.flags)[:place]))
        end, before = first + len(self.traced.jaxpr.outvars), [False]
        while before != self.flags:
            before, after = self.flags, _depends(self.traced.jaxpr, self.flags)
            carried = [a or b for a, b in zip(before[first:end], after, strict=True)]
            self.flags = [*before[:first], *carried, *before[end:]]
        return jax.tree.unflatten(self.structure, self.flags[first:end])

    def __call__(self, *args: ArrayTree) -> tuple[ArrayTree, ArrayTree]:
        """Return the outputs, and a tree of whether each of them differs between seeds."""
        leaves = [x if hasattr(x, "dtype") else jnp.asarray(x) for x in jax.tree.leaves(args)]
        given = [_Value(x, differ) for x, differ in zip(leaves, self.flags, strict=True)]
        values = _Block(self.block).evaluate(self.program, given)
        return (
            jax.tree.unflatten(self.structure, [v.array for v in values]),
            jax.tree.unflatten(self.structure, [v.differs for v in values]),
        )


def over_seeds(
    function: Function, block: tuple[int, ...], args: ArrayTree, differs: ArrayTree
) -> tuple[ArrayTree, ArrayTree]:
    """Call ``function(*args)``, written for one seed, for a block of seeds; see :class:`OverSeeds`."""
    return OverSeeds(function, block, args, differs)(*args)


def spread(tree: ArrayTree, differs: ArrayTree, block: tuple[int, ...], wanted: ArrayTree = None) -> ArrayTree:
    """Return ``tree`` with the block's axes at the end of every leaf, or of those that are ``wanted``."""
    return jax.tree.map(
        lambda x, f, w: x if f or not w else _Block(block).spread(_Value(x, f), jnp.shape(x)),
        *(tree, differs, jax.tree.map(lambda _: True, tree) if wanted is None else wanted),
    )


def not_differentiable(primals: ArrayTree, tangents: ArrayTree) -> NoReturn:
    """Refuse to differentiate a choice."""
    raise TypeError(
        "choices are not differentiable: jaxvar supports jit, vmap and scan. A choice is piecewise constant in every "
        "parameter; differentiate the bounds themselves, or use finite differences over many seeds"
    )


def batch_last(function: Function) -> Function:
    """Return ``function``, of pytrees of arrays, in a form that ``jax.vmap`` maps by :func:`over_seeds`."""
    mapped: Any = jax.custom_batching.custom_vmap(function)

    def rule(size: int, differs: ArrayTree, *args: ArrayTree) -> tuple[ArrayTree, ArrayTree]:
        flags: list[ArrayTree] = []

        @jax.custom_jvp
        def call(*args: ArrayTree) -> ArrayTree:
            last = jax.tree.map(lambda x, f: jnp.moveaxis(x, 0, -1) if f else x, args, tuple(differs))
            out, found = over_seeds(function, (size,), last, tuple(differs))
            flags.append(found)
            return jax.tree.map(lambda x, f: jnp.moveaxis(x, -1, 0) if f else x, out, found)

        call.defjvp(not_differentiable)
        out = call(*args)
        return out, flags[-1]

    mapped.def_vmap(rule)
    return mapped


class _Value:
    """An array of one seed over a block of seeds, and whether it differs between them.

    If it does, it is an array with the block's axes at its end, or an array over seeds for each of its entries, or
    both; ``written`` then makes the entries if somebody asks for them, by at most ``age`` equations.
    """

    __slots__ = ("_array", "age", "differs", "repeated", "rows", "written")

    def __init__(self, array: Any, differs: bool, rows: Any = None) -> None:
        self._array, self.differs, self.rows = array, differs, rows
        self.written: Callable[[], Any] | None = None
        self.age = 0
        self.repeated: dict[tuple[int, ...], jax.Array] = {}  # over a block, by shape: once for all who read it

    @property
    def array(self) -> jax.Array:
        """The array."""
        if self._array is None:
            rows = list(self.rows.flat)
            self._array = jnp.stack(rows).reshape(*self.rows.shape, *rows[0].shape)
        return self._array

    @property
    def known(self) -> Any:
        """The numbers themselves where they are known while a program is traced, else None."""
        return self._array if isinstance(self._array, np.ndarray) else None

    @property
    def is_written_out(self) -> bool:
        """True if there are entries and no array."""
        return self._array is None

    def entries(self, num_axes: int) -> Any:
        """Return the entries: a NumPy array of arrays over seeds, or of numbers where nothing differs between them."""
        if self.rows is None and self.written is not None:
            self.rows = self.written()
        if self.rows is None:
            shape = np.shape(self._array)
            shape = shape[: len(shape) - num_axes] if self.differs else shape
            self.rows = _made(shape, lambda index: self._array[index])
        return self.rows


# Primitives that act on each entry by itself.
_BY_ENTRY = frozenset(
    {
        *("add", "sub", "mul", "div", "rem", "max", "min", "neg", "abs", "sign", "floor", "ceil", "round", "clamp"),
        *("sqrt", "rsqrt", "cbrt", "square", "integer_pow", "pow", "exp", "exp2", "log", "log1p", "expm1"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "logistic"),
        *("erf", "erfc", "erf_inv", "lgamma", "digamma", "nextafter", "population_count", "clz"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "is_finite", "select_n"),
        *("shift_left", "shift_right_logical", "shift_right_arithmetic"),
        *("convert_element_type", "bitcast_convert_type", "stop_gradient", "copy", "reduce_precision"),
    }
)
# Primitives whose parameters name axes, counted from the front.
_BY_AXIS = frozenset(
    {
        *("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor"),
        *("argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin", "sort", "rev", "split", "concatenate", "stack"),
    }
)
_REDUCTIONS: dict[str, Any] = {
    "reduce_sum": jnp.add,
    "reduce_max": jnp.maximum,
    "reduce_min": jnp.minimum,
    "reduce_and": jnp.bitwise_and,
    "reduce_or": jnp.bitwise_or,
}
_LIMITS: dict[str, Any] = {"max": jnp.less, "min": jnp.greater}
_SHAPES = frozenset({"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "slice", "concatenate"})
_FOLDED = _BY_ENTRY | _SHAPES | set(_REDUCTIONS) | {"iota", "dynamic_slice"}  # of known numbers, such as a stage


class _Limits(NamedTuple):
    """How much of a program an accelerator computes entry by entry.

    Where loops are written out, more: UCRL-AVE with S = 6, A = 4, d = 4 and 5 layers then has one kernel that learns
    from a step. An ``age`` of 7 instead of 6 splits it (700 more bytes per episode). Other programs gained nothing by
    more than 32 numbers and compiled longer.
    """

    most: int = 32  # numbers per seed that such an equation reads or writes at the most
    short: int = 1  # of which it may end in as many, which are stored one by one
    age: int = 0  # equations that are computed again for the entries of a stored array


_IN_TURNS = _Limits(96, 5, 6)
# Primitives that call another program, which is read as if it stood in their place.
_CALLS = {
    **dict.fromkeys(("jit", "pjit", "remat", "checkpoint"), "jaxpr"),
    **dict.fromkeys(("closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"), "call_jaxpr"),
    "custom_vmap_call": "call",
}


class _Block:
    """Evaluates a traced program for a block of seeds."""

    def __init__(self, block: tuple[int, ...]) -> None:
        self.block, self.num, self.accelerator = block, len(block), on_accelerator()
        self.single = block == (1,) and not self.accelerator

    def spread(self, value: _Value, shape: Sequence[int]) -> jax.Array:
        """Return ``value``, a scalar or of ``shape``, as an array ``[*shape, *block]``."""
        target = (*shape, *self.block)
        if target not in value.repeated:
            x = jnp.asarray(value.array)
            num = x.ndim - self.num * value.differs
            axes = (*range(num), *(range(len(shape), len(shape) + self.num) if value.differs else ()))
            value.repeated[target] = x if x.shape == target else lax.broadcast_in_dim(x, target, axes)
        return value.repeated[target]

    def evaluate(self, program: _Flat, given: list[_Value]) -> list[_Value]:
        """Return the outputs of a flat program."""
        equations, outputs = program.equations, program.outputs
        # Values of this trace alone: one that is kept from another must not remember what is made of it here.
        pairs = (*program.constants.items(), *zip(program.inputs, given, strict=True))
        known = {atom: _Value(v.array, v.differs) for atom, v in pairs}
        small, again = _small(program) if self.accelerator else (set(), set())
        # What a later stretch needs of them is stored, all of a stretch at once, so that nobody computes it again.
        order, later = _stretches(equations, small)
        pending: list[_Value] = []
        last = 0
        for stretch, i in order:
            equation = equations[i]
            values = [known[x] for x in equation.invars]
            if stretch > last:
                _store(pending)
                pending, last = [], stretch
            if i in small and any(v.differs for v in values):
                found = [_Value(None, True, self.written_out(equation, values))]
            else:
                found = self.apply(equation, values)
                age = 1 + max((v.age for v in values), default=0)
                if i in again and age <= program.limits.age and found[0].differs:
                    found[0].age, found[0].written = age, functools.partial(self.written_out, equation, values)
            known.update(zip(equation.outvars, found, strict=True))
            if i in small and equation.primitive.name not in _SHAPES and equation.outvars[0] in later:
                pending += [v for v in found if v.is_written_out]
        return [known[x] for x in outputs]

    def apply(self, equation: _Equation, values: list[_Value]) -> list[_Value]:
        """Return the outputs of one equation."""
        name, params = equation.primitive.name, equation.params
        limited = self.limited(equation, values) if name in _LIMITS and not self.accelerator else None
        if limited is not None:
            return [limited]
        if (self.single or not self.block) and name in _REDUCTIONS and _is_long(equation):
            return [_Value(_reduced_in_lanes(equation, values[0].array), values[0].differs)]
        if not any(v.differs for v in values):
            if not self.block and name == "dot_general" and equation.outvars[0].aval.ndim > 1:
                return [_Value(x, False) for x in self.dot_general(equation, values)]  # XLA's loop is ten times slower
            if name == "convert_element_type" and values[0].known is not None:
                return [_Value(values[0].known.astype(params["new_dtype"]), False)]  # a limit is still known
            if self.accelerator and name in _FOLDED and all(v.known is not None for v in values):
                with jax.ensure_compile_time_eval():  # XLA folds no iota, and would look for a stage's part at run time
                    return [_Value(np.asarray(equation.primitive.bind(*(v.array for v in values), **params)), False)]
            out = equation.primitive.bind(*(v.array for v in values), **params)
            return [_Value(x, False) for x in (out if equation.primitive.multiple_results else [out])]
        rule = _RULES.get(name)
        if rule is None and name in _BY_ENTRY:
            rule = _Block.by_entry
        elif rule is None and name in _BY_AXIS:
            rule = _Block.by_axis
        found = rule(self, equation, values) if rule is not None else None
        found = self.by_vmap(equation, values) if found is None else found
        return [x if isinstance(x, _Value) else _Value(x, True) for x in found]

    def written_out(self, equation: _Equation, values: list[_Value]) -> Any:
        """The entries of a small equation's output, each an array over seeds.

        A reduction over arms whose result meets the arms again ends an accelerator's kernel there, and so do an array
        of another shape, a concatenation, a running count. Over the entries, all of that is arithmetic of one shape,
        and the compiler makes it one kernel.
        """
        name, params, shape = equation.primitive.name, equation.params, equation.outvars[0].aval.shape
        given = [v.entries(self.num) for v in values]
        first = given[0]
        if name in _BY_ENTRY:
            spread = [np.broadcast_to(v, shape) for v in given]
            return _made(shape, lambda index: _bind(equation, self._alike([v[index] for v in spread])))
        if name in _REDUCTIONS:
            rest = [axis for axis in range(first.ndim) if axis not in params["axes"]]
            rows = first.transpose(*rest, *params["axes"]).reshape(*shape, -1)
            return _made(shape, lambda index: functools.reduce(_REDUCTIONS[name], self._alike(list(rows[index]))))
        if name == "broadcast_in_dim":
            sizes = [1] * len(shape)
            for axis, size in zip(params["broadcast_dimensions"], first.shape, strict=True):
                sizes[axis] = size
            return np.broadcast_to(first.reshape(sizes), shape)
        if name in ("reshape", "squeeze", "expand_dims"):
            return first.reshape(shape)
        if name == "transpose":
            return first.transpose(params["permutation"])
        if name == "slice":
            strides = params["strides"] or (1,) * first.ndim
            return first[tuple(map(slice, params["start_indices"], params["limit_indices"], strides))]
        alike = iter(self._alike([x for v in given for x in v.flat]))
        return np.concatenate([_made(v.shape, lambda _: next(alike)) for v in given], params["dimension"])

    def _alike(self, entries: list[jax.Array]) -> list[jax.Array]:
        """Return entries in one shape: numbers are repeated over the block."""
        return [x if np.shape(x) == self.block else jnp.broadcast_to(x, self.block) for x in entries]

    def limited(self, equation: _Equation, values: list[_Value]) -> _Value | None:
        """Return a maximum or minimum with a known number as a selection, or None.

        It keeps what is not a number, as they do, but is one instruction where they are three or four: 0.176 instead
        of 0.200 us of processor time per step of UCRL-AVE, 0.184 instead of 0.204 per seed-round of AVE-UCB.
        """
        aval = equation.outvars[0].aval
        for value, limit in ((values[0], values[1].known), (values[1], values[0].known)):
            if limit is not None and limit.ndim == 0 and limit.dtype.kind == "f" and not np.isnan(limit):
                x = self.spread(value, aval.shape) if value.differs else value.array
                return _Value(jnp.where(_LIMITS[equation.primitive.name](x, limit), limit, x), value.differs)
        return None

    def by_entry(self, equation: _Equation, values: list[_Value]) -> Outputs:
        shape = equation.outvars[0].aval.shape
        return [_bind(equation, [self.spread(v, shape) for v in values])]

    def by_axis(self, equation: _Equation, values: list[_Value]) -> Outputs:
        arrays = [self.spread(v, x.aval.shape) for v, x in zip(values, equation.invars, strict=True)]
        out = _bind(equation, arrays)
        return list(out) if equation.primitive.multiple_results else [out]

    def reduction(self, equation: _Equation, values: list[_Value]) -> Outputs:
        """Reduce a long axis window by window, each with its terms computed inside of the loop that reduces them.

        XLA's CPU compiler has the same windows, but stores all terms first and has a slow loop for each window: 26
        instead of 11 us of processor time per step of UCRL-AVE with 50 states.
        """
        axes, shape = equation.params["axes"], equation.invars[0].aval.shape
        if self.accelerator or len(axes) != 1 or shape[axes[0]] <= WINDOW:
            return self.by_axis(equation, values)
        axis = axes[0]

        def reduce(x: jax.Array, axis: int) -> jax.Array:
            reduced: jax.Array = _bind(equation._replace(params={**equation.params, "axes": (axis,)}), [x])
            return reduced

        x = self.spread(values[0], shape)
        if equation.primitive.name != "reduce_sum":
            return [_by_groups(equation, x, axis)]
        while x.shape[axis] > WINDOW:
            size = x.shape[axis]
            num = -(-size // WINDOW)
            start = WINDOW - (num * WINDOW - size) // 2  # windows are centred: the first and the last may be shorter
            end = start + (num - 2) * WINDOW
            if num <= _MOST_WINDOWS:
                edges = [0, *range(start, end + 1, WINDOW), size]
            else:
                edges = [0, start, end, size]
            parts = []
            for first, last in itertools.pairwise(edges):
                part = lax.slice_in_dim(x, first, last, axis=axis)
                count = max(1, (last - first) // WINDOW)  # windows in this part
                part = part.reshape(*x.shape[:axis], count, -1, *x.shape[axis + 1 :])
                parts.append(reduce(part, axis + 1))
            x = lax.concatenate(parts, axis)
        return [reduce(x, axis)]

    def by_vmap(self, equation: _Equation, values: list[_Value]) -> Outputs:
        """Apply JAX's own rule, for whatever has none here."""

        def function(*arrays: jax.Array) -> Outputs:
            return equation.primitive.bind(*arrays, **equation.params)

        axes = tuple(-1 if v.differs else None for v in values)
        for _ in self.block:
            function = jax.vmap(function, in_axes=axes, out_axes=-1)
        out = function(*(v.array for v in values))
        return list(out) if equation.primitive.multiple_results else [out]

    def broadcast_in_dim(self, equation: _Equation, values: list[_Value]) -> Outputs:
        shape, axes = equation.params["shape"], equation.params["broadcast_dimensions"]
        tail = range(len(shape), len(shape) + self.num)
        return [lax.broadcast_in_dim(values[0].array, (*shape, *self.block), (*axes, *tail))]

    def bitcast(self, equation: _Equation, values: list[_Value]) -> Outputs:
        """Move the axis that numbers of another width have more or less: JAX expects it to be the last."""
        if equation.outvars[0].aval.shape == equation.invars[0].aval.shape:
            return self.by_entry(equation, values)
        front, back = range(self.num), range(-self.num, 0)
        return [jnp.moveaxis(_bind(equation, [jnp.moveaxis(values[0].array, back, front)]), front, back)]

    def reshape(self, equation: _Equation, values: list[_Value]) -> Outputs:
        return [lax.reshape(values[0].array, (*equation.outvars[0].aval.shape, *self.block))]

    def transpose(self, equation: _Equation, values: list[_Value]) -> Outputs:
        order = equation.params["permutation"]
        return [lax.transpose(values[0].array, (*order, *range(len(order), len(order) + self.num)))]

    def slice(self, equation: _Equation, values: list[_Value]) -> Outputs:
        start, end, strides = (equation.params[n] for n in ("start_indices", "limit_indices", "strides"))
        strides = strides or (1,) * len(start)
        zeros, ones = (0,) * self.num, (1,) * self.num
        return [lax.slice(values[0].array, (*start, *zeros), (*end, *self.block), (*strides, *ones))]

    def shared(self, values: list[_Value], first: int) -> list[_Value]:
        """Return ``values``, of which those from ``first`` on, numbers of a single seed, are the same for all seeds."""
        if not self.single:
            return values
        return [*values[:first], *(_Value(jnp.reshape(v.array, ()), False) for v in values[first:])]

    def dynamic_slice(self, equation: _Equation, values: list[_Value]) -> Outputs | None:
        operand, *starts = self.shared(values, 1)
        shape, sizes = equation.invars[0].aval.shape, equation.params["slice_sizes"]
        if any(v.differs for v in starts):
            numeric = jnp.issubdtype(operand.array.dtype, np.number)
            if not (operand.differs and starts[0].differs and numeric) or sizes != (1, *shape[1:]):
                return None
            row = jnp.clip(starts[0].array, 0, shape[0] - 1).reshape(*(1,) * len(shape), *self.block)
            if shape[0] > WINDOW or self.accelerator:
                return [jnp.take_along_axis(operand.array, row, axis=0, mode="promise_in_bounds")]
            numbers = np.arange(shape[0], dtype=row.dtype).reshape(-1, *(1,) * (row.ndim - 1))
            chosen = jnp.where(numbers == row, operand.array, 0)  # a gather per seed is slow
            return [jnp.sum(chosen, axis=0, keepdims=True, dtype=operand.array.dtype)]
        num = self.num * operand.differs
        index = [v.array for v in starts] + [jnp.zeros_like(starts[0].array)] * num
        return [_Value(lax.dynamic_slice(operand.array, index, (*sizes, *self.block[:num])), operand.differs)]

    def dynamic_update_slice(self, equation: _Equation, values: list[_Value]) -> Outputs | None:
        *arrays, starts = *values[:2], self.shared(values, 2)[2:]
        if any(v.differs for v in starts):
            return None
        operand, update = (self.spread(v, x.aval.shape) for v, x in zip(arrays, equation.invars, strict=False))
        index = [v.array for v in starts] + [jnp.zeros_like(starts[0].array)] * self.num
        return [lax.dynamic_update_slice(operand, update, index)]

    def scatter(self, equation: _Equation, values: list[_Value]) -> Outputs | None:
        """Change one whole row of each seed's array in place; JAX's own rule would move the block to the front."""
        operand, index, row = values
        shape, one, added = (x.aval.shape for x in equation.invars)
        rule = equation.params["dimension_numbers"]
        if (rule.scatter_dims_to_operand_dims, one, added) != ((0,), (1,), shape[1:]):
            return None
        number = self.spread(index, (1,)).reshape(*(1,) * (len(shape) - 1), *self.block)
        rows = self.spread(operand, shape).at[(number, *np.ogrid[tuple(map(slice, (*shape[1:], *self.block)))])]
        change = rows.add if equation.primitive.name == "scatter-add" else rows.set
        return [change(self.spread(row, shape[1:]), unique_indices=True, mode=equation.params["mode"])]

    def barrier(self, equation: _Equation, values: list[_Value]) -> Outputs:
        arrays = lax.optimization_barrier([v.array for v in values])
        return [_Value(x, v.differs) for x, v in zip(arrays, values, strict=True)]

    def dot_general(self, equation: _Equation, values: list[_Value]) -> Outputs:
        """Write a short product out, as in :func:`combine`; a long one is a sum of products."""
        contracted, paired = equation.params["dimension_numbers"]
        dtype = equation.outvars[0].aval.dtype
        if self.single and equation.outvars[0].aval.ndim < 2:  # XLA has a loop for a matrix and a vector
            return [_bind(equation, [v.array[..., 0] if v.differs else v.array for v in values])[..., None]]
        shapes = [x.aval.shape for x in equation.invars]
        free = [
            [i for i in range(len(s)) if i not in (*c, *b)] for s, c, b in zip(shapes, contracted, paired, strict=True)
        ]
        sides = []
        for i, (value, shape) in enumerate(zip(values, shapes, strict=True)):
            order = (*contracted[i], *paired[i], *free[i], *range(len(shape), len(shape) + self.num))
            x = lax.transpose(self.spread(value, shape), order).astype(dtype)
            both = [[shape[k] for k in free[i]], [1] * len(free[1 - i])]
            pairs = [shape[k] for k in paired[i]]
            num = math.prod(shape[k] for k in contracted[i])
            sides.append(x.reshape(num, *pairs, *(both[i]), *(both[1 - i]), *self.block))
        return [combine(*sides)]

    def scan(self, equation: _Equation, values: list[_Value]) -> Outputs:
        params, program = equation.params, equation.params["jaxpr"]
        first, last = _scan_parts(equation)
        consts, xs = ([_Value(v.array, v.differs) for v in part] for part in (values[:first], values[last:]))
        flags = _carried(program.jaxpr, consts, values[first:last], xs)
        flat = _flat(program)
        inside: list[list[bool]] = []

        def body(carry: Outputs, x: Outputs) -> tuple[Outputs, Outputs]:
            carried = [_Value(v, f) for v, f in zip(carry, flags, strict=True)]
            moving = [_Value(v, old.differs) for v, old in zip(x, xs, strict=True)]
            out = self.evaluate(flat, [*consts, *carried, *moving])
            inside.append([v.differs for v in out[len(flags) :]])
            return self._where(flags, out, program.jaxpr.outvars), [v.array for v in out[len(flags) :]]

        options = {name: params[name] for name in ("length", "reverse", "unroll")}
        if self.accelerator:  # a loop inside of a CUDA graph ends the graph
            options["unroll"] = _MOST_TURNS
        start = self._where(flags, values[first:last], equation.invars[first:last])
        carry, ys = lax.scan(body, start, [v.array for v in xs], **options)
        return [_Value(v, f) for v, f in zip([*carry, *ys], [*flags, *inside[-1]], strict=True)]

    def while_loop(self, equation: _Equation, values: list[_Value]) -> Outputs | None:
        """Loop as long as all seeds do; where they do not end together, by JAX's own rule."""
        params = equation.params
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        given = [_Value(v.array, v.differs) for v in values]
        asked, consts, start = given[:first], given[first:last], given[last:]
        flags = _carried(params["body_jaxpr"].jaxpr, consts, start, [])
        if any(_depends(params["cond_jaxpr"].jaxpr, [*(v.differs for v in asked), *flags])):
            return None
        condition, body = _flat(params["cond_jaxpr"]), _flat(params["body_jaxpr"])

        def carried(carry: Outputs) -> list[_Value]:
            return [_Value(v, f) for v, f in zip(carry, flags, strict=True)]

        def turn(carry: Outputs) -> Outputs:
            return self._where(flags, self.evaluate(body, [*consts, *carried(carry)]), equation.outvars)

        out = lax.while_loop(
            lambda carry: self.evaluate(condition, [*asked, *carried(carry)])[0].array,
            turn,
            self._where(flags, start, equation.outvars),
        )
        return carried(out)

    def least(self, equation: _Equation, values: list[_Value]) -> Outputs:
        return [_Value(jnp.min(values[0].array), False)]

    def cond(self, equation: _Equation, values: list[_Value]) -> Outputs | None:
        """Run one branch where all seeds take the same; else the second, and the first only where a seed needs it."""
        index, *operands = (_Value(v.array, v.differs) for v in values)
        branches = equation.params["branches"]

        def run(branch: core.ClosedJaxpr) -> Outputs:
            out = self.evaluate(_flat(branch), operands)
            return [self.spread(v, x.aval.shape) for v, x in zip(out, equation.outvars, strict=True)]

        if not index.differs:
            return lax.switch(index.array, [functools.partial(run, b) for b in branches])
        if len(branches) != 2:
            return None
        yes = index.array.astype(bool)

        def both() -> Outputs:
            pairs = zip(run(branches[1]), run(branches[0]), strict=True)
            return [jnp.where(jnp.broadcast_to(yes, a.shape), a, b) for a, b in pairs]

        return lax.cond(jnp.any(yes), both, functools.partial(run, branches[0]))

    def _where(self, flags: list[bool], values: list[_Value], atoms: Sequence[_Atom]) -> Outputs:
        """Return the arrays of as many ``values`` as there are flags, spread where a flag says so."""
        return [self.spread(v, x.aval.shape) if f else v.array for f, v, x in zip(flags, values, atoms, strict=False)]


_RULES: dict[str, Callable[..., Outputs | None]] = {
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _Block.reshape),
    "bitcast_convert_type": _Block.bitcast,
    "broadcast_in_dim": _Block.broadcast_in_dim,
    "transpose": _Block.transpose,
    "slice": _Block.slice,
    "dynamic_slice": _Block.dynamic_slice,
    "dynamic_update_slice": _Block.dynamic_update_slice,
    **dict.fromkeys(("scatter", "scatter-add"), _Block.scatter),
    "optimization_barrier": _Block.barrier,
    "dot_general": _Block.dot_general,
    "scan": _Block.scan,
    "while": _Block.while_loop,
    "least_of_block": _Block.least,
    "cond": _Block.cond,
    **dict.fromkeys(_REDUCTIONS, _Block.reduction),
}


def _is_long(equation: _Equation) -> bool:
    """Return whether an equation reduces many numbers that are neighbours; of choices, whose order is free, a few."""
    shape = equation.invars[0].aval.shape
    least = _LANES if equation.primitive.name == "reduce_sum" else _FEW + 1
    return equation.params["axes"] == (len(shape) - 1,) and shape[-1] >= least


def _reduced_in_lanes(equation: _Equation, x: Any) -> jax.Array:
    """Return a long reduction of one seed's numbers in as many lanes, which are reduced at the end.

    XLA's CPU compiler takes one number after the other (3.4 instead of 2.7 us of processor time per seed-round of OFUL
    with 1,000 fixed arms; 0.385 instead of 0.37 us per round of AVE-UCB with 20).
    """
    both, (axis,), lanes = _REDUCTIONS[equation.primitive.name], equation.params["axes"], x
    part = functools.partial(lax.slice_in_dim, axis=axis)
    while (size := lanes.shape[axis]) > _LANES:
        num = _LANES * -(-size // (_LANES * WINDOW))  # of a longer column XLA would store all numbers once more
        whole = size // num * num
        rows, rest = part(lanes, 0, whole), part(lanes, whole, size)
        lanes = _bind(equation, [rows.reshape(*x.shape[:axis], -1, num, *x.shape[axis + 1 :])])  # over the former
        if whole < size:
            lanes = lax.concatenate([both(part(lanes, 0, size - whole), rest), part(lanes, size - whole, num)], axis)
    while (num := lanes.shape[axis]) > _FEW:  # in halves, or XLA would make one of both reductions
        lanes = both(part(lanes, 0, -(-num // 2)), part(lanes, num // 2, num))
    found: jax.Array = _bind(equation, [lanes])  # a reduction is not computed again for each of its uses
    return found


def _by_groups(equation: _Equation, x: jax.Array, axis: int) -> jax.Array:
    """Return a long maximum, minimum, "all" or "any" over an axis, taken of a few numbers at a time.

    They may be counted twice, as they are where the last group is not whole. The numbers are stored first, and no order
    changes the bits. In windows LLVM puts no seeds into lanes where the numbers are choices (0.53 instead of 0.71 us of
    processor time per seed-round of SAVE with 100 fixed arms).
    """
    both = _REDUCTIONS[equation.primitive.name]

    def turn(i: jax.Array, found: jax.Array) -> jax.Array:
        group = lax.dynamic_slice_in_dim(x, i * _GROUP, _GROUP, axis)
        left = [lax.index_in_dim(group, j, axis, False) for j in range(_GROUP)]
        while len(left) > 1:  # in pairs: few wait for others
            left = [both(a, b) for a, b in zip(left[::2], left[1::2], strict=True)]
        return both(found, left[0])

    return lax.fori_loop(0, -(-x.shape[axis] // _GROUP), turn, lax.index_in_dim(x, 0, axis, False))


def _made(shape: tuple[int, ...], entry: Callable[[tuple[int, ...]], Any]) -> Any:
    made = np.empty(shape, object)
    for index in np.ndindex(*shape):
        made[index] = entry(index)
    return made


def _bind(equation: _Equation, arrays: list[Any]) -> Any:
    params = {name: None if name.endswith("sharding") else value for name, value in equation.params.items()}
    return equation.primitive.bind(*arrays, **params)


class _Atom:
    """A variable of a flat program."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval


class _Equation(NamedTuple):
    """An equation of a flat program."""

    primitive: core.Primitive
    params: dict[str, Any]
    invars: list[_Atom]
    outvars: list[_Atom]


class _Flat(NamedTuple):
    """A program without calls of others."""

    equations: list[_Equation]
    constants: dict[_Atom, _Value]
    inputs: list[_Atom]
    outputs: list[_Atom]
    limits: _Limits


def _flat(program: core.ClosedJaxpr) -> _Flat:
    """Return a closed program with what it calls in the place of each call, for an accelerator also short loops.

    A loop inside of a CUDA graph ends the graph. What nobody reads, such as a plan that no recorder asks for, is left
    out.
    """
    limits = _Limits()
    acting: set[int] = set()  # numbers of equations that do more than to return something, such as printing
    equations: list[_Equation] = []
    made: dict[_Atom, int] = {}  # by which of them
    constants: dict[_Atom, _Value] = {}
    literals: dict[tuple[bytes, np.dtype[Any], tuple[int, ...]], _Atom] = {}

    def constant(aval: Any, value: Any) -> _Atom:
        atom = _Atom(aval)
        constants[atom] = _Value(value, False)
        return atom

    def visit(program: core.ClosedJaxpr, given: list[_Atom]) -> list[_Atom]:
        nonlocal limits
        jaxpr = program.jaxpr
        atoms: dict[core.Var, _Atom] = dict(zip(jaxpr.invars, given, strict=True))
        atoms.update((v, constant(v.aval, c)) for v, c in zip(jaxpr.constvars, program.consts, strict=True))

        def read(v: Any) -> _Atom:
            if not isinstance(v, core.Literal):
                return atoms[v]
            aval: Any = v.aval
            value = np.asarray(v.val, aval.dtype)
            key = (value.tobytes(), value.dtype, value.shape)
            if key not in literals:
                literals[key] = constant(aval, value)
            return literals[key]

        for e in jaxpr.eqns:
            invars = [read(v) for v in e.invars]
            if e.primitive.name in _CALLS:
                outvars = visit(_closed(e.params[_CALLS[e.primitive.name]]), invars)
            elif e.primitive.name == "scan" and on_accelerator() and 0 < e.params["length"] <= _MOST_TURNS:
                outvars, limits = visit(_turns(e), invars), _IN_TURNS
            else:
                acting.update([len(equations)] if e.effects else ())
                new = [_Equation(e.primitive, e.params, invars, [_Atom(v.aval) for v in e.outvars])]
                equations.extend((on_accelerator() and _of_parts(new[0], made, equations)) or new)
                outvars = equations[-1].outvars
                made.update((x, len(equations) - 1) for x in outvars)
            atoms.update(zip(e.outvars, outvars, strict=True))
        return [read(v) for v in jaxpr.outvars]

    inputs = [_Atom(v.aval) for v in program.jaxpr.invars]
    outputs = visit(program, inputs)
    read, used = [], set(outputs)
    for i, equation in reversed(list(enumerate(equations))):
        if i in acting or not used.isdisjoint(equation.outvars):
            used.update(equation.invars)
            read.append(equation)
    return _Flat(read[::-1], constants, inputs, outputs, limits)


def _of_parts(equation: _Equation, made: dict[_Atom, int], equations: list[_Equation]) -> list[_Equation]:
    """Return equations that make a row of what its array is made of: one of a stack, or numbers of columns; or none.

    The arm that is played is drawn again, and nobody stores the others (5,221 instead of 6,693 bytes per seed-round of
    SAVE with fresh arms). Layers that were stacked are read one by one (20 instead of 27 kernels for AVE-UCB).
    """
    if equation.primitive.name not in ("slice", "dynamic_slice") or equation.invars[0] not in made:
        return []
    (whole, *starts), shape = equation.invars, equation.outvars[0].aval.shape
    stack, rows, waiting = equations[made[whole]], dict[_Atom, _Atom](), [whole]
    if shape != (1, *whole.aval.shape[1:]):
        return []
    if not starts:
        if stack.primitive.name != "stack" or stack.params["axis"]:
            return []
        params = {"shape": shape, "broadcast_dimensions": tuple(range(1, len(shape))), "sharding": None}
        part = stack.invars[equation.params["start_indices"][0]]
        return [equation._replace(primitive=lax.broadcast_in_dim_p, params=params, invars=[part])]
    for x in waiting:  # to which more are added
        if x in rows:
            continue
        rows[x] = _Atom(x.aval.update(shape=(1, *x.aval.shape[1:])))
        if x in made:
            e = equations[made[x]]
            spread = e.params.get("broadcast_dimensions", (1,))[:1] in ((), (0,))
            if not (e.primitive.name in _BY_ENTRY or e.params.get("axis", 0) > 0 or spread):
                return []
            waiting += [y for y in e.invars if y.aval.shape]
        elif x.aval.ndim != 1:
            return []
    own = {**equation.params, "slice_sizes": (1,)}
    found = [_Equation(equation.primitive, own, [x, starts[0]], [rows[x]]) for x in rows if x not in made]
    for e in (equations[i] for i in sorted({made[x] for x in rows if x in made})):
        params = {**e.params, "shape": (1, *e.params["shape"][1:])} if "shape" in e.params else e.params
        found.append(_Equation(e.primitive, params, [rows.get(x, x) for x in e.invars], [rows[x] for x in e.outvars]))
    return found


def _turns(equation: Any) -> core.ClosedJaxpr:
    """Return the program of a loop with its turns one after another."""
    params, body = equation.params, core.jaxpr_as_fun(equation.params["jaxpr"])
    first, last = _scan_parts(equation)

    def turns(*given: jax.Array) -> Outputs:
        carry, stacked = list(given[first:last]), []
        order = range(params["length"])[:: -1 if params["reverse"] else 1]
        for i in order:
            out = body(*given[:first], *carry, *(lax.index_in_dim(x, i, keepdims=False) for x in given[last:]))
            carry = out[: last - first]
            stacked.append(out[last - first :])
        rows = [stacked[order.index(i)] for i in range(params["length"])]
        return [*carry, *(jnp.stack(y) for y in zip(*rows, strict=True))]

    return jax.make_jaxpr(turns)(*(v.aval for v in equation.invars))


def _small(program: _Flat) -> tuple[set[int], set[int]]:
    """Return which equations an accelerator computes entry by entry, and of which others it may compute entries again.

    Each reads and writes few numbers, and what it writes is read by such equations alone, unless it is short.
    """
    small: set[int] = set()
    again: set[int] = set()
    kept_whole, outputs = set(program.outputs), set(program.outputs)
    most, short, _ = program.limits
    for i in reversed(range(len(program.equations))):
        primitive, _, invars, outvars = program.equations[i]
        name = primitive.name
        known = name in _BY_ENTRY or name in _REDUCTIONS or name in _SHAPES
        known = known and (name != "bitcast_convert_type" or invars[0].aval.shape == outvars[0].aval.shape)
        known = known and all(0 < x.aval.size <= most for x in (*invars, *outvars))
        longest = 1 if name in _SHAPES or not outputs.isdisjoint(outvars) else short
        if known and all(x.aval.size <= longest or x not in kept_whole for x in outvars):
            small.add(i)
        else:
            again.update([i] if known else [])
            kept_whole.update(invars)
    return small, again


def _stretches(equations: list[_Equation], small: set[int]) -> tuple[list[tuple[int, int]], set[_Atom]]:
    """Return equations by stretch, in which the small ones stand together at the end, and what a later one reads.

    An equation that looks a row up by a small one's number stays in its stretch: a kernel need not end there.
    """
    made: dict[_Atom, tuple[int, bool]] = {}
    order: list[tuple[int, bool, int]] = []
    later: set[_Atom] = set()
    for i, equation in enumerate(equations):
        before = [made[x] for x in equation.invars if x in made]
        single = i in small or (equation.primitive.name == "dynamic_slice" and any(flag for _, flag in before))
        stretch = max((at + (flag and not single) for at, flag in before), default=0)
        # What nothing came before is cheap: it is stored for larger equations alone.
        later.update(x for x in equation.invars if made.get(x, (stretch,))[0] < stretch and (made[x][0] or not single))
        made.update((x, (stretch, single)) for x in equation.outvars)
        order.append((stretch, single, i))
    return [(stretch, i) for stretch, _, i in sorted(order)], later


def _store(values: list[_Value]) -> None:
    """Store the entries of all values, by one kernel."""
    if not values:
        return
    stored = iter(lax.optimization_barrier([x for v in values for x in v.rows.flat]))
    for v in values:
        v.rows = _made(v.rows.shape, lambda _: next(stored))


def _closed(program: core.Jaxpr | core.ClosedJaxpr) -> core.ClosedJaxpr:
    return core.ClosedJaxpr(program, ()) if isinstance(program, core.Jaxpr) else program


def _scan_parts(equation: Any) -> tuple[int, int]:
    """Return where the carried inputs of a loop begin and end; constants come before them, what is scanned after.

    What is scanned or stacked has one axis more outside of the loop. Parameters of the loop say it too, but their
    names change between versions of JAX.
    """
    inside = equation.params["jaxpr"].jaxpr
    num_carried = sum(a.aval.ndim == b.aval.ndim for a, b in zip(equation.outvars, inside.outvars, strict=True))
    first_scanned = sum(a.aval.ndim == b.aval.ndim for a, b in zip(equation.invars, inside.invars, strict=True))
    return first_scanned - num_carried, first_scanned


def _carried(jaxpr: core.Jaxpr, consts: list[_Value], carry: list[_Value], xs: list[_Value]) -> list[bool]:
    """Return which of a loop's carried values differ between seeds, sooner or later."""
    flags = [v.differs for v in carry]
    while True:
        given = [*(v.differs for v in consts), *flags, *(v.differs for v in xs)]
        after = [a or b for a, b in zip(flags, _depends(jaxpr, given), strict=False)]
        if after == flags:
            return flags
        flags = after


def _depends(jaxpr: core.Jaxpr, given: list[bool]) -> list[bool]:
    """Return which outputs of a program may differ between seeds where the inputs ``given`` do."""
    known = dict(zip(jaxpr.invars, given, strict=True))

    def read(atom: core.Var | core.Literal) -> bool:
        return not isinstance(atom, core.Literal) and known.get(atom, False)

    for equation in jaxpr.eqns:
        flags = [read(v) for v in equation.invars]
        name = equation.primitive.name
        found = [any(flags) and name != "least_of_block"] * len(equation.outvars)
        if any(flags) and name in _CALLS:
            found = _depends(_closed(equation.params[_CALLS[name]]).jaxpr, flags)
        elif any(flags) and name == "scan":
            first, last = _scan_parts(equation)
            values, inner = [_Value(None, f) for f in flags], equation.params["jaxpr"].jaxpr
            carry = _carried(inner, values[:first], values[first:last], values[last:])
            found = [*carry, *_depends(inner, [*flags[:first], *carry, *flags[last:]])[len(carry) :]]
        known.update(zip(equation.outvars, found, strict=True))
    return [read(v) for v in jaxpr.outvars]
