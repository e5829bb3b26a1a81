"""SAVE where the decision set never changes: the same choices from one layer at a time.

A layer is passed once every active arm's width is at most 2^-l. Only its own observations change a layer, and a
passed layer takes none: it is passed in every later round too, with the same arms surviving it. So a round can begin
where the last one ended, and only the current layer's inverse is needed, together with the widths and estimates of
all arms in it (O(N d) per round).

Whether a layer is passed is seen from what it has learned: at the end of the round, which is then ready for the next,
or, on an accelerator, at the beginning of the next, where it is part of the kernel that chooses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random, ridge, status
from jaxvar.algorithms import layered
from jaxvar.algorithms.interface import Confidence, Side
from jaxvar.algorithms.save import Save, decide
from jaxvar.batching import kept, on_accelerator, seeds_last
from jaxvar.pytrees import pytree
from jaxvar.written_out import written_out


class FixedSaveState(NamedTuple):
    """State of SAVE with fixed arms for one seed."""

    number: jax.Array  # []   int32, the layer l in which the next round ends
    layer: ridge.Layers  # that layer alone, no leading axis
    beta: jax.Array  # []   its radius
    active: jax.Array  # [num_arms]   bool, the arms that survived all layers before
    scaled_width2: jax.Array  # [num_arms]   a^T P a in the layer
    pred: jax.Array  # [num_arms]   <a, theta_hat> in the layer
    norm2: jax.Array  # [num_arms]   |a|^2
    loss: jax.Array  # [capacity]   of every layer when it last learned
    beta_hat: jax.Array  # [capacity]   likewise
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32


class Passing(NamedTuple):
    """Whether a layer is passed, and what survives it."""

    passed: jax.Array  # []   bool
    least: jax.Array  # []   arms with a smaller estimate are dropped, where passed
    following: jax.Array  # []   int32, the layer in which the next round ends


class FixedChoice(NamedTuple):
    """A :class:`~jaxvar.algorithms.interface.Choice`, with the layer's passing where it was found in the same round."""

    action: jax.Array
    layer: jax.Array
    weight: jax.Array
    status: jax.Array
    passing: Passing | None


@pytree
class FixedSave:
    """SAVE for given arms; built by ``Save.with_fixed_arms``."""

    save: Save
    arms: Any  # [num_arms, dim]

    @property
    def capacity(self) -> int:
        """Layers whose losses and radii are kept."""
        return self.save.capacity

    def init(self) -> FixedSaveState:
        """The lowest layer that has something to learn, empty."""
        return _init(self)

    def select(self, state: FixedSaveState, arms: jax.Array, key: jax.Array, side: Side) -> FixedChoice:
        """Choose in the current layer (lines 7-8 and 13-15); ``arms`` are those the algorithm was made for."""
        return _select(self, state, random.key_words(key))

    def update(
        self, state: FixedSaveState, choice: FixedChoice, x: jax.Array, reward: jax.Array, side: Side
    ) -> FixedSaveState:
        """Learn in the current layer (lines 17-18) and pass it if nothing in it is uncertain any more (lines 11-12)."""
        return _update(self, state, choice, x, reward)

    def settled(self, state: FixedSaveState) -> FixedSaveState:
        """The state with its layer passed if it can be; an accelerator leaves that to the next round."""
        return _settled(self, state) if on_accelerator() else state

    def confidence(self, state: FixedSaveState) -> Confidence:
        """The ellipsoids of all layers; those passed no longer change."""
        return Confidence(state.loss, jnp.asarray(ridge.scales(self.capacity, self.save.dtype)), state.beta_hat)


@seeds_last
def _init(self: FixedSave) -> FixedSaveState:
    save, arms = self.save, jnp.asarray(self.arms)
    seeds = arms.shape[2:]
    norm2 = jnp.sum(arms * arms, axis=1)
    active = jnp.ones(norm2.shape, bool)
    number = _next_layer(save, jnp.zeros(seeds, jnp.int32), active, norm2)
    root_q = np.sqrt(ridge.scales(save.capacity, save.dtype)).reshape(save.capacity, *(1,) * len(seeds))
    beta_hat = jnp.asarray(save.constants.initial_coef)[None] * root_q
    return FixedSaveState(
        number=number,
        layer=_empty(save, seeds),
        beta=_initial_beta(save, number),
        active=active,
        scaled_width2=norm2,
        pred=jnp.zeros_like(norm2),
        norm2=norm2,
        loss=jnp.zeros_like(beta_hat),
        beta_hat=beta_hat,
        round=jnp.zeros(seeds, jnp.int32),
        status=jnp.zeros(seeds, jnp.int32),
    )


def _empty(self: Save, seeds: tuple[int, ...]) -> ridge.Layers:
    one = ridge.init_layers(self.dim, 1, 1, self.dtype)
    over = (None,) * len(seeds)
    return ridge.Layers(*(jnp.broadcast_to(v[0][(..., *over)], (*v.shape[1:], *seeds)) for v in one))


def _scale(self: Save, number: jax.Array) -> jax.Array:
    """``4^-l``."""
    return jnp.exp2((-2 * number).astype(self.dtype))


def _initial_beta(self: Save, number: jax.Array) -> jax.Array:
    return self.constants.initial_coef * jnp.exp2((-number).astype(self.dtype))


