"""A study's result as one self-contained HTML page: header, sections and configuration."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
from collections.abc import Mapping
from pathlib import Path
from string import Template

import numpy as np

from jaxvar.analysis.captions import constants_text, span
from jaxvar.analysis.panels import Grid
from jaxvar.analysis.summaries import speed
from jaxvar.files import write_whole
from jaxvar.report import sections
from jaxvar.report.markup import Html, duration, embed, join, label, plain, tag, text
from jaxvar.report.regret import Curves
from jaxvar.report.sections import Section
from jaxvar.study.result import StudyResult

_ASSETS = importlib.resources.files("jaxvar.report") / "assets"
_SCRIPTS = ("numbers.js", "chart.js", "tables.js", "theme.js")
_OUTLINE_WIDTH = 100
_REPEAT = """\
import json, jaxvar as jv

study = jv.Study.from_config(json.load(open("study.json")))
jv.run_study(study, "again")"""


def page(result: StudyResult) -> str:
    """Return the whole page as text, with styles, scripts and data inside: it loads nothing else."""
    from jaxvar import __version__

    grid = Grid.of(result)
    curves = Curves(grid)
    found = [
        curves.section(),
        sections.final_section(grid),
        sections.exponents_section(grid),
        sections.coverage_section(grid),
        sections.layers_section(grid),
        sections.speed_section(grid),
        sections.failures_section(grid),
        _configuration(result.config, __version__),
    ]
    shown = [section for section in found if section is not None]
    links = [tag("li", tag("a", section.heading, href=f"#{section.key}")) for section in shown]
    contents = tag("nav", tag("ul", *links), aria_label="Contents")
    body = tag("main", _header(grid), contents, *(section.html() for section in shown))
    return document(f"jaxvar study: {result.name}", body, embed(curves.data()), _SCRIPTS)


def document(title: str, body: Html, data: Html, scripts: tuple[str, ...]) -> str:
    """Return a whole page around ``body``, with our style sheet, the named ``scripts``, and ``data`` for them."""
    from jaxvar import __version__

    style = _asset("report.css")
    script = "".join(map(_asset, scripts))
    return Template(_asset("page.html")).substitute(
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        version=text(__version__),
        title=text(title),
        style=style,
        body=body,
        data=data,
        script=script,
    )


def write_page(result: StudyResult, path: str | Path) -> Path:
    """Write the page to ``path``; if anything fails, an older file stays as it was."""
    written = page(result).encode("utf-8")
    return write_whole(Path(path), lambda file: file.write(written))


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def _hash(source: str) -> str:
    """Return the hash by which the browser recognises a style sheet or script of ours."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode('utf-8')).digest()).decode()}'"


def _header(grid: Grid) -> Html:
    """Return title and question, and a paragraph on what was played."""
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
    """Return sentences on the size of the study, failed seeds, constants, pairing and time."""
    result, unit = grid.result, grid.result.unit
    cells = [place.cell for place in grid.places]
    where = f"{_count(len(grid.curves), 'algorithm')} in {_count(len(grid.settings), 'setting')} of "
    size = (
        f": {_count(len(cells), 'cell')}, each with {span(len(c.seeds) for c in cells)} seeds and "
        f"{span(c.num_rounds for c in cells)} {unit}s, {span(len(c.rounds) for c in cells)} of them recorded. "
    )
    runs = sum(len(cell.seeds) for cell in cells)
    failed = runs - sum(place.well for place in grid.places)
    failures = f"{failed:,} of {runs:,} runs failed and are left out of every number below. "
    pairing = ["All algorithms meet the same problem, arms and noise in the same seed"]
    if result.reference is not None:
        pairing += [", and differences are taken seed by seed against ", label(result.reference)]
    played = [speed(cell) for cell in cells]
    seconds = sum(s.seconds for s in played)
    took = f" in {duration(seconds)}, without compilation" if seconds > 0 else ""
    return [
        join([where, join([label(name) for name in result.environments], ", "), size]),
        text(failures if failed else "No seed failed. "),
        join([label(constants_text(cells)), " "]),
        join([*pairing, ". "]),
        text(f"{plain(sum(s.seeds * s.rounds for s in played))} seed-{unit}s were played{took}."),
    ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _configuration(config: Mapping[str, object], version: str) -> Section:
    """Return the section on how to repeat and cite the study, with its whole configuration."""
    parts = []
    if isinstance(config.get("study"), Mapping):
        parts += [
            tag("pre", outline(config["study"]), tabindex=0, id="study-definition"),
            tag("p", "To repeat the study, save the text above as ", tag("code", "study.json"), " and run"),
            tag("pre", _REPEAT, tabindex=0),
        ]
    runs = config.get("runs")
    if isinstance(runs, list | tuple) and runs and isinstance(runs[-1], Mapping):
        told = ", ".join(f"{name} {value}" for name, value in runs[-1].items())
        parts.append(tag("p", "It was last run with ", label(told), "."))
    everything = tag("summary", "run.json: cells with every argument, versions and devices, checksums")
    identity = f", study {config['study_hash']}" if "study_hash" in config else ""
    parts += [
        tag("details", everything, tag("pre", outline(config), tabindex=0)),
        sections.note("To cite: ", label(f"The jaxvar developers, jaxvar {version}{identity}.")),
    ]
    return Section("configuration", "Configuration", parts)


def outline(value: object, indent: str = "") -> str:
    """Return ``value`` as JSON for readers: what fits on a line stays on one line."""
    flat = json.dumps(value, ensure_ascii=False, default=_plain)
    inner = indent + "  "
    if len(indent) + len(flat) <= _OUTLINE_WIDTH or not value or not isinstance(value, Mapping | list | tuple):
        return flat
    if isinstance(value, Mapping):
        parts = [f"{inner}{json.dumps(str(k), ensure_ascii=False)}: {outline(v, inner)}" for k, v in value.items()]
    else:
        parts = [inner + outline(v, inner) for v in value]
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    return opening + "\n" + ",\n".join(parts) + f"\n{indent}{closing}"


def _plain(value: object) -> object:
    """Convert what JSON does not know: mappings to tables, NumPy's numbers to numbers, the rest to text."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
