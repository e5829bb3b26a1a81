"""The verb ``calibrate`` of the command line, and a calibration as tables and as a figure."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro

from jaxvar.analysis.captions import percent, seeds_text
from jaxvar.commands import OrNone
from jaxvar.constants import SETTINGS
from jaxvar.exit_codes import DONE, FAILED, exit_code
from jaxvar.figures.look import Look, Width, looks, plain, style
from jaxvar.figures.style import Drawing, finish, panels, save
from jaxvar.study.factories import error_at
from jaxvar.tables.render import Column, Table
from jaxvar.theory.calibration import (
    LEAST_SEEDS,
    MORE_OCTAVES,
    OCTAVES,
    SWITCHES,
    Calibration,
    bank,
    calibrate,
    passes,
    to_json,
    write_preset,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Setting = Literal[
    "bandit",
    "episodes",
    "vacdb",
    "max_in_p",
    "glb_omd",
    "ada_ecolog",
    "vaee",
    "mvp",
    "ucbvi",
    "hvt_ucb",
    "heavy_oful",
    "lsvi_ucb",
    "lsvi_ucb_plus",
]
SEEDS = {"bandit": 1000}  # of others: 400


def verdict(calibration: Calibration, switch: float) -> str:
    """Return what follows for a switch, in a sentence or two."""
    scale = calibration.multiplier(switch)
    promised = f"the confidence event holds with probability {percent(1 - calibration.delta)} or more in every case"
    which = f"Switch {switch:g}" if calibration.shape else calibration.setting
    if scale is None:
        text = f"{which}: no multiplier tried is large enough that {promised}."
    else:
        least = " It is the smallest that was tried." if calibration.is_least(switch) else ""
        text = f"{which}: from the multiplier {scale:.4g} on, {promised}.{least}"
    if calibration.is_claim:
        return text
    return f"{text} This is not a claim: it rests on fewer than {LEAST_SEEDS} seeds."


def summary(calibration: Calibration) -> Table:
    """Return a line per case and switch: the smallest multiplier of the case alone, and how often the event held."""
    rows = []
    for switch in calibration.switches:
        chosen = calibration.multiplier(switch)
        for i, case in enumerate(calibration.cases):
            alone, least = calibration.multiplier(switch, i), calibration.is_least(switch, i)
            shown = None if alone is None else f"{'≤ ' if least else ''}{alone:.4g}"
            share = None
            if chosen is not None:
                finest = [r for r in calibration.of(switch, i) if chosen in r.scales][-1]
                share = calibration.share(finest, chosen)
            tried = (f"{switch:g}",) if calibration.shape else ()
            rows.append((case.instance, case.player, case.length, case.seeds, *tried, shown, share))
    columns = (
        Column("instance"),
        Column("algorithm"),
        Column("K", "number"),
        Column("seeds", "number"),
        *((Column("switch"),) if calibration.shape else ()),
        Column("alone"),
        Column("held", "ends"),
    )
    seeds = seeds_text([case.seeds for case in calibration.cases], 0)
    which = " (switch {:g})" if calibration.shape else ""
    chosen_text = ", ".join(f"{calibration.multiplier(s) or np.nan:.4g}{which.format(s)}" for s in calibration.switches)
    caption = (
        f"Seeds in which the confidence event held in all layers and rounds, at the smallest multiplier that passes in "
        f"every case: {chosen_text}. Share of {seeds} with the {percent(calibration.level)} Clopper-Pearson interval; "
        f"a multiplier passes where the lower end is at least {1 - calibration.delta:g}. Alone: the smallest that "
        f"passes in this case, of those tried."
    )
    return Table(caption, columns, tuple(rows))


def points(calibration: Calibration) -> Table:
    """Return a table of every case, switch and multiplier."""
    rows = []
    for run in calibration.runs:
        case = calibration.cases[run.case]
        for scale, held in zip(run.scales, run.held, strict=True):
            ok = "yes" if passes(held, case.seeds, calibration.delta, calibration.level) else "no"
            where = (case.instance, case.player, run.switch, scale, run.first_seed, case.seeds)
            rows.append((*where, calibration.share(run, scale), ok))
    columns = (
        Column("instance"),
        Column("algorithm"),
        Column("switch", "number"),
        Column("multiplier", "number"),
        Column("first seed", "number"),
        Column("seeds", "number"),
        Column("held", "ends"),
        Column("passes"),
    )
    caption = f"Share of seeds in which the confidence event held, {percent(calibration.level)} Clopper-Pearson."
    return Table(caption, columns, tuple(rows))


def figure(calibration: Calibration, switch: float, *, width: Width = "neurips") -> Drawing:
    """Draw how often the event held against the multiplier: a panel per instance, filled marks where a point passes."""
    look = looks([case.player for case in calibration.cases])
    instances = list(dict.fromkeys(case.instance for case in calibration.cases))
    chosen = calibration.multiplier(switch)
    handles: dict[str, Line2D] = {}
    with style():
        grid = panels(len(instances), width, least=1.7, height=1.35, sharex=True, sharey=True)
        for number, (axis, instance) in enumerate(zip(grid.axes, instances, strict=True)):
            axis.set(xscale="log", ylim=(-0.04, 1.04))
            axis.axhline(1 - calibration.delta, color="black", linewidth=0.5)
            if chosen is not None:
                axis.axvline(chosen, color="black", linewidth=0.5, linestyle=(0, (4, 2)))
            for i, case in enumerate(calibration.cases):
                if case.instance == instance:
                    handles[case.player] = _curve(axis, calibration, switch, i, look[case.player])
            grid.title(axis, instance, beside=0.35)
            if number + grid.columns >= len(instances):
                axis.set_xlabel("multiplier")
                axis.tick_params(labelbottom=True)
        seeds = seeds_text([case.seeds for case in calibration.cases], 0)
        which = f", switch {switch:g}" if calibration.shape else ""
        caption = (
            f"Share of {seeds} in which the confidence event held in all layers and rounds, with "
            f"{percent(calibration.level)} Clopper-Pearson intervals{which}. Filled: the lower end is at "
            f"least {1 - calibration.delta:g} (line). {verdict(calibration, switch)}"
        )
        return finish(grid.figure, list(handles.values()), list(map(plain, handles)), caption, ylabel="share of seeds")


def _curve(axis: Axes, calibration: Calibration, switch: float, case: int, look: Look) -> Line2D:
    """Draw one case: a point for each multiplier of each grid."""
    runs = calibration.of(switch, case)
    shown = sorted((scale, i) for i, run in enumerate(runs) for scale in run.scales)
    x = np.array([scale for scale, _ in shown])
    shares = [calibration.share(runs[i], scale) for scale, i in shown]
    y, low, high = (np.array([getattr(s, end) for s in shares]) for end in ("estimate", "low", "high"))
    axis.plot(x, y, color=look.colour, linestyle=look.dash, linewidth=0.7)
    axis.vlines(x, low, high, color=look.colour, linewidth=0.7)
    good = low >= 1 - calibration.delta
    (failed,) = axis.plot(x[~good], y[~good], color=look.colour, marker=look.marker, linestyle="none", markersize=2.6)
    failed.set_markerfacecolor("white")
    return axis.plot(x[good], y[good], color=look.colour, marker=look.marker, linestyle="none", markersize=2.6)[0]


@dataclasses.dataclass(frozen=True)
class Calibrate:
    """Find the smallest multiplier of the radius that keeps the confidence event as often as promised."""

    setting: Setting = "bandit"
    """The bank: SAVE and AVE-UCB on linear bandits; UCRL-AVE on linear mixture MDPs; or one algorithm on its games."""
    seeds: OrNone[int] = None
    """Seeds per instance; 1000 for bandits, else 400 if not given. The default delta needs at least 368."""
    rounds: OrNone[int] = None
    """Rounds, or episodes; each instance's own if not given."""
    delta: float = 0.01
    """Share of seeds in which the event may fail, also told to the algorithms."""
    level: float = 0.95
    """Level of the Clopper-Pearson intervals, whose lower ends decide."""
    switches: Annotated[tuple[float, ...], tyro.conf.arg(metavar="FLOAT [FLOAT ...]")] = SWITCHES
    """Switches to try: where the empirical variance takes over, in units of sqrt(log); the preset has the first.
    Algorithms with a radius of their own have none."""
    key: int = 0
    """Root of all random numbers."""
    out: OrNone[Path] = None
    """Folder for the results; results/calibrate-SETTING if not given."""
    progress: bool = True
    """Show a progress bar."""


