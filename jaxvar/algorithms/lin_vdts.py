"""LinVDTS-R: Thompson sampling in SAVE's layers."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from jaxvar import constants as presets
from jaxvar import random, status
from jaxvar.algorithms.interface import Choice, Side
from jaxvar.algorithms.save import LayeredAlgorithm, LayeredState, descend
from jaxvar.algorithms.thompson import NORMALS
from jaxvar.claims import Claim
from jaxvar.lowering import inner, take
from jaxvar.parameters import factory, part, pytree

CLAIM = Claim("LinVDTS-R", "Xu, Min, Wang 2023", "d^1.5 sqrt(sum sigma^2) + d^1.5", constants="reconstructed")


@pytree
class LinVdts(LayeredAlgorithm):
    r"""LinVDTS-R: SAVE's layers and eliminations, and one normal vector z per round that chooses where SAVE is free.

    In the layer l where the round ends, the active arm of largest sampled value
    :math:`\langle a, \hat\theta_l + \beta_l \Sigma_l^{-1/2} z\rangle` is pulled: among those with
    :math:`\|a\|_{\Sigma_l^{-1}} > 2^{-l}` where there are any, among all where every width is at most :math:`\alpha`.
    The square root of :math:`\Sigma_l^{-1}` is the one that layers carry. Everything else is :func:`jaxvar.save`.

    References:
      Xu, Min, Wang (2023), Noise-adaptive Thompson sampling for linear contextual bandits: the claim, and that sampling
      is stratified.

    Deviations:
      The sampling scale of the source was not read: this is a reconstruction. SAVE's proof allows any pick among the
      arms that are too uncertain, and bounds a round in which none is by :math:`O(\alpha\beta)` up to the length of z,
      so that SAVE's guarantee carries over whatever the source does.
    """

    constants: presets.RadiusConstants = part(
        presets.for_bandits,
        default=None,
        doc="of the radius; :func:`jaxvar.constants.paper` if not given. Their ``beta_scale`` multiplies the "
        "stochastic part of the radius, and with it the spread of the sampled values.",
    )

    def select(self, state: LayeredState, arms: jax.Array, key: jax.Array, side: Side) -> Choice:
        """Choose an arm of ``arms [num_arms, dim]``."""
        chex.assert_shape(arms, (None, self.dim))
        words, end = random.key_words(key), descend(self, state, arms, side)
        root = take(state.layers.root, jnp.maximum(end.number - 1, 0))
        z = random.normal(random.bits(words, (self.dim,), stream=NORMALS), self.dtype)
        turned = inner(root, z)  # Sigma^-1 is R R^T / q
        sampled = end.pred + end.beta / jnp.sqrt(end.scale) * inner(arms, turned)
        action = self.best(sampled, words, end.allowed)
        broken = jnp.where(jnp.isfinite(jnp.max(side.present(sampled), axis=0)), 0, status.NONFINITE)
        return Choice(action, end.layer, end.weight(action), (end.lost | broken).astype(jnp.int32))


lin_vdts = factory(LinVdts)
