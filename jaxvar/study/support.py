"""Which recorders an algorithm and an environment can serve, known before anything is traced."""

from __future__ import annotations

import typing
from typing import Any

from jaxvar.environments.replay import ReplayBandit
from jaxvar.game import is_episodic


def unsupported(recorder: str, algorithm: Any, environment: Any) -> str | None:
    """Why the recorder of this name cannot be used here; None where it can."""
    if recorder == "confidence":
        if not hasattr(algorithm, "confidence"):
            return "the algorithm has no confidence sets of that form"
        if isinstance(environment, ReplayBandit) and environment.theta_star is None:
            return "the environment was given no theta_star"
    if recorder == "layer_rounds" and not hasattr(algorithm, "capacity"):
        return "the algorithm has no layers"
    if recorder in ("optimism", "value_variance"):
        if not is_episodic(environment):
            return "it belongs to episodes"
        if not _plans_values(algorithm):
            return "the algorithm plans without values"
    return None


def _plans_values(algorithm: Any) -> bool:
    plan = typing.get_type_hints(type(algorithm).plan)["return"]
    return "value" in getattr(plan, "_fields", ())
