"""The audit: the paper's statements confronted with data, how often each fails, and by how much it holds.

Below are the cases that ``jaxvar audit`` plays, the verb itself, and its outcome as figures and as one HTML page.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import io
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import jax
import tyro

from jaxvar import constants as presets
from jaxvar import parameters, random
from jaxvar.algorithms.save import save
from jaxvar.algorithms.ucrl_ave import ucrl_ave
from jaxvar.analysis.panels import grouped
from jaxvar.commands import OrNone
from jaxvar.environments import noise
from jaxvar.environments.linear_bandit import linear_bandit
from jaxvar.environments.random_mdp import mixture_mdp
from jaxvar.exit_codes import DONE, FAILED, exit_code
from jaxvar.figures.look import SMALL, VERMILION, Width, looks, style, wrap
from jaxvar.figures.style import Drawing, finish, panels
from jaxvar.figures.style import save as save_figure
from jaxvar.files import write_whole
from jaxvar.report.markup import render
from jaxvar.study.factories import error_at, in_precision
from jaxvar.theory import bandit, martingales, mixture, one_layer, sharp_layer
from jaxvar.theory import reference_ridge as layers
from jaxvar.theory.bandit import audit_save
from jaxvar.theory.martingales import STREAMS, Draw, Past, Stream, audit_stream
from jaxvar.theory.mixture import audit_ucrl_ave
from jaxvar.theory.one_layer import audit_layer
from jaxvar.theory.sharp_layer import Filled, audit_sharp
from jaxvar.theory.statement import (
    LEAST_SEEDS,
    Example,
    Finding,
    Outcome,
    Statement,
    counterexamples,
    load_statements,
    promised,
    table,
)

__all__ = [
    "STREAMS",
    "Draw",
    "Example",
    "Filled",
    "Finding",
    "Outcome",
    "Past",
    "Statement",
    "Stream",
    "audit_layer",
    "audit_save",
    "audit_sharp",
    "audit_stream",
    "audit_ucrl_ave",
    "counterexamples",
    "table",
]

Run = Callable[[], list[Finding]]
GROUPS = ("martingales", "layer", "save", "episodes", "sharp")
DEEP = 6  # the layer that is filled by itself
_FILL = 34  # its updates for each round of the other groups
_EPISODE = 10  # rounds of the other groups for each episode, and steps in it
_SCRIPTS = ("tables.js", "theme.js")
_CLAIMS = {"holds": "holds", "fails": "fails as printed", "open": "not proved as it stands"}
_ROOM = 2.4  # inches for the titles of statements in a figure
_FLOOR = 1e-6  # smaller ratios are drawn here
_SPENT = 10  # episodes get a tenth of delta: their theorem spends it some sixty times


@dataclasses.dataclass(frozen=True)
class Audit:
    """Judge the paper's statements on simulated runs; exit code 1 where one that should hold is broken."""

    seeds: int = 2000
    """Seeds of every case, at least 200."""
    rounds: int = 2000
    """Rounds of every seed; a tenth as many episodes, and 34 times as many updates of the layer that is filled."""
    out: OrNone[Path] = None
    """Folder for tables (text, CSV, LaTeX), figures and the page; nothing is written if not given."""
    statements: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]", help_behavior_hint="")] = ()
    """Groups (martingales, layer, save, episodes, sharp) or names of statements; all if not given."""
    delta: float = 0.1
    """The failure probability that is promised; episodes get a tenth of it."""
    seed_key: int = 0
    """Root of all random numbers."""
    progress: bool = True
    """Show a progress bar."""


def cases(size: Audit) -> list[tuple[str, Run]]:
    """Check the options; return group and run of all cases with a wanted group or statement, all if none is named."""
    parameters.check_count("seeds", size.seeds, low=LEAST_SEEDS)
    parameters.check_count("rounds", size.rounds, low=_EPISODE)
    parameters.check_number("delta", size.delta, low=0, high=1, low_open=True, high_open=True)
    parameters.check_count("seed_key", size.seed_key, low=0, high=2**32 - 1)
    known, wanted = keys(), size.statements
    for name in wanted:
        parameters.check_choice("statements", name, (*GROUPS, *sorted(set().union(*known.values()))))
    makers = dict(zip(GROUPS, (_streams, _layer, _save, _episodes, _sharp), strict=True))
    chosen = [g for g in GROUPS if not wanted or g in wanted or known[g] & set(wanted)]
    return [(group, run) for group in chosen for run in makers[group](size)]


def keys() -> dict[str, set[str]]:
    """Return the names of the statements of each group."""
    names = (martingales.GROUP, one_layer.GROUP, bandit.GROUP, mixture.GROUP, sharp_layer.GROUP)
    radii = dict.fromkeys(GROUPS, tuple(layers.judged("bandit"))) | {"sharp": sharp_layer.NAMES}
    return {
        group: {s.key for s in load_statements(name, delta=0.1, radii=radii[group])}
        for group, name in zip(GROUPS, names, strict=True)
    }


