"""Everyone's regret in units of the lower bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jaxvar as jv
from experiments.experiment import Conclusions
from experiments.lower_bound.predict import first_drop
from jaxvar.analysis import Interval
from jaxvar.analysis.captions import constants_text, seeds_text
from jaxvar.analysis.summaries import sample
from jaxvar.figures.look import GREY, looks, style
from jaxvar.figures.style import Drawing, finish, panels
from jaxvar.study.result import CellResult, StudyResult
from jaxvar.tables import Column, Table

LARGER = "budget, larger gaps"  # label of an environment
UNIFORM = "Uniform play"  # label of an algorithm


def conclude(results: Mapping[str, StudyResult]) -> Conclusions:
    """Make tables and the figure of the three studies."""
    cube, budget, blocks = (results[name] for name in ("cube", "budget", "blocks"))
    tables = {
        "bounds": _bounds(cube, budget, blocks),
        "literal": _literal(cube, budget, blocks),
        "gaps": _gaps(cube, blocks),
        "budget": _budget(budget),
        "drops": _drops(cube),
    }
    return Conclusions(tables, {"ratios": _draw(cube, budget, blocks)})


def bound(result: StudyResult, cell: CellResult) -> float:
    """Return the lower bound of the cell's environment, which holds at gap multiplier 1."""
    (entry,) = (e for e in result.config["study"]["environment"] if e["label"] == cell.environment)
    options = {name: value for name, value in entry.items() if name not in ("name", "label", "sweep")}
    environment = getattr(jv, entry["name"])(num_rounds=cell.num_rounds, **{**options, **cell.environment_settings})
    return float(environment.lower_bound)


def ratio(result: StudyResult, cell: CellResult) -> Interval:
    """Return mean regret over the bound."""
    return jv.analysis.mean_interval(sample(cell).final / bound(result, cell))


def _cell(result: StudyResult, algorithm: str, environment: str, **settings: float) -> CellResult | None:
    found = [
        cell
        for cell in result.cells
        if (cell.algorithm, cell.environment) == (algorithm, environment)
        and dict(cell.environment_settings) == settings
    ]
    return found[0] if found else None


def _ratio_of(result: StudyResult, algorithm: str, environment: str, **settings: float) -> Interval | None:
    cell = _cell(result, algorithm, environment, **settings)
    return None if cell is None else ratio(result, cell)


def _problems(
    cube: StudyResult, budget: StudyResult, blocks: StudyResult
) -> tuple[tuple[str, StudyResult, str, dict[str, float]], ...]:
    """Return the problems with gap multiplier 1, where the bound is proved: title, study, environment, setting."""
    return (
        ("hypercube", cube, "hypercube", {"gap_multiplier": 1.0}),
        ("budget, level 0.2", budget, "budget", {"level": 0.2}),
        ("budget, level 1", budget, "budget", {"level": 1.0}),
        ("blocks", blocks, "blocks", {"gap_multiplier": 1.0}),
    )


def _bounds(*results: StudyResult) -> Table:
    rows = []
    for title, result, label, setting in _problems(*results):
        cell = _cell(result, UNIFORM, label, **setting)
        assert cell is not None  # every study has uniform play
        least, played = bound(result, cell), jv.analysis.mean_interval(sample(cell).final)
        rows.append((title, least, 2 * least, played))
    caption = f"The lower bounds, and uniform play: exactly, and as measured ({_seeds(*results)}, 95 % t intervals)."
    columns = (
        Column("instance"),
        Column("lower bound", "number"),
        Column("uniform play, exactly", "number"),
        Column("uniform play, measured", "half"),
    )
    return Table(caption, columns, tuple(rows))


def _literal(*results: StudyResult) -> Table:
    problems = _problems(*results)
    rows = [
        (name, *(_ratio_of(result, name, label, **setting) for _, result, label, setting in problems))
        for name in results[0].algorithms
    ]
    caption = (
        f"Mean regret over the lower bound at gap multiplier 1, {_seeds(*results)}, with 95 % t intervals. No "
        "algorithm can be below 1 in expectation; uniform play is at 2 and the worst play at 4."
    )
    columns = (Column("algorithm"), *(Column(title, "half") for title, *_ in problems))
    return Table(caption, columns, tuple(rows))


def _gaps(cube: StudyResult, blocks: StudyResult) -> Table:
    multipliers = _values(cube, "hypercube", "gap_multiplier")
    in_blocks = _values(blocks, "blocks", "gap_multiplier")[1:]
    slopes = {slope.algorithm: slope.slope for slope in jv.analysis.slopes_in(cube, "gap_multiplier")}
    rows = [
        (
            name,
            *(_ratio_of(cube, name, "hypercube", gap_multiplier=g) for g in multipliers),
            slopes[name],
            *(_ratio_of(blocks, name, "blocks", gap_multiplier=g) for g in in_blocks),
        )
        for name in cube.algorithms
    ]
    caption = (
        f"Mean regret over the bound of gap multiplier 1, as the gaps grow, {_seeds(cube, blocks)}, with 95 % t "
        "intervals; exponents in the gap multiplier with 95 % bootstrap intervals. Uniform play grows with exponent 1."
    )
    columns = (
        Column("algorithm"),
        *(Column(f"hypercube, gaps x{g:g}", "half") for g in multipliers),
        Column("exponent", "ends"),
        *(Column(f"blocks, gaps x{g:g}", "half") for g in in_blocks),
    )
    return Table(caption, columns, tuple(rows))


