"""The lowering: one seed's function over a block of seeds is a loop over them, with the block on the last axes."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxvar as jv
from experiments.speed.comparison import Comparison, bandit_game, episodic_game
from jaxvar import engine, lowering, parameters
from jaxvar.blocks import OverSeeds, batch_last, over_seeds, spread
from jaxvar.environments.interface import Drawn
from jaxvar.environments.linear_bandit import draw_arms
from jaxvar.lowering import form_for, on_accelerator

KEY = jax.random.key(9)
SMALL = Comparison(dim=3, arms=4, rounds=120, states=3, actions=2, features=2, horizon=3, episodes=30)
BLOCKS = [(7,), (7, 1), (2, 7)]


# --- a function for one seed, over seeds ---


def scanned(x, y):
    """Carries what becomes different only after two turns, what never does, and what always did."""

    def step(carry, now):
        late, later, same, mine = carry
        return (later, mine, same + 1, mine + late * now), (mine * now, same * 2)

    return lax.scan(step, (jnp.zeros(()), jnp.zeros(()), jnp.int32(0), x[0]), y)


def scanned_backwards(x, y):
    return lax.scan(lambda c, row: (c + row * y[0], c), x[0], x, reverse=True, unroll=2)


def known_end(x, y):
    return lax.fori_loop(0, 4, lambda i, v: v * 0.5 + y[0] * i.astype(y.dtype), x)


def common_end(x, y):
    """Ends for all seeds at once, but nobody knows when."""
    end = jnp.abs(y[0]) * 3 + 2
    return lax.while_loop(lambda c: c[0] < end, lambda c: (c[0] + 1, c[1] * 0.5 + y[1]), (jnp.zeros(()), x))


def own_end(x, y):
    """Ends after another number of turns for each seed."""
    return lax.while_loop(lambda c: c[0] < 3 + x[0], lambda c: (c[0] + y[0] ** 2 + 0.3, c[1] + 1), (x[0], jnp.int32(0)))


def own_end_nested(x, y):
    return lax.scan(lambda c, row: (c + own_end(row[None], y)[0], own_end(row[None], y)[1]), x[0], x)


def common_branch(x, y):
    return lax.cond(y[0] > -100, lambda a: (a * 2, y[0]), lambda a: (a - 1, y[1]), x)


def own_branch(x, y):
    return lax.cond(x[0] > 0, lambda a: (jnp.sin(a), jnp.int32(1), y), lambda a: (a - 1, jnp.int32(2), 2 * y), x)


def own_switch(x, y):
    index = jnp.clip(jnp.floor(x[0] + 1.5), 0, 2).astype(jnp.int32)
    return lax.switch(index, [lambda a: a, lambda a: a * y[0], lambda a: jnp.zeros_like(a)], x)


def nested_branches(x, y):
    def inner(a):
        return lax.cond(a[1] > 0, lambda b: b + y[:2], lambda b: b * b, a[:2])

    return lax.cond(x[0] > 0, inner, lambda a: a[:2] * 0, x)


def small_branches(x, y):
    """Single numbers made of the same array in both branches, and outside of them."""
    chosen = lax.cond(x[0] > 0, lambda a: jnp.sum(a * a), lambda a: jnp.max(a) + a[0], x)
    return chosen + jnp.max(x) * jnp.sum(x)


def small_scan(x, y):
    """Single numbers made of the same array inside a loop, and after it."""
    total, _ = lax.scan(lambda c, v: (c + jnp.max(x) * v + jnp.sum(x), None), jnp.zeros(()), y)
    return total + jnp.max(x) + jnp.sum(x * y)


def solved(x, y):
    matrix = jnp.eye(3) * 4 + x[:, None] * x[None]
    return jnp.linalg.solve(matrix, y), jnp.linalg.cholesky(matrix), jnp.linalg.inv(matrix)


def gathered(x, y):
    index = jnp.argmax(x)
    matrix = x[:, None] * y[None]
    return (
        y[index],
        x[index],
        matrix[index],
        matrix[:, index],
        matrix[index, 1],
        x.at[index].set(7.0),
        x.at[1].add(y[0]),
        matrix.at[index].add(y),
        matrix.at[jnp.where(index > 0, index, 3)].add(y, mode="drop"),
        matrix.at[1].add(y),
        matrix.at[index[None]].add(y[None]),
        matrix.at[index, 1].add(y[0]),
        matrix.at[:, index].add(y),
    )


def sliced(x, y):
    long = jnp.concatenate([x, y, x])
    parts = jnp.split(long, [2, 5])
    i = jnp.int32(1)
    return (
        *(long[1:8:3], long[::-1], long[-2:], parts),
        *(lax.dynamic_slice(long, (i,), (4,)), lax.dynamic_update_slice(long, y, (i,)), jnp.roll(long, 2)),
        *(lax.dynamic_slice(y, (i,), (2,)), lax.dynamic_update_slice(y, x[:2], (i,)), jnp.flip(x)),
    )


def sliced_by_seed(x, y):
    i = jnp.clip(x[0] + 1, 0, 2).astype(jnp.int32)
    long = jnp.concatenate([x, y])
    row = lax.dynamic_index_in_dim(long, i, keepdims=False)
    return (
        row,
        lax.dynamic_index_in_dim(long > 0, i, keepdims=False).astype(jnp.int32),
        lax.dynamic_slice(y, (i,), (2,)),
        lax.dynamic_update_slice(long, y, (i,)),
        jnp.pad(y, 1, constant_values=x[0]),
    )


def elementwise(x, y):
    positive = jnp.abs(x) + 1
    return (
        *(x + y, x - 1, 2 * x, x / positive, x**2, positive**1.5, positive**y, -x, jnp.maximum(x, y), x % 1.3),
        *(jnp.exp(x), jnp.log(positive), jnp.log1p(positive), jnp.sqrt(positive), jnp.tanh(x), jnp.arctan2(x, y)),
        *(jnp.where(x > y, x, 0.0), jnp.where(x[0] > 0, x, y), jnp.clip(x, -0.5, y), jnp.floor(x), jnp.sign(x)),
        *(x > y, (x > 0) & (y > 0), ~(x > 0), jnp.isfinite(x), x.astype(jnp.float32), x.astype(jnp.int32)),
        *(
            lax.bitcast_convert_type(x, jnp.uint64) >> np.uint64(3),
            jax.nn.relu(x),
            jax.nn.softplus(x),
            lax.stop_gradient(x),
        ),
        *(
            jax.scipy.special.gammaln(positive),
            jax.scipy.stats.norm.cdf(x),
            lax.optimization_barrier(x),
            jnp.float32(2),
        ),
    )


def reductions(x, y):
    matrix = x[:, None] - y[None]
    return (
        *(jnp.sum(matrix), jnp.sum(matrix, axis=0), jnp.max(matrix, axis=1), jnp.min(x), jnp.prod(x), jnp.mean(matrix)),
        *(jnp.any(x > 0), jnp.all(matrix > -9, axis=0), jnp.argmax(x), jnp.argmin(matrix, axis=1), jnp.sum(x > 0)),
        *(jnp.cumsum(matrix, axis=0), jnp.cumprod(x), lax.cummax(x), jnp.sort(x), jnp.argsort(matrix, axis=1)),
        *(jnp.linalg.norm(x), jax.nn.logsumexp(matrix, axis=1), jnp.var(x)),
    )


def left_to_jax(x, y):
    """What has no rule of its own."""
    return (
        jnp.pad(x, (2, 1)),
        jnp.median(x),
        jnp.linalg.det(jnp.outer(x, y) + jnp.eye(3)),
        jnp.unique(x, size=3),
        jnp.searchsorted(y, x),
    )


def empty(x, y):
    """Sums of nothing."""
    return (
        jnp.sum(x[:0]),
        x[:0] @ y[:0],
        jnp.concatenate([x[:0], y]),
        jnp.any(x[:0] > 0),
        jnp.outer(x, y)[:, :0] @ x[:0],
    )


def other_widths(x, y):
    """The same bits as other numbers of words: an axis comes or goes."""
    halves = lax.bitcast_convert_type(x, jnp.uint32)
    return (
        halves,
        lax.bitcast_convert_type(halves, jnp.float64),
        lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint16),
    )


def broadcasts(x, y):
    return (
        *(jnp.broadcast_to(x, (4, 3)), x[:, None] * jnp.ones((3, 2)), jnp.stack([x, y], axis=1), jnp.tile(x, 2)),
        *(jnp.zeros((2, 3)) + x[0], jnp.outer(x, y).T, jnp.outer(x, y).reshape(9), jnp.repeat(x, 2), jnp.full(4, x[0])),
        *(
            jnp.squeeze(x[None]),
            jnp.expand_dims(x, (0, 2)),
            jnp.moveaxis(jnp.outer(x, y)[None], 2, 0),
            jnp.eye(3) * x[:, None],
        ),
    )


def products(x, y):
    matrix, cube = x[:, None] * y[None] + jnp.eye(3), x[:, None, None] * jnp.arange(18.0).reshape(3, 3, 2)
    return (
        *(x @ y, matrix @ x, y @ matrix, matrix @ matrix.T, jnp.eye(3) @ matrix, jnp.tensordot(matrix, cube, 1)),
        *(jnp.einsum("i,ij,j->", x, matrix, y), jnp.einsum("ijk,jl->kil", cube, matrix), jnp.einsum("i,j->ij", x, y)),
        *(jnp.einsum("ij,ij->i", matrix, matrix), jnp.einsum("bij,bjk->bik", cube, cube.transpose(0, 2, 1))),
        *(jnp.vdot(x, y), jnp.dot(2.0, x), jnp.dot(jnp.arange(3), (x > 0).astype(jnp.int64))),
    )


def long_products(x, y):
    long = jnp.sin(jnp.arange(40.0)[:, None] * x[None])
    counts = (long[:, 0] > 0).astype(jnp.int32)
    return long.T @ long, jnp.sin(jnp.arange(40.0)) @ long, counts @ counts, counts @ jnp.arange(40, dtype=jnp.int32)


def called(x, y):
    mapped = jax.vmap(lambda a, b: (a * b, jnp.sum(x) + a), in_axes=(0, None))(x, y[1])
    return mapped, jax.jit(lambda a: a + y)(x), jax.checkpoint(jnp.sin)(x), batch_last(lambda a: a * 3)(x)


def library(x, y):
    """The package's own operations of linear algebra and selection."""
    matrix = jnp.outer(x, x) + jnp.eye(3)
    arms, index = jnp.stack([x, y, x + y, x - y]), jnp.argmax(x).astype(jnp.int32)
    return (
        *(lowering.inner(arms, y), lowering.transform(matrix, y), lowering.outer(x)),
        lowering.square_lengths(arms, matrix),
        *(lowering.combine(arms, arms[:, :1]), lowering.largest(arms), lowering.lowest(arms > 0)),
        *(
            lowering.of_rank(x > -9, index),
            lowering.take(arms, index),
            lowering.is_layer(5, index),
            lowering.computed_once(x),
        ),
        lowering.draw_state(jnp.abs(x), jnp.abs(jnp.sin(y[0]))),
        lowering.where_any(x > y, lambda: 2 * y, x),
        lowering.where_any(x[0] > y[0], lambda: (2 * y, x[0]), (x, y[0])),
        _one_row(arms, x, index),
        lowering.backwards(lambda i, row: (row[0] * y, row[1] + i), (x, index), 4),
        lowering.backwards(lambda i, row: row * y + x, x, 4, lambda row: row - x),
        lowering.backwards(lambda i, row: row * y, x, 1, lambda row: row - x),
    )