def _key(size: Audit, group: str) -> jax.Array:
    """Return the root key of a group."""
    return random.fold_in(jax.random.key(size.seed_key), GROUPS.index(group))


def _streams(size: Audit) -> list[Run]:
    run = functools.partial(audit_stream, num_seeds=size.seeds, num_rounds=size.rounds, delta=size.delta)
    key = _key(size, "martingales")
    return [functools.partial(run, stream, key=random.fold_in(key, i)) for i, stream in enumerate(martingales.STREAMS)]


def _layer(size: Audit) -> list[Run]:
    sizes = functools.partial(audit_layer, num_seeds=size.seeds, num_rounds=_FILL * size.rounds, delta=size.delta)
    return [functools.partial(sizes, key=_key(size, "layer"), number=DEEP)]


def played(setting: str) -> dict[str, tuple[presets.RadiusConstants, bool]]:
    """Return the radii to play with and whether each is proved; they have no labels, so that programs are shared."""
    radii = {
        "paper": (presets.paper(setting=setting), True),
        "tight": (presets.tight(), True),
        "practical": (presets.practical(setting=setting), False),
    }
    return {n: (dataclasses.replace(c, label="audited", setting="any"), proved) for n, (c, proved) in radii.items()}


def _save(size: Audit) -> list[Run]:
    made: list[Run] = []
    for name, std, bound in (("loud", 0.3, 1.0), ("quiet", 0.003, 0.01)):
        environment = linear_bandit(2, 8, noise=noise.sparse(std, bound))
        for radius, (constants, is_proved) in played("bandit").items():
            algorithm = save(2, size.rounds, noise_bound=bound, delta=size.delta, constants=constants, capacity=6)
            run = functools.partial(audit_save, algorithm, environment, num_seeds=size.seeds, num_rounds=size.rounds)
            case, key = f"{name} noise, {radius} radius", _key(size, "save")
            made.append(functools.partial(run, case=case, key=key, is_proved=is_proved))
    return made


def _episodes(size: Audit) -> list[Run]:
    made: list[Run] = []
    environment = mixture_mdp(4, 2, 2, _EPISODE, concentration=0.5)
    for radius, (constants, is_proved) in played("episodes").items():
        num = size.rounds // _EPISODE
        delta, bound = size.delta / _SPENT, environment.norm_bound
        algorithm = ucrl_ave(2, _EPISODE, num, norm_bound=bound, delta=delta, constants=constants, capacity=6)
        run = functools.partial(audit_ucrl_ave, algorithm, environment, num_seeds=size.seeds, num_episodes=num)
        case, key = f"random mixture, {radius} radius", _key(size, "episodes")
        made.append(functools.partial(run, case=case, key=key, is_proved=is_proved))
    return made


def _sharp(size: Audit) -> list[Run]:
    run = functools.partial(audit_sharp, num_seeds=size.seeds, num_rounds=size.rounds, delta=size.delta)
    key = _key(size, "sharp")
    return [functools.partial(run, filled, key=random.fold_in(key, i)) for i, filled in enumerate(sharp_layer.cases())]


@exit_code
def audit_command(options: Audit) -> int:
    """Run the audit, print and write its outcome, and return an exit code."""
    outcome = audit(options)
    for group in outcome.groups:
        print(table(outcome, group).text())
    found = counterexamples(outcome)
    if found is not None:
        print(found.text())
    print(outcome.summary())
    if options.out is not None:
        for path in write(outcome, options.out):
            print(path)
    for f in outcome.broken:
        example = "" if f.example is None else f" ({f.example.text()})"
        print(f"broken: {f.group}, {f.case}: {f.statement.title}{example}", file=sys.stderr)
    return FAILED if outcome.broken else DONE


def audit(options: Audit) -> Outcome:
    """Run the cases that were asked for, in float64: identities are judged to eight digits."""
    from tqdm import tqdm

    findings = []
    with in_precision("float64"):
        with error_at():
            chosen = cases(options)
        with tqdm(total=len(chosen), unit="case", disable=not options.progress) as bar:
            for group, run in chosen:
                bar.set_description(group)
                some = run()
                if options.statements and group not in options.statements:
                    some = [f for f in some if f.statement.key in options.statements]
                findings += some
                bar.update()
    size = f"{options.seeds:,} seeds, {options.rounds:,} rounds"
    about = f"{size}, delta {options.delta:g}, key {options.seed_key}."
    return Outcome(tuple(findings), about)


