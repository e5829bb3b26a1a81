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
from jaxvar.claims import Claim


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
            claim = dataclasses.replace(claim, factory=name, table=1 if claim.row else None)
            if hasattr(inspect.signature(make).return_annotation, "plan"):
                claim = dataclasses.replace(claim, setting="episodes", table=2 if claim.row else None)
            elif hasattr(inspect.signature(make).return_annotation, "pair"):
                claim = dataclasses.replace(claim, setting="duels")
            found[claim] = make
    order = sorted(found, key=lambda claim: (claim.setting, claim.table or 9, claim.row, claim.name))
    return {claim: found[claim] for claim in order}


_FOUND = _found()
CLAIMS: tuple[Claim, ...] = tuple(_FOUND)
FACTORIES: dict[str, Callable[..., Any]] = {claim.factory: make for claim, make in _FOUND.items()}
