"""What is audited by default: the cases of each group, as calls that make findings."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from jaxvar import constants as presets
from jaxvar import parameters, random
from jaxvar.algorithms.save import save
from jaxvar.algorithms.ucrl_ave import ucrl_ave
from jaxvar.audit import bandit, layers, martingales, mixture, one_layer, recursion
from jaxvar.audit.statement import LEAST_SEEDS, Finding
from jaxvar.environments import noise
from jaxvar.environments.linear_bandit import linear_bandit
from jaxvar.environments.random_mdp import mixture_mdp

Run = Callable[[], list[Finding]]
GROUPS = ("martingales", "layer", "save", "episodes")
DEEP = 6  # the layer that is filled by itself
_FILL = 34  # its updates for each round of the other groups
_EPISODE = 10  # rounds of the other groups for each episode, and steps in it
_SPENT = 10  # episodes get a tenth of delta: their theorem spends it some sixty times


class Case(NamedTuple):
    """One call."""

    group: str
    run: Run


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is played."""

    seeds: int = 2000
    rounds: int = 2000
    delta: float = 0.1
    seed_key: int = 0

    def __post_init__(self) -> None:
        parameters.check_count("seeds", self.seeds, low=LEAST_SEEDS)
        parameters.check_count("rounds", self.rounds, low=_EPISODE)
        parameters.check_number("delta", self.delta, low=0, high=1, low_open=True, high_open=True)
        parameters.check_count("seed_key", self.seed_key, low=0, high=2**32 - 1)


def cases(size: Size, wanted: tuple[str, ...] = ()) -> list[Case]:
    """Those with one of the ``wanted`` groups or statements; all where nothing is named."""
    known = keys(size)
    for name in wanted:
        parameters.check_choice("statements", name, (*GROUPS, *sorted(set().union(*known.values()))))
    makers = dict(zip(GROUPS, (_streams, _layer, _save, _episodes), strict=True))
    chosen = [g for g in GROUPS if not wanted or g in wanted or known[g] & set(wanted)]
    return [Case(group, run) for group in chosen for run in makers[group](size)]


def keys(size: Size) -> dict[str, set[str]]:
    """The names of the statements of each group."""
    orders = recursion.orders(size.rounds // _EPISODE, _EPISODE)
    radii, delta = tuple(layers.judged("bandit")), size.delta
    made: tuple[Any, ...] = (
        martingales.statements(martingales.STREAMS[0], delta),
        one_layer.statements(layers.judged("bandit"), delta),
        bandit.statements(radii, delta, True),
        mixture.statements(radii, delta / _SPENT, True, orders),
    )
    found = {group: {s.key for s in some} for group, some in zip(GROUPS, made, strict=True)}
    return {group: some | ({"theorem"} if group in ("save", "episodes") else set()) for group, some in found.items()}


def _key(size: Size, group: str) -> jax.Array:
    return random.fold_in(jax.random.key(size.seed_key), GROUPS.index(group))


def _streams(size: Size) -> list[Run]:
    shared: dict[str, Any] = {"num_seeds": size.seeds, "num_rounds": size.rounds, "delta": size.delta}
    key = _key(size, "martingales")
    return [
        functools.partial(martingales.audit_stream, stream, key=random.fold_in(key, i), **shared)
        for i, stream in enumerate(martingales.STREAMS)
    ]


def _layer(size: Size) -> list[Run]:
    shared: dict[str, Any] = {"num_seeds": size.seeds, "num_rounds": _FILL * size.rounds, "delta": size.delta}
    return [functools.partial(one_layer.audit_layer, key=_key(size, "layer"), number=DEEP, **shared)]


def played(setting: str) -> dict[str, tuple[presets.RadiusConstants, bool]]:
    """The radii that are played with, and whether each is proved; without their labels, so that programs are shared."""
    radii = {
        "paper": (presets.paper(setting=setting), True),
        "tight": (presets.tight(), True),
        "practical": (presets.practical(setting=setting), False),
    }
    return {n: (dataclasses.replace(c, label="audited", setting="any"), proved) for n, (c, proved) in radii.items()}


def _save(size: Size) -> list[Run]:
    made: list[Run] = []
    for name, std, bound in (("loud", 0.3, 1.0), ("quiet", 0.003, 0.01)):
        environment = linear_bandit(2, 8, noise=noise.sparse(std, bound))
        for radius, (constants, is_proved) in played("bandit").items():
            algorithm = save(2, size.rounds, noise_bound=bound, delta=size.delta, constants=constants, capacity=6)
            shared: dict[str, Any] = {"num_seeds": size.seeds, "num_rounds": size.rounds, "is_proved": is_proved}
            case, key = f"{name} noise, {radius} radius", _key(size, "save")
            made.append(functools.partial(bandit.audit_save, algorithm, environment, case=case, key=key, **shared))
    return made


def _episodes(size: Size) -> list[Run]:
    made: list[Run] = []
    environment = mixture_mdp(4, 2, 2, _EPISODE, concentration=0.5)
    for radius, (constants, is_proved) in played("episodes").items():
        num = size.rounds // _EPISODE
        numbers: dict[str, Any] = {"norm_bound": environment.norm_bound, "delta": size.delta / _SPENT, "capacity": 6}
        algorithm = ucrl_ave(2, _EPISODE, num, constants=constants, **numbers)
        shared: dict[str, Any] = {"num_seeds": size.seeds, "num_episodes": num, "is_proved": is_proved}
        case, key = f"random mixture, {radius} radius", _key(size, "episodes")
        made.append(functools.partial(mixture.audit_ucrl_ave, algorithm, environment, case=case, key=key, **shared))
    return made
