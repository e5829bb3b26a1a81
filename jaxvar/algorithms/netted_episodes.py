"""What VarLin and VarLin2 share: regressions of powers of the next value, grouped by variance, on a net of parameters.

Moments m are counted from 0, groups of variance from 0, stages from 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import checks, nets, planning, random, ridge, status
from jaxvar import ties as tie_rules
from jaxvar.algorithms.interface import Model, Step
from jaxvar.algorithms.netted import TESTS, log2_of
from jaxvar.algorithms.optimistic_plan import Plan, batch_shape, optimistic_plan
from jaxvar.batching import seeds_last
from jaxvar.pytrees import float_dtype, leaf, pytree, static

LARGEST_EXPONENT = 4.0  # a larger one gains nothing unless the variance is far below the scale
LARGEST_VARIANCE = 0.25  # of anything in [0, 1]


class Slabs(NamedTuple):
    """Sums over the steps of each moment m and group i of variance, for each of C = J M constraints.

    The variance bound eta does not depend on theta, so that each constraint is a slab.
    """

    ay: jax.Array  # [m, i, C]   sum a y
    ax: jax.Array  # [m, i, C, d]   sum a x
    aaeta: jax.Array  # [m, i, C]   sum a^2 eta


class NettedEpisodesState(NamedTuple):
    """State of VarLin or VarLin2 for one seed; plans are made of the net at the start of an episode.

    Rows of a kernel add up to 1, which confines theta to a plane. Parameters and features are reflected so that the
    first axis is normal to it: the net then spends its cells on the plane.
    """

    mirror: jax.Array  # [d]   w, with the reflection x - 2 <w, x> w
    slabs: Slabs
    net: nets.Net
    steps: jax.Array  # []   int32, steps played in all episodes
    layer: jax.Array  # []   int32, 1 where the last step taught something, else 0
    weight: jax.Array  # []   likewise
    status: jax.Array  # []   int32


@pytree
class NettedEpisodes:
    """All of VarLin and VarLin2 but the number of scales and ``iota``."""

    norm_bound: Any  # B
    delta: Any
    num_episodes: Any  # K of the theorem
    beta_scale: Any
    tie_tolerance: Any
    dim: int = static()
    horizon: int = static()
    num_moments: int = static()
    num_groups: int = static()
    cells: int = static()  # along each axis
    num_directions: int = static()
    num_scales: int = static()
    num_exponents: int = static()
    every: int = static()  # episodes between two looks at the net
    test: str = static()
    ties: str = static()

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    @property
    def clip(self) -> nets.Clipping:
        """Directions and scales."""
        return nets.clipping(self.dim, self.num_directions, self.num_scales)

    @property
    def num_constraints(self) -> int:
        """Of all moments and groups."""
        return self.num_moments * self.num_groups * self.clip.num

    @property
    def iota(self) -> Any:
        """The logarithmic factor of the printed test."""
        raise NotImplementedError

    def init(self, model: Model) -> NettedEpisodesState:
        """No step, and all cells that may hold a theta of norm at most B whose kernel is one."""
        model = _known(self, model)
        net = nets.init_net(self.dim, self.cells, self.norm_bound, self.dtype)
        shape, zero = (self.num_moments, self.num_groups, self.clip.num), jnp.int32(0)
        slabs = Slabs(*(jnp.zeros(s, self.dtype) for s in (shape, (*shape, self.dim), shape)))
        mirror, alive = _start(self, net, model.phi)
        return NettedEpisodesState(
            mirror, slabs, net._replace(alive=alive), zero, zero, jnp.zeros((), self.dtype), zero
        )

    def plan(self, state: NettedEpisodesState, model: Model, key: jax.Array | None = None) -> Plan:
        """Optimistic values and policy of the coming episode; without a key ties go to the lowest action."""
        return _plan(self, state, _known(self, model), None if key is None else random.key_words(key))

    def update(self, state: NettedEpisodesState, model: Model, plan: Plan, step: Step) -> NettedEpisodesState:
        """Add to the sums; at the end of every ``every``-th episode drop the cells that no longer pass."""
        return _update(self, state, _known(self, model), plan, step)

    def contains(self, state: NettedEpisodesState, theta: jax.Array) -> jax.Array:
        """Whether the cell of ``theta [dim]`` is left, bool []."""
        chex.assert_shape(theta, (self.dim,))
        return _contains(self, state, theta)


def _known(self: NettedEpisodes, model: Any) -> Model:
    """What is used of ``model``, which must fit the algorithm."""
    chex.assert_shape(model.phi, (None, None, None, self.dim))
    if getattr(model, "horizon", self.horizon) != self.horizon:
        raise ValueError(f"the model must have the algorithm's horizon {self.horizon}, got {model.horizon}")
    return Model(phi=jnp.asarray(model.phi), reward=jnp.asarray(model.reward), horizon=self.horizon)


@seeds_last
def _start(self: NettedEpisodes, net: nets.Net, phi: jax.Array) -> tuple[jax.Array, jax.Array]:
    mirror = nets.mirror(jnp.sum(phi[0, 0], axis=0))
    return mirror, plausible(self, nets.points(net, self.cells), net.half / self.cells, phi, mirror)


def plausible(self: NettedEpisodes, points: jax.Array, cell: jax.Array, phi: jax.Array, mirror: jax.Array) -> jax.Array:
    """Which cells may hold a parameter that is possible before anything is seen: bool [N]."""
    rows = phi.reshape(-1, self.dim, *phi.shape[4:])
    reflected = nets.reflect(rows, mirror)
    reflected = reflected.reshape(*phi.shape[:4], *reflected.shape[2:])
    return nets.meets_ball(points, cell, self.norm_bound) & nets.meets_kernels(points, cell, reflected)


@seeds_last
def _contains(self: NettedEpisodes, state: NettedEpisodesState, theta: jax.Array) -> jax.Array:
    return nets.contains(state.net, self.cells, nets.reflect(theta[None], state.mirror)[0])


@seeds_last
def _plan(self: NettedEpisodes, state: NettedEpisodesState, model: Model, words: jax.Array | None) -> Plan:
    def bound(feature: jax.Array) -> jax.Array:
        return nets.support(nets.reflect(feature, state.mirror), state.net, self.cells)

    batch = batch_shape(model, words, state.net.center[0], self.tie_tolerance)
    one = jnp.ones((1,) * len(batch), self.dtype)
    return optimistic_plan(model, bound, one, words, self.ties, self.tie_tolerance, batch)


@seeds_last
def _update(
    self: NettedEpisodes, state: NettedEpisodesState, model: Model, plan: Plan, step: Step
) -> NettedEpisodesState:
    x, y = moments(self, model, plan, step)
    x = nets.reflect(x, state.mirror)
    slabs = learn(self, state, x, y)
    steps = state.steps + 1
    due = steps % (self.horizon * self.every) == 0

    def keep(points: jax.Array, cell: jax.Array) -> jax.Array:
        return passes(self, slabs, points, cell) & plausible(self, points, cell, model.phi, state.mirror)

    net, empty = nets.refine(state.net, self.cells, due, keep)
    finite = jnp.all(jnp.isfinite(x), axis=(0, 1)) & jnp.all(jnp.isfinite(y), axis=0)
    failure = jnp.where(finite, 0, status.NONFINITE) | jnp.where(empty, status.EMPTY, 0)
    taught = jnp.any(x[0] != 0, axis=0)
    return NettedEpisodesState(
        mirror=state.mirror,
        slabs=slabs,
        net=net,
        steps=steps,
        layer=taught.astype(jnp.int32),
        weight=taught.astype(self.dtype),
        status=state.status | failure.astype(jnp.int32),
    )


def moments(self: NettedEpisodes, model: Model, plan: Plan, step: Step) -> tuple[jax.Array, jax.Array]:
    """The features ``phi_{V^(2^m)}(s, a) [m, d]`` of the next stage's value V and their targets ``V(s')^(2^m) [m]``."""
    num_states, num_actions, _, dim = model.phi.shape[:4]
    pairs = model.phi.reshape(num_states * num_actions, num_states, dim, *model.phi.shape[4:])
    rows = tie_rules.take(pairs, step.state * num_actions + step.action)
    power = planning.at_stage(plan.value, step.stage + 1)
    x, y = [], []
    for _ in range(self.num_moments):
        x.append(ridge.combine(rows, power[:, None]))
        y.append(tie_rules.take(power, step.next_state))
        power = power * power
    return jnp.stack(x), jnp.stack(y)


def learn(self: NettedEpisodes, state: NettedEpisodesState, x: jax.Array, y: jax.Array) -> Slabs:
    """The sums with one more step, each moment's in the group of its variance bound."""
    slabs, last = state.slabs, jnp.full_like(y[:1], LARGEST_VARIANCE)
    if self.num_moments == 1:
        eta = last
    else:
        bound = nets.largest_variance(x[:-1], x[1:], state.net, self.cells)
        eta = jnp.concatenate([jnp.clip(bound, 0, LARGEST_VARIANCE), last])
    a = jnp.stack([nets.weights(x[m], self.clip) for m in range(self.num_moments)])
    belongs = in_group(self, eta).astype(self.dtype)[:, :, None]
    return Slabs(
        ay=slabs.ay + belongs * (a * y[:, None])[:, None],
        ax=slabs.ax + belongs[:, :, :, None] * (a[:, :, None] * x[:, None])[:, None],
        aaeta=slabs.aaeta + belongs * (a * a * eta[:, None])[:, None],
    )


