"""The audit: the paper's statements confronted with data, how often each fails, and by how much it holds.

Below are the cases that ``jaxvar audit`` plays, and the verb itself.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from pathlib import Path

import jax

from jaxvar import constants as presets
from jaxvar import parameters, random
from jaxvar.algorithms.save import save
from jaxvar.algorithms.ucrl_ave import ucrl_ave
from jaxvar.environments import noise
from jaxvar.environments.linear_bandit import linear_bandit
from jaxvar.environments.random_mdp import mixture_mdp
from jaxvar.figures.style import save as save_figure
from jaxvar.study.factories import in_precision
from jaxvar.theory import bandit, martingales, mixture, one_layer
from jaxvar.theory import reference_ridge as layers
from jaxvar.theory.audit_page import slack_figure, write_page
from jaxvar.theory.bandit import audit_save
from jaxvar.theory.martingales import STREAMS, Draw, Past, Stream, audit_stream
from jaxvar.theory.mixture import audit_ucrl_ave
from jaxvar.theory.one_layer import audit_layer
from jaxvar.theory.statement import (
    LEAST_SEEDS,
    Example,
    Finding,
    Outcome,
    Statement,
    counterexamples,
    load_statements,
    table,
)

__all__ = [
    "STREAMS",
    "Draw",
    "Example",
    "Finding",
    "Outcome",
    "Past",
    "Statement",
    "Stream",
    "audit_layer",
    "audit_save",
    "audit_stream",
    "audit_ucrl_ave",
    "counterexamples",
    "table",
]

HELD, BROKEN, USAGE = 0, 1, 2

Run = Callable[[], list[Finding]]
GROUPS = ("martingales", "layer", "save", "episodes")
DEEP = 6  # the layer that is filled by itself
_FILL = 34  # its updates for each round of the other groups
_EPISODE = 10  # rounds of the other groups for each episode, and steps in it
_SPENT = 10  # episodes get a tenth of delta: their theorem spends it some sixty times


@dataclasses.dataclass(frozen=True)
class Audit:
    """Judge the paper's statements on simulated runs; exit code 1 where one that should hold is broken."""

    seeds: int = 2000
    """Seeds of every case, at least 200."""
    rounds: int = 2000
    """Rounds of every seed; a tenth as many episodes, and 34 times as many updates of the layer that is filled."""
    out: Path | None = None
    """Folder for tables (text, CSV, LaTeX), figures and the page; nothing is written if not given."""
    statements: tuple[str, ...] = ()
    """Groups (martingales, layer, save, episodes) or names of statements; all if not given."""
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
    makers = dict(zip(GROUPS, (_streams, _layer, _save, _episodes), strict=True))
    chosen = [g for g in GROUPS if not wanted or g in wanted or known[g] & set(wanted)]
    return [(group, run) for group in chosen for run in makers[group](size)]


def keys() -> dict[str, set[str]]:
    """Return the names of the statements of each group."""
    groups = zip(GROUPS, (martingales.GROUP, one_layer.GROUP, bandit.GROUP, mixture.GROUP), strict=True)
    radii = layers.judged("bandit")
    return {group: {s.key for s in load_statements(name, delta=0.1, radii=radii)} for group, name in groups}


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


def audit_command(options: Audit) -> int:
    """Run the audit, print and write its outcome, and return an exit code."""
    try:
        outcome = audit(options)
    except ValueError as error:
        print(f"jaxvar: {error}", file=sys.stderr)
        return USAGE
    for group in outcome.groups:
        print(table(outcome, group).text())
    found = counterexamples(outcome)
    if found is not None:
        print(found.text())
    print(outcome.summary())
    if options.out is not None:
        try:
            for path in write(outcome, options.out):
                print(path)
        except OSError as error:
            print(f"jaxvar: {error.strerror or error}: {error.filename or options.out}", file=sys.stderr)
            return BROKEN
    for f in outcome.broken:
        example = "" if f.example is None else f" ({f.example.text()})"
        print(f"broken: {f.group}, {f.case}: {f.statement.title}{example}", file=sys.stderr)
    return BROKEN if outcome.broken else HELD


def audit(options: Audit) -> Outcome:
    """Run the cases that were asked for, in float64: identities are judged to eight digits."""
    from tqdm import tqdm

    findings = []
    with in_precision("float64"):
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
        stem = out / f"audit-{group.lower().replace(' ', '-')}"
        made = table(outcome, group)
        paths += [made.save(stem.with_suffix(ending)) for ending in (".txt", ".csv", ".tex")]
        if any(f.slack for f in outcome.of(group)):
            paths += save_figure(slack_figure(outcome, group), stem)
    found = counterexamples(outcome)
    if found is not None:
        paths.append(found.save(out / "counterexamples.csv"))
    return [*paths, write_page(outcome, out / "audit.html")]
