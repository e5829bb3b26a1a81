"""``python -m experiments.published NAME``: run the setting of the module of that name, write its figure and table."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import sys
import time
from pathlib import Path
from typing import Annotated

import jax
import tyro

import jaxvar as jv
from experiments.published import setting

NAMES = tuple(
    module.name
    for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    if module.name not in ("__main__", "setting")
)


@dataclasses.dataclass(frozen=True)
class Published:
    """A published setting, ending in a figure and a table."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(help=f"one of {', '.join(NAMES)}")]
    seeds: int | None = None
    """Seeds per algorithm; as the setting says if not given."""
    num: int | None = None
    """Rounds (or episodes) per seed; as the setting says if not given."""
    out: str = "results/published"
    """Folder for the figure, the table and the numbers."""


def main() -> int:
    """Exit code 0 when done, 1 when a run failed."""
    options = tyro.cli(Published, prog="python -m experiments.published")
    if options.name not in NAMES:
        print(f"name must be one of {', '.join(NAMES)}, got {options.name!r}", file=sys.stderr)
        return 1
    jv.tune_cpu()
    jax.config.update("jax_enable_x64", True)
    start = time.perf_counter()
    try:
        # Imported here: settings hold numbers of the session's float type.
        chosen = importlib.import_module(f"experiments.published.{options.name}").SETTING
        num, seeds = (given or default for given, default in ((options.num, chosen.num), (options.seeds, chosen.seeds)))
        times, regret = setting.run(chosen, num, seeds)
    except (ValueError, jv.SimulationError) as error:
        print(f"the study failed: {error}", file=sys.stderr)
        return 1
    paths = setting.present(Path(options.out), options.name, times, regret)
    print(f"\n{chosen.source}, {seeds} seeds: mean ± half width of the 95 % t interval\n")
    print(f"{setting.table(times, regret)}\n\n{time.perf_counter() - start:.0f} seconds. Written:")
    for path in paths:
        print(f"  {path.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
