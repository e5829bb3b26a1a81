"""Linear algebra and selections for one seed, in the form that XLA compiles well.

Each has the measurement that earned it: seed-rounds per second at d = 10, 20 arms, two cores, float64, jax 0.10.2,
unless said otherwise. :mod:`jaxvar.blocks` evaluates what is written with them for many seeds; no other file knows
about compilers.
"""

from __future__ import annotations

import contextvars
import functools
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.interpreters import batching, mlir
from jax.typing import DTypeLike

T = TypeVar("T")
U = TypeVar("U")

_UNROLL = 32  # sums over at most this many terms are written out
_UNROLL_SQUARE = 12  # and double sums over at most this many
_FEW = 8  # maxima over at most this many are written out
_LOOKED_UP = 96  # of arrays with more numbers an accelerator finds a row by its index, of others by a mask
_MANY = 256  # bounds of which a CPU takes all layers in one loop
WINDOW = 32  # a CPU reduces more terms than this in windows of as many

_form: contextvars.ContextVar[tuple[bool, bool] | None] = contextvars.ContextVar("form", default=None)


@contextmanager
def form_for(accelerator: bool, alone: bool = False) -> Iterator[None]:
    """Trace what is inside in the form for an accelerator, or for a CPU; what is compiled already stays as it is.

    With ``alone`` a CPU plays one seed after the other, and vector lanes are filled by what belongs to one seed.
    """
    before = _form.set((accelerator, alone))
    try:
        yield
    finally:
        _form.reset(before)


def on_accelerator(platform: str | None = None) -> bool:
    """Return whether to trace for an accelerator: by :func:`form_for`, else by the platform (the default one)."""
    chosen = _form.get()
    return (platform or jax.default_backend()) != "cpu" if chosen is None else chosen[0]


def is_alone() -> bool:
    """Return whether to trace for a CPU that plays one seed after the other.

    A product of a matrix and a vector is then a ``dot``, for which XLA has a loop of its own: 2.9 instead of 10 us of
    processor time per seed-round of OFUL at d = 128, fixed arms.
    """
    chosen = _form.get()
    return chosen is not None and chosen[1]


def inner(arms: jax.Array, vector: jax.Array) -> jax.Array:
    """Return ``<a, v>`` for each row of ``arms [N, d]``, [N]; an accelerator stores no products of short ones.

    Of one seed alone XLA's loop adds what is left of eight numbers up in memory: few arms are written out, and so is
    :func:`transform`.
    """
    if is_alone():
        if arms.shape[0] <= _UNROLL and arms.shape[1] <= _UNROLL_SQUARE:
            return combine(computed_once(arms.T), vector[:, None])
        return vector @ computed_once(arms.T) if arms.shape[0] > arms.shape[1] else arms @ vector
    if on_accelerator() and vector.shape[0] <= _UNROLL_SQUARE:
        return functools.reduce(operator.add, (arms[:, j] * vector[j] for j in range(vector.shape[0])))
    return jnp.sum(arms * vector[None], axis=1)


