"""UCRL-AVE, Algorithm 2 of Zhao, He, Zhou, Zhang, Gu (2023).

Line numbers are the paper's own labels (``alg2:line:7`` is the optimistic value). Layers are numbered 1..L; arrays
over layers start with layer 1. Stages are counted from 0, episodes from 1.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import constants as presets
from jaxvar import parameters, ridge, sharp, status
from jaxvar.algorithms.ellipsoid import EllipsoidState
from jaxvar.algorithms.interface import Confidence, Model, Step, by_rule
from jaxvar.algorithms.noise_adaptive import Losan
from jaxvar.algorithms.optimistic_plan import (
    ConfidentPlanner,
    Plan,
    ellipsoid_bound,
    known_model,
    layer_bound,
    regression_pair,
)
from jaxvar.claims import Claim
from jaxvar.lowering import computed_once, each_used_layer, least_over_layers, where_any
from jaxvar.parameters import MAX_HORIZON, Number, count, factory, flag, number, part, pytree

CLAIM = Claim(
    "UCRL-AVE",
    "Zhao, He, Zhou, Zhang, Gu 2023",
    "d sqrt(Var*) + d^2",
    constants="read",
    row=6,
    assumption="homogeneous, rewards add up to at most 1",
    printed="a reference to the theorem for bandits; the bound is that of the theorem for episodes",
)


class UcrlAveState(NamedTuple):
    """State of UCRL-AVE for one seed. Plans are made of what it holds at the start of an episode."""

    layers: ridge.Layers
    steps: jax.Array  # []   int32, steps played in all episodes
    layer: jax.Array  # []   int32, the layer that learned in the last step, from 1; 0 where none did
    weight: jax.Array  # []   w of the last step; 0 where no layer learned
    status: jax.Array  # []   int32
    plain: EllipsoidState | None = None  # of one regression over all steps, only where it is intersected with


@pytree
class UcrlAve(ConfidentPlanner):
    r"""UCRL-AVE: optimism by the least upper bound over layers of weighted regressions of the next value.

    .. math:: Q_h(s, a) = \min\{1, \min_l r(s, a) + \langle \phi_{V_{h+1}}(s, a), \hat\theta_l\rangle
              + \beta_l \|\phi_{V_{h+1}}(s, a)\|_{\Sigma_l^{-1}}\}

    After each step the feature :math:`f = \phi_{V_{h+1}}(s_h, a_h)` with target :math:`V_{h+1}(s_{h+1})` is learned
    in the lowest layer with :math:`\|f\|_{\Sigma_l^{-1}} \ge 2^{-l}`, with weight :math:`2^{-l} / \|f\|`, where the
    layers' matrices grow within the episode while the plan keeps those of its start. :math:`\Sigma_l` starts at
    :math:`4^{-l} \lambda I`, and :math:`L = \lceil\log_2 1/\alpha\rceil`; the theorem has :math:`\lambda = 1/B^2` and
    :math:`\alpha = (KH)^{-3/2}`. With the printed constants every Q is 1 for a long time, and the rule for ties
    decides everything.

    References:
      Zhao, He, Zhou, Zhang, Gu (2023), Variance-dependent regret bounds for linear bandits and reinforcement learning,
      Algorithm 2, its radius (label ``eq:def:beta:mdp``) and the theorem after it (``thm:regret2``).

    Deviations:
      Q is also cut at 0 from below, which changes nothing while the confidence event holds. The tie rule is ours.
    """

    horizon: int = count(high=MAX_HORIZON, kw_only=False, doc="H, steps per episode.")
    num_episodes: Number = number(
        at_least=1, kw_only=False, doc="K, in alpha and so in L; the run itself may be shorter."
    )
    alpha: Number = by_rule(
        lambda self: 1 / (self.num_episodes * self.horizon) ** 1.5,
        "the width at which a feature is known well enough, which sets L; the theorem's ``(K H)^{-3/2}`` if not given.",
    )
    lam: Number = by_rule(
        lambda self: 1 / self.norm_bound**2,
        "the ridge; the theorem's ``1 / B^2`` if not given. The radius takes for granted that it is no larger.",
    )
    constants: presets.RadiusConstants = part(
        presets.episodic,
        default=None,
        doc="of the radius; the paper's if not given. A preset printed for SAVE is replaced by the one of the same "
        "name printed for episodes (:func:`jaxvar.constants.for_episodes`).",
    )
    capacity: int = count(
        high=ridge.MAX_LAYERS,
        default=None,
        rule=lambda self: max(3, ridge.choose_capacity(self.num_episodes * self.horizon, self.alpha)),
        doc="layers to store. Asking for a deeper one sets ``status.CAPACITY``; ``simulate`` reruns with more. A "
        "feature of norm n starts in layer ``log2(sqrt(lam) / n) / 2`` or deeper, however few the episodes.",
    )

    intersect: bool = flag(
        default=False,
        doc="also keep one regression over all steps, with LOSAN's radius, and cut every bound at its own. The layers "
        "then have half of delta, and it has the other half.",
    )

    @property
    def layer_delta(self) -> Number:
        """The failure probability of all layers together: half of delta where the regression has the other half."""
        return self.delta / 2 if self.intersect else self.delta

    @property
    def plain(self) -> Losan:
        """The regression over all steps: theta* is in its ellipsoid with probability 1 - delta / 2.

        A value is in [0, 1], so that its error is 1/2-sub-Gaussian.
        """
        return Losan(dim=self.dim, noise_bound=0.5, delta=self.delta / 2, theta_bound=self.norm_bound)

    @property
    def num_layers(self) -> jax.Array:
        """``L = ceil(log2(1 / alpha))``, at least 1: the L inside the logarithms."""
        return ridge.layer_count(jnp.asarray(self.alpha))

    def init(self, model: Model) -> UcrlAveState:
        """Return empty layers (line 2)."""
        known_model(model, self.dim, self.horizon)
        zero = jnp.int32(0)
        layers = ridge.init_layers(self.dim, self.capacity, self.lam, self.dtype)
        plain = self.plain.init() if self.intersect else None
        return UcrlAveState(layers, zero, zero, jnp.zeros((), self.dtype), zero, plain)

    def plan(
        self, state: UcrlAveState, model: Model, key: jax.Array | None = None, first: jax.Array | None = None
    ) -> Plan:
        """Plan the coming episode (lines 4-8); without a key ties go to the lowest action.

        Told the ``first`` state, int32 [], no other is planned for in the first stage.
        """
        is_used, logs, none = state.layers.count > 0, self.logs(state.steps), float(np.finfo(self.dtype).max)

        def scaled(layer: ridge.Layers, q: jax.Array) -> jax.Array:  # beta |f|_{Sigma^-1} = |(beta / sqrt(q) R)^T f|
            return layer.root * (self.radius(layer, q, logs) / jnp.sqrt(q))

        # Layers that nobody uses have none made: 0.163 instead of 0.177 us of processor time per step with 16 stored.
        q, theta_hat = jnp.asarray(ridge.scales(self.capacity, self.dtype)), state.layers.theta_hat
        roots = each_used_layer(scaled, is_used, jnp.zeros((self.dim, self.dim), self.dtype), state.layers, q)
        slope = self.empty_slope(state)

        def steepness(theta_hat: jax.Array, root: jax.Array) -> jax.Array:
            return (jnp.sqrt(jnp.sum(theta_hat**2, axis=0)) + jnp.sqrt(jnp.sum(root**2, axis=(0, 1))))[None]

        # A layer bounds by at most its steepness times |f|. Those without data bound by slope |f|: mostly by more.
        unbounded = jnp.full(1, none, self.dtype)
        steepest = least_over_layers(steepness, unbounded, is_used, theta_hat, roots)[0]
        may_be_least = computed_once(slope - steepest) <= 0

        def bound(feature: jax.Array) -> jax.Array:  # line 7
            in_layer, least = functools.partial(layer_bound, feature), jnp.full_like(feature[:, 0], none)
            least = least_over_layers(in_layer, least, is_used, theta_hat, roots)

            def with_empty() -> jax.Array:
                return jnp.minimum(least, slope * jnp.sqrt(jnp.sum(feature * feature, axis=1)))

            least = where_any(may_be_least, with_empty, least)
            if state.plain is not None:
                regression, radius = state.plain.regression, self.plain.beta(state.plain)
                upper = ellipsoid_bound(feature, regression.theta_hat, regression.root * radius)
                least = jnp.minimum(least, upper)
            return least

        return self.optimistic_plan(known_model(model, self.dim, self.horizon), bound, key, first=first)

    def update(self, state: UcrlAveState, model: Model, plan: Plan, step: Step) -> UcrlAveState:
        """Learn in the lowest uncertain layer (lines 14-19); the plan stays as it is until the episode ends."""
        feature, target = regression_pair(plan, step, model)
        num_layers, norm2, stored = self.num_layers, jnp.sum(feature * feature, axis=0), state.layers
        seen = functools.partial(ridge.width2, x=feature)
        width2 = each_used_layer(seen, stored.count > 0, norm2 / self.lam, stored.root)
        layer, weight = ridge.lowest_wide(width2, num_layers)  # lines 14-15 and 17
        layers, learned = ridge.observe(stored, layer, feature, target)  # lines 18-19
        # An empty layer l has width 2^l |f| / sqrt(lam): some l <= L is wide enough exactly if |f| / sqrt(lam) >= 4^-L.
        empty_width = jnp.sqrt(norm2 / self.lam)
        deeper = (layer == 0) & (num_layers > self.capacity) & (empty_width >= jnp.exp2(-2 * num_layers))
        finite = jnp.isfinite(empty_width + target)
        lost = jnp.where(deeper, status.CAPACITY, 0) | jnp.where(finite, 0, status.NONFINITE)
        bits, plain = jnp.int32(0), state.plain
        if plain is not None:
            factor = 1 / jnp.sqrt(jnp.maximum(seen(plain.regression.root), 1))  # LOSAN's weight
            regression, moved = ridge.regress(plain.regression, factor * feature, factor * target)
            tally = plain.tally.add(0.5 * moved.error**2 * moved.gain * moved.width2)
            plain, bits = plain._replace(regression=regression, tally=tally), ridge.failure(moved)
        return UcrlAveState(
            layers=layers,
            steps=state.steps + 1,
            layer=layer,
            weight=weight,
            status=state.status | lost.astype(jnp.int32) | ridge.layer_failure(learned, 0) | bits,
            plain=plain,
        )

    def logs(self, steps: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return ``log(4 k^2 H^2 L / delta)`` of the coming episode k, and the same for ``k + log_shift``, both []."""
        k = (steps // self.horizon + 1).astype(self.dtype)
        log_factor = jnp.log(4 * self.horizon**2 * self.num_layers / self.layer_delta)
        return log_factor + 2 * jnp.log(k), log_factor + 2 * jnp.log(k + self.constants.log_shift)

    def radii(self, state: UcrlAveState) -> jax.Array:
        """Return the radius of every stored layer in the coming episode (line 5), [capacity]."""
        radius = functools.partial(self.radius, logs=self.logs(state.steps))
        return jax.vmap(radius)(state.layers, jnp.asarray(ridge.scales(self.capacity, self.dtype)))

    def radius(self, layer: ridge.Layers, q: jax.Array, logs: tuple[jax.Array, jax.Array]) -> jax.Array:
        """Return the radius of one layer of scale ``q``, []."""
        if self.constants.form == "sharp":
            bias = self.lam * self.norm_bound**2
            # A value is in [0, 1]: an interval of length 1, so that its error is 1/2-sub-Gaussian and at most 1.
            beta = sharp.radius(q, layer.loss, self.constants, self.layer_delta, 0.5, 1.0, bias)
            return jnp.where(layer.count > 0, beta, self.constants.bias_coef * jnp.sqrt(q * bias))
        variance_sum = jnp.maximum(layer.loss - q * self.lam * jnp.sum(layer.theta_hat**2, axis=0), 0)
        return ridge.radius(q, variance_sum, layer.weight_sum, layer.count.astype(self.dtype), self.constants, 1, *logs)

    def empty_slope(self, state: UcrlAveState) -> jax.Array:
        """Return what the least upper bound of all layers without data is for a feature of norm 1, [].

        Such a layer bounds by ``beta_l 2^l |f| / sqrt(lam)``. What multiplies ``|f|`` falls with l before the switch to
        the empirical variance, and after it: it is least in the last of either. In the form "sharp" it is the same for
        all: ``bias_coef B``.
        """
        num_layers, none = self.num_layers, float(np.finfo(self.dtype).max)
        numbers, is_empty = np.arange(1, self.capacity + 1, dtype=self.dtype), state.layers.count == 0

        def last(bound: jax.Array) -> jax.Array:
            """Return the last layer without data down to ``bound []``, 0 if there is none."""
            stored = jnp.max(jnp.where(is_empty & (numbers <= bound), numbers, 0), axis=0)
            return jnp.where(bound > self.capacity, bound, stored)

        if self.constants.form == "sharp":
            return jnp.where(last(num_layers) > 0, self.constants.bias_coef * jnp.asarray(self.norm_bound), none)
        logs = self.logs(state.steps)
        before_switch = jnp.ceil(jnp.log2(self.constants.switch * jnp.sqrt(logs[1]))) - 1

        def least(end: jax.Array) -> jax.Array:
            scale = jnp.exp2(-end)
            slope = ridge.radius(scale**2, 0, 0, 0, self.constants, 1, *logs) / scale / jnp.sqrt(self.lam)
            return jnp.where(end > 0, slope, none)

        return jnp.minimum(least(last(jnp.minimum(before_switch, num_layers))), least(last(num_layers)))

    def confidence(self, state: UcrlAveState) -> Confidence:
        """Return the ellipsoids of all stored layers with the radii of the coming episode."""
        ridges = ridge.scales(self.capacity, self.dtype) * self.lam
        loss, lost = state.layers.losses
        return Confidence(loss, jnp.asarray(ridges), self.radii(state), lost)

    def grow(self) -> UcrlAve:
        """Return the same algorithm with more layers stored."""
        return parameters.replace(self, capacity=min(self.capacity + 4, ridge.MAX_LAYERS))


ucrl_ave = factory(UcrlAve)