def _one_row(arms, x, index):
    """The row that :func:`lowering.only_row` is asked for; no other is read."""

    def one(i):
        arm = jax.lax.dynamic_index_in_dim(arms, i, keepdims=False)
        return arm @ x, arm

    rows = lowering.only_row(one, lambda: (arms @ x, arms), index, (arms[:, 0], arms))
    return jax.tree.map(lambda v: v[index], rows)


def layered(x, y):
    """What is done to one of several layers, another one for each seed and none for some, and to those in use."""
    stack = jnp.stack([jnp.outer(x, x) + (i + 1) * jnp.eye(3) for i in range(4)])
    layer = jnp.floor(jnp.abs(5 * x[0]) % 5).astype(jnp.int32)  # 0 to 4
    numbers = np.arange(1, 5, dtype=np.int32)
    is_used = numbers <= (jnp.abs(4 * x[2])).astype(jnp.int32)
    learned = jnp.where(is_used, x[0] * numbers.astype(float), 0)  # nothing by the layers that are not used
    return (
        layer,
        lowering.of_layer((stack, learned), layer),
        lowering.map_layer(lambda n, old, other: n * old + other[0, 1], layer, y[0], stack, 2 * stack),
        lowering.map_layer(lambda n, old: (n[0] * old[0], n[1] + old[1]), layer, (y[0], y), (stack, stack[:, 1])),
        lowering.each_used_layer(lambda v: (v * y[0], y + v), is_used, (0 * y[0], y), learned),
        lowering.least_over_layers(lambda m, v: m[0] @ y + v, x, is_used, stack, x[0] * stack[:, 1, 1]),
        lowering.least_over_layers(lambda v: v, x, is_used, stack[:, 1]),
    )


