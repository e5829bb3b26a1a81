"""seeds_last: a kernel for one seed runs over many with the seeds on the last axis."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar.batching import seeds_last

seen: list = []


def plain(matrix, vector, scale):
    """``scale M v`` and ``|v|^2``, with every known axis leading."""
    seen.append((matrix.shape, vector.shape, scale.shape))
    return {"image": scale[None] * jnp.sum(matrix * vector[:, None], axis=0), "norm2": jnp.sum(vector * vector, axis=0)}


kernel = seeds_last(plain)


def reference(matrix, vector, scale):
    return {"image": scale * (vector @ matrix), "norm2": vector @ vector}


def inputs(*batch):
    rng = np.random.default_rng(0)
    return (jnp.asarray(rng.normal(size=(*batch, *shape))) for shape in ((3, 2), (3,), ()))


def assert_same(got, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), got, expected)


def test_without_vmap_the_kernel_is_itself():
    # One seed alone pays nothing and sees no extra axis.
    args = tuple(inputs())
    seen.clear()
    assert_same(kernel(*args), reference(*args))
    assert set(seen) == {((3, 2), (3,), ())}


def test_values_are_those_of_plain_vmap():
    # Only the layout may differ: outputs come back with the mapped axis first, as vmap promises.
    args = tuple(inputs(5))
    got = jax.vmap(kernel)(*args)
    assert got["image"].shape == (5, 2) and got["norm2"].shape == (5,)
    assert_same(got, jax.vmap(reference)(*args))


def test_the_batch_is_last_inside():
    # This is the point: inside, the innermost axis runs over seeds.
    args = tuple(inputs(5))
    seen.clear()
    jax.vmap(kernel)(*args)
    assert seen[-1] == ((3, 2, 5), (3, 5), (5,))


def test_arguments_without_the_axis_get_length_one():
    # What all seeds share is not copied for each, and broadcasts where a kernel combines it with what they do not.
    matrix, vector, scale = inputs()
    _, vectors, _ = inputs(5)
    seen.clear()
    got = jax.vmap(kernel, in_axes=(None, 0, None))(matrix, vectors, scale)
    assert seen[-1] == ((3, 2, 1), (3, 5), (1,))
    assert_same(got, jax.vmap(reference, in_axes=(None, 0, None))(matrix, vectors, scale))
    # `norm2` does not depend on what is mapped here, and still has one entry per seed.
    _, _, scales = inputs(4)
    got = jax.vmap(kernel, in_axes=(None, None, 0))(matrix, vector, scales)
    assert_same(got, jax.vmap(reference, in_axes=(None, None, 0))(matrix, vector, scales))
    assert got["norm2"].shape == (4,)


def test_any_axis_can_be_mapped():
    # vmap over the last axis, as the simulator does, gives the same.
    args = tuple(inputs(5))
    moved = [jnp.moveaxis(x, 0, -1) for x in args]
    got = jax.vmap(kernel, in_axes=-1, out_axes=-1)(*moved)
    expected = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), jax.vmap(reference)(*args))
    assert_same(got, expected)


def test_nested_vmap():
    # Seeds and settings: both axes go last, and an argument may have one of them, both or none.
    args = tuple(inputs(4, 5))
    seen.clear()
    assert_same(jax.vmap(jax.vmap(kernel))(*args), jax.vmap(jax.vmap(reference))(*args))
    assert sorted(seen[-1][1][1:]) == [4, 5] and len(seen[-1][0]) == 4

    matrix, _, _ = inputs()
    _, vectors, _ = inputs(5)
    _, _, scales = inputs(4)

    def both(f):
        return jax.vmap(jax.vmap(f, in_axes=(None, 0, None)), in_axes=(None, None, 0))(matrix, vectors, scales)

    got = both(kernel)
    assert got["image"].shape == (4, 5, 2) and got["norm2"].shape == (4, 5)
    assert_same(got, both(reference))


def test_scalars():
    # A kernel of numbers, one of them a Python number.
    add = seeds_last(lambda a, b: a + b)
    assert float(add(jnp.float64(1), jnp.float64(2))) == 3
    np.testing.assert_array_equal(jax.vmap(lambda a: add(a, 2.0))(jnp.arange(3.0)), [2, 3, 4])


def test_pytrees():
    # States are trees, with parts that are missing.
    @seeds_last
    def step(state, x):
        return {"sum": state["sum"] + x, "parts": (state["parts"][0] * x[None], None)}

    state = {"sum": jnp.arange(3.0), "parts": (jnp.arange(6.0).reshape(3, 2), None)}
    got = jax.vmap(step)(state, jnp.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(got["sum"], [1, 3, 5])
    np.testing.assert_array_equal(got["parts"][0], [[0, 1], [4, 6], [12, 15]])
    assert got["parts"][1] is None


def test_under_jit_and_scan():
    # The rule holds inside compiled programs and loops.
    args = tuple(inputs(5))
    assert_same(jax.jit(jax.vmap(kernel))(*args), jax.vmap(reference)(*args))
    assert_same(jax.vmap(jax.jit(kernel))(*args), jax.vmap(reference)(*args))

    def loop(f, matrix, vector, scale):
        return jax.lax.scan(lambda v, _: (v + f(matrix, v, scale)["norm2"], None), vector, None, length=3)[0]

    got = jax.vmap(lambda *a: loop(kernel, *a))(*args)
    np.testing.assert_allclose(got, jax.vmap(lambda *a: loop(reference, *a))(*args), rtol=1e-12)


def test_keeps_name_and_documentation():
    # help() shows the kernel's own text.
    assert kernel.__name__ == "plain" and kernel.__doc__ == plain.__doc__
