"""Layered algorithms: all of SAVE and its kin but the choice of an arm; and AVE-UCB.

Line numbers are the paper's own labels of Algorithm 1 (Zhao et al. 2023). Layers are numbered 1..L; arrays over layers
are 0-based.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import constants as presets
from jaxvar import parameters, random, ridge, status
from jaxvar.algorithms.bandit import FixedArms
from jaxvar.algorithms.interface import Choice, Confidence, Number, Side, by_rule
from jaxvar.claims import Claim
from jaxvar.lowering import is_layer, take
from jaxvar.parameters import count, factory, number, part, pytree

CLAIMS = {
    "ave_ucb": Claim(
        "AVE-UCB",
        "Zhao, He, Zhou, Zhang, Gu 2023 (remark after Algorithm 2)",
        "d sqrt(sum sigma^2) + d",
        constants="derived again",
    ),
}


class LayeredState(NamedTuple):
    """State of a layered algorithm for one seed."""

    layers: ridge.Layers
    beta_hat: jax.Array  # [capacity]
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    stats: ridge.LayerStats | None  # [capacity, N] each, only for fixed arms


@pytree
class LayeredAlgorithm(FixedArms):
    """Base of the layered algorithms: all of them but the choice of an arm; the ridge is 1, as in Algorithm 1."""

    num_rounds: Number = number(
        at_least=1, kw_only=False, doc="K, in alpha and the logarithms; the run itself may be shorter."
    )
    alpha: Number = by_rule(
        lambda self: 1 / (self.noise_bound * self.num_rounds**1.5),
        "the width at which an arm is known well enough; the theorem's 1 / (R K^{3/2}) if not given.",
    )
    constants: presets.RadiusConstants = part(
        presets.for_bandits, default=None, doc="of the radius; :func:`jaxvar.constants.paper` if not given."
    )
    capacity: int = count(
        high=ridge.MAX_LAYERS,
        default=None,
        rule=lambda self: ridge.choose_capacity(self.dim, self.num_rounds, self.alpha),
        doc="layers to store. Asking for a deeper one sets ``status.CAPACITY``; ``simulate``, ``run`` and ``trace`` "
        "then play again with more.",
    )

    @property
    def num_layers(self) -> jax.Array:
        """``L = ceil(log2(1 / alpha))``, at least 1: the L inside the logarithms."""
        return ridge.layer_count(jnp.asarray(self.alpha))

    def init(self) -> LayeredState:
        """Return empty layers (lines 1-2)."""
        layers = ridge.init_layers(self.dim, self.capacity, 1, self.dtype)
        stats = None
        if self.fixed_arms is not None:
            stats = ridge.LayerStats(*map(jnp.stack, zip(*ridge.layer_stats(layers, self.fixed_arms), strict=True)))
        beta_hat = ridge.initial_radius(self.constants, self.capacity, self.dtype)
        return LayeredState(layers, beta_hat, jnp.int32(0), jnp.int32(0), stats)

    def update(self, state: LayeredState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> LayeredState:
        """Learn in the chosen layer, and in no other (lines 17-18)."""
        chex.assert_shape(x, (self.dim,))
        layers, update = ridge.observe(state.layers, choice.layer, x, reward, 1)
        here = is_layer(self.capacity, choice.layer)
        beta = self.refreshed_radius(update, state.round + 1)
        stats = state.stats
        if stats is not None and self.fixed_arms is not None:
            stats = ridge.follow_layer(stats, choice.layer, update, self.fixed_arms)
        return LayeredState(
            layers=layers,
            beta_hat=jnp.where(here, beta, state.beta_hat),
            round=state.round + 1,
            status=state.status | choice.status | ridge.layer_failure(update, beta),
            stats=stats,
        )

    def refreshed_radius(self, update: ridge.LayerUpdate, round: jax.Array) -> jax.Array:
        """Return the radius of the layer that learned in ``round`` (line 18), []."""
        k = round.astype(self.dtype)
        log_factor = jnp.log(4 * self.num_layers / self.delta)
        log0 = log_factor + 2 * jnp.log(k)  # log(4 k^2 L / delta)
        log1 = log_factor + 2 * jnp.log(k + self.constants.log_shift)
        num = update.num.astype(self.dtype)
        sums = (update.scale, update.variance_sum, update.weight_sum, num)
        return ridge.radius(*sums, self.constants, self.noise_bound, log0, log1)

    def stats(self, state: LayeredState, arms: jax.Array) -> list[ridge.LayerStats]:
        """Return widths and estimates of all arms in every layer; those of fixed arms are kept."""
        if state.stats is None:
            return ridge.layer_stats(state.layers, arms)
        return [ridge.LayerStats(*(v[i] for v in state.stats)) for i in range(self.capacity)]

    def confidence(self, state: LayeredState) -> Confidence:
        """Return the ellipsoids of all stored layers."""
        return Confidence(state.layers.loss, jnp.asarray(ridge.scales(self.capacity, self.dtype)), state.beta_hat)

    def grow(self) -> Self:
        """Return the same algorithm with more layers stored."""
        return parameters.replace(self, capacity=min(self.capacity + 4, ridge.MAX_LAYERS))


@pytree
class AveUcb(LayeredAlgorithm):
    r"""AVE-UCB: pull :math:`\arg\max_a \min_l \langle a, \hat\theta_l\rangle + \beta_l \|a\|_{\Sigma_l^{-1}}`.

    The one-decision form of UCRL-AVE: the layers, weights and radii of SAVE, but no elimination.
    The pulled arm is learned from in the lowest layer l with :math:`\|a\|_{\Sigma_l^{-1}} \ge 2^{-l}`, with weight
    :math:`2^{-l} / \|a\|_{\Sigma_l^{-1}}`; where there is none, nothing is learned. A layer that has learned nothing
    has the index :math:`2 \|a\|_2`. With the printed constants every index is 2 for a long time, and ``ties="lowest"``
    then never leaves the first arm.

    References:
      Zhao, He, Zhou, Zhang, Gu (2023), remark after Algorithm 2; the bandit form is written out here.
    """

    cap: Number | None = number(
        above=0, default=None, doc="a bound on the mean reward at which the index is cut, if given."
    )

    def select(self, state: LayeredState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest index."""
        chex.assert_shape(arms, (None, self.dim))
        q, num_layers = ridge.scales(self.capacity, self.dtype), self.num_layers
        norm2 = jnp.sum(arms * arms, axis=1)
        # Layers that are not stored have learned nothing; their common index counts where there are any.
        index = self.constants.initial_coef * jnp.sqrt(norm2)
        index = jnp.where(num_layers > self.capacity, index, jnp.inf)
        if self.cap is not None:
            index = jnp.minimum(index, self.cap)
        scaled_widths = []
        for i, (_, width, pred) in enumerate(self.stats(state, arms)):  # 2^-l |a| in the norm of Sigma^-1
            scaled_widths.append(width)
            upper = pred + state.beta_hat[i] / np.sqrt(q[i]) * width
            index = jnp.minimum(index, jnp.where(i < num_layers, upper, jnp.inf))
        action = self.best(index, random.key_words(key))

        layer, weight = jnp.zeros_like(action), jnp.zeros((), self.dtype)
        for i in reversed(range(self.capacity)):  # the lowest layer comes last and wins
            scaled_width = take(scaled_widths[i], action)
            wide = (scaled_width >= q[i]) & (i < num_layers)
            layer = jnp.where(wide, i + 1, layer)
            weight = jnp.where(wide, q[i] / scaled_width, weight)
        # An empty layer l has width 2^l |a|: some l <= L is wide enough exactly if |a| >= 4^-L.
        deeper = (layer == 0) & (num_layers > self.capacity) & (jnp.sqrt(take(norm2, action)) >= 4.0**-num_layers)
        finite = jnp.isfinite(jnp.max(index, axis=0))
        lost = jnp.where(deeper, status.CAPACITY, 0) | jnp.where(finite, 0, status.NONFINITE)
        return Choice(action, layer, weight, lost.astype(jnp.int32))


ave_ucb = factory(AveUcb)