FUNCTIONS = [
    *(
        elementwise,
        reductions,
        broadcasts,
        sliced,
        sliced_by_seed,
        products,
        long_products,
        gathered,
        solved,
        called,
        library,
        layered,
        left_to_jax,
        other_widths,
        empty,
    ),
    *(scanned, scanned_backwards, known_end, common_end, own_end, own_end_nested),
    *(common_branch, own_branch, own_switch, nested_branches, small_branches, small_scan),
]


def inputs(block, differs):
    rng = np.random.default_rng(math.prod(block))
    return tuple(jnp.asarray(rng.normal(size=(3, *block) if d else (3,))) for d in differs)


def of_seed(tree, differs, where):
    """One seed's part; ``where`` indexes the block's axes."""
    return jax.tree.map(lambda x, d: x[(..., *where)] if d else x, tree, differs)


def assert_is_a_loop(function, block, args, differs, compiled=True, rtol=1e-11):
    """Outputs, types and shapes are those of one call per seed; returns which outputs differ."""
    flags = []

    def together(*args):
        out, found = over_seeds(function, block, args, differs)
        flags.append(found)
        return out

    out = (jax.jit(together) if compiled else together)(*args)
    for where in itertools.product(*map(range, block)):
        expected = function(*of_seed(args, differs, where))
        for ours, theirs in zip(
            jax.tree.leaves(of_seed(out, flags[-1], where)), jax.tree.leaves(expected), strict=True
        ):
            assert ours.shape == jnp.shape(theirs) and ours.dtype == jnp.result_type(theirs), function.__name__
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-13, err_msg=function.__name__)
    return flags[-1]