def write(outcome: Outcome, out: Path) -> list[Path]:
    """Write tables, figures and the page, each whole or not at all, and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for group in outcome.groups:
        stem = out / f"audit-{_id(group)}"
        made = table(outcome, group)
        paths += [made.save(stem.with_suffix(ending)) for ending in (".txt", ".csv", ".tex")]
        if any(f.slack for f in outcome.of(group)):
            paths += save_figure(slack_figure(outcome, group), stem)
            paths += sorted(out.glob(f"{stem.name}.caption.*"))
    found = counterexamples(outcome)
    if found is not None:
        paths.append(found.save(out / "counterexamples.csv"))
    written = page(outcome).encode("utf-8")
    return [*paths, write_whole(out / "audit.html", lambda file: file.write(written))]


def slack_figure(outcome: Outcome, group: str, *, width: Width = "neurips") -> Drawing:
    """Draw quantiles over seeds of the largest observed / bound of every statement of a group, one colour per case."""
    found = [f for f in outcome.of(group) if f.slack]
    if not found:
        raise ValueError(f"nothing was judged in {group!r}")
    by_key = grouped(found, lambda f: f.statement.key)
    cases = list(dict.fromkeys(f.case for f in found))
    look, handles = looks(cases), {}
    step = 0.8 / len(cases)
    with style():
        grid = panels(1, width, height=0.6 + len(by_key) * max(0.2, 0.075 * len(cases)))
        axis = grid.axes[0]
        for row, some in enumerate(by_key.values()):
            for f in some:
                at = row + (cases.index(f.case) - (len(cases) - 1) / 2) * step
                low, near, high = (max(x, _FLOOR) for x in f.slack)
                mine = look[f.case]
                axis.plot([low, high], [at, at], color=mine.colour, linewidth=1.0)
                axis.plot([low], [at], color=mine.colour, marker="|", markersize=3)
                (handles[f.case],) = axis.plot([near], [at], color=mine.colour, marker=mine.marker, linestyle="none")
        axis.axvline(1, color=VERMILION, linewidth=0.9, linestyle=(0, (4, 2)))
        names = [
            "\n".join(wrap(grid.figure, some[0].statement.title, _ROOM, SMALL, most=2)) for some in by_key.values()
        ]
        axis.set_yticks(range(len(by_key)), names)
        axis.set(xscale="log", ylim=(len(by_key) - 0.4, -0.6), xlabel="observed / bound")
        caption = (
            f"{group[0].upper()}{group[1:]}: the largest observed / bound over all rounds, from its median over seeds "
            "(bar) to its maximum (end), with the 99 % quantile (symbol); right of the dashed line a seed breaks the "
            f"statement. Ratios below {_FLOOR:g} are drawn there. {outcome.about}"
        )
        return finish(grid.figure, [handles[c] for c in cases], cases, caption)


def page(outcome: Outcome) -> str:
    """Return the whole page as text: nothing is fetched from anywhere."""
    groups = []
    for group in outcome.groups:
        found = outcome.of(group)
        cases = list(dict.fromkeys(f.case for f in found))
        rows = [
            {
                "setting": cases.index(f.case),
                "found": f,
                "verdict": outcome.verdict(f),
                "promised": promised(f),
                "claim": _CLAIMS[f.statement.claim],
                "slack": ", ".join(f"{x:.3g}" for x in f.slack),
            }
            for f in found
        ]
        notes = dict.fromkeys(f"{f.statement.title}: {f.statement.note}." for f in found if f.statement.note)
        groups.append({"key": _id(group), "name": group, "cases": cases, "rows": rows, "notes": notes})
    shown = None
    if (failed := counterexamples(outcome)) is not None:
        shown = {
            "caption": failed.caption,
            "columns": [(column.title.capitalize(), "", "name") for column in failed.columns],
            "rows": [{"setting": 0, "entries": row} for row in failed.rows],
        }
    return render(
        "audit.html",
        _SCRIPTS,
        headings={_id(group): group[0].upper() + group[1:] for group in outcome.groups},
        outcome=outcome,
        groups=groups,
        figures={_id(g): _figure(outcome, g) for g in outcome.groups if any(f.slack for f in outcome.of(g))},
        counterexamples=shown,
    )


def _figure(outcome: Outcome, group: str) -> dict[str, object]:
    """Return the slack figure as a picture inside the page."""
    drawing, buffer = slack_figure(outcome, group), io.BytesIO()
    with style():
        drawing.figure.savefig(buffer, format="png", dpi=160, metadata={"Software": None})
    width, height = (math.ceil(96 * 1.4 * x) for x in drawing.figure.get_size_inches())
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"data": data, "caption": drawing.caption, "width": width, "height": height}


def _id(group: str) -> str:
    return group.lower().replace(" ", "-")
