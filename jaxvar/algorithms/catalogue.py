"""All algorithms for which something is claimed, in the order in which ``jaxvar list`` shows them."""

from __future__ import annotations

from jaxvar.algorithms import (
    ave_ucb,
    confidence_ball,
    cw_oful,
    oful,
    save,
    sup_lin_ucb,
    ucrl_ave,
    ucrl_vtr,
    weighted_oful,
    weighted_oful_plus,
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
    confidence_ball,
    oful,
    sup_lin_ucb,
    cw_oful,
    weighted_oful,
    weighted_oful_plus,
    save,
    ave_ucb,
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
    hf_ucrl_vtr_plus,
    oful,
    save,
    ucrl_ave,
    ucrl_vtr,
    ucrl_vtr_plus,
    ucrl_wvtr,
)
from jaxvar.claims import Claim

CLAIMS: tuple[Claim, ...] = tuple(
    module.CLAIM
    for module in (
        oful,
        save,
        ave_ucb,
        ucrl_vtr,
        ucrl_vtr_plus,
        hf_ucrl_vtr_plus,
        ucrl_ave,
        ucrl_wvtr,
    )
from jaxvar.algorithms import ave_ucb, oful, save, ucrl_ave, ucrl_vtr, var_lin, var_lin2, voful, voful2
from jaxvar.claims import Claim

CLAIMS: tuple[Claim, ...] = tuple(
    module.CLAIM for module in (oful, voful, voful2, save, ave_ucb, ucrl_vtr, var_lin, var_lin2, ucrl_ave)
)
