"""UCRL-AVE, Algorithm 2 of Zhao, He, Zhou, Zhang, Gu (2023).

Line numbers are the paper's own labels (``alg2:line:7`` is the optimistic value). Layers are numbered 1..L; arrays
over layers start with layer 1. Stages are counted from 0, episodes from 1.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxvar import checks, random, ridge, status
from jaxvar import constants as presets
from jaxvar import ties as tie_rules
from jaxvar.algorithms import layered
from jaxvar.algorithms.interface import Confidence, Model, Step
from jaxvar.algorithms.optimistic_plan import Plan, batch_shape, optimistic_plan, regression_pair
from jaxvar.batching import seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import float_dtype, leaf, pytree, static
from jaxvar.radius import radius
from jaxvar.written_out import written_out

CLAIM = Claim(
    name="UCRL-AVE",
    factory="ucrl_ave",
    reference="Zhao, He, Zhou, Zhang, Gu 2023",
    setting="episodes",
    regret="d sqrt(Var*) + d^2",
    deterministic="d^2",
    variance="estimated",
    efficient=True,
    constants="read",
    table=2,
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


@pytree
class UcrlAve:
    """UCRL-AVE; built by :func:`ucrl_ave`."""

    num_episodes: Any  # K of the theorem
    norm_bound: Any  # B, with |theta*| <= B
    delta: Any
    constants: presets.RadiusConstants
    tie_tolerance: Any
    dim: int = static()
    horizon: int = static()
    capacity: int = static()  # layers stored
    ties: str = static()

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    @property
    def lam(self) -> Any:
        """The theorem's ``1 / B^2``."""
        return 1 / self.norm_bound**2

    @property
    def alpha(self) -> Any:
        """The theorem's ``1 / (K H)^{3/2}``."""
        return 1 / (self.num_episodes * self.horizon) ** 1.5

    @property
    def num_layers(self) -> jax.Array:
        """``L = ceil(log2(1 / alpha))``: the L inside the logarithms."""
        return layered.layer_count(jnp.asarray(self.alpha))

    def init(self, model: Model) -> UcrlAveState:
        """Empty layers (line 2)."""
        _known(self, model)
        zero = jnp.int32(0)
        layers = ridge.init_layers(self.dim, self.capacity, self.lam, self.dtype)
        return UcrlAveState(layers, zero, zero, jnp.zeros((), self.dtype), zero)

    def plan(self, state: UcrlAveState, model: Model, key: jax.Array | None = None) -> Plan:
        """Optimistic values and policy of the coming episode (lines 4-8); without a key ties go to the lowest."""
        return _plan(self, state, _known(self, model), None if key is None else random.key_words(key))

    def update(self, state: UcrlAveState, model: Model, plan: Plan, step: Step) -> UcrlAveState:
        """Learn in the lowest uncertain layer (lines 14-19); the plan stays as it is until the episode ends."""
        return _update(self, state, plan, step)

    def confidence(self, state: UcrlAveState) -> Confidence:
        """The ellipsoids of all stored layers with the radii of the coming episode."""
        ridges = ridge.scales(self.capacity, self.dtype) * self.lam
        return Confidence(state.layers.loss, ridges, _radii(self, state))

    def grow(self) -> UcrlAve:
        """The same algorithm with more layers stored."""
        return dataclasses.replace(self, capacity=min(self.capacity + 4, layered.MAX_LAYERS))