def in_group(self: NettedEpisodes, eta: jax.Array) -> jax.Array:
    """Which group each of ``eta [m]`` is in: bool [m, i]. Group i has ``(2^-(i+3), 2^-(i+2)]``, the last all below."""
    index = np.arange(self.num_groups, dtype=np.int32).reshape(self.num_groups, *(1,) * (eta.ndim - 1))
    upper = (LARGEST_VARIANCE * 2.0**-index).astype(self.dtype)[None]
    below, above = eta[:, None] <= upper, eta[:, None] > upper / 2
    return (below | (index == 0)[None]) & (above | (index == self.num_groups - 1)[None])


def passes(self: NettedEpisodes, slabs: Slabs, points: jax.Array, cell: jax.Array) -> jax.Array:
    """Which cells ``points [N, d]`` of half-sides ``cell [d]`` may hold a parameter in every slab: bool [N]."""
    num = self.num_constraints
    ay, ax, aaeta = (s.reshape(num, *s.shape[3:]) for s in slabs)
    scale = np.tile(self.clip.scale, self.num_moments * self.num_groups).astype(self.dtype)
    scale = scale.reshape(num, *(1,) * (cell.ndim - 1))
    if self.test == "paper":
        limit = 4 * jnp.sqrt(self.iota[None] * aaeta) + 4 * scale * self.iota[None]
    else:
        lam = nets.exponents(LARGEST_EXPONENT, self.num_exponents)
        log = jnp.log(2 * self.num_exponents * num / self.delta)
        limit = scale * nets.exponential_limit(aaeta / scale**2, log[None], lam, nets.freedman_rate(lam))
    width = self.beta_scale[None] * limit + nets.cell_shift(ax, cell)
    return jnp.all(nets.deviation(ay, ax, points) <= width[:, None], axis=0)