@pytest.mark.parametrize("differs", [(True, True), (True, False)], ids=["both", "one"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_over_seeds_is_a_loop_over_seeds(function, differs):
    """Every kind of operation, on what differs between seeds and on what does not."""
    flags = assert_is_a_loop(function, (7,), inputs((7,), differs), differs)
    assert any(jax.tree.leaves(flags))


@pytest.mark.variants(4)
@pytest.mark.parametrize("block", BLOCKS[1:], ids=str)
@pytest.mark.parametrize(
    "function", [products, gathered, sliced_by_seed, own_end, own_branch, scanned], ids=lambda f: f.__name__
)
def test_blocks_may_have_several_axes(function, block):
    """A CPU's block has a second axis of length one; a nested vmap makes two long ones."""
    for differs in ((True, True), (True, False)):
        assert_is_a_loop(function, block, inputs(block, differs), differs)


@pytest.mark.parametrize("block", [(), (1,)], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_seed_alone(function, block):
    """Fails if a seed that is played by itself gets other numbers: long reductions and products have a form of it."""
    args = inputs(block, (True, True))
    with form_for(accelerator=False, alone=True):
        assert_is_a_loop(function, block, args, (True, True))


def either_bit(x, axis):
    return jnp.bitwise_or.reduce(x.astype(np.int32), axis=axis)


@pytest.mark.parametrize("block", [(), (1,)], ids=str)
@pytest.mark.parametrize("size", [9, 20, 127, 128, 200, 1000])
@pytest.mark.parametrize(
    "function", [jnp.sum, jnp.max, jnp.min, jnp.any, jnp.all, either_bit], ids=lambda f: f.__name__
)
def test_long_reductions_of_one_seed(function, size, block):
    """Fails if a number is left out or counted twice: each of them alone is found."""
    for i in {0, min(63, size - 1), min(64, size - 1), size - 1}:
        x = np.zeros((2, size))
        x[1, i] = -3.0 if function is jnp.min else 3.0
        x = x == 0 if function is jnp.all else x
        out, _ = over_seeds(lambda x: function(x, axis=1), block, (jnp.asarray(x).reshape(2, size, *block),), (True,))
        np.testing.assert_array_equal(out, function(x, axis=1).reshape(2, *block))


def test_what_is_the_same_for_all_seeds_in_every_round():
    """A number that depends on another seed's only after three rounds differs from the first one on."""

    def step(numbers, state):
        count, own, after, later = state
        return count + 1, own * count, after + own, later + after

    state = (jnp.float64(1), jnp.arange(1.0, 4), jnp.float64(0), jnp.float64(0))
    play = OverSeeds(step, (3,), (jnp.float64(2), state), (False, (False, True, False, False)))
    varies = play.carried(1)
    assert varies == (False, True, True, True)
    state, flags = spread(state, (False, True, False, False), (3,), varies), varies
    for _ in range(3):
        state = spread(*play(jnp.float64(2), state), (3,), flags)
    for found, expected in zip(state, (4, [6, 12, 18], [4, 8, 12], [3, 6, 9]), strict=True):
        np.testing.assert_array_equal(found, expected)
    none = OverSeeds(step, (3,), (jnp.float64(2), (jnp.float64(1),) * 4), (False, (False,) * 4))
    assert none.carried(1) == (False,) * 4


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_accelerators_form_is_a_loop_too(function):
    """Another form of the same sums."""
    with form_for(True):
        assert_is_a_loop(function, (7,), inputs((7,), (True, True)), (True, True))


@pytest.mark.parametrize("function", [elementwise, own_branch, known_end], ids=lambda f: f.__name__)
def test_uncompiled(function):
    """Without jit it is the same."""
    assert_is_a_loop(function, (7,), inputs((7,), (True, False)), (True, False), compiled=False)


@pytest.mark.parametrize("num", [3, 8, 9, 32, 33])
@pytest.mark.parametrize("accelerator", [False, True])
def test_one_number_of_each_column_is_taken(num, accelerator):
    values, index = np.random.default_rng(num).normal(size=(num, 40)), np.arange(40, dtype=np.int32) % num
    with form_for(accelerator):
        found = lowering.take(jnp.asarray(values), jnp.asarray(index))
    np.testing.assert_array_equal(found, values[index, np.arange(40)].astype(found.dtype))


def test_no_seed_need_take_the_other_branch():
    """All, none or some: the values are those of a loop."""
    y = jnp.arange(3.0)
    for first in (jnp.full(7, 1.0), jnp.full(7, -1.0), jnp.arange(7.0) - 3):
        x = jnp.stack([first, first + 1, first * 2])
        assert_is_a_loop(own_branch, (7,), (x, y), (True, False))


def test_a_branch_that_no_seed_takes_is_not_run():
    """A rare expensive step costs nothing while nobody needs it: it stands behind a condition of the whole block."""
    seen = []

    def expensive(x):
        jax.debug.callback(lambda: seen.append(1))
        return x * 3

    def function(x):
        return lax.cond(x > 0, expensive, lambda x: x, x)

    play = jax.jit(lambda x: over_seeds(function, (7,), (x,), (True,))[0])
    np.testing.assert_array_equal(play(-jnp.arange(7.0)), -np.arange(7.0))
    jax.effects_barrier()
    assert not seen
    np.testing.assert_array_equal(play(jnp.arange(7.0)), 3 * np.arange(7.0))
    jax.effects_barrier()
    assert seen


def test_what_nobody_reads_is_not_evaluated():
    """But what acts, such as a callback, is."""
    seen = []

    def function(x):
        jax.debug.callback(lambda: seen.append(1))
        jnp.cosh(lax.fori_loop(0, 3, lambda _, y: y + 1, x))
        return x + 1

    play = jax.jit(lambda x: over_seeds(function, (7,), (x,), (True,))[0])
    names = [e.primitive.name for e in jax.make_jaxpr(play)(jnp.arange(7.0)).eqns[0].params["jaxpr"].eqns]
    assert not {"cosh", "while", "scan"} & set(names)
    play(jnp.arange(7.0))
    jax.effects_barrier()
    assert seen


# --- random keys ---


def draws(key):
    one, other = jax.random.split(key)
    folded = jax.random.fold_in(one, 3)
    return (
        *(jax.random.normal(one, (3,)), jax.random.uniform(other), jax.random.randint(folded, (2,), 0, 100)),
        *(jax.random.bernoulli(folded, 0.3, (5,)), jax.random.permutation(other, 4), jax.random.key_data(folded)),
        *(jax.random.gamma(one, 2.0), jv.random.bits(jv.random.key_words(key), (2,))),
    )


@pytest.mark.parametrize("block", [BLOCKS[1], *(pytest.param(b, marks=pytest.mark.slow) for b in BLOCKS[::2])], ids=str)
def test_draws_from_each_seeds_key(block):
    """Keys as keys, and as their words: every seed draws what it would draw alone, to the last bit."""
    keys = jax.random.split(KEY, block)
    assert_is_a_loop(draws, block, (keys,), (True,), rtol=0)
    words = jnp.moveaxis(jax.random.key_data(keys), -1, 0)
    assert_is_a_loop(lambda w: draws(jax.random.wrap_key_data(w)), block, (words,), (True,), rtol=0)


def test_keys_may_be_carried():
    """Through loops and branches, as states of algorithms from outside do."""

    def function(key, x):
        def step(key, row):
            key = lax.cond(row > 0, lambda: jax.random.fold_in(key, 1), lambda: key)
            return key, jax.random.normal(key)

        key, drawn = lax.scan(step, key, x)
        return jax.random.key_data(key), drawn

    keys = jax.random.split(KEY, 7)
    assert_is_a_loop(function, (7,), (keys, inputs((7,), (True,))[0]), (True, True))
    assert_is_a_loop(function, (7,), (KEY, inputs((7,), (True,))[0]), (False, True))


# --- where the block is, and what is held once ---


def shapes_inside(function, *args):
    """Shapes of everything that is computed, at any depth."""

    def of(jaxpr):
        for equation in jaxpr.eqns:
            yield from (v.aval.shape for v in equation.outvars)
            for value in jax.tree.leaves(equation.params, is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr")):
                if hasattr(value, "jaxpr") or hasattr(value, "eqns"):
                    yield from of(getattr(value, "jaxpr", value))

    return set(of(jax.make_jaxpr(function)(*args).jaxpr))


OWN_RULES = [
    *(elementwise, reductions, broadcasts, sliced, products, long_products, library),
    *(scanned, scanned_backwards, known_end, common_branch, own_branch, nested_branches),
]


@pytest.mark.parametrize("function", OWN_RULES, ids=lambda f: f.__name__)
def test_the_block_is_last(function):
    """This is the point: in all that is computed the innermost axis runs over seeds. 53 is nobody's length but ours."""
    args = inputs((53,), (True, True))
    found = shapes_inside(lambda *a: over_seeds(function, (53,), a, (True, True))[0], *args)
    assert any(53 in shape for shape in found)
    for shape in found:
        assert 53 not in shape[:-1], shape


def test_the_block_is_last_in_a_whole_game():
    """Not only in single operations: nothing of a round of OFUL or SAVE has seeds further in front."""
    for algorithm in (jv.oful(3), jv.save(3, 100, capacity=2), jv.losan(3)):
        for fresh in (False, True):
            environment = jv.linear_bandit(3, 4, noise=jv.noise.two_point(0.1), fresh=fresh)

            def play(seed, algorithm=algorithm, environment=environment):
                return jv.run(algorithm, environment, KEY, num_rounds=9, seed=seed, record_at=2)

            found = shapes_inside(jax.vmap(play), jnp.arange(53))
            inside = {s for s in found if 53 in s[:-1]}
            # The results themselves come back with seeds first, as vmap promises: [seeds, records] each.
            assert inside <= {(53, 2), (53, 3)}, inside


def test_what_does_not_differ_is_held_once():
    """What is made of what all seeds share has no block, inside and outside; ``spread`` gives it one."""

    def function(x, y):
        shared = jnp.outer(y, y) @ jnp.outer(y, y)
        drawn = jax.random.normal(KEY, (3,))
        return {"shared": shared, "drawn": drawn, "constant": jnp.arange(4), "own": x * shared[0], "given": y}

    args, differs = inputs((53,), (True, False)), (True, False)
    out, flags = over_seeds(function, (53,), args, differs)
    assert flags == {"shared": False, "drawn": False, "constant": False, "own": True, "given": False}
    assert {name: x.shape for name, x in out.items()} == {
        **{"shared": (3, 3), "drawn": (3,), "constant": (4,), "own": (3, 53), "given": (3,)}
    }
    everything = spread(out, flags, (53,))
    for name, x in everything.items():
        assert x.shape == (*function(args[0][:, 0], args[1])[name].shape, 53)
        np.testing.assert_array_equal(
            x, out[name] if flags[name] else np.repeat(np.asarray(out[name])[..., None], 53, -1)
        )
    assert (3, 3, 53) not in shapes_inside(lambda *a: over_seeds(function, (53,), a, differs)[0], *args)


def test_what_a_loop_carries_is_held_once_where_it_can_be():
    """It differs sooner or later, or it never does; a loop must know before its first turn."""
    flags = assert_is_a_loop(scanned, (7,), inputs((7,), (True, False)), (True, False))
    assert flags == ((True, True, False, True), (True, False))
    flags = assert_is_a_loop(known_end, (7,), inputs((7,), (False, True)), (False, True))
    assert flags is True


@pytest.mark.parametrize("num", [32, 33, 64, 100, 300, 1100])
def test_long_reductions_are_those_of_all_terms(num):
    """Sizes of one window, of two unequal ones, of two whole ones, of several, of many, and of windows of windows."""
    x = np.random.default_rng(num).normal(size=(2, num, 3))

    def function(x):
        return jnp.sum(x, axis=1), jnp.max(x, axis=1), jnp.any(x > 3.0, axis=1), jnp.sum(x > 0, axis=1)

    with form_for(accelerator=False):
        out, differs = over_seeds(function, (3,), (x,), (True,))
    assert all(jax.tree.leaves(differs))
    np.testing.assert_allclose(out[0], x.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(out[1], x.max(1).astype(out[1].dtype))
    np.testing.assert_array_equal(out[2], (x > 3.0).any(1))
    np.testing.assert_array_equal(out[3], (x > 0).sum(1))


def test_nothing_differs():
    """Then there is no block at all."""
    flags = assert_is_a_loop(elementwise, (7,), inputs((7,), (False, False)), (False, False))
    assert not any(jax.tree.leaves(flags))


def test_numbers_and_trees():
    """Arguments may be Python numbers, NumPy arrays and any trees, with parts that are missing."""

    def step(state, x):
        return {"sum": state["sum"] + x, "parts": (state["parts"][0] * x, None)}

    state = {"sum": np.arange(3.0), "parts": (np.arange(6.0).reshape(2, 3), None)}
    differs = {"sum": True, "parts": (True, None)}
    out, flags = over_seeds(step, (3,), (state, 2.0), (differs, False))
    np.testing.assert_array_equal(out["sum"], [2, 3, 4])
    np.testing.assert_array_equal(out["parts"][0], 2 * np.arange(6.0).reshape(2, 3))
    assert out["parts"][1] is None and flags == differs


# --- jax.vmap ---


def plain(matrix, vector, scale):
    return {"image": scale * jnp.sum(matrix * vector[:, None], axis=0), "norm2": jnp.sum(vector * vector, axis=0)}


kernel = batch_last(plain)


def arrays(*batch):
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.normal(size=(*batch, *shape))) for shape in ((3, 2), (3,), ()))


def assert_same(got, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), got, expected)


def test_values_are_those_of_plain_vmap():
    """Only the layout may differ: outputs come back with the mapped axis first, as vmap promises; jit or not."""
    args = arrays(5)
    for mapped in (jax.vmap(kernel), jax.jit(jax.vmap(kernel)), jax.vmap(jax.jit(kernel))):
        got = mapped(*args)
        assert got["image"].shape == (5, 2) and got["norm2"].shape == (5,)
        assert_same(got, jax.vmap(plain)(*args))
    assert_same(kernel(*arrays()), plain(*arrays()))


def test_arguments_without_the_axis_are_shared():
    """What all seeds share is not copied for each; what is made of it alone still has one entry per seed outside."""
    matrix, vector, scale = arrays()
    _, vectors, scales = arrays(53)
    got = jax.vmap(kernel, in_axes=(None, 0, None))(matrix, vectors, scale)
    assert_same(got, jax.vmap(plain, in_axes=(None, 0, None))(matrix, vectors, scale))
    got = jax.vmap(kernel, in_axes=(None, None, 0))(matrix, vector, scales)
    assert_same(got, jax.vmap(plain, in_axes=(None, None, 0))(matrix, vector, scales))
    assert got["norm2"].shape == (53,)
    inside = shapes_inside(jax.vmap(kernel, in_axes=(None, 0, None)), matrix, vectors, scale)
    assert (3, 2, 53) in inside and (53, 3, 2) not in inside


def test_any_axis_and_several_can_be_mapped():
    """The last one, as one of two, of some arguments only."""
    args = arrays(5)
    moved = [jnp.moveaxis(x, 0, -1) for x in args]
    expected = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), jax.vmap(plain)(*args))
    assert_same(jax.vmap(kernel, in_axes=-1, out_axes=-1)(*moved), expected)
    args = arrays(4, 5)
    assert_same(jax.vmap(jax.vmap(kernel))(*args), jax.vmap(jax.vmap(plain))(*args))
    matrix, vectors, scales = arrays()[0], arrays(5)[1], arrays(4)[2]

    def both(f):
        return jax.vmap(jax.vmap(f, in_axes=(None, 0, None)), in_axes=(None, None, 0))(matrix, vectors, scales)

    assert both(kernel)["image"].shape == (4, 5, 2) and both(kernel)["norm2"].shape == (4, 5)
    assert_same(both(kernel), both(plain))


