"""Least squares for sums of powers, by L-BFGS in float64, for many problems of one shape at a time.

A problem fits ``log f = logsumexp_t(design_t @ values + offset_t)`` to ``target [points]`` by its ``values
[parameters]``, on the scale of logarithms or of relative errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar.analysis.intervals import Array
from jaxvar.study.factories import in_precision

_BLOCK = 64  # problems per call: one compiled program serves any number of problems, or all starts of one problem
_MOST_STEPS = 500
_SLOPE = 1e-8  # largest entry of the gradient at which a fit has converged
Carry = tuple[jax.Array, object, jax.Array, jax.Array]  # values, optimiser state, number of steps, gradient


class Problem(NamedTuple):
    """Problems of one shape, one per row."""

    design: Array  # [rows, terms, points, parameters]
    offset: Array  # [rows, terms, points]
    target: Array  # [rows, points]

    def rows(self, which: slice | Array) -> Problem:
        """Return the selected rows."""
        return Problem(*(x[which] for x in self))


class Solution(NamedTuple):
    """The fit of each row."""

    values: Array  # [rows, parameters]
    fitted: Array  # [rows, points]   log f
    loss: Array  # [rows]
    slope: Array  # [rows]   largest entry of the gradient
    converged: Array  # [rows]   bool


def solve(problem: Problem, scale: str, start: Array | None = None) -> Solution:
    """Fit every row from ``start [parameters]``; if None, fit the only row from 64 starts and keep the best fit."""
    if start is None:  # fixed starts: one where all terms are equal and constant, and others around it
        terms, parameters = problem.design.shape[1], problem.design.shape[3]
        starts = np.random.default_rng(0).normal(size=(_BLOCK, parameters)) - np.log(terms)
        starts[0] = -np.log(terms)
        found = _fit_block(problem.rows(np.zeros(_BLOCK, int)), starts, scale)
        best = int(np.argmin(np.where(found.converged, found.loss, np.inf)))
        return Solution(*(x[best : best + 1] for x in found))
    blocks = np.split(np.arange(len(problem.target)), range(_BLOCK, len(problem.target), _BLOCK))
    parts = [_fit_block(problem.rows(rows), np.tile(start, (len(rows), 1)), scale) for rows in blocks]
    return Solution(*map(np.concatenate, zip(*parts, strict=True)))


def response(problem: Problem, values: Array) -> Array:
    """Return the derivative of the first row's fitted logarithms by the values, [points, parameters]."""
    parts = problem.design[0] @ values + problem.offset[0]
    shares = np.exp(parts - parts.max(0))
    return np.einsum("tn,tnp->np", shares / shares.sum(0), problem.design[0])


def _fit_block(problem: Problem, starts: Array, scale: str) -> Solution:
    """Fit at most one block of rows."""
    rows = len(starts)
    fill = np.minimum(np.arange(_BLOCK), rows - 1)  # the last row is repeated, and the repeats are dropped
    # Standard promotion, whatever the session's settings: optax mixes ranks and types.
    with in_precision("float64"), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        arrays = (problem.design[fill], problem.offset[fill], problem.target[fill], starts[fill])
        found = [np.asarray(x)[:rows] for x in _program(scale)(*map(jnp.asarray, arrays))]
    values, fitted, loss, slope = found
    return Solution(values, fitted, loss, slope, slope <= _SLOPE)


@functools.cache
def _program(scale: str) -> Callable[..., tuple[jax.Array, ...]]:
    """Return the compiled fit of a block."""
    return jax.jit(jax.vmap(functools.partial(_fit, scale)))


def _fit(
    scale: str, design: jax.Array, offset: jax.Array, target: jax.Array, start: jax.Array
) -> tuple[jax.Array, ...]:
    """Fit one problem from one start: return values, fitted logarithms, loss and largest entry of the gradient."""
    import optax  # only fits need it

    def fitted(values: jax.Array) -> jax.Array:
        return jax.nn.logsumexp(design @ values + offset, axis=0)

    def loss(values: jax.Array) -> jax.Array:
        gap = fitted(values) - target
        return jnp.mean(gap**2 if scale == "log" else jnp.expm1(jnp.clip(gap, max=50.0)) ** 2)

    method = optax.lbfgs(memory_size=10)
    value_and_slope = optax.value_and_grad_from_state(loss)

    def step(carry: Carry) -> Carry:
        values, state, number, _ = carry
        value, slope = value_and_slope(values, state=state)
        change, state = method.update(slope, state, values, value=value, grad=slope, value_fn=loss)
        values = optax.apply_updates(values, change)
        return values, state, number + 1, optax.tree.get(state, "grad")

    def goes_on(carry: Carry) -> jax.Array:
        _, _, number, slope = carry
        return (number < _MOST_STEPS) & (jnp.max(jnp.abs(slope)) > _SLOPE)

    first = (start, method.init(start), jnp.int32(0), jax.grad(loss)(start))
    values, _, _, _ = jax.lax.while_loop(goes_on, step, first)
    value, slope = jax.value_and_grad(loss)(values)
    return values, fitted(values), value, jnp.max(jnp.abs(slope))
