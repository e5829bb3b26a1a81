"""The radius of the preset ``sharp``: small, read off the observed residuals, and proved in docs/sharp.md.

Layer l has ``q = 4^-l``, the ridge ``q lam`` and the least regularised loss L. The noise of an observation, times its
weight, is s-sub-Gaussian and at most R; ``|theta*|^2 lam <= tau``. With probability at least 1 - delta the distance
``|theta_hat - theta*|_Sigma`` is, in every layer and after every observation, at most the smaller of

    A    sqrt(q (tau + L) + 2 s^2 log(l (l + 1) / (share delta)))          share = 1 in layers 1 and 2, else 1/2
    B    sqrt(M^2 - q (4^m tau - tau - L))                                 from layer 3 on

where m is the least integer, from 1, with ``L <= (4^m - 1) tau``, and M is the smaller root of

    2 k M^2 - (1 + 2 k G) M + G + k (1 + q) L = 0        k = p b 2^-l / R        p = (-log(1 - b) - b) / b^2
    G = 2^-l (2^m sqrt(tau) + (R / b) log(2 l (l + 1) m (m + 1) (j + 1) (j + 2) / delta))

for the best b of :data:`BENDS`, the j-th from 0; where ``2 k G >= 1`` or there is no root, b gives no bound. Lemma A
is for noise as large as R. Lemma B falls with 2^-l where residuals are small. Neither has a logarithm of the round.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from jaxvar.constants import RadiusConstants
from jaxvar.parameters import Array, Number

BENDS = (0.7, 0.35, 0.175, 0.0875)  # b of Lemma B: small noise is served by the first, larger noise by the next
CURVES = tuple((-math.log1p(-b) - b) / b**2 for b in BENDS)  # p: exp(y - p y^2) <= 1 + y for all y >= -b


def radius(
    q: jax.Array | Array,
    loss: jax.Array,
    constants: RadiusConstants,
    delta: Number,
    scale: Number,
    bound: Number,
    bias: Number = 1.0,
) -> jax.Array:
    """Return ``beta`` of layers that have learned, of the shape of ``q`` and ``loss``.

    What exceeds ``2^-l sqrt(tau)``, the error before anything is learned, is multiplied by ``beta_scale``.

    Args:
      q: ``4^-l``; 0 stands for no layer, and its radius for nothing.
      loss: L, the least value of ``sum w^2 (y - <theta, x>)^2 + q lam |theta|^2``.
      constants: ``beta_scale`` and ``bias_coef`` are used.
      delta: the probability that some radius of some layer fails, [].
      scale: s, a sub-Gaussian scale of the noise, [].
      bound: R, the largest noise, [].
      bias: ``lam B^2`` with the ridge ``q lam`` and ``|theta*| <= bias_coef B``, []: ``tau = bias_coef^2 lam B^2``.
    """
    bias = constants.bias_coef**2 * bias
    q = jnp.where(q > 0, q, 0.25)
    root_q = jnp.sqrt(q)
    number = -0.5 * jnp.log2(q)
    deep = q < 1 / 32  # from layer 3 on
    log_layer = jnp.log(number * (number + 1) / delta)
    by_scale = q * (bias + loss) + 2 * scale**2 * (log_layer + jnp.where(deep, math.log(2), 0))

    level = jnp.maximum(jnp.ceil(0.5 * jnp.log2(1 + loss / bias)), 1)  # m
    log_level = log_layer + jnp.log(2 * level * (level + 1))
    reach = jnp.full_like(by_scale, jnp.inf)  # M
    for j, (bend, curve) in enumerate(zip(BENDS, CURVES, strict=True)):
        curvature = curve * bend * root_q / bound
        start = root_q * (jnp.exp2(level) * jnp.sqrt(bias) + bound / bend * (log_level + math.log((j + 1) * (j + 2))))
        lead, extra = 2 * curvature * start, curvature * (1 + q) * loss
        discriminant = (1 - lead) ** 2 - 8 * curvature * extra
        root = 2 * (start + extra) / (1 + lead + jnp.sqrt(jnp.maximum(discriminant, 0)))
        reach = jnp.minimum(reach, jnp.where((lead < 1) & (discriminant >= 0), root, jnp.inf))
    by_bound = reach**2 - q * (jnp.exp2(2 * level) * bias - bias - loss)
    beta = jnp.sqrt(jnp.where(deep, jnp.minimum(by_scale, by_bound), by_scale))
    least = root_q * jnp.sqrt(bias)
    return least + constants.beta_scale * (beta - least)
