"""SAVE: SupLin + Adaptive Variance-aware Exploration (Algorithm 1 of Zhao et al. 2023).

Line numbers are the paper's own labels (``alg1:line:12`` is the elimination). Layers are numbered 1..L; arrays over
layers are 0-based.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
from jaxvar.pytrees import pytree, static
from jaxvar.written_out import written_out

CLAIM = Claim(
    name="SAVE",
    factory="save",
    reference="Zhao, He, Zhou, Zhang, Gu 2023",
    setting="bandit",
    regret="d sqrt(sum sigma^2) + d",
    deterministic="d",
    variance="estimated",
    efficient=True,
    constants="read",
    table=1,
)

EXPLORE = ("widest", "first", "random", "optimistic")


@pytree
class Save(layered.LayeredAlgorithm):
    """SAVE; built by :func:`save`."""

    explore: str = static()

    def with_fixed_arms(self, arms: jax.Array) -> Any:
        """The same algorithm for arms ``[num_arms, dim]`` that never change: one layer at a time, the same choices."""
        from jaxvar.algorithms.save_fixed import FixedSave

        chex.assert_shape(arms, (None, self.dim))
        return FixedSave(save=self, arms=arms)

    def select(self, state: layered.LayeredState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose an arm of ``arms [num_arms, dim]`` (lines 5-16)."""
        chex.assert_shape(arms, (None, self.dim))
        return _select(self, state, arms, random.key_words(key))


def save(
    dim: int,
    num_rounds: Any,
    *,
    noise_bound: Any = 1.0,
    delta: Any = 0.01,
    constants: presets.RadiusConstants | None = None,
    explore: str = "widest",
    ties: str = "random",
    tie_tolerance: Any = None,
    capacity: int | None = None,
) -> Save:
    r"""SAVE with the theorem's :math:`\alpha = 1/(R K^{3/2})`, :math:`L = \lceil\log_2 1/\alpha\rceil` and radius.

    In layer l, while no active arm has :math:`\|a\|_{\Sigma_l^{-1}} > 2^{-l}`, arms whose estimate is more than
    :math:`2 \cdot 2^{-l} \beta_l` below the best are dropped and the next layer is asked. An arm that is too
    uncertain is pulled, and layer l learns from it with weight :math:`w = 2^{-l} / \|a\|_{\Sigma_l^{-1}}`.

    Args:
      dim: d, the length of an arm.
      num_rounds: K, in alpha and the logarithms; the run itself may be shorter.
      noise_bound: R, with \|noise\| <= R.
      delta: failure probability.
      constants: of the radius; :func:`jaxvar.constants.paper` if not given.
      explore: which too-uncertain arm to pull (line 14 leaves it free): ``widest``, ``first``, ``random``, or
        ``optimistic`` (the largest upper confidence bound).
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.
      capacity: layers to store. Asking for a deeper one sets ``status.CAPACITY``; ``simulate`` reruns with more.

    Returns:
      The algorithm, a pytree.

    References:
      Zhao, He, Zhou, Zhang, Gu (2023), Variance-dependent regret bounds for linear bandits and reinforcement learning,
      Algorithm 1 and the regret theorem after it (label ``thm:regret1``).
    """
    shared = layered.parameters(dim, num_rounds, noise_bound, delta, constants, ties, tie_tolerance, capacity)
    return Save(**shared, explore=checks.choice("explore", explore, EXPLORE))


@seeds_last
def _select(self: Save, state: layered.LayeredState, arms: jax.Array, words: jax.Array) -> Choice:
    return kept(_choose(self, state.beta_hat, layered.views(state, arms), words))


@written_out
def _choose(self: Save, beta_hat: jax.Array, views: list[tuple[jax.Array, jax.Array]], words: jax.Array) -> Choice:
    """From ``a^T P a`` and ``<a, theta>`` of all arms, two ``[N]`` for each layer."""
    end = descend(self, beta_hat, views)
    return decide(self, end.active, end.width2, end.pred, end.beta, end.scale, end.layer, words, end.lost)


