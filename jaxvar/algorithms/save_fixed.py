"""SAVE where the decision set never changes: the same choices from one layer at a time.

A layer is passed once every active arm's width is at most 2^-l. Only its own observations change a layer, and a
passed layer takes none: it is passed in every later round too, with the same arms surviving it. So a round can begin
where the last one ended, and only the current layer's inverse is needed, together with the widths and estimates of
all arms in it (O(N d) per round).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random, ridge, status
from jaxvar.algorithms import layered
from jaxvar.algorithms.interface import Choice, Confidence, Side
from jaxvar.algorithms.save import Save, decide
from jaxvar.batching import seeds_last
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

    def select(self, state: FixedSaveState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose in the current layer (lines 7-8 and 13-15); ``arms`` are those the algorithm was made for."""
        return _select(self, state, random.key_words(key))

    def update(
        self, state: FixedSaveState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side
    ) -> FixedSaveState:
        """Learn in the current layer (lines 17-18) and pass it if nothing in it is uncertain any more (lines 11-12)."""
        return _update(self, state, choice, x, reward)

    def confidence(self, state: FixedSaveState) -> Confidence:
        """The ellipsoids of all layers; those passed no longer change."""
        return Confidence(state.loss, jnp.asarray(ridge.scales(self.capacity, self.save.dtype)), state.beta_hat)


@seeds_last
def _init(self: FixedSave) -> FixedSaveState:
    save, arms = self.save, jnp.asarray(self.arms)
    seeds = arms.shape[2:]
    norm2 = jnp.sum(arms * arms, axis=1)
    active = jnp.ones(norm2.shape, bool)
    number = _next_layer(self, jnp.zeros(seeds, jnp.int32), active, norm2)
    root_q = np.sqrt(ridge.scales(save.capacity, save.dtype)).reshape(save.capacity, *(1,) * len(seeds))
    beta_hat = jnp.asarray(save.constants.initial_coef)[None] * root_q
    return FixedSaveState(
        number=number,
        layer=_empty(self, seeds),
        beta=_initial_beta(self, number),
        active=active,
        scaled_width2=norm2,
        pred=jnp.zeros_like(norm2),
        norm2=norm2,
        loss=jnp.zeros_like(beta_hat),
        beta_hat=beta_hat,
        round=jnp.zeros(seeds, jnp.int32),
        status=jnp.zeros(seeds, jnp.int32),
    )


def _empty(self: FixedSave, seeds: tuple[int, ...]) -> ridge.Layers:
    one = ridge.init_layers(self.save.dim, 1, 1, self.save.dtype)
    over = (None,) * len(seeds)
    return ridge.Layers(*(jnp.broadcast_to(v[0][(..., *over)], (*v.shape[1:], *seeds)) for v in one))


def _scale(self: FixedSave, number: jax.Array) -> jax.Array:
    """``4^-l``."""
    return jnp.exp2((-2 * number).astype(self.save.dtype))


def _initial_beta(self: FixedSave, number: jax.Array) -> jax.Array:
    return self.save.constants.initial_coef * jnp.exp2((-number).astype(self.save.dtype))


def _next_layer(self: FixedSave, number: jax.Array, active: jax.Array, norm2: jax.Array) -> jax.Array:
    """The lowest layer after ``number`` in which a round can end; ``capacity + 1`` where it is not stored.

    It is empty: its widths are ``2^l |a|``, and passing an empty layer drops no arm.
    """
    capacity = self.save.capacity
    largest = jnp.max(jnp.where(active, norm2, 0), axis=0)
    candidates = np.arange(1, capacity + 1, dtype=np.int32).reshape(capacity, *(1,) * number.ndim)
    q = ridge.scales(capacity, self.save.dtype).reshape(candidates.shape)
    ends = (largest[None] > q * q) | (largest[None] <= q * (self.save.alpha**2)[None])
    return jnp.min(jnp.where(ends & (candidates > number[None]), candidates, capacity + 1), axis=0).astype(jnp.int32)


@seeds_last
@written_out
def _select(self: FixedSave, state: FixedSaveState, words: jax.Array) -> Choice:
    q = _scale(self, state.number)
    largest = jnp.max(jnp.where(state.active, state.scaled_width2, 0), axis=0)
    certain = largest <= q * self.save.alpha**2  # line 7
    layer = jnp.where(certain, 0, state.number)
    lost = jnp.where(state.number > self.capacity, status.CAPACITY, 0)
    lost = jnp.where(jnp.isfinite(largest), lost, status.NONFINITE)
    width2 = state.scaled_width2 / q[None]
    return decide(self.save, state.active, width2, state.pred, state.beta, q, layer, words, lost)


@seeds_last
def _update(self: FixedSave, state: FixedSaveState, choice: Choice, x: jax.Array, reward: jax.Array) -> FixedSaveState:
    save, arms = self.save, jnp.asarray(self.arms)
    number, q = state.number, _scale(self, state.number)
    learns = choice.layer > 0
    layer, learned = ridge.learn(state.layer, jnp.where(learns, q, 0), x, reward, 1)
    along = ridge.inner(arms, learned.direction)
    scaled_width2 = jnp.maximum(state.scaled_width2 - learned.gain[None] * along * along, 0)
    pred = state.pred + learned.step[None] * along
    beta = jnp.where(learns, layered.refreshed_radius(save, learned, state.round + 1), state.beta)
    here = ridge.is_layer(self.capacity, number)

    # Lines 11-12, of the next round, which would find the same.
    largest = jnp.max(jnp.where(state.active, scaled_width2, 0), axis=0)
    passed = (largest <= q * q) & (largest > q * save.alpha**2)
    best = jnp.max(jnp.where(state.active, pred, -jnp.inf), axis=0)
    keep = pred >= (best - 2 * jnp.sqrt(q) * beta)[None]
    active = state.active & (keep | ~passed[None])
    following = jnp.where(passed, _next_layer(self, number, active, state.norm2), number)
    empty = _empty(self, number.shape)

    def move(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(passed.reshape(*(1,) * (old.ndim - passed.ndim), *passed.shape), new, old)

    return FixedSaveState(
        number=following,
        layer=jax.tree.map(move, empty, layer),
        beta=move(_initial_beta(self, following), beta),
        active=active,
        scaled_width2=move(state.norm2, scaled_width2),
        pred=move(jnp.zeros_like(pred), pred),
        norm2=state.norm2,
        loss=jnp.where(here, layer.loss[None], state.loss),
        beta_hat=jnp.where(here, beta[None], state.beta_hat),
        round=state.round + 1,
        status=state.status | choice.status | layered.failure(learned),
    )
