"""SAVE where the decision set never changes: the same choices from one layer at a time.

A layer is passed once every active arm's width is at most 2^-l. Only its own observations change a layer, and a
passed layer takes none: it is passed in every later round too, with the same arms surviving it. So a round begins
where the last one ended, and only the current layer's inverse is needed, together with the widths and estimates of
all arms in it (O(N d) per round). Whether a layer is passed is decided at the end of the round in which it learned.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random, ridge, status
from jaxvar.algorithms.interface import Choice, Confidence, Side
from jaxvar.algorithms.save import End, Save
from jaxvar.lowering import is_layer
from jaxvar.parameters import pytree


class FixedSaveState(NamedTuple):
    """State of SAVE with fixed arms for one seed."""

    number: jax.Array  # []   int32, the layer l in which the next round ends
    layer: ridge.Layers  # that layer alone, no leading axis
    beta: jax.Array  # []   its radius
    active: jax.Array  # [num_arms]   bool, the arms that survived all layers before
    stats: ridge.ArmStats  # [num_arms] each, a^T P a and <a, theta_hat> in the layer
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
        """Return the lowest layer that has something to learn, empty."""
        save, arms = self.save, jnp.asarray(self.arms)
        norm2 = jnp.sum(arms * arms, axis=1)
        active = jnp.ones(norm2.shape, bool)
        number = self._next_layer(jnp.int32(0), active, norm2)
        beta_hat = ridge.initial_radius(save.constants, save.capacity, save.dtype)
        return FixedSaveState(
            number=number,
            layer=self._empty(),
            beta=self._initial_beta(number),
            active=active,
            stats=ridge.ArmStats(norm2, jnp.zeros_like(norm2)),
            norm2=norm2,
            loss=jnp.zeros_like(beta_hat),
            beta_hat=beta_hat,
            round=jnp.int32(0),
            status=jnp.int32(0),
        )

    def select(self, state: FixedSaveState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose in the current layer (lines 7-8 and 13-15); ``arms`` are those the algorithm was made for."""
        q = self._scale(state.number)
        largest = jnp.max(jnp.where(state.active, state.stats.width2, 0), axis=0)
        certain = largest <= q * self.save.alpha**2  # line 7
        layer = jnp.where(certain, 0, state.number)
        lost = jnp.where(state.number > self.capacity, status.CAPACITY, 0)
        lost = jnp.where(jnp.isfinite(largest), lost, status.NONFINITE)
        width2, pred = state.stats.width2 / q, state.stats.pred
        end = End(state.active, width2, pred, state.beta, q, state.number, layer, lost)
        return self.save.decide(end, random.key_words(key))

    def update(
        self, state: FixedSaveState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side
    ) -> FixedSaveState:
        """Learn in the current layer (lines 17-18) and pass it if nothing in it is uncertain any more (lines 11-12)."""
        learns, q = choice.layer > 0, self._scale(state.number)
        layer, update = ridge.learn(state.layer, jnp.where(learns, q, 0), x, reward, 1)
        stats = ridge.follow(state.stats, update, jnp.asarray(self.arms))
        beta = jnp.where(learns, self.save.refreshed_radius(update, state.round + 1), state.beta)
        here = is_layer(self.capacity, state.number)
        loss, beta_hat = jnp.where(here, layer.loss, state.loss), jnp.where(here, beta, state.beta_hat)
        bits = state.status | choice.status | ridge.layer_failure(update, beta)

        largest = jnp.max(jnp.where(state.active, stats.width2, 0), axis=0)
        passed = (largest <= q * q) & (largest > q * self.save.alpha**2)
        best = jnp.max(jnp.where(state.active, stats.pred, -jnp.inf), axis=0)
        active = state.active & ((stats.pred >= best - 2 * jnp.sqrt(q) * beta) | ~passed)  # line 12
        number = jnp.where(passed, self._next_layer(state.number, active, state.norm2), state.number)

        def moved(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(passed, a, b), new, old)

        return FixedSaveState(
            number=number,
            layer=moved(self._empty(), layer),
            beta=moved(self._initial_beta(number), beta),
            active=active,
            stats=moved(ridge.ArmStats(state.norm2, jnp.zeros_like(stats.pred)), stats),
            norm2=state.norm2,
            loss=loss,
            beta_hat=beta_hat,
            round=state.round + 1,
            status=bits,
        )

    def confidence(self, state: FixedSaveState) -> Confidence:
        """Return the ellipsoids of all layers; those passed no longer change."""
        return Confidence(state.loss, jnp.asarray(ridge.scales(self.capacity, self.save.dtype)), state.beta_hat)

    def _empty(self) -> ridge.Layers:
        one = ridge.init_layers(self.save.dim, 1, 1, self.save.dtype)
        return ridge.Layers(*(v[0] for v in one))

    def _scale(self, number: jax.Array) -> jax.Array:
        """``4^-l``."""
        return jnp.exp2((-2 * number).astype(self.save.dtype))

    def _initial_beta(self, number: jax.Array) -> jax.Array:
        return self.save.constants.initial_coef * jnp.exp2((-number).astype(self.save.dtype))

    def _next_layer(self, number: jax.Array, active: jax.Array, norm2: jax.Array) -> jax.Array:
        """The lowest layer after ``number`` in which a round can end; ``capacity + 1`` where it is not stored.

        It is empty: its widths are ``2^l |a|``, and passing an empty layer drops no arm.
        """
        largest = jnp.max(jnp.where(active, norm2, 0), axis=0)
        candidates = np.arange(1, self.capacity + 1, dtype=np.int32)
        q = ridge.scales(self.capacity, self.save.dtype)
        ends = (largest > q * q) | (largest <= q * self.save.alpha**2)
        later = jnp.where(ends & (candidates > number), candidates, self.capacity + 1)
        return jnp.min(later, axis=0).astype(jnp.int32)