def ucrl_ave(
    dim: int,
    horizon: int,
    num_episodes: Any,
    *,
    norm_bound: Any = 1.0,
    delta: Any = 0.01,
    constants: presets.RadiusConstants | None = None,
    ties: str = "random",
    tie_tolerance: Any = None,
    capacity: int | None = None,
) -> UcrlAve:
    r"""UCRL-AVE: optimism by the least upper bound over layers of weighted regressions of the next value.

    .. math:: Q_h(s, a) = \min\{1, \min_l r(s, a) + \langle \phi_{V_{h+1}}(s, a), \hat\theta_l\rangle
              + \beta_l \|\phi_{V_{h+1}}(s, a)\|_{\Sigma_l^{-1}}\}

    After each step the feature :math:`f = \phi_{V_{h+1}}(s_h, a_h)` with target :math:`V_{h+1}(s_{h+1})` is learned
    in the lowest layer with :math:`\|f\|_{\Sigma_l^{-1}} \ge 2^{-l}`, with weight :math:`2^{-l} / \|f\|`, where the
    layers' matrices grow within the episode while the plan keeps those of its start. :math:`\Sigma_l` starts at
    :math:`4^{-l} \lambda I` with :math:`\lambda = 1/B^2`; :math:`\alpha = (KH)^{-3/2}` and
    :math:`L = \lceil\log_2 1/\alpha\rceil`.

    Args:
      dim: d, the length of a feature.
      horizon: H, steps per episode.
      num_episodes: K, in alpha and so in L; the run itself may be shorter.
      norm_bound: B, with \|theta*\| <= B.
      delta: failure probability.
      constants: of the radius; the paper's if not given. A preset printed for SAVE is replaced by the one of the same
        name printed for episodes (:func:`jaxvar.constants.for_episodes`).
      ties: ``random`` or ``lowest`` action, among those within ``tie_tolerance`` of the best. With the printed
        constants every Q is 1 for a long time, and the rule decides everything.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.
      capacity: layers to store. Asking for a deeper one sets ``status.CAPACITY``; ``simulate`` reruns with more. A
        feature of norm n starts in layer ``log2(1 / (B n)) / 2`` or deeper, however few the episodes.

    Returns:
      The algorithm, a pytree.

    References:
      Zhao, He, Zhou, Zhang, Gu (2023), Variance-dependent regret bounds for linear bandits and reinforcement learning,
      Algorithm 2, its radius (label ``eq:def:beta:mdp``) and the theorem after it (``thm:regret2``).

    Deviations:
      Q is also cut at 0 from below, which changes nothing while the confidence event holds. The tie rule is ours.
    """
    dim, horizon = checks.count("dim", dim), checks.count("horizon", horizon)
    if constants is None:
        constants = presets.paper(setting="episodes")
    elif not isinstance(constants, presets.RadiusConstants):
        raise ValueError(f"constants must come from jaxvar.constants, got {constants!r}")
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    num_episodes = checks.parameter("num_episodes", num_episodes)
    return UcrlAve(
        num_episodes=leaf(num_episodes),
        norm_bound=leaf(checks.parameter("norm_bound", norm_bound)),
        delta=leaf(checks.parameter("delta", delta)),
        constants=presets.for_episodes(constants),
        tie_tolerance=leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        dim=dim,
        horizon=horizon,
        capacity=layered.choose_capacity(capacity, dim, num_episodes * horizon, 1.0),
        ties=checks.choice("ties", ties, tie_rules.RULES),
    )


def _known(self: UcrlAve, model: Any) -> Model:
    """What is used of ``model``, which must fit the algorithm."""
    chex.assert_shape(model.phi, (None, None, None, self.dim))
    if getattr(model, "horizon", self.horizon) != self.horizon:
        raise ValueError(f"the model must have the algorithm's horizon {self.horizon}, got {model.horizon}")
    return Model(phi=jnp.asarray(model.phi), reward=jnp.asarray(model.reward), horizon=self.horizon)


