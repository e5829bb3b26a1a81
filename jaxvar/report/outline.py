"""JSON that people read: what fits on a line stays on one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

_WIDTH = 100


def outline(value: Any, indent: str = "") -> str:
    """``value`` as JSON, broken into lines only where it is longer than one."""
    flat = json.dumps(value, ensure_ascii=False, default=_plain)
    inner = indent + "  "
    if len(indent) + len(flat) <= _WIDTH or not value or not isinstance(value, Mapping | list | tuple):
        return flat
    if isinstance(value, Mapping):
        parts = [f"{inner}{json.dumps(str(k), ensure_ascii=False)}: {outline(v, inner)}" for k, v in value.items()]
    else:
        parts = [inner + outline(v, inner) for v in value]
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    return opening + "\n" + ",\n".join(parts) + f"\n{indent}{closing}"


def _plain(value: Any) -> Any:
    """Whatever JSON does not know: mappings as tables, NumPy's numbers as numbers, the rest as text."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
