"""LinVDTS-R: SAVE that pulls by Thompson sampling, after the variance-dependent sampler of Xu, Min and Wang (2023).

Layers are numbered 1..L; arrays over layers are 0-based. Line numbers are SAVE's (:mod:`jaxvar.algorithms.save`).
"""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp

from jaxvar import cholesky, random, ridge, status
from jaxvar import constants as presets
from jaxvar import ties as tie_rules
from jaxvar.algorithms import layered, posterior
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.algorithms.save import descend
from jaxvar.batching import seeds_last
from jaxvar.claims import Claim
from jaxvar.pytrees import pytree

CLAIM = Claim(
    name="LinVDTS-R",
    factory="lin_vdts",
    reference="Xu, Min, Wang 2023",
    setting="bandit",
    regret="d^1.5 sqrt(sum sigma^2) + d^1.5",
    deterministic="d^1.5",
    variance="estimated",
    efficient=True,
    constants="reconstructed",
)


@pytree
class LinVdts(layered.LayeredAlgorithm):
    """LinVDTS-R; built by :func:`lin_vdts`."""

    def select(self, state: layered.LayeredState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose an arm of ``arms [num_arms, dim]``."""
        chex.assert_shape(arms, (None, self.dim))
        return _select(self, state, arms, random.key_words(key))


def lin_vdts(
    dim: int,
    num_rounds: Any,
    *,
    noise_bound: Any = 1.0,
    delta: Any = 0.01,
    constants: presets.RadiusConstants | None = None,
    ties: str = "random",
    tie_tolerance: Any = None,
    capacity: int | None = None,
) -> LinVdts:
    r"""LinVDTS-R: SAVE's layers and eliminations, and one normal vector z per round that chooses where SAVE is free.

    In the layer l where the round ends, the active arm of largest sampled value
    :math:`\langle a, \hat\theta_l + \beta_l \Sigma_l^{-1/2} z\rangle` is pulled: among those with
    :math:`\|a\|_{\Sigma_l^{-1}} > 2^{-l}` where there are any, among all where every width is at most :math:`\alpha`.
    The Cholesky factor of :math:`\Sigma_l^{-1}` is its root. Everything else is :func:`jaxvar.save`.

    Args:
      dim: d, the length of an arm.
      num_rounds: K, in alpha and the logarithms; the run itself may be shorter.
      noise_bound: R, with \|noise\| <= R.
      delta: failure probability.
      constants: of the radius; :func:`jaxvar.constants.paper` if not given. Their ``beta_scale`` multiplies the
        stochastic part of the radius, and with it the spread of the sampled values.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.
      capacity: layers to store. Asking for a deeper one sets ``status.CAPACITY``; ``simulate`` reruns with more.

    Returns:
      The algorithm, a pytree.

    References:
      Xu, Min, Wang (2023), Noise-adaptive Thompson sampling for linear contextual bandits: the claim, and that sampling
      is stratified.

    Deviations:
      The sampling scale of the source was not read: this is a reconstruction. SAVE's proof allows any pick among the
      arms that are too uncertain, and bounds a round in which none is by :math:`O(\alpha\beta)` up to the length of z,
      so that SAVE's guarantee carries over whatever the source does.
    """
    return LinVdts(**layered.parameters(dim, num_rounds, noise_bound, delta, constants, ties, tie_tolerance, capacity))


@seeds_last
def _select(self: LinVdts, state: layered.LayeredState, arms: jax.Array, words: jax.Array) -> Choice:
    active, width2, pred, beta, scale, number, layer, lost = descend(self, state.beta_hat, layered.views(state, arms))
    scaled_inv = jnp.eye(self.dim, dtype=self.dtype).reshape(self.dim, self.dim, *(1,) * (words.ndim - 1))
    for i in range(self.capacity):
        scaled_inv = jnp.where((number == i + 1)[None, None], state.layers.scaled_inv[i], scaled_inv)
    learns = layer > 0
    z = random.normal(random.bits(words, (self.dim,), stream=posterior.NORMALS), self.dtype)
    turned = cholesky.times(cholesky.factor(scaled_inv), z)  # Sigma^-1 is P / q
    sampled = pred + (beta / jnp.sqrt(scale))[None] * ridge.inner(arms, turned)
    allowed = active & (~learns[None] | (width2 > scale[None]))  # |a| > 2^-l in the norm of Sigma^-1
    action = tie_rules.pick(tie_rules.best(sampled, allowed, self.tie_tolerance), words, self.ties)
    weight = jnp.where(learns, jnp.sqrt(scale) / jnp.sqrt(tie_rules.take(width2, action)), 0)  # line 15
    broken = jnp.where(jnp.isfinite(jnp.max(sampled, axis=0)), 0, status.INDEFINITE)
    return Choice(action, layer, weight, (lost | broken).astype(jnp.int32))
