"""SAVE: SupLin + Adaptive Variance-aware Exploration (Algorithm 1 of Zhao et al. 2023), and what its kin share with it.

Line numbers are the paper's own labels (``alg1:line:12`` is the elimination). Layers are numbered 1..L; arrays over
layers are 0-based.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self, TypeVar

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import constants as presets
from jaxvar import parameters, random, ridge, sharp, status
from jaxvar.algorithms import bandit
from jaxvar.algorithms.bandit import Eliminating, FixedArms, declare_capacity
from jaxvar.algorithms.ellipsoid import EllipsoidState
from jaxvar.algorithms.interface import Choice, Confidence, Side, by_rule
from jaxvar.claims import Claim
from jaxvar.lowering import computed_once, down_layers, is_layer, take, where_any
from jaxvar.parameters import Number, factory, number, part, pytree
from jaxvar.sums import Sum, empty_sum

CLAIM = Claim("SAVE", "Zhao, He, Zhou, Zhang, Gu 2023", "d sqrt(sum sigma^2) + d", constants="read", row=7)

T = TypeVar("T")


class LayeredState(NamedTuple):
    """State of a layered algorithm for one seed."""

    layers: ridge.Layers
    beta_hat: jax.Array  # [capacity]
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    stats: ridge.LayerStats | None  # [capacity, N] each, only for fixed arms
    plain: EllipsoidState | None = None  # of one regression over all rounds, only where it is intersected with


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
    capacity: int = declare_capacity()

    @property
    def num_layers(self) -> jax.Array:
        """``L = ceil(log2(1 / alpha))``, at least 1: the L inside the logarithms."""
        return ridge.layer_count(jnp.asarray(self.alpha))

    @property
    def layer_delta(self) -> Number:
        """The failure probability of all layers together."""
        return self.delta

    def init(self) -> LayeredState:
        """Return empty layers (lines 1-2)."""
        layers = ridge.init_layers(self.dim, self.capacity, 1, self.dtype)
        beta_hat, stats = ridge.initial_radius(self.constants, self.capacity, self.dtype), None
        if self.fixed_arms is not None:
            stats = ridge.layer_stats(layers, self.fixed_arms, beta_hat)
        return LayeredState(layers, beta_hat, jnp.int32(0), jnp.int32(0), stats)

    def update(self, state: LayeredState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> LayeredState:
        """Learn in the chosen layer, and in no other (lines 17-18)."""
        chex.assert_shape(x, (self.dim,))
        layers, update = ridge.observe(state.layers, choice.layer, x, reward)
        here = is_layer(self.capacity, choice.layer)
        beta = self.refreshed_radius(update, state.round + 1)
        stats = state.stats
        if stats is not None and self.fixed_arms is not None:
            stats = ridge.follow_layer(stats, layers, choice.layer, update, self.fixed_arms, beta, state.round + 1)
        return LayeredState(
            layers=layers,
            beta_hat=jnp.where(here, beta, state.beta_hat),
            round=state.round + 1,
            status=state.status | choice.status | ridge.layer_failure(update, beta),
            stats=stats,
        )

    def refreshed_radius(self, update: ridge.LayerUpdate, round: jax.Array) -> jax.Array:
        """Return the radius of the layer that learned in ``round`` (line 18), []."""
        if self.constants.form == "sharp":
            noise = (self.noise_bound, self.noise_bound)  # noise in [-R, R] is R-sub-Gaussian
            return sharp.radius(update.scale, update.loss, self.constants, self.layer_delta, *noise)
        k = round.astype(self.dtype)
        log_factor = jnp.log(4 * self.num_layers / self.layer_delta)
        log0 = log_factor + 2 * jnp.log(k)  # log(4 k^2 L / delta)
        log1 = log_factor + 2 * jnp.log(k + self.constants.log_shift)
        num = update.num.astype(self.dtype)
        sums = (update.scale, update.variance_sum, update.weight_sum, num)
        return ridge.radius(*sums, self.constants, self.noise_bound, log0, log1)

    def stats(self, state: LayeredState, arms: jax.Array) -> ridge.LayerStats:
        """Return what every layer knows of all arms, [capacity, N] each; of fixed arms it is kept."""
        return ridge.layer_stats(state.layers, arms, state.beta_hat) if state.stats is None else state.stats

    def recommend(self, state: LayeredState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of ``arms [num_arms, dim]`` with the largest estimate of the deepest layer that is done, [].

        A layer is done where it was passed, or where it knows every active arm up to alpha: there it has the best bound
        on the error of all arms that survived. The layer after it may have learned from one arm only. While no layer is
        done, the estimate is that of the layer in which the round ends.
        """
        end = descend(self, state, arms, side)
        return self.top(end.done, end.active)

    def confidence(self, state: LayeredState) -> Confidence:
        """Return the ellipsoids of all stored layers."""
        (loss, lost), ridges = state.layers.losses, jnp.asarray(ridge.scales(self.capacity, self.dtype))
        return Confidence(loss, ridges, state.beta_hat, lost)

    def grow(self) -> Self:
        """Return the same algorithm with more layers stored."""
        return parameters.replace(self, capacity=min(self.capacity + 4, ridge.MAX_LAYERS))


