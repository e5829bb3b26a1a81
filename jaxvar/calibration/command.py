"""The verb ``calibrate`` of the command line."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Literal

from jaxvar.calibration.bank import SWITCHES, bank
from jaxvar.calibration.evidence import Calibration
from jaxvar.calibration.preset import to_json, write_preset
from jaxvar.calibration.search import calibrate
from jaxvar.calibration.show import figure, points, summary, verdict
from jaxvar.figures.style import save
from jaxvar.files import write_whole
from jaxvar.simulate import SimulationError

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
SEEDS = {"bandit": 1000, "episodes": 400}


@dataclasses.dataclass(frozen=True)
class Calibrate:
    """Find the smallest multiplier of the radius that keeps the confidence event as often as promised."""

    setting: Literal["bandit", "episodes"] = "bandit"
    """Which bank: SAVE and AVE-UCB on linear bandits, or UCRL-AVE on linear mixture MDPs."""
    seeds: int | None = None
    """Per instance and multiplier; 1000 for bandits and 400 for episodes if not given. A claim needs 200."""
    rounds: int | None = None
    """Rounds, or episodes; each instance's own if not given."""
    delta: float = 0.01
    """How often the event may fail, also told to the algorithms."""
    level: float = 0.95
    """Of the Clopper-Pearson intervals, whose lower ends decide."""
    switches: tuple[float, ...] = SWITCHES
    """From which layer on the empirical variance is used, in units of sqrt(log); the preset has the first."""
    key: int = 0
    """Of all randomness."""
    out: Path | None = None
    """The folder; results/calibrate-SETTING if not given."""
    progress: bool = True
    """Show a progress bar."""


def calibrate_command(options: Calibrate) -> int:
    """Calibrate, print what was found, write it down; returns an exit code."""
    folder = options.out or Path("results") / f"calibrate-{options.setting}"
    seeds = SEEDS[options.setting] if options.seeds is None else options.seeds
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = calibrate(
            bank(options.setting, delta=options.delta, length=options.rounds),
            seeds=seeds,
            delta=options.delta,
            level=options.level,
            switches=options.switches,
            key=options.key,
            progress=options.progress,
        )
        print(summary(found).text())
        for switch in found.switches:
            print(verdict(found, switch))
        for path in write_all(found, folder, _command(options, seeds)):
            print(path)
    except ValueError as error:
        print(f"jaxvar: {error}", file=sys.stderr)
        return USAGE
    except SimulationError as error:
        print(f"jaxvar: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(f"jaxvar: {error.strerror or error}: {error.filename or ''}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("\nstopped; nothing was written", file=sys.stderr)
        return INTERRUPTED
    return DONE if found.multiplier(options.switches[0]) is not None else FAILED


def write_all(found: Calibration, folder: Path, command: str) -> list[Path]:
    """Tables, a figure per switch, and the preset where a multiplier passed; returns the paths."""
    texts = {"summary.txt": summary(found).text(), "points.csv": points(found).csv()}
    paths = [
        write_whole(folder / name, lambda buffer, text=text: buffer.write(text.encode()))  # type: ignore[misc]
        for name, text in texts.items()
    ]
    for switch in found.switches:
        paths += save(figure(found, switch), folder / f"switch_{switch:g}")
    if found.multiplier(found.switches[0]) is not None:
        preset = to_json(found, found.switches[0], command)
        paths.append(write_preset(folder / f"{found.setting}.json", preset))
    return paths


def _command(options: Calibrate, seeds: int) -> str:
    """The command line that repeats the calibration."""
    words = ["jaxvar", "calibrate", "--setting", options.setting, "--seeds", str(seeds)]
    words += [] if options.rounds is None else ["--rounds", str(options.rounds)]
    words += ["--delta", f"{options.delta!r}", "--level", f"{options.level!r}", "--key", str(options.key)]
    return shlex.join([*words, "--switches", *(f"{switch!r}" for switch in options.switches)])