def test_under_scan():
    """The rule holds inside compiled loops."""

    def loop(f, matrix, vector, scale):
        return lax.scan(lambda v, _: (v + f(matrix, v, scale)["norm2"], None), vector, None, length=3)[0]

    args = arrays(5)
    got = jax.vmap(lambda *a: loop(kernel, *a))(*args)
    np.testing.assert_allclose(got, jax.vmap(lambda *a: loop(plain, *a))(*args), rtol=1e-12)


@pytest.mark.parametrize("name", ["oful", *(pytest.param(n, marks=pytest.mark.slow) for n in ("save", "lin_ts"))])
def test_vmap_of_run_is_a_loop(name):
    """Over seeds, over keys, over a leaf of the algorithm: each run is what it is alone."""
    make = {
        "oful": lambda delta: jv.oful(2, delta=delta),
        "save": lambda delta: jv.save(2, 40, delta=delta, capacity=2, constants=jv.constants.practical()),
        "lin_ts": lambda delta: jv.lin_ts(2, 40, delta=delta),
    }[name]
    environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.2), fresh=name == "save")

    @jax.jit
    def play(seed, key, delta):
        return jv.run(make(delta), environment, key, num_rounds=40, seed=seed, record_at=4)

    seeds, keys, deltas = jnp.arange(3), jax.random.split(KEY, 3), jnp.array([0.01, 0.2, 0.5])
    for axes, args in (((0, None, None), (seeds, KEY, 0.1)), ((None, 0, 0), (5, keys, deltas))):
        out = jax.vmap(play, in_axes=axes)(*args)
        assert np.unique(out.regret[:, -1]).size > 1
        for i in range(3):
            alone = play(*(x[i] if axis == 0 else x for x, axis in zip(args, axes, strict=True)))
            for ours, theirs in zip(
                jax.tree.leaves(out._replace(rounds=())), jax.tree.leaves(alone._replace(rounds=())), strict=True
            ):
                np.testing.assert_allclose(ours[i], theirs, rtol=1e-9, atol=1e-12)


