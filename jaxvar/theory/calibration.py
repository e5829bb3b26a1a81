"""Calibration: the smallest multiplier of the radius that keeps the confidence event as often as promised.

It is found over the bank of instances in ``bank.toml``. Two grids of multipliers are played: octaves first, then the
octave in which the verdict turns, with other seeds. A calibration is stored as a file: a named preset with everything
needed to repeat it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxvar import parameters, records
from jaxvar.analysis.intervals import Interval, proportion_interval
from jaxvar.constants import SETTINGS, number_names
from jaxvar.environments.interface import Environment, EpisodicEnvironment
from jaxvar.files import write_whole
from jaxvar.game import is_episodic
from jaxvar.parameters import float_dtype
from jaxvar.simulate import simulate, sweep
from jaxvar.study.cells import jsonable
from jaxvar.study.factories import Built, build, public_factories
from jaxvar.study.store import now, this_run

__all__ = ["Calibration", "Case", "Played", "Swept", "bank", "calibrate"]

FORMAT = 1  # of the file of a preset
OCTAVES = tuple(2.0**-i for i in range(1, 8))
MORE_OCTAVES = tuple(2.0**-i for i in range(-1, 11))  # for radii of an algorithm's own, some of which are far too large
SWITCHES = (0.0, 12.6)  # none, and the smallest that is proved; the printed 64 is past every layer reached as well
VARIED = ("beta_scale", "switch")
LEAST_SEEDS = 200  # of a claim

Options = Mapping[str, object]  # as a study writes them


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One algorithm on one instance."""

    player: str
    instance: str
    algorithm: Any  # has the constants of a radius, or a beta_scale of its own
    environment: Environment | EpisodicEnvironment
    length: int  # rounds or episodes
    share: float  # of the seeds: less than 1 where a run takes long
    config: Options  # {"algorithm": {"name": ..., every argument but the constants}, "environment": ...}


def bank(
    setting: str, *, delta: float = 0.01, length: int | None = None, shape: Options | None = None
) -> tuple[Case, ...]:
    """Return every case of a setting.

    Args:
      setting: ``bandit`` or ``episodes``, whose algorithms share constants; or an algorithm with a radius of its own.
      delta: the failure probability the algorithms are given.
      length: rounds or episodes; those of each instance if not given.
      shape: the constants, as a study writes them; those of ``practical`` if not given.
    """
    parameters.check_choice("setting", setting, (*SETTINGS, *alone()))
    found = bank_file()[alone().get(setting, setting)]
    players = found["players"] if setting in SETTINGS else {setting: found["players"][setting]}
    if length is not None:
        parameters.check_count("rounds", length)
    cases = []
    for instance in found["instances"]:
        rounds = length or instance["length"]
        given = {"num_rounds": rounds, "num_episodes": rounds}
        environment = _build(instance["environment"], given)
        for player, options in players.items():
            known = public_factories()[options["name"]].parameters
            told = {name: getattr(environment.target, name) for name in ("dim", "horizon") if name in known}
            told |= {name: instance[name] for name in ("noise_bound", "theta_bound") if name in instance}
            if is_episodic(environment.target) and "norm_bound" in known:
                told["norm_bound"] = float(environment.target.norm_bound)
            if "constants" in known:
                told["constants"] = shape or bank_file()["shape"]
            algorithm = _build({**options, **told, "delta": delta}, given)
            listed = {name: value for name, value in algorithm.config.items() if name != "constants"}
            config = jsonable({"algorithm": listed, "environment": environment.config})
            built = (algorithm.target, environment.target)
            cases.append(Case(player, instance["label"], *built, rounds, instance.get("share", 1.0), config))
    return tuple(cases)


@functools.cache
def bank_file() -> dict[str, Any]:
    """Return the tables of ``bank.toml``: the constants, and the players and instances of each setting."""
    return tomllib.loads(Path(__file__).with_name("bank.toml").read_text("utf-8"))


def alone() -> dict[str, str]:
    """Return the algorithms that are calibrated one by one, with the part of ``bank.toml`` that each belongs to."""
    parts = {name: part for name, part in bank_file().items() if name not in ("shape", *SETTINGS)}
    return {player: name for name, part in parts.items() for player in part["players"]}


def _build(options: Options, known: Options) -> Built:
    arguments = {name: value for name, value in options.items() if name != "name"}
    return build(public_factories()[str(options["name"])], arguments, known)


@dataclasses.dataclass(frozen=True)
class Played:
    """A case of the bank, as it was played."""

    player: str
    instance: str
    length: int  # rounds or episodes
    seeds: int  # in each point of each grid
    config: Options


