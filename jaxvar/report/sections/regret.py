"""Regret against rounds: an overview that needs no script, the chart that does, and the numbers of both as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxvar.figures.style import COLOURS, DASHES
from jaxvar.report import svg
from jaxvar.report.curves import VIEWS, Curve, is_log_spaced, is_spread
from jaxvar.report.digits import around, plain
from jaxvar.report.grid import Grid
from jaxvar.report.markup import Html, clean, join, label, tag

_MANY_SETTINGS = 12  # from here on the overview is folded
_TABLE_ROUNDS = 12

Panel = tuple[int, list[Curve]]  # an environment setting with its curves


def panels(curves: Sequence[Curve]) -> list[Panel]:
    """The curves by environment setting, in the study's order."""
    found: dict[int, list[Curve]] = {}
    for curve in curves:
        found.setdefault(curve.place.setting, []).append(curve)
    return sorted(found.items())


def section(grid: Grid, curves: Sequence[Curve]) -> Html:
    """The section, or a sentence where regret was not recorded."""
    if not curves:
        return tag("section", tag("h2", "Regret"), tag("p", "No cell has two seeds with a recorded regret."))
    shown = panels(curves)
    pictures = _overview(grid, shown, curves)
    if len(shown) > _MANY_SETTINGS:
        pictures = tag("details", tag("summary", f"All {len(shown)} environment settings"), pictures)
    first = curves[0].views[0]
    return tag(
        "section",
        tag("h2", "Regret"),
        tag("p", f"Cumulative pseudo-regret. Line: {first.what}. Band: {first.how}.", class_="note", id="chart-note"),
        _controls(grid, shown),
        svg.legend(grid.curves),
        _chart(curves),
        pictures,
        _numbers(grid, shown),
        id="regret",
    )


def data(grid: Grid, curves: Sequence[Curve]) -> dict[str, Any]:
    """What the chart's script reads."""
    tables: dict[tuple[int, ...], int] = {}  # recorded rounds are mostly the same in all cells
    settings = []
    for setting, inside in panels(curves):
        cells = [
            {
                "curve": c.place.curve,
                "rounds": tables.setdefault(tuple(c.rounds), len(tables)),
                "views": [[v.line, v.low, v.high] for v in c.views],
            }
            for c in inside
        ]
        settings.append({"label": clean(grid.settings[setting]), "cells": cells})
    return {
        "unit": grid.result.unit,
        "curves": [clean(name) for name in grid.curves],
        "rounds": [list(rounds) for rounds in tables],
        "settings": settings,
        "views": [{"line": v.what, "band": v.how} for v in curves[0].views] if curves else [],
        "logX": bool(curves) and is_log_spaced(list(curves)),
        "logY": bool(curves) and is_spread(list(curves)),
        "colours": len(COLOURS),
        "dashes": len(DASHES),
    }


def _controls(grid: Grid, shown: Sequence[Panel]) -> Html:
    settings = [tag("option", grid.settings[s], value=i) for i, (s, _) in enumerate(shown)]
    views = [tag("option", view, value=i) for i, view in enumerate(VIEWS)]
    return tag(
        "form",
        tag("label", "Environment ", _select("setting", settings)),
        tag("label", "Curves ", _select("view", views)),
        tag("label", _checkbox("log-x"), f"log {grid.result.unit}s"),
        tag("label", _checkbox("log-y"), "log regret"),
        tag("span", "Show ", _button("curves-all", "all"), " ", _button("curves-none", "none")),
        class_="controls enhanced",
        hidden=True,
    )


def _select(name: str, options: Sequence[Html]) -> Html:
    return tag("select", *options, name=name, autocomplete="off")


def _checkbox(name: str) -> Html:
    return Html(f'<input type="checkbox" name="{name}" autocomplete="off">')


def _button(key: str, shown: str) -> Html:
    return tag("button", shown, type="button", id=key)


def _chart(curves: Sequence[Curve]) -> Html:
    """Empty: the script draws into it. The crosshair moves over the recorded rounds as a slider does."""
    return tag(
        "div",
        tag("div", class_="tip", id="tip", hidden=True),
        class_="chart enhanced",
        id="chart",
        hidden=True,
        tabindex=0,
        role="slider",
        aria_valuemin=min(c.rounds[0] for c in curves),
        aria_valuemax=max(c.rounds[-1] for c in curves),
        aria_orientation="horizontal",
        aria_label="Regret",
    )


def _overview(grid: Grid, shown: Sequence[Panel], curves: Sequence[Curve]) -> Html:
    """One small picture per environment setting; those of one environment have the same vertical axis."""
    is_log_x, is_log_y = is_log_spaced(list(curves)), is_spread(list(curves))
    figures = []
    for setting, inside in shown:
        environment = inside[0].place.cell.environment
        alike = [c.views[0] for c in curves if c.place.cell.environment == environment]
        axis = svg.value_axis(alike, is_log_y)
        name = grid.settings[setting]
        picture = svg.multiple(inside, axis, is_log_x=is_log_x, caption=name)
        figures.append(tag("figure", tag("figcaption", label(name)), picture))
    return tag("div", *figures, class_="overview single" if len(shown) == 1 else "overview")


def _numbers(grid: Grid, shown: Sequence[Panel]) -> Html:
    """The curves as tables, at a few of the recorded rounds."""
    tables = [_table(grid, setting, inside) for setting, inside in shown]
    return tag("details", tag("summary", "The curves as tables"), *tables)


def _table(grid: Grid, setting: int, inside: Sequence[Curve]) -> Html:
    rounds = sorted({k for c in inside for k in c.rounds})
    picked = [rounds[i] for i in np.unique(np.linspace(0, len(rounds) - 1, _TABLE_ROUNDS).round().astype(int))]
    names = [label(grid.curves[c.place.curve]) for c in inside]
    heading = tag("tr", *(tag("th", n, scope="col", class_="number") for n in (grid.result.unit, *names)))
    body = [
        tag("tr", tag("td", plain(k), class_="number"), *(tag("td", _at(c, k), class_="number") for c in inside))
        for k in picked
    ]
    view = inside[0].views[0]
    title = join([label(grid.settings[setting]), f": {view.what} ± half width of the {view.how}"])
    table = tag("table", tag("caption", tag("span", title)), tag("thead", heading), tag("tbody", *body))
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=grid.settings[setting])


def _at(curve: Curve, k: int) -> str:
    if k not in curve.rounds:
        return "\N{EN DASH}"
    i, view = curve.rounds.index(k), curve.views[0]
    low, high = view.low[i], view.high[i]
    return around(view.line[i], (high - low) / 2) if low is not None and high is not None else plain(view.line[i], 2)
