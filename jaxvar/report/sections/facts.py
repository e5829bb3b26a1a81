"""Title, question, and what was played, in one paragraph."""

from __future__ import annotations

from jaxvar.analysis.captions import constants_text
from jaxvar.analysis.sample import span
from jaxvar.analysis.speed import speed
from jaxvar.report.digits import duration, plain
from jaxvar.report.grid import Grid
from jaxvar.report.markup import Html, join, label, tag


def header(grid: Grid) -> Html:
    """The head of the page."""
    result = grid.result
    button = tag("button", "Dark", type="button", class_="theme", hidden=True)
    question = tag("p", label(result.question), class_="question") if result.question else Html()
    return tag(
        "header",
        tag("div", tag("span", "jaxvar study"), button, class_="eyebrow"),
        tag("h1", label(result.name)),
        question,
        tag("p", *_sentences(grid)) if grid.places else tag("p", "The study has no cells yet."),
    )


def _sentences(grid: Grid) -> list[Html]:
    cells = [place.cell for place in grid.places]
    unit = grid.result.unit
    size = (
        f": {_count(len(cells), 'cell')}, each with {span(len(c.seeds) for c in cells)} seeds of "
        f"{span(c.num_rounds for c in cells)} {unit}s, recorded at {span(len(c.rounds) for c in cells)} of them. "
    )
    where = f"{_count(len(grid.curves), 'algorithm')} in {_count(len(grid.settings), 'setting')} of "
    named = join([label(name) for name in grid.result.environments], ", ")
    return [
        join([where, named, size]),
        join([_failures(grid)]),
        _constants(grid),
        _pairing(grid),
        join([_effort(grid)]),
    ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _failures(grid: Grid) -> str:
    failed = sum(len(p.cell.seeds) - p.well for p in grid.places)
    if failed == 0:
        return "No seed failed. "
    runs = sum(len(p.cell.seeds) for p in grid.places)
    return f"{failed:,} of {runs:,} runs failed and are left out of every number below. "


def _constants(grid: Grid) -> Html:
    """Which constants, and whose."""
    return join([label(constants_text(place.cell for place in grid.places)), " "])


def _pairing(grid: Grid) -> Html:
    same = "A seed meets the same problem, arms and noise whichever algorithm plays"
    if grid.result.reference is None:
        return join([same, ". "])
    return join([same, ", and differences are taken seed by seed against ", label(grid.result.reference), ". "])


def _effort(grid: Grid) -> str:
    played = [speed(place.cell) for place in grid.places]
    seconds = sum(s.seconds for s in played)
    total = sum(s.seeds * s.rounds for s in played)
    took = f" in {duration(seconds)}, compilation left out" if seconds > 0 else ""
    return f"{plain(total)} seed-{grid.result.unit}s were played{took}."
