"""All algorithms for which something is claimed, in the order in which ``jaxvar list`` shows them."""

from __future__ import annotations

from jaxvar.algorithms import ave_ucb, oful, save, ucrl_ave, ucrl_vtr, var_lin, var_lin2, voful, voful2
from jaxvar.claims import Claim

CLAIMS: tuple[Claim, ...] = tuple(
    module.CLAIM for module in (oful, voful, voful2, save, ave_ucb, ucrl_vtr, var_lin, var_lin2, ucrl_ave)
)
