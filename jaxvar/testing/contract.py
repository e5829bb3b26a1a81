"""The rules that hold for every algorithm and environment."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random
from jaxvar.lowering import batch_last
from jaxvar.parameters import float_dtype

_BATCH = 3


class ContractError(AssertionError):
    """A rule of the interface is broken."""


def check_transformations(once: Any, play: Any, target: Any, key: jax.Array) -> list[Any]:
    """``once`` is compared with and without jit, ``play``, which is longer, alone and in a block of seeds.

    Returns:
      What ``play`` returned for some seeds.
    """
    close(once(target, key), jax.jit(once)(target, key), "jit must not change results")
    num_traces = 0

    def counted(target: Any, key: jax.Array) -> Any:
        nonlocal num_traces
        num_traces += 1
        return play(target, key)

    compiled = jax.jit(counted)
    keys = jax.vmap(lambda i: random.fold_in(key, i))(jnp.arange(_BATCH))
    compiled(target, keys[0])
    before = num_traces
    alone = [compiled(jax.tree.map(lambda x: x + 0, target), k) for k in keys]
    require(num_traces == before, "new numbers in old shapes must not compile again")
    together = jax.jit(jax.vmap(batch_last(play), in_axes=(None, 0)))(target, keys)
    for i in range(_BATCH):
        mine = jax.tree.map(lambda x, i=i: x[i], together)
        close(mine, alone[i], "a block of seeds must equal a loop over them")
    return alone


def check_pytree(target: Any) -> None:
    """It must be a pytree of numbers."""
    leaves = jax.tree.leaves(target)
    require(
        all(isinstance(x, jax.Array | np.ndarray | float | int | np.generic) for x in leaves),
        f"{type(target).__name__} must be a pytree of numbers (jax.tree_util.register_dataclass)",
    )
    require(
        not (len(leaves) == 1 and leaves[0] is target),
        f"{type(target).__name__} must be a pytree (jax.tree_util.register_dataclass)",
    )


def require_methods(target: Any, names: tuple[str, ...]) -> None:
    """It must have these methods."""
    for name in names:
        require(callable(getattr(target, name, None)), f"{type(target).__name__} must have a method {name}")


def require(holds: bool, rule: str) -> None:
    """The rule must hold."""
    if not holds:
        raise ContractError(rule)


def same_shapes(one: Any, other: Any, rule: str) -> None:
    """Two trees must have the same structure, shapes and types."""

    def shapes(tree: Any) -> Any:
        return jax.tree.map(lambda x: (x.shape, x.dtype), tree)

    require(bool(jax.tree.structure(one) == jax.tree.structure(other)), rule)  # type: ignore[operator]
    require(jax.tree.leaves(shapes(one)) == jax.tree.leaves(shapes(other)), rule)


def check_finite(tree: Any, rule: str) -> None:
    """No float of the tree may be NaN or infinite."""
    for x in jax.tree.leaves(tree):
        if jnp.issubdtype(x.dtype, jnp.floating):
            require(bool(jnp.all(jnp.isfinite(x))), rule)


def close(one: Any, other: Any, rule: str) -> None:
    """Two trees must have the same values, up to rounding."""
    tolerance = 1e-9 if float_dtype().itemsize == 8 else 1e-4
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if jnp.issubdtype(x.dtype, jnp.floating):
            require(bool(np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True)), rule)
        else:
            require(bool(np.array_equal(x, y)), rule)
