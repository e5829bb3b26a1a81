"""A calibration as tables and as a figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxvar.analysis.captions import percent, seeds_text
from jaxvar.calibration.evidence import LEAST_SEEDS, Calibration, Swept, passes
from jaxvar.figures.style import Drawing, Width, finish, looks, panels, plain, style
from jaxvar.tables.render import Column, Table


def verdict(calibration: Calibration, switch: float) -> str:
    """What follows for a switch, in a sentence or two."""
    scale = calibration.multiplier(switch)
    promised = f"the confidence event holds with probability {percent(1 - calibration.delta)} or more in every case"
    if scale is None:
        text = f"Switch {switch:g}: no multiplier tried is large enough that {promised}."
    else:
        least = " It is the smallest that was tried." if calibration.is_least(switch) else ""
        text = f"Switch {switch:g}: from the multiplier {scale:.4g} on, {promised}.{least}"
    if calibration.is_claim:
        return text
    return f"{text} This is not a claim: it rests on fewer than {LEAST_SEEDS} seeds."


def summary(calibration: Calibration) -> Table:
    """One line per case and switch: the smallest multiplier of the case alone, and how often the event held."""
    rows = []
    for switch in calibration.switches:
        chosen = calibration.multiplier(switch)
        for i, case in enumerate(calibration.cases):
            alone, least = calibration.multiplier(switch, i), calibration.is_least(switch, i)
            shown = None if alone is None else f"{'≤ ' if least else ''}{alone:.4g}"
            run = None if chosen is None else _last_with(calibration, switch, i, chosen)
            share = None if run is None or chosen is None else calibration.share(run, chosen)
            rows.append((case.instance, case.player, case.length, case.seeds, f"{switch:g}", shown, share))
    columns = (
        Column("instance"),
        Column("algorithm"),
        Column("K", "number"),
        Column("seeds", "number"),
        Column("switch"),
        Column("alone"),
        Column("held", "ends"),
    )
    seeds = seeds_text([case.seeds for case in calibration.cases], 0)
    chosen_text = ", ".join(f"{calibration.multiplier(s) or np.nan:.4g} (switch {s:g})" for s in calibration.switches)
    caption = (
        f"Seeds in which the confidence event held in all layers and rounds, at the smallest multiplier that passes in "
        f"every case: {chosen_text}. Share of {seeds} with the {percent(calibration.level)} Clopper-Pearson interval; "
        f"a multiplier passes where the lower end is at least {1 - calibration.delta:g}. Alone: the smallest that "
        f"passes in this case, of those tried."
    )
    return Table(caption, columns, tuple(rows))


def points(calibration: Calibration) -> Table:
    """Every case, switch and multiplier."""
    rows = []
    for run in calibration.runs:
        case = calibration.cases[run.case]
        for scale, held in zip(run.scales, run.held, strict=True):
            ok = passes(held, case.seeds, calibration.delta, calibration.level)
            share = calibration.share(run, scale)
            rows.append(
                (
                    case.instance,
                    case.player,
                    run.switch,
                    scale,
                    run.first_seed,
                    case.seeds,
                    share,
                    "yes" if ok else "no",
                )
            )
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
    """How often the event held against the multiplier: one panel per instance, filled marks where a point passes."""
    look = looks([case.player for case in calibration.cases])
    instances = list(dict.fromkeys(case.instance for case in calibration.cases))
    chosen, handles = calibration.multiplier(switch), dict[str, Any]()
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
        caption = (
            f"Share of {seeds} in which the confidence event held in all layers and rounds, with "
            f"{percent(calibration.level)} Clopper-Pearson intervals, switch {switch:g}. Filled: the lower end is at "
            f"least {1 - calibration.delta:g} (line). {verdict(calibration, switch)}"
        )
        return finish(grid.figure, list(handles.values()), list(map(plain, handles)), caption, ylabel="share of seeds")


def _curve(axis: Any, calibration: Calibration, switch: float, case: int, look: Any) -> Any:
    """One case: a point for each multiplier of each grid."""
    runs = [run for run in calibration.runs if run.switch == switch and run.case == case]
    shown = sorted((scale, i) for i, run in enumerate(runs) for scale in run.scales)
    x = np.array([scale for scale, _ in shown])
    shares = [calibration.share(runs[i], scale) for scale, i in shown]
    y, low, high = (np.array([getattr(s, end) for s in shares]) for end in ("estimate", "low", "high"))
    axis.plot(x, y, color=look.colour, linestyle=look.dash, linewidth=0.7)
    axis.vlines(x, low, high, color=look.colour, linewidth=0.7)
    good = low >= 1 - calibration.delta
    marks = {"color": look.colour, "marker": look.marker, "linestyle": "none", "markersize": 2.6}
    axis.plot(x[~good], y[~good], markerfacecolor="white", **marks)
    return axis.plot(x[good], y[good], **marks)[0]


def _last_with(calibration: Calibration, switch: float, case: int, scale: float) -> Swept:
    """The finest grid that has the multiplier."""
    runs = [r for r in calibration.runs if r.switch == switch and r.case == case and scale in r.scales]
    return runs[-1]