class End(NamedTuple):
    """Where a round ends: what is known in that layer."""

    active: jax.Array  # [N]   bool, the arms that survived all layers before
    width2: jax.Array  # [N]   squared widths
    pred: jax.Array  # [N]   estimates
    beta: jax.Array  # []   the radius
    scale: jax.Array  # []   4^-l
    number: jax.Array  # []   int32, l; 0 where it is not stored
    layer: jax.Array  # []   int32, l where the layer learns, 0 where every width is at most alpha
    lost: jax.Array  # []   int32, status bits


def descend(self: layered.LayeredAlgorithm, beta_hat: jax.Array, views: list[tuple[jax.Array, jax.Array]]) -> End:
    """Go down the layers, dropping arms, to the one where the round ends (Algorithm 1, lines 5-13)."""
    alpha = self.alpha
    q = ridge.scales(self.capacity, self.dtype)
    one = (1,) * (views[0][0].ndim - 1)  # trailing axes of the batch
    num_arms = views[0][0].shape[0]

    active = jnp.ones((num_arms, *one), bool)
    stopped = jnp.zeros(one, bool)
    # The layer in which the round ends, as seen from outside the loop.
    number = layer = jnp.zeros(one, jnp.int32)
    scale, beta = jnp.ones(one, self.dtype), jnp.zeros(one, self.dtype)
    width2 = pred = jnp.zeros((num_arms, *one), self.dtype)
    for i, (scaled_width2, estimate) in enumerate(views):
        largest = jnp.max(jnp.where(active, scaled_width2, 0), axis=0)
        if i == 0:
            finite = jnp.isfinite(largest)  # every arm is active here
        certain = largest <= q[i] * alpha**2  # line 7: every active width is at most alpha
        explores = ~certain & (largest > q[i] ** 2)  # line 13: some active width is above 2^-l

        ends = ~stopped & (certain | explores)
        width2 = jnp.where(ends[None], scaled_width2 / q[i], width2)
        pred = jnp.where(ends[None], estimate, pred)
        scale = jnp.where(ends, q[i], scale)
        beta = jnp.where(ends, beta_hat[i], beta)
        number = jnp.where(ends, i + 1, number)
        layer = jnp.where(ends & explores, i + 1, layer)
        stopped = stopped | ends

        # Line 12: keep what may still be the best.
        best = jnp.max(jnp.where(active, estimate, -jnp.inf), axis=0)
        keep = estimate >= (best - 2 * np.sqrt(q[i]) * beta_hat[i])[None]
        active = active & (keep | stopped[None])

    lost = jnp.where(finite, jnp.where(stopped, 0, status.CAPACITY), status.NONFINITE)
    return End(active, width2, pred, beta, scale, number, layer, lost)


def decide(
    self: Save,
    active: jax.Array,  # [N]
    width2: jax.Array,  # [N]   squared widths in the layer where the round ends
    pred: jax.Array,  # [N]   estimates there
    beta: jax.Array,  # []   its radius
    scale: jax.Array,  # []   4^-l
    layer: jax.Array,  # []   l, or 0 where every width is at most alpha
    words: jax.Array,
    lost: jax.Array,
) -> Choice:
    """Choose among the active arms of the layer where the round ends (lines 8 and 14-15)."""
    learns = layer > 0
    width = jnp.sqrt(width2)
    upper = pred + beta[None] * width
    allowed = active & (~learns[None] | (width2 > scale[None]))  # |a| > 2^-l in the norm of Sigma^-1
    if self.explore == "optimistic":
        action = tie_rules.pick(tie_rules.best(upper, allowed, self.tie_tolerance), words, self.ties)
    elif self.explore == "widest":
        value = jnp.where(learns[None], width, upper)
        action = tie_rules.pick(tie_rules.best(value, allowed, self.tie_tolerance), words, self.ties)
    else:
        exploit = tie_rules.pick(tie_rules.best(upper, allowed, self.tie_tolerance), words, self.ties)
        explore = tie_rules.pick(allowed, words, "lowest" if self.explore == "first" else "random")
        action = jnp.where(learns, explore, exploit)
    weight = jnp.where(learns, jnp.sqrt(scale) / tie_rules.take(width, action), 0)  # line 15
    return Choice(action, layer, weight, lost.astype(jnp.int32))
