"""UCRL-VTR where its authors ran it (Ayoub et al. 2020): RiverSwim with tabular features, and DeepTree.

Their code has lambda = 1, delta = 1 / K, |theta*| <= sqrt(S A) and values in [0, H], on features that are not
normalised. On features divided by sqrt(S) and values divided by u the same regression has the ridge ``1 / (S u^2)`` and
the norm bound ``sqrt(S) sqrt(S A)``: that is what is played here, with u = H on RiverSwim, whose rewards are divided by
H, and u = 1 on DeepTree, whose rewards are as published.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import tyro

import jaxvar as jv
from experiments.episodes.present import riverswim_table
from experiments.episodes.study import Problem, run

VTR, UNIFORM = "UCRL-VTR (as published)", "Uniform play"


@dataclasses.dataclass(frozen=True)
class Options:
    """UCRL-VTR in the settings of Ayoub et al. (2020), ending in two tables."""

    river_seeds: int = 4
    """Seeds on RiverSwim, where d = 50."""
    river_episodes: int = 50_000
    """Episodes on RiverSwim."""
    tree_seeds: int = 16
    """Seeds on DeepTree."""
    tree_episodes: int = 10_000
    """Episodes on DeepTree."""


def problems(options: Options) -> tuple[Problem, Problem]:
    """Both settings."""
    river, tree = jv.riverswim(features="tabular"), jv.deep_tree(features="reduced")
    return (
        Problem(
            "RiverSwim, tabular: S = 5, H = 20, d = 50",
            river,
            options.river_seeds,
            options.river_episodes,
            _players(river, options.river_episodes, unit=river.horizon, value_bound=1.0),
        ),
        Problem(
            "DeepTree: S = 15, H = 2",
            tree,
            options.tree_seeds,
            options.tree_episodes,
            _players(tree, options.tree_episodes, unit=1, value_bound=tree.horizon),
        ),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when done, 1 when a run failed."""
    options = tyro.cli(Options, prog="python -m experiments.published.ucrl_vtr", args=arguments)
    jv.tune_cpu()
    jax.config.update("jax_enable_x64", True)
    try:
        for problem in reversed(problems(options)):
            print(f"\n{riverswim_table(run(problem))}\n", flush=True)
    except (ValueError, jv.SimulationError) as error:
        print(f"the study failed: {error}", file=sys.stderr)
        return 1
    return 0


def _players(environment: Any, num_episodes: int, *, unit: float, value_bound: float) -> dict[str, Any]:
    num_states, num_actions = environment.num_states, environment.num_actions
    published = jv.ucrl_vtr(
        environment.dim,
        norm_bound=np.sqrt(num_states) * np.sqrt(num_states * num_actions),
        lam=1 / (num_states * unit**2),
        delta=1 / num_episodes,
        value_bound=value_bound,
    )
    return {UNIFORM: jv.uniform(), VTR: published}


if __name__ == "__main__":
    sys.exit(main())
