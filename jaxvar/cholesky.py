"""Square roots of small inverse matrices, for drawing normal vectors: factored once, or kept while data arrive.

``lower`` is the Cholesky factor L of ``P = V^-1``, so that ``L z`` with standard normal ``z`` has the covariance P.
Both functions are written out over the columns: matrices are small, and a library's call for each of them is slow.

Where V grows by ``x x^T``, the factor of the new inverse follows in O(d^2). With ``f = L^T x``,

    P <- P - P x x^T P / (1 + |f|^2) = L (I - f f^T / (1 + |f|^2)) L^T,

and the matrix in brackets has a Cholesky factor M in closed form. With ``a_j = 1 + sum_{i > j} f_i^2`` (so that
``a_d = 1`` and ``a_0 = 1 + |f|^2``, counting from 1)

    M_jj = sqrt(a_j / a_{j-1}),        M_ij = -f_i f_j / sqrt(a_j a_{j-1})    for i > j.

All of it are sums and quotients of positive numbers: the diagonal stays positive whatever the rounding, where
subtracting from P itself may lose its definiteness.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxvar.lowering import outer, transform


def factor(matrix: jax.Array) -> jax.Array:
    """Return the lower triangular L with ``L L^T = matrix [d, d]``; NaN where the matrix is not positive definite."""
    columns, rest = [], matrix
    for j in range(matrix.shape[0]):
        column = rest[:, 0] / jnp.sqrt(rest[0, 0])
        columns.append(jnp.concatenate([jnp.zeros(j, column.dtype), column]))
        rest = rest[1:, 1:] - outer(column[1:])
    return jnp.stack(columns, axis=1)


def solve(lower: jax.Array, b: jax.Array) -> jax.Array:
    """Return ``x [d]`` with ``L L^T x = b [d]`` for ``lower [d, d]``."""
    dim, forward, back = b.shape[0], list[jax.Array](), list[jax.Array]()
    for i in range(dim):
        forward.append((b[i] - sum((lower[i, j] * forward[j] for j in range(i)), jnp.zeros_like(b[i]))) / lower[i, i])
    for i in reversed(range(dim)):
        known = (lower[j, i] * back[dim - 1 - j] for j in range(i + 1, dim))
        back.append((forward[i] - sum(known, jnp.zeros_like(b[i]))) / lower[i, i])
    return jnp.stack(back[::-1])


def shrink(lower: jax.Array, x: jax.Array) -> jax.Array:
    """Return the factor of ``(V + x x^T)^-1`` from the factor ``lower [d, d]`` of ``V^-1``; ``x [d]``."""
    along = transform(lower, x)  # f = L^T x
    columns = []
    above = jnp.ones_like(along[0])  # a_j
    tail = jnp.zeros_like(along)  # sum_{i > j} f_i L_i
    for j in reversed(range(x.shape[0])):
        column, f = lower[:, j], along[j]
        before = above + f * f  # a_{j-1}
        columns.append((above * column - f * tail) / jnp.sqrt(above * before))
        above, tail = before, tail + f * column
    return jnp.stack(columns[::-1], axis=1)


def times(lower: jax.Array, z: jax.Array) -> jax.Array:
    """Return ``L z`` for ``lower [d, d]`` and ``z [d]``, [d]."""
    return transform(lower.T, z)