def transform(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    """Return ``M^T v`` for ``matrix [d, d]`` and ``vector [d]``, [d]: a reduction, which XLA computes once."""
    if is_alone() and vector.shape[0] <= _UNROLL_SQUARE:
        return computed_once(combine(matrix, vector[:, None]))
    return vector @ matrix if is_alone() else jnp.sum(matrix * vector[:, None], axis=0)


def outer(vector: jax.Array) -> jax.Array:
    """Return ``v v^T``, [d, d]. Scale the product, not a factor: entries (i, j) and (j, i) are then equal.

    An inverse that is not quite symmetric never recovers: the difference stays while the inverse itself shrinks.
    """
    return vector[:, None] * vector[None]


def combine(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """Return ``sum_j weights[j] * rows[j]``; shapes after the first axis broadcast.

    A CPU vectorises a chain of multiply-adds over seeds; a reduction it vectorises over what is summed. More than 32
    terms are a loop over groups of them (14 instead of 28 us of processor time per step of UCRL-AVE with 100 states).
    """
    num = rows.shape[0]
    if num == 0 or on_accelerator():
        terms = rows * weights
        return jnp.sum(terms, axis=0, dtype=terms.dtype)

    def written_out(rows: jax.Array, weights: jax.Array) -> jax.Array:
        return functools.reduce(operator.add, (rows[j] * weights[j] for j in range(rows.shape[0])))

    if num <= _UNROLL:
        return written_out(rows, weights)

    groups = -(-num // _UNROLL)  # at least two: a loop, whose result no other one computes again
    size = num // groups

    def add(i: jax.Array, total: jax.Array) -> jax.Array:
        return total + written_out(*(lax.dynamic_slice_in_dim(v, i * size, size) for v in (rows, weights)))

    none = jnp.zeros(jnp.broadcast_shapes(rows.shape[1:], weights.shape[1:]), jnp.result_type(rows, weights))
    total = lax.fori_loop(0, groups, add, none)
    return total if num == groups * size else total + written_out(rows[groups * size :], weights[groups * size :])


def gram(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """Return ``sum_j weights[j] * rows[j] rows[j]^T`` for ``rows [N, d]`` and ``weights [N]``, [d, d]."""
    return jnp.stack([combine(rows, (weights * rows[:, i])[:, None]) for i in range(rows.shape[1])])


def square_lengths(arms: jax.Array, root: jax.Array) -> jax.Array:
    """Return ``|R^T a|^2`` for each row a of ``arms [N, d]`` and a ``root [d, d]``, [N].

    A CPU takes one column of R after the other, up to d = 12 all of them in one loop.
    """
    dim = arms.shape[1]
    if is_alone() and dim > _UNROLL_SQUARE:
        seen = arms @ root
        return jnp.sum(seen * seen, axis=1)
    if dim <= _UNROLL_SQUARE:
        seen = combine(root[:, None], arms.T[:, :, None])
        return functools.reduce(operator.add, (seen[:, j] * seen[:, j] for j in range(dim)))
    if on_accelerator():
        seen = combine(root[:, None], arms.T[:, :, None])
        return jnp.sum(seen * seen, axis=1)

    def add_column(j: jax.Array, total: jax.Array) -> jax.Array:
        seen = inner(arms, lax.dynamic_index_in_dim(root, j, 1, False))
        return total + seen * seen

    return _loop(0, dim, add_column, jnp.zeros(arms.shape[0], arms.dtype))


def unit_rows(
    bits: Callable[[jax.Array], jax.Array],
    normal: Callable[[jax.Array, DTypeLike], jax.Array],
    num: int,
    dim: int,
    dtype: DTypeLike,
    norm: Any = 1,
    fresh: bool = False,
) -> jax.Array:
    """Return rows of a ``norm``, [num, dim], in the directions of ``normal(bits(index), dtype)`` for each index.

    A CPU stores the bits before it makes numbers of them: in one loop a chain of operations would be longer than what
    its registers hold of it (0.61 instead of 0.72 us of processor time per seed-round of OFUL with fresh arms). Rows
    that are drawn anew in every round get float32's digits (26 instead of 31 us per seed-round of SAVE with 1,000
    arms). An accelerator draws column by column, in each kernel that looks at the rows, which would differ by as much;
    it stores no words.
    """
    if on_accelerator() and dim <= _UNROLL_SQUARE:
        first = np.arange(0, num * dim, dim, dtype=np.uint32)
        columns = [normal(bits(jnp.add(first, np.uint32(j))), dtype) for j in range(dim)]
        length = jnp.sqrt(functools.reduce(operator.add, (x * x for x in columns)))
        return jnp.stack([x / jnp.maximum(length, np.finfo(length.dtype).tiny) * norm for x in columns], axis=1)
    index = jnp.arange(num * dim, dtype=jnp.uint32).reshape(num, dim)
    word = bits(index) if on_accelerator() else _stored(bits, index)
    z = normal(word, np.float32 if fresh and not on_accelerator() else dtype).astype(dtype)
    return z / jnp.maximum(jnp.sqrt(jnp.sum(z * z, axis=1)), np.finfo(z.dtype).tiny)[:, None] * norm


def _stored(function: Callable[[jax.Array], jax.Array], index: jax.Array) -> jax.Array:
    """Return ``function(index [N, d])``, integers, from a branch that is always taken: XLA then stores it.

    A loop over groups of rows would fill their place with zeros first (0.82 instead of 0.80 us of processor time per
    seed-round of SAVE with fresh arms).
    """
    always = _least_of_block.bind(function(index[0, 0]) | 1) != 0
    return lax.cond(always, function, jnp.zeros_like, index)


def largest(values: jax.Array) -> jax.Array:
    """Return the largest of ``values [N, ...]`` along the first axis.

    Short reductions are vectorised over what is reduced, not over seeds: a few values are compared one by one.
    """
    if values.shape[0] > _FEW:
        return jnp.max(values, axis=0)
    return functools.reduce(jnp.maximum, list(values))


def lowest(candidates: jax.Array) -> jax.Array:
    """Return the lowest index where ``candidates [N, ...]`` holds (0 where none does), int32."""
    num = candidates.shape[0]
    if num <= _FEW:
        first = jnp.zeros(candidates.shape[1:], jnp.int32)
        for i in reversed(range(1, num)):
            first = jnp.where(candidates[i], i, first)
        return _found_once(jnp.where(candidates[0], 0, first))
    index = np.arange(num, dtype=np.int32).reshape(num, *(1,) * (candidates.ndim - 1))
    first = jnp.min(jnp.where(candidates, index, num), axis=0)
    return jnp.where(first == num, 0, first).astype(jnp.int32)


def of_rank(candidates: jax.Array, rank: jax.Array) -> jax.Array:
    """Return the index of the candidate ``[N, ...]`` that has ``rank`` others before it, int32."""
    ones = candidates.astype(jnp.int32)
    if candidates.shape[0] > _UNROLL:

        def counted() -> jax.Array:
            before = jnp.cumsum(ones, axis=0, dtype=jnp.int32) - ones
            return lowest(candidates & (before == rank[None]))

        return counted() if on_accelerator() else where_any(jnp.any(rank > 0), counted, lowest(candidates))
    action, before = jnp.zeros_like(rank), jnp.zeros_like(rank)
    for i in range(candidates.shape[0]):
        action = jnp.where(candidates[i] & (before == rank), i, action)
        before = before + ones[i]
    return _found_once(action)


def _found_once(index: jax.Array) -> jax.Array:
    """Return an ``index``; else each of its uses finds it again (4.2 instead of 3.7 M/s for AVE-UCB)."""
    return index if on_accelerator() else computed_once(index.astype(np.float32)).astype(np.int32)


def take(values: jax.Array, index: jax.Array) -> jax.Array:
    """Return ``values[index]`` of ``[N, ...]`` as a masked sum: a gather per seed is slow.

    An ``index []`` picks one row; an index of more axes meets those of the values after the first. One of more than 32
    rows a CPU does look up: of 100 fresh arms the sum took a sixth of OFUL's time, the look-up takes a hundredth.
    An accelerator does so where all rows have more than 96 numbers (with :func:`learn_in_layer` 7,863 instead of 12,195
    bytes per seed-round of SAVE with fresh arms that are stored). One number of each of several rows a CPU chooses by
    one comparison after the other: the sum would be taken in lanes of what is summed, and their reduction was a tenth
    of UCRL-AVE's time with 16 actions.
    """
    num = values.shape[0]
    is_long = values.size > _LOOKED_UP if on_accelerator() else is_alone() or num > _UNROLL
    if index.ndim == 0 and is_long:
        return row_of(values, index)
    if _FEW < num <= _UNROLL and index.ndim == values.ndim - 1 > 0 and not on_accelerator():
        return functools.reduce(lambda found, i: jnp.where(index == i, values[i], found), range(1, num), values[0])
    numbers = np.arange(num, dtype=np.int32).reshape(num, *(1,) * index.ndim)
    chosen = (numbers == index[None]).reshape(num, *index.shape, *(1,) * (values.ndim - 1 - index.ndim))
    return jnp.sum(jnp.where(chosen, values, 0), axis=0, dtype=values.dtype)


def row_of(table: jax.Array, index: jax.Array) -> jax.Array:
    """Return ``table[index]`` of ``[N, ...]`` for an ``index []``: looked up where all seeds share the table.

    With 80 state-action pairs UCRL-AVE takes 0.83 of the time that it takes with a masked sum of their transitions.
    """
    return lax.dynamic_index_in_dim(table, index, keepdims=False)


def draw_state(row: jax.Array, u: jax.Array) -> jax.Array:
    """Return the state drawn from the distribution ``row [S]`` by the uniform number ``u []``, int32 [].

    It is the last state whose share of the unit interval begins at or before u: never one of probability 0.
    """
    num_states = row.shape[0]
    if num_states > _UNROLL:
        before = jnp.cumsum(row, axis=0) - row
        begun = (row > 0) & (u * jnp.sum(row, axis=0) >= before)
        return jnp.max(jnp.where(begun, np.arange(num_states, dtype=np.int32), 0), axis=0).astype(jnp.int32)
    befores = [jnp.zeros_like(row[0])]
    for i in range(num_states):
        befores.append(befores[-1] + row[i])
    point, state = u * befores[-1], jnp.int32(0)
    for i in range(num_states):
        state = jnp.where((row[i] > 0) & (point >= befores[i]), i, state)
    return state


_least_of_block = core.Primitive("least_of_block")  # of the seeds side by side; one seed by itself is the least
_least_of_block.def_impl(lambda x: x)
_least_of_block.def_abstract_eval(lambda x: x)
mlir.register_lowering(_least_of_block, lambda _, x: [x])
batching.primitive_batchers[_least_of_block] = lambda args, axes: (jnp.min(args[0], axis=axes[0]), None)


def _loop(first: Any, end: Any, turn: Callable[[jax.Array, T], T], start: T) -> T:
    """Return ``lax.fori_loop`` over numbers without a sign: XLA sees that a slice is read and written at one place."""
    first, end = (jnp.asarray(v).astype(jnp.uint32) for v in (first, end))
    return lax.while_loop(lambda loop: loop[0] < end, lambda loop: (loop[0] + 1, turn(*loop)), (first, start))[1]


def _fold_used(function: Callable[[jax.Array, jax.Array, T], T], layer: jax.Array, start: T) -> T:
    """Return ``start`` after ``function(i, is_mine, value)`` for each layer i that is in use, from 0 in order.

    On a CPU these are all from the least to the largest ``layer []`` of the seeds side by side (0: none), mostly one:
    seeds play in step. A layer is then read and written in place (0.19 instead of 0.23 us of processor time per
    seed-round of AVE-UCB with fixed arms, against all of four layers under a mask).
    """
    # Else XLA finds the layer again for each seed, one by one, where it looks for the least.
    layer = _found_once(layer)
    first = _least_of_block.bind(jnp.where(layer > 0, layer - 1, np.iinfo(np.int32).max))
    end = -_least_of_block.bind(-layer)

    def turn(i: jax.Array, value: T) -> T:
        return function(i, layer.astype(jnp.uint32) == i + 1, value)

    return _loop(first, end, turn, start)


def only_row(one: Callable[[jax.Array], T], every: Callable[[], T], index: jax.Array, like: T) -> T:
    """Return ``every()``, a pytree of arrays ``[N, ...]``, of which only row ``index []`` will be read: ``one(index)``.

    Shapes and types are those of ``like``.

    A CPU makes all rows that lie between those of the seeds side by side, most often one. UCRL-AVE then bounds one
    state in the first stage: 0.153 instead of 0.160 us of processor time per step where episodes have ten.
    """
    if on_accelerator():
        return every()

    def choose(i: jax.Array, is_mine: jax.Array, found: T) -> T:
        return jax.tree.map(lambda x, y: jnp.where(is_mine, x, y), one(i), found)

    found = _fold_used(choose, index + 1, jax.tree.map(lambda x: jnp.zeros_like(x[0]), like))
    return jax.tree.map(lambda x, rows: jnp.broadcast_to(x, rows.shape), found, like)


def backwards(turn: Callable[[jax.Array, T], T], last: T, num: int, first: Callable[[T], T] | None = None) -> T:
    """Return rows ``turn(i, row i + 1)`` up to the ``last`` of ``num``, [num, ...]; row 0 is ``first(row 1)``.

    A CPU writes each row to its place: 0.143 instead of 0.145 us of processor time per step of UCRL-AVE, where a scan
    stacks rows that are then copied beside the first and the last.
    """
    ahead = int(first is not None and num > 1)  # rows that are not made by turns
    if on_accelerator():

        def stack(row: T, i: jax.Array) -> tuple[T, T]:
            found = turn(i, row)
            return found, found

        row, rows = lax.scan(stack, last, jnp.arange(ahead, num - 1, dtype=jnp.int32), reverse=True)
        parts = (*((first(row),) if first and ahead else ()), rows, last)
        return jax.tree.map(lambda *v: jnp.concatenate([*(x[None] for x in v[:-2]), v[-2], v[-1][None]]), *parts)

    def put(rows: T, i: Any, row: T) -> T:
        return jax.tree.map(lambda v, x: lax.dynamic_update_index_in_dim(v, x, i, 0), rows, row)

    def at(rows: T, i: Any) -> T:
        return jax.tree.map(lambda v: lax.dynamic_index_in_dim(v, i, keepdims=False), rows)

    def back(i: jax.Array, rows: T) -> T:
        return put(rows, num - 2 - i, turn(num - 2 - i, at(rows, num - 1 - i)))

    rows = put(jax.tree.map(lambda x: jnp.zeros((num, *x.shape), x.dtype), last), num - 1, last)
    rows = lax.fori_loop(0, num - 1 - ahead, back, rows)
    return put(rows, 0, first(at(rows, 1))) if first and ahead else rows


def _deepest(is_used: jax.Array) -> jax.Array:
    """Return how many layers there are down to the deepest that a seed of those side by side uses, []."""
    number = jnp.max(jnp.where(is_used, np.arange(1, is_used.shape[0] + 1, dtype=np.int32), 0), axis=0)
    return -_least_of_block.bind(-number)


def _slice(stacks: T, i: jax.Array | int) -> T:
    """Return layer ``i []`` of a pytree of arrays ``[capacity, ...]``."""

    def layer(v: jax.Array) -> jax.Array:
        return v[i] if isinstance(i, int) else lax.dynamic_index_in_dim(v, i, keepdims=False)

    return jax.tree.map(layer, stacks)


def down_layers(
    look: Callable[[Any], Any],
    enter: Callable[..., T],
    start: T,
    is_over: Callable[[T], jax.Array],
    stack: Any,
    *stacks: Any,
) -> T:
    """Return ``start`` after ``enter(value, look(layer), *layer)`` of each layer of ``stack`` and ``stacks``, in order.

    Where ``is_over(value) []`` holds, further layers must not change the value: a CPU ends where it holds for all seeds
    side by side (0.79 instead of 0.83 us of processor time per seed-round of SAVE with fresh arms, 3.6 instead of 4.0
    with 100 of them). An accelerator looks at all layers at once.
    """
    capacity = jax.tree.leaves(stack)[0].shape[0]
    if on_accelerator():
        for i in range(capacity):
            layer, *rest = _slice((stack, *stacks), i)
            start = enter(start, look(layer), *rest)
        return start

    def turn(loop: tuple[jax.Array, jax.Array, T]) -> tuple[jax.Array, jax.Array, T]:
        i, _, value = loop
        layer, *rest = _slice((stack, *stacks), i)
        value = enter(value, look(layer), *rest)
        return i + 1, _least_of_block.bind(is_over(value).astype(np.int32)), value

    end = lax.while_loop(lambda loop: (loop[0] < capacity) & (loop[1] == 0), turn, (jnp.uint32(0), jnp.int32(0), start))
    return end[2]


def each_used_layer(function: Callable[..., T], is_used: jax.Array, unused: T, *stacks: Any) -> T:
    """Return ``function`` of each layer of ``stacks [capacity, ...]`` that is used, and ``unused`` for all others.

    It is a pytree of arrays, with a leading axis in what is returned. A CPU skips the layers below the deepest one that
    a seed of those side by side uses (1.04 instead of 1.24 us of processor time per seed-round of AVE-UCB with fresh
    arms); an accelerator takes the function of all, which must be the same, and so does one seed alone of vectors.
    """
    if on_accelerator() or (is_alone() and all(v.ndim < 3 for v in jax.tree.leaves(stacks))):
        if not any(v.ndim == 3 and v.size > _LOOKED_UP for v in jax.tree.leaves(stacks)):
            return jax.tree.map(computed_once, jax.vmap(function)(*stacks))
        return jax.tree.map(lambda *v: jnp.stack(v), *(function(*_slice(stacks, i)) for i in range(is_used.shape[0])))

    def turn(i: jax.Array, found: T) -> T:
        used, *layer = _slice((is_used, *stacks), i)
        new = jax.tree.map(lambda x, y: jnp.where(used, x, y)[None], function(*layer), unused)
        return jax.tree.map(lambda v, x: lax.dynamic_update_slice_in_dim(v, x, i, 0), found, new)

    start = jax.tree.map(lambda x: jnp.broadcast_to(x, (is_used.shape[0], *x.shape)), unused)
    return _loop(0, _deepest(is_used), turn, start)


def least_over_layers(
    bound: Callable[..., jax.Array], least: jax.Array, is_used: jax.Array, *stacks: jax.Array
) -> jax.Array:
    """Return the least of ``least`` and of the ``bound`` of each layer of ``stacks [capacity, ...]`` that is used.

    A CPU has a loop over layers, which ends with the deepest that a seed of those side by side uses, and whose result
    is computed once (0.19 instead of 0.20 us of processor time per step of UCRL-AVE, against all layers in one loop).
    Of many bounds, whose features are long sums, all layers are one loop, unless that is too much for LLVM to put seeds
    into lanes (15 instead of 22 us with 100 states and 4 actions); so they are where one seed alone compares vectors.
    """

    def lower(least: jax.Array, used: jax.Array, *layer: jax.Array) -> jax.Array:
        found = bound(*layer)
        return jnp.where(used & ~(found >= least), found, least)  # what is not a number is found: a minimum asks twice

    many = least.shape[0] > _MANY and not is_alone() and stacks[-1].shape[-1] <= _FEW
    if on_accelerator() or many or (is_alone() and stacks[-1].ndim == 2 and least.shape[0] <= _MANY):
        for i in range(is_used.shape[0]):
            least = lower(least, *(v[i] for v in (is_used, *stacks)))
        return computed_once(least)

    def turn(i: jax.Array, least: jax.Array) -> jax.Array:
        return lower(least, *_slice((is_used, *stacks), i))

    return _loop(0, _deepest(is_used), turn, least)


def map_layer(function: Callable[..., T], layer: jax.Array, told: U, stack: T, *others: jax.Array) -> T:
    """Return arrays ``[capacity, ...]`` with ``function(told, old, *others)`` in layer ``layer []`` (0: none).

    The function is told the pytree ``told``, what is there, and the same layer of other stacks. A CPU reads and writes
    a layer by one loop, in place. What it is told is 0 in layers of other seeds: what does not depend on the layer XLA
    would compute and store before the loop (2.4 instead of 2.8 us of processor time per seed-round of AVE-UCB with
    1,000 fixed arms, where all that changes is made first and then copied to its place).
    """
    if on_accelerator():
        is_mine = is_layer(jax.tree.leaves(stack)[0].shape[0], layer)
        new = jax.vmap(functools.partial(function, told))(stack, *others)
        return jax.tree.map(lambda x, y: jnp.where(is_mine.reshape(-1, *(1,) * (y.ndim - 1)), x, y), new, stack)

    def turn(i: jax.Array, is_mine: jax.Array, stack: T) -> T:
        old, *rest = jax.tree.map(lambda v: lax.dynamic_slice_in_dim(v, i, 1), (stack, *others))
        mine = jax.tree.map(lambda v: jnp.where(is_mine, v, 0), told)
        new = jax.vmap(functools.partial(function, mine))(old, *rest)
        new = jax.tree.map(lambda x, y: jnp.where(is_mine, x, y), new, old)
        return jax.tree.map(lambda v, x: lax.dynamic_update_slice_in_dim(v, x, i, 0), stack, new)

    return _fold_used(turn, layer, stack)


def of_layer(stacks: T, layer: jax.Array) -> T:
    """Return layer ``layer []`` of a pytree of arrays ``[L, ...]``; zeros where it is 0."""
    if on_accelerator():
        is_mine = is_layer(jax.tree.leaves(stacks)[0].shape[0], layer)

        def own(v: jax.Array) -> jax.Array:
            return jnp.sum(jnp.where(is_mine.reshape(-1, *(1,) * (v.ndim - 1)), v, 0), axis=0, dtype=v.dtype)

        return jax.tree.map(own, stacks)

    def read(i: jax.Array, is_mine: jax.Array, own: T) -> T:
        return jax.tree.map(lambda x, y: jnp.where(is_mine, x, y), _slice(stacks, i), own)

    return _fold_used(read, layer, jax.tree.map(lambda v: jnp.zeros_like(v[0]), stacks))


def is_layer(capacity: int, layer: jax.Array) -> jax.Array:
    """Return which of the layers 1..capacity is ``layer []``, bool [capacity].

    A CPU divides between the comparison and its uses: XLA then computes the mask, and what led to it, once.
    """
    is_one = np.arange(1, capacity + 1, dtype=np.int32) == layer
    return is_one if on_accelerator() else 1 / jnp.where(is_one, np.float32(1), np.float32(np.inf)) > 0


def computed_once(values: jax.Array) -> jax.Array:
    """Return finite ``values`` in a form that XLA computes once; cheap operations it repeats in each of their uses.

    A quotient is expensive enough to be stored. Its divisor is 1, but made so that no compiler may see it. Without it
    every use of uniform arms draws them again: 7.5 instead of 0.6 us per seed-round of SAVE. An accelerator's compiler
    weighs stores against repetition by itself.
    """
    return values if on_accelerator() else values / (1 + 0 * values)


def words(first: jax.Array, second: jax.Array) -> Any:
    """Return two words of a key, both [], that a loop carries: [2] on a CPU, else a pair.

    XLA would make them in a loop each, with all of Threefry in either: 332 instead of 618 operations for two keys.
    """
    return (first, second) if on_accelerator() else jnp.where(np.arange(2) == 0, first, second)


def together(values: T) -> T:
    """Return a pytree of arrays; an accelerator computes all of it before anything that needs one of them.

    One kernel then makes values and policy of a stage: 18,837 instead of 19,557 bytes per episode of UCRL-AVE. One
    kernel draws arms and sees them in all layers, where the choice would see them again: 14,151 bytes for SAVE.
    """
    return lax.optimization_barrier(values) if on_accelerator() else values


def where_any(holds: jax.Array, new: Callable[[], T], old: T) -> T:
    """Return ``new()`` where ``holds``, else ``old``: as a whole for ``holds []``, entry by entry for ``holds [...]``.

    A CPU makes it new only where it holds for an entry of one of the seeds side by side (0.11 instead of 0.135 us of
    processor time per seed-round of SAVE with fixed arms).
    """

    def chosen() -> T:
        return jax.tree.map(lambda a, b: jnp.where(holds, a, b), new(), old)

    if on_accelerator():
        return chosen()
    kept: T = lax.cond(jnp.any(holds), chosen if holds.ndim else new, lambda: old)
    return kept


def stored_or_anew(stored: Callable[[], jax.Array], anew: Callable[[], jax.Array]) -> jax.Array:
    """Return what is stored; an accelerator makes it anew, and what nobody reads is not stored.

    18,837 instead of 21,052 bytes per episode of UCRL-AVE where all seeds share the model. Where they do not, a step
    reads the seed's phi once more.
    """
    return anew() if on_accelerator() else stored()
