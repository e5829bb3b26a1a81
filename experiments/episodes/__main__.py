"""``python -m experiments.episodes``: run the study, write its figures and tables."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import jax
import tyro

import jaxvar as jv
from experiments.episodes.present import present, tables
from experiments.episodes.study import Episodes, flatten, riverswim, run


def main() -> int:
    """Exit code 0 when done, 1 when a run failed."""
    start = time.perf_counter()
    try:
        options = tyro.cli(Episodes, prog="python -m experiments.episodes")
        jv.tune_cpu()
        jax.config.update("jax_enable_x64", True)
        mixtures = run(flatten(options))
        current, tabular = (run(problem) for problem in riverswim(options))
    except (ValueError, jv.SimulationError) as error:
        print(f"the study failed: {error}", file=sys.stderr)
        return 1
    rivers = (current, tabular)
    paths = present(Path(options.out), mixtures, rivers)
    print(f"\n{tables(mixtures, rivers)}\n\n{time.perf_counter() - start:.0f} seconds. Written:")
    for path in paths:
        print(f"  {path.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
