"""How to repeat and cite the study, and its whole configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxvar.report.grid import Grid
from jaxvar.report.markup import Html, label, tag
from jaxvar.report.outline import outline

_REPEAT = """\
import json, jaxvar as jv

study = jv.Study.from_config(json.load(open("study.json")))
jv.run_study(study, "again")"""


def section(grid: Grid, version: str) -> Html:
    """The section."""
    config = grid.result.config
    everything = tag("summary", "run.json: cells with every argument, versions and devices, checksums")
    return tag(
        "section",
        tag("h2", "Configuration"),
        *_repeat(config),
        tag("details", everything, tag("pre", outline(config), tabindex=0)),
        tag("p", "To cite: ", label(_citation(config, version)), class_="note"),
        id="configuration",
    )


def _repeat(config: Mapping[str, Any]) -> list[Html]:
    """The study itself, what to do with it, and what it ran on, as far as ``run.json`` says so."""
    parts = []
    if isinstance(config.get("study"), Mapping):
        parts += [
            tag("pre", outline(config["study"]), tabindex=0, id="study-definition"),
            tag("p", "To repeat the study, save the text above as ", tag("code", "study.json"), " and run"),
            tag("pre", _REPEAT, tabindex=0),
        ]
    runs = config.get("runs")
    if runs and isinstance(runs[-1], Mapping):
        told = ", ".join(f"{name} {value}" for name, value in runs[-1].items())
        parts.append(tag("p", "It was last run with ", label(told), "."))
    return parts


def _citation(config: Mapping[str, Any], version: str) -> str:
    identity = f", study {config['study_hash']}" if "study_hash" in config else ""
    return f"The jaxvar developers, jaxvar {version}{identity}."