def _logs(self: UcrlAve, steps: jax.Array) -> tuple[jax.Array, jax.Array]:
    """``log(4 k^2 H^2 L / delta)`` of the coming episode k, and the same for ``k + log_shift``."""
    k = (steps // self.horizon + 1).astype(self.dtype)
    factor = jnp.log(4 * self.horizon**2 * self.num_layers / self.delta)
    return factor + 2 * jnp.log(k), factor + 2 * jnp.log(k + self.constants.log_shift)


@seeds_last
def _radii(self: UcrlAve, state: UcrlAveState) -> jax.Array:
    """The radius of every stored layer in the coming episode (line 5)."""
    return jnp.stack(_radius_list(self, state))


def _radius_list(self: UcrlAve, state: UcrlAveState) -> list[jax.Array]:
    numbers_only: Any = state.layers._replace(scaled_inv=None)  # type: ignore[arg-type]  # not looked at there
    return _radii_of(self, numbers_only, state.steps)


@written_out
def _radii_of(self: UcrlAve, layers: Any, steps: jax.Array) -> list[jax.Array]:
    logs = _logs(self, steps)
    variance_sum = ridge.empirical_variance(layers, jnp.asarray(self.lam)[None])
    num = layers.count.astype(self.dtype)
    return [
        radius(q, variance_sum[i], layers.weight_sum[i], num[i], self.constants, jnp.ones_like(logs[0]), *logs)
        for i, q in enumerate(ridge.scales(self.capacity, self.dtype))
    ]


def _empty_slope(self: UcrlAve, state: UcrlAveState) -> jax.Array:
    """The least upper bound of all layers that are not stored is this number times the feature's norm.

    Such a layer has learned nothing: its bound is ``beta_l 2^l B |f|``. What multiplies ``|f|`` falls with l among the
    layers before the switch to the empirical variance, and among those after it: it is least in the last of either.
    """
    logs, num_layers = _logs(self, state.steps), self.num_layers
    zero = jnp.zeros_like(logs[0])
    before_switch = jnp.ceil(jnp.log2(self.constants.switch * jnp.sqrt(logs[1]))) - 1

    def slope(number: jax.Array) -> jax.Array:
        q = jnp.exp2(-2 * number)
        return radius(q, zero, zero, zero, self.constants, zero + 1, *logs) * jnp.exp2(number) * self.norm_bound

    last = jnp.minimum(jnp.maximum(before_switch, self.capacity + 1), num_layers)
    return jnp.minimum(slope(last), slope(num_layers + zero))


@seeds_last
def _plan(self: UcrlAve, state: UcrlAveState, model: Model, words: jax.Array | None) -> Plan:
    layers, num_layers = state.layers, self.num_layers
    q = ridge.scales(self.capacity, self.dtype)
    # beta |f|_{Sigma^-1} = sqrt(f^T (beta^2 / q) P f): one square root for each feature and layer.
    shapes = [layers.scaled_inv[i] * (beta**2 / q[i])[None, None] for i, beta in enumerate(_radius_list(self, state))]
    empty = _empty_slope(self, state)

    def bound(feature: jax.Array) -> jax.Array:  # line 7
        least = empty[None] * jnp.sqrt(jnp.sum(feature * feature, axis=1))
        least = jnp.where((num_layers > self.capacity)[None], least, jnp.inf)  # there may be no such layers
        for i in range(self.capacity):
            mean = ridge.combine(jnp.moveaxis(feature, 1, 0), layers.theta_hat[i][:, None])
            upper = mean + ridge.norm(feature, shapes[i])
            least = jnp.minimum(least, jnp.where((i < num_layers)[None], upper, jnp.inf))
        return least

    batch = batch_shape(model, words, layers.loss[0], empty, self.tie_tolerance)
    one = jnp.ones((1,) * len(batch), self.dtype)
    return optimistic_plan(model, bound, one, words, self.ties, self.tie_tolerance, batch)


@seeds_last
def _update(self: UcrlAve, state: UcrlAveState, plan: Plan, step: Step) -> UcrlAveState:
    feature, target = regression_pair(plan, step)
    q, num_layers = ridge.scales(self.capacity, self.dtype), self.num_layers
    layer, weight = jnp.zeros(target.shape, jnp.int32), jnp.zeros_like(target)
    for i in reversed(range(self.capacity)):  # lines 14-15 and 17: the lowest layer comes last and wins
        width = ridge.norm(feature[None], state.layers.scaled_inv[i])[0]  # times sqrt(q)
        wide = (width >= q[i]) & (i < num_layers)
        layer = jnp.where(wide, i + 1, layer)
        weight = jnp.where(wide, q[i] / width, weight)
    layers, learned = ridge.observe(state.layers, layer, feature, target, self.lam)  # lines 18-19
    # An empty layer l has width 2^l B |f|: some l <= L is wide enough exactly if B |f| >= 4^-L.
    norm = self.norm_bound * jnp.sqrt(jnp.sum(feature * feature, axis=0))
    deeper = (layer == 0) & (num_layers > self.capacity) & (norm >= 4.0**-num_layers)
    lost = jnp.where(deeper, status.CAPACITY, 0) | jnp.where(jnp.isfinite(norm + target), 0, status.NONFINITE)
    return UcrlAveState(
        layers=layers,
        steps=state.steps + 1,
        layer=layer,
        weight=weight,
        status=state.status | lost.astype(jnp.int32) | layered.failure(learned),
    )
