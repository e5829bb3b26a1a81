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


def radius(
    q: Any,
    variance_sum: Any,
    weight_sum: Any,
    num: Any,
    constants: RadiusConstants,
    noise_bound: Any,
    log0: Any,
    log1: Any,
) -> jax.Array:
    """``beta`` of a layer, the paper's equations ``eq:def:beta`` and ``eq:def:beta:mdp`` with their constants as data.

    Args:
      q: ``4^-l``, [].
      variance_sum: ``sum w^2 (y - <theta_hat, x>)^2`` over what the layer has learned from, [].
      weight_sum: ``sum w^2``, [].
      num: how many observations these are, [].
      constants: see :mod:`jaxvar.constants`.
      noise_bound: R, [].
      log0: ``log(4 k^2 L / delta)``, [].
      log1: ``log(4 (k + log_shift)^2 L / delta)``, [].

    Returns:
      The radius, [].
    """
    c = constants
    root_q = jnp.sqrt(q)  # 2^-l
    range_part = c.range_coef * root_q * noise_bound * log0
    bias = c.bias_coef * root_q
    adaptive = (
        c.emp_coef * variance_sum
        + c.log_coef * noise_bound**2 * log1
        + c.floor_coef * q
        + c.cross_coef * (range_part + bias) ** 2
    )
    fallback = (
        c.fallback_count * noise_bound**2 * num
        + c.fallback_weight * noise_bound**2 * weight_sum
        + c.fallback_log * noise_bound**2 * log1
        + c.fallback_floor * q
        + c.fallback_cross * (range_part + bias) ** 2
    )
    variance = jnp.where(c.switch * jnp.sqrt(log1) * root_q <= 1, adaptive, fallback)
    return c.beta_scale * (c.sqrt_coef * root_q * jnp.sqrt(variance * log0) + range_part) + bias
