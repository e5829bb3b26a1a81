"""AVE-UCB: the one-decision form of UCRL-AVE, which the paper remarks on after its Algorithm 2."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import random, ridge, status
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.algorithms.noise_adaptive import Losan
from jaxvar.algorithms.save import LayeredAlgorithm, LayeredState
from jaxvar.claims import Claim
from jaxvar.lowering import each_used_layer, least_over_layers, take
from jaxvar.parameters import Number, factory, flag, number, pytree

CLAIM = Claim(
    "AVE-UCB",
    "Zhao, He, Zhou, Zhang, Gu 2023 (remark after Algorithm 2)",
    "d sqrt(sum sigma^2) + d",
    constants="derived again",
)


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
    intersect: bool = flag(
        default=False,
        doc="also keep one regression over all rounds, with LOSAN's radius, and cut the index at its upper bound. The "
        "layers then have half of delta, and it has the other half.",
    )

    @property
    def layer_delta(self) -> Number:
        """The failure probability of all layers together: half of delta where the regression has the other half."""
        return self.delta / 2 if self.intersect else self.delta

    @property
    def plain(self) -> Losan:
        """The regression over all rounds: theta* is in its ellipsoid with probability 1 - delta / 2."""
        arms, delta = self.fixed_arms, self.delta / 2
        return Losan(
            dim=self.dim, noise_bound=self.noise_bound, delta=delta, tie_tolerance=self.tie_tolerance, fixed_arms=arms
        )

    def init(self) -> LayeredState:
        """Return empty layers, and an empty regression where they are intersected with one."""
        return super().init()._replace(plain=self.plain.init() if self.intersect else None)

    def update(self, state: LayeredState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> LayeredState:
        """Learn in the chosen layer, and in the regression over all rounds if there is one."""
        new = super().update(state, choice, x, reward, side)
        if state.plain is None:
            return new
        weight = self.plain.weight(jnp.sqrt(ridge.width2(state.plain.regression.root, x)), side.noise_var)
        plain = self.plain.update(state.plain, choice._replace(weight=weight), x, reward, side)
        return new._replace(plain=plain, status=new.status | plain.status)

    def select(self, state: LayeredState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest index."""
        chex.assert_shape(arms, (None, self.dim))
        num_layers, stats = self.num_layers, self.stats(state, arms)
        norm2, is_used = jnp.sum(arms * arms, axis=1), state.layers.count > 0
        slope = state.beta_hat / np.sqrt(ridge.scales(self.capacity, self.dtype))  # of the index over a scaled width
        # A layer that has learned nothing bounds by its slope times |a|; those that are not stored are such layers too.
        is_empty = ~is_used & (np.arange(self.capacity, dtype=self.dtype) < num_layers)
        none = float(np.finfo(self.dtype).max)
        least = jnp.where(num_layers > self.capacity, self.constants.initial_coef, none)
        index = jnp.minimum(jnp.min(jnp.where(is_empty, slope, none), axis=0), least) * jnp.sqrt(norm2)
        if self.cap is not None:
            index = jnp.minimum(index, self.cap)
        index = least_over_layers(lambda upper: upper, index, is_used, stats.upper)
        if state.plain is not None:
            kept = state.plain.stats
            width2, pred = ridge.arm_stats(state.plain.regression, arms) if kept is None else kept
            index = jnp.minimum(index, pred + self.plain.beta(state.plain) * jnp.sqrt(width2))
        action = self.best(index, random.key_words(key), side.available)

        own = take(norm2, action)
        width2 = each_used_layer(lambda width2: take(width2, action), is_used, own, stats.width2)
        layer, weight = ridge.lowest_wide(width2, num_layers)
        # An empty layer l has width 2^l |a|: some l <= L is wide enough exactly if |a| >= 4^-L.
        deeper = (layer == 0) & (num_layers > self.capacity) & (jnp.sqrt(own) >= jnp.exp2(-2 * num_layers))
        finite = jnp.isfinite(jnp.max(side.present(index), axis=0))
        lost = jnp.where(deeper, status.CAPACITY, 0) | jnp.where(finite, 0, status.NONFINITE)
        return Choice(action, layer, weight, lost.astype(jnp.int32))

    def recommend(self, state: LayeredState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of ``arms [num_arms, dim]`` with the largest lower bound of any layer, [].

        Nothing is eliminated, so no layer knows all arms: one that is seldom pulled may have any estimate.
        """
        q, lower = ridge.scales(self.capacity, self.dtype), jnp.asarray(-jnp.inf, self.dtype)
        stats = self.stats(state, arms)
        for i in range(self.capacity):
            bound = stats.pred[i] - state.beta_hat[i] * jnp.sqrt(stats.width2[i] / q[i])
            lower = jnp.maximum(lower, jnp.where(i < self.num_layers, bound, -jnp.inf))
        return self.top(lower, side.mask(arms.shape[0]))


ave_ucb = factory(AveUcb)
