"""How to repeat and cite the study, and its whole configuration."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from jaxvar.report.grid import Grid
from jaxvar.report.markup import Html, tag


def section(grid: Grid, version: str) -> Html:
    """The section."""
    written = json.dumps(grid.result.config, indent=2, ensure_ascii=False, default=_plain)
    return tag(
        "section",
        tag("h2", "Configuration"),
        tag("p", "Everything needed to repeat the study, as its folder holds it:"),
        tag("details", tag("summary", "run.json"), tag("pre", written, tabindex=0), class_="print"),
        tag("p", f"Page made by jaxvar {version}.", class_="note"),
        id="configuration",
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value)