@dataclasses.dataclass(frozen=True)
class Swept:
    """One case with one switch over one grid of multipliers."""

    case: int  # its place in the bank
    switch: float  # 0 where the algorithm has none
    first_seed: int
    scales: tuple[float, ...]
    held: tuple[int, ...]  # seeds in which the event held in all layers and rounds, one count per multiplier


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Counts over a bank, and the verdict.

    A multiplier passes where in every case the lower end of the Clopper-Pearson interval of the probability of the
    event is at least ``1 - delta``. Nothing is assumed of how this depends on the multiplier: the answer is the
    smallest one that was played such that it and all larger ones passed.

    How often the answer is too small: a multiplier that is too small in one case passes with probability at most
    ``(1 - level) / 2``, however many cases there are. Multipliers are taken from the largest down until one fails, so
    this is also the chance that a grid ends in one that is too small; with two grids, the second with seeds of its
    own, it is at most ``1 - level`` in all.
    """

    setting: str  # "bandit", "episodes", or an algorithm
    delta: float
    level: float
    key: int
    shape: Mapping[str, float]  # all constants but those varied: beta_scale and switch
    cases: tuple[Played, ...]
    runs: tuple[Swept, ...]

    @property
    def switches(self) -> tuple[float, ...]:
        """Switches that were tried."""
        return tuple(dict.fromkeys(run.switch for run in self.runs))

    @property
    def is_claim(self) -> bool:
        """True if there were seeds enough to conclude anything."""
        return min(case.seeds for case in self.cases) >= LEAST_SEEDS

    def of(self, switch: float, case: int | None = None) -> list[Swept]:
        """Return the runs with a switch, of all cases or of one."""
        return [run for run in self.runs if run.switch == switch and case in (None, run.case)]

    def multiplier(self, switch: float, case: int | None = None) -> float | None:
        """Return the answer for a switch, over all cases or in one; None if not even the largest multiplier passed."""
        return smallest(self.verdicts(switch, case))

    def is_least(self, switch: float, case: int | None = None) -> bool:
        """Return whether every multiplier that was played passed, so that smaller ones might."""
        return all(self.verdicts(switch, case).values())

    def verdicts(self, switch: float, case: int | None = None) -> dict[float, bool]:
        """Return whether each multiplier passed, wherever it was played."""
        found: dict[float, bool] = {}
        for run in self.of(switch, case):
            for scale, held in zip(run.scales, run.held, strict=True):
                passed = passes(held, self.cases[run.case].seeds, self.delta, self.level)
                found[scale] = found.get(scale, True) and passed
        return found

    def share(self, run: Swept, scale: float) -> Interval:
        """Return how often the event held, with its interval."""
        held = run.held[run.scales.index(scale)]
        return proportion_interval(held, self.cases[run.case].seeds, "share of seeds in which it held", self.level)


def passes(held: int, seeds: int, delta: float, level: float) -> bool:
    """Return whether the interval's lower end is at least ``1 - delta``."""
    return bool(proportion_interval(held, seeds, "", level).low >= 1 - delta)


def smallest(verdicts: Mapping[float, bool]) -> float | None:
    """Return the smallest multiplier such that it and all larger ones passed."""
    return min(itertools.takewhile(verdicts.__getitem__, sorted(verdicts, reverse=True)), default=None)


def seeds_needed(delta: float, level: float) -> int:
    """Return how many seeds pass if the event holds in all of them: fewer can show nothing."""
    parameters.check_number("delta", delta, low=0.0, high=1.0, low_open=True, high_open=True)
    parameters.check_number("level", level, low=0.0, high=1.0, low_open=True, high_open=True)
    least = math.ceil(math.log((1 - level) / 2) / math.log1p(-delta))
    return least if passes(least, least, delta, level) else least + 1  # rounding


def calibrate(
    cases: Sequence[Case],
    *,
    seeds: int,
    delta: float = 0.01,
    level: float = 0.95,
    scales: Sequence[float] = OCTAVES,
    switches: Sequence[float] = SWITCHES,
    key: int = 0,
    progress: bool = False,
) -> Calibration:
    """Count how often the confidence event held, for every case, switch and multiplier.

    Args:
      cases: the bank.
      seeds: per point; a case has its share of them.
      delta: how often the event may fail.
      level: level of the Clopper-Pearson intervals.
      scales: the multipliers of the first grid. The second has as many, so that one compiled program plays both.
      switches: from which layer on the empirical variance is used; each has a multiplier of its own.
      key: root of all random numbers.
      progress: show a progress bar.
    """
    from tqdm import tqdm

    scales = sorted(_numbers("scales", scales, low_open=True), reverse=True)
    switches = _numbers("switches", switches, low_open=False)
    if not cases:
        raise ValueError("cases must name at least one case, got none")
    counts = [max(1, round(case.share * parameters.check_count("seeds", seeds))) for case in cases]
    if min(counts) < (least := seeds_needed(delta, level)):
        raise ValueError(
            f"seeds must be at least {least} in every case for delta {delta:g} at the level {level:g}, "
            f"got {min(counts)}: fewer show nothing, even if the event always holds"
        )
    played = [
        Played(case.player, case.instance, case.length, count, case.config)
        for case, count in zip(cases, counts, strict=True)
    ]
    steps = sum(case.length * case.seeds for case in played) * len(scales) * len(switches)
    with tqdm(total=2 * steps, unit="seed-round", unit_scale=True, smoothing=0.1, disable=not progress) as bar:

        def add(found: Calibration, grids: Mapping[float, Sequence[float]], again: int) -> Calibration:
            runs = list(found.runs)
            for i, case in enumerate(cases):
                for switch, grid in grids.items():
                    runs.append(_play(i, case, switch, grid, counts[i], again * counts[i], key))
                    bar.update(case.length * counts[i] * len(grid))
            return dataclasses.replace(found, runs=tuple(runs))

        setting = "episodes" if is_episodic(cases[0].environment) else "bandit"
        if not hasattr(cases[0].algorithm, "constants"):
            setting = cases[0].player
        nothing = Calibration(setting, float(delta), float(level), key, _shape(cases), tuple(played), ())
        octaves = add(nothing, dict.fromkeys(switches, scales), again=0)
        finer = {switch: _finer(scales, octaves.multiplier(switch)) for switch in switches}
        return add(octaves, {switch: grid for switch, grid in finer.items() if grid}, again=1)


