"""Cholesky factors of small positive definite matrices, and the systems they solve.

Both functions go column by column: matrices are small, and a library's call for each of them is slow.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvar.lowering import outer


def factor(matrix: jax.Array) -> jax.Array:
    """Return the lower triangular L with ``L L^T = matrix [d, d]``; NaN where the matrix is not positive definite."""
    columns, rest = [], matrix
    for j in range(matrix.shape[0]):
        column = rest[:, 0] / jnp.sqrt(rest[0, 0])
        columns.append(jnp.concatenate([jnp.zeros(j, column.dtype), column]))
        rest = rest[1:, 1:] - outer(column[1:])
    return jnp.stack(columns, axis=1)


def solve(lower: jax.Array, b: jax.Array) -> jax.Array:
    """Return ``x`` with ``L L^T x = b`` for ``lower [d, d]`` and ``b [d]``, or ``b [d, m]`` for m systems at once."""
    num, forward, back = b.shape[0], list[jax.Array](), list[jax.Array]()

    def less(b: jax.Array, column: jax.Array, entry: jax.Array) -> jax.Array:
        return b - (column * entry if b.ndim == 1 else column[:, None] * entry[None])

    for j in range(num):
        forward.append(b[0] / lower[j, j])
        b = less(b[1:], lower[j + 1 :, j], forward[-1])
    b = jnp.stack(forward)
    for j in reversed(range(num)):
        back.append(b[j] / lower[j, j])
        b = less(b[:j], lower[j, :j], back[-1])
    return jnp.stack(back[::-1])
