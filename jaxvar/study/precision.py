"""Float64 or float32 for a while, without a switch left flipped."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.experimental

PRECISIONS = ("float64", "float32")


def in_precision(precision: str) -> contextlib.AbstractContextManager[None]:
    """Within it, numbers are made and programs are compiled in ``precision``."""
    home: Any = jax if hasattr(jax, "enable_x64") else jax.experimental  # where it is, and where it was
    return home.enable_x64(precision == "float64")
