"""A calibration as a file: a named preset with everything needed to repeat it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax

from jaxvar.calibration.evidence import Calibration, Played, Swept
from jaxvar.files import write_whole
from jaxvar.parameters import float_dtype
from jaxvar.study.store import now, this_run

FORMAT = 1


def to_json(calibration: Calibration, switch: float, command: str) -> dict[str, Any]:
    """The preset with one of the switches that were tried, and its provenance."""
    scale = calibration.multiplier(switch)
    if scale is None:
        raise ValueError(f"switch must be one at which some multiplier passed, got {switch!r}")
    return {
        "format": FORMAT,
        "claim": calibration.is_claim,
        "constants": {"beta_scale": scale, "switch": switch, **calibration.shape},
        "multipliers": [
            {"switch": s, "beta_scale": calibration.multiplier(s), "smaller_ones_untried": calibration.is_least(s)}
            for s in calibration.switches
        ],
        "command": command,
        "created": now(),
        "versions": this_run(jax.devices(), str(float_dtype())),
        "calibration": dataclasses.asdict(calibration),
    }


def write_preset(path: Path, preset: dict[str, Any]) -> Path:
    """Write a preset, whole or not at all."""
    text = json.dumps(preset, indent=1, ensure_ascii=True, allow_nan=False)
    return write_whole(path, lambda buffer: buffer.write(text.encode() + b"\n"))


def read_calibration(path: Path) -> Calibration:
    """The counts behind a preset that was written."""
    found = json.loads(path.read_text())
    if found.get("format") != FORMAT:
        raise ValueError(f"{path} has the format {found.get('format')!r}, and this version of jaxvar reads {FORMAT}")
    table = found["calibration"]
    cases = tuple(Played(**case) for case in table["cases"])
    runs = tuple(Swept(**{**r, "scales": tuple(r["scales"]), "held": tuple(r["held"])}) for r in table["runs"])
    return Calibration(**{**table, "cases": cases, "runs": runs})
