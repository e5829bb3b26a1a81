"""What SAVE and AVE-UCB share: the layers, their radii, and learning in one of them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, Self

import chex
import jax
import jax.numpy as jnp

from jaxvar import checks, ridge, status
from jaxvar import constants as presets
from jaxvar import ties as tie_rules
from jaxvar.algorithms.interface import Choice, Confidence, Side
from jaxvar.batching import seeds_last
from jaxvar.pytrees import float_dtype, leaf, pytree, static
from jaxvar.radius import initial_radius, radius
from jaxvar.written_out import written_out

MAX_LAYERS = 200  # 4^-200 is still a float64; no horizon asks for more


class LayeredState(NamedTuple):
    """State of a layered algorithm for one seed."""

    layers: ridge.Layers
    beta_hat: jax.Array  # [capacity]
    round: jax.Array  # []   int32, rounds played
    status: jax.Array  # []   int32
    cache: ridge.ArmCache | None  # only for fixed arms


@pytree
class LayeredAlgorithm:
    """All of a layered algorithm but its choice of an arm; the ridge is 1, as in Algorithm 1."""

    noise_bound: Any  # R
    delta: Any
    num_rounds: Any  # K of the theorem
    constants: presets.RadiusConstants
    tie_tolerance: Any
    dim: int = static()
    capacity: int = static()  # layers stored
    ties: str = static()
    fixed_arms: Any = None  # [num_arms, dim] where the decision set never changes

    @property
    def dtype(self) -> Any:
        """The float type of the run."""
        return jnp.result_type(self.delta)

    @property
    def alpha(self) -> jax.Array:
        """The theorem's ``1 / (R K^{3/2})``."""
        return 1 / (self.noise_bound * self.num_rounds**1.5)

    @property
    def num_layers(self) -> jax.Array:
        """``L = ceil(log2(1 / alpha))``, at least 1: the L inside the logarithms."""
        return layer_count(self.alpha)

    def init(self) -> LayeredState:
        """Empty layers (Algorithm 1, lines 1-2)."""
        layers = ridge.init_layers(self.dim, self.capacity, 1, self.dtype)
        return LayeredState(
            layers=layers,
            beta_hat=initial_radius(self.constants, self.capacity, self.dtype),
            round=jnp.int32(0),
            status=jnp.int32(0),
            cache=None if self.fixed_arms is None else ridge.init_cache(layers, self.fixed_arms),
        )

    def update(self, state: LayeredState, choice: Choice, x: jax.Array, reward: jax.Array, side: Side) -> LayeredState:
        """Learn in the chosen layer, and in no other (Algorithm 1, lines 17-18)."""
        chex.assert_shape(x, (self.dim,))
        return _update(self, state, choice, x, reward)

    def confidence(self, state: LayeredState) -> Confidence:
        """The ellipsoids of all stored layers."""
        return Confidence(state.layers.loss, jnp.asarray(ridge.scales(self.capacity, self.dtype)), state.beta_hat)

    def with_fixed_arms(self, arms: jax.Array) -> Self:
        """The same algorithm for arms ``[num_arms, dim]`` that never change: O(N d) a round, the same choices."""
        chex.assert_shape(arms, (None, self.dim))
        return dataclasses.replace(self, fixed_arms=arms)

    def grow(self) -> Self:
        """The same algorithm with more layers stored."""
        return dataclasses.replace(self, capacity=min(self.capacity + 4, MAX_LAYERS))


def layer_count(alpha: jax.Array) -> jax.Array:
    """``L = ceil(log2(1 / alpha))``, at least 1; rounding adds no layer where 1 / alpha is a power of two."""
    slack = 1e-9 if jnp.result_type(alpha).itemsize == 8 else 1e-4
    return jnp.maximum(jnp.ceil(-jnp.log2(alpha) - slack), 1)


@seeds_last
def _update(
    self: LayeredAlgorithm, state: LayeredState, choice: Choice, x: jax.Array, reward: jax.Array
) -> LayeredState:
    layers, learned = ridge.observe(state.layers, choice.layer, x, reward, 1)
    numbers_only: Any = learned._replace(direction=None)  # type: ignore[arg-type]  # not looked at there
    return LayeredState(
        layers=layers,
        beta_hat=_refreshed_radii(self, state.beta_hat, numbers_only, choice.layer, state.round + 1),
        round=state.round + 1,
        status=state.status | choice.status | failure(learned),
        cache=None if state.cache is None else ridge.move_cache(state.cache, choice.layer, learned, self.fixed_arms),
    )


