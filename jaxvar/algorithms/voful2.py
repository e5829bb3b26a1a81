"""VOFUL2 (Kim, Yang, Jun 2022) on a net, for two or three dimensions."""

from __future__ import annotations

from typing import Any

from jaxvar.algorithms.netted import fine_iota, fine_scales, log2_of
from jaxvar.algorithms.voful import Voful
from jaxvar.claims import Claim
from jaxvar.parameters import count, factory, pytree

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
    row=6,
    printed="d^5 without noise: the entries of VOFUL and VOFUL2 are swapped, as their general bounds show",
)


@pytree
class Voful2(Voful):
    r"""VOFUL2: the set of VOFUL with other scales and constants; what is new is how its regret is counted.

    **Setting, set, state, selection, update, cost.** Those of :func:`jaxvar.voful`, with the scales
    :math:`1, 1/2, \dots, 2^{-L-1}`, :math:`L = \max(1, \lfloor\log_2(1 + K/d)\rfloor)`, and in the printed test

    .. math:: T \le c\,(\sqrt{\iota V} + l R \iota), \qquad \iota = 128 \log\frac{(12 K 2^L)^{d+2}}{\delta}

    At d = 2, K = 2000 and delta = 0.05 this iota is 8.7e3: the printed test then drops nothing before some 10^5 rounds.
    With the tight test VOFUL and VOFUL2 differ in their number of scales alone.

    References:
      Kim, Yang, Jun (2022), Improved regret analysis for variance-adaptive linear bandits and horizon-free linear
      mixture MDPs.

    Deviations:
      As for :func:`jaxvar.voful`. Directions of the ball of radius 2 with scales ``2^-l`` become unit directions; those
      of norm 2, 1 and 1/2 have the scales ``2^(-l-1)``, ``2^-l`` and ``2^(1-l)``, of which 1 is the largest that clips.

    Raises:
      ValueError: for d above 3, with the size that the net would have.
    """

    num_scales: int = count(
        default=None,
        rule=lambda self: fine_scales(2.0 ** log2_of(self.num_rounds), self.dim),
        doc="``L + 2`` if not given. Fewer directions or scales give a larger set, as valid.",
    )

    @property
    def iota(self) -> Any:
        """The logarithmic factor of the printed test."""
        return fine_iota(self.num_rounds, self.dim, self.delta)


voful2 = factory(Voful2)