def parameters(
    dim: Any,
    horizon: Any,
    num_episodes: Any,
    num_scales: int,
    norm_bound: Any,
    delta: Any,
    test: Any,
    beta_scale: Any,
    num_moments: Any,
    num_groups: Any,
    cells: Any,
    num_directions: Any,
    every: Any,
    ties: Any,
    tie_tolerance: Any,
) -> dict[str, Any]:
    """The fields of :class:`NettedEpisodes` from a factory's arguments, checked; ``num_scales`` is."""
    dim, cells, num_directions = nets.check_sizes(dim, cells, num_directions, num_scales)
    horizon = checks.count("horizon", horizon)
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return {
        "norm_bound": leaf(checks.parameter("norm_bound", norm_bound)),
        "delta": leaf(checks.parameter("delta", delta)),
        "num_episodes": leaf(num_episodes),
        "beta_scale": leaf(checks.parameter("beta_scale", beta_scale)),
        "tie_tolerance": leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        "dim": dim,
        "horizon": horizon,
        "num_moments": checks.count("num_moments", num_moments),
        "num_groups": checks.count("num_groups", num_groups),
        "cells": cells,
        "num_directions": num_directions,
        "num_scales": num_scales,
        "num_exponents": 11 + math.floor(log2_of(num_episodes) + math.log2(horizon)),
        "every": checks.count("every", every),
        "test": checks.choice("test", test, TESTS),
        "ties": checks.choice("ties", ties, tie_rules.RULES),
    }
