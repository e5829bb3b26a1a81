"""How to repeat and cite the study, and its whole configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxvar.report.grid import Grid
from jaxvar.report.markup import Html, label, tag

_REPEAT = """\
import json, jaxvar as jv

study = jv.Study.from_config(json.load(open("run.json"))["study"])
jv.run_study(study, "again")"""


def section(grid: Grid, version: str) -> Html:
    """The section."""
    config = grid.result.config
    written = json.dumps(config, indent=2, ensure_ascii=False, default=_plain)
    return tag(
        "section",
        tag("h2", "Configuration"),
        *_repeat(config),
        tag("details", tag("summary", "run.json"), tag("pre", written, tabindex=0), class_="print"),
        tag("p", "To cite: ", label(_citation(config, version)), class_="note"),
        id="configuration",
    )


def _repeat(config: Mapping[str, Any]) -> list[Html]:
    """What to do with ``run.json``, and what the study ran on, as far as it says so."""
    parts = []
    if isinstance(config.get("study"), Mapping):
        parts.append(tag("p", "To repeat the study, save the text below as ", tag("code", "run.json"), " and run"))
        parts.append(tag("pre", _REPEAT, tabindex=0))
    runs = config.get("runs")
    if runs and isinstance(runs[-1], Mapping):
        told = ", ".join(f"{name} {value}" for name, value in runs[-1].items())
        parts.append(tag("p", "It was last run with ", label(told), "."))
    return parts


def _citation(config: Mapping[str, Any], version: str) -> str:
    identity = f", study {config['study_hash']}" if "study_hash" in config else ""
    return f"The jaxvar developers, jaxvar {version}{identity}."


def _plain(value: Any) -> Any:
    """Whatever JSON does not know: NumPy's numbers as numbers, the rest as text."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