def _play(
    number: int, case: Case, switch: float, scales: Sequence[float], seeds: int, first_seed: int, key: int
) -> Swept:
    """Play a case with every multiplier, as one compiled program.

    The event is that the confidence sets hold theta*; where there are none, that all plans are optimistic.
    """
    episodic, has_sets = is_episodic(case.environment), hasattr(case.algorithm, "confidence")
    switches = {"switch": [switch]} if hasattr(case.algorithm, "constants") else {}
    out = simulate(
        sweep(case.algorithm, **switches, beta_scale=list(scales)),
        case.environment,
        key=jax.random.key(key),
        num_seeds=seeds,
        first_seed=first_seed,
        record_at=[case.length],
        recorders=(records.confidence() if has_sets else records.optimism(),),
        num_rounds=None if episodic else case.length,
        num_episodes=case.length if episodic else None,
    )
    out.raise_if_failed()
    held = np.all(out.confidence[:, :, -1], axis=2) if has_sets else out.records["optimistic"][:, :, -1] == case.length
    return Swept(number, switch, first_seed, tuple(scales), tuple(np.sum(held, axis=1).tolist()))


def _finer(scales: Sequence[float], found: float | None) -> tuple[float, ...]:
    """Return as many multipliers from ``found`` down to the next smaller one, left out; none if there is none."""
    if found is None or found == min(scales):
        return ()
    below = max(scale for scale in scales if scale < found)
    return tuple(float(found * (below / found) ** (i / len(scales))) for i in range(len(scales)))


def _shape(cases: Sequence[Case]) -> dict[str, float]:
    """Return the constants that all cases have in common; none where algorithms have a radius of their own."""
    if not any(hasattr(case.algorithm, "constants") for case in cases):
        return {}
    names = [name for name in number_names() if name not in VARIED]
    found = [{name: float(getattr(case.algorithm.constants, name)) for name in names} for case in cases]
    if any(other != found[0] for other in found):
        raise ValueError("cases must have the same constants but for beta_scale and switch, got different ones")
    return found[0]


def _numbers(name: str, values: Sequence[float], low_open: bool) -> list[float]:
    """Check a list of different numbers from 0 on."""
    found = [float(parameters.check_number(name, value, low=0.0, low_open=low_open)) for value in values]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"{name} must be a list of different numbers, got {values!r}")
    return found


def to_json(calibration: Calibration, switch: float, command: str) -> dict[str, object]:
    """Return the preset with one of the switches that were tried, and its provenance."""
    scale = calibration.multiplier(switch)
    if scale is None:
        raise ValueError(f"switch must be one at which some multiplier passed, got {switch!r}")
    return {
        "format": FORMAT,
        "claim": calibration.is_claim,
        "constants": {"beta_scale": scale, **({"switch": switch} if calibration.shape else {}), **calibration.shape},
        "multipliers": [
            {"switch": s, "beta_scale": calibration.multiplier(s), "smaller_ones_untried": calibration.is_least(s)}
            for s in calibration.switches
        ],
        "command": command,
        "created": now(),
        "versions": this_run(jax.devices(), str(float_dtype())),
        "calibration": dataclasses.asdict(calibration),
    }


def write_preset(path: Path, preset: Mapping[str, object]) -> Path:
    """Write a preset, whole or not at all."""
    text = json.dumps(dict(preset), indent=1, ensure_ascii=True, allow_nan=False)
    return write_whole(path, lambda buffer: buffer.write(text.encode() + b"\n"))


def read_calibration(path: Path) -> Calibration:
    """Read the counts behind a preset that was written."""
    found = json.loads(path.read_text())
    if found.get("format") != FORMAT:
        raise ValueError(f"{path} has the format {found.get('format')!r}, and this version of jaxvar reads {FORMAT}")
    table = found["calibration"]
    cases = tuple(Played(**case) for case in table["cases"])
    runs = tuple(Swept(**{**r, "scales": tuple(r["scales"]), "held": tuple(r["held"])}) for r in table["runs"])
    return Calibration(**{**table, "cases": cases, "runs": runs})
