"""Two grids of multipliers: octaves first, then the octave in which the verdict turns, with other seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxvar import parameters, records
from jaxvar.calibration.bank import SWITCHES, Case
from jaxvar.calibration.evidence import Calibration, Played, Swept, seeds_needed
from jaxvar.constants import number_names
from jaxvar.game import is_episodic
from jaxvar.simulate import simulate, sweep

OCTAVES = tuple(2.0**-i for i in range(1, 8))
VARIED = ("beta_scale", "switch")


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
      level: of the Clopper-Pearson intervals.
      scales: the multipliers of the first grid. The second has as many, so that one compiled program plays both.
      switches: from which layer on the empirical variance is used; each has a multiplier of its own.
      key: of all randomness.
      progress: show a progress bar.
    """
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
    with _progress_bar(progress, 2 * steps) as bar:

        def add(found: Calibration, grids: Mapping[float, Sequence[float]], again: int) -> Calibration:
            runs = list(found.runs)
            for i, case in enumerate(cases):
                for switch, grid in grids.items():
                    runs.append(_play(i, case, switch, grid, counts[i], again * counts[i], key))
                    bar.update(case.length * counts[i] * len(grid))
            return dataclasses.replace(found, runs=tuple(runs))

        setting = "episodes" if is_episodic(cases[0].environment) else "bandit"
        nothing = Calibration(setting, float(delta), float(level), key, _shape(cases), tuple(played), ())
        octaves = add(nothing, dict.fromkeys(switches, scales), again=0)
        finer = {switch: _finer(scales, octaves.multiplier(switch)) for switch in switches}
        return add(octaves, {switch: grid for switch, grid in finer.items() if grid}, again=1)


def _play(
    number: int, case: Case, switch: float, scales: Sequence[float], seeds: int, first_seed: int, key: int
) -> Swept:
    """Play a case with every multiplier, as one compiled program."""
    length: dict[str, Any] = {"num_episodes" if is_episodic(case.environment) else "num_rounds": case.length}
    out = simulate(
        sweep(case.algorithm, switch=[switch], beta_scale=list(scales)),
        case.environment,
        key=jax.random.key(key),
        num_seeds=seeds,
        first_seed=first_seed,
        record_at=[case.length],
        recorders=(records.confidence(),),
        **length,
    )
    out.raise_if_failed()
    held = np.sum(np.all(out.confidence[:, :, -1], axis=2), axis=1)  # [multipliers, seeds, layers] before
    return Swept(number, switch, first_seed, tuple(scales), tuple(held.tolist()))


def _finer(scales: Sequence[float], found: float | None) -> tuple[float, ...]:
    """As many multipliers from ``found`` down to the next smaller one, which is left out; none where there is none."""
    if found is None or found == min(scales):
        return ()
    below = max(scale for scale in scales if scale < found)
    return tuple(float(found * (below / found) ** (i / len(scales))) for i in range(len(scales)))


def _shape(cases: Sequence[Case]) -> dict[str, float]:
    """The constants that all cases have in common."""
    names = [name for name in number_names() if name not in VARIED]
    found = [{name: float(getattr(case.algorithm.constants, name)) for name in names} for case in cases]
    if any(other != found[0] for other in found):
        raise ValueError("cases must have the same constants but for beta_scale and switch, got different ones")
    return found[0]


def _numbers(name: str, values: Sequence[float], low_open: bool) -> list[float]:
    found = [float(parameters.check_number(name, value, low=0.0, low_open=low_open)) for value in values]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"{name} must be a list of different numbers, got {values!r}")
    return found


def _progress_bar(show: bool, total: int) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, unit="seed-round", unit_scale=True, smoothing=0.1, disable=not show)
