"""``python -m experiments.headline``: run the study, write its figure and table."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import jax
import tyro

import jaxvar as jv
from experiments.headline.present import present, table
from experiments.headline.study import Headline, run


def main() -> int:
    """Exit code 0 when done, 1 when a run failed."""
    options = tyro.cli(Headline, prog="scripts/study")
    jv.tune_cpu()
    jax.config.update("jax_enable_x64", True)
    start = time.perf_counter()
    try:
        rounds, regret = run(options)
    except (ValueError, jv.SimulationError) as error:
        print(f"the study failed: {error}", file=sys.stderr)
        return 1
    paths = present(Path(options.out), rounds, regret)
    print(f"\n{table(rounds, regret)}\n\n{time.perf_counter() - start:.0f} seconds. Written:")
    for path in paths:
        print(f"  {path.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