# --- derivatives ---


def differentiated(case):
    environment = jv.linear_bandit(2, 3, noise=jv.noise.two_point(0.2))
    algorithm = jv.oful(2)

    def regret(delta, play=jv.run):
        return play(parameters.replace(algorithm, delta=delta), environment, KEY, num_rounds=5).regret[-1]

    def select(delta):
        made = parameters.replace(algorithm, delta=delta)
        choice = made.select(made.init(), jnp.eye(2), KEY, jv.Side(jnp.zeros(2)))
        return choice.weight

    return {
        "run": lambda: jax.jacfwd(regret)(0.1),
        "jitted run": lambda: jax.jacfwd(jax.jit(regret))(0.1),
        "reverse": lambda: jax.grad(regret)(0.1),
        "trace": lambda: jax.jacfwd(lambda d: regret(d, jv.trace))(0.1),
        "select": lambda: jax.jacfwd(select)(0.1),
        "vmapped run": lambda: jax.vmap(jax.jacfwd(regret))(jnp.array([0.1, 0.2])),
        "run of vmap": lambda: jax.jacfwd(lambda d: jax.vmap(regret)(d).sum())(jnp.array([0.1, 0.2])),
    }[case]


@pytest.mark.parametrize("case", ["run", "jitted run", "reverse", "trace", "select", "vmapped run", "run of vmap"])
def test_choices_are_not_differentiable(case):
    """A derivative of zero would be wrong, and silently so; the error says what to do instead."""
    with pytest.raises(TypeError, match=r"choices are not differentiable.*jit, vmap and scan.*finite differences"):
        differentiated(case)()


