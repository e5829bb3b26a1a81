"""Claims about algorithms: the columns of the paper's two comparison tables, as data.

An algorithm's file has a ``CLAIM``, or one for each of its algorithms in ``CLAIMS``. They are collected by
:mod:`jaxvar.algorithms.catalogue` and printed by ``jaxvar list``. Bounds hide logarithms. In a bandit, ``sum sigma^2``
is the total noise variance; in episodes ``Var*`` is that of the optimal policy, and rewards add up to at most 1.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Literal

Setting = Literal["bandit", "duels", "episodes"]  # how a game is played
Section = Literal[  # what is known of the problem
    "linear bandit",
    "logistic bandit",
    "K-armed bandit",
    "duels",
    "linear mixture MDP",
    "tabular MDP",
    "linear MDP",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """One row of a comparison table.

    The catalogue fills in the factory, the setting and the table, and the section and what is told where these are not
    given. Where ``deterministic`` is not given, it is the rest of a bound that depends on the variance, the same bound
    where the variance is not used, and else not claimed.
    """

    name: str = dataclasses.field(kw_only=False)  # as in print, "Weighted OFUL+"
    factory: str = ""  # as in jaxvar, "weighted_oful_plus"
    reference: str = dataclasses.field(kw_only=False)  # authors and year
    setting: Setting = "bandit"
    section: Section | Literal[""] = ""  # of the list; "linear bandit", "duels" or "linear mixture MDP" if not given
    regret: str = dataclasses.field(kw_only=False)  # in general, "d sqrt(sum sigma^2) + d"
    deterministic: str = ""  # without noise, "d"; "none claimed" where the source says nothing
    told: str = ""  # beside sizes and variances, "K, R, delta"; by the factory's parameters if not given
    # Whether the algorithm uses the noise variance, and when it must be told.
    variance: Literal["not used", "told before the pull", "told after the pull", "estimated"] = "estimated"
    efficient: bool = True  # polynomial time
    # How sure we are of the constants: read in the source, derived again from results that were read, or reconstructed.
    constants: Literal["read", "derived again", "reconstructed"]
    table: Literal[1, 2] | None = None  # the paper's table that has this row, if one does
    row: int = 0  # its place there, from 1
    assumption: str = ""  # of the source, where it differs between rows: "sum of rewards at most H"
    printed: str = ""  # what the paper's table prints where that is a slip, and why it is one

    def __post_init__(self) -> None:
        if not self.deterministic:
            rest, depends = re.subn(r".*sqrt\((sum sigma\^2|Var\*)\) \+ ", "", self.regret)
            known = rest if depends or self.variance == "not used" else "none claimed"
            object.__setattr__(self, "deterministic", known)