class End(NamedTuple):
    """The layer in which a round ends, and the arms as seen from it."""

    active: jax.Array  # [N]   bool, the arms that survived all layers before
    width2: jax.Array  # [N]   squared widths, times 4^-l
    largest: jax.Array  # []   of the active arms
    pred: jax.Array  # [N]   estimates
    done: jax.Array  # [N]   estimates of the deepest layer that is done, see `recommend`; else those of this one
    beta: jax.Array  # []   the radius
    scale: jax.Array  # []   4^-l
    number: jax.Array  # []   int32, l; 0 where it is not stored
    layer: jax.Array  # []   int32, l where the layer learns, 0 where every width is at most alpha
    lost: jax.Array  # []   int32, status bits

    @property
    def allowed(self) -> jax.Array:
        """The arms to choose among: of the active ones, where the layer learns, those with ``|a| > 2^-l``, bool [N]."""
        return self.active & ((self.layer == 0) | (self.width2 > self.scale**2))

    def weight(self, action: jax.Array) -> jax.Array:
        """Return ``2^-l / |a|`` of the chosen arm (line 15), []; 0 where the layer does not learn."""
        return jnp.where(self.layer > 0, self.scale / jnp.sqrt(take(self.width2, action)), 0)


@pytree
class Save(Eliminating, LayeredAlgorithm):
    r"""SAVE: eliminate arms layer by layer, and learn from those that are still too uncertain.

    In layer l, while no active arm has :math:`\|a\|_{\Sigma_l^{-1}} > 2^{-l}`, arms whose estimate is more than
    :math:`2 \cdot 2^{-l} \beta_l` below the best are dropped and the next layer is asked. An arm that is too
    uncertain is pulled, and layer l learns from it with weight :math:`w = 2^{-l} / \|a\|_{\Sigma_l^{-1}}`. The
    theorem has :math:`\alpha = 1/(R K^{3/2})`, :math:`L = \lceil\log_2 1/\alpha\rceil` and the radius of
    :mod:`jaxvar.constants`.

    References:
      Zhao, He, Zhou, Zhang, Gu (2023), Variance-dependent regret bounds for linear bandits and reinforcement learning,
      Algorithm 1, its radius (label ``eq:def:beta``) and the theorem after it (``thm:regret1``).
    """

    def with_fixed_arms(self, arms: jax.Array, masked: bool = False) -> Any:
        """Return the same algorithm for arms ``[num_arms, dim]`` that never change: one layer at a time.

        With ``masked`` arms may be absent in some rounds. A round may then end in any layer, so all are kept.
        """
        chex.assert_shape(arms, (None, self.dim))
        if masked:
            return super().with_fixed_arms(arms, masked)
        return FixedSave(save=self, arms=arms)

    def select(self, state: LayeredState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose an arm of ``arms [num_arms, dim]`` (lines 5-16)."""
        chex.assert_shape(arms, (None, self.dim))
        return self.decide(descend(self, state, arms, side), random.key_words(key))

    def decide(self, end: End, words: jax.Array) -> Choice:
        """Choose among the active arms of the layer where the round ends (lines 8 and 14-15)."""
        q, width2 = end.scale, end.width2
        widest = bandit.widest(width2, end.largest, q, self.tie_tolerance, self.unit)

        def upper() -> jax.Array:
            return end.pred + end.beta * jnp.sqrt(width2 * (1 / q))

        action = self.explore_or_best(end.layer > 0, widest, upper, end.allowed, words)
        return Choice(action, end.layer, end.weight(action), end.lost.astype(jnp.int32))


save = factory(Save)


class Descent(NamedTuple):
    """What is known on the way down the layers."""

    stopped: jax.Array  # []   bool, whether the round has ended
    finite: jax.Array  # []   bool
    any_done: jax.Array  # []   bool, whether a layer was done, see `recommend`
    end: End


def descend(self: LayeredAlgorithm, state: LayeredState, arms: jax.Array, side: Side) -> End:
    """Go down the layers, dropping arms, to the one where the round ends (lines 5-13)."""
    num_arms, capacity = arms.shape[0], self.capacity

    def look(stats: ridge.ArmStats | ridge.Layers) -> ridge.ArmStats:
        if isinstance(stats, ridge.ArmStats):
            return stats
        width2, pred = ridge.arm_stats(stats, arms)
        return ridge.ArmStats(computed_once(width2), pred)

    def enter(
        before: Descent, stats: ridge.ArmStats, number: jax.Array, q: jax.Array, beta: jax.Array, num: jax.Array
    ) -> Descent:
        (stopped, finite, any_done, end), (width2, estimate) = before, stats
        largest = jnp.max(jnp.where(end.active, width2, 0), axis=0)
        certain = largest <= q * self.alpha**2  # line 7: every active width is at most alpha
        explores = ~certain & (largest > q**2)  # line 13: some active width is above 2^-l

        ends = ~stopped & (certain | explores)
        here = ~stopped & ~explores & (num > 0)
        # Line 12: keep what may still be the best.
        best = jnp.max(jnp.where(end.active, estimate, -jnp.inf), axis=0)
        keep = estimate >= best - 2 * jnp.sqrt(q) * beta
        end = End(
            active=end.active & (keep | stopped | ends),
            width2=jnp.where(ends, width2, end.width2),
            largest=jnp.where(ends, largest, end.largest),
            pred=jnp.where(ends, estimate, end.pred),
            done=jnp.where(here | (ends & ~any_done), estimate, end.done),
            beta=jnp.where(ends, beta, end.beta),
            scale=jnp.where(ends, q, end.scale),
            number=jnp.where(ends, number, end.number),
            layer=jnp.where(ends & explores, number, end.layer),
            lost=end.lost,
        )
        return Descent(stopped | ends, finite & (stopped | jnp.isfinite(largest)), any_done | here, end)

    active = jnp.ones(num_arms, bool) if side.available is None else side.available
    none, zero, no = jnp.zeros(num_arms, self.dtype), jnp.int32(0), jnp.zeros((), bool)
    start = End(active, none, none[0], none, none, none[0], jnp.ones((), self.dtype), zero, zero, zero)
    stats = state.layers if state.stats is None else ridge.ArmStats(state.stats.width2, state.stats.pred)
    numbers = np.arange(1, capacity + 1, dtype=np.int32)
    stopped, finite, _, end = down_layers(
        look,
        enter,
        Descent(no, ~no, no, start),
        lambda now: now.stopped,
        stats,
        numbers,
        ridge.scales(capacity, self.dtype),
        state.beta_hat,
        state.layers.count,
    )
    lost = jnp.where(finite, jnp.where(stopped, 0, status.CAPACITY), status.NONFINITE)
    return end._replace(lost=lost.astype(jnp.int32))


# SAVE where the decision set never changes: the same choices from one layer at a time. A layer is passed once every
# active arm's width is at most 2^-l. Only its own observations change a layer, and a passed layer takes none: it is
# passed in every later round too, with the same arms surviving it. So a round begins where the last one ended, and only
# the current layer's inverse is needed, together with the widths and estimates of all arms in it (O(N d) per round).
# Whether a layer is passed is decided at the end of the round in which it learned.


class FixedSaveState(NamedTuple):
    """State of SAVE with fixed arms for one seed."""

    number: jax.Array  # []   int32, the layer l in which the next round ends
    layer: ridge.Layers  # that layer alone, no leading axis; its scale is q = 4^-l
    beta: jax.Array  # []   its radius
    active: jax.Array  # [num_arms]   bool, the arms that survived all layers before
    stats: ridge.ArmStats  # [num_arms] each, a^T P a and <a, theta_hat> in the layer
    norm2: jax.Array  # [num_arms]   |a|^2
    largest: jax.Array  # []   the largest a^T P a of an active arm
    losses: Sum  # [capacity]   of every layer when it last learned
    beta_hat: jax.Array  # [capacity]   likewise
    leader: jax.Array  # []   int32, the arm of the largest estimate in the layer passed last; -1 before there is one
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32

    @property
    def loss(self) -> jax.Array:
        """The least regularised loss of every layer when it last learned, [capacity]."""
        return self.losses.total


@pytree
class FixedSave:
    """SAVE for given arms; built by ``Save.with_fixed_arms``."""

    save: Save
    arms: jax.Array  # [num_arms, dim]

    @property
    def capacity(self) -> int:
        """Layers whose losses and radii are kept."""
        return self.save.capacity

    def init(self) -> FixedSaveState:
        """Return the lowest layer that has something to learn, empty."""
        save, arms = self.save, jnp.asarray(self.arms)
        norm2 = jnp.sum(arms * arms, axis=1)
        largest = jnp.max(norm2, axis=0)
        number, scale = self._next_layer(jnp.int32(0), largest)
        beta_hat = ridge.initial_radius(save.constants, save.capacity, save.dtype)
        return FixedSaveState(
            number=number,
            layer=self._empty(scale),
            beta=self._initial_beta(scale),
            active=jnp.ones(norm2.shape, bool),
            stats=ridge.ArmStats(norm2, jnp.zeros_like(norm2)),
            norm2=norm2,
            largest=largest,
            losses=empty_sum((save.capacity,), save.dtype),
            beta_hat=beta_hat,
            leader=jnp.int32(-1),
            round=jnp.int32(0),
            status=jnp.int32(0),
        )

    def select(self, state: FixedSaveState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose in the current layer (lines 7-8 and 13-15); ``arms`` are those the algorithm was made for."""
        if side.available is not None:
            raise ValueError(
                "side.available must be None where SAVE was made for a decision set that never changes; "
                "build it by with_fixed_arms(arms, masked=True)"
            )
        q, largest = state.layer.scale, state.largest
        certain = largest <= q * self.save.alpha**2  # line 7
        layer = jnp.where(certain, 0, state.number)
        lost = jnp.where(state.number > self.capacity, status.CAPACITY, 0)
        lost = jnp.where(jnp.isfinite(largest), lost, status.NONFINITE)
        width2, pred = state.stats
        end = End(state.active, width2, largest, pred, pred, state.beta, q, state.number, layer, lost)
        return self.save.decide(end, random.key_words(key))

    def update(
        self, state: FixedSaveState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side
    ) -> FixedSaveState:
        """Learn in the current layer (lines 17-18) and pass it if nothing in it is uncertain any more (lines 11-12)."""
        learns, q = choice.layer > 0, state.layer.scale
        layer, update = ridge.learn(state.layer, jnp.where(learns, q, 0), x, reward)
        stats = ridge.follow(state.stats, layer, update, jnp.asarray(self.arms), state.round + 1)
        beta = jnp.where(learns, self.save.refreshed_radius(update, state.round + 1), state.beta)
        here = is_layer(self.capacity, state.number)
        losses = jax.tree.map(lambda new, old: jnp.where(here, new, old), layer.losses, state.losses)
        beta_hat = jnp.where(here, beta, state.beta_hat)
        bits = state.status | choice.status | ridge.layer_failure(update, beta)

        largest = jnp.max(jnp.where(state.active, stats.width2, 0), axis=0)
        passed = (largest <= q * q) & (largest > q * self.save.alpha**2)

        def moved() -> tuple[Any, ...]:
            best = jnp.max(jnp.where(state.active, stats.pred, -jnp.inf), axis=0)
            active = state.active & (stats.pred >= best - 2 * jnp.sqrt(q) * beta)  # line 12
            largest = jnp.max(jnp.where(active, state.norm2, 0), axis=0)
            (number, scale), empty = self._next_layer(state.number, largest), jnp.zeros_like(stats.pred)
            learned = (self._empty(scale), self._initial_beta(scale), ridge.ArmStats(state.norm2, empty))
            return number, active, largest, self.save.top(stats.pred, state.active), *learned

        stayed = (state.number, state.active, largest, state.leader, layer, beta, stats)
        number, active, largest, leader, layer, beta, stats = where_any(passed, moved, stayed)
        return FixedSaveState(
            number=number,
            layer=layer,
            beta=beta,
            active=active,
            stats=stats,
            norm2=state.norm2,
            largest=largest,
            losses=losses,
            beta_hat=beta_hat,
            leader=leader,
            round=state.round + 1,
            status=bits,
        )

    def recommend(self, state: FixedSaveState, arms: jax.Array, side: Side) -> jax.Array:
        """Return the arm of the largest estimate of the deepest layer that is done, [], see ``Save.recommend``."""
        certain = (state.largest <= state.layer.scale * self.save.alpha**2) & (state.layer.count > 0)
        here = self.save.top(state.stats.pred, state.active)
        return jnp.where(certain | (state.leader < 0), here, state.leader)

    def confidence(self, state: FixedSaveState) -> Confidence:
        """Return the ellipsoids of all layers; those passed no longer change."""
        loss, lost = state.losses
        return Confidence(loss, jnp.asarray(ridge.scales(self.capacity, self.save.dtype)), state.beta_hat, lost)

    def _empty(self, scale: jax.Array) -> ridge.Layers:
        one = ridge.init_layers(self.save.dim, 1, 1, self.save.dtype)
        return jax.tree.map(lambda v: v[0], one)._replace(scale=scale)

    def _initial_beta(self, scale: jax.Array) -> jax.Array:
        return self.save.constants.initial_coef * jnp.sqrt(scale)

    def _next_layer(self, number: jax.Array, largest: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the lowest layer after ``number`` in which a round can end, int32 [], and its scale, [].

        That is ``capacity + 1`` where it is not stored.

        It is empty: its widths are ``2^l |a|``, with ``largest []`` the largest ``|a|^2`` of an active arm, and passing
        an empty layer drops no arm.
        """
        candidates = np.arange(1, self.capacity + 1, dtype=np.int32)
        q = ridge.scales(self.capacity, self.save.dtype)
        ends = (largest > q * q) | (largest <= q * self.save.alpha**2)
        later = ends & (candidates > number)
        next_one = jnp.min(jnp.where(later, candidates, self.capacity + 1), axis=0).astype(jnp.int32)
        return next_one, jnp.max(jnp.where(later, q, q[-1] / 4), axis=0)
