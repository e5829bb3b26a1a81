"""``python -m experiments published [NAME] [options]``: run one setting, or all that take minutes."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

import jaxvar as jv
from experiments.experiment import COMMAND, FOLDER, Conclusions, Options, publish, write
from experiments.found import read_found
from experiments.published._conclude import conclude, settings_table
from experiments.published._setting import Played, Setting, play
from jaxvar.figures import Drawing
from jaxvar.files import write_whole
from jaxvar.tables import Table

# Every module but this one and what modules share: adding a file with a ``SETTING`` adds a setting.
NAMES = tuple(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if not m.name.startswith("_"))


@dataclasses.dataclass(frozen=True)
class Published(Options):
    """Run settings, then write their tables and figures."""

    seeds: int | None = None
    """Seeds per algorithm; each setting's own if not given."""
    longer: float = 1.0
    """Factor of every setting's rounds or episodes."""
    out: str | None = None
    """Folder for everything; results/published if not given."""


def load(name: str) -> Setting:
    """Return the setting of the module of that name."""
    setting = importlib.import_module(f"experiments.published.{name}").SETTING
    assert isinstance(setting, Setting)
    return setting


def run(setting: Setting, options: Options) -> Conclusions:
    """Play, conclude, and write tables, figure and every seed's regret."""
    length = max(2, round(setting.length * options.longer))
    played = play(setting, options.seeds or setting.seeds, length, options.progress)
    out = Path(options.out or "results/published")
    out.mkdir(parents=True, exist_ok=True)
    arrays = _arrays(played)
    write_whole(out / f"{setting.name}.npz", lambda buffer: np.savez_compressed(buffer, **arrays))
    conclusions = conclude(setting, played)
    write(conclusions, out)
    for table in conclusions.tables.values():
        print(f"\n{table.text()}", end="", flush=True)
    return conclusions


def main(arguments: list[str]) -> int:
    """Return the exit code: 0 when done, 1 when a run failed, 2 for bad usage."""
    named = arguments[:1] if arguments and not arguments[0].startswith("-") else []
    if any(name not in NAMES for name in named):
        print(f"usage: {COMMAND} published [{' | '.join(NAMES)}] [options], got {named[0]!r}", file=sys.stderr)
        return 2
    options = tyro.cli(Published, prog=f"{COMMAND} published [NAME]", args=arguments[len(named) :])
    jv.tune_cpu()
    jv.keep_programs()
    jax.config.update("jax_enable_x64", True)  # before anything is built: leaves have the session's float type
    settings = [setting for setting in map(load, named or NAMES) if named or not setting.slow]
    start, tables, figures = time.perf_counter(), dict[str, Table](), dict[str, Drawing]()
    try:
        for setting in settings:
            conclusions = run(setting, options)
            tables |= conclusions.tables
            figures |= conclusions.figures
    except (ValueError, jv.SimulationError) as error:
        print(f"the experiment failed: {error}", file=sys.stderr)
        return 1
    print(f"\n{time.perf_counter() - start:.0f} seconds.")
    if options.publish:
        if named:  # all others stay as they are stored
            tables = {**read_found(FOLDER / "published" / "found.json").tables, **tables}
        tables["settings"] = settings_table([one for one in map(load, NAMES) if one.name in tables])
        for path in publish("published", Conclusions(tables, figures)):
            print(f"  {path}")
    return 0


def _arrays(played: tuple[Played, ...]) -> dict[str, Any]:
    arrays = {f"{one.title}: {label}": values for one in played for label, values in one.regret.items()}
    return {"times": played[0].times, **arrays}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
