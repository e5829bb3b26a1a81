"""VarLin2 (Kim, Yang, Jun 2022) on a net, for linear mixture MDPs of two or three base models."""

from __future__ import annotations

from typing import Any

from jaxvar.algorithms.netted import fine_iota, fine_scales, log2_of
from jaxvar.algorithms.var_lin import VarLin
from jaxvar.claims import Claim
from jaxvar.parameters import count, factory, pytree

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
    row=4,
    assumption="homogeneous, rewards add up to at most 1",
)


@pytree
class VarLin2(VarLin):
    r"""VarLin2: the set of VarLin with more scales and other constants; what is new is how its regret is counted.

    **Setting, selection, update, set, state, cost.** Those of :func:`jaxvar.var_lin`, with the scales
    :math:`1, 1/2, \dots, 2^{-L-1}`, :math:`L = \max(1, \lfloor\log_2(1 + KH/d)\rfloor)`, and in the printed test

    .. math:: 4 c\,(\sqrt{\iota S} + l \iota), \qquad \iota = 128 \log\frac{(12 K H 2^L)^{d+2}}{\delta}

    With the tight test VarLin and VarLin2 differ in their number of scales alone.

    References:
      Kim, Yang, Jun (2022), Improved regret analysis for variance-adaptive linear bandits and horizon-free linear
      mixture MDPs.

    Deviations:
      As for :func:`jaxvar.var_lin`. The printed iota is that of :func:`jaxvar.voful2` with K H steps for K rounds.

    Raises:
      ValueError: for d above 3, with the size that the net would have.
    """

    num_scales: int = count(
        default=None,
        rule=lambda self: fine_scales(2.0 ** log2_of(self.num_episodes) * self.horizon, self.dim),
        doc="``L + 2`` if not given. Fewer moments, groups, directions or scales give a larger set, as valid.",
    )

    @property
    def iota(self) -> Any:
        """The logarithmic factor of the printed test."""
        return fine_iota(self.num_episodes * self.horizon, self.dim, self.delta)


var_lin2 = factory(VarLin2)
