"""AVE-UCB: the one-decision form of UCRL-AVE, which the paper remarks on after its Algorithm 2.

The same layers, weights and radii as SAVE, but no elimination: the index of an arm is its least upper confidence bound
over all layers, and the pulled arm is learned from in the lowest layer where its width is at least 2^-l.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import checks, random, ridge, status
from jaxvar import constants as presets
from jaxvar import ties as tie_rules
from jaxvar.algorithms import layered
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.batching import kept, seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import leaf, pytree
from jaxvar.written_out import written_out

CLAIM = Claim(
    name="AVE-UCB",
    factory="ave_ucb",
    reference="Zhao, He, Zhou, Zhang, Gu 2023 (remark after Algorithm 2)",
    setting="bandit",
    regret="d sqrt(sum sigma^2) + d",
    deterministic="d",
    variance="estimated",
    efficient=True,
    constants="derived again",
)


@pytree
class AveUcb(layered.LayeredAlgorithm):
    """AVE-UCB; built by :func:`ave_ucb`."""

    cap: Any = None  # largest possible mean reward

    def select(self, state: layered.LayeredState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose the arm of ``arms [num_arms, dim]`` with the largest index."""
        chex.assert_shape(arms, (None, self.dim))
        return _select(self, state, arms, random.key_words(key))


def ave_ucb(
    dim: int,
    num_rounds: Any,
    *,
    noise_bound: Any = 1.0,
    delta: Any = 0.01,
    constants: presets.RadiusConstants | None = None,
    cap: Any = None,
    ties: str = "random",
    tie_tolerance: Any = None,
    capacity: int | None = None,
) -> AveUcb:
    r"""AVE-UCB: pull :math:`\arg\max_a \min_l \langle a, \hat\theta_l\rangle + \beta_l \|a\|_{\Sigma_l^{-1}}`.

    The pulled arm is learned from in the lowest layer l with :math:`\|a\|_{\Sigma_l^{-1}} \ge 2^{-l}`, with weight
    :math:`2^{-l} / \|a\|_{\Sigma_l^{-1}}`; where there is none, nothing is learned. A layer that has learned nothing
    has the index :math:`2 \|a\|_2`.

    Args:
      dim: d, the length of an arm.
      num_rounds: K, in alpha and the logarithms; the run itself may be shorter.
      noise_bound: R, with \|noise\| <= R.
      delta: failure probability.
      constants: of the radius; :func:`jaxvar.constants.paper` if not given.
      cap: a bound on the mean reward at which the index is cut, if given.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best. With the printed constants
        every index is 2 for a long time, and ``lowest`` then never leaves the first arm.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.
      capacity: layers to store. Asking for a deeper one sets ``status.CAPACITY``; ``simulate`` reruns with more.

    Returns:
      The algorithm, a pytree.

    References:
      Zhao, He, Zhou, Zhang, Gu (2023), remark after Algorithm 2; the bandit form is written out here.
    """
    shared = layered.parameters(dim, num_rounds, noise_bound, delta, constants, ties, tie_tolerance, capacity)
    return AveUcb(**shared, cap=None if cap is None else leaf(checks.parameter("cap", cap)))


@seeds_last
def _select(self: AveUcb, state: layered.LayeredState, arms: jax.Array, words: jax.Array) -> Choice:
    norm2 = jnp.sum(arms * arms, axis=1)
    numbers = dataclasses.replace(self, fixed_arms=None)
    return kept(_choose(numbers, state.beta_hat, _views(state, arms), norm2, words))


@written_out
def _choose(
    self: AveUcb,
    beta_hat: jax.Array,
    views: list[tuple[jax.Array, jax.Array]],
    norm2: jax.Array,
    words: jax.Array,
) -> Choice:
    """From ``sqrt(a^T P a)`` and ``<a, theta>`` of all arms, two ``[N]`` for each layer, and their ``|a|^2 [N]``."""
    q = ridge.scales(self.capacity, self.dtype)
    num_layers = self.num_layers
    # Layers that are not stored have learned nothing; their common index counts where there are any.
    index = self.constants.initial_coef[None] * jnp.sqrt(norm2)
    index = jnp.where((num_layers > self.capacity)[None], index, jnp.inf)
    if self.cap is not None:
        index = jnp.minimum(index, self.cap[None])
    scaled_widths = []
    for i, (scaled_width, pred) in enumerate(views):  # 2^-l |a| in the norm of Sigma^-1
        upper = pred + (beta_hat[i] / np.sqrt(q[i]))[None] * scaled_width
        index = jnp.minimum(index, jnp.where((i < num_layers)[None], upper, jnp.inf))
        scaled_widths.append(scaled_width)
    allowed = jnp.ones(index.shape, bool)
    action = tie_rules.pick(tie_rules.best(index, allowed, self.tie_tolerance), words, self.ties)

    layer, weight = jnp.zeros_like(action), jnp.zeros(action.shape, self.dtype)
    for i in reversed(range(self.capacity)):  # the lowest layer comes last and wins
        scaled_width = tie_rules.take(scaled_widths[i], action)
        wide = (scaled_width >= q[i]) & (i < num_layers)
        layer = jnp.where(wide, i + 1, layer)
        weight = jnp.where(wide, q[i] / scaled_width, weight)
    learns = layer > 0
    # An empty layer l has width 2^l |a|: some l <= L is wide enough exactly if |a| >= 4^-L.
    deeper = ~learns & (num_layers > self.capacity) & (jnp.sqrt(tie_rules.take(norm2, action)) >= 4.0**-num_layers)
    lost = jnp.where(deeper, status.CAPACITY, 0) | jnp.where(jnp.isfinite(jnp.max(index, axis=0)), 0, status.NONFINITE)
    return Choice(action, layer, weight, lost.astype(jnp.int32))


def _views(state: layered.LayeredState, arms: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
    """``sqrt(a^T P a)`` and ``<a, theta_hat>`` of every arm, two ``[N]`` for each layer."""
    if state.cache is None:
        return [(jnp.sqrt(scaled_width2), pred) for scaled_width2, pred in ridge.measure(state.layers, arms)]
    return [(state.cache.scaled_width[i], state.cache.pred[i]) for i in range(state.cache.pred.shape[0])]