def _budget(budget: StudyResult) -> Table:
    levels = _values(budget, LARGER, "level")
    slopes = {s.algorithm: s.slope for s in jv.analysis.slopes_in(budget, "level") if s.environment == LARGER}
    rows = [
        (name, *(_ratio_of(budget, name, LARGER, level=level) for level in levels), slopes[name])
        for name in budget.algorithms
    ]
    total, gaps = _option(budget, "budget"), _option(budget, "gap_multiplier")
    titles = [f"level {level:g}, {round(total / level**2):,} rounds" for level in levels]
    caption = (
        f"The budget {total:g} of variance spent in few noisy rounds or in many quiet ones, at gap multiplier "
        f"{gaps:g}: mean regret over the bound, {_seeds(budget)}, with 95 % t intervals; exponents in the level with "
        "95 % bootstrap intervals, 0 where only the budget matters."
    )
    columns = (Column("algorithm"), *(Column(title, "half") for title in titles), Column("exponent", "ends"))
    return Table(caption, columns, tuple(rows))


def _drops(cube: StudyResult) -> Table:
    """Predict when SAVE can tell the best corner from the worst."""
    study = cube.config["study"]
    cube_dim, num_rounds = study["environment"][0]["cube_dim"], cube.cells[0].num_rounds
    save = next(entry for entry in study["algorithm"] if entry["name"] == "save")
    known = {name: save[name] for name in ("noise_bound", "delta")}
    rows = []
    for multiplier in _values(cube, "hypercube", "gap_multiplier"):
        gap = 2 * cube_dim * multiplier / math.sqrt(96 * num_rounds)
        ends = [
            first_drop(gap, constants, cube_dim, num_rounds, **known)
            for constants in (jv.constants.practical(), jv.constants.paper())
        ]
        rows.append((f"x{multiplier:g}", gap, *(float(f"{end:.2e}") for end in ends)))
    caption = (
        f"On the hypercube of {num_rounds:,} rounds: the gap between the best and the worst corner, and the round in "
        "which SAVE drops the worst one, predicted from its radius and from the law by which its layers become full."
    )
    columns = (
        Column("gaps"),
        Column("largest gap", "number"),
        Column("SAVE (practical), round", "number"),
        Column("SAVE (paper), round", "number"),
    )
    return Table(caption, columns, tuple(rows))


def _option(budget: StudyResult, name: str) -> float:
    """Return an option of the environment with the larger gaps."""
    (entry,) = (e for e in budget.config["study"]["environment"] if e["label"] == LARGER)
    return float(entry[name])


def _values(result: StudyResult, environment: str, parameter: str) -> list[float]:
    cells = [cell for cell in result.cells if cell.environment == environment]
    return sorted({float(cell.environment_settings[parameter]) for cell in cells})


def _seeds(*results: StudyResult) -> str:
    samples = [sample(cell) for result in results for cell in result.cells]
    return seeds_text([len(s.seeds) for s in samples], sum(s.left_out for s in samples))


def _draw(cube: StudyResult, budget: StudyResult, blocks: StudyResult) -> Drawing:
    look = looks(cube.algorithms)
    drawn = (
        (cube, "hypercube", "gap_multiplier", "gap multiplier", "hypercube"),
        (blocks, "blocks", "gap_multiplier", "gap multiplier", "blocks of three levels"),
        (budget, LARGER, "level", "noise level", f"fixed budget, gaps x{_option(budget, 'gap_multiplier'):g}"),
    )
    handles: dict[str, Any] = {}
    with style():
        grid = panels(len(drawn), "neurips", least=1.6, height=2.2, sharey=True)
        for axis, (result, environment, parameter, title, name) in zip(grid.axes, drawn, strict=True):
            values = _values(result, environment, parameter)
            for i, algorithm in enumerate(result.algorithms):
                ratios = [_ratio_of(result, algorithm, environment, **{parameter: value}) for value in values]
                shift = 1 + 0.025 * (i - len(result.algorithms) / 2)  # so that intervals do not hide each other
                handles[algorithm] = _points(axis, [shift * value for value in values], ratios, look[algorithm])
            handles["the bound"] = axis.axhline(1.0, color="black", linewidth=1.4)
            axis.set(xscale="log", yscale="log", xlabel=title)
            axis.set_xticks(values, [f"{value:g}" for value in values])
            axis.minorticks_off()
            axis.axhline(2.0, color=GREY, linewidth=0.6, linestyle=(0, (1, 1)))
            grid.title(axis, name)
        order = [*look, "the bound"]
        caption = (
            f"Mean regret over the lower bound of gap multiplier 1, {_seeds(cube, budget, blocks)}, with 95 % t "
            "intervals; points of one value are shifted to be seen. At multiplier 1 uniform play is on the dotted "
            f"line. {constants_text(cube.cells)}"
        )
        return finish(
            grid.figure, [handles[name] for name in order], order, caption, ylabel="regret over the lower bound"
        )


def _points(axis: Any, values: Sequence[float], ratios: Sequence[Interval | None], look: Any) -> Any:
    shown = [(value, one) for value, one in zip(values, ratios, strict=True) if one is not None]
    return axis.errorbar(
        [value for value, _ in shown],
        [one.estimate for _, one in shown],
        yerr=[one.half for _, one in shown],
        color=look.colour,
        linestyle=look.dash,
        marker=look.marker,
        linewidth=0.8,
        capsize=1.5,
    )
