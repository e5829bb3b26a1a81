"""What the studies beside this file say about linear models of logistic rewards."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from experiments.experiment import Conclusions
from jaxvar import random
from jaxvar.analysis import mean_interval, proportion_interval, sample, slope_in_rounds
from jaxvar.analysis.captions import environment_name
from jaxvar.environments.logistic_bandit import logistic_bandit
from jaxvar.environments.table_bandit import table_bandit
from jaxvar.figures import regret_curves
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

NUM_PROBLEMS = 1000


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Make the tables and the figure of the studies ``bandits`` and ``near``."""
    bandits, near = results["bandits"], results["near"]
    tables = {"regret": regret(bandits), "near": regret(near), "fits": fits(bandits)}
    return Conclusions(tables, {"bandits": regret_curves(bandits)})


def regret(bandits: StudyResult) -> Table:
    """Show regret at a tenth of the run and at its end, and the exponent between."""
    last = int(bandits.cells[0].rounds[-1])
    columns = (
        Column("problem"),
        Column("algorithm"),
        Column(f"regret at {last // 10:,}", "half"),
        Column(f"regret at {last:,}", "half"),
        Column("exponent", "ends"),
    )
    caption = (
        f"Regret over {len(bandits.cells[0].seeds):,} seeds: means with 95 % t intervals, and the exponent of the mean "
        "curve in the last decade with a 95 % bootstrap interval."
    )
    return Table(caption, columns, tuple(_line(cell, last // 10) for cell in bandits.cells))


def _line(cell: CellResult, start: int) -> tuple[object, ...]:
    curves, first = sample(cell).values, int(np.searchsorted(cell.rounds, start))
    exponent = slope_in_rounds(cell, burn_in=int(cell.rounds[first])).slope
    ends = (mean_interval(curves[:, first]), mean_interval(curves[:, -1]))
    return environment_name(cell), cell.algorithm, *ends, exponent


def fits(bandits: StudyResult) -> Table:
    """Show how well a linear function of the arms can fit their means, over problems drawn anew."""
    options, rounds = bandits.config["study"]["environment"][0], int(bandits.cells[0].rounds[-1])
    columns = (
        Column("S", "number"),
        Column("1 / slope at the best arm", "half"),
        Column("error of the fit", "half"),
        Column("fits that prefer a wrong arm", "ends"),
        Column(f"regret of that arm in {rounds:,} rounds", "half"),
    )
    caption = (
        f"The best linear fit of all means, over {NUM_PROBLEMS:,} problems: its root mean square error, how often it "
        "prefers an arm that is not the best, and the regret of the arm it prefers, over all problems; 95 % intervals."
    )
    lines = []
    for scale in options["sweep"]["scale"]:
        environment = logistic_bandit(options["dim"], options["num_arms"], scale=scale)
        keys = jax.vmap(random.fold_in, in_axes=(None, 0))(jax.random.key(1), np.arange(NUM_PROBLEMS))
        problems = jax.jit(jax.vmap(environment.init))(keys)
        steepness = np.asarray(jax.vmap(environment.kappa_star)(problems))
        found = [
            table_bandit(np.asarray(arms)[None], np.asarray(environment.law(logit)[0])[None]).summary()
            for arms, logit in zip(problems.arms, problems.mean, strict=True)
        ]
        wrong = sum(summary.linear_regret > 0 for summary in found)
        lines.append(
            (
                scale,
                mean_interval(steepness),
                mean_interval(np.array([summary.misspecification for summary in found])),
                proportion_interval(wrong, NUM_PROBLEMS, "share of problems"),
                mean_interval(np.array([rounds * summary.linear_regret for summary in found])),
            )
        )
    return Table(caption, columns, tuple(lines))