# --- forms ---

FORMS = [(False, False), (True, False), (False, True)]  # accelerator, alone


def played(form, algorithm, environment, **length):
    recorders = (jv.record.regret(), jv.record.layer_rounds(), jv.record.confidence())
    with form_for(*form), pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_ALONE", (1, 1) if form[1] else (10**9, 10**9))
        out = jv.simulate(
            algorithm, environment, key=jax.random.key(3), num_seeds=8, record_at=5, recorders=recorders, **length
        )
    out.raise_if_failed()
    return out


def assert_alike(*game, **length):
    cpu, *others = (played(form, *game, **length) for form in FORMS)
    for other in others:
        np.testing.assert_allclose(other.regret, cpu.regret, rtol=1e-9, atol=1e-12)  # a sum may have another order
        np.testing.assert_array_equal(other.layer_rounds, cpu.layer_rounds)
        np.testing.assert_array_equal(other.confidence, cpu.confidence)


@pytest.mark.parametrize("fresh", [False, True], ids=["fixed", "fresh"])
@pytest.mark.parametrize("name", ["save", pytest.param("ave_ucb", marks=pytest.mark.slow)])
def test_all_forms_decide_alike(name, fresh):
    """Fails if an arm, a layer or a radius differs anywhere in the runs, whose arms and inverses are looked up.

    Fresh arms on the sphere are those of float32 on a CPU, and not on an accelerator.
    """
    game = dataclasses.replace(SMALL, dim=6, arms=17)
    algorithm, environment = bandit_game(game, name, fresh)
    environment = parameters.replace(environment, arms=Drawn(law="uniform")) if fresh else environment
    assert_alike(algorithm, environment, num_rounds=game.rounds)


@pytest.mark.parametrize("dim", [3, 13])
def test_all_forms_plan_alike(dim):
    """The same for episodes; above 12 dimensions one seed's matrices are read where they are."""
    assert_alike(*episodic_game(dataclasses.replace(SMALL, features=dim)), num_episodes=SMALL.episodes)


@pytest.mark.slow
def test_all_forms_plan_alike_with_a_model_for_each_seed():
    """Of more steps than entries of an inverse are computed again for, with random ties."""
    algorithm, environment = episodic_game(dataclasses.replace(SMALL, horizon=6, episodes=10))
    algorithm = parameters.replace(algorithm, ties="random")
    assert_alike(algorithm, parameters.replace(environment, model_seed=None), num_episodes=10)


@pytest.mark.parametrize("length", [7, 40, 41])
def test_both_forms_turn_alike(length):
    """An accelerator has no loop of at most 40 turns; of others it writes 40 turns at a time out."""

    def many_turns(x, y):
        def turn(carry, i):
            number, vector = carry
            vector = jnp.where(i % 3 == 1, jnp.cos(vector), vector) * 0.5 + x[i % 3] * y
            return (jnp.sum(vector * y) + number * 0.5, vector), (number, jnp.max(vector))

        return lax.scan(turn, (y[1], x), jnp.arange(length, dtype=jnp.int32), reverse=True)

    args, found = inputs((7,), (True, False)), []
    for accelerator in (False, True):
        with form_for(accelerator):
            call = jax.jit(lambda *a: over_seeds(many_turns, (7,), a, (True, False))[0])
            found.append((call(*args), "scan[" in str(jax.make_jaxpr(call)(*args))))
    (cpu, has_loop), (other, still_has) = found
    assert (has_loop, still_has) == (True, length > 40)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14), cpu, other)


@pytest.mark.parametrize("block", [(), (3,), (8, 1)])
def test_limits_keep_what_is_not_a_number(block):
    """A known limit is a selection on a CPU: it must agree with the maximum for every kind of number."""
    x = np.array([-np.inf, -1.5, 0.0, 0.5, 2.0, np.inf, np.nan])
    given = jnp.asarray(np.broadcast_to(x.reshape(-1, *(1,) * len(block)), (7, *block)))
    with form_for(False, alone=not block):
        found, _ = over_seeds(
            lambda x: (jnp.maximum(x, 0), jnp.minimum(0.5, x), jnp.clip(x, 0, 1), jnp.maximum(x, -x)),
            block,
            (given,),
            (True,),
        )
    expected = (np.maximum(x, 0), np.minimum(x, 0.5), np.clip(x, 0, 1), np.maximum(x, -x))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, np.broadcast_to(b.reshape(-1, *(1,) * len(block)), (7, *block)))


def test_a_row_is_made_of_its_parts():
    """On an accelerator no array of all rows is left: neither of columns, nor of a stack."""

    def look_up(x, y):
        columns = [jnp.sin(jnp.add(np.arange(5.0), v)) for v in x]
        index = jnp.argmax(x).astype(jnp.int32)
        drawn, stacked = jnp.stack(columns, axis=1) * y[0], jnp.stack([x, y, x * y, x + y, x - y])
        return lowering.row_of(drawn, index + 2), stacked[2], stacked[4]

    x, y = np.random.default_rng(5).normal(size=(2, 3, 7))
    expected, sizes = jax.vmap(look_up, in_axes=-1, out_axes=-1)(x, y), []
    for accelerator in (False, True):
        with form_for(accelerator):
            evaluated = OverSeeds(look_up, (7,), (x, y), (True, True))
            found, _ = evaluated(x, y)
        sizes.append(max(v.aval.size for e in evaluated.program.equations for v in e.outvars))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
    assert sizes == [15, 3]