def _next_layer(self: Save, number: jax.Array, active: jax.Array, norm2: jax.Array) -> jax.Array:
    """The lowest layer after ``number`` in which a round can end; ``capacity + 1`` where it is not stored.

    It is empty: its widths are ``2^l |a|``, and passing an empty layer drops no arm.
    """
    capacity = self.capacity
    largest = jnp.max(jnp.where(active, norm2, 0), axis=0)
    candidates = np.arange(1, capacity + 1, dtype=np.int32).reshape(capacity, *(1,) * number.ndim)
    q = ridge.scales(capacity, self.dtype).reshape(candidates.shape)
    ends = (largest[None] > q * q) | (largest[None] <= q * (self.alpha**2)[None])
    return jnp.min(jnp.where(ends & (candidates > number[None]), candidates, capacity + 1), axis=0).astype(jnp.int32)


@seeds_last
def _select(self: FixedSave, state: FixedSaveState, words: jax.Array) -> FixedChoice:
    without_matrix: Any = state._replace(layer=None)  # type: ignore[arg-type]
    return kept(_choose(self.save, without_matrix, words))


@written_out
def _choose(self: Save, state: Any, words: jax.Array) -> FixedChoice:
    """From the ``state`` without its layer's matrix."""
    passing = None
    if on_accelerator():
        passing, active = _passing(self, state, _scale(self, state.number))
        state = _go_on(self, state, passing, active)
    q = _scale(self, state.number)
    largest = jnp.max(jnp.where(state.active, state.scaled_width2, 0), axis=0)
    certain = largest <= q * self.alpha**2  # line 7
    layer = jnp.where(certain, 0, state.number)
    lost = jnp.where(state.number > self.capacity, status.CAPACITY, 0)
    lost = jnp.where(jnp.isfinite(largest), lost, status.NONFINITE)
    width2 = state.scaled_width2 / q[None]
    choice = decide(self, state.active, width2, state.pred, state.beta, q, layer, words, lost)
    return FixedChoice(*choice, passing)


def _passing(self: Save, state: FixedSaveState, q: jax.Array) -> tuple[Passing, jax.Array]:
    """Lines 11-12: whether the layer, of scale ``q``, is passed, and the arms ``[N]`` that are active then."""
    number = state.number
    largest = jnp.max(jnp.where(state.active, state.scaled_width2, 0), axis=0)
    passed = (largest <= q * q) & (largest > q * self.alpha**2)
    best = jnp.max(jnp.where(state.active, state.pred, -jnp.inf), axis=0)
    least = best - 2 * jnp.sqrt(q) * state.beta
    active = _survivors(state, passed, least)
    following = jnp.where(passed, _next_layer(self, number, active, state.norm2), number)
    return Passing(passed, least, following), active


def _survivors(state: FixedSaveState, passed: jax.Array, least: jax.Array) -> jax.Array:
    return state.active & ((state.pred >= least[None]) | ~passed[None])


def _go_on(self: Save, state: FixedSaveState, passing: Passing, active: jax.Array) -> FixedSaveState:
    """The state in the next layer, where this one is passed."""
    passed, _, following = passing

    def move(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(passed.reshape(*(1,) * (old.ndim - passed.ndim), *passed.shape), new, old)

    return state._replace(
        number=following,
        layer=None if state.layer is None else jax.tree.map(move, _empty(self, following.shape), state.layer),
        beta=move(_initial_beta(self, following), state.beta),
        active=active,
        scaled_width2=move(state.norm2, state.scaled_width2),
        pred=move(jnp.zeros_like(state.pred), state.pred),
    )


@seeds_last
def _settled(self: FixedSave, state: FixedSaveState) -> FixedSaveState:
    return _go_on(self.save, state, *_passing(self.save, state, _scale(self.save, state.number)))


@seeds_last
def _update(
    self: FixedSave, state: FixedSaveState, choice: FixedChoice, x: jax.Array, reward: jax.Array
) -> FixedSaveState:
    save = self.save
    if choice.passing is not None:
        active = _survivors(state, choice.passing.passed, choice.passing.least)
        state = _go_on(save, state, choice.passing, active)
    learns, q = choice.layer > 0, _scale(save, state.number)
    layer, learned = ridge.learn(state.layer, jnp.where(learns, q, 0), x, reward, 1)
    along = ridge.inner(jnp.asarray(self.arms), learned.direction)
    beta = jnp.where(learns, layered.refreshed_radius(save, learned, state.round + 1), state.beta)
    here = ridge.is_layer(self.capacity, state.number)
    state = state._replace(
        layer=layer,
        beta=beta,
        scaled_width2=jnp.maximum(state.scaled_width2 - learned.gain[None] * along * along, 0),
        pred=state.pred + learned.step[None] * along,
        loss=_noted(here, layer.loss, state.loss),
        beta_hat=_noted(here, beta, state.beta_hat),
        round=state.round + 1,
        status=state.status | choice.status | layered.failure(learned),
    )
    return state if choice.passing is not None else _go_on(save, state, *_passing(save, state, q))


@written_out
def _noted(here: jax.Array, value: jax.Array, values: jax.Array) -> jax.Array:
    """``values [capacity]`` with ``value []`` in the layer that is ``here``."""
    return jnp.where(here, value[None], values)