@exit_code
def calibrate_command(options: Calibrate) -> int:
    """Calibrate, print and write what was found, and return an exit code."""
    folder = options.out or Path("results") / f"calibrate-{options.setting}"
    seeds = SEEDS.get(options.setting, 400) if options.seeds is None else options.seeds
    if options.setting not in SETTINGS:
        options = dataclasses.replace(options, switches=(0.0,))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with error_at():
            found = calibrate(
                bank(options.setting, delta=options.delta, length=options.rounds),
                seeds=seeds,
                delta=options.delta,
                level=options.level,
                scales=OCTAVES if options.setting in SETTINGS else MORE_OCTAVES,
                switches=options.switches,
                key=options.key,
                progress=options.progress,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; nothing was written") from None
    print(summary(found).text())
    for switch in found.switches:
        print(verdict(found, switch))
    paths = [summary(found).save(folder / "summary.txt"), points(found).save(folder / "points.csv")]
    for switch in found.switches:
        paths += save(figure(found, switch), folder / f"switch_{switch:g}")
        paths += sorted(folder.glob(f"switch_{switch:g}.caption.*"))
    has_passed = found.multiplier(found.switches[0]) is not None
    if has_passed:
        preset = to_json(found, found.switches[0], _command(options, seeds))
        paths.append(write_preset(folder / f"{found.setting}.json", preset))
    for path in paths:
        print(path)
    return DONE if has_passed else FAILED


def _command(options: Calibrate, seeds: int) -> str:
    """Return the command line that repeats the calibration."""
    words = ["jaxvar", "calibrate", "--setting", options.setting, "--seeds", str(seeds)]
    words += [] if options.rounds is None else ["--rounds", str(options.rounds)]
    words += ["--delta", f"{options.delta!r}", "--level", f"{options.level!r}", "--key", str(options.key)]
    words += ["--switches", *(f"{switch!r}" for switch in options.switches)] if options.setting in SETTINGS else []
    return shlex.join(words)
