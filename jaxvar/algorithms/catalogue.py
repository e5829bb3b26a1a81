"""All algorithms for which something is claimed, found by looking: a file with a ``CLAIM`` in this folder is one.

``jaxvar`` exports their factories, ``jaxvar list`` prints their claims, and tests and benchmarks go over them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from jaxvar import algorithms
from jaxvar.claims import Claim


def _found() -> dict[Claim, Callable[..., Any]]:
    """Each claim with its factory: the rows of the paper's tables in their order, then the others by name."""
    found = {}
    for info in pkgutil.iter_modules(algorithms.__path__):
        module = importlib.import_module(f"{algorithms.__name__}.{info.name}")
        claim = getattr(module, "CLAIM", None)
        if claim is not None:
            found[claim] = getattr(module, claim.factory)
    order = sorted(found, key=lambda claim: (claim.setting, claim.table or 9, claim.row, claim.name))
    return {claim: found[claim] for claim in order}


_FOUND = _found()
CLAIMS: tuple[Claim, ...] = tuple(_FOUND)
FACTORIES: dict[str, Callable[..., Any]] = {claim.factory: make for claim, make in _FOUND.items()}
