"""The bank: the instances on which the confidence event is counted, and who plays them.

Everything is written as a study writes it, in names and numbers, so that a preset can list all of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxvar import parameters
from jaxvar.constants import SETTINGS
from jaxvar.environments.interface import Environment, EpisodicEnvironment
from jaxvar.study.cells import jsonable
from jaxvar.study.factories import Built, build, public_factories

Options = Mapping[str, object]  # as a study writes them

# The empirical variance decides in every layer past the switch; before it, R^2 sum w^2 does.
# Every constant is given here, since those of the preset come from what is found.
SHAPE: Options = {
    "preset": "practical",
    "sqrt_coef": 3.15,
    "emp_coef": 2.0,
    "log_coef": 0.125,
    "floor_coef": 0.0,
    "cross_coef": 0.0,
    "range_coef": 1.73,
    "bias_coef": 1.0,
    "initial_coef": 2.0,
    "log_shift": 0.0,
    "fallback_count": 0.0,
    "fallback_weight": 1.0,
    "fallback_log": 0.0,
    "fallback_floor": 0.0,
    "fallback_cross": 0.0,
}
SWITCHES = (0.0, 12.6)  # none, and the smallest that is proved; the printed 64 is past every layer reached as well


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One algorithm on one instance."""

    player: str
    instance: str
    algorithm: Any  # has the constants of a radius
    environment: Environment | EpisodicEnvironment
    length: int  # rounds or episodes
    share: float  # of the seeds: less than 1 where a run takes long
    config: Options  # {"algorithm": {"name": ..., every argument but the constants}, "environment": ...}


class Instance(NamedTuple):
    """An environment, and what the algorithms are told of it."""

    label: str
    length: int
    environment: Options
    noise_bound: float | None = None  # R
    share: float = 1.0


def bank(
    setting: str, *, delta: float = 0.01, length: int | None = None, shape: Options | None = None
) -> tuple[Case, ...]:
    """Return every case of a setting.

    Args:
      setting: ``bandit`` or ``episodes``.
      delta: the failure probability the algorithms are given.
      length: rounds or episodes; those of each instance if not given.
      shape: the constants, as a study writes them; those of ``practical`` if not given.
    """
    instances = _INSTANCES[parameters.check_choice("setting", setting, SETTINGS)]
    if length is not None:
        parameters.check_count("rounds", length)
    return tuple(
        _case(player, options, instance._replace(length=length or instance.length), delta, shape or SHAPE)
        for instance in instances
        for player, options in _PLAYERS[setting].items()
    )


def _case(player: str, options: Options, instance: Instance, delta: float, shape: Options) -> Case:
    """Build an algorithm, and tell it what it may know of the instance."""
    factory = public_factories()[str(options["name"])]
    (setting,) = factory.kinds
    length = {"num_rounds" if setting == "bandit" else "num_episodes": instance.length}
    environment = _build(instance.environment, length)
    told = {name: getattr(environment.target, name) for name in ("dim", "horizon") if name in factory.parameters}
    if setting == "bandit":
        told["noise_bound"] = instance.noise_bound
    else:
        told["norm_bound"] = float(environment.target.norm_bound)
    algorithm = _build({**options, **told, "delta": delta, "constants": shape}, length)
    listed = {name: value for name, value in algorithm.config.items() if name != "constants"}
    config = jsonable({"algorithm": listed, "environment": environment.config})
    return Case(player, instance.label, algorithm.target, environment.target, instance.length, instance.share, config)


def _build(options: Options, known: Options) -> Built:
    arguments = {name: value for name, value in options.items() if name != "name"}
    return build(public_factories()[str(options["name"])], arguments, known)


_PLAYERS: Mapping[str, Mapping[str, Options]] = {
    "bandit": {
        "SAVE, widest": {"name": "save", "explore": "widest"},
        "SAVE, optimistic": {"name": "save", "explore": "optimistic"},
        "AVE-UCB": {"name": "ave_ucb"},
    },
    "episodes": {"UCRL-AVE": {"name": "ucrl_ave"}},
}


def _arms(dim: int, num_arms: int, noise: Options, **more: object) -> Options:
    return {"name": "linear_bandit", "dim": dim, "num_arms": num_arms, "noise": noise, **more}


def _two_point(std: float | Options) -> Options:
    return {"name": "two_point", "std": std}


def _river(num_states: int, horizon: int, features: str) -> Options:
    return {"name": "riverswim", "num_states": num_states, "horizon": horizon, "features": features}


def _model(name: str, dim: int, **more: object) -> Options:
    return {"name": name, "num_states": 6, "num_actions": 4, "dim": dim, "horizon": 10, **more}


_BURSTS = {"name": "bursts", "high": 1.0, "low": 0.05, "period": 200, "length": 20}
_LEVELS = {"name": "two_level", "high": 1.0, "low": 0.05, "prob_high": 0.1}
_REWARD = 0.4  # of the lower-bound instance with 4 + 1 coordinates: arms have the norm 0.4 sqrt 5, below 1
_CUBE = {"name": "hypercube_bandit", "cube_dim": 4, "level": _REWARD, "gap_multiplier": 5.0}
_CORNERS = {"arms": "hypercube"}

_INSTANCES: Mapping[str, tuple[Instance, ...]] = {
    "bandit": (
        Instance("d = 2, noise at R", 20_000, _arms(2, 10, _two_point(1.0)), 1.0),  # decides, and more so when longer
        Instance("d = 5, noise at R", 2000, _arms(5, 20, _two_point(1.0)), 1.0),
        Instance("d = 20, noise at R", 2000, _arms(20, 40, _two_point(1.0)), 1.0),
        Instance("d = 5, R = 10 noise", 2000, _arms(5, 20, _two_point(0.1)), 1.0),
        Instance("d = 5, R = 100 noise", 2000, _arms(5, 20, _two_point(0.01)), 1.0),
        Instance("d = 5, no noise", 2000, _arms(5, 20, _two_point(0.0)), 1.0),
        Instance("d = 5, rare noise of size R", 2000, _arms(5, 20, {"name": "sparse", "std": 0.1, "bound": 1.0}), 1.0),
        Instance("d = 5, bursts", 2000, _arms(5, 20, _two_point(_BURSTS)), 1.0),
        Instance("d = 5, two noise levels", 2000, _arms(5, 20, _two_point(_LEVELS)), 1.0),
        Instance("d = 5, fresh arms", 2000, _arms(5, 10, _two_point(0.3), fresh=True), 0.3),
        Instance("d = 6, hypercube arms", 2000, _arms(6, 32, {"name": "uniform", "std": 0.5}, **_CORNERS), 1.0),
        Instance("d = 5, lower-bound cube", 2000, _CUBE, _REWARD),
    ),
    "episodes": (
        Instance("mixture, d = 4", 1000, _model("mixture_mdp", 4, concentration=0.02)),
        Instance("mixture, d = 8, sparse", 1000, _model("mixture_mdp", 8, concentration=0.3, reward="sparse")),
        Instance("graded, d = 4, certain", 1000, _model("graded_mdp", 4, mix=0.0)),
        Instance("graded, d = 4, noisy", 1000, _model("graded_mdp", 4, mix=0.3)),
        Instance("lower bound, d = 4", 1000, {"name": "horizon_free_mdp", "dim": 4, "horizon": 5, "gap": 0.05}),
        Instance("RiverSwim, d = 3", 1000, _river(5, 20, "mixture")),
        Instance("tabular RiverSwim, d = 8", 1000, _river(2, 10, "tabular")),
        Instance("tabular RiverSwim, d = 18", 2000, _river(3, 10, "tabular")),
    ),
}
