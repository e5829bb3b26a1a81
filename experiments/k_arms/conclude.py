"""How often UCB-V pulls the better of two arms, which has no noise, beside what balances the two indices.

With L = rho ln T and the gap Delta, the transition is at the ratio ``sigma_2 sqrt(L / T) / Delta = 1``: below it the
better arm is pulled in a share of all rounds, above it of the order of ``sqrt(T) / sigma_2`` times.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from experiments.experiment import Conclusions
from jaxvar.analysis import Interval, median_interval, sample
from jaxvar.figures.look import BLUE, GREY, VERMILION, looks, style
from jaxvar.figures.style import Drawing, finish, panels
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

Array = np.ndarray[Any, Any]

STUDIES = ("short", "long")  # in the order of the panels
LOWER, LOWER_NAME = 0.3, "30 % quantile"  # shown beside the median
DRAWN = 5  # distributions in a panel: those of the ratios nearest to 1


@dataclasses.dataclass(frozen=True)
class Point:
    """One gap, and the pulls of the better arm in each seed."""

    ratio: float  # sigma_2 sqrt(rho ln T / T) / gap
    gap: float
    num_rounds: int  # T
    pulls: Array  # [seeds]
    balance: float  # pulls that make the two indices equal, if no mean were random


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Make a table for each number of rounds, and figures of quantiles and distributions."""
    found = {name: points(results[name]) for name in STUDIES}
    figures = {"quantiles": _draw_quantiles(found), "distributions": _draw_distributions(found)}
    return Conclusions({name: _table(found[name]) for name in STUDIES}, figures)


def points(result: StudyResult) -> list[Point]:
    """Return the gaps of a study in the order of their ratios."""
    study = result.config["study"]
    rho = float(study["algorithm"][0]["rho"])
    quiet, std = study["environment"][0]["noise"]["std"]["std"]
    assert quiet == 0
    return sorted((_point(cell, rho, float(std)) for cell in result.cells), key=lambda point: point.ratio)


def _point(cell: CellResult, rho: float, std: float) -> Point:
    better, worse = (float(mean) for mean in cell.environment_settings["means"])
    gap, log_t, num_rounds = better - worse, rho * math.log(cell.num_rounds), cell.num_rounds
    pulls = np.rint(num_rounds - sample(cell).final / gap)  # regret is the gap times the pulls of the other arm
    ratio = std * math.sqrt(log_t / num_rounds) / gap
    return Point(ratio, gap, num_rounds, pulls, balance(gap, std, log_t, num_rounds))


def balance(gap: float, std: float, log_t: float, num_rounds: int) -> float:
    """Return the pulls n with ``gap + L / n = max(std, sqrt(L / (T - n))) sqrt(L / (T - n))``, by bisection."""
    low, high = 0.0, float(num_rounds)
    for _ in range(60):
        n = (low + high) / 2
        share = math.sqrt(log_t / (num_rounds - n))
        low, high = (n, high) if gap + log_t / n > max(std, share) * share else (low, n)
    return low


def quantile_interval(values: Array, share: float, level: float = 0.95) -> Interval:
    """Return a quantile of ``values [seeds]`` with an interval of order statistics; each tail is at most its half."""
    n, tail, ordered = len(values), (1 - level) / 2, np.sort(values)
    ranks = np.arange(n + 1)
    below = special.bdtr(ranks, n, share)  # P(at most so many values are below the quantile)
    first, last = int(np.sum(below <= tail)), int(np.sum(below < 1 - tail)) + 1
    low = ordered[first - 1] if first >= 1 else -np.inf
    high = ordered[last - 1] if last <= n else np.inf
    return Interval(np.quantile(values, share), low, high, level, "order statistics", f"{share:g} quantile", n)


def _table(found: list[Point]) -> Table:
    rows = []
    for point in found:
        lower = quantile_interval(point.pulls, LOWER)
        rows.append((round(point.ratio, 3), point.gap, round(point.balance), median_interval(point.pulls), lower))
    caption = (
        f"Pulls of the better of two arms in {found[0].num_rounds:,} rounds of UCB-V: the number that balances the two "
        f"indices, and the median and the {LOWER_NAME} over {len(found[0].pulls):,} seeds, with 95 % intervals "
        "of order statistics. The better arm has no noise; the ratio is sigma_2 sqrt(rho ln T / T) over the gap."
    )
    columns = (
        Column("ratio", "number"),
        Column("gap", "number"),
        Column("balance", "number"),
        Column("median", "ends"),
        Column(LOWER_NAME, "ends"),
    )
    return Table(caption, columns, tuple(rows))


def _draw_quantiles(found: Mapping[str, list[Point]]) -> Drawing:
    """Draw quantiles of the share of rounds in which the better arm is pulled, against the ratio."""
    handles: dict[str, Any] = {}
    with style():
        grid = panels(len(found), "neurips", least=2.7, height=2.1, sharey=True)
        for axis, mine in zip(grid.axes, found.values(), strict=True):
            ratios, rounds = [point.ratio for point in mine], mine[0].num_rounds
            low, lower, median, high = (
                np.array([np.quantile(point.pulls, share) for point in mine]) / rounds
                for share in (0.05, LOWER, 0.5, 0.95)
            )
            handles["5 % to 95 %"] = axis.fill_between(ratios, low, high, color=BLUE, alpha=0.2, linewidth=0)
            (handles["median"],) = axis.plot(ratios, median, color=BLUE, marker="o")
            (handles[LOWER_NAME],) = axis.plot(ratios, lower, color=VERMILION, marker="s", linestyle=(0, (5, 1.5)))
            (handles["balance"],) = axis.plot(ratios, [p.balance / rounds for p in mine], color=GREY)
            axis.axvline(1.0, color="black", linestyle=(0, (1, 1)))
            axis.set(xscale="log", yscale="log", xlabel="ratio")
            axis.set_xticks((0.5, 1, 2, 4), ("0.5", "1", "2", "4"))
            axis.set_xticks((), minor=True)
            grid.title(axis, f"T = {rounds:,}, {len(mine[0].pulls):,} seeds")
        caption = (
            "Share of rounds in which UCB-V pulls the better of two arms, which has no noise, against sigma_2 sqrt(rho "
            "ln T / T) over the gap: quantiles over the seeds, and the share that balances the two indices. The dotted "
            "line is the transition."
        )
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel="share of rounds")


def _draw_distributions(found: Mapping[str, list[Point]]) -> Drawing:
    """Draw distribution functions of that share for the ratios nearest to the transition."""
    handles: dict[str, Any] = {}
    with style():
        grid = panels(len(found), "neurips", least=2.7, height=2.1, sharey=True)
        for axis, mine in zip(grid.axes, found.values(), strict=True):
            near = sorted(mine, key=lambda point: abs(math.log(point.ratio)))[:DRAWN]
            near = sorted(near, key=lambda point: point.ratio)
            names = [f"ratio {point.ratio:.3g}" for point in near]
            look, levels = looks(names), np.linspace(0, 1, 201)
            for name, point in zip(names, near, strict=True):
                shares = np.quantile(point.pulls, levels) / point.num_rounds
                (handles[name],) = axis.plot(shares, levels, color=look[name].colour, linestyle=look[name].dash)
            axis.set(xlabel="share of rounds")
            grid.title(axis, f"T = {mine[0].num_rounds:,}, {len(mine[0].pulls):,} seeds")
        caption = (
            "Distribution over the seeds of the share of rounds in which UCB-V pulls the better of two arms, for the "
            "ratios nearest to the transition."
        )
        return finish(grid.figure, list(handles.values()), list(handles), caption, ylabel="share of seeds")