@written_out
def _refreshed_radii(
    self: LayeredAlgorithm, beta_hat: jax.Array, learned: Any, layer: jax.Array, round: jax.Array
) -> jax.Array:
    beta = refreshed_radius(self, learned, round)
    return jnp.where(ridge.is_layer(self.capacity, layer), beta[None], beta_hat)


def refreshed_radius(self: LayeredAlgorithm, learned: ridge.Learned, round: jax.Array) -> jax.Array:
    """The radius of the layer that learned in ``round`` (Algorithm 1, line 18)."""
    k = round.astype(self.dtype)
    log_factor = jnp.log(4 * self.num_layers / self.delta)
    log0 = log_factor + 2 * jnp.log(k)  # log(4 k^2 L / delta)
    log1 = log_factor + 2 * jnp.log(k + self.constants.log_shift)
    num = learned.num.astype(self.dtype)
    sums = (learned.scale, learned.variance_sum, learned.weight_sum, num)
    return radius(*sums, self.constants, self.noise_bound, log0, log1)


def failure(learned: ridge.Learned) -> jax.Array:
    """Status bits of an observation that a layer took."""
    finite = jnp.isfinite(learned.error) & jnp.isfinite(learned.scaled_width2)
    bits = jnp.where(finite, jnp.where(learned.scaled_width2 > 0, 0, status.INDEFINITE), status.NONFINITE)
    return jnp.where(learned.scale > 0, bits, 0).astype(jnp.int32)


def views(state: LayeredState, arms: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
    """``a^T P a`` and ``<a, theta_hat>`` of all arms, two ``[N]`` for each layer; from the cache where there is one."""
    if state.cache is not None:
        return [(state.cache.scaled_width2[i], state.cache.pred[i]) for i in range(state.cache.pred.shape[0])]
    return ridge.measure(state.layers, arms)


def parameters(
    dim: Any,
    num_rounds: Any,
    noise_bound: Any,
    delta: Any,
    constants: presets.RadiusConstants | None,
    ties: Any,
    tie_tolerance: Any,
    capacity: int | None,
) -> dict[str, Any]:
    """The fields of :class:`LayeredAlgorithm` from a factory's arguments, checked."""
    dim = checks.count("dim", dim)
    if constants is not None and not isinstance(constants, presets.RadiusConstants):
        raise ValueError(f"constants must come from jaxvar.constants, got {constants!r}")
    if constants is not None and constants.setting == "episodes":
        raise ValueError(f"constants must be a bandit's, got {constants.label!r} with setting 'episodes'")
    if tie_tolerance is None:
        tie_tolerance = tie_rules.default_tolerance(float_dtype())
    return {
        "num_rounds": leaf(checks.parameter("num_rounds", num_rounds)),
        "noise_bound": leaf(checks.parameter("noise_bound", noise_bound)),
        "delta": leaf(checks.parameter("delta", delta)),
        "constants": presets.paper() if constants is None else constants,
        "tie_tolerance": leaf(checks.parameter("tie_tolerance", tie_tolerance)),
        "dim": dim,
        "capacity": choose_capacity(capacity, dim, num_rounds, noise_bound),
        "ties": checks.choice("ties", ties, tie_rules.RULES),
    }


def choose_capacity(capacity: int | None, dim: int, num_rounds: Any, noise_bound: Any) -> int:
    """How many layers to store: those that ``num_rounds`` rounds can fill, and one more.

    A unit vector's width falls from 2^l to 2^-l after about ``4^l 4 l ln(2) d`` updates of layer l.
    """
    if capacity is not None:
        return checks.count("capacity", capacity, high=MAX_LAYERS)
    if checks.is_traced(num_rounds) or checks.is_traced(noise_bound):
        return 8
    most = max(1, math.ceil(math.log2(float(noise_bound) * float(num_rounds) ** 1.5)))
    filled, layer = 0.0, 0
    while filled < float(num_rounds) and layer < most:
        layer += 1
        filled += 4.0**layer * 4 * layer * math.log(2) * dim
    return min(layer + 1, most, MAX_LAYERS)
