"""All algorithms for which something is claimed, in the order in which ``jaxvar list`` shows them."""

from __future__ import annotations

from jaxvar.algorithms import (
    ave_ucb,
    fgts_va,
    lin_ts,
    lin_vdts,
    lofav,
    losan,
    oful,
    save,
    ucrl_ave,
    ucrl_vtr,
    weighted_lin_ts,
)
from jaxvar.claims import Claim

_MODULES = (
    oful,
    save,
    ave_ucb,
    losan,
    lofav,
    lin_ts,
    weighted_lin_ts,
    lin_vdts,
    fgts_va,
    ucrl_vtr,
    ucrl_ave,
)
CLAIMS: tuple[Claim, ...] = tuple(module.CLAIM for module in _MODULES)