@pytest.mark.parametrize("fresh", [False, True], ids=["fixed", "fresh"])
@pytest.mark.parametrize("dim", [1, 12, 13])
def test_both_forms_draw_the_same_arms(dim, fresh):
    """Column by column where they are short, and of norm 1; fresh ones with float32's digits on a CPU."""
    words = jnp.asarray([5, 9], jnp.uint32)
    found = []
    for accelerator in (False, True):
        with form_for(accelerator):
            found.append(np.asarray(draw_arms(words, 4, dim, "sphere", jnp.float64, fresh=fresh)))
            np.testing.assert_allclose(np.linalg.norm(found[-1], axis=1), 1, rtol=1e-13)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-13, atol=3e-7 if fresh else 0)
    single = np.asarray(draw_arms(words, 4, dim, "sphere", jnp.float32))
    assert np.max(np.abs(found[0] - single)) < 2e-7
    assert (np.max(np.abs(found[0] - found[1])) > 1e-9) == (fresh and dim > 1)


def layers_in_use(layers, arms, layer):
    return (
        lowering.of_layer(layers, layer),
        lowering.map_layer(lambda n, old: n - old, layer, arms[0, 0], layers),
    )


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_made_backwards(form):
    """Each from the one after it; the first by its own rule, unless it is the last."""
    with form_for(*form):
        rows = lowering.backwards(lambda i, row: 10 * row + i, jnp.int32(7), 4)
        np.testing.assert_array_equal(rows, [7210, 721, 72, 7])
        rows = lowering.backwards(lambda i, row: 10 * row + i, jnp.int32(7), 4, lambda row: -row)
        np.testing.assert_array_equal(rows, [-721, 721, 72, 7])
        np.testing.assert_array_equal(lowering.backwards(lambda i, row: row, jnp.int32(7), 1, lambda row: -row), [7])
        np.testing.assert_array_equal(
            lowering.backwards(lambda i, row: row, jnp.int32(7), 2, lambda row: -row), [-7, 7]
        )


@pytest.mark.parametrize("dim", [1, 2, 12, 13, 25, 33, 64, 80])
def test_all_forms_compute_the_same(dim):
    """Short sums are written out, long ones are not, and an accelerator has its own: NumPy has the last word."""
    rng = np.random.default_rng(dim)
    arms, root = rng.normal(size=(5, dim)), rng.normal(size=(dim, dim))
    matrix, index = root @ root.T, jnp.int32(dim // 2)
    row = rng.random(dim) * (rng.random(dim) < 0.7) + np.eye(dim)[0]
    for form in FORMS:
        with form_for(*form):
            lengths = lowering.square_lengths(arms, jnp.asarray(root))
            np.testing.assert_allclose(lengths, np.sum((arms @ root) ** 2, axis=1), rtol=1e-11)
            np.testing.assert_allclose(lowering.inner(arms, arms[1]), arms @ arms[1], rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(lowering.transform(root, arms[0]), root.T @ arms[0], rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(
                lowering.combine(root, arms[0][:, None]), root.T @ arms[0], rtol=1e-10, atol=1e-12
            )
            layers = np.stack([matrix, 2 * matrix, 3 * matrix])
            for layer in range(4):
                found, changed = layers_in_use(jnp.asarray(layers), arms, jnp.int32(layer))
                is_mine = np.arange(1, 4) == layer
                np.testing.assert_allclose(found, layer * matrix)
                np.testing.assert_array_equal(changed, np.where(is_mine[:, None, None], arms[0, 0] - layers, layers))
            bounds = np.stack([np.sum((arms @ m) ** 2, axis=1) + (-1) ** i * 99 for i, m in enumerate(layers)])
            for is_used in ([True, True, False], [False, True, False], [False, False, False]):
                least = lowering.least_over_layers(
                    lambda shift, layer: shift + lowering.square_lengths(arms, layer),
                    jnp.asarray(bounds[2]),
                    jnp.asarray(is_used),
                    jnp.asarray([99.0, -99.0, -1e9]),
                    jnp.asarray(layers),
                )
                expected = np.min(bounds, axis=0, where=np.array([*is_used[:2], True])[:, None], initial=np.inf)
                np.testing.assert_allclose(least, expected, rtol=1e-10)
                many = lowering.least_over_layers(  # of as many, a CPU takes all layers in one loop
                    lambda shift, layer: jnp.tile(shift + lowering.square_lengths(arms, layer), 60),
                    jnp.tile(bounds[2], 60),
                    jnp.asarray(is_used),
                    jnp.asarray([99.0, -99.0, -1e9]),
                    jnp.asarray(layers),
                )
                np.testing.assert_allclose(many, np.tile(expected, 60), rtol=1e-10)
            np.testing.assert_array_equal(lowering.largest(root), root.max(0))
            np.testing.assert_array_equal(lowering.lowest(root > 1), np.argmax(root > 1, axis=0))
            np.testing.assert_array_equal(lowering.take(root, index), root[dim // 2])
            np.testing.assert_array_equal(lowering.is_layer(dim, index), np.arange(1, dim + 1) == dim // 2)
            np.testing.assert_array_equal(lowering.computed_once(jnp.asarray(root)), root)
            rank = jnp.int32(dim // 3)
            np.testing.assert_array_equal(
                lowering.of_rank(jnp.asarray(row > 0), jnp.int32(0)), np.flatnonzero(row > 0)[0]
            )
            if np.sum(row > 0) > dim // 3:
                assert int(lowering.of_rank(jnp.asarray(row > 0), rank)) == np.flatnonzero(row > 0)[dim // 3]
            edges = (np.cumsum(row) - row) / row.sum()
            for u in (0.0, 0.3, 0.77, 1 - 1e-12):
                expected = np.flatnonzero((row > 0) & (edges <= u))[-1]
                assert int(lowering.draw_state(jnp.asarray(row), jnp.float64(u))) == expected


def test_the_form_is_that_of_the_platform():
    """Unless one is asked for."""
    assert not on_accelerator("cpu") and on_accelerator("tpu")
    with form_for(True):
        assert on_accelerator("cpu")
    assert not on_accelerator("cpu")
