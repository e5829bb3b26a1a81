"""All algorithms for which something is claimed, in the order in which ``jaxvar list`` shows them."""

from __future__ import annotations

from jaxvar.algorithms import (
    ave_ucb,
    confidence_ball,
    cw_oful,
    fgts_va,
    hf_ucrl_vtr_plus,
    lin_ts,
    lin_vdts,
    lofav,
    losan,
    oful,
    save,
    sup_lin_ucb,
    ucrl_ave,
    ucrl_vtr,
    ucrl_vtr_plus,
    ucrl_wvtr,
    var_lin,
    var_lin2,
    voful,
    voful2,
    weighted_lin_ts,
    weighted_oful,
    weighted_oful_plus,
)
from jaxvar.claims import Claim

_MODULES = (
    # Table 1, in its order
    confidence_ball,
    oful,
    weighted_oful,
    weighted_oful_plus,
    voful,
    voful2,
    save,
    # bandits that are not in it
    sup_lin_ucb,
    ave_ucb,
    cw_oful,
    losan,
    lofav,
    lin_ts,
    weighted_lin_ts,
    lin_vdts,
    fgts_va,
    # Table 2, in its order
    ucrl_vtr,
    ucrl_vtr_plus,
    var_lin,
    var_lin2,
    hf_ucrl_vtr_plus,
    ucrl_ave,
    # episodes, not in it
    ucrl_wvtr,
)
CLAIMS: tuple[Claim, ...] = tuple(module.CLAIM for module in _MODULES)
