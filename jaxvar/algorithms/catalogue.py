"""The catalogue of algorithms: those of every file in this folder that has a ``CLAIM`` or ``CLAIMS``.

``jaxvar`` exports their factories, ``jaxvar list`` prints their claims, and tests and benchmarks go over them.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

from jaxvar import algorithms
from jaxvar.claims import Claim, Section, Setting

# The section of a claim that names none.
_USUAL: dict[Setting, Section] = {"bandit": "linear bandit", "duels": "duels", "episodes": "linear mixture MDP"}
# Parameters that say something of the problem, beside its sizes, as `jaxvar list` calls them.
_TOLD = {
    "num_rounds": "K",
    "num_episodes": "K",
    "horizon": "H",
    "noise_bound": "R",
    "theta_bound": "B",
    "norm_bound": "B",  # in episodes; of arms in bandits
    "value_bound": "v",
    "delta": "delta",
}


def _found() -> dict[Claim, Callable[..., Any]]:
    """Return each claim with its factory: the rows of the paper's tables in their order, then the others by name."""
    found = {}
    for info in pkgutil.iter_modules(algorithms.__path__):
        module = importlib.import_module(f"{algorithms.__name__}.{info.name}")
        claims: dict[str, Claim] = dict(getattr(module, "CLAIMS", {}))
        if hasattr(module, "CLAIM"):
            claims[module.CLAIM.factory or info.name] = module.CLAIM
        for name, claim in claims.items():
            make = getattr(module, name)
            signature = inspect.signature(make)
            made = signature.return_annotation
            setting: Setting = "episodes" if hasattr(made, "plan") else "duels" if hasattr(made, "pair") else "bandit"
            asked = set(signature.parameters) - ({"norm_bound"} if setting == "bandit" else set())
            filled = dataclasses.replace(
                claim,
                factory=name,
                setting=setting,
                table=(2 if setting == "episodes" else 1) if claim.row else None,
                section=claim.section or _USUAL[setting],
                told=claim.told or ", ".join(symbol for name, symbol in _TOLD.items() if name in asked),
            )
            found[filled] = make
    order = sorted(found, key=lambda claim: (claim.setting, claim.table or 9, claim.row, claim.name))
    return {claim: found[claim] for claim in order}


_FOUND = _found()
CLAIMS: tuple[Claim, ...] = tuple(_FOUND)
FACTORIES: dict[str, Callable[..., Any]] = {claim.factory: make for claim, make in _FOUND.items()}
