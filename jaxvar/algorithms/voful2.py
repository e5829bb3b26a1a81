"""VOFUL2 (Kim, Yang, Jun 2022) on a net, for two or three dimensions."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from jaxvar import checks
from jaxvar.algorithms import netted
from jaxvar.claims import Claim
from jaxvar.pytrees import pytree

CLAIM = Claim(
    name="VOFUL2",
    factory="voful2",
    reference="Kim, Yang, Jun 2022",
    setting="bandit",
    regret="d^1.5 sqrt(sum sigma^2) + d^2",
    deterministic="d^2",
    variance="estimated",
    efficient=False,
    constants="reconstructed",
    table=1,
    printed="d^5 without noise: the entries of VOFUL and VOFUL2 are swapped, as their general bounds show",
)


@pytree
class Voful2(netted.NettedBandit):
    """VOFUL2; built by :func:`voful2`."""

    @property
    def iota(self) -> Any:
        """``128 log((12 K 2^L)^(d + 2) / delta)`` with ``L = max(1, floor(log2(1 + K / d)))``."""
        finest = jnp.maximum(jnp.floor(jnp.log2(1 + self.num_rounds / self.dim)), 1)
        inner = jnp.log(12 * self.num_rounds) + finest * math.log(2)
        return 128 * ((self.dim + 2) * inner - jnp.log(self.delta))


def voful2(
    dim: int,
    num_rounds: Any,
    *,
    noise_bound: Any = 1.0,
    theta_bound: Any = 1.0,
    delta: Any = 0.01,
    test: str = "tight",
    beta_scale: Any = 1.0,
    cells: int | None = None,
    num_directions: int | None = None,
    num_scales: int | None = None,
    every: int = 16,
    ties: str = "random",
    tie_tolerance: Any = None,
) -> Voful2:
    r"""VOFUL2: the set of VOFUL with other scales and constants; what is new is how its regret is counted.

    **Setting, set, state, selection, update, cost.** Those of :func:`jaxvar.voful`, with the scales
    :math:`1, 1/2, \dots, 2^{-L-1}`, :math:`L = \max(1, \lfloor\log_2(1 + K/d)\rfloor)`, and in the printed test

    .. math:: T \le c\,(\sqrt{\iota V} + l R \iota), \qquad \iota = 128 \log\frac{(12 K 2^L)^{d+2}}{\delta}

    At d = 2, K = 2000 and delta = 0.05 this iota is 8.7e3: the printed test then drops nothing before some 10^5 rounds.
    With the tight test VOFUL and VOFUL2 differ in their number of scales alone.

    Args:
      dim: d, the length of an arm, at most 3.
      num_rounds: K, in iota and in how fine scales and exponents are; the run itself may be shorter.
      noise_bound: R, with \|noise\| <= R.
      theta_bound: B, a bound on the norm of theta*.
      delta: failure probability.
      test: ``tight`` or ``paper``.
      beta_scale: c, a multiplier of the tests' limits (not of the allowance for the size of a cell); 1 is the theorem.
      cells: along each axis of the box; 64, 32, 12 in dimension 1, 2, 3 if not given.
      num_directions: of the half sphere; 1, 16, 64 if not given.
      num_scales: ``L + 2`` if not given. Fewer directions or scales give a larger set, as valid.
      every: rounds between two looks at the net.
      ties: ``random`` or ``lowest`` index, among arms within ``tie_tolerance`` of the best.
      tie_tolerance: relative, 1e-9 in float64 and 1e-5 in float32 if not given.

    Returns:
      The algorithm, a pytree.

    Raises:
      ValueError: for d above 3, with the size that the net would have.

    References:
      Kim, Yang, Jun (2022), Improved regret analysis for variance-adaptive linear bandits and horizon-free linear
      mixture MDPs.

    Deviations:
      As for :func:`jaxvar.voful`. Directions of the ball of radius 2 with scales ``2^-l`` become unit directions; those
      of norm 2, 1 and 1/2 have the scales ``2^(-l-1)``, ``2^-l`` and ``2^(1-l)``, of which 1 is the largest that clips.
    """
    num_rounds = checks.parameter("num_rounds", num_rounds)
    if num_scales is None:
        num_scales = max(1, math.floor(_log2_ratio(num_rounds, checks.count("dim", dim)))) + 2
    shared = netted.parameters(
        dim,
        num_rounds,
        checks.count("num_scales", num_scales),
        noise_bound,
        theta_bound,
        delta,
        test,
        beta_scale,
        cells,
        num_directions,
        every,
        ties,
        tie_tolerance,
    )
    return Voful2(**shared)


def _log2_ratio(num_rounds: Any, dim: int) -> float:
    return math.log2(1 + 2.0 ** netted.log2_of(num_rounds) / dim)
