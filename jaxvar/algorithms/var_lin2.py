"""VarLin2 (Kim, Yang, Jun 2022) on a net, for linear mixture MDPs of two or three base models."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from jaxvar import checks
from jaxvar.algorithms import netted, netted_episodes
from jaxvar.claims import Claim
from jaxvar.pytrees import pytree

CLAIM = Claim(
    name="VarLin2",
    factory="var_lin2",
    reference="Kim, Yang, Jun 2022",
    setting="episodes",
    regret="d sqrt(K) + d^2",
    deterministic="none claimed",
    variance="estimated",
    efficient=False,
    constants="reconstructed",
    table=2,
    assumption="homogeneous, rewards add up to at most 1",
)


@pytree
class VarLin2(netted_episodes.NettedEpisodes):
    """VarLin2; built by :func:`var_lin2`."""

    @property
    def iota(self) -> Any:
        """``128 log((12 K H 2^L)^(d + 2) / delta)`` with ``L = max(1, floor(log2(1 + K H / d)))``."""
        steps = self.num_episodes * self.horizon
        finest = jnp.maximum(jnp.floor(jnp.log2(1 + steps / self.dim)), 1)
        inner = jnp.log(12 * steps) + finest * math.log(2)
        return 128 * ((self.dim + 2) * inner - jnp.log(self.delta))


def var_lin2(
    dim: int,
    horizon: int,
    num_episodes: Any,
    *,
    norm_bound: Any = 1.0,
    delta: Any = 0.01,
    test: str = "tight",
    beta_scale: Any = 1.0,
    num_moments: int = 3,
    num_groups: int = 5,
    cells: int | None = None,
    num_directions: int | None = None,
    num_scales: int | None = None,
    every: int = 1,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> VarLin2:
    r"""VarLin2: the set of VarLin with more scales and other constants; what is new is how its regret is counted.

    **Setting, selection, update, set, state, cost.** Those of :func:`jaxvar.var_lin`, with the scales
    :math:`1, 1/2, \dots, 2^{-L-1}`, :math:`L = \max(1, \lfloor\log_2(1 + KH/d)\rfloor)`, and in the printed test

    .. math:: 4 c\,(\sqrt{\iota S} + l \iota), \qquad \iota = 128 \log\frac{(12 K H 2^L)^{d+2}}{\delta}

    With the tight test VarLin and VarLin2 differ in their number of scales alone.

    Args:
      dim: d, the length of a feature, at most 3.
      horizon: H, steps per episode.
      num_episodes: K, in iota and in how fine scales and exponents are; the run itself may be shorter.
      norm_bound: B, with \|theta*\| <= B.
      delta: failure probability.
      test: ``tight`` or ``paper``.
      beta_scale: c, a multiplier of the slabs' widths (not of the allowance for the size of a cell); 1 is the theorem.
      num_moments: powers 1, 2, 4, ... of the value.
      num_groups: of variances.
      cells: along each axis of the box; 64, 32, 12 in dimension 1, 2, 3 if not given.
      num_directions: of the half sphere; 1, 16, 64 if not given.
      num_scales: ``L + 2`` if not given. Fewer moments, groups, directions or scales give a larger set, as valid.
      every: episodes between two looks at the net.
      ties: ``random`` or ``lowest`` action, among those within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    Raises:
      ValueError: for d above 3, with the size that the net would have.

    References:
      Kim, Yang, Jun (2022), Improved regret analysis for variance-adaptive linear bandits and horizon-free linear
      mixture MDPs.

    Deviations:
      As for :func:`jaxvar.var_lin`. The printed iota is that of :func:`jaxvar.voful2` with K H steps for K rounds.
    """
    num_episodes = checks.parameter("num_episodes", num_episodes)
    if num_scales is None:
        steps = 2.0 ** netted.log2_of(num_episodes) * checks.count("horizon", horizon)
        num_scales = max(1, math.floor(math.log2(1 + steps / checks.count("dim", dim)))) + 2
    shared = netted_episodes.parameters(
        dim,
        horizon,
        num_episodes,
        checks.count("num_scales", num_scales),
        norm_bound,
        delta,
        test,
        beta_scale,
        num_moments,
        num_groups,
        cells,
        num_directions,
        every,
        ties,
        tie_tolerance,
    )
    return VarLin2(**shared)
