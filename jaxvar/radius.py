"""The confidence radius of a layer that has just learned (constants: :mod:`jaxvar.constants`)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvar import ridge
from jaxvar.constants import RadiusConstants


def initial_radius(constants: RadiusConstants, capacity: int, dtype: Any) -> jax.Array:
    """``initial_coef 2^-l`` for l = 1..capacity."""
    return jnp.asarray(constants.initial_coef * np.sqrt(ridge.scales(capacity, dtype)))


def radius(learned: ridge.Learned, constants: RadiusConstants, noise_bound: Any, log0: Any, log1: Any) -> jax.Array:
    """``beta`` of the layer that learned, the paper's equation ``eq:def:beta`` with its constants as data.

    Args:
      learned: the layer's sums after the observation.
      constants: see :mod:`jaxvar.constants`.
      noise_bound: R, [].
      log0: ``log(4 k^2 L / delta)``, [].
      log1: ``log(4 (k + log_shift)^2 L / delta)``, [].

    Returns:
      The radius, [].
    """
    c, q = constants, learned.scale
    root_q = jnp.sqrt(q)  # 2^-l
    range_part = c.range_coef * root_q * noise_bound * log0
    bias = c.bias_coef * root_q
    adaptive = (
        c.emp_coef * learned.variance_sum
        + c.log_coef * noise_bound**2 * log1
        + c.floor_coef * q
        + c.cross_coef * (range_part + bias) ** 2
    )
    fallback = (
        c.fallback_count * noise_bound**2 * learned.num.astype(q.dtype)
        + c.fallback_weight * noise_bound**2 * learned.weight_sum
        + c.fallback_log * noise_bound**2 * log1
        + c.fallback_floor * q
    )
    variance = jnp.where(c.switch * jnp.sqrt(log1) * root_q <= 1, adaptive, fallback)
    return c.beta_scale * (c.sqrt_coef * root_q * jnp.sqrt(variance * log0) + range_part) + bias
